"""Operators that move values: shapes, slices, padding, gathering."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.engine.ethos_u.tosa.program import Array, NotExecuted

if TYPE_CHECKING:
    from workbench.engine.ethos_u.tosa.arithmetic import Call


def together(values: tuple[Array, ...]) -> list[Array]:
    """Return values with the same number of samples; one that stands for all is repeated."""
    count = max(len(one) for one in values)
    return [np.broadcast_to(one, (count, *one.shape[1:])) for one in values]


def concat(call: Call) -> Array:
    """CONCAT."""
    return np.concatenate(together(call.inputs), int(call.attribute("Axis")) + 1)


def pad(call: Call) -> Array:
    """PAD with one value."""
    values, padding = call.inputs[0], call.fixed(1).reshape(-1, 2)
    given = call.inputs[2].reshape(-1)
    if given.size != 1 or padding.min(initial=0) < 0:
        raise NotExecuted("a padding that depends on the sample")
    result = np.full((len(values), *call.output.shape), given[0], values.dtype)
    inner = [slice(int(low), int(low) + n) for (low, _), n in zip(padding, values.shape[1:], strict=True)]
    result[(slice(None), *inner)] = values
    return result


def reshape(call: Call) -> Array:
    """RESHAPE."""
    values = call.inputs[0]
    return values.reshape(len(values), *call.output.shape)


def reverse(call: Call) -> Array:
    """REVERSE."""
    return np.flip(call.inputs[0], int(call.attribute("Axis")) + 1)


def cut(call: Call) -> Array:
    """SLICE."""
    starts, sizes = call.fixed(1), call.fixed(2)
    inner = [slice(int(a), int(a) + int(n)) for a, n in zip(starts, sizes, strict=True)]
    return call.inputs[0][(slice(None), *inner)]


def tile(call: Call) -> Array:
    """TILE."""
    return np.tile(call.inputs[0], (1, *map(int, call.fixed(1))))


def transpose(call: Call) -> Array:
    """TRANSPOSE."""
    order = [int(axis) + 1 for axis in call.attribute("Perms")]
    return np.ascontiguousarray(call.inputs[0].transpose(0, *order))


def identity(call: Call) -> Array:
    """IDENTITY."""
    return call.inputs[0]


def gather(call: Call) -> Array:
    """GATHER: rows (N, K, C) by indices (N, W)."""
    values, indices = together(call.inputs)
    _demand(indices, values.shape[2])
    return np.take_along_axis(values, indices.astype(np.int64)[..., None], 2)


def scatter(call: Call) -> Array:
    """SCATTER: rows (N, W, C) to indices (N, W) of a copy of (N, K, C)."""
    values, indices, rows = together(call.inputs)
    _demand(indices, values.shape[2])
    ordered = np.sort(indices, -1)
    if (ordered[..., 1:] == ordered[..., :-1]).any():
        raise NotExecuted("an index that is written twice")
    result = np.array(values)
    np.put_along_axis(result, indices.astype(np.int64)[..., None], rows, 2)
    return result


def _demand(indices: Array, size: int) -> None:
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= size):
        raise NotExecuted("an index outside of the values")
