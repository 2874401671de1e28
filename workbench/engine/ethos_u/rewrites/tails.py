"""Results that nothing reads are not computed.

Where the places of a tensor do not divide by the stride of the layer that reads it, the last ones
are left out. The NPU computes them, and copies the tensor without them. Fewer places at an earlier
layer, or at the input of the program, leave nothing to leave out.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    OF_EACH_PLACE,
    ORDERS,
    conv_arguments,
    order_of,
    quantized_calls,
    written_name,
)
from workbench.engine.ethos_u.rewrites.strides import Axis, each_axis, is_tail, padding_of

_ATEN = torch.ops.aten
_CONVOLVED = {
    _ATEN.conv1d.default: 1,
    _ATEN.conv1d.padding: 1,
    _ATEN.conv2d.default: 2,
    _ATEN.conv2d.padding: 2,
}
_POOLS = {_ATEN.max_pool1d.default: 1, _ATEN.max_pool2d.default: 2}
# Axes of one place come and go where pools of sequences are written as those of images.
_AXIS_CHANGES = {_ATEN.unsqueeze.default, _ATEN.squeeze.dim}
# A copy at the earlier place takes at most this part of the elements.
_COPIES_LEFT = 0.5


def cut_unread_tails(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Cut places that a convolution or pool leaves out where the fewest elements are copied."""
    done = list(_padded_less(module, quantizer))
    readers = list(quantized_calls(module, quantizer, *_CONVOLVED, *_POOLS))
    # A cut at one place serves every layer behind it: the largest pays for it.
    for reader in sorted(readers, key=_size, reverse=True):
        for dim, axis in axes_of(reader):
            read = _places_read(axis, axis.outputs)
            path = list(_path(reader.args[0], dim, read)) if 0 < read < axis.extent else []
            best = min(path, key=lambda step: _elements_copied(step[0]), default=None)
            if best and _elements_copied(best[0]) <= _COPIES_LEFT * _size(reader):
                _cut_tail(module, best, reader)
                done.append(written_name(reader))
    return finished(module, list(dict.fromkeys(done)))


def _padded_less(module: fx.GraphModule, quantizer: EthosUQuantizer) -> Iterator[str]:
    """Let convolutions pad less where their last results are cut off, and yield those cuts.

    Causal convolutions are written so, with as many zeros at both ends.
    """
    for cut in quantized_calls(module, quantizer, _ATEN.slice.Tensor):
        conv: Any = cut.args[0]
        dim = (cut.args[1] if len(cut.args) > 1 else 0) % cut.meta["val"].dim()  # type: ignore[operator]
        axis = dict(axes_of(conv)).get(dim) if conv.target in _CONVOLVED and len(conv.users) == 1 else None
        if axis is None or not axis.padding or not is_tail(cut, dim):
            continue
        count = cut.meta["val"].shape[dim]
        after = max(0, _places_read(axis, count) - axis.extent)
        padded = replace(axis, extent=axis.extent + axis.padding + after, padding=0)
        if after < axis.padding and padded.outputs == count:
            yield written_name(cut)
            _pad_by_itself(module, conv, dim, (axis.padding, after))
            cut.replace_all_uses_with(conv)
            module.graph.erase_node(cut)


def _pad_by_itself(module: fx.GraphModule, conv: fx.Node, dim: int, ends: tuple[int, int]) -> None:
    """Let a convolution read an axis that is padded before, with other numbers of zeros at both ends."""
    source, weight, bias, stride, padding, dilation, groups = conv_arguments(conv)
    count = _CONVOLVED[conv.target]
    steps = each_axis(dilation, count, 1)
    own = padding_of(padding, weight.meta["val"].shape[2:], steps)
    assert own is not None
    own = [0 if at == dim - 2 else size for at, size in enumerate(own)]
    sizes = [0] * (2 * (count + 1 - dim)) + [*ends]
    value = Writer(module, conv)(_ATEN.constant_pad_nd.default, source, sizes, 0.0)
    conv.target = _ATEN.conv1d.default if count == 1 else _ATEN.conv2d.default
    conv.args = (value, weight, bias, each_axis(stride, count, 1), own, steps, groups or 1)
    arguments = fx.map_arg(conv.args, lambda argument: argument.meta["val"])
    conv.meta["val"] = conv.target(*arguments)


