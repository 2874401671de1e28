"""The Jobs panel: running, queued and finished jobs."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QStackedLayout,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from ui.shared.chip import AnyIndex
from ui.shared.job_table import Column
from ui.shared.labels import Label
from ui.shared.panel import Panel, PanelContext
from ui.shared.sortable_table import Role
from ui.state.jobs import Job


class _ProgressDelegate(QStyledItemDelegate):
    """Paints a progress bar for a running job, and text for others."""

    def __init__(self, context: PanelContext, parent: QTableView) -> None:
        super().__init__(parent)
        self._context = context

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        job = index.data(Role.ROW)
        super().paint(painter, option, index)
        if not isinstance(job, Job) or job.state != "running":
            return
        theme = self._context.theme
        bar = QRectF(option.rect).adjusted(44, 0, -10, 0)
        bar.setTop(bar.center().y() - 2.5)
        bar.setHeight(5)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.border))
        painter.drawRoundedRect(bar, 2.5, 2.5)
        if job.progress is not None:
            bar.setWidth(max(5.0, bar.width() * job.progress))
            painter.setBrush(QColor(theme.accent))
            painter.drawRoundedRect(bar, 2.5, 2.5)
        painter.restore()


class JobsPanel(Panel):
    """Shows the jobs with a Cancel button, and the state of the engines."""

    panel_id = "jobs"

    def build(self) -> None:
        self._build_table()
        self.cancel = QPushButton("Cancel job", self)
        self.cancel.clicked.connect(self._on_cancel_clicked)
        self.engines = Label(self)
        self.engines.setObjectName("Hint")
        row = QHBoxLayout()
        row.setContentsMargins(8, 4, 6, 4)
        row.addWidget(self.engines, 1)
        row.addWidget(self.cancel)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        none = Label("No jobs yet. F5 runs all stages.", self)
        none.setObjectName("Hint")
        none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        body = QWidget(self)
        self._pages = QStackedLayout(body)
        self._pages.addWidget(none)
        self._pages.addWidget(self.table)
        layout.addWidget(body, 1)
        layout.addLayout(row)
        self.context.jobs.rowsInserted.connect(self._show_page)
        self._show_page()
        self.table.selectionModel().selectionChanged.connect(self._show_cancel)
        self.context.runner.job_changed.connect(self._show_cancel)
        self.context.runner.engines_changed.connect(self.refresh)
        self._clock = QTimer(self, interval=500)
        self._clock.timeout.connect(self.context.jobs.tick)

    def _build_table(self) -> None:
        self.table = QTableView(self)
        self.table.setTabKeyNavigation(False)
        self.table.setModel(self.context.jobs)
        self.table.setAccessibleName("Jobs")
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setShowGrid(False)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setDefaultSectionSize(26)
        self.table.setItemDelegateForColumn(Column.PROGRESS, _ProgressDelegate(self.context, self.table))
        header = self.table.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(Column.PROGRESS, QHeaderView.ResizeMode.Stretch)
        for column, width in ((Column.JOB, 340), (Column.STATE, 200), (Column.ELAPSED, 90)):
            header.resizeSection(column, width)

    def refresh(self) -> None:
        words = {"off": "not started", "starting": "starting\u2026", "ready": "ready"}
        runner = self.context.runner
        self.engines.setText(
            f"Interactive engine: {words[runner.engine_state('interactive')]}"
            f"     Background engine: {words[runner.engine_state('background')]}"
        )
        self._show_cancel()

    def _show_page(self, *_: object) -> None:
        self._pages.setCurrentIndex(1 if self.context.jobs.rowCount() else 0)

    def _show_cancel(self, *_: object) -> None:
        working = bool(self.context.runner.running)
        if working != self._clock.isActive():
            if working:
                self._clock.start()
            else:
                self._clock.stop()
        job = self._chosen()
        can_cancel = job is not None and not job.over
        self.cancel.setEnabled(can_cancel)
        self.cancel.setToolTip("" if can_cancel else "Select a running or queued job")

    def _chosen(self) -> Job | None:
        rows = self.table.selectionModel().selectedRows()
        if rows:
            return self.context.jobs.row_at(rows[0].row())
        running = self.context.runner.running
        return running[0] if len(running) == 1 else None

    def _on_cancel_clicked(self) -> None:
        if (job := self._chosen()) is not None:
            self.context.runner.cancel(job.id)
