"""A dock widget with a slim title bar, hidden while the dock is in a tab group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from PySide6.QtCore import QByteArray, QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QHBoxLayout,
    QMainWindow,
    QScrollArea,
    QTabBar,
    QToolButton,
    QWidget,
)

from ui.shared.labels import Label, literal
from ui.shared.theme import Theme, icon

TITLE_PX = 26
# Widgets in a row of this height stand beside each other; a row is narrower than this.
_ROW_PX, _FAR = 40, 100_000


class _Title(QWidget):
    """Title bar with the name and the buttons Float and Close."""

    def __init__(self, dock: QDockWidget) -> None:
        super().__init__(dock)
        self.setObjectName("DockTitle")
        self.setFixedHeight(TITLE_PX)
        self.floating = self._tool("Float")
        self.floating.clicked.connect(lambda: dock.setFloating(not dock.isFloating()))
        self.closing = self._tool("Close (reopen from the View menu)")
        self.closing.clicked.connect(dock.close)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 0, 4, 0)
        layout.setSpacing(0)
        layout.addWidget(Label(dock.windowTitle(), self), 1)
        layout.addWidget(self.floating)
        layout.addWidget(self.closing)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.floating.setIcon(icon("float", theme.muted))
        self.closing.setIcon(icon("close", theme.muted))

    def _tool(self, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(literal(words))
        button.setAccessibleName(words)
        button.setIconSize(QSize(12, 12))
        return button


class _NoTitle(QWidget):
    """Empty title bar of size 0."""

    def sizeHint(self) -> QSize:
        return QSize(0, 0)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)


class Dock(QDockWidget):
    """Holds one panel, which is created when the dock is first visible.

    Signals:
        wanted: the dock is visible and has no panel yet.
    """

    wanted = Signal()

    def __init__(
        self, name: str, title: str, make: Callable[[], QWidget], parent: QMainWindow, *,
        scrolls: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(title, parent)
        self._scrolls = scrolls
        self.setObjectName(f"dock-{name}")
        self._make = make
        self.panel: QWidget | None = None
        # Whether no other dock of the workspace is shown; set by the window.
        self.is_alone = False
        self._seen = False
        self._title = _Title(self)
        self._none = _NoTitle(self)
        self.setTitleBarWidget(self._title)
        self.visibilityChanged.connect(self._on_visibility_changed)
        self.topLevelChanged.connect(self.show_title)
        self.dockLocationChanged.connect(self.show_title)

    @property
    def wanting(self) -> bool:
        """Whether the dock is visible and has no panel yet. A tab behind others is not visible."""
        return self._seen and self.panel is None

    def fill(self) -> QWidget:
        """Return the panel, and create it if needed."""
        if self.panel is None:
            self.panel = self._make()
            self.setWidget(_Scrolling(self.panel) if self._scrolls else self.panel)
        return self.panel

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self._title.set_theme(theme)

    def show_title(self, *_: object) -> None:
        """Show the title bar unless the dock is in a tab group, or fills a workspace alone."""
        window = self.parent()
        is_plain = False
        if isinstance(window, QMainWindow) and not self.isFloating():
            is_plain = self.is_alone or bool(window.tabifiedDockWidgets(self))
        wanted = self._none if is_plain else self._title
        if self.titleBarWidget() is not wanted:
            self.setTitleBarWidget(wanted)
            self._title.setVisible(wanted is self._title)

    def _on_visibility_changed(self, visible: bool) -> None:
        self._seen = visible
        if self.wanting:
            self.wanted.emit()
        self.show_title()


class _Scrolling(QScrollArea):
    """Scroll area that sizes a panel to its viewport, or to its minimum size hint if larger.

    ``QScrollArea.widgetResizable`` uses the size hint and would scroll earlier for panels with
    wrapped text.
    """

    def __init__(self, panel: QWidget) -> None:
        super().__init__()
        self._panel = panel
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(panel)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        self._panel.resize(self.viewport().size().expandedTo(self._panel.minimumSizeHint()))


def arrange(home: QMainWindow, state: QByteArray) -> None:
    """Restore a layout. Hides the former tab bars, which Qt leaves on top of the new ones."""
    bars = home.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)
    before = [bar for bar in bars if not bar.isHidden()]
    home.restoreState(state)
    for bar in before:
        bar.hide()


def next_by_tab(
    window: QMainWindow, regions: Sequence[QWidget], by_place: Collection[QWidget], *,
    forwards: bool,
) -> QWidget | None:  # fmt: skip
    """Return where the Tab key goes from the widget with the focus: through region after region.

    Inside a region widgets follow in the order in which they were made, its tabs first and its
    buttons of the title last; the widgets of ``by_place`` go from left to right. The order is
    computed for every key, because panels make their contents when they have something to show.
    """
    chain: list[tuple[tuple[int, int, int], QWidget]] = []
    for widget in window.findChildren(QWidget):
        is_reached = widget.isVisible() and widget.isEnabled() and widget.focusProxy() is None
        if not is_reached or not widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            continue
        place = next((k for k, r in enumerate(regions) if r.isAncestorOf(widget)), len(regions))
        rank, left = 1, 0
        if isinstance(widget.parent(), _Title):
            rank = 2
        elif isinstance(widget, QTabBar) and isinstance(widget.parent(), QMainWindow):
            if widget.visibleRegion().isEmpty():
                continue
            rank, place = 0, _place_of_tabs(widget, regions, place)
        elif place < len(regions) and regions[place] in by_place:
            corner = widget.mapTo(window, widget.rect().topLeft())
            left = corner.x() + _FAR * (corner.y() // _ROW_PX)
        chain.append(((place, rank, left), widget))
    chain.sort(key=lambda each: each[0])
    widgets = [widget for _, widget in chain]
    if not widgets:
        return None
    present = window.focusWidget()
    if present is None or present not in widgets:
        return widgets[0 if forwards else -1]
    return widgets[(widgets.index(present) + (1 if forwards else -1)) % len(widgets)]


def _place_of_tabs(bar: QTabBar, regions: Sequence[QWidget], place: int) -> int:
    """Return the place of the docks whose tabs these are."""
    window = bar.parent()
    titles = {bar.tabText(number) for number in range(bar.count())}
    for number, region in enumerate(regions):
        is_here = isinstance(region, QDockWidget) and region.parent() is window
        if is_here and region.windowTitle() in titles:
            return number
    return place
