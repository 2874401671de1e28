"""A program on the painted ground: layouts are asked for and come back, places are gone to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QCoreApplication,
    QEasingCurve,
    QPointF,
    QRectF,
    QSizeF,
    Qt,
    QTimer,
    QVariantAnimation,
    Signal,
)
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ui.features.graph import painting
from ui.features.graph.layout_thread import LayoutThread, Order
from ui.features.graph.marks import Marks
from ui.features.graph.navigation import joints
from ui.features.graph.painting import Backing, GraphPainter, has_room
from ui.features.graph.picture import Camera, Picture, fit
from ui.state.background import window_first
from workbench.graph.layout import HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ui.features.graph.marks import Overlay
    from ui.features.graph.scene import Scene
    from ui.shared.theme import Theme
    from workbench.graph.compare import Difference
    from workbench.graph.hierarchy import Shape
    from workbench.graph.snapshot import GraphSnapshot


MOVE_MS = 170
REST_MS = 80


class GraphSurface(QWidget):
    """Paints a scene, what is marked and selected in it, and what is on its way."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scene: Scene | None = None
        self.camera = Camera()
        self.marks = Marks()
        self.selected: frozenset[str] = frozenset()
        self.current: str | None = None
        self.hovered: str | None = None
        self._painter = GraphPainter(theme)
        self._backing = Backing(self._painter)
        self._rest = QTimer(self, interval=REST_MS, singleShot=True)
        self._rest.timeout.connect(self._refine)
        self._joints: tuple[tuple[str, str], ...] = ()
        self._origins: dict[str, QRectF] = {}
        self._progress = 1.0
        self._is_waiting = False
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self._motion = QVariantAnimation(self, startValue=0.0, endValue=1.0, duration=MOVE_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._motion.valueChanged.connect(self._on_moved)

    @property
    def theme(self) -> Theme:
        """The theme it is painted in."""
        return self._painter.palette.theme

    def set_theme(self, theme: Theme) -> None:
        """Paint in another theme."""
        self._painter = GraphPainter(theme)
        self._backing = Backing(self._painter)
        self.update()

    def set_chips(self, chips: Mapping[str, str]) -> None:
        """Show the label of each operation's config."""
        self.marks.chips = chips
        self._remark()

    def set_reasons(self, reasons: Mapping[str, str]) -> None:
        """Hatch operations and say why, e.g. that they stay off the NPU."""
        self.marks.reasons = reasons
        self._remark()

    def set_tooltips(self, tooltips: Mapping[str, str]) -> None:
        """Give operations a line for their tooltip, e.g. which rule decided their config."""
        self.marks.tooltips = tooltips
        self._remark()

    def set_differences(
        self, differences: Mapping[str, Difference], words: Mapping[str, str]
    ) -> None:
        """Mark what was added, removed or changed against another graph, and say how."""
        self.marks.differences, self.marks.words = differences, words
        self._remark()

    def set_hits(self, hits: Mapping[str, tuple[int, ...]]) -> None:
        """Give operations the letters and colours of the kept searches that find them."""
        self.marks.found = hits
        self._remark()

    def set_overlay(self, overlay: Overlay | None) -> None:
        """Colour operations by a number; None takes the colours away."""
        self.marks.overlay = overlay
        self._remark()

    def brush(self, part: tuple[float, float] | None) -> None:
        """Let only a part of the overlay's scale, between 0 and 1, have colours; None for all."""
        if self.marks.overlay is not None and self.marks.overlay.brush != part:
            self.set_overlay(self.marks.overlay.brushed(part))

    def export_png(self, path: Path) -> None:
        """Write what shows as an image, at twice the resolution of the screen."""
        picture = self.picture()
        if picture is not None:
            painting.write_png(self._painter, picture, path)

    def export_svg(self, path: Path) -> None:
        """Write what shows as a drawing file."""
        picture = self.picture()
        if picture is not None:
            painting.write_svg(self._painter, picture, path)

    def _remark(self) -> None:
        self.marks.changed()
        self.update()

    def _refine(self) -> None:
        self._backing.refine()
        self.update()

    def look(self, camera: Camera) -> None:
        """Show another part of the drawing."""
        self.camera = camera
        self.update()

    def picture(self) -> Picture | None:
        """Return what is painted now."""
        if self.scene is None:
            return None
        return Picture(
            self.scene, self.camera, self._size(), self.marks, self.selected, self.current,
            self.hovered, self._joints, self._origins, self._progress,
        )  # fmt: skip

    def _area(self) -> QRectF:
        return self.camera.shown(self._size())

    def _size(self) -> QSizeF:
        return QSizeF(self.width(), self.height())

    def picture_middle(self) -> QPointF:
        """Return the place of the drawing in the middle of the window."""
        return self.camera.to_scene(QPointF(self.width() / 2, self.height() / 2))

    def _on_moved(self, value: float) -> None:
        self._progress = value
        if value >= 1.0:
            self._origins = {}
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        with window_first():
            self._paint()

    def _paint(self) -> None:
        painter = QPainter(self)
        picture = self.picture()
        if picture is None:
            self._painter.paint_empty(painter, self.rect(), is_waiting=self._is_waiting)
        else:
            self._backing.paint(painter, picture, self.devicePixelRatioF())
            self._painter.paint_over(painter, picture)
            if self._backing.is_due:
                self._rest.start()
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep in the middle what was there, across: a pane beside cuts nothing off."""
        super().resizeEvent(event)
        if event.oldSize().isValid():
            self.look(self.camera.panned((self.width() - event.oldSize().width()) / 2, 0.0))
        self.update()


PLACES_KEPT = 100


@dataclass(frozen=True, slots=True)
class Place:
    """What shows: the open groups and the camera.

    With an ``anchor`` the camera's x and y are the way from that item's corner to the middle of
    the window, which outlives a change of the layout.
    """

    expanded: frozenset[str]
    camera: Camera
    shape: Shape = "modules"
    anchor: str = ""


class History:
    """The places that were left, and those that were gone back from."""

    def __init__(self) -> None:
        self._behind: list[Place] = []
        self._ahead: list[Place] = []

    def leave(self, place: Place) -> None:
        """Remember a place that is about to be left for a new one."""
        if not self._behind or self._behind[-1] != place:
            self._behind = [*self._behind[-PLACES_KEPT:], place]
        self._ahead.clear()

    def back(self, here: Place) -> Place | None:
        """Return the place before this one; None at the beginning."""
        while self._behind and self._behind[-1] == here:
            self._behind.pop()
        if not self._behind:
            return None
        self._ahead.append(here)
        return self._behind.pop()

    def forward(self, here: Place) -> Place | None:
        """Return the place that was last gone back from; None if there is none."""
        if not self._ahead:
            return None
        self._behind.append(here)
        return self._ahead.pop()


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
