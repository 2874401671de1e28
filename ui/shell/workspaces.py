"""The workspaces: one area of panels for each, and the rail of icons that switches them."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QMainWindow,
    QSizePolicy,
    QStackedWidget,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.labels import literal
from ui.shared.theme import Theme, icon
from ui.shell.panels import WORKSPACES, WorkspaceId

_RAIL_PX = 76


class Rail(QWidget):
    """A column with a button for every workspace.

    Signals:
        chosen: id of the workspace to show.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.buttons: dict[WorkspaceId, QToolButton] = {}
        self._group = QButtonGroup(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 2, 0, 2)
        layout.setSpacing(2)
        for number, row in enumerate(WORKSPACES):
            button = QToolButton(self)
            button.setObjectName("RailButton")
            button.setText(row.title)
            button.setToolTip(literal(f"{row.title}: {row.purpose} (Ctrl+{number})"))
            button.setAccessibleName(f"Workspace {row.title}")
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
            button.setIconSize(QSize(18, 18))
            button.setCheckable(True)
            button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            button.clicked.connect(partial(self._on_clicked, row.id))
            self._group.addButton(button)
            self.buttons[row.id] = button
            layout.addWidget(button)
        layout.addStretch(1)
        self.setFixedWidth(_RAIL_PX)

    def set_current(self, workspace: WorkspaceId) -> None:
        """Mark a workspace as shown. Its button takes the Tab key, arrow keys reach the others."""
        self.buttons[workspace].setChecked(True)
        for name, button in self.buttons.items():
            takes = Qt.FocusPolicy.TabFocus if name == workspace else Qt.FocusPolicy.NoFocus
            button.setFocusPolicy(takes)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for row in WORKSPACES:
            self.buttons[row.id].setIcon(icon(row.icon, theme.text))

    def _on_clicked(self, workspace: WorkspaceId) -> None:
        self.chosen.emit(workspace)


class Workspaces(QStackedWidget):
    """The areas of the workspaces; each holds docks of its own.

    Signals:
        changed: id of the workspace that is shown now.
    """

    changed = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.homes: dict[WorkspaceId, QMainWindow] = {}
        for row in WORKSPACES:
            home = QMainWindow(self)
            # Qt makes every main window a window of its own.
            home.setWindowFlags(Qt.WindowType.Widget)
            home.setObjectName("CenterArea")
            home.setDockNestingEnabled(True)
            home.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
            self.homes[row.id] = home
            self.addWidget(home)
        self.setCurrentWidget(self.homes["model"])

    @property
    def current(self) -> WorkspaceId:
        """The workspace that is shown."""
        return WORKSPACES[self.currentIndex()].id

    def show_workspace(self, workspace: WorkspaceId) -> None:
        """Show a workspace."""
        self.setCurrentWidget(self.homes[workspace])
        self.changed.emit(workspace)


class SlotWidget(QWidget):
    """The slot of one part of the window. ``height`` is in pixels; None lets it stretch."""

    def __init__(self, parent: QWidget, height: int | None = None) -> None:
        super().__init__(parent)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        if height is not None:
            self.setFixedHeight(height)

    def fill(self, part: QWidget) -> None:
        """Show the part."""
        self._layout.addWidget(part)
