"""Microscaling: MXINT, MXFP, NVFP4-style, and integers with a shared exponent on tiles.

Blocks run along one dimension and never from row to row; the last of a row may be shorter. The
scale comes from the largest finite value of a block. Infinities saturate, NaN stays at its place.

Source: OCP Microscaling Formats (MX) Specification v1.0, sections 5 and 6.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats.block_formats import shared_integers
from workbench.engine.formats.blocks import by_rows, finite_largest, lanes, split
from workbench.engine.formats.grids import exponent_limits, floor_exponents, powers, round_to_floats
from workbench.errors import Place, failure
from workbench.targets.formats.parameters import ELEMENTS
from workbench.targets.formats.schemes import shared_dimension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.engine.formats.blocks import Blocks, Lanes
    from workbench.targets.formats.parameters import Role

# Largest value and exponent of its binade; OCP MX v1.0, tables 2 to 5.
_OCP = {(4, 3): 448.0, (5, 2): 57344.0}
_E2M1_LARGEST, _E4M3_LARGEST = 6.0, 448.0


def dimension(x: Tensor, parameters: Mapping[str, Any], role: Role) -> int:
    """Return the dimension blocks run along, counted from the front.

    Raises:
        WorkbenchError: the array has no such dimension, or no elements.
    """
    wanted = shared_dimension(x.dim(), parameters, role)
    if x.numel() == 0 or not -x.dim() <= wanted < x.dim():
        raise failure(
            f"An array of shape {tuple(x.shape)} has no blocks along dimension {wanted}.",
            where=Place(kind="option", id="block_dim"),
            code="block-dim-invalid",
        )
    return wanted % x.dim()


def _along(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Blocks | Lanes:
    axis = dimension(x, parameters, role)
    size = min(parameters["block_size"], x.shape[axis])
    if axis == x.dim() - 1:
        return split(x, (*[1] * (x.dim() - 1), size))
    return lanes(x, axis, size)


def _scale_exponents(exponents: Tensor, bits: int) -> Tensor:
    """Return exponents clipped to those of an unsigned scale; E8M0 holds -127 to 127."""
    bias = 2 ** (bits - 1) - 1
    return exponents.clamp_(-bias, bias)


def refuse_search(parameters: Mapping[str, Any]) -> None:
    """Refuse the percentile search, which only MASE has."""
    if parameters["quantile_search"]:
        raise failure(
            "'quantile_search' needs the mase-compatible form.",
            where=Place(kind="option", id="quantile_search"),
            code="quantile-search-not-supported",
        )


def mxint(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return n-bit integers with one integer bit under a power of two that the block shares.

    The scale is 2^floor(log2 A); an element is k 2^(2-n), k in two's complement, nearest with
    ties to even. MXINT8 is n = 8 in blocks of 32.

    Source: OCP MX v1.0, 5.3.2 (INT8) and 6.3 (conversion).
    """
    refuse_search(parameters)
    bits = parameters["width"]
    blocks = _along(x, parameters, role)
    exponent = _scale_exponents(floor_exponents(finite_largest(blocks.rows)), parameters["scale_bits"])
    steps = powers(exponent + 2 - bits, x.dtype)
    rows = shared_integers(blocks.rows, steps, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return blocks.join(rows).contiguous()


def element(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Return exponent and fraction bits of an element of MXFP.

    Raises:
        WorkbenchError: there is no such element.
    """
    pair = (parameters["exponent_width"], parameters["frac_width"])
    if pair not in ELEMENTS:
        known = ", ".join(f"E{e}M{f}" for e, f in ELEMENTS)
        raise failure(
            f"mxfp has no element format E{pair[0]}M{pair[1]}.",
            f"Known: {known}.",
            Place(kind="option", id="exponent_width"),
            code="mx-element-unknown",
        )
    return pair


def element_largest(exponent_bits: int, fraction_bits: int) -> tuple[float, int]:
    """Return the largest value of an element and the exponent of its binade.

    E5M2 keeps its top exponent for infinity and NaN and E4M3 its top code for NaN; the others
    hold numbers only.
    """
    bias = 2 ** (exponent_bits - 1) - 1
    most = 2**exponent_bits - 1 - bias - ((exponent_bits, fraction_bits) == (5, 2))
    largest = (2 - 2.0**-fraction_bits) * 2.0**most
    return _OCP.get((exponent_bits, fraction_bits), largest), most


def mxfp(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return small floats under a power of two that the block shares.

    The scale is 2^(floor(log2 A)-emax); elements are nearest, ties to even, with subnormals, and
    saturate at 448 (E4M3), 57344 (E5M2), 28 (E3M2), 7.5 (E2M3), 6 (E2M1) or 3.5 (E1M2) scales.

    Source: OCP MX v1.0, 5.3.1 (formats) and 6.3 (conversion).
    """
    refuse_search(parameters)
    exponent_bits, bits = element(parameters)
    largest, most = element_largest(exponent_bits, bits)
    least = 2 - 2 ** (exponent_bits - 1)
    blocks = _along(x, parameters, role)
    exponent = floor_exponents(finite_largest(blocks.rows)) - most
    scale = powers(_scale_exponents(exponent, parameters["scale_bits"]), x.dtype)

    def work(rows: Tensor, scales: Tensor) -> Tensor:
        return round_to_floats(rows / scales, bits, least, largest).mul_(scales)

    return blocks.join(by_rows(blocks.rows, (scale,), work)).contiguous()


def nvfp4(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return E2M1 elements under E4M3 scales of blocks and one scale of the array.

    The array's scale is amax/(6*448), a block's scale the E4M3 nearest to A/6 over the array's
    scale; the product of both divides the elements. Everything is done in the type of ``x``.
    Blocks far below the array's largest value have a scale of 0 and become 0, and so does an
    array of zeros.

    Source: NVIDIA, Introducing NVFP4 for efficient and accurate low-precision inference (2025):
    16 elements, E4M3 block scales, a second-level float32 scale.
    """
    blocks = _along(x, parameters, role)
    largest = finite_largest(blocks.rows, lone=float("inf"))
    known = torch.where(largest.isinf(), 0, largest).amax()
    # Blocks of infinities saturate at what the rest of the array reaches.
    known = torch.where((known == 0) & largest.isinf().any(), torch.finfo(x.dtype).max, known)
    largest = largest.minimum(known)
    whole = known / (_E2M1_LARGEST * _E4M3_LARGEST)
    whole = torch.where(whole > 0, whole, torch.ones_like(whole))
    scale = round_to_floats(largest / _E2M1_LARGEST / whole, 3, -6, _E4M3_LARGEST).mul_(whole)

    def work(rows: Tensor, scales: Tensor) -> Tensor:
        divisor = torch.where(scales > 0, scales, torch.ones_like(scales))
        return round_to_floats(rows / divisor, 1, 0, _E2M1_LARGEST).mul_(scales)

    return blocks.join(by_rows(blocks.rows, (scale,), work)).contiguous()


def mxint_hardware(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return w-bit integers on tiles of the last two dimensions that share an exponent.

    The exponent is floor(log2 A), clipped to E bits of two's complement; the step is 2^(e+2-w),
    codes are in two's complement, nearest with ties to even, as in MXINT. Tiles at the border may
    be smaller. One dimension counts as one row.

    Source: OCP MX v1.0, 5.3.2, on tiles.
    """
    del role
    half = 2 ** (parameters["exponent_width"] - 1)
    bits = parameters["width"]
    if bits < 2:
        raise failure(
            "mxint_hardware with 1 bit has no bit for a magnitude.",
            "Use a width of at least 2.",
            Place(kind="option", id="width"),
            code="format-width-too-small",
        )
    blocks, shape = tiles(x, parameters)
    exponent = floor_exponents(finite_largest(blocks.rows)).clamp_(-half, half - 1)
    finest, most = exponent_limits(x.dtype)
    steps = powers((exponent.clamp_(max=most) + 2 - bits).clamp_(min=finest), x.dtype)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return blocks.join(shared_integers(blocks.rows, steps, low, high)).reshape(shape)


def tiles(x: Tensor, parameters: Mapping[str, Any]) -> tuple[Blocks, torch.Size]:
    """Return ``x`` in tiles of ``parallelism`` on its last two dimensions, and its shape.

    Raises:
        WorkbenchError: ``parallelism`` is not two numbers, or there are no elements.
    """
    parallelism = parameters["parallelism"]
    if len(parallelism) != 2:
        raise failure(
            f"'parallelism' has {len(parallelism)} entries; it needs two, [rows, columns].",
            where=Place(kind="option", id="parallelism"),
            code="parallelism-invalid",
        )
    if x.numel() == 0 or x.dim() == 0:
        raise failure(
            f"An array of shape {tuple(x.shape)} has no tiles.",
            "Use an array with elements.",
            code="array-empty",
        )
    wide = x.reshape(1, -1) if x.dim() == 1 else x
    sizes = [min(size, n) for size, n in zip(parallelism, wide.shape[-2:], strict=True)]
    return split(wide, (*[1] * (wide.dim() - 2), *sizes)), x.shape
