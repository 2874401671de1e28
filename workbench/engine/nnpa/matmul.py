"""The quantized matrix product in two readings.

"document" is what the equations say: exact scales, an exact sum, a float32 result. "nnpa" is a
model of the accelerator: operands, scales, the correction for the zero point, bias and result pass
through dlfloat16. The correction uses exact scales and the accelerator rounded ones, so that a
zero point far from 0 adds an error of its own.

Asymmetric weights are a what-if, which the compiler does not make: the accelerator's own library
corrects for their zero point in software, with the sums of every row of activations.

Source: onnx-mlir ec744fe6, src/Accelerators/NNPA/Conversion/ONNXToZHigh/ONNXToZHigh.cpp
(rewriteSym, preComputeBias); IBM/zDNN f261454, zdnn/aiu_quantized_matmul.c. How the hardware
rounds ties and sums inside is not documented: half to even and exact are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from workbench.engine.nnpa.dlfloat16 import rounded
from workbench.engine.nnpa.quantizing import MODES, Mode, Range, codes, range_of, weight_codes
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from torch import Tensor

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
    made = weight_codes(b, by) if mode == "sym" else codes(b, by)
    return Weight(made, by, made.sum(-2, dtype=torch.float64))


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


def product(
    a: Tensor, weight: Weight, bias: Tensor | None, mode: Mode, numerics: Numerics
) -> Product:
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
    made = total * (by.scale.double() * weight.by.scale.double())
    if bias is not None:
        made += _rowwise(bias.double())
    return made.float()


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
    made = (factor * inner * by.zero_point * weight.by.zero_point).expand_as(weight.sums)
    return rounded(made if bias is None else made + bias.float(), saturate=True)


def _corrected(y: Tensor, activation: Tensor, by: Range, weight: Weight) -> Tensor:
    """Return the result less M (Za sum_k qb + Zb sum_k qa), as software takes it out after."""
    factor = 1 / by.reciprocal / weight.by.reciprocal
    rows = activation.sum(-1, keepdim=True) * weight.by.zero_point
    return rounded(
        y - factor * (_rowwise(weight.sums.float()) * by.zero_point + rows), saturate=False
    )


def _accelerator(activation: Tensor, by: Range, weight: Weight, offset: Tensor) -> Tensor:
    first = rounded(by.reciprocal, saturate=False).double()
    second = rounded(weight.by.reciprocal, saturate=False).double()
    total = _sums(activation, weight.codes)
    made = total / (first * second) + _rowwise(offset.double())
    return rounded(made.float(), saturate=False)


def _check_option(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise failure(
            f"There is no {name} {value!r}.",
            f"Known: {', '.join(known)}.",
            Place(kind="option", id=name),
        )


def _check_reciprocals(*ranges: Range) -> None:
    for by in ranges:
        if not by.fits_accelerator:
            raise failure(
                f"NNPA does not take a scale of {float(by.scale):.3g}; its result is undefined.",
                by.warnings[0] if by.warnings else "",
            )


def _check_shapes(a: Tensor, b: Tensor, bias: Tensor | None) -> None:
    """Refuse what is not quantized, or is no matrix product at all."""
    left, right = tuple(a.shape), tuple(b.shape)
    if len(left) < 2 or len(right) < 2:
        raise failure(
            f"Shapes {left} and {right}: NNPA quantizes products of two dimensions or more."
        )
    if left[-1] != right[-2]:
        raise failure(f"Shapes {left} and {right} do not fit: {left[-1]} is not {right[-2]}.")
    if len(right) > 2 and left[:-2] != right[:-2]:
        raise failure(
            f"Shapes {left} and {right}: with more than two dimensions on the right the ones in"
            " front must be the same on both sides.",
            "Other broadcasts are not quantized.",
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
            f"A bias of shape {bias} stops quantization of a product of shape {result}.",
            f"Give it the shape {fused}.",
            Place(kind="option", id="bias"),
        )
    try:
        broadcast = torch.broadcast_shapes(result, bias)
    except RuntimeError:
        broadcast = None
    if broadcast != torch.Size(result):
        raise failure(
            f"A bias of shape {bias} does not fit a result of shape {result}.",
            f"Give it the shape {fused}.",
            Place(kind="option", id="bias"),
        )
