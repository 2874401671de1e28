"""Wrong or rejected programs, predicted from the float graph where a correction is switched off.

Each forecast is the fault of one row of ``corrections``. It follows from operators and the order in
which they read each other, so that it also names a few programs that Vela happens to compile
rightly; *verify* decides. Source: the smallest programs of ``resources/guide/reference/
compiler-faults.md`` and ``corrections.md``, compiled with ExecuTorch 1.5.1 and Vela 5.1.0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from workbench.errors import ErrorInfo, Place
from workbench.targets.ethos_u.correction import (
    CLAMPS,
    FLIPPED,
    JOINED,
    LAYOUTS,
    MINIMA,
    MOVED,
    NEGATED,
    ONES,
    PIXELS,
    POOLS,
    QUANTIZED,
    RESCALED,
    ROWS,
    SLICES,
    SWITCHED_OFF,
)
from workbench.targets.ethos_u.corrections import CORRECTIONS_BY_ID, is_wanted, switching_on
from workbench.targets.ethos_u.devices import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from workbench.graph.snapshot import GraphSnapshot, Node
    from workbench.project.model import TargetChoice

_SLICING = (
    "slice", "narrow", "chunk", "split", "split_with_sizes", "tensor_split", "unbind", "select",
)  # fmt: skip
_REDUCING = ("amax", "amin", "max", "min", "sum", "mean", "var")
_PRODUCTS = ("matmul", "bmm", "scaled_dot_product_attention")
_PARTING = ("chunk", "split", "split_with_sizes", "tensor_split", "unbind")
_ON_EACH = ("add", "sub", "mul", "div", "pow", "square", "maximum", "minimum", "abs", "neg")
_OF_TWO = ("add", "sub", "mul", "maximum", "minimum", "where")
_GROWING = ("conv_transpose1d", "conv_transpose2d")
_CONVOLUTIONS = ("conv1d", "conv2d", "convolution")
_POOLS = ("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d")
_LINEAR = (*_CONVOLUTIONS, "linear")
_PADDING = ("pad", "constant_pad_nd", "zero_pad2d")
_JOINING = ("cat", "concat", "stack", *_PADDING)
_RESIZING = ("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
_CLAMPING = ("relu", "relu_", "relu6", "hardtanh", "hardtanh_", "clamp", "clamp_", "clamp_min")
_AT_ZERO = ("relu", "relu_", "relu6")
_HARDTANH = ("hardtanh", "hardtanh_")
_FUNCTIONS = (
    *_CLAMPING, "sigmoid", "tanh", "exp", "log", "sin", "cos", "gelu", "silu", "silu_", "elu",
    "hardsigmoid", "hardswish", "rsqrt", "sqrt", "erf", "softplus", "mish", "leaky_relu",
)  # fmt: skip
_TURNING = ("flip", "transpose", "permute", "t", "roll")
_SHAPING = (
    "view", "reshape", "transpose", "permute", "t", "expand", "unsqueeze", "squeeze", "flatten",
    "unflatten", "contiguous", "clone", "dropout", "getitem", "batch_norm", "alias", "detach",
)  # fmt: skip
_NOT_NEGATIVE = (
    "relu",
    "relu_",
    "relu6",
    "sigmoid",
    "hardsigmoid",
    "softmax",
    "abs",
    "exp",
    "sqrt",
)
_IMAGE_RANK = 4
# Operators whose result has the range of their input.
_KEEPING_RANGE = (*_SHAPING, *_SLICING, "max_pool2d", "max_pool1d", "upsample_nearest2d", "flip")


class Forecast(NamedTuple):
    """A fault that returns where a correction is off.

    Attributes:
        correction: The id of the correction.
        happens: What happens, as a sentence with ``{}`` for the operator.
        families: The devices that have the fault.
        shows: Whether an operator shows it.
    """

    correction: str
    happens: str
    families: tuple[str, ...]
    shows: Callable[[_Reading, Node], bool]


class _Reading:
    """A float graph, with the precisions of its operators.

    Args:
        graph: The exported float program.
        wide: The nodes with 16-bit activations.
        macs: MAC units of the device.
    """

    def __init__(self, graph: GraphSnapshot, wide: Collection[str], macs: int) -> None:
        self.wide, self.macs, self._graph = wide, macs, graph

    def name(self, node: Node) -> str:
        """Return the name of a node's operator, e.g. ``add`` of ``aten.add.Tensor``."""
        parts = node.op.split(".")
        return parts[1] if len(parts) > 1 else node.op

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Return what a node reads."""
        return self._graph.producers(node.id)

    def first(self, node: Node) -> Node | None:
        """Return what a node reads first."""
        return next(iter(self.inputs(node)), None)

    def read_shape(self, node: Node) -> tuple[int | str, ...] | None:
        """Return the shape of the tensor that a node reads first; None if it is unknown."""
        source = self.first(node)
        return source.outputs[0].shape if source is not None and source.outputs else None

    def comes_from(
        self, node: Node, makers: Collection[str], passed: Collection[str] = _SHAPING
    ) -> bool:
        """Return whether a node reads what such an operator makes, also behind others."""
        return any(True for _ in self.made_by(node, makers, passed))

    def made_by(
        self, node: Node, makers: Collection[str], passed: Collection[str] = _SHAPING
    ) -> Iterator[Node]:
        """Yield the operators of some names whose results a node reads, also behind others."""
        for source in self.inputs(node):
            if self.name(source) in makers:
                yield source
            elif self.name(source) in passed:
                yield from self.made_by(source, makers, passed)

    def is_behind_product(self, node: Node) -> bool:
        """Return whether a value depends on a product of two activations."""
        known, left = set[str](), [node]
        while left:
            at = left.pop()
            if self.name(at) in _PRODUCTS:
                return True
            if at.id not in known:
                known.add(at.id)
                left += self.inputs(at)
        return False

    def others(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that read what a node makes."""
        return self._graph.consumers(node.id)

    def is_multiplied(self, node: Node) -> bool:
        """Return whether a convolution in groups has several outputs for each channel."""
        groups = int(node.attrs.get("groups", "1")) if self.name(node) in _CONVOLUTIONS else 1
        is_depthwise = groups > 1 and (self.read_shape(node) or ())[1:2] == (groups,)
        return is_depthwise and bool(node.outputs) and node.outputs[0].shape[1] != groups

    def joins_multiplied(self, node: Node) -> bool:
        """Return whether a node joins what such a convolution makes."""
        return any(
            self.is_multiplied(source)
            or (self.name(source) in (*_SHAPING, *_FUNCTIONS) and self.joins_multiplied(source))
            for source in self.inputs(node)
        )

    def is_fused(self, node: Node) -> bool:
        """Return whether an activation alone reads a convolution or linear, and is fused with it.

        Source: ExecuTorch 1.5.1 ``_passes/fuse_quantized_activation_pass.py``.
        """
        before = self.first(node)
        while before is not None and len(self.others(before)) == 1:
            if self.name(before) in _LINEAR:
                return True
            before = self.first(before) if self.name(before) == "batch_norm" else None
        return False

    def is_not_negative(self, node: Node) -> bool:
        """Return whether all values of a node are zero or more."""
        if self.name(node) in _NOT_NEGATIVE:
            return True
        before = self.first(node)
        return self.name(node) in _KEEPING_RANGE and (
            before is None or self.is_not_negative(before)
        )

    def shares_range(self, node: Node) -> bool:
        """Return whether a node is joined with values that may be negative."""
        for reader in self.others(node):
            name = self.name(reader)
            if name in {"cat", "concat", "stack"} and not all(
                self.is_not_negative(source) for source in self.inputs(reader)
            ):
                return True
            if name in _KEEPING_RANGE and self.shares_range(reader):
                return True
        return False


