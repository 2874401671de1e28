"""Minifloats and powers of two as MASE computes them, to the bit.

Source: behaviour of MASE at commit 6ff398cf, as observed; tests/data/vectors/mase.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats.chunks import by_chunks
from workbench.engine.formats.floats import default_bias, fraction_bits, log_range
from workbench.engine.formats.grids import check_exponents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.targets.number_formats import Role

SMALL, TINY = 1e-8, 1e-9


def exponents(x: Tensor) -> Tensor:
    """Return log2(|x|+1e-9) in the type of ``x``."""
    return x.abs().add_(TINY).log2_()


def passing(x: Tensor, quantized: Tensor) -> Tensor:
    """Return the quantized values, but those of at most 1e-8 as they were and infinities as NaN."""
    magnitude = x.abs()
    quantized = torch.where(magnitude <= SMALL, x, quantized)
    return quantized.masked_fill_(magnitude == float("inf"), float("nan"))


def ieee(x: Tensor, bits: int, least: int | Tensor, most: int | Tensor) -> Tensor:
    """Return minifloats with so many fraction bits and exponents from ``least`` to ``most``.

    The bounds are numbers, or one for each row [N, 1] of ``x`` [N, B].
    """
    exponent = exponents(x).floor_().clamp_(least, most)
    power = torch.exp2(exponent)
    mantissa = x.abs().div_(power)
    scale, last = 2.0**bits, 2**bits - 1
    normal = (mantissa - 1).mul_(scale).round_().clamp_(0, last).div_(scale).add_(1).mul_(power)
    under = mantissa.mul_(scale / 2).round_().clamp_(0, last).div_(scale).mul_(power * 2)
    return passing(x, torch.where(exponent == least, under, normal).mul_(torch.sign(x)))


def powers_of_two(x: Tensor, least: int | Tensor, most: int | Tensor) -> Tensor:
    """Return powers of two shifted by a tenth of the smallest; see ``ieee`` for the bounds."""
    smallest = 2.0**least if isinstance(least, int) else torch.exp2(least)
    shift = smallest * 0.1
    exponent = (x.abs() + shift).log2_().round_().clamp_(least, most)
    return torch.exp2(exponent).mul_(torch.sign(x + shift))


def minifloat_ieee(x: Tensor, given: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's minifloat_ieee does: no carry, tiny values pass, inf is NaN."""
    del role
    width = given["exponent_width"]
    bits = fraction_bits("minifloat_ieee", given["width"], width)
    bias = default_bias(width, given["exponent_bias"])
    most = 2**width - 1 - bias
    check_exponents("minifloat_ieee", -bias, most, x.dtype)
    return by_chunks(x, lambda piece: ieee(piece, bits, -bias, most))


def minifloat_denorm(x: Tensor, given: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's minifloat_denorm does: powers of two lose a step."""
    del role
    width = given["exponent_width"]
    bits = fraction_bits("minifloat_denorm", given["width"], width)
    bias = default_bias(width, given["exponent_bias"])
    most = 2**width - 1 - bias
    check_exponents("minifloat_denorm", -bias, most, x.dtype)
    scale, last = 2.0**bits, 2**bits - 1

    def work(piece: Tensor) -> Tensor:
        power = torch.exp2(exponents(piece).ceil_().clamp_(-bias, most))
        code = piece.abs().div_(power).mul_(scale).round_().clamp_(0, last)
        return passing(piece, code.div_(scale).mul_(power).mul_(torch.sign(piece)))

    return by_chunks(x, work)


def log(x: Tensor, given: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's log does: zero becomes the smallest positive power."""
    del role
    least, most = log_range(given)
    check_exponents("log", least, most, x.dtype)
    return by_chunks(
        x, lambda p: powers_of_two(p, least, most).masked_fill_(p.isnan(), float("nan"))
    )
