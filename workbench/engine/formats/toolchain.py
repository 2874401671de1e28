"""The torch side of emulated number formats: rules on a graph, without a compiler."""

from workbench.engine.formats.quantization import convert, float_module, memory, prepare, qat_model, report
from workbench.engine.fx.rules import rules_of as quantizer
from workbench.engine.fx.rules import rules_of as trial_quantizer
from workbench.engine.targets import arithmetic_variants, known_differences

__all__ = [
    "arithmetic_variants",
    "convert",
    "float_module",
    "known_differences",
    "memory",
    "prepare",
    "qat_model",
    "quantizer",
    "report",
    "trial_quantizer",
]
