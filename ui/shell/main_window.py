"""The main window: bars, workspaces and docks from the panel table, menus from the action table.

Its frame is painted before most of the program is imported: imports of this module stay light.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QKeySequence,
    QPaintEvent,
    QUndoStack,
)
from PySide6.QtWidgets import QMainWindow, QMenu, QPushButton, QStackedWidget, QTabWidget, QToolBar, QWidget

from ui.shared.labels import Label
from ui.shared.tab_order import move_focus, reading_order
from ui.shared.theme import Theme, icon
from ui.shell.actions import ACTIONS, LINE, MENUS, CommandPalette
from ui.shell.dock import Dock, arrange, equip_tabs, show_titles, tab_bars
from ui.shell.panels import FIRST, PANELS, RUN_BAR_PX, SCOREBOARD_PX, WORKSPACES, PanelRow, WorkspaceId
from ui.shell.workspaces import Rail, SlotWidget, Workspaces
from workbench.pipeline.stages import STAGES

if TYPE_CHECKING:
    from ui.shared.appearance import Appearance
    from ui.shared.panel import Panel, PanelContext, PanelId
    from ui.state.scores import Scores

AREAS: dict[str, Qt.DockWidgetArea] = {
    "left": Qt.DockWidgetArea.LeftDockWidgetArea,
    "right": Qt.DockWidgetArea.RightDockWidgetArea,
    "bottom": Qt.DockWidgetArea.BottomDockWidgetArea,
}
NAME = "Quantization Workbench"
SIZE = (1600, 1000)
LEAST = QSize(840, 470)
# What a window manager draws around a window: a title, and borders [px].
_FRAME = QSize(8, 40)
# Below this height the panels at the left are stacked, below this width those of both sides.
_LOW_PX, _NARROW_PX = 600, 960
# Least and largest width of the left side at first, and its width with the tabs of both sides.
_SIDE_PX, _WIDE_SIDE_PX, _STACKED_PX = 240, 380, 280
DRAWER: tuple[PanelId, ...] = ("problems", "jobs", "log")
# Parts of a saved layout beside the state of each area.
_CURRENT, _WITHHELD, _COLLAPSED = "workspace", "withheld", "collapsed"


class MainWindow(QMainWindow):
    """Shows the panels of the open project in workspaces, or the welcome page.

    At first it is a frame: places of all parts, with empty docks and bars and disabled actions.
    ``populate`` adds the parts that show the project.

    Signals:
        painted: the first paint has begun.
        close_asked: the user asked to close the window; nothing is closed yet.
        files_dropped: paths of the dropped files.
    """

    painted = Signal()
    close_asked = Signal()
    files_dropped = Signal(object)

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.appearance = appearance
        self.may_close = False
        self._is_populated = False
        self._painted = False
        self._fill = QTimer(self, interval=0)
        self._fill.timeout.connect(self._fill_next)
        self._titles = QTimer(self, interval=0, singleShot=True)
        self._titles.timeout.connect(self._show_titles)
        self.docks: dict[str, Dock] = {}
        self.actions_by_id: dict[str, QAction] = {}
        self._toggles: dict[str, QAction] = {}
        # Panels that are hidden only because the target has no use for them.
        self._withheld: set[str] = set()
        # Panels at the sides that are hidden only because a workspace needs no sides.
        self._collapsed: set[str] = set()
        self._fronts: set[str] = {"inspector"}
        self.setObjectName("MainWindow")
        self.setWindowTitle(NAME)
        self.setDockNestingEnabled(True)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self.setCorner(Qt.Corner.BottomLeftCorner, Qt.DockWidgetArea.LeftDockWidgetArea)
        self._build_center()
        self._build_bars()
        for row in PANELS:
            self._add_dock(row)
        self._build_menus()
        self._build_status()
        for dock in self.docks.values():
            dock.visibilityChanged.connect(lambda _shown: self._titles.start())
        self.resize(QSize(*SIZE).boundedTo(self._room().expandedTo(LEAST)))
        self.pages.setCurrentWidget(self.workspaces)
        self._initial = self._initial_layout()
        self.rail.set_theme(self.appearance.theme)
        self.show_welcome()
        # The first project shares the room of the window as it is then.
        self._working = self._initial

    @property
    def fills_screen(self) -> bool:
        """Whether the screen has no more room than the window takes at first, but the least."""
        room = self._room()
        return room == room.expandedTo(LEAST) and room != room.expandedTo(QSize(*SIZE))

    def _room(self) -> QSize:
        """Return the largest size of the window whose frame is on the screen, too."""
        return self.screen().availableSize() - _FRAME

    def populate(self, context: PanelContext, scores: Scores) -> None:
        """Add the parts that show the project, and enable the actions."""
        from ui.shell.file_controller import WelcomePage
        from ui.shell.pipeline_bar import PipelineBar
        from ui.shell.scoreboard import Scoreboard
        from ui.shell.toasts import ToastHost

        self.context = context
        appearance = self.appearance
        # Parts are made where they stay: one that moves gets its style again.
        self.welcome = WelcomePage(lambda: appearance.theme, self.cover)
        self.pipeline = PipelineBar(lambda: appearance.theme, self._run_slot)
        self.scoreboard = Scoreboard(scores, context.history, lambda: appearance.theme, self._scores_slot)
        for slot, part in (
            (self.cover, self.welcome),
            (self._run_slot, self.pipeline),
            (self._scores_slot, self.scoreboard),
        ):
            slot.fill(part)
        for name in ("sides", "palette", "theme"):
            self.pipeline.add_tool(self.actions_by_id[name])
        self._add_undo(context.document.undo_stack)
        for action in self.actions_by_id.values():
            action.setEnabled(True)
        self.palette_box = CommandPalette(self)
        self.toasts = ToastHost(context.notices, appearance, self)
        for dock in self.docks.values():
            dock.visibilityChanged.connect(self.toasts.raise_soon)
        self.setAcceptDrops(True)
        self.set_theme(appearance.theme)
        appearance.changed.connect(self.set_theme)
        self._is_populated = True
        self._titles.start()

    def show_welcome(self) -> None:
        """Show the welcome page and hide the panels."""
        if self.pages.currentWidget() is self.workspaces:
            self._working = self.layout_parts()
        self.pages.setCurrentWidget(self.cover)
        self._set_bars_visible(False)
        for dock in self.docks.values():
            if dock.parent() is self:
                dock.hide()

    def show_panels(self) -> None:
        """Show the panels in their last layout."""
        if self.pages.currentWidget() is not self.workspaces:
            self.pages.setCurrentWidget(self.workspaces)
            self.apply_layout(self._working)

    def layout_parts(self) -> dict[str, QByteArray]:
        """Return the present layout of the panels."""
        return {
            "outer": self.saveState(),
            **{name: home.saveState() for name, home in self.workspaces.homes.items()},
            _CURRENT: QByteArray(self.workspaces.current.encode()),
            _WITHHELD: QByteArray(",".join(sorted(self._withheld)).encode()),
            _COLLAPSED: QByteArray(",".join(sorted(self._collapsed)).encode()),
        }

    def apply_layout(self, parts: dict[str, QByteArray]) -> None:
        """Restore a layout. Parts that another version saved are ignored.

        Without a project it is kept for the next one.
        """
        if self.pages.currentWidget() is not self.workspaces:
            self._working = parts
            return
        if "model" not in parts:
            # The panels in the middle were one area before there were workspaces.
            parts = {**self._initial, **{k: v for k, v in parts.items() if k == "outer"}}
        for home, part in ((self, "outer"), *((h, n) for n, h in self.workspaces.homes.items())):
            if part in parts:
                arrange(home, parts[part])
        # A layout that was saved before these bars existed does not name them.
        self._set_bars_visible(True)
        self._withheld = self._named(parts, _WITHHELD)
        self._collapsed = self._named(parts, _COLLAPSED)
        current = bytes(parts.get(_CURRENT, QByteArray()).data()).decode()
        self.show_workspace(next((n for n in self.workspaces.homes if n == current), "model"))
        self.offer_panels()
        self._show_titles()
        if parts is self._initial:
            self._share_room()

    def _named(self, parts: dict[str, QByteArray], part: str) -> set[str]:
        """Return the panels that a part of a layout names."""
        names = bytes(parts.get(part, QByteArray()).data()).decode()
        return {name for name in names.split(",") if name in self.docks}

    def restore_session(self, parts: dict[str, QByteArray]) -> None:
        """Restore the geometry and layout of the last session."""
        if "geometry" in parts:
            self.restoreGeometry(parts["geometry"])
        if "outer" in parts:
            self._working = parts
        if self.pages.currentWidget() is self.workspaces:
            self.apply_layout(self._working)

    def session_parts(self) -> dict[str, QByteArray]:
        """Return the present geometry and layout, for ``restore_session``."""
        shown = self.pages.currentWidget() is self.workspaces
        parts = self.layout_parts() if shown else dict(self._working)
        return {**parts, "geometry": self.saveGeometry()}

    def reset_layout(self) -> None:
        """Restore the initial layout."""
        for dock in self.docks.values():
            dock.setFloating(False)
        self.apply_layout(self._initial)

    def show_workspace(self, workspace: WorkspaceId) -> None:
        """Show a workspace."""
        self._show_titles_in(self.workspaces.homes[workspace])
        if workspace != self.workspaces.current or workspace == "model":
            self.show_sides(on=workspace == "model")
        self.workspaces.show_workspace(workspace)
        self.rail.set_current(workspace)
        self._titles.start()
        if self._is_populated:
            self.toasts.raise_soon()

    def show_sides(self, *, on: bool) -> None:
        """Show the panels at the sides, or collapse those that are shown."""
        if on:
            for name, dock in self._sides.items():
                if name in self._collapsed:
                    dock.show()
            for name in self._fronts & self._collapsed:
                self.docks[name].raise_()
            self._collapsed.clear()
            return
        shown = {n: d for n, d in self._sides.items() if not d.isHidden() and not d.isFloating()}
        # Tabs that were in front are so again.
        self._fronts = {name for name, dock in shown.items() if dock.is_in_front}
        self._collapsed |= shown.keys()
        for dock in shown.values():
            dock.hide()

    def toggle_sides(self) -> None:
        """Show the panels at the sides in this workspace, or collapse them."""
        shown = any(not d.isHidden() and not d.isFloating() for d in self._sides.values())
        if not shown and not self._collapsed:
            self._collapsed = set(self._sides) - self._withheld
        self.show_sides(on=not shown)

    @property
    def _sides(self) -> dict[str, Dock]:
        """The panels at the sides of the workspaces."""
        return {row.id: self.docks[row.id] for row in PANELS if row.area in {"left", "right"}}

    def reveal(self, panel_id: PanelId) -> Panel | None:
        """Bring a panel to the front and return it; None if there is no such panel."""
        dock = self.docks.get(panel_id)
        if dock is None:
            return None
        panel = dock.fill()
        if (workspace := self._workspace_of(panel_id)) is not None:
            self.show_workspace(workspace)
        self._collapsed.discard(panel_id)
        dock.show()
        dock.raise_()
        self.toasts.raise_all()
        return panel

    def go_to(self, panel_id: PanelId) -> None:
        """Bring a panel to the front, and give the focus to its first control."""
        panel = self.reveal(panel_id)
        if panel is not None:
            panel.take_focus()

    def toggle_drawer(self, panel_id: PanelId) -> None:
        """Show a panel of the drawer, or close the drawer if it shows the panel."""
        dock = self.docks[panel_id]
        if dock.is_in_front:
            for name in DRAWER:
                if not self.docks[name].isFloating():
                    self.docks[name].hide()
        else:
            self.reveal(panel_id)

    def offer_panels(self) -> None:
        """Hide the panels that the project's target has no use for, and show the others again."""
        project = self.context.document.project if self._is_populated else None
        if project is None:
            return
        used: set[str] = set()
        for row in PANELS:
            dock, is_offered = self.docks[row.id], row.is_offered(project)
            self._toggles[row.id].setEnabled(is_offered or row.on_request)
            if is_offered:
                used.add(row.area)
            if is_offered and row.id in self._withheld:
                self._withheld.discard(row.id)
                dock.show()
            elif not is_offered and row.id not in self._withheld and not dock.isHidden():
                self._withheld.add(row.id)
                dock.hide()
        for workspace, button in self.rail.buttons.items():
            button.setVisible(workspace in used)
            self.actions_by_id[f"workspace_{workspace}"].setEnabled(workspace in used)
        if self.workspaces.current not in used:
            self.show_workspace("model")
        self._titles.start()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for row in ACTIONS:
            if row.icon:
                self.actions_by_id[row.id].setIcon(icon(row.icon, theme.text))
        for dock in self.docks.values():
            dock.set_theme(theme)
        self._titles.start()
        self.pipeline.set_theme(theme)
        self.scoreboard.set_theme(theme)
        self.rail.set_theme(theme)
        self.welcome.set_theme(theme)

    def fill_panels(self) -> None:
        """Create the visible panels one after another, once the frame has been painted."""
        if self._painted and self._is_populated:
            self._fill.start()

    def stop(self) -> None:
        """Stop the background work of all panels."""
        for dock in self.docks.values():
            if dock.panel is not None:
                dock.panel.stop()

    def _build_center(self) -> None:
        self.workspaces = Workspaces(self)
        self.cover = SlotWidget(self)
        self.pages = QStackedWidget(self)
        self.pages.addWidget(self.cover)
        self.pages.addWidget(self.workspaces)
        self.setCentralWidget(self.pages)

    def _build_bars(self) -> None:
        self._run_slot, self._scores_slot = SlotWidget(self, RUN_BAR_PX), SlotWidget(self, SCOREBOARD_PX)
        self.rail = Rail(self)
        self.rail.chosen.connect(self.show_workspace)
        self.bars: list[QToolBar] = []
        for title, name, widget, area in (
            ("Run", "bar-run", self._run_slot, Qt.ToolBarArea.TopToolBarArea),
            ("Scoreboard", "bar-scores", self._scores_slot, Qt.ToolBarArea.TopToolBarArea),
            ("Workspaces", "bar-workspaces", self.rail, Qt.ToolBarArea.LeftToolBarArea),
        ):
            bar = QToolBar(title, self)
            bar.setObjectName(name)
            bar.setMovable(False)
            bar.toggleViewAction().setVisible(False)
            bar.addWidget(widget)
            self.addToolBar(area, bar)
            self.addToolBarBreak(area)
            self.bars.append(bar)

    def _set_bars_visible(self, visible: bool) -> None:
        for bar in self.bars:
            bar.setVisible(visible)

    def _add_dock(self, row: PanelRow) -> None:
        home: QMainWindow = self
        area = AREAS.get(row.area, Qt.DockWidgetArea.TopDockWidgetArea)
        workspace = self._workspace_of(row.id)
        if workspace is not None:
            home = self.workspaces.homes[workspace]
        dock = Dock(
            row.id,
            row.title,
            lambda parent: row.load()(self.context, parent),
            home,
            lambda: self.appearance.theme,
            scrolls=workspace is not None,
        )
        before = [self.docks[r.id] for r in PANELS if r.area == row.area and r.id in self.docks]
        home.addDockWidget(area, dock)
        dock.content_asked.connect(self.fill_panels)
        dock.dockLocationChanged.connect(self._titles.start)
        dock.closed.connect(partial(self._on_closed, row.id))
        if before and row.area != "left":
            home.tabifyDockWidget(before[-1], dock)
        self.docks[row.id] = dock

    def _workspace_of(self, panel_id: str) -> WorkspaceId | None:
        """Return the workspace of a panel; None for panels at the sides and in the drawer."""
        area = next(row.area for row in PANELS if row.id == panel_id)
        return next((name for name in self.workspaces.homes if name == area), None)

    def _initial_layout(self) -> dict[str, QByteArray]:
        firsts = {row.area: row.id for row in reversed(PANELS)} | FIRST
        for area, first in firsts.items():
            if area != "left":
                self.docks[first].raise_()
        for name in DRAWER:
            self.docks[name].hide()
        self._share_room()
        return self.layout_parts()

    def _share_room(self) -> None:
        """Size the panels around the centre; in a small window they get a smaller share."""
        horizontal, vertical = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
        docks, wide, high = self.docks, self.width(), self.height()
        is_narrow = wide < _NARROW_PX
        self._stack_sides(is_low=high < _LOW_PX, is_narrow=is_narrow)
        sides = {"modules": min(_WIDE_SIDE_PX, max(int(0.24 * wide), _SIDE_PX))}
        if is_narrow:
            sides["modules"] = _STACKED_PX
        else:
            sides["inspector"] = min(310, int(0.2 * wide))
        self.resizeDocks([docks[name] for name in sides], list(sides.values()), horizontal)
        self.resizeDocks([docks["modules"], docks["rules"]], [470, 380], vertical)
        self.resizeDocks([docks["jobs"]], [min(200, int(0.22 * high))], vertical)

    def _stack_sides(self, *, is_low: bool, is_narrow: bool) -> None:
        """Stack the panels at the left in tabs in a low window, and those at the right too."""
        modules, rules = self.docks["modules"], self.docks["rules"]
        right = [self.docks["inspector"], self.docks["suggestions"]]
        if is_low:
            self.tabifyDockWidget(modules, rules)
        elif rules in self.tabifiedDockWidgets(modules):
            # ``splitDockWidget`` does not take a panel out of a group of tabs.
            self.addDockWidget(AREAS["left"], rules, Qt.Orientation.Vertical)
        if is_narrow:
            for dock in right:
                self.tabifyDockWidget(rules, dock)
        elif self.dockWidgetArea(right[0]) == AREAS["left"]:
            self.addDockWidget(AREAS["right"], right[0])
            self.tabifyDockWidget(*right)
        for dock in (right[0], rules if is_narrow and not is_low else modules):
            dock.raise_()

    def _build_menus(self) -> None:
        menus = self.menus = {title: self.menuBar().addMenu(title) for title in MENUS}
        for row in ACTIONS:
            if row.id == LINE:
                menus[row.menu].addSeparator()
                continue
            action = menus[row.menu].addAction(row.text)
            action.setShortcut(QKeySequence(row.keys))
            self.actions_by_id[row.id] = action
        to_stage = menus["&Run"].addMenu("Run to")
        for stage in STAGES:
            action = to_stage.addAction(f"Run to {stage.title}")
            self.actions_by_id[f"run_to_{stage.id}"] = action
        for workspace in WORKSPACES:
            show = self.actions_by_id[f"workspace_{workspace.id}"]
            show.triggered.connect(partial(self.show_workspace, workspace.id))
        self.actions_by_id["sides"].triggered.connect(self.toggle_sides)
        self.recents = QMenu("Open &recent", menus["&File"])
        menus["&File"].insertMenu(self.actions_by_id["save"], self.recents)
        self.layouts = menus["&View"].addMenu("Layouts")
        self._add_toggles(menus["&View"].addMenu("&Panels"))
        for number, row_of in enumerate(PANELS, 1):
            show = QAction(f"Go to {row_of.title}", self)
            show.setShortcut(QKeySequence(f"Alt+{number}" if number <= 9 else ""))
            show.triggered.connect(partial(self.go_to, row_of.id))
            self.addAction(show)
            self.actions_by_id[f"go_{row_of.id}"] = show
        for action in self.actions_by_id.values():
            action.setEnabled(False)

    def _add_toggles(self, menu: QMenu) -> None:
        """Add an entry for every panel, those of one workspace together."""
        menu.aboutToShow.connect(self._show_toggles)
        for area in dict.fromkeys(row.area for row in PANELS):
            menu.addSeparator()
            for row in (row for row in PANELS if row.area == area):
                toggle = menu.addAction(row.title)
                toggle.setCheckable(True)
                toggle.triggered.connect(partial(self._on_toggled, row.id))
                self._toggles[row.id] = toggle

    def _add_undo(self, stack: QUndoStack) -> None:
        menu = self.menus["&Edit"]
        undo, redo = stack.createUndoAction(self, "&Undo"), stack.createRedoAction(self, "&Redo")
        undo.setShortcuts(QKeySequence.StandardKey.Undo)
        redo.setShortcuts(QKeySequence.StandardKey.Redo)
        menu.insertActions(menu.actions()[0], [undo, redo])

    def _show_toggles(self) -> None:
        for panel_id, toggle in self._toggles.items():
            toggle.setChecked(not self.docks[panel_id].isHidden())

    def _on_toggled(self, panel_id: PanelId) -> None:
        if self._toggles[panel_id].isChecked():
            self.reveal(panel_id)
        else:
            self.docks[panel_id].close()

    def _on_closed(self, panel_id: PanelId) -> None:
        # A panel at the sides is closed for this workspace: Model, its own one, shows it again.
        is_docked = panel_id in self._sides and not self.docks[panel_id].isFloating()
        if is_docked and self.workspaces.current != "model":
            self._collapsed.add(panel_id)

    def _build_status(self) -> None:
        self.notes: dict[PanelId, QPushButton] = {}
        for name, text in zip(DRAWER, ("No problems", "No jobs", "Log"), strict=True):
            note = QPushButton(text, self)
            note.setProperty("status", True)
            note.clicked.connect(partial(self.toggle_drawer, name))
            self.notes[name] = note
            self.statusBar().addWidget(note)
        self.engine_note = Label(self)
        self.statusBar().addPermanentWidget(self.engine_note)
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().setContentsMargins(4, 0, 12, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            self.painted.emit()
            self.fill_panels()

    def _fill_next(self) -> None:
        """Create one visible panel. The next one follows after pending paint and key events."""
        wanting = [dock for dock in self.docks.values() if dock.wanting]
        if wanting:
            wanting[0].fill()
        else:
            self._fill.stop()

    def _show_titles(self) -> None:
        for home in (self, self.workspaces.homes[self.workspaces.current]):
            self._show_titles_in(home)

    def _show_titles_in(self, home: QMainWindow) -> None:
        docks = [dock for dock in self.docks.values() if dock.parent() is home]
        show_titles(docks, is_outer=home is self)
        equip_tabs(home, docks, self.appearance.theme, are_closable=home is self)

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Move the focus by the Tab key."""
        return move_focus(self.tab_stops(), forward=forward)

    def tab_stops(self) -> list[QWidget]:
        """Return what takes the Tab key as it is read: bars, left, middle, right, below, toasts.

        Of the panels, only those in front are included; with a question, only the question.
        """
        if not self._is_populated:
            return []
        if (question := self.toasts.question) is not None:
            return reading_order(question)
        stops = reading_order(self.welcome)
        for part in (self.pipeline, self.scoreboard, self.rail):
            stops += reading_order(part)
        middle = self.workspaces.homes[self.workspaces.current]
        areas = (("left", self), (self.workspaces.current, middle), ("right", self))
        for area, home in (*areas, ("bottom", self)):
            docks = [self.docks[row.id] for row in PANELS if row.area == area]
            bars = tab_bars(home)
            for dock in docks:
                if (bar := bars.get(dock.windowTitle())) is not None:
                    # The tabs of a group come before its first panel.
                    stops.append(bar)
                stops += [] if dock.isFloating() else dock.tab_stops()
        stops += [*self.notes.values(), *reading_order(self.statusBar())]
        for toast in self.toasts.shown:
            stops += reading_order(toast)
        return list(dict.fromkeys(stops))

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.may_close:
            event.accept()
        else:
            event.ignore()
            self.close_asked.emit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [Path(u.toLocalFile()) for u in event.mimeData().urls() if u.isLocalFile()]
        if paths:
            event.acceptProposedAction()
            self.files_dropped.emit(paths)
