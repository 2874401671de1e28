"""Formats with shared exponents as MASE computes them, to the bit.

Source: behaviour of MASE at commit 6ff398cf, as observed; tests/data/vectors/mase.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats.block_formats import block_log_range, magnitude_bits
from workbench.engine.formats.blocks import mase_largest, mase_sizes_of, split
from workbench.engine.formats.chunks import by_rows
from workbench.engine.formats.floats import default_bias, fraction_bits
from workbench.engine.formats.mase_floats import TINY, ieee, passing, powers_of_two

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.targets.number_formats import Role


def block_fp(x: Tensor, given: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's block_fp does: a power of two as largest value saturates."""
    magnitude = magnitude_bits(given)
    width = given["exponent_width"]
    bias = default_bias(width, given["exponent_bias"])
    scale, last = 2.0**magnitude, 2**magnitude - 1
    blocks = split(x, mase_sizes_of(x.shape, given, role))
    power = torch.exp2(mase_largest(blocks.rows).log2_().ceil_().clamp_(-bias, 2**width - 1 - bias))

    def work(rows: Tensor, powers: Tensor) -> Tensor:
        code = rows.abs().add_(TINY).div_(powers).mul_(scale).round_().clamp_(0, last)
        return passing(rows, code.div_(scale).mul_(powers).mul_((rows + TINY).sign_()))

    return blocks.join(by_rows(blocks.rows, (power,), work))


def block_minifloat(x: Tensor, given: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's block_minifloat does: larger blocks get a larger bias."""
    width = given["exponent_width"]
    bits = fraction_bits("block_minifloat", given["width"], width)
    top, last = 2**width - 1, 2 ** given["exponent_bias_width"] - 1
    blocks = split(x, mase_sizes_of(x.shape, given, role))
    bias = mase_largest(blocks.rows).log2_().floor_().clamp_(0, last)
    return blocks.join(by_rows(blocks.rows, (bias,), lambda rows, b: ieee(rows, bits, -b, top - b)))


def block_log(x: Tensor, given: Mapping[str, Any], role: Role) -> Tensor:
    """Return values as MASE's block_log does: zero becomes the smallest power of its block."""
    top, last = block_log_range(given)
    blocks = split(x, mase_sizes_of(x.shape, given, role))
    bias = (top - mase_largest(blocks.rows).log2_().ceil_()).clamp_(0, last)

    def work(rows: Tensor, b: Tensor) -> Tensor:
        made = powers_of_two(rows, -b, top - b)
        return made.masked_fill_(rows.isnan(), float("nan"))

    return blocks.join(by_rows(blocks.rows, (bias,), work))
