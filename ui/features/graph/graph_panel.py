"""The program as a graph, at every level it exists, alone or beside another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSplitter,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ui.features.graph.annotations import Telling
from ui.features.graph.bookmarks import Keeping, place_of
from ui.features.graph.graph_bar import GraphBar
from ui.features.graph.graph_comparison import Comparison, Other
from ui.features.graph.graph_results import FLOAT, LEVELS, LEVELS_BY_ID, Surveyor
from ui.features.graph.graph_sources import Reading, Runs
from ui.features.graph.graph_view import GraphView
from ui.features.graph.lineage_rail import SOURCE, LineageRail, stops
from ui.shared.panel import Panel
from ui.shared.precision_menu import PrecisionMenu
from ui.shared.result_panel import StageNote
from ui.shared.theme import Theme
from ui.state.background import Background
from ui.state.selection import Selected
from workbench.errors import WorkbenchError
from workbench.graph.numbers_file import SUFFIXES, read_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.graph.numbers_file import NumbersFile
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import Bookmark


class NumbersDrop(QObject):
    """Lets a widget take JSON and CSV files; all other files go on to the window.

    Signals:
        dropped: the ``NumbersFile``.
        failed: the ``WorkbenchError`` of a file that has no numbers.
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
        """Read a file and tell what it holds."""
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


def ask_picture_file(
    view: GraphView, folder: Path, name: str, failed: Callable[[WorkbenchError], object]
) -> None:
    """Ask for a file and write what the view shows; the name's suffix says in which form."""
    dialog = QFileDialog(view, "Save the picture", str(folder))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(Path(name).suffix.removeprefix("."))
    dialog.selectFile(name)
    dialog.fileSelected.connect(lambda chosen: save_picture(view, Path(chosen), failed))
    dialog.open()


def save_picture(view: GraphView, path: Path, failed: Callable[[WorkbenchError], object]) -> None:
    """Write what the view shows as SVG or PNG; tell what went wrong."""
    export = view.export_svg if path.suffix.lower() == ".svg" else view.export_png
    try:
        export(path)
    except WorkbenchError as error:
        failed(error)


class GraphNote(QFrame):
    """Hidden while there is nothing to say.

    Signals:
        whole_asked: the whole graph is to show again.
    """

    whole_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Banner")
        self.label = QLabel(self)
        self._whole = QPushButton("Show all", self)
        self._whole.clicked.connect(self.whole_asked)
        self._former = ""
        self._isolated = False
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 4, 10, 4)
        row.addWidget(self.label, 1)
        row.addWidget(self._whole)
        self._render()

    def show_former(self, title: str) -> None:
        """Say that the graph called so is of a former configuration; nothing if empty."""
        self._former = title
        self._render()

    def show_isolation(self, isolated: bool) -> None:
        """Say whether only a part of the graph shows."""
        self._isolated = isolated
        self._render()

    def _render(self) -> None:
        texts = []
        if self._isolated:
            texts.append("Only a part of the graph shows.")
        if self._former:
            texts.append(
                f"{self._former} graph of a former configuration. Run again to see the present one."
            )
        self.label.setText(" ".join(texts))
        self._whole.setVisible(self._isolated)
        self.setVisible(bool(texts))


EMPTY_TEXT = "The graph appears here once the model has been exported."
IDS = [level.id for level in LEVELS]
SURVEY = "survey"


