"""Exact rounding to grids of floats or of powers of two, in any binary floating-point type.

The exponent is read from the bits, not from a logarithm.

Source: IEEE 754-2019, 3.4 (encodings) and 4.3.1 (roundTiesToEven).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.engine.formats.blocks import by_chunks
from workbench.errors import failure


@dataclass(frozen=True)
class _Layout:
    """Bits of a floating type: its integer twin, fraction, exponents and where sqrt(2) rounds.

    ``lift`` is a power of two that takes the smallest subnormal to the normal ``lifted``.
    """

    integer: torch.dtype
    fraction: int
    mask: int
    root: int
    least: int
    most: int
    lift: float
    lifted: float


_LAYOUTS = {
    torch.float32: _Layout(torch.int32, 23, 0x7F800000, 0x3504F4, -126, 127, 2.0**64, 2.0**-85),
    torch.float64: _Layout(
        torch.int64, 52, 0x7FF0000000000000, 0x6A09E667F3BCD, -1022, 1023, 2.0**600, 2.0**-474
    ),
}


def exponent_limits(dtype: torch.dtype) -> tuple[int, int]:
    """Return the exponent of the smallest step and of the largest binade of a type."""
    return (-1074, 1023) if dtype == torch.float64 else (-149, 127)


def check_exponents(scheme: str, least: int | None, most: int, dtype: torch.dtype, spare: int = 1) -> None:
    """Refuse a grid whose exponents the type the work is done in cannot hold.

    Args:
        scheme: Name for the sentence.
        least: Exponent that must be held at the lower end; None where finer steps than the type's
            own change nothing.
        most: Exponent of the largest binade.
        dtype: Type of the values.
        spare: How many more than the type has are let through: one, because formats with an
            exponent as wide as the type's have it.

    Raises:
        WorkbenchError: it cannot.
    """
    low, high = exponent_limits(dtype)
    if (least is not None and least < low) or not low <= most <= high + spare:
        name = "float64" if dtype == torch.float64 else "float32"
        reach = f"2^{most}" if least is None else f"2^{least} to 2^{most}"
        raise failure(
            f"Exponents of this {scheme} reach {reach}, but {name} covers 2^{low} to 2^{high}.",
            "Use fewer exponent bits or another bias.",
            code="format-exponent-out-of-range",
        )


def top(most: int, fraction_bits: int, dtype: torch.dtype) -> float:
    """Return the largest value of the binade ``most`` in the type."""
    return float((2 - 2.0**-fraction_bits) * 2.0 ** min(most, exponent_limits(dtype)[1]))


def round_to_floats(x: Tensor, fraction_bits: int, least: int, largest: float) -> Tensor:
    """Return the nearest floats with so many fraction bits, ties to even, saturating.

    Args:
        x: Values [...]; NaN stays, infinities saturate.
        fraction_bits: M; the step is 2^(e-M) in the binade 2^e.
        least: Exponent of the lowest binade with its own step; below it the step stays the same.
        largest: Largest magnitude, on the grid.
    """
    layout = _LAYOUTS[x.dtype]
    shift = layout.fraction - fraction_bits
    inside = largest < 2.0 ** (layout.most - shift - 1)
    if x.dtype == torch.float32 and not (least >= layout.least and shift >= 2 and inside):
        return by_chunks(
            x, lambda piece: round_to_floats(piece.double(), fraction_bits, least, largest).float()
        )
    lowest = 2.0**least
    return by_chunks(x, lambda piece: floats_between(piece, fraction_bits, lowest, largest))


def floats_between(
    x: Tensor, fraction_bits: int, lowest: float | Tensor, largest: float | Tensor, out: Tensor | None = None
) -> Tensor:
    """Return the nearest floats with so many fraction bits, ties to even, saturating.

    Args:
        x: Values [...], whose type has at least two fraction bits more; NaN stays.
        fraction_bits: M; the step is 2^(e-M) in the binade 2^e.
        lowest: Power of two below which the step stays the same; a number, or one for each row.
        largest: Largest magnitude, on the grid; as ``lowest``.
        out: Where to put them.
    """
    layout = _LAYOUTS[x.dtype]
    value = _bounded(x, -largest, largest, out)
    power = (value.view(layout.integer) & layout.mask).view(x.dtype)
    # Added to a number this much larger, the value's last bits fall off, rounded to even.
    power.clamp_(min=lowest).mul_(1.5 * 2.0 ** (layout.fraction - fraction_bits))
    return value.add_(power).sub_(power)


def rows_fit(x: Tensor, fraction_bits: int, least: Tensor, most: Tensor) -> bool:
    """Return whether float32 can round rows to binades from ``least`` to ``most``.

    Float64 always can, for the formats here.
    """
    if x.dtype != torch.float32:
        return True
    layout = _LAYOUTS[x.dtype]
    shift = layout.fraction - fraction_bits
    inside = int(most.max()) < layout.most - shift - 1
    return shift >= 2 and inside and int(least.min()) >= layout.least


def round_to_powers(x: Tensor, least: int, most: int) -> Tensor:
    """Return signed powers of two, nearest in the logarithm, from 2^least to 2^most.

    Zero and NaN stay, infinities saturate.
    """
    layout = _LAYOUTS[x.dtype]
    if x.dtype == torch.float32 and (least < layout.least or most > layout.most):
        return by_chunks(x, lambda p: round_to_powers(p.double(), least, min(most, 127)).float())
    low, high = 2.0**least, 2.0**most
    return by_chunks(x, lambda piece: powers_between(piece, low, high))


def powers_between(x: Tensor, low: float | Tensor, high: float | Tensor, out: Tensor | None = None) -> Tensor:
    """Return signed powers of two, nearest in the logarithm, from ``low`` to ``high``.

    Both are powers of two; numbers, or one for each row of ``x``. Zero and NaN stay. They are put
    into ``out``, if there is one.
    """
    layout = _LAYOUTS[x.dtype]
    carry = (1 << layout.fraction) - layout.root
    magnitude = torch.abs(x, out=out)
    magnitude.view(layout.integer).add_(carry).bitwise_and_(layout.mask)
    # 1 or -1, and 0 and NaN where the value is: lifted, because subnormals are slow.
    sign = x.mul(layout.lift).clamp_(-layout.lifted, layout.lifted)
    return _bounded(magnitude, low, high, magnitude).mul_(sign.mul_(1 / layout.lifted))


def _bounded(x: Tensor, low: float | Tensor, high: float | Tensor, out: Tensor | None) -> Tensor:
    """Return values between two numbers, or between those of their rows; NaN stays."""
    if isinstance(low, Tensor):
        # One bound at a time: with two per-row bounds at once torch is not vectorized.
        return torch.clamp(x, min=low, out=out).clamp_(max=high)
    return torch.clamp(x, low, high, out=out)  # type: ignore[arg-type]  # both are numbers


def floor_exponents(values: Tensor) -> Tensor:
    """Return floor(log2) of positive values as int32; 0 counts as below everything (-2000)."""
    _, exponent = torch.frexp(values)
    return torch.where(values > 0, exponent - 1, torch.full_like(exponent, -2000))


def ceil_exponents(values: Tensor) -> Tensor:
    """Return ceil(log2) of positive values as int32; 0 counts as below everything (-2000)."""
    mantissa, exponent = torch.frexp(values)
    exact = exponent - (mantissa == 0.5).to(exponent.dtype)
    return torch.where(values > 0, exact, torch.full_like(exponent, -2000))


def powers(exponents: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 2^exponents exactly, subnormals included."""
    return torch.exp2(exponents.to(torch.float64)).to(dtype)
