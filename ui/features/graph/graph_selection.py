"""The selection controller of the graph widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent

from ui.features.graph.navigation import lines, trace

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from ui.features.graph.graph_places import GraphPlaces
    from ui.features.graph.graph_surface import GraphSurface


NOTHING = "No selection"


class GraphSelection(QObject):
    """Changes the selection and reports changes by the user.

    Signals:
        changed: the operations that the user selected, as a frozenset.
        groups_chosen: the modules of the groups that the user selected, as a frozenset.
    """

    changed = Signal(object)
    groups_chosen = Signal(object)

    def __init__(self, surface: GraphSurface, places: GraphPlaces, widget: QWidget) -> None:
        super().__init__(widget)
        self._surface, self._places, self._widget = surface, places, widget
        # The groups that the user has selected as such; stale once something else is selected.
        self._groups = frozenset[str]()
        widget.setAccessibleDescription(NOTHING)

    def select(self, node_ids: frozenset[str], reveal: bool = False) -> None:
        """Select operations without a signal.

        Args:
            node_ids: Ids of the operations.
            reveal: Whether to open the groups around them and move the camera to them.
        """
        self._surface.choose(frozenset(node_ids))
        self._announce(next(iter(sorted(node_ids)), None))
        if reveal:
            self._places.reveal(frozenset(node_ids))

    def trace(self, *, forwards: bool) -> None:
        """Extend the selection to all its descendants, or to all its ancestors."""
        if self._surface.scene is not None and self._surface.selected:
            self.pick(trace(self._surface.scene, self._surface.selected, forwards=forwards))

    def choose_items(self, items: tuple[str, ...]) -> None:
        """Select all operations of several items, as a user action.

        If all items are groups, ``groups_chosen`` reports their modules.
        """
        self.pick(frozenset().union(*map(self.leaves, items)))
        scene = self._surface.scene
        groups = scene.hierarchy.groups if scene else {}
        modules = {groups[item].module for item in items if item in groups}
        if items and all(item in groups for item in items):
            self.groups_chosen.emit(frozenset(modules))

    def choose_item(self, item: str, *, adds: bool) -> None:
        """Select an item, or with ``adds`` toggle it in the selection, as a user action."""
        surface = self._surface
        if surface.scene is None:
            return
        surface.current = item
        leaves = self.leaves(item)
        if adds:
            selected = surface.selected
            leaves = selected - leaves if leaves <= selected else selected | leaves
        self.pick(leaves)
        self._announce(item)
        self._report_groups(item, adds=adds)
        surface.update()

    def _report_groups(self, item: str, *, adds: bool) -> None:
        """Report the modules of the selected groups if nothing else is selected."""
        surface = self._surface
        groups = surface.scene.hierarchy.groups if surface.scene else {}
        chosen = (self._groups if adds else frozenset()) | ({item} & groups.keys())
        self._groups = frozenset(g for g in chosen & groups.keys() if self.leaves(g) <= surface.selected)
        covered = frozenset[str]().union(*map(self.leaves, self._groups))
        if self._groups and covered == surface.selected:
            self.groups_chosen.emit(frozenset(groups[group].module for group in self._groups))

    def choose_band(self, items: list[str], *, adds: bool) -> None:
        """Select the operations of items in a rubber band, as a user action."""
        leaves = frozenset(leaf for item in items for leaf in self.leaves(item))
        self.pick(self._surface.selected | leaves if adds else leaves)
        self._announce(items[0] if items else None)

    def jump(self, item: str) -> None:
        """Select an operation and move to it, as a user action."""
        self._surface.current = item
        leaves = self.leaves(item)
        self.pick(leaves)
        self._announce(item)
        self._places.reveal(leaves)

    def clear(self) -> None:
        """Clear the selection and the brush, as a user action."""
        self._surface.current = None
        self._surface.brush(None)
        self.pick(frozenset())
        self._announce(None)
        self._surface.update()

    def pick(self, node_ids: frozenset[str]) -> None:
        """Select operations, as a user action."""
        if node_ids != self._surface.selected:
            self._surface.choose(node_ids)
            self.changed.emit(node_ids)

    def leaves(self, item: str) -> frozenset[str]:
        """Return the operations of an item: itself, or all operations in a group."""
        scene = self._surface.scene
        return frozenset(scene.hierarchy.leaves(item)) if scene else frozenset()

    def _announce(self, item: str | None) -> None:
        """Set the accessible description to the selected item."""
        text, scene = NOTHING, self._surface.scene
        if item is not None and scene is not None:
            is_known = item in scene.hierarchy.groups or item in scene.hierarchy.parent
            text = ", ".join(lines(item, scene.hierarchy, self._surface.marks)) if is_known else item
        self._widget.setAccessibleDescription(text)
        event = QAccessibleEvent(self._widget, QAccessible.Event.DescriptionChanged)
        QAccessible.updateAccessibility(event)
