"""Programs that compute with the elements that a mask chooses, computed with all elements instead.

How many elements a mask chooses depends on the data, and the NPU needs fixed sizes. What works on
each element, or on each row, gives the same with the others beside them: they are left out where
the result is written back, summed or averaged.

This file stands on torch alone, because a generated script carries it along.
"""

import copy
from typing import Any

import torch
from torch import fx

from workbench.engine.fx.pieces import Pieces
from workbench.engine.fx.plain_regions import copied_graph, rebuilt

_ATEN = torch.ops.aten
_WRITES_ROWS = (_ATEN.index_put.default, _ATEN.index_put_.default)
_SUMS = (_ATEN.sum.default, _ATEN.mean.default, _ATEN.sum.dim_IntList, _ATEN.mean.dim)
# Functions that are not defined for every number, with the place of the argument that matters.
_LIMITED = {
    **dict.fromkeys((_ATEN.log.default, _ATEN.log2.default, _ATEN.log10.default, _ATEN.log1p.default), 0),
    **dict.fromkeys((_ATEN.sqrt.default, _ATEN.rsqrt.default, _ATEN.reciprocal.default), 0),
    **dict.fromkeys((_ATEN.asin.default, _ATEN.acos.default, _ATEN.acosh.default, _ATEN.atanh.default), 0),
    **dict.fromkeys((_ATEN.pow.Tensor_Scalar, _ATEN.pow.Tensor_Tensor, _ATEN.logit.default), 0),
    **dict.fromkeys((_ATEN.div.Tensor, _ATEN.div.Tensor_mode, _ATEN.fmod.Tensor, _ATEN.remainder.Tensor), 1),
}
_OVER_LAST = (_ATEN.softmax.int, _ATEN.log_softmax.int)


