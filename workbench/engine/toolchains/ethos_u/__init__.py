"""The torch side of Ethos-U: quantizer, partitioner, Vela and the TOSA reference model."""

from workbench.engine.running import float_module
from workbench.engine.toolchains.ethos_u.grids import borders, runtime_values, tolerance
from workbench.engine.toolchains.ethos_u.lowering import lower, refusal
from workbench.engine.toolchains.ethos_u.placing import foreseen
from workbench.engine.toolchains.ethos_u.quantizing import (
    convert,
    memory,
    prepare,
    quantizer,
    report,
    student,
    training_quantizer,
)
from workbench.engine.toolchains.ethos_u.reference import integers, verify
from workbench.engine.toolchains.ethos_u.simulation import simulate
from workbench.engine.toolchains.ethos_u.tables import departures
from workbench.engine.toolchains.single_reading import readings

__all__ = [
    "borders",
    "convert",
    "departures",
    "float_module",
    "foreseen",
    "integers",
    "lower",
    "memory",
    "prepare",
    "quantizer",
    "readings",
    "refusal",
    "report",
    "runtime_values",
    "simulate",
    "student",
    "tolerance",
    "training_quantizer",
    "verify",
]