class GraphPanel(Panel):
    """Levels, search and overlay above the view, the lineage of what is chosen below it."""

    panel_id = "graph"

    def build(self) -> None:
        context = self.context
        self._shown: GraphSnapshot | None = None
        self._drawn = FLOAT
        self._chosen: tuple[str, frozenset[str]] = (FLOAT, frozenset())
        self._sought = ""
        self._wanted: Bookmark | None = None
        self.view = GraphView(context.theme, self)
        self.bar = GraphBar(self)
        self.tabs, self.search, self.overlay = self.bar.tabs, self.bar.search, self.bar.overlay
        self.rail = LineageRail(self)
        self._note = GraphNote(self)
        self._surveyor = Surveyor(context.session.parsed)
        # The application owns the thread, so that it outlives the panel until it has ended.
        self._background = Background(QCoreApplication.instance())
        self.destroyed.connect(self._background.retire)
        self._arrange()
        self.runs = Runs(context.document, context.session, context.history)
        self.reading = Reading(
            self.runs, lambda: context.outline.snapshot, self._background, self._surveyor, self
        )
        self.beside = Comparison(self.view, self._splitter, self._background, self._surveyor)
        self.keeping = Keeping(context.document, self.view, self.bar)
        self.telling = Telling(
            context, self.view, self.bar, self.keeping, self._background, self._surveyor
        )
        self.drop = NumbersDrop(self)
        self._precisions = PrecisionMenu(context, self)
        self._connect()

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self._note)
        empty = StageNote(EMPTY_TEXT, self)
        empty.run_asked.connect(self.context.run_to)
        empty.follow(self.context.session, "export")
        body = QWidget(self)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, body)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(self.view)
        self._pages = QStackedLayout(body)
        self._pages.addWidget(empty)
        self._pages.addWidget(self._splitter)
        layout.addWidget(body, 1)
        layout.addWidget(self.rail)

    def _connect(self) -> None:
        view, bar = self.view, self.bar
        self.telling.told.connect(self._on_told)
        view.selection_changed.connect(self._on_nodes_chosen)
        view.groups_selected.connect(self._on_groups_chosen)
        view.preset_key_pressed.connect(self._on_preset_key)
        view.menu_asked.connect(self._precisions.add_to)
        view.search_requested.connect(self.search.ask)
        view.isolation_changed.connect(self._note.show_isolation)
        view.laid_out.connect(lambda: bar.render_shape(view.shape))
        self._note.whole_asked.connect(view.show_all)
        self.tabs.tabBarClicked.connect(self._on_tab_clicked)
        self.tabs.currentChanged.connect(self._on_level_changed)
        self.search.chosen.connect(self._on_found)
        self.search.left.connect(view.setFocus)
        self.rail.asked.connect(self._on_stop_asked)
        self.beside.chosen.connect(self._on_found)
        self.beside.changed.connect(self._compare)
        self.reading.arrived.connect(self._show_level)
        self.keeping.place_asked.connect(self._on_place_asked)
        self.drop.dropped.connect(self._on_numbers)
        for part in (self.beside, self.reading, self.drop):
            part.failed.connect(self.context.notices.error)
        for name, act in (
            ("back", view.go_back), ("forward", view.go_forward), ("fit", view.fit),
            ("expand", view.expand_all), ("collapse", view.collapse_all),
        ):  # fmt: skip
            bar.tools[name].clicked.connect(act)
        bar.picture_asked.connect(self._ask_file)
        bar.shape_asked.connect(view.set_shape)
        bar.menus["beside"].aboutToShow.connect(self._fill_beside)
        for keys, act in (
            (QKeySequence(QKeySequence.StandardKey.Find), self.search.ask),
            (QKeySequence("F3"), lambda: self.search.step(1)),
            (QKeySequence("Shift+F3"), lambda: self.search.step(-1)),
        ):
            shortcut = QShortcut(keys, self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(act)

    @property
    def level(self) -> str:
        """The level that shows."""
        return self.bar.level

    def refresh(self) -> None:
        self.runs.note()
        for number, level in enumerate(IDS):
            self.tabs.setTabEnabled(number, level in self.runs.files)
        if not self.tabs.isTabEnabled(self.tabs.currentIndex()):
            self.tabs.setCurrentIndex(0)
        self._show_level()

    def render_selection(self, selected: Selected) -> None:
        if selected.origin == self.panel_id:
            return
        nodes = selected.nodes or self.context.outline.nodes_of(selected.modules - {""})
        level: str | None = FLOAT
        if selected.nodes and not (self._shown and nodes & self._shown.nodes_by_id.keys()):
            level = self.telling.survey.lineage.level_of(nodes, self._drawn)
        elif selected.nodes:
            level = self._drawn
        self._chosen = (level or self._drawn, nodes)
        self._show_chosen()

    def set_theme(self, theme: Theme) -> None:
        self.view.set_theme(theme)
        self.bar.set_theme(theme)
        self.beside.set_theme(theme)

    def stop(self) -> None:
        self.view.stop()
        self.beside.stop()
        self._background.stop()

    def show_level(self, level: str) -> bool:
        """Show a level, named as the stage that leaves it; return whether it is there."""
        if level in IDS and self.tabs.isTabEnabled(IDS.index(level)):
            self.tabs.setCurrentIndex(IDS.index(level))
            return True
        return False

    def show_node(self, node_id: str) -> None:
        """Show a level that has this node, the present one if it does; as soon as that is known."""
        level = self.telling.survey.lineage.level_of([node_id], self.level)
        if level is not None:
            self.show_level(level)
        elif node_id != self._sought:
            self._sought = node_id
            self.annotate()

    def annotate(self) -> None:
        self.telling.ask(self.level, self.runs.files, self.beside.other)

    def _show_level(self) -> None:
        level, session = LEVELS_BY_ID[self.level], self.context.session
        if not self.reading.is_due(level.id):
            self._show_snapshot(self.reading.snapshot(level.id))
        is_current = session.former(level.stage) == session.result(level.stage)
        self._note.show_former("" if is_current else level.title)

    def _show_snapshot(self, snapshot: GraphSnapshot | None) -> None:
        if snapshot is not self._shown:
            self._shown, self._drawn = snapshot, self.level
            self.view.render_snapshot(snapshot)
            self._show_chosen()
            self.beside.compare(self.context.outline.snapshot, snapshot)
            if self._wanted is not None and self._wanted.level == self.level:
                self.view.go_to(place_of(self._wanted))
                self._wanted = None
        self._pages.setCurrentIndex(0 if snapshot is None else 1)
        if self.level == FLOAT:
            self.telling.show_configs()

    def _on_told(self) -> None:
        """Catch up with what had to wait for the lineage."""
        if self._sought:
            self.show_node(self._sought)
            self._sought = ""
        self._show_chosen()

    def _show_chosen(self) -> None:
        level, nodes = self._chosen
        if nodes and level != self._drawn:
            nodes = self.telling.survey.lineage.translate(level, nodes, self._drawn)
        self.view.select(nodes, reveal=True)
        self.beside.select(nodes)
        self._show_rail()

    def _show_rail(self) -> None:
        level, nodes = self._chosen
        titles = [(row.id, row.title) for row in LEVELS]
        survey = self.telling.survey
        self.rail.show_stops(stops(survey.lineage, level, nodes, titles, survey.rows, self.level))

    def _on_tab_clicked(self, number: int) -> None:
        if number >= 0 and not self.tabs.isTabEnabled(number):
            title = LEVELS[number].title
            self.context.notices.info(f"There is no {title} graph yet.", "Run that far.")

    def _on_level_changed(self) -> None:
        self._show_level()
        self.annotate()

    def _on_nodes_chosen(self, nodes: frozenset[str]) -> None:
        """Tell everybody, by the float program's names if it has them: rules speak of those."""
        self._chosen = (self._drawn, nodes)
        lineage = self.telling.survey.lineage
        known = lineage.translate(self._drawn, nodes, FLOAT) if lineage.levels else nodes
        self.context.selection.choose_nodes(known or nodes, self.panel_id)
        self.beside.select(nodes)
        self._show_rail()

    def _on_found(self, nodes: frozenset[str]) -> None:
        self.view.select(nodes, reveal=True)
        self._on_nodes_chosen(nodes)

    def _on_groups_chosen(self, modules: frozenset[str]) -> None:
        if modules - {""}:
            self.context.selection.choose_modules(modules - {""}, self.panel_id)

    def _on_preset_key(self, number: int) -> None:
        self.context.assigner.by_key(number, self.context.selection.value)

    def _on_stop_asked(self, target: str) -> None:
        kind, _, place = target.partition(":")
        if kind == SOURCE:
            QGuiApplication.clipboard().setText(place)
            self.context.notices.info(f"Copied {place}.")
        elif target == self.level:
            self._show_chosen()
        else:
            self.show_level(target)

    def _on_place_asked(self, bookmark: Bookmark) -> None:
        """Go to a bookmark, at its level if there is that level."""
        self._wanted = bookmark if bookmark.level != self._drawn else None
        if self._wanted is None or not self.show_level(bookmark.level):
            self._wanted = None
            self.view.go_to(place_of(bookmark))

    def _on_numbers(self, numbers: NumbersFile) -> None:
        self.telling.take(numbers)
        self.annotate()

    def _fill_beside(self) -> None:
        """Offer the other levels, and this level as earlier runs left it."""
        files = self.runs.files
        offers = [Other(f"{row.title} level", files[row.id]) for row in LEVELS if row.id in files]
        others = [other for other in offers if other.path != files.get(self.level)]
        self.beside.offer(self.bar.menus["beside"], others, self.runs.past(self.level))

    def _compare(self) -> None:
        self.beside.compare(self.context.outline.snapshot, self._shown)
        self.annotate()

    def _ask_file(self, suffix: str) -> None:
        document = self.context.document
        name = f"{document.project.name if document.project else 'graph'}.{suffix}"
        ask_picture_file(self.view, document.folder, name, self.context.notices.error)
