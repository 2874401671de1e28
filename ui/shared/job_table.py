"""Table of jobs, newest first."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ui.shared.labels import literal
from ui.state.jobs import Job, duration

AnyIndex = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
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


class JobTableModel(QAbstractTableModel):
    """The jobs of this window."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: list[Job] = []

    def update_job(self, job: Job) -> None:
        """Update the row of a job."""
        for row, known in enumerate(self._jobs):
            if known.id == job.id:
                self._jobs[row] = job
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(Column) - 1))
                return
        self.beginInsertRows(QModelIndex(), 0, 0)
        self._jobs.insert(0, job)
        self.endInsertRows()
        if len(self._jobs) > KEPT:
            self.beginRemoveRows(QModelIndex(), KEPT, len(self._jobs) - 1)
            del self._jobs[KEPT:]
            self.endRemoveRows()

    def tick(self) -> None:
        """Update the elapsed time of running jobs."""
        for row, job in enumerate(self._jobs):
            if job.state == "running":
                first = self.index(row, Column.ELAPSED)
                self.dataChanged.emit(first, self.index(row, Column.REMAINING))

    def job_at(self, row: int) -> Job | None:
        """Return the job in a row."""
        return self._jobs[row] if 0 <= row < len(self._jobs) else None

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._jobs)

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
        job = self._jobs[index.row()]
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
