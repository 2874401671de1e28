"""What a report tells: results of the present configuration, and the history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from workbench.boards.fit import Fit, of_results, sentence
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.history.comparison import front_of, newest_accuracy, point_of, rules_line
from workbench.history.store import History, history_path
from workbench.pipeline.plan import plan, tool_versions
from workbench.pipeline.resolution import resolve_graph
from workbench.pipeline.stages import STAGES
from workbench.project.frozen import Frozen
from workbench.results import (
    GRAPH_FILE,
    CalibrateResult,
    EvaluateResult,
    ExportResult,
    ImportResult,
    LowerResult,
    PackageResult,
    SimulationResult,
    VerifyResult,
    load_result,
)
from workbench.targets import target_of

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.history.runs import Run
    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import Plan
    from workbench.project.model import Project

Result = TypeVar("Result", bound=Frozen)


@dataclass(frozen=True)
class ModuleCost:
    """What the operations of one module take on the NPU; estimated."""

    name: str
    cycles: int
    macs: int
    share: float


@dataclass(frozen=True)
class RuleRow:
    """One rule in words, and how many modules it wins; None before the first export."""

    call: str
    match: str
    label: str
    enabled: bool
    wins: int | None


@dataclass(frozen=True)
class Point:
    """One run of the history in a plot."""

    number: int
    x: float
    y: float
    is_best: bool


@dataclass(frozen=True)
class Findings:
    """Everything there is to tell; None is a stage without a result."""

    missing: tuple[str, ...]
    emulation: str
    versions: dict[str, str]
    rules: tuple[RuleRow, ...]
    model: ImportResult | None
    export: ExportResult | None
    calibrate: CalibrateResult | None
    evaluate: EvaluateResult | None
    lower: LowerResult | None
    verify: VerifyResult | None
    simulated: SimulationResult | None
    package: PackageResult | None
    fit: Fit | None
    verdict: str
    modules: tuple[ModuleCost, ...] = ()
    runs: tuple[Run, ...] = ()
    best: frozenset[int] = frozenset()
    points: tuple[Point, ...] = ()
    accuracy_name: str = ""
    lines: dict[int, str] = field(default_factory=dict)


def gathered(project: Project, path: Path, cache: Cache) -> Findings:
    """Return what is known about a project.

    Raises:
        WorkbenchError: a file that the project names is missing.
    """
    planned = plan(project, path.absolute().parent, cache)
    lower = _load(LowerResult, "lower", planned, cache)
    runs = _history(path)
    fitting = _fit(project, path, planned, cache) if lower else None
    best = frozenset(front_of(runs))
    plotted = [(run, point_of(run)) for run in runs]
    target = target_of(project.target.id)
    told = [s for s in ("evaluate", "lower", "verify", "package") if s in target.stages]
    return Findings(
        missing=tuple(s.title for s in STAGES if s.id in told and not _done(s.id, planned)),
        emulation=target.emulation,
        versions=tool_versions(),
        rules=tuple(_rules(project, planned, cache)),
        model=_load(ImportResult, "import_model", planned, cache),
        export=_load(ExportResult, "export", planned, cache),
        calibrate=_load(CalibrateResult, "calibrate", planned, cache),
        evaluate=_load(EvaluateResult, "evaluate", planned, cache),
        lower=lower,
        verify=_load(VerifyResult, "verify", planned, cache),
        simulated=_load(SimulationResult, "run", planned, cache),
        package=_load(PackageResult, "package", planned, cache),
        fit=fitting,
        verdict=sentence(fitting) if fitting else "",
        modules=tuple(_modules(lower)) if lower else (),
        runs=tuple(runs),
        best=best,
        points=tuple(
            Point(run.number, point[1], point[0], run.number in best)
            for run, point in plotted
            if point is not None
        ),
        accuracy_name=newest_accuracy(runs),
        lines={run.number: rules_line(run) for run in runs},
    )


def _fit(project: Project, path: Path, planned: Plan, cache: Cache) -> Fit | None:
    """Return how the program fits the project's board; None too where its file cannot be used."""
    try:
        return of_results(project, path.absolute().parent, cache.folder(planned.key("lower")))
    except (OSError, WorkbenchError):
        return None


def _done(stage_id: str, planned: Plan) -> bool:
    return planned.of(stage_id).state == "cached"


def _load(kind: type[Result], stage_id: str, planned: Plan, cache: Cache) -> Result | None:
    if not _done(stage_id, planned):
        return None
    try:
        return load_result(kind, cache.folder(planned.key(stage_id)))
    except WorkbenchError:
        return None


def _rules(project: Project, planned: Plan, cache: Cache) -> list[RuleRow]:
    wins: dict[str, int] | None = None
    if _done("export", planned):
        graph = GraphSnapshot.load(cache.folder(planned.key("export")) / GRAPH_FILE)
        wins = {}
        for effective in resolve_graph(project, graph).modules.values():
            if effective.rule is not None:
                wins[effective.rule] = wins.get(effective.rule, 0) + 1
    return [
        RuleRow(
            rule.kind.replace("_", " "), rule.match, project.label_of(rule), rule.enabled,
            None if wins is None else wins.get(rule.id, 0),
        )
        for rule in project.rules
    ]  # fmt: skip


def _modules(lower: LowerResult) -> list[ModuleCost]:
    cycles: dict[str, int] = {}
    macs: dict[str, int] = {}
    for report in lower.vela:
        for operation in report.operations:
            cycles[operation.module] = cycles.get(operation.module, 0) + operation.cycles
            macs[operation.module] = macs.get(operation.module, 0) + operation.macs
    total = sum(cycles.values()) or 1
    made = [ModuleCost(name, each, macs[name], each / total) for name, each in cycles.items()]
    return sorted(made, key=lambda module: -module.cycles)


def _history(path: Path) -> list[Run]:
    place = history_path(path)
    if not place.exists():
        return []
    history = History(place)
    try:
        return history.runs()
    finally:
        history.close()
