"""Cuts of the last places of an axis, moved behind what computes each place by itself.

A convolution whose positions became channels has results at places that are not there, and its value
is cut. A convolution that reads the value reads fewer places for nothing; anything else copies it.
"""

from typing import Any

import torch
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    ARITHMETIC,
    OF_EACH_PLACE,
    ORDERS,
    conv_arguments,
    order_of,
)

_ATEN = torch.ops.aten
_UNPADDED_READERS = {_ATEN.conv1d.default: 1, _ATEN.conv2d.default: 2}


def move_cut(module: fx.GraphModule, cut: fx.Node) -> None:
    """Move a cut of the last places to the convolutions that read them, where that is all that does.

    Args:
        module: A float program's graph.
        cut: A slice that leaves out the last places of an axis.
    """
    source, dim, _, end = cut.args
    axes, cuts = {cut: int(dim)}, list[tuple[fx.Node, fx.Node]]()  # type: ignore[arg-type]
    for node in module.graph.nodes:
        values = [value for value in node.all_input_nodes if value in axes]
        if not values:
            continue
        if _reads_cut(node, values[0], axes[values[0]]):
            cuts.append((node, values[0]))
        elif (axis := _axis_of_places(node, axes)) is not None:
            axes[node] = axis
        else:
            return
    if not cuts or len(axes) == 1:
        return
    cut.replace_all_uses_with(source)  # type: ignore[arg-type]
    for node in list(axes)[1:]:
        arguments, named = fx.map_arg((node.args, node.kwargs), lambda part: part.meta["val"])
        node.meta["val"] = node.target(*arguments, **named)  # type: ignore[operator]
    for reader, value in cuts:
        now = source if value is cut else value
        assert isinstance(now, fx.Node)
        own = Writer(module, reader)(_ATEN.slice.Tensor, now, axes[value], 0, end)
        reader.update_arg(0, own)
    module.graph.erase_node(cut)


def _reads_cut(node: fx.Node, value: fx.Node, axis: int) -> bool:
    """Return whether a convolution without padding along the last axis reads a value that is cut there."""
    count = _UNPADDED_READERS.get(node.target, 0)
    padding: Any = conv_arguments(node)[4] or [0]
    is_last = axis == count + 1 == value.meta["val"].dim() - 1
    return bool(count) and is_last and not padding[-1] and node.args[0] is value and not node.kwargs


def _axis_of_places(node: fx.Node, axes: dict[fx.Node, int]) -> int | None:
    """Return the axis of the places in what an operation computes for each of them; None for others."""
    source: Any = node.args[0] if node.args else None
    if node.target in OF_EACH_PLACE | ARITHMETIC:
        return _common_axis(node, axes)
    if (
        not isinstance(source, fx.Node)
        or source not in axes
        or any(value in axes for value in node.all_input_nodes[1:])
    ):
        return None
    axis, dims = axes[source], source.meta["val"].dim()
    if node.target in ORDERS:
        return order_of(node, dims).index(axis)
    if node.target is _ATEN.mean.dim:
        over: Any = node.args[1]
        is_beside = bool(over) and axis not in {at % dims for at in over}
        return axis if is_beside and node.meta["val"].dim() == dims else None
    if node.target is _ATEN.layer_norm.default:
        return axis if axis < dims - len(node.args[1]) else None  # type: ignore[arg-type]
    return axis if node.target is _ATEN.linear.default and axis < dims - 1 else None


def _common_axis(node: fx.Node, axes: dict[fx.Node, int]) -> int | None:
    """Return the axis of the places where all that an operation reads has them there, or one place."""
    dims, at = node.meta["val"].dim(), set[int]()
    for value in node.all_input_nodes:
        if value in axes:
            at.add(dims - value.meta["val"].dim() + axes[value])
    (axis, *others) = at
    for value in (value for value in node.all_input_nodes if value not in axes):
        own = value.meta["val"].shape
        place = axis - dims + len(own)
        is_line = node.target is _ATEN.batch_norm.default and len(own) == 1
        if not is_line and place >= 0 and own[place] > 1:
            return None
    return None if others or (node.target is _ATEN.batch_norm.default and axis == 1) else axis
