"""The layout thread: computes hierarchies, layouts and scenes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRectF, Signal

from ui.features.graph.scene import Scene
from ui.state.background import OrderThread, give_way
from workbench.errors import Cancelled
from workbench.graph.hierarchy import Hierarchy
from workbench.graph.layout import Layout
from workbench.graph.snapshot import collection_paused

if TYPE_CHECKING:
    from workbench.graph.hierarchy import Shape
    from workbench.graph.layout import Flow
    from workbench.graph.snapshot import GraphSnapshot

MAX_LAYOUTS = 6
MAX_SCENES = 2


@dataclass(frozen=True, slots=True)
class Order:
    """A layout request. ``expanded`` None opens groups to a readable depth.

    ``everything`` opens all groups. ``area`` is the visible area, which is prepared first.
    ``shape`` is how operations are grouped, ``flow`` the direction of the drawing.
    """

    snapshot: GraphSnapshot
    expanded: frozenset[str] | None = None
    everything: bool = False
    area: QRectF = field(default_factory=QRectF)
    shape: Shape = "folded"
    flow: Flow = "down"


class LayoutThread(OrderThread[Order]):
    """Computes one layout at a time. A newer order cancels the older one."""

    finished_scene = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._order: Order | None = None
        self._running: Order | None = None
        # Freeing a large scene is slow, so the last scenes are kept and freed by this thread.
        self._scenes: list[Scene] = []
        self._layouts: OrderedDict[tuple[int, Shape, Flow], Layout] = OrderedDict()

    def submit(self, order: Order) -> None:
        """Compute this layout next; cancel the former order."""
        self._accept(partial(setattr, self, "_order", order))

    def cancel(self) -> None:
        """Cancel the waiting or running order."""
        with self._lock:
            self._forget()

    def _newest(self) -> Order | None:
        self._running = self._order
        return self._running

    def _forget(self) -> None:
        self._order = None

    def _work(self, order: Order) -> None:
        with collection_paused():
            scene = self._make(order)
            if scene is not None and self._take(order):
                self._scenes.append(scene)
                self.finished_scene.emit(order, scene)
                while len(self._scenes) > MAX_SCENES:
                    self._scenes.pop(0).forget()
                scene.prepare(self._has_order)

    def _take(self, order: Order) -> bool:
        """Return whether an order is still current, and mark it as done."""
        with self._lock:
            is_current = self._order is order
            if is_current:
                self._order = None
            return is_current

    def _make(self, order: Order) -> Scene | None:
        layout = self._layout(order.snapshot, order.shape, order.flow)
        hierarchy = layout.hierarchy
        expanded = hierarchy.opening() if order.expanded is None else order.expanded
        if order.everything:
            expanded = frozenset(hierarchy.groups)
        try:
            placement = layout.arrange(expanded)
        except Cancelled:
            return None
        scene = Scene(placement)
        scene.visible_cells(order.area)
        return scene

    def _layout(self, snapshot: GraphSnapshot, shape: Shape, flow: Flow) -> Layout:
        key = (id(snapshot), shape, flow)
        if key not in self._layouts:
            layout = Layout(Hierarchy(snapshot, shape), self._is_outdated, flow)
            self._layouts[key] = layout
            while len(self._layouts) > MAX_LAYOUTS:
                self._layouts.popitem(last=False)
        self._layouts.move_to_end(key)
        return self._layouts[key]

    def _has_order(self) -> bool:
        give_way()
        return self._order is not None or self._is_stopped

    def _is_outdated(self) -> bool:
        give_way()
        return self._order is not self._running
