"""What parameters of a number format cannot be together, each being right by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Given = Mapping[str, Any]

# OCP Microscaling Formats v1.0, tables 2 to 5, and the like with 4 bits.
ELEMENTS = ((4, 3), (5, 2), (2, 3), (3, 2), (2, 1), (1, 2))
_LARGEST_EXPONENT = 128
_LEAST_EXPONENT = -149


def impossible(scheme: str, given: Given) -> str:
    """Return why there is no such format, as a sentence; "" where there is one.

    Args:
        scheme: Name of a number format.
        given: All its parameters, checked one by one.
    """
    check = _CHECKS.get(scheme)
    if check is not None and (said := check(given)):
        return f"{scheme} {said}"
    if 0 in _sizes(given):
        return f"{scheme} cannot share blocks of no elements."
    return ""


def _sizes(given: Given) -> tuple[int, ...]:
    said = given.get("block_size")
    return tuple(said) if isinstance(said, tuple | list) else ()


def _fraction(least: int) -> Callable[[Given], str]:
    def check(given: Given) -> str:
        width, exponent = given["width"], given["exponent_width"]
        if width - exponent - 1 < least:
            need = exponent + 1 + least
            return f"with {exponent} exponent bits needs a width of at least {need}, not {width}."
        return _range(given)

    return check


def _range(given: Given) -> str:
    """Return whether float32 holds the largest exponent of a minifloat."""
    if "exponent_bias" not in given:
        return ""
    exponent, bias = given["exponent_width"], given["exponent_bias"]
    most = 2**exponent - 1 - (2 ** (exponent - 1) - 1 if bias is None else bias)
    if not _LEAST_EXPONENT <= most <= _LARGEST_EXPONENT:
        return f"reaches 2^{most}, which float32 does not hold."
    return ""


def _width(least: int, most: int) -> Callable[[Given], str]:
    def check(given: Given) -> str:
        width = given["width"]
        return "" if least <= width <= most else f"takes a width from {least} to {most}."

    return check


def _element(given: Given) -> str:
    pair = given["exponent_width"], given["frac_width"]
    known = ", ".join(f"E{e}M{f}" for e, f in ELEMENTS)
    return "" if pair in ELEMENTS else f"has no element E{pair[0]}M{pair[1]}; known: {known}."


def _tile(given: Given) -> str:
    if len(given["parallelism"]) != 2:
        return "takes two numbers as parallelism, [rows, columns]."
    return _width(2, 32)(given)


_CHECKS: Mapping[str, Callable[[Given], str]] = {
    "minifloat_ieee": _fraction(0),
    "minifloat_denorm": _fraction(1),
    "block_minifloat": _fraction(0),
    "log": _width(2, 12),
    "block_log": _width(2, 8),
    "block_fp": lambda given: _width(2, 32)(given) or _range(given),
    "mxfp": _element,
    "mxint_hardware": _tile,
}
