"""Why operators other than matrix products are not quantized, in sentences."""

from __future__ import annotations

UNRULED = "No rule quantizes it."
ON_CPU = "A rule keeps it off NNPA (device cpu), where nothing is quantized."

_CONVOLUTION = (
    "Convolutions are never quantized: made a product, their weight stands on the left, and only "
    "a constant second operand is quantized. They stay dlfloat16."
)
_RECURRENT = "LSTM and GRU are never quantized; they stay dlfloat16."
_ATTENTION = (
    "Its products have two computed operands: only products with constant weights are quantized."
)
_EINSUM = (
    "It exports as Einsum, which is not quantized; written as a product (@) it could be. It stays "
    "dlfloat16 or runs on the CPU."
)
OTHER = "Only MatMul and Gemm with constant weights are quantized."

_PARTS = {
    "conv": _CONVOLUTION, "lstm": _RECURRENT, "gru": _RECURRENT,
    "scaled_dot_product_attention": _ATTENTION, "einsum": _EINSUM,
}  # fmt: skip


def why_never(op: str) -> str:
    """Return why an operator that is no matrix product is not quantized."""
    name = op.removeprefix("aten.")
    return next((said for part, said in _PARTS.items() if name.startswith(part)), OTHER)
