"""The compiler's quantization options as forms show them.

Source: onnx-mlir ec744fe6, src/Accelerators/NNPA/Compiler/NNPACompilerOptions.cpp and
NNPACompilerUtils.cpp (``configurePassesNNPA``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.targets.base import Choice, OptionSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

WHAT_IF = (
    "Asymmetric weights are for comparison only: the compiler disables "
    "quantization for them and creates a float program. The numbers show the "
    "effect of such weights."
)
SILENT = (
    "Only the operation type MatMul has an effect (it includes Gemm and MatMul "
    "with Add): with this list the compiler silently quantizes nothing."
)

OPTIONS = (
    OptionSpec(
        "activations",
        "Activations",
        "Range of the first operand of every product, computed at each call.",
        "choice",
        "asym",
        (Choice("asym", "Asymmetric, with a zero point"), Choice("sym", "Symmetric (0)")),
    ),
    OptionSpec(
        "weights",
        "Weights",
        "One scale per weight, computed at compile time.",
        "choice",
        "sym",
        (Choice("sym", "Symmetric"), Choice("asym", "Asymmetric, for comparison only")),
    ),
    OptionSpec(
        "op_types",
        "Operation types",
        "Comma-separated names. Only MatMul has an effect, and it includes Gemm; "
        "Conv or Gemm alone quantize nothing.",
        "text",
        "MatMul",
    ),
    OptionSpec(
        "rewrite_gemm",
        "Rewrite Gemm for quantization",
        "nn.Linear on two dimensions exports as a Gemm that transposes its weight, "
        "which the compiler does not quantize. Transposes the weight in the exported "
        "file instead; values are unchanged.",
        "switch",
        True,
    ),
    OptionSpec(
        "reading",
        "Numbers by",
        "The arithmetic of the main figures; both are always measured.",
        "choice",
        "nnpa",
        (Choice("nnpa", "NNPA model (dlfloat16)"), Choice("document", "Documented equations")),
    ),
)


def quantizes(options: Mapping[str, JsonValue]) -> bool:
    """Return whether a list of operation types enables quantization."""
    named = str(options["op_types"]).split(",")
    return any(name.strip().lower() == "matmul" for name in named)
