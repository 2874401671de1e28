"""The quantized matrix product with two arithmetics.

"document" is what the equations say: exact scales, an exact sum, a float32 result. "nnpa" is a
model of the accelerator: operands, scales, the correction for the zero point, bias and result pass
through dlfloat16. The correction uses exact scales and the accelerator rounded ones, so that a
zero point far from 0 adds an error of its own.

Asymmetric weights are for comparison only. The compiler does not support them; the accelerator's
library corrects for their zero point in software, with the sums of every row of activations.

Source: onnx-mlir ec744fe6, src/Accelerators/NNPA/Conversion/ONNXToZHigh/ONNXToZHigh.cpp
(rewriteSym, preComputeBias); IBM/zDNN f261454, zdnn/aiu_quantized_matmul.c. How the hardware
rounds ties and sums inside is not documented: half to even and exact are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from workbench.errors import Place, failure

if TYPE_CHECKING:
    from torch import Tensor


LARGEST = 8573157376.0
_MAGNITUDE, _NOT_A_NUMBER = 0x7FFFFFFF, 0x7FFF
_HALF, _DROPPED, _REBIAS = 0x2000, 14, (127 - 31) << 9
_INFINITY, _SIGN, _CUT = 0x7F800000, -0x80000000, (1 << _DROPPED) - 1
_LEAST_WORD = (_REBIAS + 1) << _DROPPED
_TOO_LARGE_WORD = (_REBIAS + _NOT_A_NUMBER) << _DROPPED


def encode(x: Tensor, *, saturate: bool) -> Tensor:
    """Return the 16-bit codes of float32 values as int32, from 0 to 65535.

    Args:
        x: Float32 values [...].
        saturate: Values beyond the largest become the largest, as when data moves to the
            accelerator; else they become "not a number or infinity", as in its results.
    """
    word = _saturated(x, saturate).contiguous().view(torch.int32).to(torch.int64)
    magnitude = (((word & _MAGNITUDE) + _HALF) >> _DROPPED) - _REBIAS
    code = magnitude.clamp_(0, _NOT_A_NUMBER) | torch.where(word < 0, 0x8000, 0)
    return code.to(torch.int32)


def decode(code: Tensor) -> Tensor:
    """Return the float32 values of 16-bit codes; exact. "Not a number or infinity" gives NaN."""
    wide = code.to(torch.int64) & 0xFFFF
    magnitude = wide & _NOT_A_NUMBER
    word = torch.where(magnitude == 0, 0, (magnitude + _REBIAS) << _DROPPED)
    value = word.to(torch.int32).view(torch.float32)
    value = torch.where(wide > _NOT_A_NUMBER, -value, value)
    return value.masked_fill(magnitude == _NOT_A_NUMBER, float("nan"))


def rounded(x: Tensor, *, saturate: bool) -> Tensor:
    """Return float32 values as they are after a trip through dlfloat16; see ``encode``.

    The same as decoding what was encoded, on the float32 words themselves: the fraction is cut to
    9 bits, what is too small becomes a zero of its sign, what is too large NaN.
    """
    word = _saturated(x, saturate).contiguous().view(torch.int32)
    kept = word.bitwise_and(_MAGNITUDE).clamp_max_(_INFINITY).add_(_HALF).bitwise_and_(~_CUT)
    too_small, too_large = kept < _LEAST_WORD, kept >= _TOO_LARGE_WORD
    kept.masked_fill_(too_small, 0).bitwise_or_(word.bitwise_and(_SIGN))
    return kept.view(torch.float32).masked_fill_(too_large, float("nan"))


def _saturated(x: Tensor, saturate: bool) -> Tensor:
    return x.clamp(-LARGEST, LARGEST) if saturate else x


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
            "The range of this tensor exceeds float32.",
            f"Its values are {float(x.min()):.3g} to {float(x.max()):.3g}.",
            code="range-beyond-float32",
        )
    grid = Range(scale, zero, reciprocal)
    if grid.fits_accelerator:
        return grid
    sentence = (
        f"NNPA does not support the scale {float(scale):.3g}: its reciprocal must be "
        f"above {RECIPROCAL_ABOVE:.3g} and at most {RECIPROCAL_MOST:.3g}."
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
        raise failure(
            f"NNPA quantizes floating-point values, not {x.dtype}.",
            "Convert the array.",
            code="array-not-float",
        )
    if x.numel() == 0:
        raise failure(
            "An array without elements has no range.", "Use an array with elements.", code="array-empty"
        )
    if not bool(x.isfinite().all()):
        count = int((~x.isfinite()).sum())
        raise failure(
            f"{count} of {x.numel()} values are NaN or infinite, so there is no range.",
            "Find their source. The accelerator's result would be undefined.",
            code="array-not-finite",
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
        option = "mode" if mode not in MODES else "role"
        known = ", ".join(MODES if mode not in MODES else OPERANDS)
        wrong = mode if mode not in MODES else operand
        raise failure(
            f"Unknown {option} {wrong!r}.",
            f"Known: {known}.",
            Place(kind="option", id=option),
            code="nnpa-option-unknown",
        )
    by = range_of(x, mode)
    if operand == "weight" and mode == "asym":
        what_if = "Asymmetric weights are for comparison only: the compiler disables quantization for them."
        by = Range(by.scale, by.zero_point, by.reciprocal, (*by.warnings, what_if))
    quantized_weight = weight_codes(x, by) if operand == "weight" and mode == "sym" else codes(x, by)
    return quantized_weight.to(torch.int8), by


# As many products of codes, each at most 2^14, add up exactly in float32.
_EXACT = 1024
Numerics = Literal["document", "nnpa"]
NUMERICS: tuple[Numerics, ...] = ("document", "nnpa")


@dataclass(frozen=True)
class Weight:
    """A constant right operand, quantized once.

    Attributes:
        codes: Whole float32 numbers from -128 to 127, [K, N] or [S, K, N].
        by: Its range.
        sums: Sums of the codes over K, float64 and so exact, [N] or [S, N].
    """

    codes: Tensor
    by: Range
    sums: Tensor


@dataclass(frozen=True)
class Product:
    """A result and what it was made of.

    Attributes:
        y: Float32 [..., M, N].
        activation: Codes of the left operand, float32 [..., M, K].
        by: Range of the left operand.
        weight: The right operand.
        offset: What is added to the product of codes in the "nnpa" reading, or None.
        warnings: Sentences on odd operands.
    """

    y: Tensor
    activation: Tensor
    by: Range
    weight: Weight
    offset: Tensor | None
    warnings: tuple[str, ...]


def weight_of(b: Tensor, mode: Mode = "sym") -> Weight:
    """Return the right operand quantized, one scale for all of it.

    Raises:
        WorkbenchError: it has no range.
    """
    by = range_of(b, mode)
    quantized_weight = weight_codes(b, by) if mode == "sym" else codes(b, by)
    return Weight(quantized_weight, by, quantized_weight.sum(-2, dtype=torch.float64))


def matmul(a: Tensor, b: Tensor, bias: Tensor | None, mode: Mode, numerics: Numerics) -> Product:
    """Return the quantized product of activations and constant weights.

    Args:
        a: Activations [M, K], [S, M, K] or more dimensions.
        b: Weights [K, N], or as many dimensions as ``a`` with the same ones in front.
        bias: [N] for [K, N] weights, [S, N] for [S, K, N] ones (added to every row of its matrix);
            what else broadcasts is added to the result of three dimensions or more. None: nothing.
        mode: Range of the activations; weights are symmetric.
        numerics: The reading.

    Raises:
        WorkbenchError: shapes that are not quantized, or operands without a range.
    """
    _check_option("mode", mode, MODES)
    _check_option("numerics", numerics, NUMERICS)
    _check_shapes(a, b, bias)
    return product(a, weight_of(b), bias, mode, numerics)


def product(a: Tensor, weight: Weight, bias: Tensor | None, mode: Mode, numerics: Numerics) -> Product:
    """Return the product with weights quantized before; see ``matmul``."""
    by = range_of(a, mode)
    warnings = tuple(
        f"{side}: {sentence}"
        for side, sentences in (("A", by.warnings), ("B", weight.by.warnings))
        for sentence in sentences
    )
    # A bias of this shape is a part of the operation; any other is an addition of its own.
    fused = bias is not None and bias.dim() == weight.codes.dim() - 1 and a.dim() <= 3
    inner, outer = (bias, None) if fused else (None, bias)
    if numerics == "document":
        activation = codes(a, by)
        y = _document(activation, by, weight, inner)
        y = y if outer is None else y + outer.float()
        return Product(y, activation, by, weight, None, warnings)
    _check_reciprocals(by, weight.by)
    activation = _accelerator_codes(a, by)
    if bool(weight.by.zero_point):
        offset = _unfolded_offset(by, weight, inner)
        y = _corrected(_accelerator(activation, by, weight, offset), activation, by, weight)
    else:
        offset = _offset(by, weight, inner, mode)
        y = _accelerator(activation, by, weight, offset)
    if outer is not None:
        y = rounded(y + rounded(outer.float(), saturate=True), saturate=False)
    return Product(y, activation, by, weight, offset, warnings)


def _document(activation: Tensor, by: Range, weight: Weight, bias: Tensor | None) -> Tensor:
    first, second = by.zero_point.double(), weight.by.zero_point.double()
    total = _sums(activation, weight.codes) - first * _rowwise(weight.sums)
    if bool(second):
        rows = activation.double().sum(-1, keepdim=True) - first * activation.shape[-1]
        total -= second * rows
    product = total * (by.scale.double() * weight.by.scale.double())
    if bias is not None:
        product += _rowwise(bias.double())
    return product.float()


def _sums(activation: Tensor, weights: Tensor) -> Tensor:
    """Return the exact sums of products of codes, float64 [..., M, N].

    Products of codes are whole and at most 2^14, so that float32 sums of as many as here are exact
    in any order.
    """
    parts = zip(activation.split(_EXACT, -1), weights.split(_EXACT, -2), strict=True)
    total = torch.zeros((), dtype=torch.float64)
    for left, right in parts:
        total = total + (left @ right).double()
    return total


def _rowwise(values: Tensor) -> Tensor:
    """Return [N] or [S, N] as it is added to [M, N] or [S, M, N]."""
    return values.unsqueeze(-2) if values.dim() > 1 else values


def _accelerator_codes(a: Tensor, by: Range) -> Tensor:
    held = rounded(a.float(), saturate=True).double()
    reciprocal = rounded(by.reciprocal, saturate=False).double()
    return (held * reciprocal + by.zero_point).round_().clamp_(-128, 127).float()


def _offset(by: Range, weight: Weight, bias: Tensor | None, mode: Mode) -> Tensor:
    """Return the correction for the zero point with the bias, in dlfloat16, [N] or [S, N]."""
    held = None if bias is None else rounded(bias.float(), saturate=True)
    if mode == "sym":
        return torch.zeros_like(weight.sums.float()) if held is None else held
    factor = 0 - 1 / by.reciprocal / weight.by.reciprocal * by.zero_point
    correction = rounded(factor * weight.sums.float(), saturate=True)
    return correction if held is None else rounded(correction + held, saturate=False)


def _unfolded_offset(by: Range, weight: Weight, bias: Tensor | None) -> Tensor:
    """Return what is added on the accelerator where both zero points may be other than 0.

    Source: IBM/zDNN, zdnn/aiu_quantized_matmul.c, ``compute_bias``: C + M K Za Zb, with M of the
    exact scales.
    """
    factor = 1 / by.reciprocal / weight.by.reciprocal
    inner = weight.codes.shape[-2]
    offset_product = (factor * inner * by.zero_point * weight.by.zero_point).expand_as(weight.sums)
    return rounded(offset_product if bias is None else offset_product + bias.float(), saturate=True)


def _corrected(y: Tensor, activation: Tensor, by: Range, weight: Weight) -> Tensor:
    """Return the result less M (Za sum_k qb + Zb sum_k qa), as software takes it out after."""
    factor = 1 / by.reciprocal / weight.by.reciprocal
    rows = activation.sum(-1, keepdim=True) * weight.by.zero_point
    return rounded(y - factor * (_rowwise(weight.sums.float()) * by.zero_point + rows), saturate=False)


def _accelerator(activation: Tensor, by: Range, weight: Weight, offset: Tensor) -> Tensor:
    first = rounded(by.reciprocal, saturate=False).double()
    second = rounded(weight.by.reciprocal, saturate=False).double()
    total = _sums(activation, weight.codes)
    product = total / (first * second) + _rowwise(offset.double())
    return rounded(product.float(), saturate=False)


def _check_option(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise failure(
            f"Unknown {name} {value!r}.",
            f"Known: {', '.join(known)}.",
            Place(kind="option", id=name),
            code="nnpa-option-unknown",
        )


def _check_reciprocals(*ranges: Range) -> None:
    for by in ranges:
        if not by.fits_accelerator:
            raise failure(
                f"NNPA does not support a scale of {float(by.scale):.3g}; the result is undefined.",
                by.warnings[0] if by.warnings else "",
                code="nnpa-scale-not-supported",
            )


def _check_shapes(a: Tensor, b: Tensor, bias: Tensor | None) -> None:
    """Refuse what is not quantized, or is no matrix product at all."""
    left, right = tuple(a.shape), tuple(b.shape)
    if len(left) < 2 or len(right) < 2:
        raise failure(
            f"Shapes {left} and {right}: NNPA quantizes products of at least two dimensions.",
            code="nnpa-shape-not-supported",
        )
    if left[-1] != right[-2]:
        raise failure(
            f"Shapes {left} and {right} do not match: {left[-1]} is not {right[-2]}.",
            code="nnpa-shapes-mismatch",
        )
    if len(right) > 2 and left[:-2] != right[:-2]:
        raise failure(
            f"Shapes {left} and {right}: if the right side has more than two dimensions, "
            "the leading dimensions must be equal.",
            "Other broadcasts are not quantized.",
            code="nnpa-broadcast-not-supported",
        )
    if bias is not None:
        _check_bias(left, right, tuple(bias.shape))


def _check_bias(left: tuple[int, ...], right: tuple[int, ...], bias: tuple[int, ...]) -> None:
    fused = (*right[:-2], right[-1])
    if bias == fused and len(left) <= 3:
        return
    result = (*left[:-1], right[-1])
    if len(result) == 2:
        raise failure(
            f"A bias of shape {bias} prevents quantization of a product of shape {result}.",
            f"Use the shape {fused}.",
            Place(kind="option", id="bias"),
            code="nnpa-bias-not-fused",
        )
    try:
        broadcast = torch.broadcast_shapes(result, bias)
    except RuntimeError:
        broadcast = None
    if broadcast != torch.Size(result):
        raise failure(
            f"A bias of shape {bias} does not match a result of shape {result}.",
            f"Use the shape {fused}.",
            Place(kind="option", id="bias"),
            code="nnpa-bias-mismatch",
        )