def _reads_slices(reading: _Reading, node: Node) -> bool:
    is_reader = reading.name(node) in (*_REDUCING, *_PRODUCTS, *_GROWING)
    return (is_reader or reading.is_multiplied(node)) and reading.comes_from(node, _SLICING)


def _convolves_part_of_batch(reading: _Reading, node: Node) -> bool:
    """Return whether a convolution reads a part of each image of a batch."""
    shape = reading.read_shape(node) or ()
    if reading.name(node) not in _CONVOLUTIONS or shape[:1] in {(), (1,)}:
        return False
    return _is_in_groups(reading, node) or reading.comes_from(node, _SLICING)


def _convolves_padded(reading: _Reading, node: Node) -> bool:
    """Return whether a convolution of 16 bits reads a pad as images of another shape."""
    if node.id not in reading.wide or reading.name(node) not in (*_CONVOLUTIONS, *_GROWING):
        return False
    shape = reading.read_shape(node) or ()
    is_batch = len(shape) < _IMAGE_RANK and shape[:1] not in {(), (1,)}
    padded = reading.made_by(node, _PADDING)
    if reading.name(node) == "conv_transpose1d":
        return is_batch
    return any(is_batch or source.outputs[0].shape != shape for source in padded)


def _reads_deep_slice(reading: _Reading, node: Node) -> bool:
    """Return whether an operator on each element reads a slice of five dimensions."""
    if reading.name(node) not in (*_FUNCTIONS, *_ON_EACH):
        return False
    sliced = [reading.read_shape(source) or () for source in reading.made_by(node, _SLICING)]
    return any(sum(size != 1 for size in shape) > _IMAGE_RANK for shape in sliced)


