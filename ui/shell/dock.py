"""A dock widget with a slim title bar, hidden while the dock is in a tab group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QEvent, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QHBoxLayout,
    QMainWindow,
    QMenu,
    QScrollArea,
    QTabBar,
    QToolButton,
    QWidget,
)

from ui.shared.labels import Label, literal
from ui.shared.tab_order import move_focus, reading_order
from ui.shared.theme import Theme, icon

if TYPE_CHECKING:
    from ui.shared.panel import Panel

TITLE_PX = 26
# How far a floating dock is from its place, and how much of the window it takes at first.
_ASIDE_PX = 24
_FLOATING_SHARE = 0.6
_TAB_BUTTON_PX = 14
_TAB_TIP = "Double click: float. Right click: float or close."


class _Title(QWidget):
    """Title bar with the name and the buttons Float and Close."""

    def __init__(self, dock: Dock) -> None:
        super().__init__(dock)
        self._dock = dock
        self.setObjectName("DockTitle")
        self.setFixedHeight(TITLE_PX)
        self.floating = _tool(self, "Float")
        self.floating.clicked.connect(dock.toggle_floating)
        self.closing = _tool(self, "Close (reopen by View, Panels)")
        self.closing.clicked.connect(dock.close)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 0, 4, 0)
        layout.setSpacing(0)
        layout.addWidget(Label(dock.windowTitle(), self), 1)
        layout.addWidget(self.floating)
        layout.addWidget(self.closing)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Float the dock as its button does: Qt would leave it exactly over its place."""
        self._dock.toggle_floating()
        event.accept()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.floating.setIcon(icon("float", theme.muted))
        self.closing.setIcon(icon("close", theme.muted))


def _tool(parent: QWidget, words: str) -> QToolButton:
    button = QToolButton(parent)
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
        content_asked: the dock is visible and has no panel yet.
        closed: the user closed it.
    """

    content_asked = Signal()
    closed = Signal()

    def __init__(
        self,
        name: str,
        title: str,
        make: Callable[[QWidget], Panel],
        parent: QMainWindow,
        theme: Callable[[], Theme],
        *,
        scrolls: bool = False,
    ) -> None:
        super().__init__(title, parent)
        self._theme = theme
        self._scrolls = scrolls
        self.setObjectName(f"dock-{name}")
        self._make = make
        self.panel: Panel | None = None
        # Whether no other dock of the workspace is shown; set by the window.
        self.is_alone = False
        self._seen = False
        # Qt's own title bar would compute its layout with each change of the window.
        self.setTitleBarWidget(self._none)
        self.visibilityChanged.connect(self._on_visibility_changed)
        self.topLevelChanged.connect(self.show_title)

    @property
    def wanting(self) -> bool:
        """Whether the dock is visible and has no panel yet. A tab behind others is not visible."""
        return self._seen and self.panel is None

    @property
    def is_in_front(self) -> bool:
        """Whether the dock is shown, and not behind others in tabs: Qt moves those outside."""
        home = self.parentWidget()
        if home is None or self.isFloating():
            return self.isVisible()
        return self.isVisible() and home.rect().intersects(self.geometry())

    def fill(self) -> Panel:
        """Return the panel, and create it if needed.

        It is created where it stays: a widget that moves gets its style again, with all its parts.
        """
        if self.panel is None:
            area = _Scrolling(self) if self._scrolls else None
            self.panel = self._make(self if area is None else area.viewport())
            if area is not None:
                area.set_panel(self.panel)
            self.setWidget(area or self.panel)
        return self.panel

    def tab_stops(self) -> list[QWidget]:
        """Return what takes the Tab key: the panel, then the buttons of the title.

        The panel itself is a stop while it has the focus because it has no control. A panel behind
        others in tabs has no stops.
        """
        if self.panel is None or not self.is_in_front:
            return []
        first: list[QWidget] = [self.panel] if self.panel.hasFocus() else []
        bar = self.titleBarWidget()
        return [*first, *reading_order(self.panel), *(reading_order(bar) if bar else [])]

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Move the focus by the Tab key: in a floating panel within it, else in the window."""
        if self.isFloating():
            return move_focus(self.tab_stops(), forward=forward)
        return super().focusNextPrevChild(forward)

    def toggle_floating(self) -> None:
        """Float the dock, or put it back into its place."""
        if self.isFloating():
            self.setFloating(False)
        else:
            self.set_afloat()

    def set_afloat(self) -> None:
        """Float the dock, a little aside of its place, so that it is seen to float.

        It stays within the window, but for a dock that is larger than the window allows.
        """
        place = QRect(self.mapToGlobal(QPoint(_ASIDE_PX, _ASIDE_PX)), self.size())
        window = self.window()
        inside = QRect(window.mapToGlobal(QPoint(0, 0)), window.size()) & window.screen().availableGeometry()
        inside.adjust(0, 0, -_ASIDE_PX, -_ASIDE_PX)
        least = self.minimumSizeHint()
        floating = [other for other in window.findChildren(Dock) if other.isFloating() and other.isVisible()]
        while any(other.pos() == place.topLeft() for other in floating):
            # The titles of both are seen.
            place.translate(_ASIDE_PX, _ASIDE_PX)
        self.setFloating(True)
        # What is behind it stays visible.
        most = inside.size() * _FLOATING_SHARE
        place = QRect(place.topLeft(), place.size().boundedTo(most)) & inside
        self.setGeometry(QRect(place.topLeft(), place.size().expandedTo(least)))

    def closeEvent(self, event: QCloseEvent) -> None:
        super().closeEvent(event)
        self.closed.emit()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        for title in self.findChildren(_Title, options=direct):
            title.set_theme(theme)

    def show_title(self, *_: object) -> None:
        """Show the title bar unless the dock is in a tab group, or fills a workspace alone."""
        window = self.parent()
        is_plain = False
        if isinstance(window, QMainWindow) and not self.isFloating():
            is_plain = self.is_alone or bool(window.tabifiedDockWidgets(self))
        content_asked = self._none if is_plain else self._title
        present = self.titleBarWidget()
        if present is not content_asked:
            self.setTitleBarWidget(content_asked)
            content_asked.show()
            if present is not None:
                present.hide()

    @cached_property
    def _title(self) -> _Title:
        title = _Title(self)
        title.set_theme(self._theme())
        return title

    @cached_property
    def _none(self) -> _NoTitle:
        return _NoTitle(self)

    def _on_visibility_changed(self, visible: bool) -> None:
        self._seen = visible
        if self.wanting:
            self.content_asked.emit()
        self.show_title()


