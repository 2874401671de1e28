"""Bookmarks and saved searches of the graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu

from ui.features.graph.graph_places import Place
from ui.features.graph.picture import LARGEST, SMALLEST, Camera
from ui.shared.text_question import ask_text
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
# The largest offset of a place [px of the drawing]: drawings of 10,000 operations have a tenth.
_FARTHEST = 1e7


class Bookmarks(QObject):
    """Adds and deletes bookmarks and saved searches as named undo steps.

    Signals:
        place_asked: a bookmark to go to.
    """

    place_asked = Signal(object)

    def __init__(self, document: Document, view: GraphView, bar: GraphBar) -> None:
        super().__init__(bar)
        self._document, self._view, self._bar = document, view, bar
        bar.menus["bookmark"].aboutToShow.connect(self._fill)
        bar.search.keep_asked.connect(self.keep_query)
        bar.saved.shown_asked.connect(self._show_query)
        bar.saved.forget_asked.connect(self._forget_query)
        bar.saved.find_asked.connect(bar.search.look_for)

    @property
    def notes(self) -> GraphNotes:
        """The bookmarks and saved searches of the open project."""
        project = self._document.project
        return project.graph if project is not None else NOTHING

    def render(self, snapshot: GraphSnapshot | None, numbers: Mapping[str, Mapping[str, float]]) -> None:
        """Colour and count the hits of the saved searches in a graph."""
        hits: dict[str, tuple[int, ...]] = {}
        counts = []
        for number, query in enumerate(self.notes.queries):
            try:
                node_ids = find(query.text, snapshot, numbers) if snapshot else ()
            except WorkbenchError:
                counts.append("unknown number")
                continue
            counts.append(f"{len(node_ids):,}")
            for node_id in node_ids if query.shown else ():
                hits[node_id] = (*hits.get(node_id, ()), number)
        self._bar.saved.show_queries(self.notes.queries, counts)
        if hits != self._view.surface.marks.search_hits:
            self._view.surface.set_hits(hits)

    def keep_query(self, text: str) -> None:
        """Save a search; its hits are coloured."""
        if text:
            self._document.apply(f"Save search {text}", partial(graph_notes.keep_query, text=text))

    def bookmark(self, name: str, level: str) -> None:
        """Bookmark the present place under a name."""
        name = name.strip()
        if not name:
            return
        kept = here(self._view, name, level)
        self._document.apply(f"Add bookmark {name}", partial(graph_notes.keep_bookmark, bookmark=kept))

    def ask_name(self, level: str) -> None:
        """Ask for a name and bookmark the present place."""
        proposed = f"Bookmark {len(self.notes.bookmarks) + 1}"
        ask_text(self._bar, "Bookmark", "Bookmark name", lambda name: self.bookmark(name, level), [proposed])

    def _fill(self) -> None:
        menu = self._bar.menus["bookmark"]
        menu.clear()
        level = self._bar.level
        keep = menu.addAction("Add bookmark\u2026")
        keep.setEnabled(self._view.surface.scene is not None)
        keep.triggered.connect(lambda: self.ask_name(level))
        kept = self.notes.bookmarks
        if not kept:
            return
        menu.addSeparator()
        for bookmark in kept:
            go = menu.addAction(bookmark.name)
            go.triggered.connect(partial(self._go, bookmark))
        menu.addSeparator()
        below = QMenu("Delete", menu)
        menu.addMenu(below)
        for bookmark in kept:
            forget = below.addAction(bookmark.name)
            forget.triggered.connect(partial(self.forget, bookmark.name))

    def _go(self, bookmark: Bookmark, _checked: bool = False) -> None:
        self.place_asked.emit(bookmark)

    def forget(self, name: str, _checked: bool = False) -> None:
        """Delete a bookmark."""
        edit = partial(graph_notes.forget_bookmark, name=name)
        self._document.apply(f"Delete bookmark {name}", edit)

    def _show_query(self, text: str, shown: bool) -> None:
        edit = partial(graph_notes.show_query, text=text, shown=shown)
        self._document.apply(f"{'Show' if shown else 'Hide'} search {text}", edit)

    def _forget_query(self, text: str) -> None:
        edit = partial(graph_notes.forget_query, text=text)
        self._document.apply(f"Delete search {text}", edit)


def here(view: GraphView, name: str, level: str) -> Bookmark:
    """Return the present place of a view as a bookmark, anchored to the item near its middle."""
    position, middle = view.places.here(), view.surface.middle()
    anchor = view.places.item_near(middle)
    dx, dy = middle.x(), middle.y()
    if anchor and view.surface.scene is not None:
        corner = view.surface.scene.rect(anchor).topLeft()
        dx, dy = dx - corner.x(), dy - corner.y()
    return Bookmark(
        name=name,
        level=level,
        shape=view.groups.shape,
        expanded=tuple(sorted(position.expanded)),
        scale=position.camera.scale,
        anchor=anchor,
        dx=dx,
        dy=dy,
    )


def view_of(bookmark: Bookmark) -> Place:
    """Return the place of a bookmark, within what a view can show."""
    x, y = (min(max(offset, -_FARTHEST), _FARTHEST) for offset in (bookmark.dx, bookmark.dy))
    camera = Camera(min(max(bookmark.scale, SMALLEST), LARGEST), x, y)
    return Place(frozenset(bookmark.expanded), camera, bookmark.shape, bookmark.anchor)
