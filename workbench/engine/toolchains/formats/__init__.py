"""The torch side of emulated number formats: rules on a graph, and nothing to compile for."""

from workbench.engine.toolchains.formats.memory import memory
from workbench.engine.toolchains.formats.quantizing import (
    convert,
    float_module,
    prepare,
    quantizer,
    report,
)
from workbench.engine.toolchains.formats.training import student

__all__ = [
    "convert",
    "float_module",
    "memory",
    "prepare",
    "quantizer",
    "report",
    "student",
]
