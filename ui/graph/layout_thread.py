"""Trees, layouts and scenes are made here, off the window's thread; stale ones are dropped."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRectF, QThread, Signal

from ui.graph.scene import Scene
from ui.graph.turns import give_way, short_turns
from workbench.errors import Cancelled
from workbench.graph.garbage import collection_paused
from workbench.graph.hierarchy import Hierarchy
from workbench.graph.layout import Layout

if TYPE_CHECKING:
    from workbench.graph.hierarchy import Shape
    from workbench.graph.snapshot import GraphSnapshot

LAYOUTS_KEPT = 6
KEPT = 2


@dataclass(frozen=True, slots=True)
class Order:
    """What to draw. ``expanded`` None opens the graph at a readable depth.

    ``everything`` opens all groups. ``area`` is what shows now; it is made ready to paint.
    ``shape`` is how operations are grouped.
    """

    snapshot: GraphSnapshot
    expanded: frozenset[str] | None = None
    everything: bool = False
    area: QRectF = field(default_factory=QRectF)
    shape: Shape = "modules"


class LayoutThread(QThread):
    """Runs while there is something to lay out. A newer order cancels the older one."""

    finished_scene = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = Lock()
        self._order: Order | None = None
        self._running: Order | None = None
        # Taking a large scene apart takes long: the last ones are kept here, not to die elsewhere.
        self._made: list[Scene] = []
        self._is_stopped = False
        self._busy = False
        self._layouts: OrderedDict[tuple[int, Shape], Layout] = OrderedDict()

    def submit(self, order: Order) -> None:
        """Lay this out next; forget what was asked for before."""
        with self._lock:
            if self._is_stopped:
                return
            self._order = order
            if self._busy:
                return
            self._busy = True
        self.wait()
        self.start(QThread.Priority.LowPriority)

    def cancel(self) -> None:
        """Forget the order that waits or runs."""
        with self._lock:
            self._order = None

    def stop(self) -> None:
        """End the thread; return when it has ended."""
        with self._lock:
            self._is_stopped = True
            self._order = None
        self.wait()

    def retire(self) -> None:
        """End the thread and forget it: its view is gone."""
        self.stop()
        self.deleteLater()

    def run(self) -> None:
        try:
            with short_turns():
                while order := self._next():
                    self._work(order)
        finally:
            with self._lock:
                self._busy = False

    def _work(self, order: Order) -> None:
        with collection_paused():
            scene = self._make(order)
            if scene is not None and self._take(order):
                self._made.append(scene)
                self.finished_scene.emit(order, scene)
                while len(self._made) > KEPT:
                    self._made.pop(0).forget()
                scene.prepare(self._has_order)

    def _next(self) -> Order | None:
        with self._lock:
            self._running = self._order
            self._busy = self._running is not None
            return self._running

    def _take(self, order: Order) -> bool:
        """Tell whether an order is still wanted, and call it done."""
        with self._lock:
            is_current = self._order is order
            if is_current:
                self._order = None
            return is_current

    def _make(self, order: Order) -> Scene | None:
        layout = self._layout(order.snapshot, order.shape)
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

    def _layout(self, snapshot: GraphSnapshot, shape: Shape) -> Layout:
        key = (id(snapshot), shape)
        if key not in self._layouts:
            layout = Layout(Hierarchy(snapshot, shape), self._is_outdated)
            self._layouts[key] = layout
            while len(self._layouts) > LAYOUTS_KEPT:
                self._layouts.popitem(last=False)
        self._layouts.move_to_end(key)
        return self._layouts[key]

    def _has_order(self) -> bool:
        give_way()
        return self._order is not None or self._is_stopped

    def _is_outdated(self) -> bool:
        give_way()
        return self._order is not self._running
