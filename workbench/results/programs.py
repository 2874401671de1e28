"""Results of the import, export, prepare and calibrate stages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from workbench.project.configs import ImproverId
from workbench.project.frozen import Frozen

FLOAT_BITS = 32.0
# The weights that improvers changed, in the result of prepare.
IMPROVED_WEIGHTS = "improved.safetensors"


class TensorSpec(Frozen):
    """Name, shape and dtype of one input or output; -1 in a shape is a dynamic size.

    ``place`` is where an input lies in a sample of the data, as keys, numbers and names of fields
    from the outside in; empty where a sample is the tensors alone.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    place: tuple[int | str, ...] = ()


# Parts of names that wrappers of modules add, wherever they stand.
WRAPPERS = ("_orig_mod", "module", "_fsdp_wrapped_module", "_forward_module")


class WeightsTaken(Frozen):
    """Where a model's weights were found in its weights file.

    ``form`` is the file's (``workbench.project.checkpoints``), ``entry`` the path of the state dict
    in it; ``joined`` if that is several dictionaries, whose keys begin the names. ``unwrapped`` if
    the parts of ``WRAPPERS`` were removed from the names; then ``prefix`` was removed and ``added``
    put before them. ``others`` are the entries that would have fitted too, ``dropped`` the parts of
    the checkpoint that the model does not have.
    """

    form: str
    entry: tuple[str, ...] = ()
    joined: bool = False
    unwrapped: bool = False
    prefix: str = ""
    added: str = ""
    others: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class ConversionCheck(Frozen):
    """A model converted from another format, compared with an executor of that format.

    ``relative_error`` is the largest difference as a part of the largest value of its output.
    """

    samples: int
    elements: int
    max_abs_error: float
    relative_error: float
    executor: str


class ImportResult(Frozen):
    """The loaded float model; ``weights`` is None if they came with the model.

    ``random_weights`` is whether it looks as if it was never trained; ``conversion`` how a
    converted model was checked, None for a model of torch.
    """

    model_class: str
    parameters: int
    parameter_bytes: int
    inputs: tuple[TensorSpec, ...]
    weights: WeightsTaken | None = None
    random_weights: bool = False
    conversion: ConversionCheck | None = None
    warnings: tuple[str, ...] = ()


class ChannelLayer(Frozen):
    """A convolution or linear, and whether its output channels can be removed.

    ``channels`` can be removed one by one; ``partners`` are the modules that lose the same ones.
    ``fixed`` says why none can be removed; "" if they can.
    """

    module: str
    channels: int
    partners: tuple[str, ...] = ()
    fixed: str = ""


class FormComparison(Frozen):
    """A form of the network, compared with one that computes the same function.

    ``exported`` and ``prepared`` programs are compared with the model as its code returned it,
    executed in a process of its own; the ``converted`` program with the prepared one, in which the
    grids of the observers work as fake quantization. ``elements`` are those of all outputs.
    ``sqnr_db`` is None where both are equal.
    """

    form: Literal["exported", "prepared", "converted"]
    samples: int
    elements: int
    max_abs_error: float
    sqnr_db: float | None


class Region(Frozen):
    """Elements of an output, and of the tensor that they come from, as nested loops.

    Loop ``i`` of ``shape[i]`` steps moves by ``strides[i]`` elements in the output, which is
    contiguous, from ``offset`` on, and by ``part_strides[i]`` in the tensor, from ``part_offset``.
    """

    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    part_offset: int
    part_strides: tuple[int, ...]


class OutputPart(Frozen):
    """A tensor that an output joins; ``name`` is that of the module that makes it.

    ``source`` is the line of the model that makes it, "" if unknown. ``nodes`` are the operations
    that make it, from the nearest layers on.
    """

    name: str
    module: str
    source: str
    regions: tuple[Region, ...]
    nodes: tuple[str, ...] = ()


class OutputPort(Frozen):
    """An output of the program that holds elements of an output of the model, over ``factor``."""

    position: int
    regions: tuple[Region, ...]
    factor: float = 1.0


class OutputFill(Frozen):
    """Elements of an output of the model that always have the same value."""

    value: float
    regions: tuple[Region, ...]


