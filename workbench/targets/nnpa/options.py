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
    "Asymmetric weights are a what-if: the compiler turns quantization off for them and makes a "
    "float program. The numbers show what such weights would do."
)
SILENT = (
    "Of the operation types only MatMul has an effect (it covers Gemm and MatMul with Add too): "
    "with this list the compiler quantizes nothing, and says nothing."
)

OPTIONS = (
    OptionSpec(
        "activations", "Activations",
        "How every product takes the range of its first operand, at each call.", "choice", "asym",
        (Choice("asym", "Asymmetric, with a zero point"), Choice("sym", "Symmetric (0)")),
    ),
    OptionSpec(
        "weights", "Weights", "One scale for a whole weight, taken when compiling.", "choice",
        "sym",
        (Choice("sym", "Symmetric"), Choice("asym", "Asymmetric, a what-if that is not compiled")),
    ),
    OptionSpec(
        "op_types", "Operation types",
        "Names with commas. Only MatMul has an effect, and it covers Gemm; Conv or Gemm alone "
        "quantize nothing.", "text", "MatMul",
    ),
    OptionSpec(
        "rewrite_gemm", "Rewrite Gemm for quantization",
        "nn.Linear on two dimensions exports as a Gemm that transposes its weight, which the "
        "compiler skips. Transposes the weight in the exported file instead; the values stay.",
        "switch", True,
    ),
    OptionSpec(
        "reading", "Numbers by",
        "The reading that the main figures follow; both are always measured.", "choice", "nnpa",
        (
            Choice("nnpa", "NNPA model (dlfloat16)"),
            Choice("document", "The document's equations"),
        ),
    ),
)  # fmt: skip


def quantizes(options: Mapping[str, JsonValue]) -> bool:
    """Return whether a list of operation types enables quantization."""
    named = str(options["op_types"]).split(",")
    return any(name.strip().lower() == "matmul" for name in named)
