"""Results of compilation and packaging: placement, cost estimates and deliverables."""

from __future__ import annotations

from typing import Literal

from workbench.project.frozen import Frozen
from workbench.results.programs import AppliedCorrection, AppliedRewrite

MODEL_FILE, CONFIG_FILE = "model.onnx", "model.json"
# In place of the module of an operation that the model's own code computes, or that Vela adds.
OUTSIDE_MODULES = "(outside modules)"


class ExportedProduct(Frozen):
    """A matrix product in the file, with the reason if it is predicted to stay in float.

    ``node`` is its name in the file, ``origin`` the operation in the exported graph, ``cause`` the
    code of the reason.
    """

    node: str
    op: str
    origin: str
    module: str
    quantized: bool
    reason: str = ""
    cause: str = ""


class CompilerCheck(Frozen):
    """The result of the installed compiler, if there is one.

    ``compiler`` is its version, or "" if not installed; ``quantized`` is the number of int8
    products, None if it did not run; ``sentence`` is a summary.
    """

    compiler: str = ""
    command: str = ""
    quantized: int | None = None
    sentence: str


class ExportedModel(Frozen):
    """The exported file and the commands that compile it.

    ``rewritten`` counts products that were rewritten so that the compiler quantizes them;
    ``config`` is the compiler's exclusion file, "" if nothing is excluded; ``commands`` are titles
    and command lines; ``notes`` are their limitations.
    """

    opset: int
    ir_version: int
    nodes: int
    bytes: int
    rewritten: int
    products: tuple[ExportedProduct, ...]
    commands: tuple[tuple[str, str], ...]
    config: str = ""
    notes: tuple[str, ...] = ()
    check: CompilerCheck

    @property
    def quantized(self) -> int:
        """The number of products predicted to become int8."""
        return sum(product.quantized for product in self.products)


# Machine-readable reasons why a node stays on the CPU: a rule; a float operator; an operator that
# a rule covers and the quantizer cannot take; next to a CPU operator; 16-bit integers; a conversion
# at the program's border or inside it; no compute.
CpuCause = Literal["rule", "float", "pattern", "beside", "int16", "border", "conversion", "empty", "other"]


class CpuNode(Frozen):
    """A node that the partitioner left on the CPU, with the reason in words and as an id.

    ``cycles`` is a rough estimate for a Cortex-M55: 9.1 for each element and each product, which a
    conversion of a float took where it was measured. 0 where its shape is not known.
    """

    node: str
    op: str
    module: str
    reason: str
    cause: CpuCause = "other"
    cycles: int = 0


# What keeps an operation below half of the device's limits; "" where nothing does. The texts are
# in ``workbench.targets.ethos_u.efficiency``.
CycleCause = Literal[
    "",
    "stride",
    "kernel",
    "few_channels",
    "depth",
    "shape",
    "depthwise",
    "elementwise",
    "copy",
    "layout",
    "rescale",
    "table",
    "resize",
    "pool",
    "memory",
    "weights",
    "output",
]


class VelaOperation(Frozen):
    """One row of Vela's performance table; estimated.

    ``tosa`` is its TOSA operator, ``root`` the node of the float program. ``bound`` is its
    bottleneck: "MACs", "output", "commands", "weight decoding", "SRAM" or "external memory"; "" if
    unknown. ``weights`` counts weights before encoding, ``weight_bytes`` is their size after it;
    traffic is the number of bytes transferred per memory. Shapes are height, width and channels;
    ``moved_bytes`` are those of inputs and output once, ``moved_outside`` of them outside SRAM.
    ``ideal_cycles`` is the device's limit for it, ``efficiency`` its part of the cycles, ``cause``
    why that is below one half. ``cycles`` and ``npu_cycles`` are corrected, ``cycles_vela`` is what
    Vela says; ``corrections`` are ids of ``cycle_corrections``.
    """

    name: str
    operator: str
    module: str
    tosa: str
    cycles: int
    cycles_vela: int
    npu_cycles: int
    macs: int
    sram_cycles: int
    external_cycles: int
    staging_bytes: int
    bound: str = ""
    weights: int = 0
    weight_bytes: int = 0
    sram_traffic: int = 0
    external_traffic: int = 0
    root: str = ""
    input_shape: tuple[int, ...] = ()
    output_shape: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()
    moved_bytes: int = 0
    moved_outside: int = 0
    ideal_cycles: int = 0
    efficiency: float = 0.0
    cause: CycleCause = ""
    corrections: tuple[str, ...] = ()


class ModuleCycles(Frozen):
    """Operations of one module together; estimated.

    ``module`` is "" for operations of none. ``share`` is their part of all cycles of the program,
    ``ideal_cycles`` the sum of the device's limits for each of them, ``efficiency`` that as a part
    of ``cycles``, ``cause`` what most of the others are lost to, "" from one half on.
    """

    module: str
    operations: int
    cycles: int
    share: float
    ideal_cycles: int
    efficiency: float
    cause: CycleCause


