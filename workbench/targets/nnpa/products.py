"""Which matrix products the compiler quantizes to int8, and why not the others.

Source: onnx-mlir ec744fe6, src/Accelerators/NNPA/Conversion/ONNXToZHigh (DynQuantI8PatternHelper,
RewriteONNXForZHigh.td, ONNXLegalityCheck.cpp), src/Dialect/ONNX/ONNXOps/Canonicalize.td
(MulAddToGemmOptPattern, FuseGemmFollowedByAddition). Taken from the source; not run.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.targets.base import Reason
from workbench.targets.nnpa.options import SILENT, WHAT_IF

Shape = tuple[int, ...]

# Maximum size of the last three dimensions on the accelerator, last dimension first (arch15).
LIMITS = (2097152, 1048576, 32768)


COMPUTED = Reason(
    "computed-operand",
    "Its second operand is computed: only products with constant weights are quantized. It stays dlfloat16.",
)
TRANSPOSED = Reason(
    "gemm-transposed",
    "It exports as a Gemm that transposes, as nn.Linear does for two dimensions, which the "
    'compiler does not quantize. Enable "Rewrite Gemm for quantization".',
)
SCALED = Reason("gemm-scaled", "A Gemm with alpha or beta other than 1 is not quantized.")
ONE_DIMENSION = Reason(
    "one-dimension", "An operand has one dimension; NNPA multiplies matrices. It runs on the CPU."
)
MATRIX_AND_STACK = Reason(
    "matrix-and-stack", "A matrix on the left with a stack on the right does not become an int8 product."
)
OTHER_STACKS = Reason("leading-dimensions", "The leading dimensions differ; such a product is not quantized.")
TOO_LARGE = Reason("too-large", "A dimension exceeds the limit of the accelerator.")
STACK_AND_BIAS = Reason("stack-and-bias", "A stack of weights with a bias becomes a product in dlfloat16.")
COMPUTED_BIAS = Reason("computed-bias", "The added operand is computed; then the product stays dlfloat16.")
SPLIT = Reason("split", "The compiler splits it, with a range per part; emulated with one range.")
OPERATION_TYPES = Reason("operation-types", SILENT)
ASYMMETRIC = Reason("asymmetric-weights", WHAT_IF)


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
    def why_float(self) -> Reason | None:
        """Why it is not quantized; None if it is."""
        return self._why_operands or self._why_ranks or self._why_limits or self._why_bias

    @property
    def splits(self) -> Reason | None:
        """A note on a product that is computed in parts; None otherwise."""
        return SPLIT if self.left[-2] > LIMITS[1] or self.right[-1] > LIMITS[0] else None

    @property
    def _why_operands(self) -> Reason | None:
        if not self.constant:
            return COMPUTED
        if self.gemm and self.transposed:
            return TRANSPOSED
        return SCALED if self.gemm and self.scaled else None

    @property
    def _why_ranks(self) -> Reason | None:
        left, right = len(self.left), len(self.right)
        if left < 2 or right < 2:
            return ONE_DIMENSION
        if right == 2:
            return None
        if left < right:
            return MATRIX_AND_STACK
        return OTHER_STACKS if self.left[:-2] != self.right[:-2] else None

    @property
    def _why_limits(self) -> Reason | None:
        inner, stack = self.left[-1], self.left[:-2]
        # A stack of any rank is reshaped to three dimensions first.
        count = 1
        for size in stack:
            count *= size
        return TOO_LARGE if inner > min(LIMITS[:2]) or count > LIMITS[2] else None

    @property
    def _why_bias(self) -> Reason | None:
        if self.bias is None:
            return None
        flat, columns = len(self.left) == 2, self.right[-1:]
        if self.gemm or flat:
            if self.bias == columns and self.constant_bias:
                return None
            return Reason(
                "bias",
                "With two dimensions the addition after it becomes its bias, and then only a "
                f"constant bias of shape {_shown(columns)} is quantized; this one is "
                f"{'' if self.constant_bias else 'computed, '}{_shown(self.bias)}.",
            )
        if len(self.right) == 3:
            return STACK_AND_BIAS
        is_computed = len(self.left) == 3 and not self.constant_bias and self.bias == columns
        return COMPUTED_BIAS if is_computed else None


def _shown(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "a single number"


UNRULED = Reason("no-rule", "No rule quantizes it.")
ON_CPU = Reason("kept-on-cpu", "A rule keeps it off NNPA (device cpu), where nothing is quantized.")

_CONVOLUTION = Reason(
    "convolution",
    "Convolutions are never quantized: as a product, their weight is on the left, and only a "
    "constant second operand is quantized. They stay dlfloat16.",
)
_RECURRENT = Reason("recurrent", "LSTM and GRU are never quantized; they stay dlfloat16.")
_ATTENTION = Reason(
    "attention", "Its products have two computed operands: only products with constant weights are quantized."
)
_EINSUM = Reason(
    "einsum",
    "It exports as Einsum, which is not quantized; written as a product (@) it can be. It stays "
    "dlfloat16 or runs on the CPU.",
)
OTHER = Reason("other-operator", "Only MatMul and Gemm with constant weights are quantized.")

_PARTS = {
    "conv": _CONVOLUTION,
    "lstm": _RECURRENT,
    "gru": _RECURRENT,
    "scaled_dot_product_attention": _ATTENTION,
    "einsum": _EINSUM,
}


def why_never(op: str) -> Reason:
    """Return why an operator that is not a matrix product is not quantized."""
    name = op.removeprefix("aten.")
    return next((reason for part, reason in _PARTS.items() if name.startswith(part)), OTHER)
