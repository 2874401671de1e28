"""Table of problems: message, place and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, Qt

from ui.shared import sortable_table
from ui.shared.chip import AnyIndex
from ui.shared.explanations import rule_words
from ui.shared.setting_names import in_window, setting_title
from ui.shared.sortable_table import FigureTableModel
from ui.state.session import StageView
from workbench.deploy import boards
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.graph.labels import operator_name
from workbench.ids import is_stage
from workbench.pipeline.resolution import warnings
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.project import plugins
from workbench.project.opened import OpenProject
from workbench.project.rules import Resolution
from workbench.targets import target_of
from workbench.toolchains import choice

if TYPE_CHECKING:
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.results import CpuNode, PrepareResult


@dataclass(frozen=True)
class Problem:
    """One problem and the stage or check that reported it; ``code`` is that of its ErrorInfo."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""
    where: Place | None = None
    source: str = ""
    details: str = ""
    code: str = ""


def of_info(info: ErrorInfo, source: str, severity: Literal["error", "warning"]) -> Problem:
    """Return an ``ErrorInfo`` as a problem."""
    return Problem(severity, info.message, in_window(info.hint), info.where, source, info.details, info.code)


def project_problems(
    opened: OpenProject,
    graph: GraphSnapshot | None,
    resolution: Resolution,
    prepared: PrepareResult | None = None,
) -> Iterator[Problem]:
    """Yield the problems of a project, without running anything.

    Args:
        opened: The project.
        graph: The exported graph; without it, matches are not checked and no forecasts are made.
        resolution: What the rules decide for the graph.
        prepared: The quantizer's report; no forecasts are made for operators that it left in float.
    """
    project = opened.project
    try:
        target = target_of(project.target.id)
    except WorkbenchError as error:
        yield from (of_info(info, "Target", "error") for info in error.infos)
        return
    checked = target.check(project.target, opened.folder)
    yield from (of_info(info, "Target", "error") for info in checked)
    yield from (of_info(info, "Board", "error") for info in boards.problems(opened))
    yield from (of_info(info, "Board", "warning") for info in boards.warnings_of(opened))
    yield from (of_info(info, "Project", "error") for info in choice.problems(project))
    yield from (of_info(info, "Rules", "error") for info in plugins.problems(opened))
    for rule in project.rules:
        if not rule.enabled:
            continue
        where = Place(kind="rule", id=rule.id)
        config = project.config_of(rule)
        if reason := target.refusal(project.target, config, rule.kind):
            text = f"{rule_words(rule)}: {reason}"
            yield Problem("error", text, "", where, "Rules", code="rule-not-supported")
    for info in warnings(opened, graph, resolution, prepared, rule_words):
        yield of_info(info, _source(info.where), "warning")


def _source(where: Place | None) -> str:
    """Return what a warning about a part of the project comes from."""
    if where is None or where.kind not in {"rule", "node", "option"}:
        return "Project"
    if where.kind == "option" and not where.id.startswith("target"):
        return "Project"
    return "Rules" if where.kind == "rule" else "Target"


def stage_problems(stages: Sequence[StageView]) -> Iterator[Problem]:
    """Yield why stages failed or cannot start."""
    for view in stages:
        if view.state == "failed":
            yield from (of_info(info, view.title, "error") for info in view.infos)


def on_the_cpu(nodes: Sequence[CpuNode]) -> Iterator[Problem]:
    """Yield the CPU operators and the reason. Equal operators share one row."""
    alike: dict[tuple[str, str], list[CpuNode]] = {}
    for node in nodes:
        alike.setdefault((operator_name(node.op), node.reason), []).append(node)
    for (name, reason), alike_nodes in alike.items():
        what = f"{len(alike_nodes)} {name} operators run" if len(alike_nodes) > 1 else f"{name} runs"
        where = Place(kind="node", id=alike_nodes[0].node)
        text = f"{what} on the CPU: {reason}"
        yield Problem("warning", text, "", where, "Compile", code="operator-on-cpu")


def warnings_of(texts: Sequence[str], source: str) -> Iterator[Problem]:
    """Yield the warnings of a stage."""
    for text in texts:
        yield Problem("warning", text, source=source, code="stage-warning")


class Column(IntEnum):
    """Columns of the table."""

    SEVERITY = 0
    MESSAGE = 1
    PLACE = 2
    SOURCE = 3


SEVERITY_WORDS = {"error": "Error", "warning": "Warning"}


def _place_text(problem: Problem) -> str:
    where = problem.where
    if where is None:
        return ""
    match where.kind:
        case "rule" | "module" if where.kind == "rule" or not where.id:
            return "rule" if where.kind == "rule" else "whole model"
        case "option":
            return setting_title(where.id)
        case "line":
            file, line = where.file_and_line
            return f"{Path(file).name}, line {line}"
        case "stage" if is_stage(where.id):
            return STAGES_BY_ID[where.id].title
        case _:
            return str(where)


def _describe(problem: Problem) -> str:
    return "\n".join(part for part in (problem.message, problem.hint, problem.details) if part)


PROBLEM_COLUMNS: tuple[sortable_table.Column[Problem], ...] = (
    sortable_table.Column("", lambda problem: ""),
    sortable_table.Column("Problem", lambda problem: f"{problem.message} {problem.hint}".strip()),
    sortable_table.Column("Where", _place_text),
    sortable_table.Column("From", lambda problem: problem.source),
)


class ProblemListModel(FigureTableModel[Problem]):
    """The problems, errors first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(PROBLEM_COLUMNS, _describe, parent)

    def set_problems(self, problems: Sequence[Problem]) -> None:
        """Set the problems."""
        ordered = tuple(sorted(problems, key=lambda problem: problem.severity != "error"))
        if ordered != self.rows:
            self.set_rows(ordered)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.AccessibleTextRole and index.isValid():
            problem = self._rows[index.row()]
            return f"{SEVERITY_WORDS[problem.severity]}: {problem.message}"
        return super().data(index, role)
