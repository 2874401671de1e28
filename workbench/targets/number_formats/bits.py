"""Bits that an element takes in a number format, its part of shared exponents and scales included.

Scales that a whole tensor shares (binary, ternary, NVFP4's float32) count for nothing. Operands
that a format leaves in float take 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.results.programs import FLOAT_BITS
from workbench.targets.number_formats import read, spec_of
from workbench.targets.number_formats.sharing import blocks_per_element

if TYPE_CHECKING:
    from workbench.targets.number_formats import Role

_TERNARY_BITS = 2.0
_NVFP4_ELEMENT, _NVFP4_SCALE = 4.0, 8.0


def bits_of(
    scheme: str,
    params: Mapping[str, Any],
    role: Role,
    shape: Sequence[int],
    *,
    mase_compatible: bool = False,
) -> float:
    """Return the bits of one element of a tensor, on average.

    Args:
        scheme: Name of a number format.
        params: Its parameters, bare or with MASE's prefixes.
        role: What the tensor is.
        shape: Its sizes, which blocks are cut to.
        mase_compatible: Microscaling blocks run on from row to row.

    Raises:
        WorkbenchError: no such format, or parameters missing or out of range.
    """
    spec = spec_of(scheme)
    given = read(spec.name, spec.parameters, params, role)
    bits = _element(spec.name, given, role)
    shared = _SHARED.get(spec.name)
    if shared is None or 0 in shape:
        return bits
    return bits + shared(given) * blocks_per_element(given, role, shape, across=mase_compatible)


# Bits that a block shares; block_fp and the like share an exponent, microscaling a scale.
_SHARED: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "nvfp4": lambda _: _NVFP4_SCALE,
    "mxint": lambda given: float(given["scale_bits"]),
    "mxfp": lambda given: float(given["scale_bits"]),
    "mxint_hardware": lambda given: float(given["exponent_width"]),
    "block_fp": lambda given: float(given["exponent_width"]),
    "block_minifloat": lambda given: float(given["exponent_bias_width"]),
    "block_log": lambda given: float(given["exponent_bias_width"]),
}


def _residual(given: Mapping[str, Any], role: Role) -> float:
    """Return the bits of a sum of signs: data has a sign for each level, a weight has one."""
    if role == "data":
        return float(given["levels"]) if given.get("residual_sign", True) else FLOAT_BITS
    return 1.0 if role == "weight" and given.get("binary_training", True) else FLOAT_BITS


_ELEMENTS: Mapping[str, Callable[[Mapping[str, Any], Role], float]] = {
    "binary": lambda *_: 1.0,
    "binary_residual": _residual,
    "lutnet": _residual,
    "logicnets": lambda given, role: float(given["width"]) if role == "data" else FLOAT_BITS,
    "ternary": lambda *_: _TERNARY_BITS,
    "nvfp4": lambda *_: _NVFP4_ELEMENT,
    "mxfp": lambda given, _: 1.0 + given["exponent_width"] + given["frac_width"],
    "minifloat_mx": lambda given, _: 1.0 + given["exponent_width"] + given["frac_width"],
}


def _element(name: str, given: Mapping[str, Any], role: Role) -> float:
    own = _ELEMENTS.get(name)
    return float(given["width"]) if own is None else own(given, role)
