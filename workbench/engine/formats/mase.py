"""Minifloats and powers of two as MASE computes them, to the bit.

Source: behaviour of MASE at commit 6ff398cf, as observed; tests/data/vectors/mase.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats.block_formats import block_log_range, magnitude_bits
from workbench.engine.formats.blocks import (
    by_chunks,
    by_rows,
    largest_of_rows,
    mase_largest,
    mase_sizes_of,
    split,
)
from workbench.engine.formats.floats import check_element, default_bias, fraction_bits, log_range
from workbench.engine.formats.grids import check_exponents
from workbench.engine.formats.mx import dimension, element, tiles
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.targets.formats.parameters import Role


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


def minifloat_ieee(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's minifloat_ieee does: no carry, tiny values pass, inf is NaN."""
    del role
    width = parameters["exponent_width"]
    bits = fraction_bits("minifloat_ieee", parameters["width"], width)
    bias = default_bias(width, parameters["exponent_bias"])
    most = 2**width - 1 - bias
    check_exponents("minifloat_ieee", -bias, most, x.dtype)
    return by_chunks(x, lambda piece: ieee(piece, bits, -bias, most))


def minifloat_denorm(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's minifloat_denorm does: powers of two lose a step."""
    del role
    width = parameters["exponent_width"]
    bits = fraction_bits("minifloat_denorm", parameters["width"], width)
    bias = default_bias(width, parameters["exponent_bias"])
    most = 2**width - 1 - bias
    check_exponents("minifloat_denorm", -bias, most, x.dtype)
    scale, last = 2.0**bits, 2**bits - 1

    def work(piece: Tensor) -> Tensor:
        power = torch.exp2(exponents(piece).ceil_().clamp_(-bias, most))
        code = piece.abs().div_(power).mul_(scale).round_().clamp_(0, last)
        return passing(piece, code.div_(scale).mul_(power).mul_(torch.sign(piece)))

    return by_chunks(x, work)


def log(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's log does: zero becomes the smallest positive power."""
    del role
    least, most = log_range(parameters)
    check_exponents("log", least, most, x.dtype)
    return by_chunks(x, lambda p: powers_of_two(p, least, most).masked_fill_(p.isnan(), float("nan")))


def block_fp(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's block_fp does: a power of two as largest value saturates."""
    magnitude = magnitude_bits(parameters)
    width = parameters["exponent_width"]
    bias = default_bias(width, parameters["exponent_bias"])
    scale, last = 2.0**magnitude, 2**magnitude - 1
    blocks = split(x, mase_sizes_of(x.shape, parameters, role))
    power = torch.exp2(mase_largest(blocks.rows).log2_().ceil_().clamp_(-bias, 2**width - 1 - bias))

    def work(rows: Tensor, powers: Tensor) -> Tensor:
        code = rows.abs().add_(TINY).div_(powers).mul_(scale).round_().clamp_(0, last)
        return passing(rows, code.div_(scale).mul_(powers).mul_((rows + TINY).sign_()))

    return blocks.join(by_rows(blocks.rows, (power,), work))


def block_minifloat(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's block_minifloat does: larger blocks get a larger bias."""
    width = parameters["exponent_width"]
    bits = fraction_bits("block_minifloat", parameters["width"], width)
    top, last = 2**width - 1, 2 ** parameters["exponent_bias_width"] - 1
    blocks = split(x, mase_sizes_of(x.shape, parameters, role))
    bias = mase_largest(blocks.rows).log2_().floor_().clamp_(0, last)
    return blocks.join(by_rows(blocks.rows, (bias,), lambda rows, b: ieee(rows, bits, -b, top - b)))


def block_log(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's block_log does: zero becomes the smallest power of its block."""
    top, last = block_log_range(parameters)
    blocks = split(x, mase_sizes_of(x.shape, parameters, role))
    bias = (top - mase_largest(blocks.rows).log2_().ceil_()).clamp_(0, last)

    def work(rows: Tensor, b: Tensor) -> Tensor:
        steps = powers_of_two(rows, -b, top - b)
        return steps.masked_fill_(rows.isnan(), float("nan"))

    return blocks.join(by_rows(blocks.rows, (bias,), work))


_FRACTION = 23
_CUT = 8
_QUANTILES = (1.0, 0.995, 0.99, 0.97, 0.95, 0.93, 0.9, 0.8, 0.7, 0.6, 0.5)


def _grouped(x: Tensor, parameters: Mapping[str, Any], role: Role) -> tuple[Tensor, Tensor, int]:
    """Return consecutive groups [N, B] with the dimension last, the moved array and its place."""
    axis = dimension(x, parameters, role)
    size = parameters["block_size"]
    if x.numel() % size:
        raise failure(
            f"MASE needs a block size that divides {x.numel()} elements; {size} does not.",
            "Use another block size, or the textbook form.",
            Place(kind="option", id="block_size"),
            code="mase-block-size-not-divisor",
        )
    moved = x.movedim(axis, -1)
    return moved.reshape(-1, size), moved, axis


def mxint(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's mxint does: a power of two as largest value saturates."""
    rows, moved, axis = _grouped(x, parameters, role)
    largest = largest_of_rows(rows)
    rounded = _mxint_rows(rows, largest, parameters)
    if parameters["quantile_search"]:
        rounded = _best_quantile(rows, rounded, parameters, last=axis == x.dim() - 1)
    return rounded.reshape(moved.shape).movedim(-1, axis).contiguous()


def _mxint_rows(rows: Tensor, largest: Tensor, parameters: Mapping[str, Any]) -> Tensor:
    half = 2 ** (parameters["width"] - 1)
    bias, codes = 2 ** (parameters["scale_bits"] - 1) - 1, 2 ** parameters["scale_bits"] - 1
    exponent = largest.clamp(min=2.0**-126).log2_().ceil_()
    power = torch.exp2(exponent)
    written = torch.exp2((exponent + bias).clamp_(0, codes).sub_(bias))

    def work(part: Tensor, by: Tensor, back: Tensor) -> Tensor:
        return (part / by).mul_(half).round_().clamp_(-half, half - 1).div_(half).mul_(back)

    return by_rows(rows, (power, written), work)


def _best_quantile(rows: Tensor, quantized: Tensor, parameters: Mapping[str, Any], *, last: bool) -> Tensor:
    """Return, for each block, what the percentile of |x| with the least squared error gives."""
    if not last:
        raise failure(
            "MASE's percentile search mixes blocks unless they run along the last dimension.",
            where=Place(kind="option", id="block_dim"),
            code="mase-percentile-block-dim",
        )
    best = torch.full((rows.shape[0], 1), float("inf"), dtype=rows.dtype)
    for quantile in _QUANTILES:
        largest = torch.quantile(rows.abs(), quantile, dim=1, keepdim=True)
        tried = _mxint_rows(rows, largest, parameters)
        error = (tried - rows).pow_(2).sum(1, keepdim=True)
        better = error < best
        quantized, best = torch.where(better, tried, quantized), torch.where(better, error, best)
    return quantized


def mxfp(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's mxfp does: all codes finite, carries lost, subnormals cut."""
    exponent_bits, bits = element(parameters)
    _needs_float32("mxfp", x)
    rows, moved, axis = _grouped(x, parameters, role)
    bias = 2 ** (parameters["scale_bits"] - 1) - 1
    exponent = largest_of_rows(rows).log2_().floor_() - 2 ** (exponent_bits - 1)
    scale = torch.exp2(exponent.clamp_(-bias, bias + 1))

    def work(part: Tensor, scales: Tensor) -> Tensor:
        return mase_element(part / scales, exponent_bits, bits).mul_(scales)

    rounded = by_rows(rows, (scale,), work)
    return rounded.reshape(moved.shape).movedim(-1, axis).contiguous()


def _needs_float32(scheme: str, x: Tensor) -> None:
    if x.dtype != torch.float32:
        raise failure(
            f"MASE's {scheme} supports float32 only, not {x.dtype}.",
            "Convert the array.",
            code="mase-dtype-not-supported",
        )


def minifloat_mx(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as the element format inside MASE's microscaling."""
    del role
    _needs_float32("minifloat_mx", x)
    options = {"finite": parameters["is_finite"], "mode": parameters["round_mode"]}
    exponent_bits, bits = parameters["exponent_width"], parameters["frac_width"]
    check_element(parameters)
    _check_room(exponent_bits, bits, parameters["is_finite"])
    return by_chunks(x, lambda piece: mase_element(piece, exponent_bits, bits, **options))


def _check_room(exponent_bits: int, bits: int, finite: bool) -> None:
    if bits >= _FRACTION - _CUT:
        raise failure(
            f"MASE supports fewer than {_FRACTION - _CUT} fraction bits, not {bits}.",
            where=Place(kind="option", id="frac_width"),
            code="mase-fraction-too-wide",
        )
    most = 2 ** (exponent_bits - 1) - (0 if finite else 1)
    check_exponents("minifloat_mx", None, most, torch.float32, spare=0)


def mase_element(
    x: Tensor, exponent_bits: int, bits: int, *, finite: bool = True, mode: str = "rn"
) -> Tensor:
    """Return float32 values on the grid of an element, with MASE's arithmetic on the bits.

    A carry out of the fraction is OR-ed into the exponent. Infinity and NaN lose their meaning:
    all codes finite, they become numbers below 1; else the top binade's ends.
    """
    word = x.view(torch.int32)
    exponent = ((word >> _FRACTION) & 0xFF) - 127
    code, carry = _round((word & 0x7FFFFF) >> _CUT, _FRACTION - _CUT - bits, bits, mode)
    bias = 2 ** (exponent_bits - 1) - 1
    most = 2**exponent_bits - 1 - bias - (0 if finite else 1)
    power = ((exponent + bias) | carry) - bias
    value = torch.exp2(power.to(x.dtype)) * (1 + code.to(x.dtype) / 2**bits)
    if not finite:
        value.masked_fill_((power > most) & (exponent <= most), float("inf"))
    value.masked_fill_(exponent > most, 2.0**most * (2 - 2.0**-bits))
    under = exponent == -bias
    cut = ((code >> 1) | (1 << (bits - 1))).to(x.dtype) * 2.0 ** (1 - bias - bits)
    value = torch.where(under, cut, value)
    value.masked_fill_((exponent < -bias) | (under & ((code | carry) == 0)), 0.0)
    value.masked_fill_(x.isinf(), 0.5 if finite else 2.0**most)
    if finite:
        value.masked_fill_(x.isnan(), 0.75)
    return value.copysign_(x)


def _round(fraction: Tensor, drop: int, bits: int, mode: str) -> tuple[Tensor, Tensor]:
    """Return the fraction without its last bits, rounded, and the carry out of it."""
    code = fraction >> drop
    rest = fraction & ((1 << drop) - 1)
    half = 1 << (drop - 1)
    if mode == "rn":
        up = (rest > half) | ((rest == half) & ((code & 1) == 1))
    elif mode == "ru":
        up = rest > 0
    else:
        up = torch.zeros_like(rest, dtype=torch.bool)
    code = code + up.to(code.dtype)
    return code & ((1 << bits) - 1), code >> bits


def mxint_hardware(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's mxint_hardware does: 2^(E-1) fraction bits, rounded down."""
    del role
    half = 2 ** (parameters["exponent_width"] - 1)
    check_exponents("mxint_hardware", -half, half - 1, x.dtype)
    shape = (1, *x.shape) if x.dim() == 1 else tuple(x.shape)
    blocks, _ = tiles(x, parameters)
    if any(n % p for n, p in zip(shape[-2:], parameters["parallelism"], strict=True)):
        raise failure(
            f"MASE needs tiles of {list(parameters['parallelism'])} to divide {list(shape[-2:])}.",
            "Use another tile, or the textbook form.",
            Place(kind="option", id="parallelism"),
            code="mase-tile-not-divisor",
        )
    exponent = (largest_of_rows(blocks.rows).log2_().ceil_() - half).clamp_(-half, half - 1)
    low, high = -(2 ** (parameters["width"] - 1)), 2 ** (parameters["width"] - 1) - 1

    def work(rows: Tensor, power: Tensor) -> Tensor:
        return (rows / power).floor_().clamp_(low, high).mul_(power)

    return blocks.join(by_rows(blocks.rows, (torch.exp2(exponent),), work)).reshape(x.shape)
