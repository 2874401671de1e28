"""The torch side of IBM NNPA: rules on a graph, and its arithmetic emulated."""

from workbench.engine.graph_rules import rules_of as quantizer
from workbench.engine.toolchains.nnpa.lowering import lower
from workbench.engine.toolchains.nnpa.quantizing import (
    convert,
    float_module,
    memory,
    prepare,
    report,
)
from workbench.engine.toolchains.nnpa.readings import readings
from workbench.engine.toolchains.nnpa.training import student
from workbench.engine.toolchains.nnpa.verifying import verify

__all__ = [
    "convert",
    "float_module",
    "lower",
    "memory",
    "prepare",
    "quantizer",
    "readings",
    "report",
    "student",
    "verify",
]
