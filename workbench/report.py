"""The report: one self-contained HTML page with all results of a project."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from workbench.analysis.answers import Answers, answers_of
from workbench.deploy.emulation.proofs import proofs_of_package
from workbench.deploy.fitting import Fit, of_results, sentence
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.history.comparison import front_of, newest_accuracy, point_of, rules_line
from workbench.history.store import History, history_path
from workbench.ids import StageId
from workbench.installation import resources
from workbench.outcome_page import Answer, outcome_page
from workbench.pipeline.plan import plan
from workbench.pipeline.resolution import resolve_graph
from workbench.pipeline.stages import STAGES
from workbench.project.frozen import Frozen
from workbench.project.opened import OpenProject
from workbench.results import (
    GRAPH_FILE,
    CalibrateResult,
    ConvertResult,
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
    from workbench.analysis.accuracy import AccuracyResult
    from workbench.analysis.answers import Answers
    from workbench.analysis.gate import GateResult
    from workbench.deploy.emulation.proofs import KeptProof
    from workbench.history.runs import Run
    from workbench.ids import StageId
    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import Plan
    from workbench.project.model import Project
    from workbench.results import FormComparison, LiveRange, TensorRange


_WIDTH, _HEIGHT, _ROW, _LABEL = 900, 260, 18, 260
_MARGIN = 44


def _svg(width: float, height: float, body: list[str], label: str) -> str:
    head = (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}" '
        'xmlns="http://www.w3.org/2000/svg">'
    )
    return Markup(head + "".join(body) + "</svg>")


def bars(rows: Sequence[tuple[str, float]], unit: str) -> str:
    """Return one horizontal bar per row, labelled with name and value."""
    if not rows:
        return ""
    most = max(1e-30, *(value for _, value in rows))
    body = []
    for index, (name, value) in enumerate(rows):
        top = index * _ROW
        length = max(0.0, value / most) * (_WIDTH - _LABEL - 90)
        shown = name if len(name) <= 40 else f"…{name[-39:]}"
        body.append(
            f'<text class="name" x="{_LABEL - 8}" y="{top + 13}">{escape(shown)}</text>'
            f'<rect class="bar" x="{_LABEL}" y="{top + 3}" width="{length:.1f}" height="12">'
            f"<title>{escape(name)}: {value:,.6g} {escape(unit)}</title></rect>"
            f'<text class="value" x="{_LABEL + length + 6:.1f}" y="{top + 13}">{value:,.4g}</text>'
        )
    return _svg(_WIDTH, len(rows) * _ROW + 4, body, f"{unit} of {len(rows)} rows")


def bands(ranges: Sequence[TensorRange]) -> str:
    """Return the range of every tensor, with the band of 99.8 % of its values."""
    seen = [r for r in ranges if math.isfinite(r.minimum) and math.isfinite(r.maximum)]
    if not seen:
        return ""
    low, high = min(0.0, *(r.minimum for r in seen)), max(0.0, *(r.maximum for r in seen))
    span = (high - low) or 1.0
    step = (_WIDTH - _MARGIN) / len(seen)

    def up(value: float) -> float:
        return (high - min(max(value, low), high)) / span * (_HEIGHT - 20) + 10

    zero = up(0.0)
    body = [
        f'<line class="axis" x1="{_MARGIN}" x2="{_WIDTH}" y1="{zero:.1f}" y2="{zero:.1f}"/>',
        f'<text class="value" x="0" y="16">{high:.3g}</text>',
        f'<text class="value" x="0" y="{_HEIGHT - 6}">{low:.3g}</text>',
    ]
    for index, tensor in enumerate(seen):
        left, width = _MARGIN + index * step, max(step * 0.8, 0.6)
        title = f"<title>{escape(tensor.node)}: {tensor.minimum:.4g} to {tensor.maximum:.4g}</title>"
        for name, first, last in (
            ("whole", tensor.maximum, tensor.minimum),
            ("band", tensor.p_high, tensor.p_low),
        ):
            top, bottom = up(first), up(last)
            body.append(
                f'<rect class="{name}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{max(bottom - top, 0.5):.1f}">{title}</rect>'
            )
    return _svg(_WIDTH, _HEIGHT, body, f"ranges of {len(seen)} tensors")


def memory(tensors: Sequence[LiveRange]) -> str:
    """Return the addresses and live ranges of tensors in one memory: steps across, addresses up."""
    if not tensors:
        return ""
    steps = max(tensor.end for tensor in tensors) + 1
    top = max(tensor.address + tensor.bytes for tensor in tensors)
    body = [
        f'<text class="value" x="0" y="16">{top / 1024:,.1f} KiB</text>',
        f'<text class="value" x="{_MARGIN}" y="{_HEIGHT - 2}">{steps} steps of the schedule</text>',
    ]
    tall, wide = _HEIGHT - 34, _WIDTH - _MARGIN
    for tensor in tensors:
        x = _MARGIN + tensor.start / steps * wide
        width = max((tensor.end - tensor.start + 1) / steps * wide - 0.5, 0.5)
        height = max(tensor.bytes / top * tall, 0.5)
        y = 20 + tall - (tensor.address + tensor.bytes) / top * tall
        body.append(
            f'<rect class="live" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"><title>{escape(tensor.name)} {escape(tensor.module)}: '
            f"{tensor.bytes:,} bytes at {tensor.address:#x}</title></rect>"
        )
    return _svg(_WIDTH, _HEIGHT, body, f"{len(tensors)} tensors in memory")


def scatter(points: Sequence[Point], across: str, up: str) -> str:
    """Return runs as points with the Pareto front marked; nothing for fewer than two."""
    if len(points) < 2:
        return ""
    xs, ys = [p.x for p in points], [p.y for p in points]
    wide, tall = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    body = [
        f'<text class="value" x="{_MARGIN}" y="{_HEIGHT - 4}">{escape(across)} '
        f"{min(xs):,.0f} to {max(xs):,.0f}</text>",
        f'<text class="value" x="0" y="12">{escape(up)} {min(ys):.4g} to {max(ys):.4g}</text>',
    ]
    for point in points:
        x = _MARGIN + (point.x - min(xs)) / wide * (_WIDTH - 2 * _MARGIN)
        y = 24 + (max(ys) - point.y) / tall * (_HEIGHT - 60)
        body.append(
            f'<circle class="{"best" if point.is_best else "run"}" cx="{x:.1f}" cy="{y:.1f}" '
            f'r="5"><title>run {point.number}: {point.x:,.0f} {escape(across)}, {point.y:.5g}'
            f'</title></circle><text class="value" x="{x + 8:.1f}" y="{y + 4:.1f}">'
            f"{point.number}</text>"
        )
    return _svg(_WIDTH, _HEIGHT, body, f"{len(points)} runs")


Result = TypeVar("Result", bound=Frozen)


@dataclass(frozen=True)
class ModuleCost:
    """Cost of the operations of one module on the NPU; estimated."""

    name: str
    cycles: int
    macs: int
    share: float


@dataclass(frozen=True)
class RuleRow:
    """One rule, and the number of modules it decides; None before the first export."""

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
    """The data of the report; None for stages without a result."""

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
    forms: tuple[FormComparison, ...]
    answers: Answers | None
    outcome: tuple[Answer, ...]
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

    @property
    def gate(self) -> GateResult | None:
        """Whether the program is compiled correctly."""
        return self.answers.gate if self.answers is not None else None

    @property
    def proofs(self) -> tuple[KeptProof, ...]:
        """With which firmware this very program was proven on the emulated board."""
        return proofs_of_package(self.package.files) if self.package is not None else ()

    @property
    def accuracy(self) -> AccuracyResult | None:
        """Whether the program is accurate enough."""
        return self.answers.accuracy if self.answers is not None else None


def _forms(planned: Plan, cache: Cache) -> tuple[FormComparison, ...]:
    """Return the comparisons of the forms of the network with the model, in their order."""
    results = (
        _load(ExportResult, "export", planned, cache),
        _load(CalibrateResult, "calibrate", planned, cache),
        _load(ConvertResult, "convert", planned, cache),
        _load(EvaluateResult, "evaluate", planned, cache),
    )
    return tuple(form for result in results if result is not None for form in result.compared)


def gathered(opened: OpenProject, cache: Cache) -> Findings:
    """Return the data of a project.

    Raises:
        WorkbenchError: a file of the project is missing.
    """
    project, planned = opened.project, _verified(plan(opened, cache), cache)
    lower = _load(LowerResult, "lower", planned, cache)
    runs = _history(opened.path) if opened.path else []
    fitting = _fit(opened, planned, cache) if lower else None
    best = frozenset(front_of(runs))
    plotted = [(run, point_of(run)) for run in runs]
    target = target_of(project.target.id)
    stages = [s for s in ("evaluate", "lower", "verify", "package") if s in target.stages]
    answers = _answers(project, planned, cache) if "verify" in target.stages else None
    return Findings(
        missing=tuple(s.title for s in STAGES if s.id in stages and not _done(s.id, planned)),
        emulation=target.emulation,
        versions=dict(planned.tools),
        rules=tuple(_rules(project, planned, cache)),
        model=_load(ImportResult, "import_model", planned, cache),
        export=_load(ExportResult, "export", planned, cache),
        calibrate=_load(CalibrateResult, "calibrate", planned, cache),
        evaluate=_load(EvaluateResult, "evaluate", planned, cache),
        lower=lower,
        verify=_load(VerifyResult, "verify", planned, cache),
        forms=_forms(planned, cache),
        answers=answers,
        outcome=_outcome(project, planned, cache, fitting),
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


def _outcome(project: Project, planned: Plan, cache: Cache, fit: Fit | None) -> tuple[Answer, ...]:
    """Return the answers of the outcome page that are known."""

    def load(kind: type[Result], stage: StageId) -> Result | None:
        return _load(kind, stage, planned, cache)

    return tuple(answer for answer in outcome_page(project, load, fit) if answer.bars)


def _answers(project: Project, planned: Plan, cache: Cache) -> Answers:
    def load(kind: type[Result], stage: StageId) -> Result | None:
        return _load(kind, stage, planned, cache)

    return answers_of(project, load)


def _verified(planned: Plan, cache: Cache) -> Plan:
    """Return the plan in which only results whose files have the stored digests are cached."""
    stages = tuple(
        replace(stage, state="stale") if stage.state == "cached" and not cache.verify(stage.key) else stage
        for stage in planned.stages
    )
    return replace(planned, stages=stages)


def _fit(opened: OpenProject, planned: Plan, cache: Cache) -> Fit | None:
    """Return how the program fits the project's board; None if there is no usable board."""
    try:
        return of_results(opened, cache.folder(planned.key("lower")))
    except (OSError, WorkbenchError):
        return None


