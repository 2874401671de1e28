"""Results of a simulator run: exit, counters, pools, checks and diagnoses."""

from __future__ import annotations

from typing import Literal

from workbench.project.frozen import Frozen
from workbench.results.quality import CompiledFinding


class Counter(Frozen):
    """One NPU event counter, summed over all inferences of a measurement."""

    event: str
    total: int


class Measurement(Frozen):
    """One report of the performance monitor. Cycles are NPU cycles, active and idle."""

    inferences: int = 1
    delegations: int = 0
    npu_cycles: int | None = None
    counters: tuple[Counter, ...] = ()

    def of(self, event: str) -> int | None:
        """Return the total of one event, named without ``ETHOSU_PMU_``; None if not counted."""
        return next((c.total for c in self.counters if c.event == event), None)

    @property
    def cycles_per_inference(self) -> float | None:
        """NPU cycles per inference."""
        if self.npu_cycles is None:
            return None
        return self.npu_cycles / max(1, self.inferences)


class Pool(Frozen):
    """Memory of the runner [bytes]; ``used`` is None if not reported."""

    name: str
    given: int
    used: int | None = None


class BundleCheck(Frozen):
    """The runner's own comparison of a bundled program's outputs."""

    index: int
    passed: bool
    max_absolute_error: float | None = None


class Diagnosis(Frozen):
    """A log line that indicates a failure, its cause and its remedy."""

    line: str
    cause: str
    remedy: str


class SimulationReport(Frozen):
    """A complete run. ``exit_reason`` is one sentence; ``served`` counts samples in server mode."""

    simulator: str
    version: str
    target: str
    fast: bool
    succeeded: bool
    exit_reason: str
    exit_code: int | None = None
    elapsed_s: float = 0.0
    samples: int = 0
    measurements: tuple[Measurement, ...] = ()
    pools: tuple[Pool, ...] = ()
    bundle: tuple[BundleCheck, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    explanation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lines: int = 0
    last_lines: tuple[str, ...] = ()


class Agreement(Frozen):
    """Outputs of the simulator against a reference, in steps (LSB) of each output's grid.

    ``sample_max_lsb`` and ``sample_argmax`` have one entry per sample.
    """

    elements: int
    exact: int
    max_lsb: int
    argmax_equal: int
    histogram: dict[int, int]
    sample_max_lsb: tuple[int, ...]
    sample_argmax: tuple[bool, ...] = ()


class TracedOperation(Frozen):
    """One row of Vela's table with its measured cycles, a mean over all inferences.

    ``cycles`` is None for a row without commands of its own, or whose commands were measured
    together with those of another row.
    """

    delegate: int
    operator: str
    name: str
    module: str
    estimated: int
    cycles: float | None

    @property
    def difference(self) -> float | None:
        """Measured minus estimated cycles."""
        return None if self.cycles is None else self.cycles - self.estimated


class RuntimeEvent(Frozen):
    """One ETDump event of the runtime. ``cycles`` are CPU cycles, a mean over ``calls``.

    ``kind`` is "cpu" (a kernel), "npu" (a delegate, including the wait for it) or "runtime".
    ``instruction`` is its number in the program; None for what belongs to none.
    """

    name: str
    kind: str
    cycles: float
    calls: int
    instruction: int | None = None


class OperationCounters(Frozen):
    """What one operation of a delegate did, counted by the functional simulator. No times.

    ``offset`` is the command's place in its stream [bytes]; ``ofm`` is the shape of its output.
    See ``workbench.npu.counters.Counters`` for the other fields.
    """

    delegate: int
    offset: int
    command: str
    module: str = ""
    ofm: tuple[int, ...] = ()
    macs: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    weight_bytes: int = 0
    scale_bytes: int = 0
    copied_bytes: int = 0
    weights: int = 0
    zero_weights: int = 0
    saturated: int = 0
    accumulator_peak: int = 0
    accumulator_bits: int = 0
    table_bytes: int = 0


class FunctionalRun(Frozen):
    """The program on the functional simulator. Computed, no device, no cycles.

    ``against_simulator`` compares with the outputs of the FVP or board, if there was one.
    ``operations`` and ``findings`` are those of the first sample. ``refused`` says why the program
    was not executed; "" if it was.
    """

    samples: int
    elapsed_s: float
    refused: str = ""
    against_reference: Agreement
    against_simulator: Agreement | None = None
    operations: tuple[OperationCounters, ...] = ()
    findings: tuple[CompiledFinding, ...] = ()


class SimulationResult(Frozen):
    """A program on a board, on an FVP, or without both on the functional simulator.

    A board computes the first sample only. ``cycles`` are NPU cycles per inference, a mean, None if
    none are counted; ``estimated_cycles`` are Vela's. ``traced`` is empty without a trace,
    ``events`` if the runner records none. ``functional`` is None for results of earlier versions.
    """

    kind: Literal["fvp", "functional", "board"] = "fvp"
    report: SimulationReport
    runner: str
    samples: int
    cycles: float | None
    estimated_cycles: int
    traced: tuple[TracedOperation, ...] = ()
    events: tuple[RuntimeEvent, ...] = ()
    against_quantized: Agreement
    against_reference: Agreement
    functional: FunctionalRun | None = None
