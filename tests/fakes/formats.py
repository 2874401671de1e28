"""Usual parameters of every number format."""

from __future__ import annotations

from typing import Any


def parameters(block: list[int]) -> dict[str, dict[str, Any]]:
    """Return the parameters of each scheme; ``block`` is the shape of what shares an exponent."""
    return {
        "integer": {"width": 8, "frac_width": 4},
        "fixed": {"width": 8, "frac_width": 4},
        "integer_floor": {"width": 8, "frac_width": 4},
        "logicnets": {"width": 8, "frac_width": 4},
        "minifloat_ieee": {"width": 8, "exponent_width": 4, "exponent_bias": 7},
        "minifloat_denorm": {"width": 8, "exponent_width": 4, "exponent_bias": 7},
        "log": {"width": 6, "exponent_bias": None},
        "binary": {},
        "binary_residual": {"levels": 2},
        "lutnet": {},
        "ternary": {},
        "block_fp": {"width": 7, "exponent_width": 8, "exponent_bias": 127, "block_size": block},
        "block_minifloat": {"width": 8, "exponent_width": 4, "exponent_bias_width": 8, "block_size": block},
        "block_log": {"width": 6, "exponent_bias_width": 8, "block_size": block},
        "mxint_hardware": {"width": 8, "exponent_width": 3, "parallelism": block},
        "mxint": {"width": 8},
        "mxfp": {"exponent_width": 4, "frac_width": 3},
        "nvfp4": {},
    }