def _repeats_slice(reading: _Reading, node: Node) -> bool:
    """Return whether an operator behind another one repeats a slice, as for all rows."""
    if reading.name(node) not in _OF_TWO or not node.outputs:
        return False
    size = _elements(node)
    sources = reading.inputs(node)
    parts = [
        source
        for source in sources
        if (reading.name(source) in _SLICING or reading.comes_from(source, _SLICING))
        and _elements(source) < size
    ]
    return bool(parts) and any(s not in parts and s.kind == "call" for s in sources)


def _elements(node: Node) -> int:
    """Return the number of elements of a node's first output; sizes from the data count as 1."""
    shape = node.outputs[0].shape if node.outputs else ()
    return math.prod(size for size in shape if isinstance(size, int))


def _dilates_part(reading: _Reading, node: Node) -> bool:
    """Return whether a convolution with a dilation above two reads a slice.

    ExecuTorch slices the channels of one in groups, and cuts off rows behind the last window.
    """
    if reading.name(node) not in _CONVOLUTIONS or max(_sizes(node, "dilation")) <= 2:
        return False
    return (
        _is_in_groups(reading, node)
        or max(_sizes(node, "stride")) > 1
        or reading.comes_from(node, _SLICING)
    )


def _is_in_groups(reading: _Reading, node: Node) -> bool:
    """Return whether each group of a convolution reads several channels."""
    groups = int(node.attrs.get("groups", "1"))
    channels = (reading.read_shape(node) or ())[1:2]
    return groups > 1 and channels not in {(), (groups,)}


def _sizes(node: Node, name: str) -> list[int]:
    """Return the strides or dilations of a convolution or pool, by default 1."""
    text = node.attrs.get(name, "").strip("[]")
    return [int(word) for word in text.split(",")] if text.replace(",", "").split() else [1]


def _pads_with_large_stride(reading: _Reading, node: Node) -> bool:
    is_padded = any(digit in node.attrs.get("padding", "") for digit in "123456789")
    return (
        reading.name(node).startswith("max_pool") and max(_sizes(node, "stride")) > 3 and is_padded
    )


def _has_large_stride(reading: _Reading, node: Node) -> bool:
    return reading.name(node) in (*_CONVOLUTIONS, *_POOLS) and max(_sizes(node, "stride")) > 3


def _joins(reading: _Reading, node: Node) -> bool:
    return reading.name(node) in _JOINING and reading.joins_multiplied(node)


def _joins_resized(reading: _Reading, node: Node) -> bool:
    return reading.name(node) in _JOINING and reading.comes_from(node, _RESIZING[:1])


def _joins_product(reading: _Reading, node: Node) -> bool:
    """Return whether a node joins or pads a matrix product in four dimensions."""
    return reading.name(node) in _JOINING and any(
        source.outputs and len(source.outputs[0].shape) >= _IMAGE_RANK
        for source in reading.made_by(node, _PRODUCTS[:2], (*_SHAPING, *_CLAMPING))
    )


def _flips_product(reading: _Reading, node: Node) -> bool:
    is_large = reading.macs >= 1024
    return is_large and reading.name(node) == "flip" and reading.comes_from(node, _PRODUCTS)


def _follows_layout(reading: _Reading, node: Node) -> bool:
    if reading.name(node) not in _FUNCTIONS:
        return False
    return any(
        reading.name(source) in _TURNING and reading.comes_from(source, _FUNCTIONS)
        for source in reading.inputs(node)
    )


def _follows_deep_layout(reading: _Reading, node: Node) -> bool:
    """Return whether an 8-bit function reads an exchange of five dimensions."""
    if reading.name(node) not in _FUNCTIONS or node.id in reading.wide:
        return False
    turned = reading.made_by(node, ("permute", "transpose"), ("clone", "contiguous", "alias"))
    return any(source.outputs and len(source.outputs[0].shape) > _IMAGE_RANK for source in turned)


