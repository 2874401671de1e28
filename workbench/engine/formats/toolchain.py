"""The torch side of emulated number formats: rules on a graph, without a compiler."""

from workbench.engine.formats.quantization import convert, float_module, memory, prepare, qat_model, report
from workbench.engine.fx.rules import rules_of as quantizer
from workbench.engine.fx.rules import rules_of as trial_quantizer
from workbench.engine.targets import known_differences, readings

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
