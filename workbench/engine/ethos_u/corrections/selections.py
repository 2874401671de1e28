"""Selections by places: constant ones as slices or products, and losses at computed classes as gathers."""

from typing import Any

import torch
from torch import fx

from .graph_writer import Writer
from .linear_algebra import product_along

_ATEN = torch.ops.aten
# More slices are a product with a matrix of ones and zeros, of so many weights at most.
_MOST_SLICES, _MOST_WEIGHTS = 16, 1 << 20
# What the reduction of a loss stands for.
_MEAN, _SUM = 1, 2


def _selected(write: Writer, x: fx.Node, dim: int, index: fx.Node) -> fx.Node | None:
    """Write a selection of constant places along a dimension."""
    places = write.held(index)
    size = x.meta["val"].shape[dim]
    return None if places is None else _taken(write, x, dim, (places % size).tolist())


def _by_places(write: Writer, x: fx.Node, index: fx.Node) -> fx.Node | None:
    """Write a selection of constant places of the flattened tensor."""
    places = write.held(index)
    if places is None:
        return None
    flat = write(_ATEN.reshape.default, x, [-1])
    listed = (places.reshape(-1) % flat.meta["val"].shape[0]).tolist()
    taken = _taken(write, flat, 0, listed)
    return None if taken is None else write(_ATEN.reshape.default, taken, [*places.shape])


def _flipped(write: Writer, x: fx.Node, dims: Any) -> fx.Node | None:
    """Write a flip as a product with a matrix along each dimension."""
    flipped: fx.Node | None = x
    for dim in dims:
        if flipped is not None:
            places = list(range(x.meta["val"].shape[dim]))[::-1]
            flipped = _taken(write, flipped, dim, places)
    return flipped


def nearest(write: Writer, x: fx.Node, *settings: Any) -> fx.Node | None:
    """Write a nearest interpolation as the rows and columns that it takes."""
    result: fx.Node | None = x
    shape = x.meta["val"].shape
    for dim in range(2, len(shape)):
        numbers = torch.arange(float(shape[dim])).reshape([-1 if d == dim else 1 for d in range(4)])
        grid = numbers.expand(1, 1, *shape[2:])
        places = write.target(grid.contiguous(), *settings).movedim(dim, 0).flatten(1)[:, 0]
        if result is not None:
            result = _taken(write, result, dim, places.int().tolist())
    return result


def _nearest_of_small_devices(write: Writer, x: fx.Node, *settings: Any) -> fx.Node | None:
    """Do so where the operator of U55 and U65 does not: for other factors, and for a batch."""
    before, after = x.meta["val"].shape, write.shape
    factors = {a / b for a, b in zip(after[2:], before[2:], strict=True)}
    is_supported = before[0] == 1 and len(factors) == 1 and factors <= {2.0, 4.0, 8.0}
    return None if is_supported else nearest(write, x, *settings)


def _taken(write: Writer, x: fx.Node, dim: int, places: list[int]) -> fx.Node | None:
    """Return the places of a dimension, in their order; None if they are too many."""
    size = x.meta["val"].shape[dim]
    starts = [i for i, at in enumerate(places) if not i or at != places[i - 1] + 1]
    if len(starts) <= _MOST_SLICES:
        ends = [*starts[1:], len(places)]
        parts = [
            write(_ATEN.slice.Tensor, x, dim, places[start], places[end - 1] + 1)
            for start, end in zip(starts, ends, strict=True)
        ]
        return write(_ATEN.cat.default, parts, dim) if len(parts) > 1 else parts[0]
    if size * len(places) > _MOST_WEIGHTS:
        return None
    weight = torch.zeros(len(places), size)
    weight[range(len(places)), places] = 1.0
    return product_along(write, x, dim, weight, "selection")


def _put(write: Writer, x: fx.Node, index: fx.Node, source: fx.Node, accumulate: bool = False) -> fx.Node:
    """Write a write to places of the flattened tensor, whose index may have 32 bits as one by index."""
    flat, places, values = (write(_ATEN.reshape.default, tensor, [-1]) for tensor in (x, index, source))
    if accumulate:
        changed = write(_ATEN.index_add.default, flat, 0, places, values)
    else:
        changed = write(_ATEN.index_put.default, flat, [places], values)
    return write(_ATEN.reshape.default, changed, [*x.meta["val"].shape])


def _added(
    write: Writer, x: fx.Node, indices: Any, values: fx.Node, accumulate: bool = False
) -> fx.Node | None:
    """Write to places that several indices name, or add to places of which one may be named twice.

    None where one list of places is written to alone, or a mask is, which needs nothing.
    """
    named = {dim: index for dim, index in enumerate(indices) if index is not None}
    shapes = {index.meta["val"].shape for index in named.values()}
    is_masked = any(index.meta["val"].dtype == torch.bool for index in named.values())
    is_plain = len(shapes) == 1 and len(shapes.pop()) == 1 and [*named] == [*range(len(named))]
    if is_masked or (is_plain and not accumulate):
        return None
    if max(named) - min(named) + 1 == len(named):
        return _put_at(write, x, min(named), [*named.values()], values, accumulate=accumulate)
    order = [*named, *(dim for dim in range(len(x.meta["val"].shape)) if dim not in named)]
    turned = write(_ATEN.permute.default, x, order)
    changed = _put_at(write, turned, 0, [*named.values()], values, accumulate=accumulate)
    return write(_ATEN.permute.default, changed, sorted(range(len(order)), key=order.__getitem__))


