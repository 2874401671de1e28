"""One run from files to figures: a folder with short names, the process, outputs, a report."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import Place, failure
from workbench.fvp import command, etdump, finding, fit
from workbench.fvp.inputs import as_lying, as_standing
from workbench.fvp.job import Array, Job, Sample
from workbench.fvp.process import Ending, Hooks, execute
from workbench.fvp.reporting import ended_well, report_of
from workbench.fvp.trace import Reading, Trace, read_trace
from workbench.fvp.uart import UartReader

if TYPE_CHECKING:
    from workbench.results.simulation import SimulationReport

# The simulator ends itself at its own limit; only if it does not is it ended from outside.
_GRACE_S = 5.0


@dataclass
class Outcome:
    """The report, the outputs of each sample, None where the runner wrote none, and the trace.

    ``invocations`` has what the NPU read in each invocation of a delegate, of all samples;
    ``events`` what the runtime recorded of the first sample (ETDump).
    """

    report: SimulationReport
    outputs: list[list[Array | None]] = field(default_factory=list)
    invocations: list[list[Reading]] = field(default_factory=list)
    events: bytes = b""


def prepare(job: Job) -> list[str]:
    """Check that everything fits, before anything is started; return what to know besides.

    Raises:
        WorkbenchError: it does not; every reason.
    """
    finding.check(job.installed)
    size = sum(array.nbytes for array in job.samples[0]) if job.samples else 0
    notes = fit.check(job.program, job.runner, job.device, size)
    bare = job.runner.placement in {"bare", "embedded"} and job.address is None
    if bare and job.program.data not in job.runner.data:
        raise failure(
            f"The runner {job.runner.path.name} takes its program from itself, and "
            f"{job.program.name} is not in it.",
            "Build it with --pte=semihosting, build it with this program, or give the address "
            "it was built for (--address).",
            Place(kind="tool", id="FVP"),
        )
    if bare and job.runner.placement == "bare" and len(job.samples) > 0:
        notes.append("The runner reads no files: it computes with inputs of its own.")
    return notes


def run(
    job: Job,
    log: Path,
    cancelled: Callable[[], bool] = lambda: False,
    live: Callable[[list[str]], object] = lambda _: None,
) -> Outcome:
    """Run all samples, in one start where the runner can, else in one start each.

    Args:
        job: What to run.
        log: Where everything that is printed is kept.
        cancelled: Asked many times a second.
        live: Gets the lines as they come.

    Raises:
        WorkbenchError: it does not fit, or the disk is full.
    """
    notes = prepare(job)
    reader = UartReader()
    whole = job.serves or not job.reads_files or not job.samples
    starts = [job.samples] if whole else [[sample] for sample in job.samples]
    outputs: list[list[Array | None]] = []
    elapsed, ending, trace, events = 0.0, Ending("itself"), Trace(), b""
    for number, samples in enumerate(starts):
        part = _Start(job, reader, samples, live)
        place = log if number == 0 else log.with_name(f"{log.stem}-{number}{log.suffix}")
        ending = part.run(place, cancelled)
        elapsed += ending.elapsed_s
        outputs += part.outputs
        events = events or part.events
        trace.invocations += part.trace.invocations
        trace.problem = trace.problem or part.trace.problem
        if not ended_well(ending, reader, serve=job.serves):
            break
    missing = any(array is None for sample in outputs for array in sample)
    if ending.log_cut:
        notes.append("The log was cut: it grew beyond its limit, or the disk is full.")
    if trace.problem:
        notes.append(trace.problem)
    report = report_of(job, reader, ending, outputs, notes)
    if report.succeeded and job.reads_files and (missing or len(outputs) < len(job.samples)):
        reason = "The program ran to its end, but not every output was written."
        report = report.model_copy(update={"succeeded": False, "exit_reason": reason})
    report = report.model_copy(update={"elapsed_s": round(elapsed, 3)})
    return Outcome(report, outputs, trace.invocations, events)


class _Start:
    """One start of the simulator, with one sample or with all of them one after the other."""

    def __init__(
        self,
        job: Job,
        reader: UartReader,
        samples: Sequence[Sample],
        live: Callable[[list[str]], object],
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
            what = command.Run(
                job.device, job.runner.placement, inputs,
                fast=job.fast, trace=job.traces, serve=self._serve,
                timelimit_s=max(1, round(job.timeout_s)), address=job.address,
            )  # fmt: skip
            ending = execute(
                command.command(job.installed.path.absolute(), self._folder, what),
                self._folder,
                finding.environment(job.installed.path),
                log,
                job.timeout_s + min(_GRACE_S, job.timeout_s),
                Hooks(self._text, cancelled, self._step if self._serve else None),
            )
            self._reader.close()
            if not self._serve and self._samples and job.reads_files:
                self.outputs.append(self._collect())
            if job.runner.records:
                self.events = etdump.recorded(self._folder, log)
            if job.traces:
                self.trace = read_trace(self._folder / command.TRACE_FILE)
        return ending

    def _fill(self) -> None:
        try:
            (self._folder / command.PROGRAM_FILE).write_bytes(self._job.program.data)
            shutil.copyfile(self._job.runner.path, self._folder / command.RUNNER_FILE)
            if self._samples and not self._serve:
                self._write(self._samples[0])
        except OSError as error:
            raise failure(
                f"The run cannot be prepared: {error.strerror or error}.",
                "Make room in the folder for temporary files (TMPDIR names another).",
                Place(kind="file", id=str(self._folder)),
            ) from error

    def _write(self, sample: Sample) -> None:
        for index, array in enumerate(sample):
            path = self._folder / command.input_file(index)
            path.write_bytes(as_lying(array, self._inputs[index]).tobytes())

    def _text(self, text: str) -> None:
        self._live(self._reader.feed(text))

    def _step(self) -> bytes | None:
        """Give the next sample once the one before is done; None after the last."""
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
        """Return the outputs that were written, in the program's types, and take them away."""
        found: list[Array | None] = []
        for index, spec in enumerate(self._job.program.description["outputs"]):
            path = self._folder / command.output_file(index)
            array = None
            if path.is_file() and "dtype" in spec:
                data = path.read_bytes()
                with contextlib.suppress(ValueError, TypeError):
                    array = as_standing(np.frombuffer(data, spec["dtype"]), spec)
                path.unlink()
            found.append(array)
        return found
