"""The compiled program on simulators, compared to the predictions.

Figures of an FVP are measured, those of the functional simulator computed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from workbench.deploy.simulators.compatibility import Program, Setup
from workbench.deploy.simulators.counters import FILE as ETDUMP_FILE
from workbench.deploy.simulators.counters import traced
from workbench.deploy.simulators.etdump import events_of
from workbench.deploy.simulators.log_parser import level_of
from workbench.deploy.simulators.run import Job, Outcome, run
from workbench.engine.data.evaluation import evaluation_samples
from workbench.engine.quality.measures import tensors_of
from workbench.engine.quality.passes import quantized_module
from workbench.engine.quality.stateful_execution import stepping
from workbench.engine.targets.ethos_u.functional_run import FunctionalOutputs, execute
from workbench.engine.targets.ethos_u.grids import Grid, output_grids, runtime_values
from workbench.engine.targets.ethos_u.reference_model import IntegerProgram, Tally
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.pipeline.plan import simulator_setup
from workbench.results import LowerResult, RuntimeEvent, SimulationResult
from workbench.results.simulation import Agreement, FunctionalRun, SimulationReport

if TYPE_CHECKING:
    from workbench.engine.context import StageContext
    from workbench.protocol import Level
    from workbench.results import VerifyResult


_LOG, _LOGGED_LINES = "uart.log", 2000
_LEVELS: dict[str, Level] = {"debug": "debug", "warning": "warning", "error": "error"}
Tensors = list[torch.Tensor]


def simulate(context: StageContext) -> SimulationResult:
    """Run the evaluation samples on the functional simulator, and on this machine's FVP if any.

    Raises:
        WorkbenchError: the FVP is incompatible or its run failed: the exit reason first, then
            every recognised failure.
    """
    samples = _Samples(context)
    functional = execute(context, samples.inputs)
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
    report, events = _with_events(context, outcome)
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
        functional=_functional(samples, functional).model_copy(
            update={
                "against_simulator": samples.agreement(computed, outputs)
                if computed and outputs
                else None
            }
        ),
    )


def _functional_result(
    context: StageContext, samples: _Samples, made: FunctionalOutputs, missing: ErrorInfo
) -> SimulationResult:
    """Return the result of a machine without an FVP for the target."""
    count, refused = len(samples.inputs), made.refused
    functional = _functional(samples, made)
    ended = f"Not executed: {refused}" if refused else "Executed functionally, no device."
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
            elapsed_s=made.elapsed_s,
            samples=0 if refused else count,
            notes=(f"No FVP: {missing.message} {missing.hint}".strip(),),
        ),
        runner="",
        samples=count,
        cycles=None,
        estimated_cycles=sum(report.cycles_total for report in lowered.vela),
        against_quantized=samples.agreement(samples.quantized, made.outputs),
        against_reference=functional.against_reference,
        functional=functional,
    )


def _functional(samples: _Samples, made: FunctionalOutputs) -> FunctionalRun:
    return FunctionalRun(
        samples=len(made.outputs),
        elapsed_s=made.elapsed_s,
        refused=made.refused,
        against_reference=samples.agreement(samples.reference, made.outputs),
        operations=made.operations,
        findings=made.findings,
    )


class _Samples:
    """The program's inputs for some samples, and what other models compute for them.

    Attributes:
        inputs: In the types of the program.
        quantized: Outputs of the quantized model, as real numbers.
        reference: Outputs of the TOSA reference model, as real numbers.
    """

    def __init__(self, context: StageContext) -> None:
        converted = context.hot("convert").module
        self._integer_io = bool(context.project.target.options.get("integer_io"))
        self._grids = output_grids(converted)
        self.quantized, self.inputs, once = _samples(
            context, converted, integer_io=self._integer_io
        )
        kept = None if once else context.store.get("verify", context.plan.key("verify"))
        if kept is None or len(kept) != len(self.inputs):
            integer = IntegerProgram(context.hot("lower"))
            with torch.no_grad():
                kept = [self.reals(integer.compute(tuple(sample))) for sample in self.inputs]
        self.reference: list[Tensors] = kept

    def reals(self, outputs: Tensors) -> Tensors:
        """Return the program's outputs as real numbers."""
        if not self._integer_io:
            return outputs
        pairs = zip(outputs, self._grids, strict=True)
        return [grid.reals(codes) if grid is not None else codes for codes, grid in pairs]

    def agreement(self, expected: list[Tensors], outputs: list[Tensors]) -> Agreement:
        """Return the differences of the program's outputs from real numbers."""
        return _agreement(expected, outputs, self._grids, integer_io=self._integer_io)