def _put_at(
    write: Writer, x: fx.Node, first: int, indices: list[fx.Node], values: fx.Node, *, accumulate: bool
) -> fx.Node:
    """Write or add values at the places that indices name in dimensions beside each other."""
    shape = x.meta["val"].shape
    last = first + len(indices)
    before, sizes, after = shape[:first], shape[first:last], shape[last:]
    listed = torch.broadcast_shapes(*(index.meta["val"].shape for index in indices))
    place = _place(write, indices, sizes, listed)
    rows = write(_ATEN.expand.default, values, [*before, *listed, *after])
    if accumulate:
        rows = write(_ATEN.reshape.default, rows, [*before, listed.numel(), *after])
        flat = write(_ATEN.reshape.default, x, [*before, sizes.numel(), *after])
        changed = _sums(write, flat, first, place, rows)
        return write(_ATEN.reshape.default, changed, [*shape])
    # The places come first, as U85 has it.
    sides = [
        write(_ATEN.reshape.default, one, [before.numel(), count, after.numel()])
        for one, count in ((x, sizes.numel()), (rows, listed.numel()))
    ]
    flat, rows = (write(_ATEN.transpose.int, side, 0, 1) for side in sides)
    changed = write(_ATEN.index_put.default, flat, [place], rows)
    return write(_ATEN.reshape.default, write(_ATEN.transpose.int, changed, 0, 1), [*shape])


def _place(write: Writer, indices: list[fx.Node], sizes: torch.Size, listed: torch.Size) -> fx.Node:
    """Return indices as one list of places of the flattened dimensions."""
    held = [write.held(index) for index in indices]
    if all(one is not None for one in held):
        grid = torch.arange(sizes.numel()).reshape(sizes)
        return write.constant("places", grid[tuple(held)].reshape(-1))
    place: fx.Node | None = None
    for index, size in zip(indices, sizes, strict=True):
        counted = write(_ATEN.remainder.Scalar, index, size)
        before = None if place is None else write(_ATEN.mul.Tensor, place, size)
        place = counted if before is None else write(_ATEN.add.Tensor, before, counted)
    whole = write(_ATEN.expand.default, place, [*listed])
    return write(_ATEN.reshape.default, whole, [-1])


def _sums(write: Writer, x: fx.Node, dim: int, index: fx.Node, values: fx.Node) -> fx.Node:
    """Add values at places of a dimension: constant ones by a product, others on the CPU."""
    places, size = write.held(index), x.meta["val"].shape[dim]
    if places is None or size * len(places) > _MOST_WEIGHTS:
        return write(_ATEN.index_add.default, x, dim, index, values)
    weight = torch.zeros(size, len(places))
    weight[places, range(len(places))] = 1.0
    return write(_ATEN.add.Tensor, x, product_along(write, values, dim, weight, "selection"))


# For all devices, and for U55 and U65, where the others have an operator.
def _class_loss(
    write: Writer, scores: fx.Node, target: fx.Node, weight: Any, reduction: int, ignored: int
) -> tuple[fx.Node, fx.Node]:
    """Write the loss of log-probabilities at the classes of a target, and the sum of the weights.

    ``scores`` has the shape (classes,) or (samples, classes, ...), ``target`` the same without classes.

    Source: torch 2.13 ``_decomp/decompositions.py``, ``_nll_loss_forward``.
    """
    axis = min(1, scores.meta["val"].dim() - 1)
    # Targets that are left out may be no class at all.
    known = write(_ATEN.clamp.default, target, 0, scores.meta["val"].shape[axis] - 1)
    counted = write(_ATEN.to.dtype, write(_ATEN.ne.Scalar, target, ignored), torch.float32)
    if weight is not None:
        counted = write(_ATEN.mul.Tensor, counted, write(_ATEN.index.Tensor, weight, [known]))
    places = write(_ATEN.unsqueeze.default, known, axis)
    taken = write(_ATEN.squeeze.dim, write(_ATEN.gather.default, scores, axis, places), axis)
    losses = write(_ATEN.neg.default, write(_ATEN.mul.Tensor, taken, counted))
    every_axis = list(range(target.meta["val"].dim()))
    if reduction not in (_MEAN, _SUM):
        return losses, counted
    loss, total = (write(_ATEN.sum.dim_IntList, part, every_axis) for part in (losses, counted))
    return (write(_ATEN.div.Tensor, loss, total) if reduction == _MEAN else loss), total


TAKEN: dict[Any, Any] = {
    _ATEN.take.default: _by_places,
    _ATEN.nll_loss_forward.default: _class_loss,
    _ATEN.nll_loss2d_forward.default: _class_loss,
    _ATEN.put.default: _put,
    _ATEN.index_put.default: _added,
    _ATEN.index_put_.default: _added,
    _ATEN._upsample_nearest_exact2d.vec: nearest,  # noqa: SLF001
}
SELECTIONS: dict[Any, Any] = {
    _ATEN.index_select.default: _selected,
    _ATEN.flip.default: _flipped,
    _ATEN.upsample_nearest2d.vec: _nearest_of_small_devices,
}
