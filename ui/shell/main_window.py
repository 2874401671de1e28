"""The main window: docks from the panel table, menus from the action table, and the title."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QDesktopServices,
    QDragEnterEvent,
    QDropEvent,
    QKeySequence,
    QPaintEvent,
)
from PySide6.QtWidgets import (
    QInputDialog,
    QLabel,
    QMainWindow,
    QMenu,
    QPushButton,
    QStackedWidget,
    QTabWidget,
    QToolBar,
)

from ui.shared.panel import Panel, PanelContext, PanelId
from ui.shared.theme import Theme, icon
from ui.shell.actions import ACTIONS, LINE, MENUS, CommandPalette, Entry
from ui.shell.dock import Dock, arrange
from ui.shell.file_controller import WelcomePage
from ui.shell.panels import PANELS, Area, PanelRow
from ui.shell.pipeline_bar import PipelineBar
from ui.shell.toasts import ToastHost
from workbench.errors import Place
from workbench.pipeline.stages import STAGES
from workbench.project.trust import TrustStore

AREAS: dict[Area, Qt.DockWidgetArea] = {
    "left": Qt.DockWidgetArea.LeftDockWidgetArea,
    "right": Qt.DockWidgetArea.RightDockWidgetArea,
    "bottom": Qt.DockWidgetArea.BottomDockWidgetArea,
    "center": Qt.DockWidgetArea.TopDockWidgetArea,
}
SIZE = (1600, 1000)
LEAST = QSize(1024, 640)


class MainWindow(QMainWindow):
    """Shows the panels of the open project, or the welcome page.

    Signals:
        close_asked: the user asked to close the window; nothing is closed yet.
        files_dropped: paths of the dropped files.
        activated: the window became active.
    """

    close_asked = Signal()
    files_dropped = Signal(object)
    activated = Signal()

    def __init__(self, context: PanelContext) -> None:
        super().__init__()
        self.context = context
        self.may_close = False
        self._painted = False
        self._fill = QTimer(self, interval=0)
        self._fill.timeout.connect(self._fill_next)
        self.docks: dict[str, Dock] = {}
        self.actions_by_id: dict[str, QAction] = {}
        self.setObjectName("MainWindow")
        self.setAcceptDrops(True)
        self.setDockNestingEnabled(True)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, _north())
        self.setCorner(Qt.Corner.BottomLeftCorner, Qt.DockWidgetArea.LeftDockWidgetArea)
        self._build_center()
        self._build_bar()
        for row in PANELS:
            self._add_dock(row)
        self._build_menus()
        self._build_status()
        self.palette_box = CommandPalette(self)
        self.toasts = ToastHost(context.notices, context.appearance, self)
        for dock in self.docks.values():
            dock.visibilityChanged.connect(self.toasts.raise_soon)
        self.resize(QSize(*SIZE).boundedTo(self.screen().availableSize().expandedTo(LEAST)))
        self._initial = self._initial_layout()
        self._working = self._initial
        self.set_theme(context.theme)
        self.show_welcome()

    def show_welcome(self) -> None:
        """Show the welcome page and hide the panels."""
        if self.pages.currentWidget() is self.center:
            self._working = self.layout_parts()
        self.pages.setCurrentWidget(self.welcome)
        self.bar.hide()
        for dock in self.docks.values():
            if dock.parent() is self:
                dock.hide()

    def show_panels(self) -> None:
        """Show the panels in their last layout."""
        if self.pages.currentWidget() is not self.center:
            self.pages.setCurrentWidget(self.center)
            self.apply_layout(self._working)
            self.bar.show()

    def layout_parts(self) -> dict[str, QByteArray]:
        """Return the present layout of the panels."""
        return {"outer": self.saveState(), "inner": self.center.saveState()}

    def apply_layout(self, parts: dict[str, QByteArray]) -> None:
        """Restore a layout. Parts that another version saved are ignored."""
        for home, part in ((self, "outer"), (self.center, "inner")):
            if part in parts:
                arrange(home, parts[part])
        for dock in self.docks.values():
            dock.show_title()
        if parts is self._initial:
            self._share_room()

    def restore_session(self, parts: dict[str, QByteArray]) -> None:
        """Restore the geometry and layout of the last session."""
        if "geometry" in parts:
            self.restoreGeometry(parts["geometry"])
        if "outer" in parts:
            self._working = parts
        if self.pages.currentWidget() is self.center:
            self.apply_layout(self._working)

    def session_parts(self) -> dict[str, QByteArray]:
        """Return the present geometry and layout, for ``restore_session``."""
        shown = self.pages.currentWidget() is self.center
        parts = self.layout_parts() if shown else dict(self._working)
        return {**parts, "geometry": self.saveGeometry()}

    def reset_layout(self) -> None:
        """Restore the initial layout."""
        for dock in self.docks.values():
            dock.setFloating(False)
        self.apply_layout(self._initial)

    def reveal(self, panel_id: PanelId) -> Panel | None:
        """Bring a panel to the front and return it; None if there is no such panel."""
        dock = self.docks.get(panel_id)
        if dock is None:
            return None
        panel = dock.fill()
        dock.show()
        dock.raise_()
        self.toasts.raise_all()
        return panel if isinstance(panel, Panel) else None

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for row in ACTIONS:
            if row.icon:
                self.actions_by_id[row.id].setIcon(icon(row.icon, theme.text))
        for dock in self.docks.values():
            dock.set_theme(theme)
        self.pipeline.set_theme(theme)

    def stop(self) -> None:
        """Stop the background work of all panels."""
        for dock in self.docks.values():
            if isinstance(dock.panel, Panel):
                dock.panel.stop()

    def _build_center(self) -> None:
        self.center = QMainWindow(self, Qt.WindowType.Widget)
        self.center.setObjectName("CenterArea")
        self.center.setDockNestingEnabled(True)
        self.center.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, _north())
        self.welcome = WelcomePage(self)
        self.pages = QStackedWidget(self)
        self.pages.addWidget(self.welcome)
        self.pages.addWidget(self.center)
        self.setCentralWidget(self.pages)

    def _build_bar(self) -> None:
        self.pipeline = PipelineBar(lambda: self.context.theme, self)
        self.bar = QToolBar("Pipeline", self)
        self.bar.setObjectName("bar-pipeline")
        self.bar.setMovable(False)
        self.bar.toggleViewAction().setVisible(False)
        self.bar.addWidget(self.pipeline)
        self.addToolBar(self.bar)

    def _add_dock(self, row: PanelRow) -> None:
        home = self.center if row.area == "center" else self
        is_central = home is self.center
        dock = Dock(
            row.id, row.title, lambda: row.load()(self.context), home, scrolls=is_central
        )  # fmt: skip
        before = [self.docks[r.id] for r in PANELS if r.area == row.area and r.id in self.docks]
        home.addDockWidget(AREAS[row.area], dock)
        dock.wanted.connect(self._on_dock_wanted)
        if before and row.area != "left":
            home.tabifyDockWidget(before[-1], dock)
        self.docks[row.id] = dock

    def _initial_layout(self) -> dict[str, QByteArray]:
        for area in ("center", "bottom"):
            first = next((r.id for r in PANELS if r.area == area), None)
            if first is not None:
                self.docks[first].raise_()
        self._share_room()
        return self.layout_parts()

    def _share_room(self) -> None:
        """Size the panels around the centre; in a small window they get a smaller share."""
        horizontal, vertical = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
        docks, wide, high = self.docks, self.width(), self.height()
        sides = [min(360, int(0.26 * wide)), min(290, int(0.18 * wide))]
        self.resizeDocks([docks["modules"], docks["inspector"]], sides, horizontal)
        self.resizeDocks([docks["modules"], docks["rules"]], [470, 380], vertical)
        self.resizeDocks([docks["jobs"]], [min(170, int(0.17 * high))], vertical)

    def _build_menus(self) -> None:
        menus = {title: self.menuBar().addMenu(title) for title in MENUS}
        stack = self.context.document.undo_stack
        for action, keys in (
            (stack.createUndoAction(self, "&Undo"), QKeySequence.StandardKey.Undo),
            (stack.createRedoAction(self, "&Redo"), QKeySequence.StandardKey.Redo),
        ):
            action.setShortcuts(keys)
            menus["&Edit"].addAction(action)
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
        self.recents = QMenu("Open &recent", self)
        menus["&File"].insertMenu(self.actions_by_id["save"], self.recents)
        self.layouts = menus["&View"].addMenu("Layouts")
        menus["&View"].addSeparator()
        for number, row_of in enumerate(PANELS, 1):
            toggle = self.docks[row_of.id].toggleViewAction()
            show = QAction(f"Go to {row_of.title}", self)
            show.setShortcut(QKeySequence(f"Alt+{number}" if number <= 9 else ""))
            show.triggered.connect(partial(self.reveal, row_of.id))
            self.addAction(show)
            menus["&View"].addAction(toggle)
            self.actions_by_id[f"go_{row_of.id}"] = show

    def _build_status(self) -> None:
        self.engine_note = QLabel(self)
        self.problem_note = QPushButton(self)
        self.problem_note.setProperty("link", True)
        self.problem_note.clicked.connect(partial(self.reveal, "problems"))
        self.statusBar().addWidget(self.engine_note, 1)
        self.statusBar().addPermanentWidget(self.problem_note)
        self.statusBar().setSizeGripEnabled(False)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            self._fill.start()

    def _fill_next(self) -> None:
        """Create one visible panel. The next one follows after pending paint and key events."""
        wanting = [dock for dock in self.docks.values() if dock.wanting]
        if wanting:
            wanting[0].fill()
        else:
            self._fill.stop()

    def _on_dock_wanted(self) -> None:
        if self._painted:
            self._fill.start()

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


def _north() -> QTabWidget.TabPosition:
    return QTabWidget.TabPosition.North


NAME = "Quantization Workbench"
LAST = "last"


class WindowController(QObject):
    """Updates the title, the status bar and the menus of the window.

    Signals:
        cache_cleared: the user cleared the result cache.
    """

    cache_cleared = Signal()

    def __init__(
        self, context: PanelContext, trust: TrustStore, window: MainWindow,
        open_path: Callable[[Path], None],
    ) -> None:  # fmt: skip
        super().__init__(window)
        self._context, self._trust, self._window = context, trust, window
        self._open = open_path
        context.document.state_changed.connect(self.show_title)
        context.document.project_changed.connect(self.show_title)
        context.problems.modelReset.connect(self.show_problem_count)
        context.runner.engines_changed.connect(self.show_engines)
        window.recents.aboutToShow.connect(self.show_recents)
        window.layouts.aboutToShow.connect(self.show_layouts)
        self.show_problem_count()

    def show_title(self) -> None:
        """Show the project's name in the title."""
        title = self._context.document.title
        note = " (read only)" if self._context.document.read_only else ""
        self._window.setWindowTitle(f"{title}{note}[*] \u2013 {NAME}" if title else NAME)
        self._window.setWindowModified(self._context.document.modified)

    def show_engines(self) -> None:
        """Show the engine's state in the status bar."""
        state = self._context.runner.engine_state("interactive")
        words = {"off": "", "starting": "Starting engine\u2026", "ready": "Engine ready"}
        self._window.engine_note.setText(words[state])

    def show_problem_count(self) -> None:
        """Show the number of problems in the status bar."""
        count = self._context.problems.rowCount()
        text = "No problems" if not count else f"{count} problem{'s' if count > 1 else ''}"
        self._window.problem_note.setText(text)

    def show_recents(self) -> None:
        """List the recent projects in the menu and on the welcome page."""
        known = [path for path in self._context.settings.recents if path.exists()]
        self._window.welcome.render_recents(known)
        self._window.recents.clear()
        for path in known:
            action = self._window.recents.addAction(f"{path.stem}  {path.parent}")
            action.triggered.connect(partial(self._open, path))
        self._window.recents.setEnabled(bool(known))

    def show_layouts(self) -> None:
        """List the saved layouts in the menu."""
        menu = self._window.layouts
        menu.clear()
        names = [name for name in self._context.settings.layouts() if name != LAST]
        for name in names:
            parts = self._context.settings.layout(name)
            menu.addAction(name).triggered.connect(partial(self._window.apply_layout, parts))
        if not names:
            menu.addAction("No saved layouts").setEnabled(False)

    def ask_layout_name(self) -> None:
        """Ask for a name and save the present layout."""
        dialog = QInputDialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setLabelText("Layout name")
        dialog.textValueSelected.connect(
            lambda name: self._context.settings.save_layout(
                name or "mine", self._window.layout_parts()
            )
        )
        dialog.open()

    def switch_theme(self) -> None:
        """Switch between the dark and the light theme."""
        name = "light" if self._context.theme.dark else "dark"
        self._context.settings.theme = name
        self._context.appearance.switch(name)

    def show_preferences(self) -> None:
        """Open the preferences."""
        from ui.shell.preferences import PreferencesDialog

        dialog = PreferencesDialog(
            self._context.settings,
            self._context.appearance,
            self._context.session.cache,
            self._trust,
            self._window,
        )
        dialog.cache_cleared.connect(self.cache_cleared)
        dialog.open()

    def show_doctor(self) -> None:
        """Open the system check."""
        from ui.shell.preferences import DoctorDialog

        DoctorDialog(self._context.theme, self._window).open()