def _joins_function_of_one_channel(reading: _Reading, node: Node) -> bool:
    """Return whether functions of convolutions are joined, one of them with a single channel.

    For a single channel a change of layout is none, so that the others are changed before the
    function and not behind what joins them.
    """
    parts = [part for part in reading.inputs(node) if part.outputs]
    functions = [part for part in parts if reading.name(part) in _FUNCTIONS]
    return (
        reading.name(node) in _JOINING[:2]
        and any(reading.comes_from(part, _CONVOLUTIONS) for part in functions)
        and any(part.outputs[0].shape[1:2] == (1,) for part in parts)
    )


def _resizes_one(reading: _Reading, node: Node) -> bool:
    before = reading.read_shape(node)
    is_one = before is not None and all(size == 1 for size in before)
    return reading.name(node) == _RESIZING[0] and is_one and node.id in reading.wide


def _is_of_number_first(reading: _Reading, node: Node) -> bool:
    """Return whether the first operand of an operator is a single number, and others are not."""
    if reading.name(node) == "rsub":
        return True
    sizes = [source.outputs[0].shape for source in reading.inputs(node) if source.outputs]
    is_number = bool(sizes[1:]) and all(size == 1 for size in sizes[0])
    return reading.name(node) in _OF_TWO and is_number


def _multiplies_part_later(reading: _Reading, node: Node) -> bool:
    """Return whether a 16-bit product reads a part of a split value, and another product."""
    if reading.name(node) not in _PRODUCTS or node.id not in reading.wide:
        return False
    is_attention = reading.name(node) == _PRODUCTS[-1]
    parts = [
        source
        for source in reading.inputs(node)
        if reading.name(source) in _PARTING or reading.comes_from(source, _PARTING)
    ]
    others = [source for source in reading.inputs(node) if source not in parts]
    return bool(parts) and (is_attention or any(map(reading.is_behind_product, others)))


def _is_called_twice(reading: _Reading, node: Node) -> bool:
    if reading.name(node) not in _CONVOLUTIONS or node.id not in reading.wide:
        return False
    before = reading.inputs(node)
    again = [other for other in reading.others(before[0]) if other.id != node.id] if before else []
    return any(other.op == node.op and reading.inputs(other) == before for other in again)


def _loses_clamp(reading: _Reading, node: Node) -> bool:
    """Return whether a clamp at zero is fused, and its result shares a range below zero."""
    name = reading.name(node)
    if name not in _AT_ZERO and not (
        name in _HARDTANH and float(node.attrs.get("min_val", "-1")) == 0.0
    ):
        return False
    return reading.is_fused(node) and reading.shares_range(node)


def _clamps_rows(reading: _Reading, node: Node) -> bool:
    """Return whether an operator on rows is joined with another, and loses all but the first."""
    if _computes_reduced_batch(reading, node):
        return True
    if reading.name(node) not in _CLAMPING:
        return False
    is_own = node.id in reading.wide or not reading.name(node).startswith("relu")
    is_behind = is_own and reading.comes_from(node, _LINEAR, ("batch_norm",))
    is_rows = bool(node.outputs) and any(size != 1 for size in node.outputs[0].shape[:-1])
    if is_behind and is_rows and any(reading.name(n) in _LINEAR for n in reading.others(node)):
        return True
    is_joined = reading.comes_from(node, (*_ON_EACH, *_POOLS))
    return is_rows and is_joined and _is_for_linear(reading, node)


def _computes_reduced_batch(reading: _Reading, node: Node) -> bool:
    """Return whether a function or clamp reads sums or maxima of a batch of images."""
    shape = reading.read_shape(node) or ()
    is_batch = len(shape) == _IMAGE_RANK and shape[0] != 1
    is_function = reading.name(node) in (*_FUNCTIONS, *_CLAMPING)
    return is_batch and is_function and reading.comes_from(node, _REDUCING, ())


def _is_for_linear(reading: _Reading, node: Node) -> bool:
    """Return whether a linear reads a value, also in another shape."""
    names = {reader: reading.name(reader) for reader in reading.others(node)}
    return any(
        name in ("linear", "conv1d") or (name in _SHAPING and _is_for_linear(reading, reader))
        for reader, name in names.items()
    )


def _is(*names: str) -> Callable[[_Reading, Node], bool]:
    return lambda reading, node: reading.name(node) in names


def _reduces_one(reading: _Reading, node: Node) -> bool:
    before = reading.read_shape(node)
    if reading.name(node) not in _REDUCING[:4] or before is None or not node.outputs:
        return False
    after = node.outputs[0].shape
    return [size for size in before if size != 1] == [size for size in after if size != 1]


