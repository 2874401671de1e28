"""The compiled program on simulators and boards, compared to the predictions.

Figures of an FVP and of a board are measured, those of the functional simulator computed.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from workbench.deploy.firmware_files import c_header, file_stem
from workbench.deploy.simulators import board
from workbench.deploy.simulators.compatibility import Program, Setup
from workbench.deploy.simulators.counters import FILE as ETDUMP_FILE
from workbench.deploy.simulators.counters import traced
from workbench.deploy.simulators.discovery import simulating_board
from workbench.deploy.simulators.etdump import events_of
from workbench.deploy.simulators.log_parser import level_of
from workbench.deploy.simulators.run import Job, Outcome, run
from workbench.engine.data.evaluation import evaluation_samples, is_repeatable, verification_samples
from workbench.engine.ethos_u.functional_run import FunctionalOutputs, execute
from workbench.engine.ethos_u.grids import Grid, output_grids, runtime_values
from workbench.engine.ethos_u.integer_program import IntegerProgram
from workbench.engine.ethos_u.pool_rounding import halves_away_from_zero
from workbench.engine.ethos_u.reference_model import Tally, Verified
from workbench.engine.ethos_u.reference_process import ReferenceProcess
from workbench.engine.ethos_u.tosa_delegates import TosaDelegates
from workbench.engine.evaluation.bundling import bundle
from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.evaluation.quick_modules import quantized_module
from workbench.engine.evaluation.stateful_execution import stepping
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.pipeline.plan import simulator_setup
from workbench.results import PROGRAM_FILE, LowerResult, RuntimeEvent, SimulationResult
from workbench.results.simulation import Agreement, FunctionalRun, SimulationReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.deploy.simulators.discovery import BoardLink
    from workbench.engine.runtime.context import StageContext
    from workbench.protocol import Level
    from workbench.results import VerifyResult


_LOG, _LOGGED_LINES = "uart.log", 2000
_LEVELS: dict[str, Level] = {"debug": "debug", "warning": "warning", "error": "error"}
Tensors = list[torch.Tensor]


def simulate(context: StageContext) -> SimulationResult:
    """Run the evaluation samples on the functional simulator, and on this machine's board or FVP.

    A board that is switched on for *Simulate* takes the place of the FVP. It computes the first
    sample only.

    Raises:
        WorkbenchError: the FVP is incompatible, the board cannot be flashed or read, or the run
            failed: the exit reason first, then every recognised failure.
    """
    samples = _Samples(context)
    functional = samples.executed or execute(context, samples.inputs)
    link = simulating_board()
    if link is not None:
        return _board_result(context, samples, functional, link)
    setup = simulator_setup(context.project)
    if isinstance(setup, ErrorInfo):
        return _functional_result(context, samples, functional, setup)
    outcome = _run(context, setup, samples.inputs)
    if not outcome.report.succeeded:
        raise WorkbenchError(_failures(outcome.report))
    outputs = [[torch.tensor(a) for a in sample if a is not None] for sample in outcome.outputs]
    cycles = [m.cycles_per_inference for m in outcome.report.measurements]
    known = [c for c in cycles if c is not None] if not setup.settings.fast else []
    lowered = context.result("lower", LowerResult)
    report, events = _with_events(context, outcome.report, outcome.events)
    computed = [samples.reals(sample) for sample in functional.outputs]
    return SimulationResult(
        report=report,
        runner=setup.runner.path.name,
        samples=len(samples.inputs),
        cycles=sum(known) / len(known) if known else None,
        estimated_cycles=sum(report.cycles_total for report in lowered.vela),
        traced=traced(outcome.invocations, lowered.vela),
        events=events,
        against_quantized=samples.agreement(samples.quantized, outputs),
        against_reference=samples.agreement(samples.reference, outputs),
        functional=_functional(samples, functional, computed, outputs),
    )


def _board_result(
    context: StageContext, samples: _Samples, computed: FunctionalOutputs, link: BoardLink
) -> SimulationResult:
    """Return the result of a board, beside what the functional simulator computed."""
    outcome = _run_on_board(context, samples, link)
    context.check_cancelled()
    if not outcome.report.succeeded:
        raise WorkbenchError(_failures(outcome.report))
    cycles = [m.cycles_per_inference for m in outcome.report.measurements]
    known = [cycle for cycle in cycles if cycle is not None]
    printed = [torch.tensor(array) for array in outcome.outputs if array is not None]
    outputs = [printed] if len(printed) == len(outcome.outputs) else []
    first = [samples.reals(sample) for sample in computed.outputs[:1]]
    lowered = context.result("lower", LowerResult)
    report, events = _with_events(context, outcome.report, outcome.events)
    return SimulationResult(
        kind="board",
        report=report,
        runner=Path(link.elf).name if link.elf else "",
        samples=1,
        cycles=sum(known) / len(known) if known else None,
        estimated_cycles=sum(report.cycles_total for report in lowered.vela),
        events=events,
        against_quantized=samples.agreement(samples.quantized[:1], outputs),
        against_reference=samples.agreement(samples.reference[:1], outputs),
        functional=_functional(samples, computed, first, outputs),
    )


def _run_on_board(context: StageContext, samples: _Samples, link: BoardLink) -> board.BoardOutcome:
    """Flash the board with the program and the first sample as its test vector, and read it."""
    stem = file_stem(context.project.name)
    data = (context.path("lower") / PROGRAM_FILE).read_bytes()
    context.progress(0, 1, f"board at {link.port}")
    with tempfile.TemporaryDirectory(prefix="board-") as scratch:
        folder = Path(scratch)
        (folder / f"{stem}.pte").write_bytes(data)
        (folder / f"{stem}.h").write_bytes(c_header(data, stem))
        vector = (list(samples.inputs[0]), samples.expected[0])
        (folder / f"{stem}.bpte").write_bytes(bundle(data, [vector]))
        program = board.program_of(folder, stem, link, context.project.target.id)
        return board.run(link, program, context.out / _LOG, context.cancelled.is_set, _logger(context))


def _functional_result(
    context: StageContext, samples: _Samples, executed: FunctionalOutputs, missing: ErrorInfo
) -> SimulationResult:
    """Return the result of a machine without an FVP for the target."""
    count, refused = len(samples.inputs), executed.refused
    functional = _functional(samples, executed)
    ended = f"Not executed: {refused}" if refused else "Executed on the simulator (no timing)."
    lowered = context.result("lower", LowerResult)
    return SimulationResult(
        kind="functional",
        report=SimulationReport(
            simulator="functional simulator",
            version="",
            target=context.project.target.id,
            fast=True,
            succeeded=not refused,
            exit_reason=ended,
            elapsed_s=executed.elapsed_s,
            samples=0 if refused else count,
            notes=(f"No FVP: {missing.message} {missing.hint}".strip(),),
        ),
        runner="",
        samples=count,
        cycles=None,
        estimated_cycles=sum(report.cycles_total for report in lowered.vela),
        against_quantized=samples.agreement(samples.quantized, executed.outputs),
        against_reference=functional.against_reference,
        functional=functional,
    )


def _functional(
    samples: _Samples,
    executed: FunctionalOutputs,
    computed: Sequence[Tensors] = (),
    measured: Sequence[Tensors] = (),
) -> FunctionalRun:
    """Return the functional run; ``computed`` real outputs are compared with ``measured`` ones."""
    is_compared = bool(computed and measured)
    return FunctionalRun(
        samples=len(executed.outputs),
        elapsed_s=executed.elapsed_s,
        refused=executed.refused,
        against_reference=samples.agreement(samples.reference, executed.outputs),
        against_simulator=samples.agreement(computed, measured) if is_compared else None,
        operations=executed.operations,
        findings=executed.findings,
    )


class _Samples:
    """The program's inputs for some samples, and what other models compute for them.

    Attributes:
        inputs: In the types of the program.
        expected: Outputs of the quantized model, in the types of the program.
        quantized: Outputs of the quantized model, as real numbers.
        reference: Outputs of the integer program, as real numbers.
        executed: What verify executed for the same samples; None if it did not.
    """

    def __init__(self, context: StageContext) -> None:
        converted, self._context = context.live("convert").module, context
        self._integer_io = bool(context.project.target.options.get("integer_io"))
        self._grids = output_grids(converted)
        # What verify kept is of other samples if the data changes from reading to reading.
        verified: Verified | None = None
        if is_repeatable(evaluation_samples(context)):
            verified = context.store.get("verify", context.plan.key("verify"))
        with halves_away_from_zero(converted, context.live("lower").edge):
            self.quantized, runtime, once = _samples(
                context, converted, verified, integer_io=self._integer_io
            )
        self.inputs = [inputs for inputs, _ in runtime]
        self.expected = [outputs for _, outputs in runtime]
        if once or (verified is not None and len(verified.integer) != len(self.inputs)):
            verified = None
        self.executed = None if verified is None else verified.executed
        self.reference = self._computed() if verified is None else verified.integer

    def _computed(self) -> list[Tensors]:
        """Return the outputs of the integer program by the reference model, as real numbers."""
        lowered = self._context.live("lower")
        with torch.no_grad(), ReferenceProcess(lowered.edge) as process:
            program = IntegerProgram(lowered, TosaDelegates(lowered.tosa, process, trusted=False))
            return [self.reals(program.compute([sample])[0]) for sample in self.inputs]

    def reals(self, outputs: Tensors) -> Tensors:
        """Return the program's outputs as real numbers."""
        if not self._integer_io:
            return outputs
        pairs = zip(outputs, self._grids, strict=True)
        return [grid.reals(codes) if grid is not None else codes for codes, grid in pairs]

    def agreement(self, expected: Sequence[Tensors], outputs: Sequence[Tensors]) -> Agreement:
        """Return the differences of the program's outputs from real numbers."""
        return _agreement(expected, outputs, self._grids, integer_io=self._integer_io)


