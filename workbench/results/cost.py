"""What the compiled program is made of, what it costs, and what is handed on."""

from __future__ import annotations

from typing import Literal

from workbench.project.frozen import Frozen
from workbench.results.programs import AppliedCorrection

MODEL_FILE, CONFIG_FILE = "model.onnx", "model.json"


class ExportedProduct(Frozen):
    """A matrix product of the file: predicted to be quantized, or the reason why not.

    ``node`` is its name in the file, ``origin`` the operation of the exported graph it is.
    """

    node: str
    op: str
    origin: str
    module: str
    quantized: bool
    reason: str = ""


class CompilerCheck(Frozen):
    """What the compiler itself said, where it is on this machine.

    ``compiler`` is its version, or "" where there is none; ``quantized`` the products it made int8,
    None where it did not run; ``sentence`` says it in words.
    """

    compiler: str = ""
    command: str = ""
    quantized: int | None = None
    sentence: str


class ExportedModel(Frozen):
    """The file and how to compile it.

    ``rewritten`` counts products that were changed so that the compiler quantizes them; ``config``
    is the compiler's file with exclusions, "" where nothing is excluded; ``commands`` are titles
    and command lines; ``notes`` say what they do not do.
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
        """How many products are predicted to become int8."""
        return sum(product.quantized for product in self.products)


# Why a node stays on the CPU, for programs: a rule; a float operator; beside a float one; 16-bit
# integers; a conversion at the border of the program, or one inside it; nothing to compute.
CpuCause = Literal["rule", "float", "beside", "int16", "border", "conversion", "empty", "other"]


class CpuNode(Frozen):
    """A node the partitioner left on the CPU, and why: in words, and by its cause."""

    node: str
    op: str
    module: str
    reason: str
    cause: CpuCause = "other"


class VelaOperation(Frozen):
    """One row of Vela's performance table; estimated.

    ``tosa`` is the operator it came from, ``root`` the node of the float program. ``bound``
    is what it waits for longest: "MACs", "output", "commands", "weight decoding", "SRAM" or
    "external memory"; "" where nothing is told. ``weights`` counts weights before Vela encodes
    them, ``weight_bytes`` what they take after; traffic is what passes each memory [bytes].
    """

    name: str
    operator: str
    module: str
    tosa: str
    cycles: int
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


class LiveRange(Frozen):
    """A tensor in one of the device's memories; estimated.

    ``start`` and ``end`` are steps of Vela's schedule, both included; ``address`` and ``bytes``
    say where in the memory it lies. ``usage`` is Vela's word for what it is for.
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
    """A command that makes the NPU compute: where it stands, and for which row it computes.

    ``offset`` counts bytes from the first command of the stream; ``operation`` is the index of
    the row in the delegate's ``operations``, None for what no row tells.
    """

    offset: int
    operation: int | None = None


class VelaTotals(Frozen):
    """Vela's estimate in totals: cycles, time, memory [bytes], multiply-accumulates."""

    cycles_total: int
    cycles_npu: int
    inference_ms: float
    sram_bytes: int
    flash_bytes: int
    macs: int


class VelaReport(VelaTotals):
    """Vela's estimate for one delegate."""

    delegate: int
    weights_bytes: int
    encoded_weights_bytes: int
    command_stream_bytes: int
    scratch_bytes: int
    operations: tuple[VelaOperation, ...] = ()
    commands: tuple[NpuCommand, ...] = ()
    tensors: tuple[LiveRange, ...] = ()


class LowerResult(Frozen):
    """The compiled program: what runs where, and what Vela estimates.

    ``exported`` is there instead of a program where the compiler runs elsewhere; then nothing is
    known of delegates, kernels and costs.
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
    retargeted: bool = False
    vela_version: str
    exported: ExportedModel | None = None
    corrections: tuple[AppliedCorrection, ...] = ()
    warnings: tuple[str, ...] = ()


class Deliverable(Frozen):
    """One file to hand on."""

    name: str
    bytes: int
    sha256: str
    purpose: str


class PackageResult(Frozen):
    """The deliverables, and the memory the runtime must give [bytes].

    ``note`` stands in the place of memory and kernels where another compiler says them.
    """

    files: tuple[Deliverable, ...]
    kernels: tuple[str, ...]
    method_pool_bytes: int
    scratch_pool_bytes: int
    planned_bytes: tuple[int, ...]
    note: str = ""