_ALL, _SMALL, _LARGE = ("u55", "u65", "u85"), ("u55", "u65"), ("u85",)
FORECASTS: tuple[Forecast, ...] = (
    Forecast(SLICES, "{} reads a slice with a wrong offset or shape.", _ALL, _reads_slices),
    Forecast(SLICES, "Vela's process ends at {}, which reads a slice of five dimensions.", _SMALL,
             _reads_deep_slice),
    Forecast(SLICES, "{} reads a part of each image of a batch with a wrong offset.", _ALL,
             _convolves_part_of_batch),
    Forecast(SLICES, "{} repeats a slice, and may read it from the start of the sliced tensor.",
             _LARGE, _repeats_slice),
    Forecast(SLICES, "{} has a dilation above two, and reads a slice with a wrong offset.", _ALL,
             _dilates_part),
    Forecast(SLICES, "{} has a stride above three, and reads with a wrong offset where rows are "
             "left over behind the last window.", _LARGE, _has_large_stride),
    Forecast(SLICES, "{} reads a pad as images of another shape.", _ALL, _convolves_padded),
    Forecast(POOLS, "{} has a stride above three, and loses its padding.", _LARGE,
             _pads_with_large_stride),
    Forecast(ROWS, "{} computes rows or a batch beside a linear, a convolution or a sum, and all "
             "but the first are wrong.", _ALL, _clamps_rows),
    Forecast(JOINED, "{} joins a depthwise convolution with several outputs a channel, which loses "
             "its place or is rejected.", _ALL, _joins),
    Forecast(JOINED, "{} joins a resized tensor, which is read beyond its end.", _SMALL,
             _joins_resized),
    Forecast(JOINED, "{} joins or pads a matrix product, which loses its place.", _SMALL,
             _joins_product),
    Forecast(FLIPPED, "Vela's process ends at {}, which flips a matrix product.", _LARGE,
             _flips_product),
    Forecast(LAYOUTS, "{} follows a change of layout of another function, and is not computed.",
             _LARGE, _follows_layout),
    Forecast(LAYOUTS, "{} follows an exchange of five dimensions, and may be written to wrong "
             "places.", _ALL, _follows_deep_layout),
    Forecast(LAYOUTS, "{} joins functions of convolutions, one with a single channel, and some "
             "channels are not computed.", _LARGE, _joins_function_of_one_channel),
    Forecast(NEGATED, "{} gives its result the step of its input, and is wrong where calibration "
             "finds another one.", _ALL, _is("neg")),
    Forecast(PIXELS, "Vela's process ends at {}, which resizes one element of 16 bits.", _SMALL,
             _resizes_one),
    Forecast(RESCALED, "{} is called twice with one input in 16 bits, and Vela rejects the "
             "program.", _SMALL, _is_called_twice),
    Forecast(QUANTIZED, "{} multiplies a part of a value that another delegate computes, and takes "
             "its integers for floats.", _SMALL, _multiplies_part_later),
    Forecast(MOVED, "{} has a number as its first operand, and its elements may be in a wrong "
             "order.", _ALL, _is_of_number_first),
    Forecast(MINIMA, "{} is computed with a constant of a wrong shape.", _SMALL, _is("amin")),
    Forecast(ONES, "{} reduces one element, and what joins it reads with a wrong shape.", _ALL,
             _reduces_one),
    Forecast(CLAMPS, "{} shares its range with values below zero, and the compiled program lets "
             "negative values pass.", _ALL, _loses_clamp),
)  # fmt: skip


def faults_without_corrections(
    choice: TargetChoice, graph: GraphSnapshot, integer: Collection[str], wide: Collection[str]
) -> Iterator[ErrorInfo]:
    """Yield what goes wrong because a correction is off, with the option that switches it on.

    Args:
        choice: The device with its options.
        graph: The exported float program.
        integer: The nodes that are quantized and may run on the NPU.
        wide: Those of them with 16-bit activations.
    """
    family = family_of(choice.id).name
    reading = _Reading(graph, wide, int(choice.id.rpartition("-")[2]))
    for forecast in FORECASTS:
        if is_wanted(forecast.correction, choice.options) or family not in forecast.families:
            continue
        title = CORRECTIONS_BY_ID[forecast.correction].title
        for node in graph.nodes:
            if node.kind == "call" and node.id in integer and forecast.shows(reading, node):
                location = f"{node.id} in {node.module or 'forward'}"
                yield ErrorInfo(
                    message=forecast.happens.format(location),
                    hint=f"Switch on the correction {title!r} "
                    f"({switching_on([forecast.correction])}).",
                    where=Place(kind="option", id=f"target.options.{forecast.correction}"),
                    code=SWITCHED_OFF,
                )
