"""Ranges that every call takes anew: scales and zero points of samples, from their extremes.

Source: onnx-mlir ec744fe6, src/Conversion/ONNXToKrnl/Quantization/DynamicQuantizeLinear.cpp
("asym") and src/Conversion/ONNXToKrnl/Math/Reduction.cpp ("sym"), in float32 as there. What the
accelerator takes of scales: IBM/zDNN f261454, precheck of quantized operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.words import plural

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.floating[Any]]

_STEPS, _CODES = np.float32(255), np.float32(127)
# Reciprocals of scales that the accelerator takes.
_ABOVE, _MOST = 2.0**-31, 8573157376.0


@dataclass(frozen=True)
class CallRanges:
    """Ranges of one tensor, one for each sample that reached it.

    Attributes:
        low: Least value [S].
        high: Greatest value [S].
        scale: Step of a code [S]; NaN where there is none.
        zero_point: Code of zero [S]; NaN where there is none.
        zeros: How many samples are all zeros.
        tiny: How many have a range that the accelerator does not take.
    """

    low: Floats
    high: Floats
    scale: Floats
    zero_point: Floats
    zeros: int
    tiny: int

    @property
    def warning(self) -> str:
        """What is odd, as a sentence; "" where nothing is."""
        of = f"of {plural(self.low.size, 'sample')}"
        parts = [f"all zeros in {self.zeros} {of}"] if self.zeros else []
        parts += [f"a range NNPA does not take in {self.tiny} {of}"] if self.tiny else []
        if not parts:
            return ""
        return f"{' and '.join(parts)}: its products are undefined there, emulated as zeros"


def call_ranges(mode: str, low: ArrayLike, high: ArrayLike) -> CallRanges:
    """Return the ranges that calls take.

    Args:
        mode: "asym" or "sym".
        low: Least value of each sample [S]; NaN where it never came.
        high: Greatest value of each sample [S].
    """
    least, most = np.asarray(low, np.float32), np.asarray(high, np.float32)
    there = np.isfinite(least) & np.isfinite(most)
    least, most = least[there], most[there]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if mode == "asym":
            bottom, top = np.minimum(least, 0), np.maximum(most, 0)
            scale = (top - bottom) / _STEPS
            zero = np.rint(np.clip(np.float32(-128) - bottom / scale, -128, 127))
            reciprocal = np.float32(1) / scale
        else:
            scale = np.maximum(np.abs(least), np.abs(most)) / _CODES
            zero = np.zeros_like(scale)
            reciprocal = np.float32(1) / scale
    taken = (scale > 0) & (reciprocal > _ABOVE) & (reciprocal <= _MOST)
    all_zero = (least == 0) & (most == 0)
    return CallRanges(
        least, most, np.where(taken, scale, np.nan), np.where(taken, zero, np.nan),
        int(all_zero.sum()), int((~taken & ~all_zero).sum()),
    )  # fmt: skip
