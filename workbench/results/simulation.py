"""What a run on a simulator told: how it ended, counters, pools, checks, and what went wrong."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class Counter(Frozen):
    """One event counter of the NPU, over all inferences of a measurement."""

    event: str
    total: int


class Measurement(Frozen):
    """One report of the performance monitor. Cycles are the NPU's, between active and idle."""

    inferences: int = 1
    delegations: int = 0
    npu_cycles: int | None = None
    counters: tuple[Counter, ...] = ()

    def of(self, event: str) -> int | None:
        """Return the total of one event, named without ``ETHOSU_PMU_``; None if not counted."""
        return next((c.total for c in self.counters if c.event == event), None)

    @property
    def cycles_per_inference(self) -> float | None:
        """NPU cycles of one inference."""
        if self.npu_cycles is None:
            return None
        return self.npu_cycles / max(1, self.inferences)


class Pool(Frozen):
    """Memory of the runner [bytes]; ``used`` is None where the runner does not tell it."""

    name: str
    given: int
    used: int | None = None


class BundleCheck(Frozen):
    """The runner's own comparison of a bundled program's outputs."""

    index: int
    passed: bool
    max_absolute_error: float | None = None


class Diagnosis(Frozen):
    """A line that tells of a failure, what causes it, and what to do."""

    line: str
    cause: str
    remedy: str


class SimulationReport(Frozen):
    """A whole run. ``exit_reason`` is one sentence; ``served`` counts samples in server mode."""

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
    """Outputs of the simulator against others, in steps (LSB) of each output's grid.

    ``sample_max_lsb`` and ``sample_argmax`` have one entry for each sample.
    """

    elements: int
    exact: int
    max_lsb: int
    argmax_equal: int
    histogram: dict[int, int]
    sample_max_lsb: tuple[int, ...]
    sample_argmax: tuple[bool, ...] = ()


class TracedOperation(Frozen):
    """One row of Vela's table with what was measured of it, a mean over all inferences [cycles].

    ``cycles`` is None for a row that has no commands of its own, or whose commands were read
    together with those of another.
    """

    delegate: int
    operator: str
    name: str
    module: str
    estimated: int
    cycles: float | None

    @property
    def difference(self) -> float | None:
        """Cycles more than estimated."""
        return None if self.cycles is None else self.cycles - self.estimated


class RuntimeEvent(Frozen):
    """One event that the runtime recorded (ETDump). ``cycles`` are the CPU's, a mean of ``calls``.

    ``kind`` is "cpu" (a kernel), "npu" (a delegate, with the wait for it) or "runtime".
    """

    name: str
    kind: str
    cycles: float
    calls: int


class SimulationResult(Frozen):
    """A project's program on a simulator. ``cycles`` are NPU cycles of one inference, a mean.

    ``estimated_cycles`` are Vela's; ``cycles`` is None for a functional run; ``traced`` is empty
    where no operations were traced, ``events`` where the runner records none.
    """

    report: SimulationReport
    runner: str
    samples: int
    cycles: float | None
    estimated_cycles: int
    traced: tuple[TracedOperation, ...] = ()
    events: tuple[RuntimeEvent, ...] = ()
    against_quantized: Agreement
    against_reference: Agreement
