"""Which matrix products the compiler quantizes to int8, and why not the others.

Source: onnx-mlir ec744fe6, src/Accelerators/NNPA/Conversion/ONNXToZHigh (DynQuantI8PatternHelper,
RewriteONNXForZHigh.td, ONNXLegalityCheck.cpp), src/Dialect/ONNX/ONNXOps/Canonicalize.td
(MulAddToGemmOptPattern, FuseGemmFollowedByAddition). Taken from the source; not run.
"""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]

# Maximum size of each dimension on the accelerator, last dimension first (arch15).
LIMITS = (2097152, 1048576, 32768, 32768)


@dataclass(frozen=True)
class Product:
    """A matrix product in the ONNX model, with the addition directly after it.

    Attributes:
        left: Shape of the first operand.
        right: Shape of the second one.
        constant: Whether the second operand is known at compile time.
        gemm: Whether it is a Gemm, which has a bias input; else a MatMul.
        transposed: Whether a Gemm transposes an operand.
        scaled: Whether a Gemm has an alpha or beta other than 1.
        bias: Shape of the added operand, None if there is none.
        constant_bias: Whether the bias is known at compile time.
    """

    left: Shape
    right: Shape
    constant: bool
    gemm: bool = False
    transposed: bool = False
    scaled: bool = False
    bias: Shape | None = None
    constant_bias: bool = True

    @property
    def takes_bias(self) -> bool:
        """Whether the int8 product includes the bias; else a separate addition follows."""
        return self.bias is not None and len(self.left) <= 3 and self.bias == self.right[-1:]

    @property
    def why_float(self) -> str:
        """Why it is not quantized, as a sentence; "" if it is."""
        return self._why_operands or self._why_ranks or self._why_limits or self._why_bias

    @property
    def splits(self) -> str:
        """A note on a product that is computed in parts; "" otherwise."""
        if self.left[-2] > LIMITS[1] or self.right[-1] > LIMITS[0]:
            return "The compiler splits it, with a range per part; emulated with one range."
        return ""

    @property
    def _why_operands(self) -> str:
        if not self.constant:
            return (
                "Its second operand is computed: only products with constant weights are "
                "quantized. It stays dlfloat16."
            )
        if self.gemm and self.transposed:
            return (
                "It exports as a Gemm that transposes, as nn.Linear does for two dimensions, "
                'which the compiler does not quantize. Enable "Rewrite Gemm for '
                'quantization".'
            )
        if self.gemm and self.scaled:
            return "A Gemm with alpha or beta other than 1 is not quantized."
        return ""

    @property
    def _why_ranks(self) -> str:
        left, right = len(self.left), len(self.right)
        if left < 2 or right < 2:
            return "An operand has one dimension; NNPA multiplies matrices. It runs on the CPU."
        if right == 2:
            return ""
        if left < right:
            return "A matrix on the left with a stack on the right does not become an int8 product."
        if self.left[:-2] != self.right[:-2]:
            return "The leading dimensions differ; such a product is not quantized."
        return ""

    @property
    def _why_limits(self) -> str:
        inner, stack = self.left[-1], self.left[:-2]
        # A stack of any rank is reshaped to three dimensions first.
        count = 1
        for size in stack:
            count *= size
        if inner > min(LIMITS[:2]) or count > LIMITS[2]:
            return "A dimension exceeds the limit of the accelerator."
        return ""

    @property
    def _why_bias(self) -> str:
        if self.bias is None:
            return ""
        flat, columns = len(self.left) == 2, self.right[-1:]
        if self.gemm or flat:
            if self.bias != columns or not self.constant_bias:
                return (
                    "With two dimensions the addition after it becomes its bias, and then only a "
                    f"constant bias of shape {_shown(columns)} is quantized; this one is "
                    f"{'' if self.constant_bias else 'computed, '}{_shown(self.bias)}."
                )
            return ""
        if len(self.right) == 3:
            return "A stack of weights with a bias becomes a product in dlfloat16."
        if len(self.left) == 3 and not self.constant_bias and self.bias == columns:
            return "The added operand is computed; then the product stays dlfloat16."
        return ""


def _shown(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "a single number"


UNRULED = "No rule quantizes it."
ON_CPU = "A rule keeps it off NNPA (device cpu), where nothing is quantized."

_CONVOLUTION = (
    "Convolutions are never quantized: as a product, their weight is on the "
    "left, and only a constant second operand is quantized. They stay dlfloat16."
)
_RECURRENT = "LSTM and GRU are never quantized; they stay dlfloat16."
_ATTENTION = (
    "Its products have two computed operands: only products with constant weights are quantized."
)
_EINSUM = (
    "It exports as Einsum, which is not quantized; written as a product (@) it "
    "can be. It stays dlfloat16 or runs on the CPU."
)
OTHER = "Only MatMul and Gemm with constant weights are quantized."

_PARTS = {
    "conv": _CONVOLUTION, "lstm": _RECURRENT, "gru": _RECURRENT,
    "scaled_dot_product_attention": _ATTENTION, "einsum": _EINSUM,
}  # fmt: skip


def why_never(op: str) -> str:
    """Return why an operator that is not a matrix product is not quantized."""
    name = op.removeprefix("aten.")
    return next((reason for part, reason in _PARTS.items() if name.startswith(part)), OTHER)
