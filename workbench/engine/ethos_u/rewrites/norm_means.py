"""Means of layer norms, taken off by the layers before them.

The mean over the channels of what a linear or convolution computes is a linear map too: it can be
taken off the weights. Where nothing but layer norms and sums read such values, as in transformers with
norms before their layers, no norm has to take a mean off any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    CONVOLUTIONS,
    ORDERS,
    SCALED,
    VIEWS,
    conv_arguments,
    order_of,
    quantized_calls,
    written_name,
)

_ATEN = torch.ops.aten
_NORM = _ATEN.layer_norm.default
_LINEAR = _ATEN.linear.default
# What computes each result from values of one channel, or all alike.
_SUMS = {_ATEN.add.Tensor, _ATEN.sub.Tensor}
_SAME = {_ATEN.dropout.default, _ATEN.clone.default, _ATEN.contiguous.default}
# By operator, the argument with the axes that it works along, and what it is where it is left out.
_ALONG = {
    _ATEN.slice.Tensor: (1, 0),
    _ATEN.select.int: (1, 0),
    _ATEN.cat.default: (1, 0),
    _ATEN.roll.default: (2, ()),
}


# As torch has it.
_EPSILON = 1e-5


@dataclass
class _Stream:
    """Values with the axis of their channels, what computes them, and the norms that read them."""

    axes: dict[fx.Node, int] = field(default_factory=dict)
    sources: list[fx.Node] = field(default_factory=list)
    norms: list[fx.Node] = field(default_factory=list)


def take_means(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take the means of layer norms into the layers before them, where nothing else reads those."""
    done, known = list[str](), set[fx.Node]()
    norms = [norm for norm in quantized_calls(module, quantizer, _NORM) if _is_over_channels(norm)]
    layers = set(quantized_calls(module, quantizer, _LINEAR, *CONVOLUTIONS)) if norms else set()
    for norm in norms:
        stream = None if norm in known else _stream_before(module, norm, layers)
        if stream is None:
            continue
        for source in stream.sources:
            _take_mean(module, source, stream.axes[source])
        for reader in (reader for reader in stream.norms if reader in norms):
            known.add(reader)
            done.append(written_name(reader))
            _write_without_mean(module, reader)
    return finished(module, done)


def _is_over_channels(norm: fx.Node) -> bool:
    over: Any = norm.args[1]
    return len(over) == 1 and over[0] > 1 and not norm.kwargs


def _stream_before(module: fx.GraphModule, norm: fx.Node, layers: set[fx.Node]) -> _Stream | None:
    """Return what a norm reads, back to the layers; None where something else depends on its means."""
    stream = _Stream()
    waiting: list[tuple[Any, int]] = [(norm.args[0], norm.meta["val"].dim() - 1)]
    while waiting:
        node, axis = waiting.pop()
        if node in stream.axes:
            if stream.axes[node] != axis:
                return None
            continue
        stream.axes[node] = axis
        around = [_value_behind(stream, reader, node, axis) for reader in node.users]
        if _is_source(module, node, axis, layers):
            stream.sources.append(node)
        else:
            around += _values_before(node, axis)
        if None in around:
            return None
        waiting += [pair for pair in around if pair is not None]
    return stream


def _is_source(module: fx.GraphModule, node: fx.Node, axis: int, layers: set[fx.Node]) -> bool:
    """Return whether a value is a constant, or of a layer with constant weights and such channels."""
    if constant_of(module, node) is not None:
        return bool(node.meta["val"].shape[axis] > 1)
    _, stored, bias, *_, groups = conv_arguments(node)
    is_known = node in layers and not node.kwargs and constant_of(module, stored) is not None
    dims = node.meta["val"].dim() if node in layers else 0
    at = dims - 1 if node.target is _LINEAR else dims - stored.meta["val"].dim() + 1 if is_known else 0
    is_whole = bias is None or constant_of(module, bias) is not None
    return is_known and is_whole and (groups or 1) == 1 and axis == at


