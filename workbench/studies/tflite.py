"""TFLite study: the compiled program beside the same network in TensorFlow Lite, layer by layer."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from workbench.errors import Place, failure
from workbench.project.frozen import Frozen
from workbench.pte.description import program_bytes
from workbench.pte.tflite_model import check_mark
from workbench.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import JsonValue

# Why a layer takes other cycles in one program than in the other; "" where it does not.
LayerCause = Literal[
    "",
    "activation",
    "padding",
    "rescale",
    "layout",
    "copy",
    "pool",
    "elementwise",
    "functions",
    "split",
    "kernel",
    "weights",
    "memory",
    "schedule",
    "missing",
]
_CONVERSIONS = ("quantized_decomposed.", "cortex_m.")
# Outputs that differ more than this [dB] are those of other networks.
_UNLIKE_DB = 6.0
# Title, and what it means.
CAUSES: dict[LayerCause, tuple[str, str]] = {
    "activation": (
        "Functions as operations",
        "A function that one program computes together with the layer before it is an operation of "
        "its own in the other.",
    ),
    "padding": ("Padding", "One program writes a padded tensor first; the other pads while it reads."),
    "rescale": (
        "Rescales",
        "Input and output have other scales, so that the integers are rescaled by an operation of its own.",
    ),
    "layout": (
        "Transposes",
        "The tensor is brought into another layout: PyTorch has channels first, TensorFlow Lite and "
        "the NPU have them last.",
    ),
    "copy": ("Copies", "A tensor is copied, as for a concatenation, a slice or a batch."),
    "pool": ("Pools and sums", "A pool or a sum that the other program does not need."),
    "elementwise": ("Elementwise operations", "Elementwise operations that the other program does not need."),
    "functions": (
        "Other operations for one function",
        "The same function, such as a softmax or a mean, is made of other operations.",
    ),
    "split": (
        "Layers in parts",
        "One program computes the layer in parts, the other as a whole or in others.",
    ),
    "kernel": (
        "Other kernels",
        "The layer has more products in one program: kernels with zeros, more channels, or it was rewritten.",
    ),
    "weights": ("Weights", "The encoded weights have another size, and reading them is what takes the time."),
    "memory": (
        "Memory",
        "The same operation, bound by memory: tensors lie in another memory, or are not kept in SRAM.",
    ),
    "schedule": (
        "Blocks and order",
        "The same operation with other blocks, or with another operation before it.",
    ),
    "missing": ("Layers without a partner", "The other program has no layer of this size."),
}


class LayerSide(Frozen):
    """A layer in one of the programs: its NPU operations together.

    ``name`` is the module, or the tensor in TensorFlow Lite; ``operators`` are Vela's names of the
    operations that take cycles, ``fused`` of those that take none. ``kernel`` is height and width,
    ``output_shape`` height, width and channels.
    """

    name: str
    operators: tuple[str, ...]
    fused: tuple[str, ...]
    cycles: int
    macs: int
    output_shape: tuple[int, ...]
    kernel: tuple[int, ...]


class CauseShare(Frozen):
    """Cycles that the program takes more than the one in TensorFlow Lite, for one cause."""

    cause: LayerCause
    cycles: int


class ComparedLayer(Frozen):
    """A layer in both programs, or in one; ``shares`` add up to the difference of the cycles."""

    ours: LayerSide | None
    theirs: LayerSide | None
    shares: tuple[CauseShare, ...] = ()

    @property
    def difference(self) -> int:
        """The cycles that the program takes more; negative if it takes fewer."""
        return sum(share.cycles for share in self.shares)


class CpuOperator(Frozen):
    """An operator of the program that runs on the CPU, and why; ``cycles`` is a rough estimate."""

    op: str
    module: str
    reason: str
    cycles: int


class SideTotals(Frozen):
    """One of the programs: cycles and time of its NPU operations, memory [bytes], products.

    ``cycles`` are corrected, ``cycles_vela`` what Vela itself says; None where it says nothing.
    ``cpu`` counts the operators on the CPU by name; ``cpu_cycles`` is their rough estimate, None
    where there is none. ``inference_ms`` is None where cycles are limits and no estimate.
    """

    cycles: int
    cycles_vela: int | None
    inference_ms: float | None
    sram_bytes: int
    constant_bytes: int
    macs: int
    operations: int
    delegates: int
    cpu: dict[str, int] = Field(default_factory=dict)
    cpu_cycles: int | None = None


class OutputAgreement(Frozen):
    """An output of the programs on the same samples, SQNR in dB; None where both are equal.

    ``program_db`` and ``tflite_db`` are against the model in float, ``between_db`` is that of the
    program against TensorFlow Lite.
    """

    name: str
    elements: int
    program_db: float | None
    tflite_db: float | None
    between_db: float | None


class TfliteComparison(Frozen):
    """The project's program beside a TensorFlow Lite file, for the same device.

    ``compiled_here`` is whether the file was compiled by Vela here, with the project's options.
    Otherwise it holds no estimate, and the cycles of both sides are the device's limits.
    ``on_cpu`` are the operators of the program on the CPU, conversions at its ends included;
    ``random_weights`` is whether the model looks as if it was never trained.
    ``not_executed`` is why outputs are not compared; "" if they are.
    """

    file: str
    compiled_here: bool
    target: str
    system_config: str
    memory_mode: str
    program: SideTotals
    tflite: SideTotals
    layers: tuple[ComparedLayer, ...]
    on_cpu: tuple[CpuOperator, ...] = ()
    random_weights: bool = False
    samples: int = 0
    outputs: tuple[OutputAgreement, ...] = ()
    not_executed: str = ""

    def causes(self) -> list[tuple[LayerCause, int, int]]:
        """Return each cause with its cycles and layers, largest first; cycles add up to the whole."""
        cycles, layers = Counter[LayerCause](), Counter[LayerCause]()
        for layer in self.layers:
            for share in layer.shares:
                cycles[share.cause] += share.cycles
                layers[share.cause] += 1
        return sorted(((c, cycles[c], layers[c]) for c in cycles), key=lambda row: -abs(row[1]))

    def answer(self) -> str:
        """Return why one program is slower, in a few sentences."""
        ours, theirs = self.program.cycles, self.tflite.cycles
        kind = "cycles" if self.compiled_here else "cycles at the device's limits"
        if not ours or not theirs:
            sentences = ["One of the programs has no operation on the NPU."]
        elif ours == theirs:
            sentences = [f"Both programs take {ours:,} {kind} on the NPU."]
        else:
            share = f"{abs(ours / theirs - 1):.1%} {'more' if ours > theirs else 'fewer'}"
            sentences = [
                f"The program takes {share} {kind} on the NPU than TensorFlow Lite: {ours:,} to {theirs:,}."
            ]
        same_way = [row for row in self.causes() if row[1] and (row[1] > 0) == (ours > theirs)]
        if same_way and ours != theirs:
            parts = ", ".join(f"{CAUSES[c][0].lower()} {cycles:+,}" for c, cycles, _ in same_way[:3])
            sentences.append(f"Most of it: {parts}.")
        return " ".join([*sentences, *self._on_cpu()])

    def _on_cpu(self) -> Iterator[str]:
        counts = [sum(side.cpu.values()) for side in (self.program, self.tflite)]
        if counts[0] or counts[1]:
            about = f" (roughly {self.program.cpu_cycles:,} cycles)" if self.program.cpu_cycles else ""
            yield f"On the CPU run {plural(counts[0], 'operator')}{about}, and {counts[1]} there."

    def remarks(self) -> Iterator[str]:
        """Yield what the user should know of the comparison itself."""
        borders = [one for one in self.on_cpu if one.op.startswith(_CONVERSIONS)]
        if borders and not self.tflite.cpu:
            yield (
                "The program converts floats at its ends; TensorFlow Lite's takes and gives integers. "
                "With the target option 'Integer inputs and outputs' both do the same."
            )
        if self.random_weights:
            yield (
                "The model looks untrained: random weights are encoded in more bytes than trained ones, "
                "so that its layers take longer where weights are read from flash."
            )
        for output in self.outputs:
            values = output.program_db, output.tflite_db
            if (
                values[1] is not None
                and values[1] < _UNLIKE_DB
                and (values[0] is None or values[0] > values[1])
            ):
                yield (
                    f"Output {output.name} of the file is far from the model's ({values[1]:.1f} dB): it has "
                    "other weights, or takes its inputs in another range."
                )


def tflite_options(file: Path) -> dict[str, JsonValue]:
    """Return the options of the study for a file.

    Raises:
        WorkbenchError: It cannot be read, or is larger than any program.
    """
    return {"file": str(file.absolute()), "digest": digest_of(read_file(file))}


def digest_of(content: bytes) -> str:
    """Return the digest of a file, which the results depend on."""
    return hashlib.sha256(content).hexdigest()


def read_file(file: Path) -> bytes:
    """Return a TensorFlow Lite file.

    Raises:
        WorkbenchError: It cannot be read, is larger than any program, or is another file.
    """
    try:
        content = program_bytes(file)
    except OSError as error:
        raise failure(
            f"{file.name} cannot be read: {error.strerror or error}.",
            "Choose another file.",
            Place(kind="option", id="file"),
            code="file-not-readable",
        ) from error
    check_mark(content, file.name)
    return content
