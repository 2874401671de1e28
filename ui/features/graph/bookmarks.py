"""Bookmarks and kept searches: the project's notes about the graph, shown and changed here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QInputDialog, QMenu

from ui.features.graph.graph_canvas import Place
from ui.features.graph.picture import Camera
from workbench.errors import WorkbenchError
from workbench.graph.query import find
from workbench.project import graph_notes
from workbench.project.model import Bookmark, GraphNotes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ui.features.graph.graph_bar import GraphBar
    from ui.features.graph.graph_view import GraphView
    from ui.state.document import Document
    from workbench.graph.snapshot import GraphSnapshot

NOTHING = GraphNotes()


class Keeping(QObject):
    """Turns what the user keeps and forgets into named, undoable edits.

    Signals:
        place_asked: a bookmark that the user wants to see again.
    """

    place_asked = Signal(object)

    def __init__(self, document: Document, view: GraphView, bar: GraphBar) -> None:
        super().__init__(bar)
        self._document, self._view, self._bar = document, view, bar
        bar.menus["bookmark"].aboutToShow.connect(self._fill)
        bar.search.keep_asked.connect(self.keep_query)
        bar.kept.shown_asked.connect(self._show_query)
        bar.kept.forget_asked.connect(self._forget_query)
        bar.kept.find_asked.connect(bar.search.look_for)

    @property
    def notes(self) -> GraphNotes:
        """What the open project keeps."""
        project = self._document.project
        return project.graph if project is not None else NOTHING

    def render(
        self, snapshot: GraphSnapshot | None, numbers: Mapping[str, Mapping[str, float]]
    ) -> None:
        """Colour what the kept searches find in a graph, and say how much it is."""
        hits: dict[str, tuple[int, ...]] = {}
        counts = []
        for number, query in enumerate(self.notes.queries):
            try:
                found = find(query.text, snapshot, numbers) if snapshot else ()
            except WorkbenchError:
                counts.append("no such number here")
                continue
            counts.append(f"{len(found):,}")
            for node_id in found if query.shown else ():
                hits[node_id] = (*hits.get(node_id, ()), number)
        self._bar.kept.show_queries(self.notes.queries, counts)
        if hits != self._view.marks.found:
            self._view.set_hits(hits)

    def keep_query(self, text: str) -> None:
        """Keep a search; what it finds is coloured from now on."""
        if text:
            self._document.apply(
                f"Keep the search {text}", partial(graph_notes.keep_query, text=text)
            )

    def bookmark(self, name: str, level: str) -> None:
        """Keep the place that shows under a name."""
        name = name.strip()
        if not name:
            return
        kept = here(self._view, name, level)
        self._document.apply(f"Bookmark {name}", partial(graph_notes.keep_bookmark, bookmark=kept))

    def ask_name(self, level: str) -> None:
        """Ask what to call the place that shows."""
        dialog = QInputDialog(self._bar)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("Bookmark")
        dialog.setLabelText("Name of this place")
        dialog.setTextValue(f"Place {len(self.notes.bookmarks) + 1}")
        dialog.textValueSelected.connect(lambda name: self.bookmark(name, level))
        dialog.open()

    def _fill(self) -> None:
        menu = self._bar.menus["bookmark"]
        menu.clear()
        level = self._bar.level
        keep = menu.addAction("Keep this place\u2026")
        keep.setEnabled(self._view.scene is not None)
        keep.triggered.connect(lambda: self.ask_name(level))
        kept = self.notes.bookmarks
        if not kept:
            return
        menu.addSeparator()
        for bookmark in kept:
            go = menu.addAction(bookmark.name)
            go.triggered.connect(partial(self._go, bookmark))
        menu.addSeparator()
        below = QMenu("Forget", menu)
        menu.addMenu(below)
        for bookmark in kept:
            forget = below.addAction(bookmark.name)
            forget.triggered.connect(partial(self.forget, bookmark.name))

    def _go(self, bookmark: Bookmark, _checked: bool = False) -> None:
        self.place_asked.emit(bookmark)

    def forget(self, name: str, _checked: bool = False) -> None:
        """Forget a bookmark."""
        edit = partial(graph_notes.forget_bookmark, name=name)
        self._document.apply(f"Forget the bookmark {name}", edit)

    def _show_query(self, text: str, shown: bool) -> None:
        edit = partial(graph_notes.show_query, text=text, shown=shown)
        self._document.apply(f"{'Show' if shown else 'Hide'} the search {text}", edit)

    def _forget_query(self, text: str) -> None:
        edit = partial(graph_notes.forget_query, text=text)
        self._document.apply(f"Forget the search {text}", edit)


def here(view: GraphView, name: str, level: str) -> Bookmark:
    """Return the place that a view shows, held by the item next to its middle."""
    place, middle = view.place(), view.picture_middle()
    anchor = view.item_near(middle)
    dx, dy = middle.x(), middle.y()
    if anchor and view.scene is not None:
        corner = view.scene.rect(anchor).topLeft()
        dx, dy = dx - corner.x(), dy - corner.y()
    return Bookmark(
        name=name, level=level, shape=view.shape, expanded=tuple(sorted(place.expanded)),
        scale=place.camera.scale, anchor=anchor, dx=dx, dy=dy,
    )  # fmt: skip


def place_of(bookmark: Bookmark) -> Place:
    """Return a bookmark's place, held by its anchor."""
    camera = Camera(bookmark.scale, bookmark.dx, bookmark.dy)
    return Place(frozenset(bookmark.expanded), camera, bookmark.shape, bookmark.anchor)
