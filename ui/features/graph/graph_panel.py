"""The Graph panel: the program as a graph at every level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QSplitter,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ui.features.graph.annotations import Annotations
from ui.features.graph.bookmarks import Bookmarks, view_of
from ui.features.graph.graph_bar import GraphBar
from ui.features.graph.graph_comparison import ComparedGraph, Comparison
from ui.features.graph.graph_results import FLOAT, LEVELS, LEVELS_BY_ID, OverlayLoader, how_to_make
from ui.features.graph.graph_sources import GraphFiles, SnapshotLoader
from ui.features.graph.graph_view import GraphView
from ui.features.graph.lineage_rail import SOURCE, LineageRail, stops
from ui.shared.empty_states import StageNote, StaleBanner
from ui.shared.file_dialogs import ask_to_save
from ui.shared.labels import Label
from ui.shared.panel import Panel
from ui.shared.precision_menu import PrecisionMenu
from ui.shared.theme import Theme
from ui.state.background import Background
from ui.state.selection import Selected
from workbench.errors import WorkbenchError
from workbench.graph.numbers_file import SUFFIXES, read_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.graph.layout import Flow
    from workbench.graph.numbers_file import NumbersFile
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.ids import StageId
    from workbench.project.model import Bookmark


class NumbersDropFilter(QObject):
    """Accepts drops of JSON and CSV files on a widget; other files go to the window.

    Signals:
        dropped: the ``NumbersFile``.
        failed: the ``WorkbenchError`` of a file without numbers.
    """

    dropped = Signal(object)
    failed = Signal(object)

    def __init__(self, taker: QWidget) -> None:
        super().__init__(taker)
        taker.setAcceptDrops(True)
        taker.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDropEvent):
            path = _numbers_file(event)
            if path is None:
                event.ignore()
                return True
            event.acceptProposedAction()
            if not isinstance(event, QDragEnterEvent) and event.type() == QEvent.Type.Drop:
                self.take(path)
            return True
        return super().eventFilter(watched, event)

    def take(self, path: Path) -> None:
        """Read a file and emit its numbers or the error."""
        try:
            numbers = read_numbers(path)
        except WorkbenchError as error:
            self.failed.emit(error)
            return
        self.dropped.emit(numbers)


def _numbers_file(event: QDropEvent) -> Path | None:
    urls = event.mimeData().urls()
    if len(urls) != 1 or not urls[0].isLocalFile():
        return None
    path = Path(urls[0].toLocalFile())
    return path if path.suffix.lower() in SUFFIXES else None


_PICTURES = {".svg": "SVG images (*.svg)", ".png": "PNG images (*.png)"}


def ask_picture_file(
    view: GraphView, folder: Path, name: str, failed: Callable[[WorkbenchError], object]
) -> None:
    """Ask for a file and save the view as SVG or PNG, by the suffix of ``name``."""

    def save(chosen: str) -> None:
        save_picture(view, Path(chosen), failed)

    filters = [_PICTURES[Path(name).suffix]]
    ask_to_save(view, "Save image", save, name, filters=filters, start=folder)


def save_picture(view: GraphView, path: Path, failed: Callable[[WorkbenchError], object]) -> None:
    """Save the view as SVG or PNG; ``failed`` receives an error."""
    export = view.surface.export_svg if path.suffix.lower() == ".svg" else view.surface.export_png
    try:
        export(path)
    except WorkbenchError as error:
        failed(error)


class IsolationNote(QFrame):
    """The banner above a graph of which only a part is shown.

    Signals:
        whole_asked: the whole graph is to be shown.
    """

    whole_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Banner")
        self.label = Label("Showing selection only.", self)
        self.show_all = QPushButton("Show all", self)
        self.show_all.clicked.connect(self.whole_asked)
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 4, 10, 4)
        row.addWidget(self.label, 1)
        row.addWidget(self.show_all)
        self.hide()


EMPTY_TEXT = "Load the model to see its graph."
IDS = [level.id for level in LEVELS]


class GraphPanel(Panel):
    """Shows the bar, the graph view and the lineage of the selection."""

    panel_id = "graph"

    def build(self) -> None:
        context = self.context
        self._shown: GraphSnapshot | None = None
        self._drawn = FLOAT
        self._chosen: tuple[str, frozenset[str]] = (FLOAT, frozenset())
        self._sought = ""
        self._pending_bookmark: Bookmark | None = None
        self.bar = GraphBar(self)
        self.view = GraphView(context.theme, self)
        self.view.groups.flow = context.settings.graph_flow
        self.tabs, self.search, self.overlay = self.bar.tabs, self.bar.search, self.bar.overlay
        self.rail = LineageRail(self)
        self.note = IsolationNote(self)
        self.banner = StaleBanner("", self)
        self.banner.hide()
        self._loader = OverlayLoader(context.session.parsed)
        # The application owns the thread, so that it outlives the panel until it has ended.
        self._background = Background(QCoreApplication.instance())
        self.destroyed.connect(self._background.retire)
        self._arrange()
        self.graph_files = GraphFiles(context.document, context.session, context.history)
        self.snapshots = SnapshotLoader(
            self.graph_files, lambda: context.model_index.snapshot, self._background, self._loader, self
        )
        self.comparison = Comparison(self.view, self._splitter, self._background, self._loader)
        self.bookmarks = Bookmarks(context.document, self.view, self.bar)
        self.annotations = Annotations(
            context, self.view, self.bar, self.bookmarks, self._background, self._loader
        )
        self.drop = NumbersDropFilter(self)
        self._precisions = PrecisionMenu(context, self)
        self._connect()

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self.banner)
        layout.addWidget(self.note)
        empty = StageNote(EMPTY_TEXT, self)
        empty.follow(self.context.session, "export")
        for part in (empty, self.banner):
            part.run_asked.connect(self.context.run_to)
            part.place_asked.connect(self.context.notices.place_asked)
        self.context.session.stage_changed.connect(self._on_stage_changed)
        body = QWidget(self)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, body)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(self.view)
        self.pages = QStackedLayout(body)
        self.pages.addWidget(empty)
        self.pages.addWidget(self._splitter)
        layout.addWidget(body, 1)
        layout.addWidget(self.rail)

    def _connect(self) -> None:
        view, bar = self.view, self.bar
        # Not only when the panel is next visible: the next graph may be there by then.
        self.context.document.opened.connect(lambda: self._show_snapshot(None))
        self.annotations.shown.connect(self._on_annotated)
        view.selection.changed.connect(self._on_nodes_chosen)
        view.selection.groups_chosen.connect(self._on_groups_chosen)
        view.preset_key_pressed.connect(self._on_preset_key)
        view.menu_asked.connect(self._precisions.add_to)
        view.search_requested.connect(self.search.ask)
        view.groups.isolation_changed.connect(self.note.setVisible)
        view.groups.laid_out.connect(self._render_choices)
        self.note.whole_asked.connect(view.groups.show_all)
        self.tabs.tabBarClicked.connect(self._on_tab_clicked)
        self.tabs.currentChanged.connect(self._on_level_changed)
        self.search.chosen.connect(self._select_nodes)
        self.search.left.connect(view.setFocus)
        self.rail.asked.connect(self._on_stop_asked)
        self.comparison.chosen.connect(self._select_nodes)
        self.comparison.changed.connect(self._compare)
        self.snapshots.arrived.connect(self._show_level)
        self.bookmarks.place_asked.connect(self._go_to_bookmark)
        self.drop.dropped.connect(self._on_numbers)
        for part in (self.comparison, self.snapshots, self.drop):
            part.failed.connect(self.context.notices.error)
        for name, act in (
            ("back", view.places.back), ("forward", view.places.forward), ("fit", view.places.fit),
            ("expand", view.groups.expand_all), ("collapse", view.groups.collapse_all),
        ):  # fmt: skip
            bar.tools[name].clicked.connect(act)
        bar.picture_asked.connect(self._ask_file)
        bar.shape_asked.connect(view.groups.set_shape)
        bar.flow_asked.connect(self._on_flow_asked)
        bar.menus["beside"].aboutToShow.connect(self._fill_beside)
        for keys, act in (
            (QKeySequence(QKeySequence.StandardKey.Find), self.search.ask),
            (QKeySequence("F3"), lambda: self.search.step(1)),
            (QKeySequence("Shift+F3"), lambda: self.search.step(-1)),
        ):
            # Wherever the focus is in the window that shows the graph.
            QShortcut(keys, self).activated.connect(act)

    @property
    def level(self) -> str:
        """The id of the shown level."""
        return self.bar.level

    def refresh(self) -> None:
        self.graph_files.note()
        for number, level in enumerate(IDS):
            self.tabs.setTabEnabled(number, level in self.graph_files.files)
        if not self.tabs.isTabEnabled(self.tabs.currentIndex()):
            self.tabs.setCurrentIndex(0)
        self._show_level()

    def take_keys(self) -> None:
        self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def render_selection(self, selected: Selected) -> None:
        if selected.origin == self.panel_id:
            return
        nodes = selected.nodes or self.context.model_index.nodes_of(selected.modules - {""})
        level: str | None = FLOAT
        if selected.nodes and not (self._shown and nodes & self._shown.nodes_by_id.keys()):
            level = self.annotations.data.lineage.level_of(nodes, self._drawn)
        elif selected.nodes:
            level = self._drawn
        self._chosen = (level or self._drawn, nodes)
        self._show_chosen()

    def set_theme(self, theme: Theme) -> None:
        self.view.surface.set_theme(theme)
        self.bar.set_theme(theme)
        self.comparison.set_theme(theme)

    def stop(self) -> None:
        self.view.groups.stop()
        self.comparison.stop()
        self._background.stop()

    def show_level(self, level: str) -> bool:
        """Show a level; return whether it exists."""
        if level in IDS and self.tabs.isTabEnabled(IDS.index(level)):
            self.tabs.setCurrentIndex(IDS.index(level))
            return True
        return False

    def show_node(self, node_id: str) -> None:
        """Show a level with this node, preferably the present one, when the lineage is known."""
        level = self.annotations.data.lineage.level_of([node_id], self.level)
        if level is not None:
            self.show_level(level)
        elif node_id != self._sought:
            self._sought = node_id
            self.annotate()

    def annotate(self) -> None:
        self.annotations.ask(self.level, self.graph_files.files, self.comparison.other)

    def _show_level(self) -> None:
        level = LEVELS_BY_ID[self.level]
        if not self.snapshots.is_due(level.id):
            self._show_snapshot(self.snapshots.snapshot(level.id))
        self._show_state()

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage == LEVELS_BY_ID[self.level].stage:
            self._show_state()

    def _show_state(self) -> None:
        """Show whether the graph is that of the present configuration."""
        level, session = LEVELS_BY_ID[self.level], self.context.session
        is_outdated = session.former(level.stage) != session.result(level.stage)
        if is_outdated:
            self.banner.set_text(f"{level.title} graph: outdated.")
            self.banner.render_stage(session.with_cause(level.stage))
        self.banner.setVisible(is_outdated)

    def _show_snapshot(self, snapshot: GraphSnapshot | None) -> None:
        if snapshot is not self._shown:
            self._shown, self._drawn = snapshot, self.level
            self.view.groups.render_snapshot(snapshot)
            self._show_chosen()
            self.comparison.compare(self.context.model_index.snapshot, snapshot)
            if self._pending_bookmark is not None and self._pending_bookmark.level == self.level:
                self.view.places.go_to(view_of(self._pending_bookmark))
                self._pending_bookmark = None
        self.pages.setCurrentIndex(0 if snapshot is None else 1)
        if self.level == FLOAT:
            self.annotations.show_configs()

    def _on_annotated(self) -> None:
        """Handle requests that waited for the lineage."""
        if self._sought:
            self.show_node(self._sought)
            self._sought = ""
        self._show_chosen()

    def _show_chosen(self) -> None:
        level, nodes = self._chosen
        if nodes and level != self._drawn:
            nodes = self.annotations.data.lineage.translate(level, nodes, self._drawn)
        self.view.selection.select(nodes, reveal=True)
        self.comparison.select(nodes)
        self._show_rail()

    def _show_rail(self) -> None:
        level, nodes = self._chosen
        titles = [(row.id, row.title) for row in LEVELS]
        data = self.annotations.data
        self.rail.show_stops(stops(data.lineage, level, nodes, titles, data.rows, self.level))

    def _on_tab_clicked(self, number: int) -> None:
        if number >= 0 and not self.tabs.isTabEnabled(number):
            title = LEVELS[number].title
            self.context.notices.info(f"No {title} graph yet.", how_to_make(LEVELS[number].id))

    def _on_level_changed(self) -> None:
        self._show_level()
        self.annotate()

    def _on_nodes_chosen(self, nodes: frozenset[str]) -> None:
        """Set the shared selection, translated to nodes of the float graph if they exist."""
        self._chosen = (self._drawn, nodes)
        lineage = self.annotations.data.lineage
        known = lineage.translate(self._drawn, nodes, FLOAT) if lineage.levels else nodes
        self.context.selection.choose_nodes(known or nodes, self.panel_id)
        self.comparison.select(nodes)
        self._show_rail()

    def _select_nodes(self, nodes: frozenset[str]) -> None:
        self.view.selection.select(nodes, reveal=True)
        self._on_nodes_chosen(nodes)

    def _on_groups_chosen(self, modules: frozenset[str]) -> None:
        if modules - {""}:
            self.context.selection.choose_modules(modules - {""}, self.panel_id)

    def _on_preset_key(self, number: int) -> None:
        self.context.assigner.by_key(number, self.context.selection.value)

    def _on_stop_asked(self, target: str) -> None:
        kind, _, item = target.partition(":")
        if kind == SOURCE:
            QGuiApplication.clipboard().setText(item)
            self.context.notices.info(f"Copied {item}.")
        elif target == self.level:
            self._show_chosen()
        else:
            self.show_level(target)

    def _render_choices(self) -> None:
        self.bar.render_choices(self.view.groups.shape, self.view.groups.flow)

    def _on_flow_asked(self, flow: Flow) -> None:
        self.context.settings.graph_flow = flow
        self.view.groups.set_flow(flow)

    def _go_to_bookmark(self, bookmark: Bookmark) -> None:
        """Go to a bookmark, at its level if that exists."""
        self._pending_bookmark = bookmark if bookmark.level != self._drawn else None
        if self._pending_bookmark is None or not self.show_level(bookmark.level):
            self._pending_bookmark = None
            self.view.places.go_to(view_of(bookmark))

    def _on_numbers(self, numbers: NumbersFile) -> None:
        self.annotations.take(numbers)
        self.annotate()

    def _fill_beside(self) -> None:
        """List the other levels, and earlier runs of this level."""
        files = self.graph_files.files
        offers = [ComparedGraph(f"{row.title} level", files[row.id]) for row in LEVELS if row.id in files]
        others = [other for other in offers if other.path != files.get(self.level)]
        self.comparison.offer(self.bar.menus["beside"], others, self.graph_files.past(self.level))

    def _compare(self) -> None:
        self.comparison.compare(self.context.model_index.snapshot, self._shown)
        self.annotate()

    def _ask_file(self, suffix: str) -> None:
        document = self.context.document
        name = f"{document.project.name if document.project else 'graph'}.{suffix}"
        ask_picture_file(self.view, document.folder, name, self.context.notices.error)
