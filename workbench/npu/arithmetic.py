"""Scaling with rounding, exactly, and the interpolation of tables.

``result = (value * scale + r) >> shift`` where r depends on the rounding mode. Source: Vela
5.1.0, ``regor/compiler/graphir_optimiser.cpp`` (its own folding of constants). With shifts from
31 on, "double" is TFLite's saturating doubling multiplication followed by a rounding shift.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_SAFE = 1 << 62
_LOW_BITS = 20
_ENTRIES_PER_STEP = 7


class Rounding(Enum):
    """How a scaled value becomes an integer."""

    DOUBLE = auto()
    NATURAL = auto()
    TRUNCATE = auto()
    DOUBLE_ASYMMETRIC = auto()
    SYMMETRIC = auto()
    LOWER = auto()


def rescale(
    values: Integers, scale: int | Integers, shift: int | Integers, rounding: Rounding, double_shift: int = 0
) -> Integers:
    """Return values times ``scale / 2**shift``, rounded.

    Args:
        values: Any shape.
        scale: One, or one for each channel (the last axis); not negative.
        shift: 0 to 63, likewise.
        rounding: How the result becomes an integer.
        double_shift: How much less the first rounding of the double modes moves; 0 for outputs.

    Returns:
        Of the same shape; exact also where the product needs more than 64 bits, and limited to
        64 bits where the result does.
    """
    factors, shifts = np.asarray(scale, np.int64), np.asarray(shift, np.int64)
    if not shifts.any() and (factors == 1).all():
        return values
    largest = magnitude(values) * magnitude(factors)
    if largest + (1 << magnitude(shifts)) >= _SAFE:
        return _rescale_wide(values, factors, shifts, rounding, double_shift)
    product: Integers = values * factors
    product += _addend(values, shifts, rounding, double_shift)
    product >>= shifts
    return product


def magnitude(values: npt.NDArray[Any]) -> int:
    """Return the largest absolute value; 0 of an empty array."""
    if not values.size:
        return 0
    return max(int(values.max()), -int(values.min()))


def _addend(values: Any, shifts: Any, rounding: Rounding, double_shift: int) -> Any:
    """Return what is added before the shift; works on int64 and on Python's integers alike."""
    half = (1 << shifts) >> 1
    if rounding is Rounding.NATURAL:
        return half
    if rounding is Rounding.TRUNCATE:
        return np.where(values >= 0, 0, (1 << shifts) - 1)
    if rounding is Rounding.SYMMETRIC:
        # Without a shift there is nothing to round.
        return half - np.where((values < 0) & (shifts > 0), 1, 0)
    if rounding is Rounding.LOWER:
        return half * 0
    first = 30 - double_shift
    extra = np.where(shifts > first + 1, (1 << first) if first >= 0 else 0, 0)
    if rounding is Rounding.DOUBLE_ASYMMETRIC:
        return half + extra
    return half + np.where(values >= 0, extra, -extra)


def _rescale_wide(
    values: Integers, factors: Integers, shifts: Integers, rounding: Rounding, double_shift: int
) -> Integers:
    """As ``rescale``, for products beyond 63 bits.

    With shifts from 20 on the value is split at bit 20: floor((a * 2**20 + t) / 2**n) is
    floor((a + floor(t / 2**20)) / 2**(n - 20)), and both parts fit 64 bits. Other shifts give
    results that fit no feature map; they are computed in Python's integers.
    """
    fits = magnitude(values) < 1 << 48 and magnitude(shifts) < 62
    if shifts.min() >= _LOW_BITS and fits and magnitude(factors) < 1 << 33:
        high = (values >> _LOW_BITS) * factors
        low = (values & (1 << _LOW_BITS) - 1) * factors
        low += _addend(values, shifts, rounding, double_shift)
        high += low >> _LOW_BITS
        return np.asarray(high >> (shifts - _LOW_BITS))
    big = values.astype(object)
    wide_shifts = np.broadcast_to(shifts, values.shape).astype(object)
    total = big * factors.astype(object)
    total = total + _addend(big, wide_shifts, rounding, double_shift)
    limited = np.clip(total >> wide_shifts, -(1 << 63), (1 << 63) - 1)
    return np.asarray(limited, np.int64)


def interpolate(values: Integers, table: npt.NDArray[np.int16], *, wide: bool) -> Integers:
    """Return what a table of 512 pairs (base, slope) gives for values of 16 bits.

    Args:
        values: Within the range of int16.
        table: Shape (512, 2).
        wide: Whether the result has 32 bits (7 of them behind the point) instead of 16.
    """
    entry = (values + (1 << 15)) >> _ENTRIES_PER_STEP
    fraction = values & (1 << _ENTRIES_PER_STEP) - 1
    base, slope = table[entry, 0].astype(np.int64), table[entry, 1].astype(np.int64)
    if wide:
        return np.asarray((base << _ENTRIES_PER_STEP) + slope * fraction)
    limits = np.iinfo(np.int16)
    rounded = (slope * fraction + (1 << _ENTRIES_PER_STEP - 1)) >> _ENTRIES_PER_STEP
    return np.asarray(np.clip(base + rounded, limits.min, limits.max))
