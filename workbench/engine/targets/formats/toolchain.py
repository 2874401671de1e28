"""The torch side of emulated number formats: rules on a graph, without a compiler."""

from workbench.engine.fx.rules import rules_of as quantizer
from workbench.engine.fx.rules import rules_of as trial_quantizer
from workbench.engine.targets.base import known_differences, readings
from workbench.engine.targets.formats.quantization import (
    convert,
    float_module,
    memory,
    prepare,
    qat_model,
    report,
)

__all__ = [
    "convert",
    "float_module",
    "known_differences",
    "memory",
    "prepare",
    "qat_model",
    "quantizer",
    "readings",
    "report",
    "trial_quantizer",
]
