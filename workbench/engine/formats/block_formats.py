"""Textbook forms of formats whose blocks share an exponent or a bias.

A block's exponent is determined by its largest finite value. Infinities saturate at the block's
largest value; NaN is preserved and does not affect other elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats.blocks import by_rows, by_rows_into, finite_largest, sizes_of, split
from workbench.engine.formats.floats import default_bias, fraction_bits
from workbench.engine.formats.grids import (
    ceil_exponents,
    check_exponents,
    exponent_limits,
    floats_between,
    floor_exponents,
    powers,
    powers_between,
    rows_fit,
)
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from workbench.targets.formats.parameters import Role


def shared_integers(rows: Tensor, steps: Tensor, low: int, high: int) -> Tensor:
    """Return ``clip(round(x/step), low, high) step`` with one step [N, 1] for each row [N, B].

    Where the type does not hold ``low`` steps, the lowest code is -``high``.
    """
    beyond = steps > torch.finfo(rows.dtype).max / -low
    if bool(beyond.any()):
        least = torch.where(beyond, -high, low).to(rows.dtype)

        def work_within(part: Tensor, step: Tensor, lowest: Tensor) -> Tensor:
            return (part / step).round_().clamp_(max=high).maximum(lowest).mul_(step)

        return by_rows(rows, (steps, least), work_within)

    def work(part: Tensor, step: Tensor) -> Tensor:
        return (part / step).round_().clamp_(low, high).mul_(step)

    return by_rows(rows, (steps,), work)


def block_fp(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return sign and magnitude of w-1 bits under an exponent that the block shares.

    The exponent is floor(log2 A)+1 of the largest value A, so that A fits, clipped to what E bits
    with bias b hold; the step is 2^(e-(w-1)). Ties round to even; the code never exceeds
    2^(w-1)-1.

    Source: Darvish Rouhani et al. 2020, Pushing the Limits of Narrow Precision Inferencing
    (MSFP), NeurIPS 33, section 3.
    """
    magnitude = magnitude_bits(parameters)
    width = parameters["exponent_width"]
    bias = default_bias(width, parameters["exponent_bias"])
    most = 2**width - 1 - bias
    check_exponents("block_fp", None, most, x.dtype)
    blocks = split(x, sizes_of(x.shape, parameters, role))
    exponent = floor_exponents(finite_largest(blocks.rows)).add_(1).clamp_(-bias, most)
    # Every value of the type is a multiple of its smallest step; a finer step is not needed.
    finest, _ = exponent_limits(x.dtype)
    steps = powers((exponent - magnitude).clamp_(min=finest), x.dtype)
    last = 2**magnitude - 1
    return blocks.join(shared_integers(blocks.rows, steps, -last, last))


def magnitude_bits(parameters: Mapping[str, Any]) -> int:
    """Return the number of bits of block_fp without the sign.

    Raises:
        WorkbenchError: there are none.
    """
    if parameters["width"] < 2:
        raise failure(
            "block_fp with 1 bit represents only zero.",
            "Use a width of at least 2.",
            Place(kind="option", id="width"),
            code="format-width-too-small",
        )
    return int(parameters["width"]) - 1


def block_minifloat(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return minifloats whose bias the block shares, so that the top exponent meets its largest.

    b = clip(2^E-1-floor(log2 A), 0, 2^B-1); then as minifloat_ieee with that bias.

    Source: Fox et al. 2021, A Block Minifloat Representation for Training Deep Neural Networks,
    ICLR, section 3.
    """
    width = parameters["exponent_width"]
    bits = fraction_bits("block_minifloat", parameters["width"], width)
    top, last = 2**width - 1, 2 ** parameters["exponent_bias_width"] - 1
    blocks = split(x, sizes_of(x.shape, parameters, role))
    largest = finite_largest(blocks.rows)
    bias = _shared_bias(top - floor_exponents(largest), last, largest)
    least, most = 1 - bias, top - bias

    def work(rows: Tensor, lowest: Tensor, greatest: Tensor, out: Tensor | None = None) -> Tensor:
        return floats_between(rows, bits, lowest, greatest, out)

    rows, narrow = blocks.rows, rows_fit(blocks.rows, bits, least, most)
    return blocks.join(_within(rows, least, most, 2 - 2.0**-bits, narrow, work))


def block_log(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return powers of two whose bias the block shares; zero stays zero.

    b = clip(2^(w-1)-1-ceil(log2 A), 0, 2^B-1); then as log with that bias.

    Source: Miyashita et al. 2016, arXiv 1603.01025, with the shared bias of Fox et al. 2021.
    """
    top, last = block_log_range(parameters)
    blocks = split(x, sizes_of(x.shape, parameters, role))
    largest = finite_largest(blocks.rows)
    bias = _shared_bias(top - ceil_exponents(largest), last, largest)
    rows, narrow = blocks.rows, rows_fit(blocks.rows, 0, -bias, -bias)
    return blocks.join(_within(rows, -bias, top - bias, 1.0, narrow, powers_between))


def _shared_bias(bias: Tensor, last: int, largest: Tensor) -> Tensor:
    """Return the biases clipped to the stored range; 0 for blocks of zeros."""
    return bias.clamp_(0, last).masked_fill_(largest == 0, 0)


def _within(
    rows: Tensor, least: Tensor, most: Tensor, mantissa: float, narrow: bool, work: Callable[..., Tensor]
) -> Tensor:
    """Return ``work(rows, 2^least, mantissa 2^most, out)``, in float64 where float32 has no room.

    Infinities stop at the largest number of the type, where a block reaches beyond it.
    """
    bounds = (powers(least, torch.float64), powers(most, torch.float64).mul_(mantissa))
    if narrow:
        return by_rows_into(rows, tuple(bound.to(rows.dtype) for bound in bounds), work)
    limit = torch.finfo(rows.dtype).max

    def wide(part: Tensor, low: Tensor, high: Tensor) -> Tensor:
        return work(part.double(), low, high).clamp_(-limit, limit).to(rows.dtype)

    return by_rows(rows, bounds, wide)


def block_log_range(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Return the largest stored exponent and the largest bias of block_log.

    Raises:
        WorkbenchError: there is no bit left for an exponent.
    """
    width = parameters["width"]
    if not 2 <= width <= 8:
        raise failure(
            f"'width' of block_log is {width}, but must be 2 to 8: a sign and exponent bits.",
            "Choose a width from 2 to 8.",
            where=Place(kind="option", id="width"),
            code="format-width-out-of-range",
        )
    return 2 ** (width - 1) - 1, 2 ** parameters["exponent_bias_width"] - 1
