"""Everything above the graph: its levels, its tools, the search and the overlay."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QTabBar, QToolButton, QVBoxLayout, QWidget

from ui.icons import icon
from ui.theme import Theme
from ui.widgets.graph_search import GraphSearch
from ui.widgets.overlay_bar import OverlayBar

TOOLS = (
    ("back", "Back to the place before (Alt+Left)"),
    ("forward", "Forward again (Alt+Right)"),
    ("fit", "Show everything (F)"),
    ("expand", "Open all groups"),
    ("collapse", "Close all groups"),
)


class GraphBar(QWidget):
    """Two rows: levels and tools, search and overlay.

    Signals:
        picture_asked: ``png`` or ``svg``.
    """

    picture_asked = Signal(str)

    def __init__(
        self, levels: Sequence[tuple[str, str, str]], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.tabs = QTabBar(self)
        self.tabs.setAccessibleName("Level of the graph")
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        self.tabs.setUsesScrollButtons(False)
        for _, title, words in levels:
            self.tabs.addTab(title)
            self.tabs.setTabToolTip(self.tabs.count() - 1, f"The program {words}")
        self.search = GraphSearch(self)
        self.overlay = OverlayBar(self)
        self.tools = {name: self._tool(words) for name, words in TOOLS}
        self.tools["save"] = self._picture_button()
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Draw the icons in the colours of a theme."""
        self.search.set_theme(theme)
        for name, button in self.tools.items():
            button.setIcon(icon(name, theme.text))

    def _arrange(self) -> None:
        first, second = QHBoxLayout(), QHBoxLayout()
        for row in (first, second):
            row.setContentsMargins(6, 2, 6, 2)
            row.setSpacing(4)
        first.addWidget(self.tabs)
        first.addStretch(1)
        for button in self.tools.values():
            first.addWidget(button)
        second.addWidget(self.search, 1)
        second.addSpacing(8)
        second.addWidget(self.overlay)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        rows.addLayout(first)
        rows.addLayout(second)

    def _tool(self, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(words)
        button.setAccessibleName(words)
        return button

    def _picture_button(self) -> QToolButton:
        button = self._tool("Save the picture")
        menu = QMenu(button)
        for suffix in ("png", "svg"):
            action = menu.addAction(f"Save as {suffix.upper()}\u2026")
            action.triggered.connect(lambda _=False, s=suffix: self.picture_asked.emit(s))
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        return button
