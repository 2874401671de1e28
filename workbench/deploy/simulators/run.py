"""One simulator run: working folder, process, outputs and report."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.deploy.simulators import compatibility, counters, discovery, process
from workbench.deploy.simulators.counters import Reading, Trace, read_trace
from workbench.deploy.simulators.log_parser import UartReader
from workbench.deploy.simulators.process import Ending, Hooks, execute
from workbench.errors import Place, WorkbenchError, failure
from workbench.files import MAX_PROGRAM_BYTES, read_limited
from workbench.npz import open_npz
from workbench.results.simulation import Diagnosis, Pool, SimulationReport
from workbench.text import plural

if TYPE_CHECKING:
    from workbench.deploy.simulators.compatibility import Program, RunnerElf
    from workbench.deploy.simulators.discovery import Device, Installed


Array = np.ndarray[Any, Any]
Sample = tuple[Array, ...]


@dataclass(frozen=True)
class Job:
    """One program with its runner, simulator and samples.

    ``trace`` records the cycles of each operation; a functional run (``fast``) has none.
    """

    installed: Installed
    runner: RunnerElf
    program: Program
    device: Device
    samples: Sequence[Sample]
    fast: bool = False
    trace: bool = False
    timeout_s: float = 600.0
    address: int | None = None

    @property
    def reads_files(self) -> bool:
        """Whether the runner reads inputs from files and writes outputs to files."""
        return self.runner.placement != "bare" and self.address is None

    @property
    def serves(self) -> bool:
        """Whether all samples run in one start.

        A simulator in server mode is terminated from outside, which would truncate its trace and
        the runner's events.
        """
        many = len(self.samples) > 1 and self.reads_files
        return self.runner.serves and many and not self.traces and not self.runner.records

    @property
    def traces(self) -> bool:
        """Whether the cycles of each operation are recorded."""
        return self.trace and not self.fast


def read_samples(files: Sequence[Path], specs: Sequence[dict[str, Any]]) -> list[Sample]:
    """Return the samples in files: one ``.npy`` or raw ``.bin`` per input, or one ``.npz``.

    An array has the input's shape, or several of them stacked along its first axis.

    Args:
        files: The files, in the order of the program's inputs.
        specs: The program's inputs: ``dtype`` and ``shape``.

    Raises:
        WorkbenchError: a file is unreadable, or has the wrong type or shape.
    """
    wanted = [spec for spec in specs if spec["type"] == "tensor"]
    arrays = [pair for path in files for pair in _arrays(path)]
    if len(arrays) != len(wanted):
        raise failure(
            f"The program has {len(wanted)} inputs, but {len(arrays)} were given.",
            "Give one file per input, in order, or one .npz with one array per input.",
            Place(kind="option", id="inputs"),
            code="simulator-inputs-count",
        )
    stacks = [_stack(n, a, s) for (n, a), s in zip(arrays, wanted, strict=True)]
    counts = {len(stack) for stack in stacks}
    if len(counts) > 1:
        raise failure(
            f"The inputs have different numbers of samples: {', '.join(map(str, sorted(counts)))}.",
            "Give the same number of samples for every input.",
            Place(kind="option", id="inputs"),
            code="simulator-inputs-batch",
        )
    return list(zip(*stacks, strict=True))


def ones(specs: Sequence[dict[str, Any]]) -> Sample:
    """Return the runner's default inputs: all ones."""
    return tuple(np.ones(s["shape"], s["dtype"]) for s in specs if s["type"] == "tensor")


def as_lying(array: Array, spec: dict[str, Any]) -> Array:
    """Return values in the runtime's memory order, e.g. channels last."""
    axes = spec.get("dim_order", range(array.ndim))
    return np.ascontiguousarray(array.transpose(list(axes)))


def as_standing(values: Array, spec: dict[str, Any]) -> Array:
    """Return values from the runtime's memory order in the tensor's shape.

    Raises:
        ValueError: the number of values is wrong.
    """
    shape = list(spec["shape"])
    axes = list(spec.get("dim_order", range(len(shape))))
    lying = values.reshape([shape[axis] for axis in axes])
    return lying.transpose([axes.index(axis) for axis in range(len(axes))])