def _samples(
    context: StageContext, converted: Any, *, integer_io: bool
) -> tuple[list[Tensors], list[Tensors], bool]:
    """Return the quantized model's outputs and the program's inputs for some samples.

    The last is whether there is one sample only, because the program has state.
    """
    module = quantized_module(context)
    outputs, inputs = [], []
    wanted, samples = context.project.verification.samples, evaluation_samples(context)
    once = False
    with torch.no_grad(), stepping(module) as steps:
        if steps.remembers or samples.spell is not None:
            context.log("Only one step is simulated: a restarted simulator has no state.")
            wanted, once = 1, True
        for sample in itertools.islice(samples, wanted):
            context.check_cancelled()
            outputs.append(tensors_of(module(*sample.inputs)))
            given, _ = runtime_values(converted, sample.inputs, outputs[-1], integer_io)
            inputs.append(list(given))
    return outputs, inputs, once


def _run(context: StageContext, setup: Setup, inputs: list[Tensors]) -> Outcome:
    data = (context.path("lower") / "program.pte").read_bytes()
    job = Job(
        setup.installed, setup.runner, Program("program.pte", data), setup.device,
        [tuple(tensor.detach().numpy() for tensor in sample) for sample in inputs],
        fast=setup.settings.fast, trace=setup.settings.trace, timeout_s=setup.settings.timeout_s,
        address=setup.address,
    )  # fmt: skip
    logged = done = 0

    def live(lines: list[str]) -> None:
        nonlocal logged, done
        for line in lines:
            done += "inferences finished" in line
            if logged < _LOGGED_LINES and not line.startswith("Output["):
                logged += 1
                context.log(line.strip(), _LEVELS.get(level_of(line), "info"))
                if logged == _LOGGED_LINES:
                    context.log(f"See {_LOG} for the rest of the simulator's output.", "warning")
        context.progress(done, len(inputs), f"sample {min(done + 1, len(inputs))}")

    context.progress(0, len(inputs), f"starting {setup.device.simulator.binary}")
    outcome = run(job, context.out / _LOG, context.cancelled.is_set, live)
    context.check_cancelled()
    return outcome


def _with_events(
    context: StageContext, outcome: Outcome
) -> tuple[SimulationReport, tuple[RuntimeEvent, ...]]:
    """Store the ETDump events for the user's own tools, and read them."""
    if not outcome.events:
        return outcome.report, ()
    (context.out / ETDUMP_FILE).write_bytes(outcome.events)
    try:
        return outcome.report, events_of(outcome.events)
    except ValueError:
        note = "The runner's ETDump events cannot be read."
        notes = (*outcome.report.notes, note)
        return outcome.report.model_copy(update={"notes": notes}), ()


def _failures(report: SimulationReport) -> list[ErrorInfo]:
    place = Place(kind="stage", id="run")
    last = "\n".join(report.last_lines)
    recognised = [
        ErrorInfo(
            message=d.cause, hint=d.remedy, where=place, details=d.line, code="simulation-diagnosis"
        )
        for d in {d.cause: d for d in reversed(report.diagnoses)}.values()
    ][::-1]
    hint = "" if recognised else "See the last lines of the log."
    ended = ErrorInfo(
        message=report.exit_reason, hint=hint, where=place, details=last, code="simulation-failed"
    )
    return [ended, *recognised]


def _agreement(
    expected: list[Tensors], outputs: list[Tensors], grids: list[Grid | None], *, integer_io: bool
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