def _value_behind(stream: _Stream, reader: fx.Node, node: fx.Node, axis: int) -> tuple[fx.Node, int] | None:
    """Return what reads a value, with its axis; itself for a norm, which ends the stream; None else."""
    if reader.target is _NORM and reader.args[0] is node and reader.all_input_nodes.count(node) == 1:
        if axis != node.meta["val"].dim() - 1 or not _is_over_channels(reader):
            return None
        stream.norms.append(reader)
        return node, axis
    behind = _axis_behind(reader, node, axis)
    return None if behind is None else (reader, behind)


def _values_before(node: fx.Node, axis: int) -> Iterator[tuple[fx.Node, int] | None]:
    """Yield what a value is computed from, each with its axis; None where that is unknown."""
    if not node.all_input_nodes:
        yield None
    for source in node.all_input_nodes:
        axes = range(source.meta["val"].dim()) if isinstance(source.meta.get("val"), torch.Tensor) else ()
        at = [before for before in axes if _axis_behind(node, source, before) == axis]
        yield (source, at[0]) if at else None


def _axis_behind(node: fx.Node, source: fx.Node, axis: int) -> int | None:
    """Return where an operation puts the channels of what it reads.

    None for one that does not leave every value in its channel, or changes their mean.
    """
    target, before, value = node.target, source.meta["val"].shape, node.meta.get("val")
    after = value.shape if isinstance(value, torch.Tensor) else torch.Size()
    behind = None
    if target in _SUMS or target is _ATEN.expand.default:
        at = axis + len(after) - len(before)
        is_sum = not node.kwargs and all(isinstance(part, fx.Node) for part in node.args[:2])
        behind = at if (is_sum or target not in _SUMS) and after[at] == before[axis] else None
    elif target in _SAME or (target in SCALED and not isinstance(node.args[1], fx.Node)):
        behind = axis
    elif target in ORDERS:
        behind = order_of(node, len(before)).index(axis)
    elif target in VIEWS:
        places = before[:axis].numel(), before[axis]
        behind = next((i for i, size in enumerate(after) if (after[:i].numel(), size) == places), None)
    elif target in _ALONG:
        behind = _axis_beside(node, len(before), axis)
    return behind


def _axis_beside(node: fx.Node, dims: int, axis: int) -> int | None:
    """Return where an operation along other axes puts the channels; None where it is along them."""
    place, usual = _ALONG[node.target]
    named: Any = node.args[place] if len(node.args) > place else usual
    along = {at % dims for at in (named if isinstance(named, list | tuple) else [named])}
    if axis in along or not along:
        return None
    return axis - int(node.target is _ATEN.select.int and min(along) < axis)


def _take_mean(module: fx.GraphModule, source: fx.Node, axis: int) -> None:
    """Let a layer, or a constant, take off the mean over its channels."""
    if source.op == "get_attr":
        value, write = constant_of(module, source), Writer(module, source)
        centred = value.double() - value.double().mean(axis, keepdim=True)
        write.replace(write.parameter(f"{source.name}_without_mean", centred.to(value.dtype)))
        return
    args: list[Any] = [*source.args, *(None,) * 3]
    write = Writer(module, source)
    for place, name in ((1, "weight"), (2, "bias")):
        if (value := constant_of(module, args[place])) is not None:
            centred = (value.double() - value.double().mean(0, keepdim=True)).to(value.dtype)
            args[place] = write.parameter(f"{source.name}_{name}_without_mean", centred)
    source.args = tuple(args[: max(len(source.args), 2)])


def _write_without_mean(module: fx.GraphModule, norm: fx.Node) -> None:
    """Write a norm of values without a mean: they, over the root of their mean square."""
    x, _, weight, bias, eps, *_ = conv_arguments(norm)
    write = Writer(module, norm)
    square = write(_ATEN.mean.dim, write(_ATEN.mul.Tensor, x, x), [-1], keepdim=True)
    root = write(_ATEN.rsqrt.default, write(_ATEN.add.Tensor, square, _EPSILON if eps is None else eps))
    result = write(_ATEN.mul.Tensor, x, root)
    if weight is not None:
        result = write(_ATEN.mul.Tensor, result, weight)
    if bias is not None:
        result = write(_ATEN.add.Tensor, result, bias)
    write.replace(result)
