"""Table of jobs, newest first."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt

from ui.shared.chip import AnyIndex
from ui.shared.labels import literal
from ui.shared.row_table import RowTableModel
from ui.state.jobs import Job, duration

KEPT = 200
STATE_WORDS = {
    "waiting": "waiting",
    "running": "running",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "crashed": "engine exited",
}


class Column(IntEnum):
    """Columns of the table."""

    JOB = 0
    STATE = 1
    PROGRESS = 2
    ELAPSED = 3
    REMAINING = 4


TITLES = ("Job", "State", "Progress", "Elapsed", "Remaining")
JOB_ROLE = Qt.ItemDataRole.UserRole + 1


class JobTableModel(RowTableModel[Job]):
    """The jobs of this window."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(TITLES, parent)

    def update_job(self, job: Job) -> None:
        """Update the row of a job."""
        for row, known in enumerate(self._rows):
            if known.id == job.id:
                self._rows[row] = job
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(Column) - 1))
                return
        self.beginInsertRows(QModelIndex(), 0, 0)
        self._rows.insert(0, job)
        self.endInsertRows()
        if len(self._rows) > KEPT:
            self.beginRemoveRows(QModelIndex(), KEPT, len(self._rows) - 1)
            del self._rows[KEPT:]
            self.endRemoveRows()

    def tick(self) -> None:
        """Update the elapsed time of running jobs."""
        for row, job in enumerate(self._rows):
            if job.state == "running":
                first = self.index(row, Column.ELAPSED)
                self.dataChanged.emit(first, self.index(row, Column.REMAINING))

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        job = self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return _text(job, Column(index.column()))
        if role == Qt.ItemDataRole.ToolTipRole:
            return literal(job.message or job.title)
        if role == JOB_ROLE:
            return job
        return None


def _text(job: Job, column: Column) -> str:
    match column:
        case Column.JOB:
            return job.title
        case Column.STATE:
            doing = job.stage_title if job.state == "running" else ""
            return doing or STATE_WORDS[job.state]
        case Column.PROGRESS:
            if job.state == "running" and job.progress is not None:
                return f"{job.progress:.0%}"
            return job.message if job.over else ""
        case Column.ELAPSED:
            return duration(job.elapsed_s) if job.began is not None else ""
        case Column.REMAINING:
            return duration(job.remaining_s)