class Navigation(QObject):
    """Shows a place, e.g. a module or a node, in the panel for its kind."""

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._context, self._window = context, window
        context.notices.place_asked.connect(self.go)

    def go(self, place: Place) -> None:
        """Show a place."""
        selection = self._context.selection
        match place.kind:
            case "module":
                self._window.reveal("modules")
                selection.choose_modules([place.id])
            case "node" | "tensor":
                panel = self._window.reveal("graph")
                if (show := getattr(panel, "show_node", None)) is not None:
                    show(place.id)
                selection.choose_nodes([place.id])
            case "rule":
                self._window.reveal("rules")
                selection.choose_rule(place.id)
            case "sample" if place.id.isdigit():
                panel = self._window.reveal("sample")
                if (look_at := getattr(panel, "look_at", None)) is not None:
                    look_at(int(place.id))
            case "file":
                folder = (self._context.document.folder / Path(place.id)).parent
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
            case "stage" | "tool":
                self._window.reveal("log")
            case _:
                self._window.reveal("problems")

    def ask(self) -> None:
        """Open the command palette."""
        self._window.palette_box.ask(list(self._entries()))

    def _entries(self) -> Iterator[Entry]:
        for action in self._window.actions_by_id.values():
            if action.isEnabled():
                text = action.text().replace("&", "").rstrip("\u2026")
                keys = action.shortcut().toString()
                yield Entry(text, keys or "action", action.trigger)
        for module in self._context.model_index.modules:
            if module.path:
                place = Place(kind="module", id=module.path)
                name = module.type_name.rpartition(".")[2]
                yield Entry(module.path, name, partial(self.go, place))
        snapshot = self._context.model_index.snapshot
        for node in snapshot.nodes if snapshot else ():
            if node.kind == "call":
                yield Entry(node.id, node.op, partial(self.go, Place(kind="node", id=node.id)))
