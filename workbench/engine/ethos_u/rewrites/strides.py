"""Convolutions whose positions along an axis become channels.

Strides of the NPU end at 3: Vela compiles a larger one as one operation for each column of the
result. And few channels fill a part of the 8 that the NPU multiplies at once. With ``factor``
positions as channels, a convolution has the stride 1 and fewer taps of more channels each. Every
product is one of the convolution as it was written, or one with a weight of zero.

Source of the limits: Vela 5.1.0, SUPPORTED_OPS.md (stride 1 to 3); of the 8 channels: Ethos-U55
Technical Reference Manual, "Operators and performance" (depth of a block of inputs).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished, fused_reader
from workbench.engine.ethos_u.rewrites.later_cuts import move_cut
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    ARITHMETIC,
    conv_arguments,
    quantized_calls,
    written_name,
)

_ATEN = torch.ops.aten
_BY_AXES = {
    _ATEN.conv1d.default: _ATEN.conv1d.default,
    _ATEN.conv1d.padding: _ATEN.conv1d.default,
    _ATEN.conv2d.default: _ATEN.conv2d.default,
    _ATEN.conv2d.padding: _ATEN.conv2d.default,
}
_LARGEST_STRIDE = 3
_BLOCK_DEPTH = 8
# A kernel is large from so many taps on; shorter ones gain less than the copies cost.
_LARGE = 16
# Further outputs of one position; more of them make products with zeros the larger part.
_MULTIPLES = (1, 2, 4, 8, 16)
# A large kernel becomes channels if that takes at most this part of the products.
_PRODUCTS_LEFT = 0.5
# Inputs of up to so many channels are gathered channel by channel on U85, whose changes of layout
# take 20 cycles for each element by Vela's estimate.
_GATHERED = 16
# So many times the taps are taken where that spares a copy with zeros at the ends; on U85 copies of
# gathered inputs cost more.
_EXTRA_TAPS, _GATHERED_TAPS = 1.25, 2.0


@dataclass(frozen=True)
class Axis:
    """One axis of a convolution; ``factor`` of its positions become channels.

    The last ``cut`` positions of the extent are not read.
    """

    extent: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    factor: int = 1
    cut: int = 0

    @property
    def outputs(self) -> int:
        """The number of results along the axis."""
        reach = self.dilation * (self.kernel - 1)
        return (self.extent - self.cut + 2 * self.padding - reach - 1) // self.stride + 1

    @property
    def each(self) -> int:
        """The number of results of one position of the folded axis."""
        return self.factor // self.stride if self.factor > 1 else 1

    @property
    def taps(self) -> int:
        """The least number of taps of the folded axis."""
        if self.factor == 1:
            return self.kernel
        reach = (self.each - 1) * self.stride + (self.kernel - 1) * self.dilation
        return reach // self.factor + 1


@dataclass(frozen=True)
class _Fold:
    """Where the taps of a folded axis are, and what is added to or cut off its ends.

    ``offset`` is the place of the first tap, ``taps`` the size of the new kernel. ``before`` and
    ``after`` are positions of the axis as it is, ``left`` and ``right`` of the folded one; negative
    ones are cut off.
    """

    offset: int
    taps: int
    before: int = 0
    after: int = 0
    left: int = 0
    right: int = 0


@dataclass(frozen=True)
class _Convolution:
    """A convolution with constant weights of shape [outputs, channels of a group, *kernel].

    ``is_column`` is whether it is one over two axes with the width 1, of which only rows are left.
    """

    node: fx.Node
    source: fx.Node
    weight: torch.Tensor
    bias: torch.Tensor | None
    axes: tuple[Axis, ...]
    groups: int
    is_column: bool = False

    @property
    def channels(self) -> int:
        """The number of channels of its input."""
        return int(self.weight.shape[1]) * self.groups

    def cost(self) -> float:
        """Return the number of products, with every block of channels filled."""
        inputs = self.weight.shape[1] * prod(axis.factor for axis in self.axes)
        outputs = self.weight.shape[0] * prod(axis.each for axis in self.axes)
        positions = prod(ceil(axis.outputs / axis.each) for axis in self.axes)
        taps = prod(axis.taps for axis in self.axes)
        return float(positions * taps * _full_blocks(inputs) * _full_blocks(outputs))


def _full_blocks(channels: int) -> int:
    return ceil(channels / _BLOCK_DEPTH) * _BLOCK_DEPTH


def write_strides(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write convolutions with a stride above 3 as ones with the stride 1 over more channels."""
    done = list[str]()
    for conv in _convolutions(module, quantizer):
        axes = tuple(_unstrided(axis) for axis in conv.axes)
        if prod(axis.outputs for axis in axes if axis.factor > 1) > 1:
            _write_folded(module, quantizer, _deepened(replace(conv, axes=axes)))
            done.append(written_name(conv.node))
    return finished(module, done)


