"""The study table: long jobs over many configurations with partial results on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.ids import StageId, StudyId
from workbench.protocol import Lane


@dataclass(frozen=True)
class Study:
    """One kind of study.

    ``needs`` is the stage that must be complete; ``reads`` are further parts of the project that
    affect the results (see ``pipeline.plan.READERS``); ``version`` is raised when the results for
    equal inputs change. ``entry`` is resolved only in the engine; ``lane`` is the window's engine
    that runs it. A study with ``costs`` needs a compiler on this machine and is rejected for
    targets without one.
    """

    id: StudyId
    title: str
    verb: str
    needs: StageId
    reads: tuple[str, ...]
    version: int
    entry: str
    lane: Lane = "background"
    costs: bool = False


STUDIES: tuple[Study, ...] = (
    Study(
        "sensitivity",
        "Sensitivity",
        "Measuring sensitivity",
        "calibrate",
        ("evaluation", "ranges", "range_methods"),
        3,
        "workbench.engine.studies.sensitivity:run",
    ),
    Study(
        "search",
        "Search",
        "Searching for precisions",
        "export",
        (
            "rules.io",
            "ranges",
            "range_methods",
            "improvers",
            "calibration",
            "evaluation",
            "target.quantizer",
            "target.compile",
        ),
        2,
        "workbench.engine.studies.search:run",
        costs=True,
    ),
    Study(
        "sweep",
        "Sweep",
        "Estimating on devices",
        "convert",
        ("target.files",),
        2,
        "workbench.engine.studies.sweep:run",
        costs=True,
    ),
    Study(
        "budget",
        "SRAM budget",
        "Estimating the cost of less SRAM",
        "convert",
        ("target.files",),
        1,
        "workbench.engine.studies.budget:run",
        costs=True,
    ),
    Study(
        "sample",
        "One sample",
        "Running one sample",
        "convert",
        ("evaluation.data", "target.compile"),
        2,
        "workbench.engine.studies.sample:run",
    ),
    Study(
        "blame",
        "Rejected modules",
        "Finding rejected modules",
        "convert",
        ("target.compile", "rules.placing"),
        1,
        "workbench.engine.studies.blame:run",
        costs=True,
    ),
    Study(
        "placement",
        "Placement",
        "Checking operator support",
        "convert",
        ("target.compile", "rules.placing"),
        1,
        "workbench.engine.studies.placement:run",
    ),
    Study(
        "matrix",
        "Matrix",
        "Verifying on devices",
        "export",
        ("calibration", "evaluation.data", "verification", "improvers"),
        1,
        "workbench.engine.studies.matrix:run",
    ),
    Study(
        "training",
        "Training",
        "Training",
        "export",
        ("rules", "target.quantizer", "calibration", "training"),
        2,
        "workbench.engine.studies.training:run",
    ),
    Study(
        "tflite",
        "TensorFlow Lite",
        "Comparing with TensorFlow Lite",
        "lower",
        ("evaluation.data",),
        1,
        "workbench.engine.studies.tflite:run",
        costs=True,
    ),
    Study(
        "runner",
        "Build a runner",
        "Building a runner",
        "lower",
        (),
        1,
        "workbench.engine.studies.runner:run",
        "machine",
    ),
)
STUDIES_BY_ID: Mapping[StudyId, Study] = {study.id: study for study in STUDIES}
