"""Everything above the graph: its levels, its tools, the search, the overlay, what is kept."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QHBoxLayout, QMenu, QTabBar, QToolButton, QVBoxLayout, QWidget

from ui.graph.levels import LEVELS
from ui.graph_parts.kept_queries import KeptQueries
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
SHAPES = (
    ("modules", "Groups by module"),
    ("folded", "Groups, repeated blocks folded"),
    ("flat", "No groups"),
)


class GraphBar(QWidget):
    """Three rows: levels and tools, search and overlay, and the kept searches if there are any.

    Signals:
        picture_asked: ``png`` or ``svg``.
        shape_asked: ``modules``, ``folded`` or ``flat``.
    """

    picture_asked = Signal(str)
    shape_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tabs = QTabBar(self)
        self.tabs.setAccessibleName("Level of the graph")
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        self.tabs.setUsesScrollButtons(False)
        for level in LEVELS:
            self.tabs.addTab(level.title)
            self.tabs.setTabToolTip(self.tabs.count() - 1, f"The program {level.words}")
        self.search = GraphSearch(self)
        self.overlay = OverlayBar(self)
        self.tools = {name: self._tool(words) for name, words in TOOLS}
        self.menus = {
            name: self._menu_button(name, words)
            for name, words in (
                ("nest", "Groups, folded or none"), ("beside", "Show something beside it"),
                ("bookmark", "Bookmarks"), ("save", "Save the picture"),
            )
        }  # fmt: skip
        self._fill_menus()
        self.kept = KeptQueries(self)
        self._arrange()

    @property
    def level(self) -> str:
        """The level that is chosen."""
        return LEVELS[self.tabs.currentIndex()].id

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
        rows.addWidget(self.kept)

    def _tool(self, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(words)
        button.setAccessibleName(words)
        return button

    def _menu_button(self, name: str, words: str) -> QMenu:
        button = self.tools[name] = self._tool(words)
        menu = QMenu(button)
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        return menu

    def _fill_menus(self) -> None:
        for suffix in ("png", "svg"):
            action = self.menus["save"].addAction(f"Save as {suffix.upper()}\u2026")
            action.triggered.connect(lambda _=False, s=suffix: self.picture_asked.emit(s))
        choice = QActionGroup(self)
        for shape, words in SHAPES:
            action = choice.addAction(words)
            action.setCheckable(True)
            action.setChecked(shape == SHAPES[0][0])
            action.setData(shape)
            action.triggered.connect(lambda _=False, s=shape: self.shape_asked.emit(s))
            self.menus["nest"].addAction(action)

    def render_shape(self, shape: str) -> None:
        """Show which way of grouping is on."""
        for action in self.menus["nest"].actions():
            action.setChecked(action.data() == shape)
