"""The torch side of IBM NNPA: rules on a graph, its arithmetic emulated, and an ONNX file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.fx.rules import rules_of as quantizer
from workbench.engine.fx.rules import rules_of as trial_quantizer
from workbench.engine.nnpa.quantization import convert, float_module, memory, prepare, qat_model, report
from workbench.engine.targets import known_differences

if TYPE_CHECKING:
    from workbench.engine.evaluation.arithmetic_models import ReadingTally
    from workbench.engine.runtime.context import StageContext
    from workbench.engine.targets import Lowered
    from workbench.results import LowerResult, VerifyResult

__all__ = [
    "arithmetic_variants",
    "convert",
    "float_module",
    "known_differences",
    "lower",
    "memory",
    "prepare",
    "qat_model",
    "quantizer",
    "report",
    "trial_quantizer",
    "verify",
]


def arithmetic_variants(context: StageContext) -> list[ReadingTally]:
    """Return both arithmetics; see ``verification``."""
    from workbench.engine.nnpa import verification

    return verification.arithmetic_variants(context)


def lower(context: StageContext) -> tuple[Lowered, LowerResult]:
    """Write the float program as ONNX; see ``lowering``."""
    # Imported when wanted: onnx takes longer than all that an edit has computed anew.
    from workbench.engine.nnpa import lowering

    return lowering.lower(context)


def verify(context: StageContext) -> VerifyResult:
    """Run the file in ONNX Runtime; see ``verifying``."""
    from workbench.engine.nnpa import verification

    return verification.verify(context)
