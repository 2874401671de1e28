"""The layout controller of the graph widget: open groups, grouping and isolation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, Signal

from ui.features.graph.layout_thread import LayoutThread, Order
from ui.state.background import window_first
from workbench.graph.hierarchy import isolate

if TYPE_CHECKING:
    from ui.features.graph.graph_surface import GraphSurface
    from ui.features.graph.scene import Scene
    from workbench.graph.hierarchy import Hierarchy, Shape
    from workbench.graph.layout import Flow
    from workbench.graph.snapshot import GraphSnapshot


class GraphGroups(QObject):
    """Requests layouts from the layout thread and puts the scenes on the surface.

    Attributes:
        shape: How operations are grouped.
        flow: The direction of the drawing.
        expanded: The open groups of the last requested layout.

    Signals:
        leaving: the open groups or the grouping are about to change.
        regrouped: another grouping or flow was requested.
        isolated_part: another part of the graph was requested.
        scene_shown: the former scene or None, the new one, and the group that was toggled or "".
        laid_out: a new scene is shown and the camera has moved.
        isolation_changed: whether only a part of the graph is shown.
    """

    leaving = Signal()
    regrouped = Signal()
    isolated_part = Signal()
    scene_shown = Signal(object, object, str)
    laid_out = Signal()
    isolation_changed = Signal(bool)

    def __init__(self, surface: GraphSurface, parent: QObject) -> None:
        super().__init__(parent)
        self.shape: Shape = "folded"
        self.flow: Flow = "down"
        self.expanded: frozenset[str] = frozenset()
        self._surface = surface
        self._snapshot: GraphSnapshot | None = None
        self._whole: GraphSnapshot | None = None
        self._order: Order | None = None
        self._anchor = ""
        # The application owns the thread, so that it outlives the widget until it has ended.
        self.layout_thread = LayoutThread(QCoreApplication.instance())
        self.layout_thread.finished_scene.connect(self._on_scene)
        self.destroyed.connect(self.layout_thread.retire)

    def stop(self) -> None:
        """Stop the layout thread. Later requests are ignored."""
        self.layout_thread.stop()

    @property
    def snapshot(self) -> GraphSnapshot | None:
        """The shown graph, or the isolated part of it."""
        return self._snapshot

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The groups of the shown scene; None before the first one."""
        return None if self._surface.scene is None else self._surface.scene.hierarchy

    @property
    def isolated(self) -> bool:
        """Whether only a part of the graph is shown."""
        return self._whole is not None

    def render_snapshot(self, snapshot: GraphSnapshot | None) -> None:
        """Show a graph; None shows nothing. Groups that are open in the last graph stay open."""
        if snapshot is self._snapshot and not self.isolated:
            return
        had_scene = self._surface.scene is not None
        self._snapshot = snapshot
        # The same names may stand for other groups now.
        self._surface.marks.changed()
        self._set_whole(None)
        self._anchor = ""
        if snapshot is None:
            self.layout_thread.cancel()
            self._order = None
            self._surface.show_scene(None)
            return
        self._request(self._new_order(self.expanded if had_scene else None))

    def expand(self, group: str) -> None:
        """Open a group and the groups around it."""
        key, scene = self._resolve(group), self._surface.scene
        if key is not None and scene is not None and key in scene.hierarchy.groups:
            around = scene.hierarchy.ancestors(key)
            self.open(self.expanded.union({key}, around), anchor=key)

    def collapse(self, group: str) -> None:
        """Close a group."""
        key = self._resolve(group)
        if key is not None:
            self.open(self.expanded - {key}, anchor=key)

    def toggle(self, item: str | None) -> None:
        """Open a closed group, or close an open one; does nothing for operations."""
        scene = self._surface.scene
        if item is None or scene is None or item not in scene.hierarchy.groups:
            return
        if item in self.expanded:
            self.collapse(item)
        else:
            self.expand(item)

    def expand_all(self) -> None:
        """Open all groups."""
        if self._snapshot is not None:
            self._request(replace(self._new_order(None), everything=True))

    def collapse_all(self) -> None:
        """Close all groups."""
        self.open(frozenset())

    def expand_below(self, group: str) -> None:
        """Open a group and all groups inside it."""
        key, scene = self._resolve(group), self._surface.scene
        if key is not None and scene is not None:
            below = scene.hierarchy.groups_below(key)
            self.open(self.expanded.union(below) - {"/"}, anchor=key)

    def is_expanded(self, group: str) -> bool:
        """Return whether a group is open in the last requested layout."""
        return self._resolve(group) in self.expanded

    def open(self, expanded: frozenset[str], anchor: str = "") -> None:
        """Open exactly these groups; the item ``anchor`` keeps its position in the widget."""
        if self._snapshot is not None and expanded != self.expanded:
            self.leaving.emit()
            self._anchor = anchor
            self.expanded = expanded
            self._request(self._new_order(expanded))

    def restore(self, expanded: frozenset[str], shape: Shape, flow: Flow) -> None:
        """Open exactly these groups in this grouping and flow, as an earlier place has them."""
        self.expanded, self.shape, self.flow = expanded, shape, flow
        self._request(self._new_order(expanded))

    def set_shape(self, shape: Shape) -> None:
        """Set the grouping: by modules, with folded repeated blocks, or none."""
        if shape == self.shape:
            return
        if self._snapshot is None:
            self.shape = shape
            return
        self.leaving.emit()
        self.shape = shape
        self._anchor = ""
        self._request(self._new_order(None))
        self.regrouped.emit()

    def follow(self, other: GraphGroups) -> bool:
        """Open the groups that are open in another view, with its grouping and flow.

        Groups that only this graph has stay as they are. Return whether anything changes.
        """
        theirs = other.hierarchy
        if self._snapshot is None or theirs is None:
            return False
        shape, flow = other.shape, other.flow
        expanded = other.expanded | {key for key in self.expanded if key not in theirs.groups}
        if (shape, flow) == (self.shape, self.flow):
            mine = self.hierarchy
            known = expanded if mine is None else expanded & mine.groups.keys()
            if known == self.expanded:
                return False
        self.restore(expanded, shape, flow)
        return True

    def set_flow(self, flow: Flow) -> None:
        """Set the direction of the drawing; the open groups stay open."""
        if flow == self.flow:
            return
        if self._snapshot is None:
            self.flow = flow
            return
        self.leaving.emit()
        self.flow = flow
        self._anchor = ""
        self._request(self._new_order(self.expanded))
        self.regrouped.emit()

    def isolate_selection(self) -> None:
        """Show only the selected operations, their inputs and their consumers."""
        scene, selected = self._surface.scene, self._surface.selected
        if self._snapshot is not None and scene is not None and selected:
            inside = {n for n, item in scene.hierarchy.owner.items() if item in selected}
            whole = self._whole or self._snapshot
            self._show_part(isolate(self._snapshot, inside | selected), whole)

    def show_all(self) -> None:
        """Show the whole graph again after ``isolate_selection``."""
        if self._whole is not None:
            self._show_part(self._whole, None)

    def _show_part(self, snapshot: GraphSnapshot, whole: GraphSnapshot | None) -> None:
        self._snapshot, self._anchor = snapshot, ""
        self._surface.show_scene(None)
        self._set_whole(whole)
        self.isolated_part.emit()
        self._request(self._new_order(None))

    def _set_whole(self, whole: GraphSnapshot | None) -> None:
        was = self.isolated
        self._whole = whole
        if was != self.isolated:
            self.isolation_changed.emit(self.isolated)

    def _resolve(self, group: str) -> str | None:
        scene = self._surface.scene
        return scene.hierarchy.resolve(group) if scene is not None else None

    def _new_order(self, expanded: frozenset[str] | None) -> Order:
        assert self._snapshot is not None
        area = self._surface.area()
        return Order(self._snapshot, expanded, area=area, shape=self.shape, flow=self.flow)

    def _request(self, order: Order) -> None:
        self._order, self._surface.is_waiting = order, True
        self.layout_thread.submit(order)

    def _on_scene(self, order: Order, scene: Scene) -> None:
        if order is not self._order:
            return
        with window_first():
            former, anchor = self._surface.scene, self._anchor
            self._order, self._anchor = None, ""
            self.expanded = scene.expanded
            self._surface.show_scene(scene)
            self.scene_shown.emit(former, scene, anchor)
        self.laid_out.emit()