def _done(stage_id: StageId, planned: Plan) -> bool:
    return planned.of(stage_id).state == "cached"


def _load(kind: type[Result], stage_id: StageId, planned: Plan, cache: Cache) -> Result | None:
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
            rule.kind.replace("_", " "),
            rule.match,
            project.label_of(rule),
            rule.enabled,
            None if wins is None else wins.get(rule.id, 0),
        )
        for rule in project.rules
    ]


def _modules(lower: LowerResult) -> list[ModuleCost]:
    cycles: dict[str, int] = {}
    macs: dict[str, int] = {}
    for report in lower.vela:
        for operation in report.operations:
            cycles[operation.module] = cycles.get(operation.module, 0) + operation.cycles
            macs[operation.module] = macs.get(operation.module, 0) + operation.macs
    total = sum(cycles.values()) or 1
    costs = [
        ModuleCost(name, cycles_of_module, macs[name], cycles_of_module / total)
        for name, cycles_of_module in cycles.items()
    ]
    return sorted(costs, key=lambda module: -module.cycles)


def _history(path: Path) -> list[Run]:
    file = history_path(path)
    if not file.exists():
        return []
    history = History(file)
    try:
        return history.runs()
    finally:
        history.close()


@functools.cache
def _template() -> Template:
    """Return the template of the page; compiling it takes longer than filling it in."""
    environment = Environment(
        loader=FileSystemLoader(resources() / "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    environment.filters["kib"] = _kib
    return environment.get_template("page.html")


def page(opened: OpenProject, cache: Cache) -> str:
    """Return the page; stages that were not run are listed as missing.

    Args:
        opened: The project; the history beside its file is included.
        cache: Cache of results; nothing is computed.

    Raises:
        WorkbenchError: a file of the project is missing.
    """
    facts = gathered(opened, cache)
    return _template().render(
        found=facts,
        project=opened.project,
        pictures=_pictures(facts),
        memories=_memories(facts),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _pictures(findings: Findings) -> dict[str, str]:
    """Return the drawings by name; empty ones have no data."""
    pictures = dict.fromkeys(("ranges", "layers", "modules", "histogram", "runs"), "")
    if findings.calibrate:
        activations = [r for r in findings.calibrate.ranges if r.kind == "activation"]
        pictures["ranges"] = bands(activations)
    if findings.evaluate:
        pictures["layers"] = bars(
            [(t.tensor, t.sqnr_db) for t in findings.evaluate.tensors if t.sqnr_db is not None], "SQNR [dB]"
        )
    if findings.lower and findings.lower.exported is None:
        pictures["modules"] = bars(
            [(m.name or "(whole model)", float(m.cycles)) for m in findings.modules[:40]], "cycles"
        )
    if findings.verify and not findings.verify.runtime:
        counts = sorted(findings.verify.histogram.items())
        pictures["histogram"] = bars(
            [(f"{k:+d} LSB" if k else "equal", float(v)) for k, v in counts], "elements"
        )
    pictures["runs"] = scatter(findings.points, "cycles", findings.accuracy_name)
    return pictures


def _memories(findings: Findings) -> list[tuple[str, int, str]]:
    """Return a drawing per memory of each delegate: name, peak [bytes], drawing."""
    pictures = []
    for report in findings.lower.vela if findings.lower else ():
        for name in dict.fromkeys(tensor.memory for tensor in report.tensors):
            tensors = [tensor for tensor in report.tensors if tensor.memory == name]
            peak = max(tensor.address + tensor.bytes for tensor in tensors)
            title = name if report.delegate == 0 else f"{name}, delegate {report.delegate}"
            pictures.append((title, peak, memory(tensors)))
    return pictures


def _figure(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _kib(value: float | None) -> str:
    return "-" if value is None else f"{value / 1024:,.1f} KiB"