def _samples(
    context: StageContext, converted: Any, verified: Verified | None, *, integer_io: bool
) -> tuple[list[Tensors], list[tuple[Tensors, Tensors]], bool]:
    """Return the quantized model's outputs for some samples, and inputs and outputs of the program.

    The last is whether there is one sample only, because the program has state.
    """
    module = cache(lambda: quantized_module(context))
    outputs, runtime = [], []
    wanted, samples = context.project.verification.samples, evaluation_samples(context)
    once = False
    with torch.no_grad(), stepping(converted) as steps:
        if steps.remembers or samples.spell is not None:
            context.log("Only one step is simulated: a restarted simulator has no state.")
            wanted, once = 1, True
        known = verified.quantized if verified is not None and not once else []
        chosen = itertools.islice(verification_samples(context), wanted)
        for number, (sample, _) in enumerate(chosen):
            context.check_cancelled()
            is_known = number < len(known)
            outputs.append(known[number] if is_known else tensors_of(module()(*sample.inputs)))
            given, expected = runtime_values(converted, sample.inputs, outputs[-1], integer_io)
            runtime.append((list(given), list(expected)))
    return outputs, runtime, once


def _run(context: StageContext, setup: Setup, inputs: list[Tensors]) -> Outcome:
    data = (context.path("lower") / "program.pte").read_bytes()
    job = Job(
        setup.installed,
        setup.runner,
        Program("program.pte", data),
        setup.device,
        [tuple(tensor.detach().numpy() for tensor in sample) for sample in inputs],
        fast=setup.settings.fast,
        trace=setup.settings.trace,
        timeout_s=setup.settings.timeout_s,
        address=setup.address,
    )
    done, log = 0, _logger(context)

    def live(lines: list[str]) -> None:
        nonlocal done
        log(lines)
        done += sum("inferences finished" in line for line in lines)
        context.progress(done, len(inputs), f"sample {min(done + 1, len(inputs))}")

    context.progress(0, len(inputs), f"starting {setup.device.simulator.binary}")
    outcome = run(job, context.out / _LOG, context.cancelled.is_set, live)
    context.check_cancelled()
    return outcome


