"""Table of jobs, newest first."""

from __future__ import annotations

from enum import IntEnum

from PySide6.QtCore import QModelIndex, QObject

from ui.shared import sortable_table
from ui.shared.sortable_table import FigureTableModel
from ui.state.jobs import Job, duration

MAX_JOBS = 200
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


def _state(job: Job) -> str:
    doing = job.stage_title if job.state == "running" else ""
    return doing or ("paused" if _is_paused(job) else STATE_WORDS[job.state])


def _is_paused(job: Job) -> bool:
    return job.paused and job.state == "cancelled"


def _progress(job: Job) -> str:
    if job.state == "running" and job.progress is not None:
        return f"{100 * job.progress:.0f} %"
    return job.message if job.over and not _is_paused(job) else ""


JOB_COLUMNS: tuple[sortable_table.Column[Job], ...] = (
    sortable_table.Column("Job", lambda job: job.title),
    sortable_table.Column("State", _state),
    sortable_table.Column("Progress", _progress),
    sortable_table.Column("Elapsed", lambda job: duration(job.elapsed_s) if job.began is not None else ""),
    sortable_table.Column("Remaining", lambda job: duration(job.remaining_s)),
)


class JobTableModel(FigureTableModel[Job]):
    """The jobs of this window, newest first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(JOB_COLUMNS, lambda job: job.message or job.title, parent)

    def update_job(self, job: Job) -> None:
        """Update the row of a job."""
        for row, known in enumerate(self._rows):
            if known.id == job.id:
                self._rows = (*self._rows[:row], job, *self._rows[row + 1 :])
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(Column) - 1))
                return
        self.beginInsertRows(QModelIndex(), 0, 0)
        self._rows = (job, *self._rows)
        self._arrange()
        self.endInsertRows()
        if len(self._rows) > MAX_JOBS:
            self.beginRemoveRows(QModelIndex(), MAX_JOBS, len(self._rows) - 1)
            self._rows = self._rows[:MAX_JOBS]
            self._arrange()
            self.endRemoveRows()

    def tick(self) -> None:
        """Update the elapsed time of running jobs."""
        for row, job in enumerate(self._rows):
            if job.state == "running":
                first = self.index(row, Column.ELAPSED)
                self.dataChanged.emit(first, self.index(row, Column.REMAINING))