class ModelOutput(Frozen):
    """An output of the model, the tensors that it joins, and where the program returns it.

    ``name`` is its key in the dictionary that the model returns, or the name of a field, those
    inside others joined by dots; otherwise ``output`` and its position.

    ``parts`` is empty for an output that joins nothing. A program returns the output as it is at
    ``position``, or, where it is split or divided by factors and that is None, its elements in
    ``ports`` and ``fills``. ``divisible`` is whether its parts can be divided. ``nodes`` are the
    operations that make an output that joins nothing, as those of a part.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    position: int | None
    parts: tuple[OutputPart, ...] = ()
    ports: tuple[OutputPort, ...] = ()
    fills: tuple[OutputFill, ...] = ()
    divisible: bool = False
    nodes: tuple[str, ...] = ()


class TensorMemory(Frozen):
    """The memory of a float program's tensors.

    ``live_bytes`` is the most that is live at a time [bytes], ``largest_bytes`` the size of the
    largest tensor [bytes], and ``largest`` its shape and operation, as "1x64x32x32 of conv2d in c".
    """

    live_bytes: int = 0
    largest_bytes: int = 0
    largest: str = ""


class ExportResult(Frozen):
    """Figures of the exported program; its graph is in graph.json.

    ``state`` are the buffers that it mutates, i.e. its state between runs; ``layers`` are its
    convolutions and linears; ``compared`` is its comparison with the model on the example inputs.
    ``outputs`` are those of the program, ``model_outputs`` those of the model; ``structure`` is how
    the model returns them, as torch writes a tree, "" where that is unknown. ``memory`` is that of
    its tensors. ``precision`` is the least precise float type that the model computes in, "" for
    float32 alone: the program computes in float32.
    """

    nodes: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    model_outputs: tuple[ModelOutput, ...] = ()
    structure: str = ""
    branches: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    layers: tuple[ChannelLayer, ...] = ()
    compared: tuple[FormComparison, ...] = ()
    memory: TensorMemory = TensorMemory()
    precision: str = ""
    warnings: tuple[str, ...] = ()

    def model_output_names(self, count: int) -> list[str]:
        """Return the names of the first ``count`` outputs of the model, and of the state behind them."""
        names = [output.name for output in self.model_outputs]
        return (names + [f"output {i}" for i in range(len(names), count)])[:count]

    def named_outputs(self) -> dict[str, str]:
        """Return the names that the model gives to outputs, by the operation that makes them."""
        return {
            self.outputs[output.position].name: output.name
            for index, output in enumerate(self.model_outputs)
            if output.position is not None and output.name != f"output {index}"
        }

    def program_output_names(self, count: int) -> list[str]:
        """Return the names of the first ``count`` outputs of the program; the model's, unless split."""
        names = {output.position: output.name for output in self.model_outputs}
        return [names.get(position, f"output {position}") for position in range(count)]


class NodeAnnotation(Frozen):
    """The quantizer's annotation of one node of the prepared graph; ``reason`` if it has none.

    ``cause`` is the reason's code, where the target has one; ``origin`` is the operation in the
    exported graph; ``never`` marks nodes that no rule can quantize.
    """

    node: str
    op: str
    module: str
    config: str
    by: str = ""
    quantized: bool
    reason: str = ""
    cause: str = ""
    origin: str = ""
    never: bool = False


class Improvement(Frozen):
    """The effect of one improver: the number of changed ``places``, and what was skipped.

    ``before_db`` and ``after_db`` are the SQNR [dB] of the quantized outputs on ``held_out``
    samples that the improver did not see, before and after it; None without such samples. It was
    undone if not ``kept``, because it lowers that figure.
    """

    improver: ImproverId
    places: int
    left: str = ""
    held_out: int = 0
    before_db: float | None = None
    after_db: float | None = None
    kept: bool = True

    @property
    def sentence(self) -> str:
        """Return the effect as a sentence."""
        one, several = _PLACES[self.improver]
        places = f"{self.places} {one if self.places == 1 else several}"
        sentence = f"Changes {places}." if self.places else f"Finds no {several} to change."
        if not self.kept:
            sentence = f"Left out, because it lowers the SQNR: would change {places}."
        return " ".join(filter(None, (sentence, self.left, self.measured)))

    @property
    def measured(self) -> str:
        """Return what it gained on held-out samples as a sentence; "" if that is unknown."""
        if self.before_db is None or self.after_db is None:
            return ""
        return (
            f"SQNR on {self.held_out} held-out samples: {self.before_db:.1f} dB "
            f"{'before' if self.kept else 'without'}, {self.after_db:.1f} dB "
            f"{'after' if self.kept else 'with it'}."
        )


_PLACES: dict[ImproverId, tuple[str, str]] = {
    "equalize": ("pair of layers", "pairs of layers"),
    "smooth": ("layer norm with linears after it", "layer norms with linears after them"),
    "scales": ("input of layers", "inputs of layers"),
    "clips": ("range of weights or activations", "ranges of weights or activations"),
    "gptq": ("layer", "layers"),
    "rounding": ("layer", "layers"),
    "bias": ("bias", "biases"),
    "norms": ("layer", "layers"),
}


# on: applied. off: switched off by an option. aside: the tools have other code.
CorrectionState = Literal["on", "off", "aside"]


class AppliedCorrection(Frozen):
    """What became of a correction in a stage; ``places`` are the nodes that it changed.

    ``times`` is how often it was applied in lowering, where several times at one place count: for
    ``fine_tables`` the number of further tables. 0 for the other stages.
    """

    id: str
    state: CorrectionState
    places: tuple[str, ...] = ()
    times: int = 0


