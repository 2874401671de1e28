"""What the first stages leave of the program: its inputs, and what the quantizer made of it."""

from __future__ import annotations

from typing import Literal

from workbench.project.configs import ImproverId
from workbench.project.frozen import Frozen

FLOAT_BITS = 32.0


class TensorSpec(Frozen):
    """Name, shape and dtype of one input or output; -1 in a shape is a free size."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class ImportResult(Frozen):
    """The float model as it was loaded."""

    model_class: str
    parameters: int
    parameter_bytes: int
    inputs: tuple[TensorSpec, ...]
    warnings: tuple[str, ...] = ()


class ExportResult(Frozen):
    """The exported program in figures; its graph lies in graph.json.

    ``state`` are the buffers that it writes: what it remembers from one run to the next.
    """

    nodes: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    branches: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class NodeAnnotation(Frozen):
    """What the quantizer did with one node of the prepared graph; ``reason`` when it did not.

    ``origin`` is the operation of the exported graph that it is; ``never`` says that no rule could
    have it otherwise, and nobody expects it to.
    """

    node: str
    op: str
    module: str
    config: str
    by: str = ""
    quantized: bool
    reason: str = ""
    origin: str = ""
    never: bool = False


class Improvement(Frozen):
    """What one improver did: how many ``places`` it changed, and what it left alone, in words."""

    improver: ImproverId
    places: int
    left: str = ""

    @property
    def sentence(self) -> str:
        """Say it, with the unit of the places."""
        what = _PLACES[self.improver]
        said = f"Changes {self.places} {what}." if self.places else f"Finds no {what} to change."
        return f"{said} {self.left}".strip()


_PLACES: dict[ImproverId, str] = {
    "equalize": "pairs of layers",
    "smooth": "layer norms with linears behind them",
    "bias": "biases",
}


# on: applied. off: switched off by an option. aside: the tools have another source.
CorrectionState = Literal["on", "off", "aside"]


class AppliedCorrection(Frozen):
    """What became of a correction in a stage; ``places`` are the nodes that it changed."""

    id: str
    state: CorrectionState
    places: tuple[str, ...] = ()


class PrepareResult(Frozen):
    """The quantizer's own report, and what improvers did before."""

    observers: int
    annotations: tuple[NodeAnnotation, ...]
    improvements: tuple[Improvement, ...] = ()
    corrections: tuple[AppliedCorrection, ...] = ()
    warnings: tuple[str, ...] = ()


class FormatMemory(Frozen):
    """Average bits of the values of an emulated program, shared exponents included; computed.

    ``weight_bits`` is over all floating constants, ``data_bits`` over what flows into operations
    of MASE's table; None where there is none.
    """

    weight_bits: float | None
    data_bits: float | None
    weight_elements: int
    data_elements: int

    @property
    def weight_density(self) -> float | None:
        """How many times smaller than in float32 the weights are."""
        return FLOAT_BITS / self.weight_bits if self.weight_bits else None

    @property
    def data_density(self) -> float | None:
        """How many times smaller than in float32 what flows is."""
        return FLOAT_BITS / self.data_bits if self.data_bits else None


class ConvertResult(Frozen):
    """The quantized program in figures; its graph lies in graph.json.

    ``memory`` is there for number formats alone: for a device its compiler says it.
    """

    nodes: int
    quantized_weights_bytes: int
    float_operators: int
    memory: FormatMemory | None = None
    warnings: tuple[str, ...] = ()


NOT_REACHED = "no calibration sample reached this tensor"


class TensorRange(Frozen):
    """What calibration saw of one tensor, and the grid that follows.

    ``id`` is the observer's name; ``index`` the row in the arrays ``histogram`` [T, 2048] and
    ``edges`` [T, 2]; percentiles p0.1 and p99.9 come from that histogram. Weights carry one range
    per channel in the arrays ``channel_min/<id>`` and ``channel_max/<id>``; activations the
    extremes of every sample in ``sample_min`` and ``sample_max`` [T, S], whose numbers stand in
    ``samples`` [S].

    ``zeros`` is the share of values that are exactly zero and ``mean_square`` the mean of the
    squared values; ``dead`` counts channels without any other value. ``searched`` is the scale and
    zero point that the search of the histogram observer gives where another observer is used.
    ``symmetric`` and ``eps`` (the smallest scale) are the observer's scheme. ``node`` names the
    tensor in the prepared graph, ``origin`` the operation of the exported one that makes it, or
    that reads the weight; "" where nobody knows. Where an emulated format stands in the place of
    integers, ``format`` says it as JSON (operation, operand, scheme, parameters, mase_compatible),
    ``dtype`` in words, and ``scale`` is 0. Where every call takes a range of its own, ``dynamic``
    says how ("asym", "sym"), and what stands here is over all samples; see ``numerics.dynamic``.
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


class CalibrateResult(Frozen):
    """Ranges of all observed tensors in topological order."""

    samples: int
    calibrated_on: str
    ranges: tuple[TensorRange, ...]
    warnings: tuple[str, ...] = ()