def write_large_kernels(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write convolutions of many taps over few channels as ones of few taps over more channels."""
    done = list[str]()
    for conv in _convolutions(module, quantizer):
        longest = max(axis.stride for axis in conv.axes)
        is_read_again = is_slow_at_layouts(quantizer) and longest == 1 and _is_first_of_one(conv)
        if longest > _LARGEST_STRIDE or is_read_again:
            continue
        deep = _deepened(conv) if conv.axes[-1].kernel >= _LARGE else conv
        if deep.cost() <= _PRODUCTS_LEFT * conv.cost():
            _write_folded(module, quantizer, deep)
            done.append(written_name(conv.node))
    return finished(module, done)


def is_slow_at_layouts(quantizer: EthosUQuantizer) -> bool:
    """Return whether changes of layout cost so much that copies decide: on U85."""
    return "u55" not in str(quantizer.tosa_spec).lower()


def _is_first_of_one(conv: _Convolution) -> bool:
    """Return whether a convolution over one channel of an input is the first operation.

    U85 reads its weights from external memory anew for every 16 places, which takes longest. There are
    as many more weights in the other form as there are fewer places.
    """
    return len(conv.axes) == 1 and conv.channels == 1 and is_outside(conv.source)


def _unstrided(axis: Axis) -> Axis:
    is_folded = axis.stride > _LARGEST_STRIDE and axis.outputs > 1
    return replace(axis, factor=axis.stride) if is_folded else axis


def _deepened(conv: _Convolution) -> _Convolution:
    """Return the convolution with the factor of its last axis that takes the fewest products."""
    *others, last = conv.axes
    base = max(last.factor, last.stride)
    if conv.groups > 1 or last.outputs == 1:
        return conv
    best = conv
    for multiple in _MULTIPLES:
        if base * multiple > 1:
            axes = (*others, replace(last, factor=base * multiple))
            candidate = replace(conv, axes=axes)
            if candidate.cost() < 0.9 * best.cost():
                best = candidate
    return best


def _convolutions(module: fx.GraphModule, quantizer: EthosUQuantizer) -> Iterator[_Convolution]:
    """Yield the quantized convolutions over a batch, with constant weights."""
    for node in quantized_calls(module, quantizer, *_BY_AXES):
        source, weight_node, bias_node, strides, padded, dilations, groups = conv_arguments(node)
        weight, bias = constant_of(module, weight_node), constant_of(module, bias_node)
        shape = source.meta["val"].shape
        unknown = weight is None or (bias_node is not None and bias is None)
        if unknown or node.kwargs or len(shape) != weight.dim():
            continue
        count = weight.dim() - 2
        stride, dilation = each_axis(strides, count, 1), each_axis(dilations, count, 1)
        padding = padding_of(padded, weight.shape[2:], dilation)
        if padding is None:
            continue
        axes = tuple(map(Axis, shape[2:], weight.shape[2:], stride, padding, dilation))
        conv = _uncut(_Convolution(node, source, weight, bias, axes, groups or 1))
        yield _column(conv) if len(axes) == 2 else conv


def _uncut(conv: _Convolution) -> _Convolution:
    """Return a convolution behind a cut of the last axis as one that reads less: it is free."""
    source, last = conv.source, conv.axes[-1]
    is_cut = source.target is _ATEN.slice.Tensor and len(source.users) == 1
    if not is_cut or last.padding or not is_tail(source, len(conv.axes) + 1):
        return conv
    whole: Any = source.args[0]
    extent = whole.meta["val"].shape[-1]
    axis = replace(last, extent=extent, cut=extent - last.extent)
    return replace(conv, source=whole, axes=(*conv.axes[:-1], axis))


def is_tail(node: fx.Node, dim: int) -> bool:
    """Return whether a slice leaves out nothing but the last places of an axis."""
    at, start, _, step = (*node.args[1:], *(None,) * 4)[:4]
    return (at or 0) % node.meta["val"].dim() == dim and start in {None, 0} and step in {None, 1}


def _column(conv: _Convolution) -> _Convolution:
    """Return a convolution over a column as one over one axis."""
    rows, columns = conv.axes
    if columns.extent != 1 or columns.kernel != 1 or columns.padding:
        return conv
    return replace(conv, weight=conv.weight.squeeze(3), axes=(rows,), is_column=True)


def each_axis(value: Any, count: int, default: int) -> list[int]:
    """Return an argument of a convolution with one number for each axis."""
    values = list(value) if value else [default]
    return values * count if len(values) == 1 else values


def padding_of(value: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int] | None:
    """Return the padding of each axis; None where its ends differ."""
    if value == "valid":
        return [0] * len(kernel)
    if value == "same":
        both = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
        return None if any(extent % 2 for extent in both) else [extent // 2 for extent in both]
    return each_axis(value, len(kernel), 0)


def _write_folded(module: fx.GraphModule, quantizer: EthosUQuantizer, conv: _Convolution) -> None:
    """Put a folded convolution in the place of a convolution, before the layout of its result."""
    last, inner = fused_reader(conv.node), Writer(module, conv.node)
    gathers = is_slow_at_layouts(quantizer) and is_outside(conv.source)
    result, is_last = _Folding(inner, conv, gathers=gathers).computed()
    outer = Writer(module, last)
    if last is not conv.node:
        result = outer.called(last, result)
    result = _unfolded(outer, conv, result, channels_last=is_last)
    outer.replace(result)
    if last is not conv.node:
        module.graph.erase_node(conv.node)
    if result.target is _ATEN.slice.Tensor:
        move_cut(module, result)


def is_outside(node: Any) -> bool:
    """Return whether a value is an input of the program, apart from elementwise operations."""
    while isinstance(node, fx.Node) and node.op == "call_function":
        if node.target not in ARITHMETIC:
            return False
        node = node.args[0]
    return isinstance(node, fx.Node) and node.op == "placeholder"


class _Folding:
    """Writes a folded convolution."""

    def __init__(self, write: Writer, conv: _Convolution, *, gathers: bool) -> None:
        self._write, self._conv = write, conv
        self._gathers = gathers and 1 < conv.channels <= _GATHERED and conv.groups == 1
        most = _GATHERED_TAPS if self._gathers else _EXTRA_TAPS
        self._folds = [_folding_of(axis, most) for axis in conv.axes]

    def computed(self) -> tuple[fx.Node, bool]:
        """Return the result of the new convolution, and whether its channels are last."""
        conv, write, folds = self._conv, self._write, self._folds
        x = conv.source
        if conv.is_column:
            x = write(_ATEN.squeeze.dim, x, 3)
        x = _with_ends(write, x, [(fold.before, fold.after) for fold in folds])
        if self._is_of_each_channel:
            return self._of_columns(x), False
        x = self._channels_last(x)
        bias = None
        if conv.bias is not None:
            times = prod(axis.each for axis in conv.axes)
            bias = write.parameter(f"{conv.node.name}_folded_bias", conv.bias.repeat(times))
        weight = self._weight()
        if self._is_linear:
            rows = write.parameter(f"{conv.node.name}_folded_weight", weight.flatten(1))
            return write(_ATEN.linear.default, x, rows, bias), True
        held = write.parameter(f"{conv.node.name}_folded_weight", weight)
        x = write(_ATEN.permute.default, x, [0, len(folds) + 1, *range(1, len(folds) + 1)])
        padding, ends = zip(*map(_padding_and_ends, conv.axes, folds), strict=True)
        x = _with_ends(write, x, ends)
        strides = [1 if axis.factor > 1 else axis.stride for axis in conv.axes]
        dilations = [1 if axis.factor > 1 else axis.dilation for axis in conv.axes]
        target = _ATEN.conv1d.default if len(folds) == 1 else _ATEN.conv2d.default
        settings = (strides, [*padding], dilations, conv.groups)
        return write(target, x, held, bias, *settings), False

    @property
    def _is_of_each_channel(self) -> bool:
        """Whether each channel of a sequence is convolved by itself."""
        (first, *others), conv = self._conv.axes, self._conv
        return not others and conv.groups == conv.channels > 1 and first.factor > 1

    def _of_columns(self, x: fx.Node) -> fx.Node:
        """Return the result over an image whose rows are the positions that would become channels.

        Vela compiles groups of several channels one by one, and those of one channel together.
        """
        conv, write, (fold,) = self._conv, self._write, self._folds
        (axis,) = conv.axes
        batch, channels, size = x.meta["val"].shape
        rows = [batch, size // axis.factor, axis.factor, channels]
        x = write(_ATEN.reshape.default, write(_ATEN.permute.default, x, [0, 2, 1]), rows)
        x = write(_ATEN.permute.default, x, [0, 3, 1, 2])
        padding, (above, below) = _padding_and_ends(axis, fold)
        x = _with_ends(write, x, ((above, below), (0, 0)))
        taps = torch.einsum("tfs,ocs->octf", _places(axis, fold)[0].to(conv.weight), conv.weight)
        weight = write.parameter(f"{conv.node.name}_folded_weight", taps)
        bias = conv.bias
        stored = None if bias is None else write.parameter(f"{conv.node.name}_folded_bias", bias)
        settings = ([1, 1], [padding, 0], [1, 1], conv.groups)
        return write(_ATEN.squeeze.dim, write(_ATEN.conv2d.default, x, weight, stored, *settings), 3)

    @property
    def _is_linear(self) -> bool:
        """Whether every result depends on the channels of one position."""
        return self._conv.groups == 1 and all(
            fold.taps == 1
            and not fold.left
            and not fold.right
            and (axis.factor > 1 or (axis.stride == 1 and not axis.padding))
            for axis, fold in zip(self._conv.axes, self._folds, strict=True)
        )

    def _channels_last(self, x: fx.Node) -> fx.Node:
        """Return positions as channels, which are last: rows, then columns, then channels."""
        write, axes = self._write, self._conv.axes
        batch, channels, *sizes = x.meta["val"].shape
        factor = axes[-1].factor
        sizes[-1] //= factor
        if self._gathers:
            # Rows are copied as one where the axes after the channels are one.
            flat = write(_ATEN.reshape.default, x, [batch, channels, prod(sizes) * factor])
            parts = [
                write(
                    _ATEN.reshape.default,
                    write(_ATEN.slice.Tensor, flat, 1, i, i + 1),
                    [batch, *sizes, factor],
                )
                for i in range(channels)
            ]
            x = write(_ATEN.cat.default, parts, -1)
        else:
            if channels > 1:
                x = write(_ATEN.permute.default, x, [0, *range(2, len(sizes) + 2), 1])
            x = write(_ATEN.reshape.default, x, [batch, *sizes, factor * channels])
        x = self._rows_as_channels(x)
        if self._conv.groups == 1:
            return x
        groups, places = self._conv.groups, x.meta["val"].shape[:-1]
        phases = x.meta["val"].shape[-1] // channels
        apart = [batch, prod(places[1:]), phases, groups, channels // groups]
        turned = write(_ATEN.reshape.default, x, apart)
        turned = write(_ATEN.permute.default, turned, [0, 1, 3, 2, 4])
        return write(_ATEN.reshape.default, turned, [*places, phases * channels])

    def _rows_as_channels(self, x: fx.Node) -> fx.Node:
        """Return rows as channels, before those that there are."""
        write, factor = self._write, self._conv.axes[0].factor
        if len(self._conv.axes) == 1 or factor == 1:
            return x
        batch, height, width, depth = x.meta["val"].shape
        beside = [batch, height // factor, factor * width, depth]
        if width == 1:
            return write(_ATEN.reshape.default, x, [*beside[:2], 1, factor * depth])
        x = write(_ATEN.reshape.default, x, beside)
        parts = [write(_ATEN.slice.Tensor, x, 2, row * width, (row + 1) * width) for row in range(factor)]
        return write(_ATEN.cat.default, parts, -1)

    def _weight(self) -> torch.Tensor:
        """Return the weights over positions and channels, zeros where no tap falls."""
        conv = self._conv
        weight = conv.weight if len(conv.axes) == 2 else conv.weight.unsqueeze(2)
        places = [_places(axis, fold) for axis, fold in zip(conv.axes, self._folds, strict=True)]
        rows, columns = places if len(places) == 2 else (torch.ones(1, 1, 1, 1), *places)
        letters = "cw" if self._gathers else "wc"
        folded = torch.einsum(f"auhs,bvwt,ocst->aboh{letters}uv", rows.to(weight), columns.to(weight), weight)
        folded = folded.flatten(3, 5).flatten(0, 2)
        return folded if len(places) == 2 else folded.squeeze(2)


def _folding_of(axis: Axis, most: float) -> _Fold:
    """Return how an axis is folded: whole positions of the folded axis are padded, if they fit."""
    if axis.factor == 1:
        return _Fold(0, axis.kernel, after=-axis.cut)
    blocks = ceil(axis.outputs / axis.each)
    if axis.extent % axis.factor == 0:
        left = ceil(axis.padding / axis.factor)
        offset = left * axis.factor - axis.padding
        reach = (axis.each - 1) * axis.stride + (axis.kernel - 1) * axis.dilation
        taps = (offset + reach) // axis.factor + 1
        if taps <= most * axis.taps:
            right = blocks + taps - 1 - left - axis.extent // axis.factor
            return _Fold(offset, taps, left=left, right=right)
    whole = (blocks + axis.taps - 1) * axis.factor
    return _Fold(0, axis.taps, before=axis.padding, after=whole - axis.padding - axis.extent)


def _padding_and_ends(axis: Axis, fold: _Fold) -> tuple[int, tuple[int, int]]:
    """Return the padding of the new convolution, and what is added or cut off before it."""
    if axis.factor == 1:
        return axis.padding, (0, 0)
    return (fold.left, (0, 0)) if fold.left == fold.right else (0, (fold.left, fold.right))


def _places(axis: Axis, fold: _Fold) -> torch.Tensor:
    """Return where taps go: [results of a position, taps, positions as channels, taps before]."""
    places = torch.zeros(axis.each, fold.taps, axis.factor, axis.kernel)
    for result in range(axis.each):
        for tap in range(axis.kernel):
            step = axis.dilation if axis.factor > 1 else 1
            at = fold.offset + result * axis.stride + tap * step
            places[result, at // axis.factor, at % axis.factor, tap] = 1
    return places


def _with_ends(write: Writer, x: fx.Node, ends: Sequence[tuple[int, int]]) -> fx.Node:
    """Return a value with zeros added at the ends of its axes, or cut off there."""
    for dim, (_, after) in enumerate(ends, start=2):
        size = x.meta["val"].shape[dim]
        if after < 0:
            x = write(_ATEN.slice.Tensor, x, dim, 0, size + after)
    grown = [max(0, size) for ends_of_axis in reversed(ends) for size in ends_of_axis]
    return write(_ATEN.constant_pad_nd.default, x, grown, 0.0) if any(grown) else x


def _unfolded(write: Writer, conv: _Convolution, x: fx.Node, *, channels_last: bool) -> fx.Node:
    """Return the result in the layout of the convolution as it was written."""
    last, count = conv.axes[-1], len(conv.axes)
    back = [0, count + 1, *range(1, count + 1)]
    if last.each > 1:
        if not channels_last:
            x = write(_ATEN.permute.default, x, [0, *range(2, count + 2), 1])
        batch, *sizes, depth = x.meta["val"].shape
        sizes[-1] *= last.each
        x = write(_ATEN.reshape.default, x, [batch, *sizes, depth // last.each])
        channels_last = True
    if channels_last:
        x = write(_ATEN.permute.default, x, back)
    if x.meta["val"].shape[-1] > last.outputs:
        x = write(_ATEN.slice.Tensor, x, count + 1, 0, last.outputs)
    return write(_ATEN.unsqueeze.default, x, 3) if conv.is_column else x
