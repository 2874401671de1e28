"""The torch side of emulated number formats: rules on a graph, and nothing to compile for."""

from workbench.engine.graph_rules import rules_of as quantizer
from workbench.engine.toolchains.formats.memory import memory
from workbench.engine.toolchains.formats.quantizing import convert, float_module, prepare, report
from workbench.engine.toolchains.formats.training import student
from workbench.engine.toolchains.same_arithmetic import departures
from workbench.engine.toolchains.single_reading import readings

__all__ = [
    "convert",
    "departures",
    "float_module",
    "memory",
    "prepare",
    "quantizer",
    "readings",
    "report",
    "student",
]
