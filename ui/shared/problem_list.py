"""Problems as rows: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ui.shared.explanations import rule_words
from ui.state.session import StageView
from workbench.deploy import boards
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.graph.labels import operator_name
from workbench.project import plugins
from workbench.project.model import Project
from workbench.project.rules import Resolution
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.results import CpuNode


@dataclass(frozen=True)
class Problem:
    """One problem, with the stage or check it comes from."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""
    where: Place | None = None
    source: str = ""
    details: str = ""


def of_info(info: ErrorInfo, source: str, severity: Literal["error", "warning"]) -> Problem:
    """Return an error's description as a problem."""
    return Problem(severity, info.message, info.hint, info.where, source, info.details)


def project_problems(
    project: Project, folder: Path, resolution: Resolution, operators: Sequence[str]
) -> Iterator[Problem]:
    """Yield what is wrong with the target and the rules; nothing is run.

    ``operators`` are those of the exported graph; without any, matches are not judged.
    """
    try:
        target = target_of(project.target.id)
    except WorkbenchError as error:
        yield from (of_info(info, "Target", "error") for info in error.infos)
        return
    checked = target.check(project.target, folder)
    found, oddities = boards.problems(project, folder), boards.oddities(project, folder)
    own = plugins.problems(project, folder)
    yield from (of_info(info, "Target", "error") for info in checked)
    yield from (of_info(info, "Board", "error") for info in found)
    yield from (of_info(info, "Board", "warning") for info in oddities)
    yield from (of_info(info, "Rules", "error") for info in own)
    for rule in project.rules:
        if not rule.enabled:
            continue
        where = Place(kind="rule", id=rule.id)
        what = rule_words(rule)
        config = project.config_of(rule)
        if reason := target.refusal(project.target, config, rule.kind):
            yield Problem("error", f"{what}: {reason}", "", where, "Rules")
        count = resolution.counts.get(rule.id)
        if not operators or count is None:
            continue
        if count.matched == 0:
            yield Problem(
                "warning", f"{what}: the rule matches nothing.",
                "Correct its match, or delete it.", where, "Rules",
            )  # fmt: skip
        elif count.wins == 0:
            yield Problem(
                "warning", f"{what}: the rule never wins, stronger ones cover all it matches.",
                "Move it up, or delete it.", where, "Rules",
            )  # fmt: skip
        if count.wins:
            for text in target.warnings(project.target, config, operators):
                yield Problem("warning", text, "", where, "Target")


def stage_problems(stages: Sequence[StageView]) -> Iterator[Problem]:
    """Yield what made stages fail, or keeps them from starting."""
    for view in stages:
        if view.state == "failed":
            yield from (of_info(info, view.title, "error") for info in view.infos)


def on_the_cpu(nodes: Sequence[CpuNode]) -> Iterator[Problem]:
    """Yield what stays on the CPU and why: operators alike in one row, which leads to the first."""
    alike: dict[tuple[str, str], list[CpuNode]] = {}
    for node in nodes:
        alike.setdefault((operator_name(node.op), node.reason), []).append(node)
    for (name, reason), found in alike.items():
        what = f"{len(found)} operators {name} stay" if len(found) > 1 else f"{name} stays"
        where = Place(kind="node", id=found[0].node)
        yield Problem("warning", f"{what} on the CPU: {reason}", "", where, "Lower")


def warnings_of(texts: Sequence[str], source: str) -> Iterator[Problem]:
    """Yield a stage's own warnings."""
    for text in texts:
        yield Problem("warning", text, source=source)


AnyIndex = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()


class Column(IntEnum):
    """Columns of the table."""

    SEVERITY = 0
    MESSAGE = 1
    PLACE = 2
    SOURCE = 3


TITLES = ("", "Problem", "Where", "From")
PROBLEM_ROLE = Qt.ItemDataRole.UserRole + 1
SEVERITY_WORDS = {"error": "Error", "warning": "Warning"}


class ProblemListModel(QAbstractTableModel):
    """The present problems, errors first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._problems: list[Problem] = []

    def set_problems(self, problems: Sequence[Problem]) -> None:
        """Show other problems."""
        ordered = sorted(problems, key=lambda problem: problem.severity != "error")
        if ordered == self._problems:
            return
        self.beginResetModel()
        self._problems = ordered
        self.endResetModel()

    def problem_at(self, row: int) -> Problem | None:
        """Return the problem in a row."""
        return self._problems[row] if 0 <= row < len(self._problems) else None

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._problems)

    def columnCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(Column)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return TITLES[section]
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        problem = self._problems[index.row()]
        value: Any = None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                value = _text(problem, Column(index.column()))
            case Qt.ItemDataRole.ToolTipRole:
                parts = (problem.message, problem.hint, problem.details)
                value = "\n".join(part for part in parts if part)
            case Qt.ItemDataRole.AccessibleTextRole:
                value = f"{SEVERITY_WORDS[problem.severity]}: {problem.message}"
            case _ if role == PROBLEM_ROLE:
                value = problem
        return value


def _text(problem: Problem, column: Column) -> str:
    match column:
        case Column.SEVERITY:
            return ""
        case Column.MESSAGE:
            return f"{problem.message} {problem.hint}".strip()
        case Column.PLACE:
            where = problem.where
            return "" if where is None else "rule" if where.kind == "rule" else str(where)
        case Column.SOURCE:
            return problem.source
