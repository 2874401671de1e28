"""Bits that an element takes in a number format, its part of shared exponents and scales included.

Scales that a whole tensor shares (binary, ternary, NVFP4's float32) count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.targets.number_formats import read, spec_of

if TYPE_CHECKING:
    from workbench.targets.number_formats import Role

_TERNARY_BITS = 2.0
_NVFP4_ELEMENT, _NVFP4_SCALE = 4.0, 8.0


def bits_of(scheme: str, params: Mapping[str, Any], role: Role, shape: Sequence[int]) -> float:
    """Return the bits of one element of a tensor, whole blocks assumed.

    Args:
        scheme: Name of a number format.
        params: Its parameters, bare or with MASE's prefixes.
        role: What the tensor is.
        shape: Its sizes, which blocks are cut to.

    Raises:
        WorkbenchError: no such format, or parameters missing or out of range.
    """
    spec = spec_of(scheme)
    given = read(spec.name, spec.parameters, params, role)
    shared = _SHARED.get(spec.name)
    bits = _element(spec.name, given)
    return bits if shared is None else bits + shared(given) / _elements(spec.name, given, shape)


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
_ELEMENTS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "binary": lambda _: 1.0,
    "binary_residual": lambda given: float(given["levels"]),
    "lutnet": lambda given: float(given["levels"]),
    "ternary": lambda _: _TERNARY_BITS,
    "nvfp4": lambda _: _NVFP4_ELEMENT,
    "mxfp": lambda given: 1.0 + given["exponent_width"] + given["frac_width"],
}


def _element(name: str, given: Mapping[str, Any]) -> float:
    own = _ELEMENTS.get(name)
    return float(given["width"]) if own is None else own(given)


def _elements(name: str, given: Mapping[str, Any], shape: Sequence[int]) -> int:
    """Return how many elements share."""
    if name == "mxint_hardware":
        return math.prod(given["parallelism"])
    if isinstance(given["block_size"], int):
        return int(given["block_size"])
    return _block(given, shape)


def _block(given: Mapping[str, Any], shape: Sequence[int]) -> int:
    """Return the elements of a block: sizes from the right, what is not said is all of it."""
    sizes = list(shape)[-2:] or [1]
    said = list(given["block_size"])[-len(sizes) :]
    said = [-1] * (len(sizes) - len(said)) + said
    cut = (size if block < 0 else min(block, size) for block, size in zip(said, sizes, strict=True))
    return max(1, math.prod(cut))
