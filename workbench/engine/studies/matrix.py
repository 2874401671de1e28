"""Matrix study: lower and verify one model for several devices in several precisions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.analysis.accuracy import accuracy_of
from workbench.analysis.gate import verdict
from workbench.engine.studies import training
from workbench.engine.studies.candidates import Environment, compute, environment_of
from workbench.engine.studies.study import StudyContext
from workbench.errors import Cancelled, WorkbenchError, failure, refused_by_system
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.plan import Plan, plan
from workbench.pipeline.resolution import problems, resolve_graph, whole_refusals
from workbench.project import edits
from workbench.project.configs import PRESETS_BY_ID
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.results import GRAPH_FILE, LowerResult, VerifyResult, load_result
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.matrix import QAT_EPOCHS, QAT_SAMPLES, TRAINED, Cell, MatrixResult, config_of
from workbench.studies.training import TrainingResult
from workbench.targets import target_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.project.model import Project


def run(study: StudyContext) -> None:
    """Write a cell per device and config; cached results are reused.

    Raises:
        WorkbenchError: a device or config does not exist.
    """
    targets, configs = _listed(study, "targets"), _listed(study, "configs")
    unknown = [name for name in configs if config_of(name) not in PRESETS_BY_ID]
    if unknown:
        known = ", ".join(PRESETS_BY_ID)
        raise failure(
            f"Unknown config {unknown[0]}.", f"Known: {known}, and {TRAINED}.", code="config-unknown"
        )
    for name in targets:
        target_of(name)
    cells: list[Cell] = []
    total = len(targets) * len(configs)
    graph = GraphSnapshot.load(study.stage.path("export") / GRAPH_FILE)
    for target in targets:
        for config in configs:
            study.report(len(cells), total, f"{target}, {config}")
            cells.append(_cell(study, _variant(study.stage.project, target, config), graph, config))
            study.tell(MatrixResult(total=total, cells=tuple(cells)), len(cells), total, "")


def _listed(study: StudyContext, name: str) -> list[str]:
    given = study.options.get(name)
    return [str(item) for item in given] if isinstance(given, list) else []


def _variant(project: Project, target: str, config: str) -> Project:
    """Return the project with one config for all modules, on another device."""
    kept = {k: v for k, v in project.target.options.items() if k == "integer_io"}
    choice = target_of(target).complete(TargetChoice(id=target, options=kept))
    bare = edits.revise(
        project, rules=(), ranges=(), range_methods=(), target=choice, board="", trained_weights=None
    )
    return edits.assign(bare, "global", "", config_of(config))


def _cell(study: StudyContext, project: Project, graph: GraphSnapshot, config: str) -> Cell:
    environment = environment_of(study.stage)
    empty = Cell(target=project.target.id, config=config)
    errors = [p.info for p in problems(OpenProject(project, environment.folder), graph) if p.level == "error"]
    if errors:
        return empty.model_copy(update={"problem": errors[0].message, "warned": True})
    refusals = list(whole_refusals(project, graph, resolve_graph(project, graph)))
    try:
        trained, gain = _trained(study, project) if config.endswith(TRAINED) else (project, None)
        planned = compute(trained, environment, ("verify",))
    except Cancelled:
        raise
    except WorkbenchError as error:
        info = error.infos[0]
        where = str(info.where)
        before = bool(refusals) or where not in {"stage lower", "stage verify"}
        sentence = refusals[0].message if refusals else info.message
        return empty.model_copy(update={"problem": sentence, "warned": before})
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the other cells are wanted too
        if refusals:
            return empty.model_copy(update={"problem": refusals[0].message, "warned": True})
        first = (str(error.__cause__ or error).splitlines() or [""])[0]
        system = refused_by_system(error)
        problem = f"{system.message} {system.hint}" if system else f"{type(error).__name__}: {first}"
        return empty.model_copy(update={"problem": problem, "warned": False})
    return _verified(environment, planned, empty, project).model_copy(update={"gain_db": gain})


def _verified(environment: Environment, planned: Plan, empty: Cell, project: Project) -> Cell:
    lowered = load_result(LowerResult, environment.cache.folder(planned.key("lower")))
    verified = load_result(VerifyResult, environment.cache.folder(planned.key("verify")))
    return empty.model_copy(
        update={
            "delegates": lowered.delegates,
            "problem": "" if lowered.delegates else "Nothing runs on the NPU.",
            "cpu_nodes": len(lowered.cpu_nodes),
            "cycles": sum(r.cycles_total for r in lowered.vela),
            "max_lsb": verified.max_lsb,
            "verdict": verdict(project.gate, lowered=lowered, verified=verified).verdict,
            "accuracy": accuracy_of(project.accuracy, verified=verified).verdict,
            "exact": verified.exact / verified.elements if verified.elements else None,
        }
    )


def _trained(study: StudyContext, project: Project) -> tuple[Project, float]:
    """Return the project with briefly trained weights, and the predicted gain [dB].

    Raises:
        WorkbenchError: the model cannot be trained.
    """
    environment, student = environment_of(study.stage), project
    if data := project.calibration:
        limit = min(QAT_SAMPLES, data.limit or QAT_SAMPLES)
        student = edits.set_calibration(project, data.model_copy(update={"limit": limit}))
    epochs = study.options.get("qat_epochs")
    asked: dict[str, JsonValue] = {"epochs": epochs if epochs is not None else QAT_EPOCHS}
    folder = study_folder(
        environment.cache,
        study_key("training", OpenProject(student, environment.folder), environment.cache, asked),
    )
    stage = replace(
        study.stage, project=student, plan=plan(OpenProject(student, environment.folder), environment.cache)
    )
    training.run(StudyContext(stage, folder, asked, _silent))
    result = load_study(TrainingResult, folder)
    if result is None or not result.best:
        return project, 0.0
    weights = str((folder / result.weights).absolute())
    return edits.use_trained(project, weights), result.best_db - result.start_db


def _silent(_done: int, _total: int, _message: str) -> None:
    """Report nothing: training is one step of a cell, which reports progress."""