class LiveRange(Frozen):
    """A tensor in one of the device's memories; estimated.

    ``start`` and ``end`` are steps of Vela's schedule, both inclusive; ``address`` and ``bytes``
    are its location. ``usage`` is Vela's name of its purpose.
    """

    name: str
    module: str
    memory: str
    usage: str
    start: int
    end: int
    address: int
    bytes: int


class NpuCommand(Frozen):
    """A command that starts an NPU operation, and the row it belongs to.

    ``offset`` is in bytes from the start of the command stream; ``operation`` is the index in the
    delegate's ``operations``, None if it belongs to no row.
    """

    offset: int
    operation: int | None = None


class VelaTotals(Frozen):
    """Estimated totals: cycles, time, memory [bytes], multiply-accumulates.

    ``cycles_total``, ``cycles_npu`` and the time are corrected, ``cycles_vela`` is Vela's total.
    """

    cycles_total: int
    cycles_vela: int
    cycles_npu: int
    inference_ms: float
    sram_bytes: int
    flash_bytes: int
    macs: int


class VelaReport(VelaTotals):
    """Vela's estimate for one delegate.

    ``ideal_cycles`` is the device's limit for its products and weights, ``efficiency`` its part of
    ``cycles_total``, ``cause`` what most of the others are lost to.
    """

    delegate: int
    weights_bytes: int
    encoded_weights_bytes: int
    command_stream_bytes: int
    scratch_bytes: int
    ideal_cycles: int = 0
    efficiency: float = 0.0
    cause: CycleCause = ""
    operations: tuple[VelaOperation, ...] = ()
    commands: tuple[NpuCommand, ...] = ()
    tensors: tuple[LiveRange, ...] = ()


class LowerResult(Frozen):
    """The compiled program: placement, and Vela's estimates.

    ``board`` is the project's, ``placement`` the one of it that the program was compiled for, ""
    without a board or if none is described; ``untimed`` says why its cycles are not shown as time,
    "" if they are. ``border_elements`` are the floats that are converted at the program's ends,
    ``random_weights`` is whether the model looks as if it was never trained: sizes, and times with
    weights in flash, are then not those of the trained one.
    ``exported`` replaces the program if the compiler runs elsewhere; delegates, kernels and costs
    are then unknown.
    """

    target: str
    system_config: str
    memory_mode: str
    delegates: int
    delegated_nodes: int
    cpu_nodes: tuple[CpuNode, ...]
    kernels: tuple[str, ...]
    vela: tuple[VelaReport, ...]
    pte_bytes: int
    accelerated: bool
    placement: str = ""
    board: str = ""
    untimed: str = ""
    border_elements: int = 0
    random_weights: bool = False
    retargeted: bool = False
    vela_version: str
    exported: ExportedModel | None = None
    corrections: tuple[AppliedCorrection, ...] = ()
    rewrites: tuple[AppliedRewrite, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_off_npu(self) -> bool:
        """Whether a compiled program has no operator on the NPU."""
        return not self.delegates and self.exported is None

    @property
    def cycles(self) -> int:
        """The estimated cycles of all delegates, corrected."""
        return sum(report.cycles_total for report in self.vela)

    @property
    def cpu_cycles(self) -> int:
        """The roughly estimated cycles of all CPU operators."""
        return sum(node.cycles for node in self.cpu_nodes)

    @property
    def inference_ms(self) -> float | None:
        """The time of all delegates [ms] from cycles and clock; None if it may not be shown."""
        if self.untimed or self.exported is not None or self.is_off_npu:
            return None
        return sum(report.inference_ms for report in self.vela)

    @property
    def cycles_vela(self) -> int:
        """The cycles of all delegates as Vela says."""
        return sum(report.cycles_vela for report in self.vela)

    def saved_cycles(self) -> dict[str, int]:
        """Return the cycles that each correction of the estimate takes off, by its id.

        What an operation with several corrections loses counts for the first of them.
        """
        saved: dict[str, int] = {}
        for operation in (o for report in self.vela for o in report.operations):
            if operation.corrections:
                first = operation.corrections[0]
                saved[first] = saved.get(first, 0) + operation.cycles_vela - operation.cycles
        return saved


class Deliverable(Frozen):
    """One delivered file."""

    name: str
    bytes: int
    sha256: str
    purpose: str


# Weights of a module, NPU commands, where inputs and outputs are, other constants, all else.
PartKind = Literal["weights", "commands", "borders", "constants", "rest"]


class ProgramPart(Frozen):
    """A part of the program [bytes]; ``name`` is the module of weights."""

    kind: PartKind
    name: str
    bytes: int


class FirmwareStep(Frozen):
    """One thing that the firmware must do, in a few words and in detail."""

    title: str
    detail: str


class PackageResult(Frozen):
    """The deliverables and the memory that the runtime needs [bytes].

    ``parts`` are those of the .pte, largest first; ``steps`` is what the firmware must do, in
    order. ``note`` replaces memory and kernels if another compiler determines them.
    """

    files: tuple[Deliverable, ...]
    kernels: tuple[str, ...]
    method_pool_bytes: int
    scratch_pool_bytes: int
    planned_bytes: tuple[int, ...]
    parts: tuple[ProgramPart, ...] = ()
    steps: tuple[FirmwareStep, ...] = ()
    note: str = ""