def _arrays(path: Path) -> list[tuple[str, Array]]:
    try:
        if path.suffix == ".bin":
            return [(path.name, np.frombuffer(read_limited(path, _MAX_INPUT_BYTES), np.uint8))]
        with open_npz(path) as loaded:
            if isinstance(loaded, np.ndarray):
                return [(path.name, loaded)]
            names = list(loaded.files)
            return [(f"{path.name}:{name}", loaded[name]) for name in names]
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except Exception as error:
        raise _unreadable(path, "it contains no plain arrays") from error


def _unreadable(path: Path, why: str) -> WorkbenchError:
    return failure(
        f"{path.name} cannot be read: {why}.",
        "Give .npy, .npz or raw little-endian .bin files.",
        Place(kind="file", id=str(path)),
        code="simulator-input-unreadable",
    )


def _stack(name: str, array: Array, spec: dict[str, Any]) -> list[Array]:
    """Return the samples in one array."""
    dtype, shape = np.dtype(spec["dtype"]), tuple(spec["shape"])
    elements = int(np.prod(shape))
    if not elements:
        raise _unfit(name, f"has {array.size:,} values", "none", dtype, shape)
    if name.endswith(".bin"):
        size = elements * dtype.itemsize
        if not array.size or array.size % size:
            raise _unfit(name, f"has {array.size:,} bytes", f"{size:,} a sample", dtype, shape)
        flat = array.view(dtype).reshape(-1, elements)
        return [as_standing(values, spec) for values in flat]
    if array.dtype != dtype:
        raise _unfit(name, f"is {array.dtype}", str(dtype), dtype, shape)
    if not array.size or (array.shape[1:] != shape and not _is_batch(array.shape, shape)):
        raise _unfit(name, f"has the shape {array.shape}", str(shape), dtype, shape)
    return list(array.reshape(-1, *shape))


