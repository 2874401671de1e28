"""What is chosen in the graph: by click, by key, on somebody's behalf; and how it is announced."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent

from ui.graph.opening import OpeningCanvas
from ui.graph.tooltips import lines
from ui.graph.walking import trace


class ChoosingCanvas(OpeningCanvas):
    """A canvas with a selection.

    Signals:
        selection_changed: the operations the user selected, as a frozenset.
        groups_selected: the modules of the groups the user selected, as a frozenset.
    """

    selection_changed = Signal(object)
    groups_selected = Signal(object)

    def select(self, node_ids: frozenset[str], reveal: bool = False) -> None:
        """Select operations on somebody's behalf; no signal is sent.

        With ``reveal`` the groups around them open and the drawing moves to them.
        """
        self._choose(frozenset(node_ids))
        self._announce(next(iter(sorted(node_ids)), None))
        if reveal:
            self._bring(frozenset(node_ids))

    def trace(self, *, forwards: bool) -> None:
        """Extend the selection to all that is made from it, or to all it is made from."""
        if self.scene is not None and self.selected:
            self._pick(trace(self.scene, self.selected, forwards=forwards))

    def choose_items(self, items: tuple[str, ...]) -> None:
        """Select all operations of several items on the user's own action.

        Where all of them are groups, their modules are told too, to be configured together.
        """
        self._pick(frozenset().union(*map(self._leaves, items)))
        groups = self.scene.hierarchy.groups if self.scene else {}
        modules = {groups[item].module for item in items if item in groups}
        if items and all(item in groups for item in items):
            self.groups_selected.emit(frozenset(modules))

    def jump(self, item: str) -> None:
        """Go to an operation wherever it is, and select it, on the user's own action."""
        self.current = item
        leaves = self._leaves(item)
        self._pick(leaves)
        self._announce(item)
        self._bring(leaves)

    def _pick(self, node_ids: frozenset[str]) -> None:
        """Select on the user's own action."""
        if node_ids != self.selected:
            self._choose(node_ids)
            self.selection_changed.emit(node_ids)

    def _choose_item(self, item: str, *, adds: bool) -> None:
        if self.scene is None:
            return
        self.current = item
        leaves = self._leaves(item)
        if adds:
            leaves = self.selected - leaves if leaves <= self.selected else self.selected | leaves
        self._pick(leaves)
        self._announce(item)
        group = self.scene.hierarchy.groups.get(item)
        if group is not None:
            self.groups_selected.emit(frozenset((group.module,)))
        self.update()

    def _leaves(self, item: str) -> frozenset[str]:
        return frozenset(self.scene.hierarchy.leaves(item)) if self.scene else frozenset()

    def _toggle(self, item: str | None) -> None:
        if self.scene is None or item not in self.scene.hierarchy.groups or item is None:
            return
        if item in self._expanded:
            self.collapse(item)
        else:
            self.expand(item)

    def _clear(self) -> None:
        self.current = None
        self.brush(None)
        self._pick(frozenset())
        self._announce(None)
        self.update()

    def _announce(self, item: str | None) -> None:
        """Let a screen reader say what is selected."""
        text = "Nothing is selected"
        if item is not None and self.scene is not None:
            is_known = item in self.scene.hierarchy.groups or item in self.scene.hierarchy.parent
            text = ", ".join(lines(item, self.scene.hierarchy, self.marks)) if is_known else item
        self.setAccessibleDescription(text)
        event = QAccessibleEvent(self, QAccessible.Event.DescriptionChanged)
        QAccessible.updateAccessibility(event)
