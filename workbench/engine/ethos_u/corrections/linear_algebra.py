"""Products of vectors and matrices, norms and distances, with operators that have a pattern."""

import math
from typing import Any

import torch
from torch import fx

from .graph_writer import Writer

_ATEN = torch.ops.aten


def product_along(write: Writer, x: fx.Node, dim: int, weight: torch.Tensor, name: str) -> fx.Node:
    """Write a product with a constant matrix, of (elements after, before), along a dimension."""
    is_last = dim % x.meta["val"].dim() == x.meta["val"].dim() - 1
    rows = x if is_last else write(_ATEN.transpose.int, x, dim, -1)
    product = write(_ATEN.linear.default, rows, write.constant(name, weight))
    return product if is_last else write(_ATEN.transpose.int, product, dim, -1)


# What a register of Vela holds as one side of a tensor.
LONGEST = 1 << 16
_OF_ALL: dict[Any, Any] = {_ATEN.mean.default: _ATEN.mean.dim, _ATEN.sum.default: _ATEN.sum.dim_IntList}


def long_reduction(
    write: Writer, x: fx.Node, dims: Any = None, keepdim: bool = False, **kwargs: Any
) -> fx.Node | None:
    """Write a mean or sum over more than 65,536 places as one over rows of a rectangle, and over them."""
    shape = [*x.meta["val"].shape]
    chosen = sorted(dim % len(shape) for dim in dims) if dims else [*range(len(shape))]
    long = next((dim for dim in chosen if shape[dim] > LONGEST), None)
    if long is None or kwargs:
        return None
    parts = -(-shape[long] // LONGEST)
    missing = -shape[long] % parts
    if missing:
        # Zeros change no sum; a mean is over more places then.
        x = write(_ATEN.constant_pad_nd.default, x, [0] * (2 * (len(shape) - long) - 1) + [missing], 0.0)
    sides = [parts, (shape[long] + missing) // parts]
    folded = write(_ATEN.reshape.default, x, [*shape[:long], *sides, *shape[long + 1 :]])
    target = _OF_ALL.get(write.target, write.target)
    rows = write(target, folded, [long + 1])
    result = write(target, rows, chosen)
    if missing and target is _ATEN.mean.dim:
        result = write(_ATEN.mul.Tensor, result, (shape[long] + missing) / shape[long])
    return write(_ATEN.reshape.default, result, write.shape) if keepdim else result


def _with_vector(write: Writer, a: fx.Node, b: fx.Node) -> fx.Node | None:
    """Write a product of a computed vector as one of matrices."""
    left, right = a.meta["val"].dim(), b.meta["val"].dim()
    if left > 1 and right == 1 and b.op != "get_attr":
        product = write(_ATEN.matmul.default, a, write(_ATEN.unsqueeze.default, b, -1))
        return write(_ATEN.squeeze.dim, product, -1)
    if left == 1 and right > 1 and a.op != "get_attr":
        product = write(_ATEN.matmul.default, write(_ATEN.unsqueeze.default, a, 0), b)
        return write(_ATEN.squeeze.dim, product, -2)
    return None


def _distance(
    write: Writer, a: fx.Node, b: fx.Node, p: float = 2, eps: float = 1e-6, keep: bool = False
) -> fx.Node | None:
    """Write the Euclidean distance of rows."""
    if p != 2:
        return None
    apart = write(_ATEN.add.Tensor, write(_ATEN.sub.Tensor, a, b), eps)
    square = write(_ATEN.pow.Tensor_Scalar, apart, 2)
    return write(_ATEN.sqrt.default, write(_ATEN.sum.dim_IntList, square, [-1], keep))


def _similarity(write: Writer, a: fx.Node, b: fx.Node, dim: int = 1, eps: float = 1e-8) -> fx.Node:
    """Write a cosine similarity with the lengths of both sides."""
    lengths = (
        write(_ATEN.sqrt.default, write(_ATEN.sum.dim_IntList, square, [dim]))
        for square in [write(_ATEN.pow.Tensor_Scalar, side, 2) for side in (a, b)]
    )
    sides = [write(_ATEN.clamp.default, length, eps) for length in lengths]
    dot = write(_ATEN.sum.dim_IntList, write(_ATEN.mul.Tensor, a, b), [dim])
    return write(_ATEN.div.Tensor, dot, write(_ATEN.mul.Tensor, *sides))


def distances(write: Writer, a: fx.Node, b: fx.Node, p: float = 2, *rest: Any) -> fx.Node | None:
    """Write the Euclidean distances of all rows to all others, where they are few."""
    rows, others = (side.meta["val"].shape for side in (a, b))
    if p != 2 or rows[-2] * others[-2] * rows[-1] > _MOST_APART:
        return None
    sides = write(_ATEN.unsqueeze.default, a, -2), write(_ATEN.unsqueeze.default, b, -3)
    square = write(_ATEN.pow.Tensor_Scalar, write(_ATEN.sub.Tensor, *sides), 2)
    return write(_ATEN.sqrt.default, write(_ATEN.sum.dim_IntList, square, [-1]))


# Differences of all rows, elements of one sample.
_MOST_APART = 1 << 16


def _hypotenuse(write: Writer, a: fx.Node, b: fx.Node) -> fx.Node:
    squares = (write(_ATEN.pow.Tensor_Scalar, side, 2) for side in (a, b))
    return write(_ATEN.sqrt.default, write(_ATEN.add.Tensor, *squares))


def _products_added(
    write: Writer, x: fx.Node, a: fx.Node, b: fx.Node, *, beta: Any = 1, alpha: Any = 1
) -> fx.Node:
    """Write a sum with a product of matrices, of batches too, and two factors."""
    product = write(_ATEN.bmm.default, a, b)
    if write.target is _ATEN.addbmm.default:
        product = write(_ATEN.sum.dim_IntList, product, [0])
    scaled = product if alpha == 1 else write(_ATEN.mul.Tensor, product, alpha)
    rest = x if beta == 1 else write(_ATEN.mul.Tensor, x, beta)
    return write(_ATEN.add.Tensor, rest, scaled)


def _largest_norm(
    write: Writer, x: fx.Node, order: Any = 2, dims: Any = None, keep: bool = False, **_: Any
) -> fx.Node | None:
    """Write a norm of infinite order as the largest, or smallest, absolute value."""
    if not math.isinf(order):
        return None
    value = _ATEN.amax.default if order > 0 else _ATEN.amin.default
    every = list(range(x.meta["val"].dim()))
    return write(value, write(_ATEN.abs.default, x), every if dims is None else dims, keep)


def _crossed(write: Writer, a: fx.Node, b: fx.Node, *, dim: int = -1) -> fx.Node:
    """Write a cross product of vectors of three elements."""

    def product(first: int, second: int) -> fx.Node:
        sides = (write(_ATEN.slice.Tensor, side, dim, at, at + 1) for side, at in ((a, first), (b, second)))
        return write(_ATEN.mul.Tensor, *sides)

    parts = [
        write(_ATEN.sub.Tensor, product(first, second), product(second, first))
        for first, second in ((1, 2), (2, 0), (0, 1))
    ]
    return write(_ATEN.cat.default, parts, dim)


def _dot(write: Writer, a: fx.Node, b: fx.Node) -> fx.Node:
    sides = write(_ATEN.unsqueeze.default, a, 0), write(_ATEN.unsqueeze.default, b, 1)
    return write(_ATEN.reshape.default, write(_ATEN.mm.default, *sides), [])


def _triangle(write: Writer, x: fx.Node, diagonal: int = 0) -> fx.Node:
    """Write a triangle of a matrix as a product with ones and zeros."""
    ones = torch.ones(x.meta["val"].shape[-2:])
    kept = ones.tril(diagonal) if write.target is _ATEN.tril.default else ones.triu(diagonal)
    return write(_ATEN.mul.Tensor, x, write.constant("triangle", kept))


def _diagonal_matrix(write: Writer, x: fx.Node, offset: int = 0, dim1: int = -2, dim2: int = -1) -> fx.Node:
    """Write a matrix with values on a diagonal as a product with ones and zeros."""
    dims = x.meta["val"].dim() + 1
    first, second = dim1 % dims, dim2 % dims
    if first > second:
        first, second, offset = second, first, -offset
    ones = torch.diag_embed(torch.ones(x.meta["val"].shape[-1]), offset)
    grown = write(_ATEN.constant_pad_nd.default, x, [0, abs(offset)]) if offset else x
    matrix = write(_ATEN.unsqueeze.default, grown, -1 if offset >= 0 else -2)
    matrix = write(_ATEN.mul.Tensor, matrix, write.constant("diagonal", ones))
    order = [*range(dims - 2)]
    order.insert(first, dims - 2)
    order.insert(second, dims - 1)
    return matrix if order == sorted(order) else write(_ATEN.permute.default, matrix, order)


ALGEBRA: dict[Any, Any] = {
    _ATEN.matmul.default: _with_vector,
    _ATEN.mv.default: _with_vector,
    _ATEN.pairwise_distance.default: _distance,
    _ATEN.cosine_similarity.default: _similarity,
    _ATEN.hypot.default: _hypotenuse,
    _ATEN.baddbmm.default: _products_added,
    _ATEN.addbmm.default: _products_added,
    _ATEN.linalg_vector_norm.default: _largest_norm,
    _ATEN.linalg_cross.default: _crossed,
    _ATEN.dot.default: _dot,
    _ATEN.tril.default: _triangle,
    _ATEN.triu.default: _triangle,
    _ATEN.diag_embed.default: _diagonal_matrix,
}