def _logger(context: StageContext) -> Callable[[list[str]], None]:
    """Return what passes the first lines of a runner to the log; values of outputs are left out."""
    logged = 0

    def log(lines: list[str]) -> None:
        nonlocal logged
        for line in lines:
            if line.strip() and logged < _LOGGED_LINES and not line.startswith("Output["):
                logged += 1
                context.log(line.strip(), _LEVELS.get(level_of(line), "info"))
                if logged == _LOGGED_LINES:
                    context.log(f"See {_LOG} for the rest of the output.", "warning")

    return log


def _with_events(
    context: StageContext, report: SimulationReport, events: bytes
) -> tuple[SimulationReport, tuple[RuntimeEvent, ...]]:
    """Store the ETDump events for the user's own tools, and read them."""
    if not events:
        return report, ()
    (context.out / ETDUMP_FILE).write_bytes(events)
    try:
        return report, events_of(events)
    except ValueError:
        notes = (*report.notes, "The runner's ETDump events cannot be read.")
        return report.model_copy(update={"notes": notes}), ()


def _failures(report: SimulationReport) -> list[ErrorInfo]:
    place = Place(kind="stage", id="run")
    last = "\n".join(report.last_lines)
    recognised = [
        ErrorInfo(message=d.cause, hint=d.remedy, where=place, details=d.line, code="simulation-diagnosis")
        for d in {d.cause: d for d in reversed(report.diagnoses)}.values()
    ][::-1]
    hint = "" if recognised else "See the last lines of the log."
    ended = ErrorInfo(
        message=report.exit_reason, hint=hint, where=place, details=last, code="simulation-failed"
    )
    return [ended, *recognised]


def _agreement(
    expected: Sequence[Tensors], outputs: Sequence[Tensors], grids: list[Grid | None], *, integer_io: bool
) -> Agreement:
    """Return the differences of the outputs; none if the runner wrote no files."""
    histogram: Counter[int] = Counter()
    rows: list[VerifyResult] = []
    for reals, output in zip(expected if outputs else (), outputs, strict=True):
        tally = Tally(grids, integer_io=integer_io)
        tally.add(reals, output)
        rows.append(tally.result())
        histogram.update(rows[-1].histogram)
    return Agreement(
        elements=sum(r.elements for r in rows),
        exact=sum(r.exact for r in rows),
        max_lsb=max((r.max_lsb for r in rows), default=0),
        argmax_equal=sum(r.argmax_equal for r in rows),
        histogram=dict(sorted(histogram.items())),
        sample_max_lsb=tuple(r.max_lsb for r in rows),
        sample_argmax=tuple(bool(r.argmax_equal) for r in rows),
    )