def with_all_rows(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program without choices of elements; the program itself if that is not possible."""
    if not any(_mask_of(node) for node in program.graph.nodes):
        return program
    module = copied_graph(program)
    nodes = list(module.graph.nodes)
    edit, dense = Pieces(module.graph), dict[fx.Node, tuple[fx.Node, fx.Node]]()
    for node in nodes:
        edit.before(node)
        if (mask := _mask_of(node)) is not None:
            dense[node] = (node.args[0], mask)  # type: ignore[assignment]
        elif node.op == "call_function" and any(source in dense for source in node.all_input_nodes):
            _put_all_rows(edit, node, dense)
    for node in reversed(nodes):
        value = node.meta.get("val")
        is_number = not isinstance(value, torch.Tensor) and node.op == "call_function"
        if not node.users and (node in dense or is_number):
            module.graph.erase_node(node)
    if any(_has_free_size(node) for node in module.graph.nodes):
        return program
    module.recompile()
    return rebuilt(program, module, copy.deepcopy(program.graph_signature))


def _mask_of(node: fx.Node) -> fx.Node | None:
    """Return the mask by which a node chooses elements; None for any other node."""
    if node.target is not _ATEN.index.Tensor or not _has_free_size(node):
        return None
    places: Any = node.args[1]
    is_one = len(places) == 1 and places[0].meta["val"].dtype is torch.bool
    return places[0] if is_one else None


def _has_free_size(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(not isinstance(size, int) for size in value.shape)


def _put_all_rows(edit: Pieces, node: fx.Node, dense: dict[fx.Node, tuple[fx.Node, fx.Node]]) -> None:
    """Compute a node that reads chosen elements with all of them, if it can be."""
    mask, *masks = (dense[source][1] for source in node.all_input_nodes if source in dense)
    args: Any = fx.map_arg(node.args, lambda source: dense.get(source, (source,))[0])
    chosen: Any = next(source for source in node.all_input_nodes if source in dense)
    rows = chosen.meta["val"].dim() - 1
    if not all(_alike(mask, one) for one in masks):
        return
    if node.target in _WRITES_ROWS:
        target, places, value, *added = args
        if len(places) == 1 and _alike(places[0], mask) and not any(added) and node.args[0] not in dense:
            written = edit.call(_ATEN.where.self, _wide(edit, mask, target), value, target)
            # Who reads the memory otherwise, reads what is written.
            is_shared = node.target is _ATEN.index_put_.default and any(
                map(_is_view, (target, *target.users))
            )
            result = edit.call(_ATEN.copy_.default, target, written) if is_shared else written
            node.replace_all_uses_with(result)
            dense[node] = (written, mask)
    elif node.target in _SUMS and node.args[1:] in ((), ([0],)) and not node.kwargs:
        whole = _summed(edit, node, args[0], mask)
        node.replace_all_uses_with(whole)
        dense[node] = (whole, mask)
    elif _works_on_rows(node, chosen, rows):
        place = _LIMITED.get(node.target, -1)
        if place >= 0 and node.args[place] in dense:
            # Elements that were not chosen need not be in the domain.
            value, one = args[place], edit.full(args[place], 1.0, [])
            valid = edit.call(_ATEN.where.self, _wide(edit, mask, value), value, one)
            args = (*args[:place], valid, *args[place + 1 :])
        dense[node] = (edit.call(node.target, *args, **node.kwargs), mask)


def _is_view(node: fx.Node) -> bool:
    """Return whether a value shares its memory with another one, or is an input."""
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    views = (given.alias_info is not None and not given.alias_info.is_write for given in returns)
    return node.op == "placeholder" or any(views)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two masks are the same, or computed in the same way."""
    if not isinstance(one, fx.Node) or not isinstance(other, fx.Node):
        return one is other or (type(one) is type(other) and bool(one == other))
    is_call = one.op == other.op == "call_function" and one.target is other.target
    pairs = list(zip(one.args, other.args, strict=False))
    return one is other or (is_call and len(one.args) == len(other.args) and all(_alike(*p) for p in pairs))


def _works_on_rows(node: fx.Node, chosen: fx.Node, rows: int) -> bool:
    """Return whether a node works on each chosen element, or on each row of chosen ones."""
    target: Any = node.target
    if torch.Tag.pointwise in getattr(target, "tags", ()):
        shapes = (source.meta["val"].dim() for source in node.all_input_nodes if not _has_free_size(source))
        return not target._schema.is_mutable and all(dims <= rows for dims in shapes)  # noqa: SLF001
    if node.args[0] is not chosen or rows < 1:
        return False
    if target in _OVER_LAST:
        return node.args[1] == -1
    is_norm = target is _ATEN.layer_norm.default and len(node.args[1]) <= rows  # type: ignore[arg-type]
    return target is _ATEN.linear.default or is_norm


def _wide(edit: Pieces, mask: fx.Node, like: fx.Node) -> fx.Node:
    """Return a mask with the dimensions of a value."""
    while mask.meta["val"].dim() < like.meta["val"].dim():
        mask = edit.call(_ATEN.unsqueeze.default, mask, -1)
    return mask


def _summed(edit: Pieces, node: fx.Node, value: fx.Node, mask: fx.Node) -> fx.Node:
    """Return the sum or mean of the chosen elements, over all dimensions or over the chosen ones."""
    wide = _wide(edit, mask, value)
    zeros = edit.full(value, 0.0, [])
    left = edit.call(_ATEN.where.self, wide, value, zeros)
    chosen = list(range(mask.meta["val"].dim()))
    is_whole = not node.args[1:] or len(chosen) == value.meta["val"].dim()
    total = edit.call(_ATEN.sum.default, left) if is_whole else edit.call(_ATEN.sum.dim_IntList, left, chosen)
    if node.target in _SUMS[::2]:
        return total
    count = edit.call(_ATEN.sum.default, edit.call(_ATEN.to.dtype, mask, torch.float32))
    width = value.meta["val"].numel() // mask.meta["val"].numel() if not node.args[1:] else 1
    return edit.call(
        _ATEN.div.Tensor, total, edit.call(_ATEN.mul.Tensor, count, width) if width > 1 else count
    )
