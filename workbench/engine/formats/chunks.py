"""Elementwise work in pieces that stay in the processor's cache."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# Three buffers of this many float32 fit a level-2 cache; smaller pieces pay for their calls.
_ELEMENTS = 1 << 17

# The integer type of a floating type's bits, and all bits but the sign.
_BITS = {
    torch.float16: (torch.int16, 0x7FFF),
    torch.bfloat16: (torch.int16, 0x7FFF),
    torch.float32: (torch.int32, 0x7FFFFFFF),
    torch.float64: (torch.int64, 0x7FFFFFFFFFFFFFFF),
}


def by_chunks(
    x: Tensor, work: Callable[[Tensor], Tensor], dtype: torch.dtype | None = None
) -> Tensor:
    """Return ``work`` of all elements, shaped like ``x``; it sees flat pieces of them."""
    source = x.contiguous().view(-1)
    if source.numel() <= _ELEMENTS:
        return work(source).view(x.shape)
    out = torch.empty(source.shape, dtype=dtype or x.dtype)
    for piece, result in zip(source.split(_ELEMENTS), out.split(_ELEMENTS), strict=True):
        result.copy_(work(piece))
    return out.view(x.shape)


def by_rows(rows: Tensor, values: tuple[Tensor, ...], work: Callable[..., Tensor]) -> Tensor:
    """Return ``work(rows, *values)`` of rows [N, B] with one value for each row [N, 1].

    Or of [N, B, K], whose blocks lie along B, with values [N, 1, K].
    """
    return by_rows_into(rows, values, lambda *given: given[-1].copy_(work(*given[:-1])))


def by_rows_into(rows: Tensor, values: tuple[Tensor, ...], work: Callable[..., object]) -> Tensor:
    """Return what ``work(rows, *values, out)`` puts into ``out``; see ``by_rows``."""
    step = max(1, _ELEMENTS // max(1, math.prod(rows.shape[1:])))
    out = torch.empty_like(rows)
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        work(rows[part], *(value[part] for value in values), out[part])
    return out


def largest_of_rows(rows: Tensor) -> Tensor:
    """Return the largest magnitude of each row [N, B] as [N, 1]; NaN wherever a row has one.

    Of [N, B, K] those along B as [N, 1, K].
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
