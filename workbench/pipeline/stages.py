"""The stage table: the steps of the pipeline, their order and their dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.ids import StageId


@dataclass(frozen=True)
class Stage:
    """One step of the pipeline.

    ``reads`` names the parts of the project that affect the result (see ``plan.READERS``);
    ``needs`` names the stages whose results are inputs; ``version`` is raised when a code change
    alters the result. ``entry`` is resolved only in the engine.
    """

    id: StageId
    title: str
    verb: str
    needs: tuple[StageId, ...]
    reads: tuple[str, ...]
    tools: tuple[str, ...]
    version: int
    entry: str


def _entry(name: str) -> str:
    return f"workbench.engine.stages.{name}:run"


STAGES: tuple[Stage, ...] = (
    Stage(
        "import_model",
        "Load",
        "Loading the model",
        (),
        ("model",),
        ("torch", "executorch"),
        7,
        _entry("import_model"),
    ),
    Stage(
        "export",
        "Export",
        "Exporting the graph",
        ("import_model",),
        ("model.strict_export", "model.split_outputs", "model.output_factors"),
        ("torch", "executorch"),
        16,
        _entry("export"),
    ),
    Stage(
        "prepare",
        "Prepare",
        "Inserting observers",
        ("export",),
        ("rules", "target.quantizer", "target.trials", "improvers"),
        ("torchao", "executorch"),
        35,
        _entry("prepare"),
    ),
    Stage(
        "calibrate",
        "Calibrate",
        "Calibrating",
        ("prepare",),
        ("calibration",),
        ("torchao",),
        8,
        _entry("calibrate"),
    ),
    Stage(
        "convert",
        "Quantize",
        "Quantizing",
        ("calibrate",),
        ("ranges", "range_methods"),
        ("torchao",),
        7,
        _entry("convert"),
    ),
    Stage(
        "evaluate", "Evaluate", "Measuring quality", ("convert",), ("evaluation",), (), 12, _entry("evaluate")
    ),
    Stage(
        "lower",
        "Compile",
        "Compiling for the NPU",
        ("convert",),
        ("target.compile", "rules.placing", "board.placements"),
        ("executorch", "ethos-u-vela", "onnx", "onnxscript"),
        42,
        _entry("lower"),
    ),
    Stage(
        "verify",
        "Verify",
        "Comparing with the reference model",
        ("lower",),
        ("verification", "evaluation.data"),
        ("tosa-tools", "onnxruntime"),
        14,
        _entry("verify"),
    ),
    Stage(
        "run",
        "Simulate",
        "Running on the simulator",
        ("lower",),
        ("verification", "evaluation.data", "machine"),
        ("tosa-tools",),
        9,
        _entry("run"),
    ),
    Stage(
        "package",
        "Package",
        "Packing the deliverables",
        ("lower",),
        ("name", "rules.listed", "calibration", "board"),
        ("executorch",),
        15,
        _entry("package"),
    ),
)
STAGES_BY_ID: Mapping[StageId, Stage] = {stage.id: stage for stage in STAGES}


def title_of_job(job: str) -> str:
    """Return what the window calls a stage; a study is called by its id."""
    return next((stage.title for stage in STAGES if stage.id == job), job)


def stages_until(stage_id: StageId) -> list[StageId]:
    """Return all stages up to and including ``stage_id``, in order."""
    ids = [stage.id for stage in STAGES]
    return ids[: ids.index(stage_id) + 1]


def stages_needed(*goals: StageId) -> list[StageId]:
    """Return some stages and all that they need, directly or not, in order."""
    wanted: set[StageId] = set(goals)
    for stage in reversed(STAGES):
        if stage.id in wanted:
            wanted.update(stage.needs)
    return [stage.id for stage in STAGES if stage.id in wanted]


def optional_stages() -> tuple[StageId, ...]:
    """Return the stages that no other stage needs, except the last."""
    wanted = {need for stage in STAGES for need in stage.needs}
    return tuple(stage.id for stage in STAGES[:-1] if stage.id not in wanted)