def _size(reader: fx.Node) -> int:
    """Return the number of elements that a layer reads."""
    source: Any = reader.args[0]
    return int(source.meta["val"].numel())


def _elements_copied(node: fx.Node) -> int:
    """Return how many elements a cut of a value copies: none where it is cut already."""
    return 0 if node.target is _ATEN.slice.Tensor else int(node.meta["val"].numel())


def axes_of(node: fx.Node) -> Iterator[tuple[int, Axis]]:
    """Yield the axes of a convolution or pool over a batch, each with its dimension."""
    count = (_CONVOLVED | _POOLS).get(node.target, 0)
    args = conv_arguments(node)
    shape = args[0].meta["val"].shape
    if len(shape) != count + 2 or node.kwargs:
        return
    if node.target in _POOLS:
        kernel = each_axis(args[1], count, 1)
        stride = each_axis(args[2] or args[1], count, 1)
        padding: Any = each_axis(args[3], count, 0)
        dilation, is_whole = each_axis(args[4], count, 1), not args[5]
    else:
        kernel = args[1].meta["val"].shape[2:]
        stride, dilation = each_axis(args[3], count, 1), each_axis(args[5], count, 1)
        padding, is_whole = padding_of(args[4], kernel, dilation), True
    if padding is not None and is_whole:
        axes = map(Axis, shape[2:], kernel, stride, padding, dilation)
        yield from enumerate(axes, start=2)


def _places_read(axis: Axis, outputs: int) -> int:
    """Return how many places are read for so many results."""
    return (outputs - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1 - axis.padding


def _path(node: Any, dim: int, read: int) -> Iterator[tuple[fx.Node, int, int]]:
    """Yield values before a layer, each with its axis and the places of it that are read.

    The path ends where a value has other readers too, and at a layer with padding, which has zeros
    behind the last place.
    """
    while len(node.users) == 1 and (node.target is not _ATEN.slice.Tensor or is_tail(node, dim)):
        yield node, dim, read
        if node.target in _CONVOLVED or node.target in _POOLS:
            axis = dict(axes_of(node)).get(dim)
            if axis is None or axis.padding:
                return
            read = _places_read(axis, read)
        elif node.target in _AXIS_CHANGES:
            is_added = node.target is _ATEN.unsqueeze.default
            larger = node if is_added else node.args[0]
            at = node.args[1] % larger.meta["val"].dim()
            dim += -int(dim > at) if is_added else int(dim >= at)
        elif node.target in ORDERS:
            dim = order_of(node, node.meta["val"].dim())[dim]
        elif node.target not in OF_EACH_PLACE and not _is_over_others(node, dim):
            return
        node = node.args[0]


def _is_over_others(node: Any, dim: int) -> bool:
    """Return whether a norm or linear computes each place of an axis from other axes alone."""
    if node.target is _ATEN.layer_norm.default:
        return bool(dim < node.meta["val"].dim() - len(node.args[1]))
    return node.target is _ATEN.linear.default and bool(dim < node.meta["val"].dim() - 1)


def _cut_tail(module: fx.GraphModule, tail: tuple[fx.Node, int, int], reader: fx.Node) -> None:
    """Cut a value, and give those up to the reader the shapes that they have then."""
    source, dim, read = tail
    (node,) = source.users
    if source.target is _ATEN.slice.Tensor:
        node = source
        node.args = (source.args[0], dim, 0, read)
    else:
        cut = Writer(module, node)(_ATEN.slice.Tensor, source, dim, 0, read)
        node.replace_input_with(source, cut)
    while node is not reader:
        values = fx.map_arg(node.args, lambda argument: argument.meta["val"])
        node.meta["val"] = node.target(*values)
        (node,) = node.users
