"""A program on the painted ground: layouts are asked for and come back, places are gone to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QPointF, QRectF, Signal

from ui.graph.camera import Camera, fit
from ui.graph.layout_thread import LayoutThread, Order
from ui.graph.painting import has_room
from ui.graph.places import History, Place
from ui.graph.surface import GraphSurface
from ui.graph.turns import window_first
from ui.graph.walking import joints
from workbench.graph.layout import HEADER

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from ui.graph.scene import Scene
    from ui.theme import Theme
    from workbench.graph.hierarchy import Shape
    from workbench.graph.snapshot import GraphSnapshot

OPENING_SCALE = 0.45
REVEALED_AT_MOST = 60


class GraphCanvas(GraphSurface):
    """Paints one snapshot. Layouts are made elsewhere and come back as a scene."""

    laid_out = Signal()
    isolation_changed = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._snapshot: GraphSnapshot | None = None
        self._whole: GraphSnapshot | None = None
        self._order: Order | None = None
        self.shape: Shape = "modules"
        self._expanded: frozenset[str] = frozenset()
        self._anchor: str | None = None
        self._reveal: frozenset[str] = frozenset()
        self._awaited: frozenset[str] = frozenset()
        self._history = History()
        self._wanted: Place | None = None
        # The application owns the thread, so that it outlives the widget until it has ended.
        self._thread = LayoutThread(QCoreApplication.instance())
        self._thread.finished_scene.connect(self._on_scene)
        self.destroyed.connect(self._thread.retire)

    def stop(self) -> None:
        """End the layout thread; nothing new is laid out after that."""
        self._thread.stop()

    def render_snapshot(self, snapshot: GraphSnapshot | None) -> None:
        """Show a graph, or nothing. Groups that were open in the last one stay open."""
        if snapshot is self._snapshot and not self.isolated:
            return
        had_scene = self.scene is not None
        self._snapshot = snapshot
        self._set_whole(None)
        self._anchor = None
        if snapshot is None:
            self._thread.cancel()
            self._order, self._is_waiting, self.scene = None, False, None
            self.update()
            return
        self._submit(self._new_order(self._expanded if had_scene else None))

    @property
    def snapshot(self) -> GraphSnapshot | None:
        """The graph that was given to be shown, or the part of it that shows alone."""
        return self._snapshot

    @property
    def isolated(self) -> bool:
        """Whether only a part of the graph shows."""
        return self._whole is not None

    def _set_whole(self, whole: GraphSnapshot | None) -> None:
        was = self.isolated
        self._whole = whole
        if was != self.isolated:
            self.isolation_changed.emit(self.isolated)

    def fit(self) -> None:
        """Show the whole drawing; of a very tall one the top, at a size that says something."""
        if self.scene is not None:
            self._history.leave(self.place())
            tall = self.scene.bounds.height() > 12 * self.height()
            self.look(fit(self.scene.bounds, self._size(), OPENING_SCALE if tall else 0.0))

    def place(self) -> Place:
        """Return what shows now, to come back to it: open groups and camera."""
        return Place(self._expanded, self.camera, self.shape)

    def item_near(self, point: QPointF) -> str:
        """Return an item at or around a place of the drawing; "" if there is none."""
        if self.scene is None:
            return ""
        near = self.scene.items_in(QRectF(point.x() - 400, point.y() - 300, 800, 600))
        return near[0] if near else ""

    def go_to(self, place: Place) -> None:
        """Show a place again, e.g. a bookmark."""
        self._history.leave(self.place())
        self._show_place(place)

    def go_back(self) -> None:
        """Show the place before the last jump, opening or closing."""
        self._show_place(self._history.back(self.place()))

    def go_forward(self) -> None:
        """Undo going back."""
        self._show_place(self._history.forward(self.place()))

    def _show_place(self, place: Place | None) -> None:
        if place is None or self._snapshot is None:
            return
        if (place.expanded, place.shape) == (self._expanded, self.shape) and not self._is_waiting:
            self._land(place)
            return
        self._wanted = place
        self._expanded, self.shape = place.expanded, place.shape
        self._submit(self._new_order(place.expanded))

    def _land(self, place: Place) -> None:
        """Look where a place says; at the whole drawing if its anchor has gone."""
        camera = place.camera
        if place.anchor and self.scene is not None:
            if not self.scene.has(place.anchor):
                self.look(fit(self.scene.bounds, self._size(), OPENING_SCALE))
                return
            middle = self.scene.rect(place.anchor).topLeft() + QPointF(camera.x, camera.y)
            camera = Camera(camera.scale).centred(QRectF(middle, middle), self._size())
        self.look(camera)

    def _resolve(self, group: str) -> str | None:
        return self.scene.hierarchy.resolve(group) if self.scene is not None else None

    def _open(self, expanded: frozenset[str], anchor: str | None) -> None:
        if self._snapshot is not None and expanded != self._expanded:
            self._history.leave(self.place())
            self._anchor = anchor
            self._expanded = expanded
            self._submit(self._new_order(expanded))

    def _new_order(self, expanded: frozenset[str] | None) -> Order:
        assert self._snapshot is not None
        return Order(self._snapshot, expanded, area=self._area(), shape=self.shape)

    def _submit(self, order: Order) -> None:
        self._order, self._is_waiting = order, True
        self._thread.submit(order)

    def _on_scene(self, order: Order, scene: Scene) -> None:
        if order is self._order:
            with window_first():
                self._take_scene(scene)
            self.laid_out.emit()

    def _take_scene(self, scene: Scene) -> None:
        old, self.scene = self.scene, scene
        self._order, self._is_waiting = None, False
        is_same = old is not None and old.hierarchy is scene.hierarchy
        is_other = old is not None and _kind(old) != _kind(scene)
        self._expanded = scene.expanded
        self._choose(self.selected)
        if not scene.has(self.current):
            self.current = None
        self._motion.stop()
        self._progress, self._origins = 1.0, {}
        if old is None or (is_other and self._wanted is None):
            self.look(fit(scene.bounds, self._size(), OPENING_SCALE))
        elif is_same and self._wanted is None:
            self._keep_in_place(old, scene)
        if self._wanted is not None:
            self._land(self._wanted)
        elif not self._area().intersects(scene.bounds):
            self.fit()
        self._anchor = self._wanted = None
        if self._reveal:
            self._show_items(self._reveal)
        if self._awaited:
            self._bring(self._awaited)
        self.update()

    def _keep_in_place(self, old: Scene, scene: Scene) -> None:
        """Hold the header that was clicked, or the middle of the window, and move the others."""
        anchor = self._anchor if scene.has(self._anchor) else None
        if anchor is None:
            middle = self.picture_middle()
            around = QRectF(middle.x() - 400, middle.y() - 300, 800, 600)
            anchor = next((item for item in old.items_in(around) if scene.has(item)), None)
        if anchor is None or not old.has(anchor):
            return
        was, now = _corner(old, anchor), _corner(scene, anchor)
        dx, dy = now.x() - was.x(), now.y() - was.y()
        self.camera = Camera(self.camera.scale, self.camera.x + dx, self.camera.y + dy)
        picture = self.picture()
        if picture is None or not self.isVisible() or not has_room(picture):
            return
        area = picture.area
        self._origins = {
            item: old.rect(item).translated(dx, dy)
            for item in (*scene.items_in(area), *scene.frames_in(area))
            if old.has(item)
        }
        self._progress = 0.0
        self._motion.start()

    def _choose(self, selected: frozenset[str]) -> None:
        self.selected = selected
        self._joints = joints(self.scene, selected) if self.scene is not None else ()
        self.update()

    def _bring(self, node_ids: frozenset[str]) -> None:
        """Open the groups around operations and move to them, once their graph is drawn."""
        scene = self.scene
        self._awaited = frozenset()
        if scene is None or scene.hierarchy.snapshot is not self._snapshot:
            self._awaited = node_ids
            return
        hierarchy = scene.hierarchy
        drawn = frozenset(hierarchy.owner[n] for n in node_ids if n in hierarchy.owner)
        around = {g for item in sorted(drawn)[:REVEALED_AT_MOST] for g in hierarchy.ancestors(item)}
        self._reveal = drawn
        if around - {"/"} <= self._expanded:
            self._show_items(drawn)
        else:
            self._open(self._expanded | around - {"/"}, anchor=None)

    def _show_items(self, node_ids: frozenset[str]) -> None:
        """Bring operations into view, without moving if they are there already."""
        self._reveal = frozenset()
        if self.scene is None:
            return
        rects = [self.scene.rect(item) for item in node_ids if self.scene.has(item)]
        if not rects:
            return
        whole = QRectF(rects[0])
        for rect in rects[1:]:
            whole = whole.united(rect)
        # Headers of groups stay at the upper edge, over what has moved under them.
        depth = self.scene.hierarchy.depth
        covered = HEADER * max(depth.get(item, 1) - 1 for item in node_ids)
        free = self.camera.shown(self._size()).adjusted(0, covered, 0, 0)
        if free.contains(whole) and self.camera.scale >= OPENING_SCALE:
            return
        fits = fit(whole, self._size(), OPENING_SCALE)
        scale = min(fits.scale, max(self.camera.scale, 0.8))
        self._history.leave(self.place())
        target = whole if fits.scale > OPENING_SCALE else rects[0]
        self.look(Camera(scale).centred(target, self._size()))


def _kind(scene: Scene) -> tuple[str, str]:
    """Return what must change for a drawing to be another one: its level, or how it is grouped."""
    return scene.hierarchy.snapshot.level, scene.hierarchy.shape


def _corner(scene: Scene, item: str) -> QPointF:
    """Return the place that stays under the mouse: where the plus or minus sign is."""
    return scene.rect(item).topLeft()