class AppliedRewrite(Frozen):
    """What became of a rewrite of the float graph.

    ``places`` are the nodes of the float program that it replaced, ``modules`` theirs. ``as_written``
    are those that it leaves, because the compiler takes more cycles for what it would write.
    ``cycles_before`` and ``cycles_after`` are the compiler's estimates of these operations as they
    were written and as they are now; None where the program is not compiled or nothing changed.
    """

    id: str
    state: Literal["on", "off"]
    places: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    as_written: tuple[str, ...] = ()
    cycles_before: int | None = None
    cycles_after: int | None = None


class CompressedLayer(Frozen):
    """What compression did to a layer; None where it did nothing.

    ``channels`` are the output channels before and after, ``clusters`` the distinct weights,
    relative to the largest of their channel.
    """

    module: str
    channels: tuple[int, int] | None = None
    clusters: tuple[int, int] | None = None


class PrepareResult(Frozen):
    """The quantizer's report, and the effects of improvers and of compression.

    ``ranges`` are minimum and maximum of the activations whose range an improver chose, by node.
    """

    observers: int
    annotations: tuple[NodeAnnotation, ...]
    improvements: tuple[Improvement, ...] = ()
    ranges: dict[str, tuple[float, float]] = Field(default_factory=dict)
    compressed: tuple[CompressedLayer, ...] = ()
    corrections: tuple[AppliedCorrection, ...] = ()
    rewrites: tuple[AppliedRewrite, ...] = ()
    warnings: tuple[str, ...] = ()


class FormatMemory(Frozen):
    """Average bits per value of an emulated program, including shared exponents; computed.

    ``weight_bits`` is over all floating-point constants, ``data_bits`` over the activations of
    operations in MASE's table; None if there are none.
    """

    weight_bits: float | None
    data_bits: float | None
    weight_elements: int
    data_elements: int

    @property
    def weight_density(self) -> float | None:
        """Size of the weights in float32, relative to their size in the format."""
        return FLOAT_BITS / self.weight_bits if self.weight_bits else None

    @property
    def data_density(self) -> float | None:
        """Size of the activations in float32, relative to their size in the format."""
        return FLOAT_BITS / self.data_bits if self.data_bits else None


class ConvertResult(Frozen):
    """Figures of the quantized program; its graph is in graph.json.

    ``memory`` is set only for number formats; for devices the compiler determines it. ``compared``
    is the converted program on the first calibration sample; empty if an observer has no fixed
    grid.
    """

    nodes: int
    quantized_weights_bytes: int
    float_operators: int
    memory: FormatMemory | None = None
    compared: tuple[FormComparison, ...] = ()
    warnings: tuple[str, ...] = ()


NOT_REACHED = "no calibration sample reached this tensor"


class TensorRange(Frozen):
    """Calibration statistics of one tensor, and the resulting grid.

    ``id`` is the observer's name; ``index`` is the row in the arrays ``histogram`` [T, 2048] and
    ``edges`` [T, 2]; the percentiles p0.1 and p99.9 come from that histogram. Weights have one
    range per channel in the arrays ``channel_min/<id>`` and ``channel_max/<id>``; activations have
    the extremes of every sample in ``sample_min`` and ``sample_max`` [T, S], with the sample
    numbers in ``samples`` [S].

    ``zeros`` is the share of values that are exactly zero; ``mean_square`` is the mean of the
    squared values; ``dead`` counts channels that contain only zeros. ``searched`` is the scale and
    zero point of the histogram observer's search if another observer is used. ``symmetric`` and
    ``eps`` (the smallest scale) are the observer's scheme. ``node`` is the tensor in the prepared
    graph; ``origin`` is the operation of the exported graph that produces it, or that reads the
    weight, "" if unknown. For an emulated format, ``format`` is its JSON (operation, operand,
    scheme, parameters, mase_compatible), ``dtype`` its description, and ``scale`` is 0. For dynamic
    ranges, ``dynamic`` is the mode ("asym", "sym"), and the statistics are over all samples; see
    ``numerics.dynamic``. ``shared`` are further tensors with the same observer: the statistics are
    of all of them.
    """

    id: str
    node: str
    op: str
    module: str
    kind: Literal["activation", "weight"]
    index: int
    minimum: float
    maximum: float
    p_low: float
    p_high: float
    dtype: str
    qmin: int
    qmax: int
    scale: float
    zero_point: int
    observer: str
    channels: int = 1
    problem: str = ""
    symmetric: bool = False
    eps: float = 2.0**-16
    zeros: float | None = None
    mean_square: float | None = None
    dead: int = 0
    searched: tuple[float, int] | None = None
    origin: str = ""
    format: str = ""
    dynamic: str = ""
    shared: tuple[str, ...] = ()


class CalibrateResult(Frozen):
    """Ranges of all observed tensors in topological order.

    ``compared`` are the exported and the prepared program on the first samples. ``improved`` are
    the ranges that an improver chose, and those that outputs share with the inputs of the next
    step that they become, by node, for tensors without one of the project.
    """

    samples: int
    calibrated_on: str
    ranges: tuple[TensorRange, ...]
    improved: dict[str, tuple[float, float]] = Field(default_factory=dict)
    compared: tuple[FormComparison, ...] = ()
    warnings: tuple[str, ...] = ()
