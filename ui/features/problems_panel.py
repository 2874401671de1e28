"""The Problems panel: all problems with their places."""

from __future__ import annotations

from PySide6.QtCore import QIdentityProxyModel, Qt
from PySide6.QtGui import QGuiApplication, QIcon, QKeySequence, QShortcut
from PySide6.QtWidgets import QHeaderView, QStackedLayout, QTableView, QVBoxLayout, QWidget

from ui.shared.chip import AnyIndex
from ui.shared.labels import Label
from ui.shared.panel import Panel
from ui.shared.problem_list import Column, Problem
from ui.shared.sortable_table import Role
from ui.shared.theme import Theme, icon


class _WithIcons(QIdentityProxyModel):
    """Adds an icon for the severity."""

    def __init__(self, parent: ProblemsPanel) -> None:
        super().__init__(parent)
        self._icons: dict[str, QIcon] = {}

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self._icons = {"error": icon("error", theme.bad), "warning": icon("warning", theme.warning)}

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if role == Qt.ItemDataRole.DecorationRole and index.column() == Column.SEVERITY:
            problem = super().data(index, Role.ROW)
            return self._icons.get(problem.severity) if isinstance(problem, Problem) else None
        return super().data(index, role)


class ProblemsPanel(Panel):
    """Shows the problems. A click shows the place, a double-click the setting to change."""

    panel_id = "problems"

    def build(self) -> None:
        self._marked = _WithIcons(self)
        self._marked.setSourceModel(self.context.problems)
        self.table = QTableView(self)
        # No toast covers it.
        self.table.setProperty("keepClear", True)
        self.table.setTabKeyNavigation(False)
        self.table.setModel(self._marked)
        self.table.setAccessibleName("Problems")
        self.table.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.table.setShowGrid(False)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setMinimumSectionSize(26)
        self.table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header = self.table.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(Column.MESSAGE, QHeaderView.ResizeMode.Stretch)
        for column, width in ((Column.SEVERITY, 28), (Column.PLACE, 240), (Column.SOURCE, 90)):
            header.resizeSection(column, width)
        self.table.clicked.connect(self._on_row_clicked)
        self.table.activated.connect(self._on_row_chosen)
        copy = QShortcut(QKeySequence.StandardKey.Copy, self.table)
        copy.setContext(Qt.ShortcutContext.WidgetShortcut)
        copy.activated.connect(self._on_copy)
        self._none = Label("No problems.", self)
        self._none.setObjectName("Hint")
        self._none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._none)
        self._stack.addWidget(self.table)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(body)
        self.context.problems.modelReset.connect(self.refresh)

    def refresh(self) -> None:
        self._stack.setCurrentIndex(1 if self.context.problems.rowCount() else 0)

    def set_theme(self, theme: Theme) -> None:
        self._marked.set_theme(theme)
        self.table.viewport().update()

    def _on_row_clicked(self, index: AnyIndex) -> None:
        """Show the place of a problem. Settings and code open a dialog, which takes a double-click."""
        problem = self.context.problems.row_at(index.row())
        where = problem.where if problem is not None else None
        if where is not None and where.kind not in {"option", "line"}:
            self._on_row_chosen(index)

    def _on_row_chosen(self, index: AnyIndex) -> None:
        problem = self.context.problems.row_at(index.row())
        if problem is not None and problem.where is not None:
            self.context.notices.place_asked.emit(problem.where)

    def _on_copy(self) -> None:
        problem = self.context.problems.row_at(self.table.currentIndex().row())
        if problem is not None:
            parts = (problem.message, problem.hint, str(problem.where or ""), problem.details)
            QGuiApplication.clipboard().setText("\n".join(part for part in parts if part))
