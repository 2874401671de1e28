"""The ids of stages, studies, targets and presets, as types that mypy checks.

Each is the ids of one table; a test compares the two.
"""

from __future__ import annotations

from typing import Literal, TypeGuard, get_args

StageId = Literal[
    "import_model",
    "export",
    "prepare",
    "calibrate",
    "convert",
    "evaluate",
    "lower",
    "verify",
    "run",
    "package",
]
StudyId = Literal[
    "sensitivity",
    "search",
    "sweep",
    "budget",
    "sample",
    "blame",
    "placement",
    "matrix",
    "training",
    "tflite",
    "runner",
]
TargetId = Literal["ethos-u", "ibm-nnpa", "formats"]
PresetId = Literal[
    "a8w8",
    "a16w8",
    "a8w4",
    "a8w8-per-tensor",
    "uint8",
    "float",
    "cpu",
    "int8-dyn",
    "integer-8",
    "minifloat-8",
    "block-fp-8",
    "mxint-8",
    "mxfp-8",
    "mxfp-4",
    "nvfp4",
]
# What an engine can be at work on.
WorkId = StageId | StudyId

STAGE_IDS: tuple[StageId, ...] = get_args(StageId)
STUDY_IDS: tuple[StudyId, ...] = get_args(StudyId)


def is_stage(name: str) -> TypeGuard[StageId]:
    """Return whether this is the id of a stage."""
    return name in STAGE_IDS


def is_study(name: str) -> TypeGuard[StudyId]:
    """Return whether this is the id of a study."""
    return name in STUDY_IDS
