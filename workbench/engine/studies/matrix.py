"""Lower and verify one model for several devices in several precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.candidates import compute, means_of
from workbench.errors import WorkbenchError, failure
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.plan import plan
from workbench.pipeline.resolution import problems
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.project.qconfig import PRESETS_BY_ID
from workbench.results import GRAPH_FILE, LowerResult, VerifyResult, load_result
from workbench.studies.matrix import Cell, MatrixResult
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.engine.studies.context import StudyContext
    from workbench.project.model import Project


def run(study: StudyContext) -> None:
    """Leave a cell for each device and each config; what is cached is not computed again.

    Raises:
        WorkbenchError: a device or a config that does not exist.
    """
    targets, configs = _listed(study, "targets"), _listed(study, "configs")
    unknown = [name for name in configs if name not in PRESETS_BY_ID]
    if unknown:
        raise failure(f"There is no config {unknown[0]}.", f"Known: {', '.join(PRESETS_BY_ID)}.")
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
    return [str(each) for each in given] if isinstance(given, list) else []


def _variant(project: Project, target: str, config: str) -> Project:
    """Return the project with one config for everything, on another device."""
    kept = {k: v for k, v in project.target.options.items() if k == "integer_io"}
    choice = target_of(target).complete(TargetChoice(id=target, options=kept))
    bare = edits.revise(
        project, rules=(), ranges=(), range_methods=(), target=choice, board=""
    )  # fmt: skip
    return edits.assign(bare, "global", "", config)


def _cell(study: StudyContext, project: Project, graph: GraphSnapshot, config: str) -> Cell:
    means, target = means_of(study.stage), project.target.id
    said = problems(project, means.folder, graph)
    known = [p.info.message for p in said if p.level == "error"]
    told = [p.info.message for p in said if "Vela refuse" in p.info.message]
    if known:
        return Cell(target=target, config=config, problem=known[0], warned=True)
    try:
        compute(project, means, ("verify",))
    except WorkbenchError as error:
        sentence = error.infos[0].message
        return Cell(target=target, config=config, problem=sentence, warned=bool(told))
    planned = plan(project, means.folder, means.cache)
    lowered = load_result(LowerResult, means.cache.folder(planned.key("lower")))
    verified = load_result(VerifyResult, means.cache.folder(planned.key("verify")))
    return Cell(
        target=target, config=config, delegates=lowered.delegates,
        problem="" if lowered.delegates else "Nothing runs on the NPU.",
        cpu_nodes=len(lowered.cpu_nodes), cycles=sum(r.cycles_total for r in lowered.vela),
        max_lsb=verified.max_lsb,
        exact=verified.exact / verified.elements if verified.elements else None,
    )  # fmt: skip
