"""Minifloats and powers of two in their textbook forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.engine.formats.grids import check_exponents, round_to_floats, round_to_powers, top
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.targets.formats.parameters import Role


def fraction_bits(scheme: str, width: int, exponent_width: int) -> int:
    """Return the number of fraction bits: the width without sign and exponent.

    Raises:
        WorkbenchError: the width is too small.
    """
    left = width - exponent_width - 1
    if left < 0:
        raise failure(
            f"{scheme} with {width} bits has no room for a sign and {exponent_width} exponent bits.",
            f"Use at most {width - 1} exponent bits, or a width of {exponent_width + 1}.",
            Place(kind="option", id="exponent_width"),
            code="format-width-too-small",
        )
    return left


def default_bias(exponent_width: int, parameters: int | None) -> int:
    """Return the given bias, or the default 2^(E-1)-1."""
    return 2 ** (exponent_width - 1) - 1 if parameters is None else parameters


def minifloat_ieee(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return the nearest minifloats, ties to even.

    Sign, E exponent bits with bias b, M = w-E-1 fraction bits and subnormals, as IEEE 754 lays
    them out, except that the top exponent holds numbers too: the largest is
    (2-2^-M) 2^(2^E-1-b). Larger values and infinities saturate, NaN stays.

    Source: IEEE 754-2019, 3.3 and 4.3.1; OCP Microscaling Formats v1.0 for formats without
    infinities.
    """
    del role
    width = parameters["exponent_width"]
    bits = fraction_bits("minifloat_ieee", parameters["width"], width)
    bias = default_bias(width, parameters["exponent_bias"])
    most = 2**width - 1 - bias
    check_exponents("minifloat_ieee", None, most, x.dtype)
    return round_to_floats(x, bits, 1 - bias, top(most, bits, x.dtype))


def minifloat_denorm(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return the nearest values 2^e k/2^M, k from 0 to 2^M-1, ties to even.

    There is no hidden bit. e runs from -b to 2^E-1-b and is the smallest that k fits; the largest
    value is 2^(2^E-1-b) (1-2^-M). Larger values and infinities saturate, NaN stays.
    """
    del role
    width = parameters["exponent_width"]
    bits = fraction_bits("minifloat_denorm", parameters["width"], width)
    if bits == 0:
        raise failure(
            "minifloat_denorm without fraction bits represents only zero.",
            f"Use a width of at least {width + 2}.",
            Place(kind="option", id="width"),
            code="format-width-too-small",
        )
    bias = default_bias(width, parameters["exponent_bias"])
    most = 2**width - 1 - bias
    check_exponents("minifloat_denorm", None, most - 1, x.dtype)
    return round_to_floats(x, bits - 1, -bias - 1, top(most - 1, bits - 1, x.dtype))


def log(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return signed powers of two, nearest in the logarithm; zero stays zero.

    L = w-1 exponent bits with bias b (none: 2^(L-1)-1) reach from 2^-b to 2^(2^L-1-b). Values
    outside and infinities saturate, NaN stays. Zero has a code of its own.

    Source: Miyashita et al. 2016, arXiv 1603.01025, section 3.2 (LogQuant).
    """
    del role
    least, most = log_range(parameters)
    check_exponents("log", None, most, x.dtype)
    return round_to_powers(x, least, most)


def log_range(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Return the smallest and the largest exponent of ``log``.

    Raises:
        WorkbenchError: there is no bit left for an exponent.
    """
    width = parameters["width"]
    if not 2 <= width <= 12:
        raise failure(
            f"'width' of log is {width}, but must be 2 to 12: a sign and exponent bits.",
            "Choose a width from 2 to 12.",
            where=Place(kind="option", id="width"),
            code="format-width-out-of-range",
        )
    bias = default_bias(width - 1, parameters["exponent_bias"])
    return -bias, 2 ** (width - 1) - 1 - bias


def check_element(parameters: Mapping[str, Any]) -> None:
    """Raise for an element whose only exponent bit is reserved for infinity and NaN."""
    if parameters["exponent_width"] == 1 and not parameters["is_finite"]:
        raise failure(
            "With one exponent bit all codes are zero, infinity or NaN.",
            "Use more exponent bits, or set is_finite.",
            Place(kind="option", id="exponent_width"),
            code="format-exponent-too-small",
        )


def minifloat_element(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return the nearest elements with E exponent and F fraction bits, as inside a block.

    With ``is_finite`` off the top exponent is left to infinity and NaN; values still saturate.

    Raises:
        WorkbenchError: another rounding than to nearest is asked for, or no exponent is left.
    """
    del role
    check_element(parameters)
    if parameters["round_mode"] != "rn":
        raise failure(
            "Rounding modes other than nearest need the mase-compatible form.",
            where=Place(kind="option", id="round_mode"),
            code="round-mode-not-supported",
        )
    bits, bias = parameters["frac_width"], 2 ** (parameters["exponent_width"] - 1) - 1
    most = 2 ** parameters["exponent_width"] - 1 - bias - (0 if parameters["is_finite"] else 1)
    check_exponents("minifloat_mx", None, most, x.dtype)
    return round_to_floats(x, bits, 1 - bias, top(most, bits, x.dtype))
