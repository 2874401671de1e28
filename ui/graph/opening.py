"""Opening and closing groups, showing a part alone, or the program without groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ui.graph.canvas import GraphCanvas
from ui.graph.places import History
from workbench.graph.hierarchy import isolate

if TYPE_CHECKING:
    from workbench.graph.hierarchy import Shape
    from workbench.graph.snapshot import GraphSnapshot


class OpeningCanvas(GraphCanvas):
    """A canvas whose groups open and close."""

    def expand(self, group: str) -> None:
        """Open a group, and those around it."""
        key = self._resolve(group)
        if key is not None and self.scene is not None and key in self.scene.hierarchy.groups:
            around = self.scene.hierarchy.ancestors(key)
            self._open(self._expanded.union({key}, around), anchor=key)

    def collapse(self, group: str) -> None:
        """Close a group."""
        key = self._resolve(group)
        if key is not None:
            self._open(self._expanded - {key}, anchor=key)

    def expand_all(self) -> None:
        """Open every group, however long the drawing gets."""
        if self._snapshot is not None:
            self._submit(replace(self._new_order(None), everything=True))

    def collapse_all(self) -> None:
        """Close every group."""
        self._open(frozenset(), anchor=None)

    def expand_below(self, group: str) -> None:
        """Open a group and every group inside of it."""
        key = self._resolve(group)
        if key is not None and self.scene is not None:
            below = self.scene.hierarchy.groups_below(key)
            self._open(self._expanded.union(below) - {"/"}, anchor=key)

    def is_expanded(self, group: str) -> bool:
        """Tell whether a group is open, or about to be."""
        return self._resolve(group) in self._expanded

    def set_shape(self, shape: Shape) -> None:
        """Group by modules, fold repeated blocks into one as well, or show no groups at all."""
        if shape == self.shape:
            return
        if self._snapshot is None:
            self.shape = shape
            return
        self._history.leave(self.place())
        self.shape = shape
        self._anchor = None
        self._submit(self._new_order(None))
        if self.selected:
            self._awaited = self.selected

    def isolate_selection(self) -> None:
        """Show nothing but the selected operations and what they read from and write to."""
        if self._snapshot is not None and self.scene is not None and self.selected:
            owner = self.scene.hierarchy.owner
            inside = {n for n, item in owner.items() if item in self.selected}
            whole = self._whole or self._snapshot
            self._show_part(isolate(self._snapshot, inside | self.selected), whole)

    def show_all(self) -> None:
        """Show the whole graph again."""
        if self._whole is not None:
            self._show_part(self._whole, None)

    def _show_part(self, snapshot: GraphSnapshot, whole: GraphSnapshot | None) -> None:
        self._snapshot, self._anchor, self.scene = snapshot, None, None
        self._set_whole(whole)
        self._history = History()
        self._submit(self._new_order(None))
        self.update()
