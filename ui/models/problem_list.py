"""Problems as rows: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ui.problems import Problem

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
