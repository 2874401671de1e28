"""The torch side of emulated number formats: rules on a graph, without a compiler."""

from workbench.engine.fx.rules import rules_of as quantizer
from workbench.engine.targets.base import departures, readings
from workbench.engine.targets.formats.quantization import (
    convert,
    float_module,
    memory,
    prepare,
    report,
    qat_model,
)

__all__ = [
    "convert",
    "departures",
    "float_module",
    "memory",
    "prepare",
    "quantizer",
    "readings",
    "report",
    "qat_model",
]
