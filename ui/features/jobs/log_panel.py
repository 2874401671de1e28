"""The Log panel: output of the engines and their tools."""

from __future__ import annotations

from PySide6.QtCore import QSortFilterProxyModel, Qt
from PySide6.QtGui import QFontDatabase, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.chip import AnyIndex, LineDelegate
from ui.shared.labels import Label, literal
from ui.shared.log_lines import Role
from ui.shared.panel import Panel
from ui.shared.theme import Theme, icon

LEVELS = ("debug", "info", "warning", "error")


class _LevelFilter(QSortFilterProxyModel):
    """Filters lines by level and text."""

    def __init__(self, parent: Panel) -> None:
        super().__init__(parent)
        self._least = 0

    def set_least(self, level: int) -> None:
        """Set the minimum level."""
        self.beginFilterChange()
        self._least = level
        self.endFilterChange()

    def filterAcceptsRow(self, row: int, parent: AnyIndex) -> bool:
        index = self.sourceModel().index(row, 0, parent)
        level = str(index.data(Role.LEVEL))
        return LEVELS.index(level) >= self._least and super().filterAcceptsRow(row, parent)


class LogPanel(Panel):
    """Shows the log lines with filters."""

    panel_id = "log"

    def build(self) -> None:
        self._proxy = _LevelFilter(self)
        self._proxy.setSourceModel(self.context.log)
        self._proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.view = QListView(self)
        self.view.setModel(self._proxy)
        self.view.setAccessibleName("Log")
        self.view.setUniformItemSizes(True)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        self.view.setFont(font)
        self.view.setItemDelegate(LineDelegate(lambda: self.context.theme, Role.LEVEL, self.view))
        self._proxy.rowsInserted.connect(self._on_rows_inserted)
        copy = QShortcut(QKeySequence.StandardKey.Copy, self.view)
        copy.setContext(Qt.ShortcutContext.WidgetShortcut)
        copy.activated.connect(self._on_copy)
        self._build_bar()

    def set_theme(self, theme: Theme) -> None:
        self.follow.setIcon(icon("follow", theme.text))
        self.copy.setIcon(icon("copy", theme.text))
        self.clear.setIcon(icon("delete", theme.text))
        self.view.viewport().update()

    def _build_bar(self) -> None:
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText("Filter log")
        self.filter.setAccessibleName("Filter log")
        self.filter.setClearButtonEnabled(True)
        self.filter.textEdited.connect(self._proxy.setFilterFixedString)
        self.level = QComboBox(self)
        self.level.setAccessibleName("Minimum level")
        self.level.addItems(["All levels", "Info and above", "Warnings and errors", "Errors"])
        self.level.activated.connect(self._proxy.set_least)
        self.follow = self._tool("Scroll to new lines", lambda: None)
        self.follow.setCheckable(True)
        self.follow.setChecked(True)
        self.follow.clicked.connect(self._on_follow_clicked)
        self.copy = self._tool("Copy the selected lines, or all", self._on_copy)
        self.clear = self._tool("Clear the log", self.context.log.clear)
        row = QHBoxLayout()
        row.setContentsMargins(6, 4, 6, 4)
        row.setSpacing(6)
        row.addWidget(self.filter, 1)
        row.addWidget(self.level)
        for button in (self.follow, self.copy, self.clear):
            row.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        none = Label("The log is empty. Engines and tools write here while they work.", self)
        none.setObjectName("Hint")
        none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        body = QWidget(self)
        self._pages = QStackedLayout(body)
        self._pages.addWidget(none)
        self._pages.addWidget(self.view)
        layout.addLayout(row)
        layout.addWidget(body, 1)
        for changed in (self.context.log.rowsInserted, self.context.log.modelReset):
            changed.connect(self._show_page)
        self._show_page()

    def _show_page(self, *_: object) -> None:
        self._pages.setCurrentIndex(1 if self.context.log.rowCount() else 0)

    def _tool(self, words: str, act: object) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(literal(words))
        button.setAccessibleName(words)
        button.clicked.connect(act)
        return button

    def _on_rows_inserted(self) -> None:
        if self.follow.isChecked():
            self.view.scrollToBottom()

    def _on_follow_clicked(self) -> None:
        if self.follow.isChecked():
            self.view.scrollToBottom()

    def _on_copy(self) -> None:
        rows = sorted(i.row() for i in self.view.selectionModel().selectedRows())
        rows = rows or list(range(self._proxy.rowCount()))
        lines = (str(self._proxy.index(row, 0).data()) for row in rows)
        QGuiApplication.clipboard().setText("\n".join(lines))
