"""Scales, zero points and int8 codes of a tensor, all in float32.

One scale for the whole tensor, batch included. Activations are quantized at each call, weights
once, by multiplication with the reciprocal of their scale.

Source: onnx-mlir ec744fe6, src/Conversion/ONNXToKrnl/Quantization/DynamicQuantizeLinear.cpp
(asymmetric), src/Conversion/ONNXToKrnl/Math/Reduction.cpp (symmetric),
src/Accelerators/NNPA/Conversion/ONNXToZHigh/ONNXToZHigh.cpp (weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from workbench.errors import Place, failure

if TYPE_CHECKING:
    from torch import Tensor

Mode = Literal["asym", "sym"]
Operand = Literal["activation", "weight"]
MODES: tuple[Mode, ...] = ("asym", "sym")
OPERANDS: tuple[Operand, ...] = ("activation", "weight")

# Reciprocals of scales that the accelerator takes; IBM/zDNN f261454, precheck of quantized ops.
RECIPROCAL_ABOVE, RECIPROCAL_MOST = 2.0**-31, 8573157376.0


@dataclass(frozen=True)
class Range:
    """How a tensor's values become codes.

    Attributes:
        scale: Step of a code, float32 [].
        zero_point: Code of zero as float32 [], whole, from -128 to 127.
        reciprocal: What the compiler stores: 1/scale, or 127/max|x|; float32 [].
        warnings: Sentences on what is odd about the tensor.
    """

    scale: Tensor
    zero_point: Tensor
    reciprocal: Tensor
    warnings: tuple[str, ...] = ()

    @property
    def fits_accelerator(self) -> bool:
        """Whether the accelerator takes the reciprocal."""
        return RECIPROCAL_ABOVE < float(self.reciprocal) <= RECIPROCAL_MOST


def range_of(x: Tensor, mode: Mode) -> Range:
    """Return scale and zero point of a tensor.

    A tensor without a range (all zeros, or so small that its scale is 0) gets scale 1 and zero
    point 0 with a warning: the accelerator rejects it and leaves its result undefined.

    Raises:
        WorkbenchError: there are no elements, NaN or infinities among them, or the range does not
            fit float32.
    """
    _check(x)
    x = x.float()
    scale, zero, reciprocal = _asymmetric(x) if mode == "asym" else _symmetric(x)
    if float(scale) == 0 or not bool(reciprocal.isfinite()):
        one = torch.tensor(1.0)
        return Range(one, torch.tensor(0.0), one, (_without_range(x),))
    if not bool(scale.isfinite()) or float(reciprocal) == 0:
        raise failure(
            "The range of this tensor does not fit float32.",
            f"Its values reach from {float(x.min()):.3g} to {float(x.max()):.3g}.",
        )
    made = Range(scale, zero, reciprocal)
    if made.fits_accelerator:
        return made
    sentence = (
        f"The scale {float(scale):.3g} is outside of what NNPA takes: its reciprocal must be above"
        f" {RECIPROCAL_ABOVE:.3g} and at most {RECIPROCAL_MOST:.3g}."
    )
    return Range(scale, zero, reciprocal, (sentence,))


def _asymmetric(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    zero = torch.tensor(0.0)
    most, least = torch.maximum(x.max(), zero), torch.minimum(x.min(), zero)
    scale = (most - least) / 255
    # The zero point is clipped before it is rounded, and uses the minimum drawn to zero.
    point = (-128 - least / scale).clamp(-128, 127).round()
    return scale, point, 1 / scale


def _symmetric(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    largest = x.abs().max()
    # A Python number over a tensor would be a product with the rounded reciprocal.
    return largest / 127, torch.tensor(0.0), torch.tensor(127.0) / largest


def _without_range(x: Tensor) -> str:
    what = "All values are zero" if float(x.abs().max()) == 0 else "The values are too small"
    return (
        f"{what}: there is no range to quantize. Emulated with scale 1 and zero point 0; NNPA"
        " rejects such a scale and leaves the result undefined."
    )


def _check(x: Tensor) -> None:
    if not x.is_floating_point():
        raise failure(f"NNPA quantizes floating values, not {x.dtype}.", "Convert the array.")
    if x.numel() == 0:
        raise failure("An array without elements has no range.", "Give it elements.")
    if not bool(x.isfinite().all()):
        count = int((~x.isfinite()).sum())
        raise failure(
            f"{count} of {x.numel()} values are NaN or infinite: there is no range to quantize.",
            "Look where they come from; the accelerator's result would be undefined.",
        )


def codes(x: Tensor, by: Range) -> Tensor:
    """Return activations as codes: ``clip(round(x/scale + zp), -128, 127)`` as float32.

    Rounds half to even after the zero point is added. ONNX QuantizeLinear rounds before; they
    differ on exact halves when the zero point is odd.
    """
    return (x.float() / by.scale + by.zero_point).round_().clamp_(-128, 127)


def codes_onnx_order(x: Tensor, by: Range) -> Tensor:
    """Return activations as codes in ONNX's order: rounded first, then the zero point added."""
    return ((x.float() / by.scale).round_() + by.zero_point).clamp_(-128, 127)


def weight_codes(w: Tensor, by: Range) -> Tensor:
    """Return weights as codes: ``clip(round(w * reciprocal), -127, 127)`` as float32."""
    return (w.float() * by.reciprocal).round_().clamp_(-127, 127)


def quantized(x: Tensor, mode: Mode, operand: Operand) -> tuple[Tensor, Range]:
    """Return int8 codes of a tensor, and its range.

    Raises:
        WorkbenchError: no such mode or operand, or there is no range to be had.
    """
    if mode not in MODES or operand not in OPERANDS:
        place = "mode" if mode not in MODES else "role"
        known = ", ".join(MODES if mode not in MODES else OPERANDS)
        wrong = mode if mode not in MODES else operand
        raise failure(
            f"There is no {place} {wrong!r}.", f"Known: {known}.", Place(kind="option", id=place)
        )
    by = range_of(x, mode)
    if operand == "weight" and mode == "asym":
        what_if = "Asymmetric weights are a what-if: the compiler turns quantization off for them."
        by = Range(by.scale, by.zero_point, by.reciprocal, (*by.warnings, what_if))
    made = weight_codes(x, by) if operand == "weight" and mode == "sym" else codes(x, by)
    return made.to(torch.int8), by
