"""The samples quality is measured on: the project's own, else the calibration set, else one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.data import Samples, example_samples, open_samples
from workbench.results import ExportResult

if TYPE_CHECKING:
    from workbench.engine.context import StageContext


def calibration_samples(context: StageContext) -> Samples:
    """Return the project's calibration samples, or the example input alone."""
    source = context.project.calibration
    if source is None:
        return example_samples(context.hot("import_model").inputs)
    inputs = context.result("export", ExportResult).inputs
    return open_samples(source, context.folder, inputs, "calibration")


def evaluation_samples(context: StageContext) -> Samples:
    """Return the project's evaluation samples, or those of calibration."""
    source = context.project.evaluation.data
    if source is None:
        return calibration_samples(context)
    inputs = context.result("export", ExportResult).inputs
    return open_samples(source, context.folder, inputs, "evaluation.data")
