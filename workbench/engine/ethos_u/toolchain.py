"""The torch side of Ethos-U: quantizer, partitioner, Vela and the TOSA reference model."""

from workbench.engine.ethos_u.cpu_fallback import preview_placement
from workbench.engine.ethos_u.grids import io_quantization, runtime_values, tolerance
from workbench.engine.ethos_u.lookup_tables import known_differences
from workbench.engine.ethos_u.lowering import lower, refusal
from workbench.engine.ethos_u.quantization import (
    convert,
    memory,
    prepare,
    qat_model,
    report,
    training_quantizer,
    trial_quantizer,
)
from workbench.engine.ethos_u.reference_model import integers, verify
from workbench.engine.ethos_u.rewrite_trials import quantizer
from workbench.engine.ethos_u.simulation import simulate
from workbench.engine.ethos_u.transform_memory import float_module
from workbench.engine.targets import arithmetic_variants

__all__ = [
    "arithmetic_variants",
    "convert",
    "float_module",
    "integers",
    "io_quantization",
    "known_differences",
    "lower",
    "memory",
    "prepare",
    "preview_placement",
    "qat_model",
    "quantizer",
    "refusal",
    "report",
    "runtime_values",
    "simulate",
    "tolerance",
    "training_quantizer",
    "trial_quantizer",
    "verify",
]
