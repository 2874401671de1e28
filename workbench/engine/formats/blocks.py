"""Blocks of an array as rows, and the values that elements of a block share.

Block sizes are those of the torch-free schemes. Incomplete blocks are padded with zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from workbench.errors import Place, failure
from workbench.targets.formats.schemes import block_sizes, skips_first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from workbench.targets.formats.parameters import Role


# Three buffers of this many float32 fit a level-2 cache; smaller chunks cost more calls.
_ELEMENTS = 1 << 17

# The integer type of a floating type's bits, and all bits except the sign.
_BITS = {
    torch.float16: (torch.int16, 0x7FFF),
    torch.bfloat16: (torch.int16, 0x7FFF),
    torch.float32: (torch.int32, 0x7FFFFFFF),
    torch.float64: (torch.int64, 0x7FFFFFFFFFFFFFFF),
}


def by_chunks(x: Tensor, work: Callable[[Tensor], Tensor], dtype: torch.dtype | None = None) -> Tensor:
    """Return ``work`` applied to all elements in flat chunks, in the shape of ``x``."""
    source = x.contiguous().view(-1)
    if source.numel() <= _ELEMENTS:
        return work(source).view(x.shape)
    out = torch.empty(source.shape, dtype=dtype or x.dtype)
    for piece, result in zip(source.split(_ELEMENTS), out.split(_ELEMENTS), strict=True):
        result.copy_(work(piece))
    return out.view(x.shape)


def by_rows(rows: Tensor, values: tuple[Tensor, ...], work: Callable[..., Tensor]) -> Tensor:
    """Return ``work(rows, *values)`` for rows [N, B] with one value per row [N, 1].

    Or for [N, B, K], whose blocks are along B, with values [N, 1, K].
    """
    return by_rows_into(rows, values, lambda *parameters: parameters[-1].copy_(work(*parameters[:-1])))


def by_rows_into(rows: Tensor, values: tuple[Tensor, ...], work: Callable[..., object]) -> Tensor:
    """Return the result that ``work(rows, *values, out)`` writes; see ``by_rows``."""
    step = max(1, _ELEMENTS // max(1, math.prod(rows.shape[1:])))
    out = torch.empty_like(rows)
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        work(rows[part], *(value[part] for value in values), out[part])
    return out


def largest_of_rows(rows: Tensor) -> Tensor:
    """Return the largest magnitude of each row [N, B] as [N, 1]; NaN if a row contains one.

    For [N, B, K] along B, as [N, 1, K].
    """
    step = max(1, _ELEMENTS // max(1, math.prod(rows.shape[1:])))
    out = torch.empty((rows.shape[0], 1, *rows.shape[2:]), dtype=rows.dtype)
    # Without their sign, bits of floats are ordered as the floats are, NaN above all; and the
    # largest integer of a short row is found in a third of the time.
    integer, magnitude = _BITS[rows.dtype]
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        bits = rows[part].view(integer).bitwise_and(magnitude)
        out[part] = bits.amax(1, keepdim=True).view(rows.dtype)
    return out


@dataclass(frozen=True)
class Blocks:
    """Rows [N, B], one for each block, and the way back."""

    rows: Tensor
    shape: tuple[int, ...]
    padded: tuple[int, ...]
    sizes: tuple[int, ...]

    def join(self, rows: Tensor) -> Tensor:
        """Return the array that the rows were split from."""
        if self.rowwise:
            joined = rows.reshape(self.padded)
        else:
            counts = [n // b for n, b in zip(self.padded, self.sizes, strict=True)]
            rank = len(counts)
            order = [i for k in range(rank) for i in (k, rank + k)]
            joined = rows.reshape(*counts, *self.sizes).permute(order).reshape(self.padded)
        if self.padded == self.shape:
            return joined
        return joined[tuple(slice(0, n) for n in self.shape)]

    @property
    def rowwise(self) -> bool:
        """Whether blocks are along the last dimension only."""
        return all(size == 1 for size in self.sizes[:-1])


def split(x: Tensor, sizes: Sequence[int]) -> Blocks:
    """Return ``x`` in blocks of the given sizes, one per dimension."""
    shape = tuple(x.shape)
    padded = tuple(-(-n // b) * b for n, b in zip(shape, sizes, strict=True))
    if padded != shape:
        pads = [side for n, p in zip(shape[::-1], padded[::-1], strict=True) for side in (0, p - n)]
        x = functional.pad(x, pads)
    blocks = Blocks(x, shape, padded, tuple(sizes))
    elements = 1
    for size in sizes:
        elements *= size
    if blocks.rowwise:
        return Blocks(x.reshape(-1, elements), shape, padded, tuple(sizes))
    counts = [n // b for n, b in zip(padded, sizes, strict=True)]
    pairs = [value for pair in zip(counts, sizes, strict=True) for value in pair]
    rank = len(shape)
    order = [2 * k for k in range(rank)] + [2 * k + 1 for k in range(rank)]
    rows = x.reshape(pairs).permute(order).reshape(-1, elements)
    return Blocks(rows, shape, padded, tuple(sizes))


@dataclass(frozen=True)
class Lanes:
    """Blocks along a dimension that is not the last, without moving it.

    Attributes:
        rows: [N, B, K]; each of the K lanes has blocks of its own along B, zeros at their end.
        shape: Of the array.
        axis: Which dimension blocks run along.
    """

    rows: Tensor
    shape: torch.Size
    axis: int

    def join(self, rows: Tensor) -> Tensor:
        """Return rows as an array again."""
        outer = math.prod(self.shape[: self.axis])
        whole = rows.reshape(outer, -1, rows.shape[-1])
        return whole[:, : self.shape[self.axis]].reshape(self.shape)


def lanes(x: Tensor, axis: int, size: int) -> Lanes:
    """Return an array in blocks of ``size`` along a dimension; the last may be short."""
    inner = math.prod(x.shape[axis + 1 :])
    flat = x.reshape(-1, x.shape[axis], inner)
    if short := -x.shape[axis] % size:
        flat = functional.pad(flat, (0, 0, 0, short))
    return Lanes(flat.reshape(-1, size, inner), x.shape, axis)


def sizes_of(shape: Sequence[int], parameters: Mapping[str, Any], role: Role) -> tuple[int, ...]:
    """Return the size of a block along each dimension of an array.

    With ``skip_first_dim`` (the default of data) blocks hold one index of the first dimension;
    arrays of one dimension have nothing to skip.

    Raises:
        WorkbenchError: a size is 0, or the array has no elements to share.
    """
    if not shape or 0 in shape:
        raise failure(
            f"An array of shape {tuple(shape)} has no blocks.",
            "Use an array with elements.",
            code="array-empty",
        )
    if 0 in parameters["block_size"]:
        raise failure(
            "'block_size' contains 0.",
            "Use -1 for the whole dimension, or a positive number.",
            Place(kind="option", id="block_size"),
            code="block-size-zero",
        )
    return block_sizes(shape, parameters, role)


def mase_sizes_of(shape: Sequence[int], parameters: Mapping[str, Any], role: Role) -> tuple[int, ...]:
    """Return the sizes as MASE has them.

    Raises:
        WorkbenchError: MASE takes no such array.
    """
    rank, skip = len(shape), skips_first(parameters, role)
    if rank == 1 and skip:
        raise failure(
            "MASE cannot skip the only dimension of a 1-D array.",
            "Quantize it as a bias, or set skip_first_dim to false.",
            code="mase-blocks-not-supported",
        )
    if rank == 3 and not skip:
        raise failure(
            "MASE does not support blocks over all three dimensions.",
            "Set skip_first_dim to true, or use the textbook form.",
            code="mase-blocks-not-supported",
        )
    if rank not in {1, 2, 3}:
        raise failure(
            f"MASE does not support blocks on {rank}-D arrays.",
            "Use the textbook form.",
            code="mase-blocks-not-supported",
        )
    return sizes_of(shape, parameters, role)


def finite_largest(rows: Tensor, lone: float | None = None) -> Tensor:
    """Return the largest finite magnitude of each row [N, B] as [N, 1]; 0 if there is none.

    A row with an infinity and otherwise only zeros and NaN gives ``lone``, or the largest number of
    the type, so that the infinity does not become a small number.
    """
    largest = largest_of_rows(rows)
    if bool(largest.isfinite().all()):
        return largest
    finite = largest_of_rows(torch.where(rows.isfinite(), rows, 0))
    alone = (finite == 0) & rows.isinf().any(1, keepdim=True)
    return finite.masked_fill_(alone, torch.finfo(rows.dtype).max if lone is None else lone)


def mase_largest(rows: Tensor) -> Tensor:
    """Return the largest magnitude of each row; rows of zeros use the smallest of the others."""
    largest = largest_of_rows(rows)
    zero = largest == 0
    others = largest[~zero]
    return largest.masked_fill(zero, float(others.min()) if others.numel() else 1.0)