def _is_batch(actual: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether the first axis stacks samples."""
    return len(actual) == len(shape) and actual[1:] == shape[1:] and actual[0] % shape[0] == 0


def _unfit(
    name: str, what: str, expected: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> WorkbenchError:
    return failure(
        f"{name} {what}; the program's input needs {expected}.",
        f"Give {dtype} of shape {shape}, or several stacked along the first axis.",
        Place(kind="option", id="inputs"),
        code="simulator-input-unfit",
    )


def ended_well(ending: Ending, reader: UartReader, *, serve: bool) -> bool:
    """Return whether a start completed its work."""
    if ending.by == "served":
        return True
    done = reader.completed or (serve and reader.served > 0)
    return ending.by == "itself" and ending.code == 0 and done and reader.model_ok is not False


def report_of(
    job: Job, reader: UartReader, ending: Ending, outputs: Sequence[object], notes: list[str]
) -> SimulationReport:
    """Return the report of a run."""
    succeeded = ended_well(ending, reader, serve=job.serves)
    if job.serves:
        succeeded = succeeded and len(outputs) == len(job.samples)
    measurements = reader.measurements
    simulator = job.device.simulator
    explanation = counters.explain(measurements[0], simulator, fast=job.fast) if measurements else ()
    return SimulationReport(
        simulator=simulator.binary,
        version=discovery.version_of(job.installed) if succeeded else "",
        target=job.device.target,
        fast=job.fast,
        succeeded=succeeded,
        exit_reason=_reason(job, reader, ending, succeeded=succeeded),
        exit_code=ending.code,
        samples=len(job.samples),
        measurements=measurements,
        pools=tuple(_pools(job, reader)),
        bundle=tuple(reader.bundle),
        diagnoses=tuple(_diagnoses(reader, ending)),
        explanation=explanation,
        notes=tuple(notes),
        lines=reader.lines,
        last_lines=tuple(reader.last_lines),
    )


def _pools(job: Job, reader: UartReader) -> list[Pool]:
    """Return the reported pools, and those from the ELF that were not reported."""
    untold = (p for p in job.runner.pools.items() if p[0] not in reader.pools)
    return [*reader.pools.values(), *(Pool(name=name, given=given) for name, given in untold)]


def _diagnoses(reader: UartReader, ending: Ending) -> list[Diagnosis]:
    if ending.by in {"not started", "cancelled"} or reader.runner_lines or reader.diagnoses:
        return reader.diagnoses
    nothing = Diagnosis(
        line="(the runner printed nothing)",
        cause="The simulator stopped before the first line of the runner: its installation "
        "is incomplete, or the runner failed before its serial port was set up.",
        remedy="Run the simulator with --version; then check that the runner was built for "
        "this NPU and memory mode.",
    )
    return [*reader.diagnoses, nothing]


def _reason(job: Job, reader: UartReader, ending: Ending, *, succeeded: bool) -> str:
    """Return the first applicable exit reason."""
    count, code = len(job.samples), _code(ending)
    stopped = ending.by == "timeout" or reader.out_of_time
    sentences = (
        (ending.by == "not started", f"The simulator could not be started: {ending.error}."),
        (ending.by == "cancelled", "The run was cancelled; the simulator was ended."),
        (not reader.lines, f"The simulator printed nothing.{code}"),
        (
            not reader.runner_lines and not stopped,
            f"The simulator started, but the runner printed nothing.{code}",
        ),
        (stopped, f"The simulation did not finish within {job.timeout_s:g} s and was stopped."),
        (
            succeeded and job.serves,
            (f"All {count} samples were computed in one start; the simulator was then terminated."),
        ),
        (succeeded, "The program ran to its end."),
        (reader.model_ok is False, "The program ran to its end, but the runner reported wrong outputs."),
        (reader.served > 0, f"The simulator ended after {reader.served} of {plural(count, 'sample')}.{code}"),
    )
    early = f"The simulator ended before the program had finished.{code}"
    return next((sentence for holds, sentence in sentences if holds), early)


def _code(ending: Ending) -> str:
    if not ending.code or ending.by != "itself":
        return ""
    names = {-number: number.name for number in signal.Signals}
    if ending.code in names:
        return f" It was killed by signal {-ending.code} ({names[ending.code]})."
    return f" Its exit code was {ending.code}."


# The simulator has its own time limit; it is terminated only if that fails.
_GRACE_S = 5.0
# The largest file with one raw input [bytes].
_MAX_INPUT_BYTES = 256 << 20


@dataclass
class Outcome:
    """The report, the outputs of each sample, None if not written, and the trace.

    ``invocations`` has the NPU's reads of each delegate invocation, of all samples; ``events`` are
    the ETDump data of the first sample.
    """

    report: SimulationReport
    outputs: list[list[Array | None]] = field(default_factory=list)
    invocations: list[list[Reading]] = field(default_factory=list)
    events: bytes = b""


def prepare(job: Job) -> list[str]:
    """Check compatibility before a start; return notes.

    Raises:
        WorkbenchError: incompatible; lists every reason.
    """
    discovery.check(job.installed)
    size = sum(array.nbytes for array in job.samples[0]) if job.samples else 0
    notes = compatibility.check(job.program, job.runner, job.device, size)
    bare = job.runner.placement in {"bare", "embedded"} and job.address is None
    if bare and job.program.data not in job.runner.data:
        raise failure(
            f"The runner {job.runner.path.name} has a built-in program, which is not {job.program.name}.",
            "Build it with --pte=semihosting, build it with this program, or give the "
            "address it was built for (--address).",
            Place(kind="tool", id="FVP"),
            code="program-not-in-runner",
        )
    if job.samples and not job.reads_files:
        notes.append("The runner reads no files: it uses its built-in inputs.")
    return notes


def run(
    job: Job,
    log: Path,
    cancelled: Callable[[], bool] = lambda: False,
    live: Callable[[list[str]], object] = lambda _: None,
) -> Outcome:
    """Run all samples, in one start if the runner supports it, else one start each.

    Args:
        job: The job.
        log: Path of the output log.
        cancelled: Polled many times a second.
        live: Receives the lines as they are printed.

    Raises:
        WorkbenchError: incompatible, or the disk is full.
    """
    notes = prepare(job)
    reader = UartReader()
    whole = job.serves or not job.reads_files or not job.samples
    starts = [job.samples] if whole else [[sample] for sample in job.samples]
    outputs: list[list[Array | None]] = []
    elapsed, ending, trace, events = 0.0, Ending("itself"), Trace(), b""
    for number, samples in enumerate(starts):
        part = _Start(job, reader, samples, live)
        log_file = log if number == 0 else log.with_name(f"{log.stem}-{number}{log.suffix}")
        ending = part.run(log_file, cancelled)
        elapsed += ending.elapsed_s
        outputs += part.outputs
        events = events or part.events
        trace.invocations += part.trace.invocations
        trace.problem = trace.problem or part.trace.problem
        if not ended_well(ending, reader, serve=job.serves):
            break
    missing = any(array is None for sample in outputs for array in sample)
    if ending.log_cut:
        notes.append("The log is incomplete: it exceeded its limit, or the disk is full.")
    if trace.problem:
        notes.append(trace.problem)
    report = report_of(job, reader, ending, outputs, notes)
    if report.succeeded and job.reads_files and (missing or len(outputs) < len(job.samples)):
        reason = "The program ran to its end, but not every output was written."
        report = report.model_copy(update={"succeeded": False, "exit_reason": reason})
    report = report.model_copy(update={"elapsed_s": round(elapsed, 3)})
    return Outcome(report, outputs, trace.invocations, events)


class _Start:
    """One start of the simulator, with one sample or with all of them in sequence."""

    def __init__(
        self, job: Job, reader: UartReader, samples: Sequence[Sample], live: Callable[[list[str]], object]
    ) -> None:
        self._job, self._reader, self._live = job, reader, live
        self._samples, self._serve = samples, job.serves
        specs = job.program.description["inputs"]
        self._inputs = [spec for spec in specs if spec["type"] == "tensor"]
        self._folder = Path()
        self._asked = 0
        self.outputs: list[list[Array | None]] = []
        self.trace = Trace()
        self.events = b""

    def run(self, log: Path, cancelled: Callable[[], bool]) -> Ending:
        """Run, and collect the outputs."""
        job, inputs = self._job, len(self._samples[0]) if self._samples else 0
        self._reader.completed = False
        with tempfile.TemporaryDirectory(prefix="fvp-", ignore_cleanup_errors=True) as name:
            self._folder = Path(name)
            self._fill()
            what = process.Run(
                job.device,
                job.runner.placement,
                inputs,
                fast=job.fast,
                trace=job.traces,
                serve=self._serve,
                timelimit_s=max(1, round(job.timeout_s)),
                address=job.address,
            )
            ending = execute(
                process.command(job.installed.path.absolute(), self._folder, what),
                self._folder,
                discovery.environment(job.installed.path),
                log,
                job.timeout_s + min(_GRACE_S, job.timeout_s),
                Hooks(self._text, cancelled, self._step if self._serve else None),
            )
            self._reader.close()
            if not self._serve and self._samples and job.reads_files:
                self.outputs.append(self._collect())
            if job.runner.records:
                self.events = counters.recorded(self._folder, log)
            if job.traces:
                self.trace = read_trace(self._folder / process.TRACE_FILE)
        return ending

    def _fill(self) -> None:
        try:
            (self._folder / process.PROGRAM_FILE).write_bytes(self._job.program.data)
            shutil.copyfile(self._job.runner.path, self._folder / process.RUNNER_FILE)
            if self._samples and not self._serve:
                self._write(self._samples[0])
        except OSError as error:
            raise failure(
                f"The run cannot be prepared: {error.strerror or error}.",
                "Free disk space, or set TMPDIR to another folder.",
                Place(kind="file", id=str(self._folder)),
                code="simulator-folder-not-writable",
            ) from error

    def _write(self, sample: Sample) -> None:
        for index, array in enumerate(sample):
            path = self._folder / process.input_file(index)
            path.write_bytes(as_lying(array, self._inputs[index]).tobytes())

    def _text(self, text: str) -> None:
        self._live(self._reader.feed(text))

    def _step(self) -> bytes | None:
        """Send the next sample after the previous one; None after the last."""
        if self._reader.served < self._asked:
            return b""
        if self._asked:
            self.outputs.append(self._collect())
        if self._asked == len(self._samples):
            return None
        self._write(self._samples[self._asked])
        self._asked += 1
        return b"go\n"

    def _collect(self) -> list[Array | None]:
        """Return the written outputs in the program's types, and delete their files."""
        values: list[Array | None] = []
        for index, spec in enumerate(self._job.program.description["outputs"]):
            path = self._folder / process.output_file(index)
            array = None
            if path.is_file() and "dtype" in spec:
                with contextlib.suppress(ValueError, TypeError, OSError):
                    data = read_limited(path, MAX_PROGRAM_BYTES)
                    array = as_standing(np.frombuffer(data, spec["dtype"]), spec)
                path.unlink()
            values.append(array)
        return values