class _Scrolling(QScrollArea):
    """Scroll area that sizes a panel to its viewport, or to its minimum size hint if larger.

    ``QScrollArea.widgetResizable`` uses the size hint and would scroll earlier for panels with
    wrapped text.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._panel: QWidget | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def set_panel(self, panel: QWidget) -> None:
        """Show a panel."""
        self._panel = panel
        self.setWidget(panel)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        if self._panel is not None:
            room = self.viewport().size()
            self._panel.resize(room.expandedTo(self._panel.minimumSizeHint()))


def arrange(home: QMainWindow, state: QByteArray) -> None:
    """Restore a layout. Hides the former tab bars, which Qt leaves on top of the new ones."""
    bars = home.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)
    before = [bar for bar in bars if not bar.isHidden()]
    home.restoreState(state)
    for bar in before:
        bar.hide()


def tab_bars(home: QMainWindow) -> dict[str, QTabBar]:
    """Return the visible tab bar above each dock that is in a tab group, by the dock's title.

    Qt replaces tab bars when docks move: do not keep them.
    """
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    bars = [bar for bar in home.findChildren(QTabBar, options=direct) if not bar.isHidden()]
    return {bar.tabText(number): bar for bar in bars for number in range(bar.count())}


def equip_tabs(home: QMainWindow, docks: Sequence[Dock], theme: Theme, *, are_closable: bool) -> None:
    """Let the tabs of docks do what the title bar does, which a dock in a tab group has not.

    A double click floats the dock, a right click offers Float and Close. With ``are_closable`` each
    tab has a button that closes its dock.
    """
    by_title = {dock.windowTitle(): dock for dock in docks}
    for bar in set(tab_bars(home).values()):
        if bar.contextMenuPolicy() != Qt.ContextMenuPolicy.CustomContextMenu:
            bar.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            bar.customContextMenuRequested.connect(partial(_show_tab_menu, bar, by_title))
            bar.tabBarDoubleClicked.connect(partial(_float_tab, bar, by_title))
        for number in range(bar.count()):
            # Qt sets the title as the tip of each new tab.
            bar.setTabToolTip(number, _TAB_TIP)
            if not are_closable:
                continue
            button = bar.tabButton(number, QTabBar.ButtonPosition.RightSide)
            dock = by_title.get(bar.tabText(number))
            if button is None and dock is not None:
                button = _tool(bar, "Close (reopen by View, Panels)")
                # Not higher than the text: a tab of another height would move the panels.
                button.setFixedSize(_TAB_BUTTON_PX, _TAB_BUTTON_PX)
                button.clicked.connect(dock.close)
                bar.setTabButton(number, QTabBar.ButtonPosition.RightSide, button)
            if isinstance(button, QToolButton):
                button.setIcon(icon("close", theme.muted))


def _show_tab_menu(bar: QTabBar, docks: Mapping[str, Dock], place: QPoint) -> None:
    dock = docks.get(bar.tabText(bar.tabAt(place)))
    if dock is not None:
        menu = QMenu(bar)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Float").triggered.connect(dock.set_afloat)
        menu.addAction("Close").triggered.connect(dock.close)
        menu.popup(bar.mapToGlobal(place))


def _float_tab(bar: QTabBar, docks: Mapping[str, Dock], number: int) -> None:
    dock = docks.get(bar.tabText(number))
    if dock is not None:
        dock.set_afloat()


def show_titles(docks: Sequence[Dock], *, is_outer: bool) -> None:
    """Show the titles of the docks of one area; a dock that is alone in a workspace needs none."""
    docked = [dock for dock in docks if not dock.isHidden() and not dock.isFloating()]
    for dock in docks:
        dock.is_alone = not is_outer and docked == [dock]
        if not dock.isHidden():
            dock.show_title()
