"""The widget that shows a scene: camera, marks, opening and closing groups, smooth moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QCoreApplication,
    QEasingCurve,
    QPointF,
    QRectF,
    QSizeF,
    Qt,
    QVariantAnimation,
    Signal,
)
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ui.graph.camera import Camera, fit
from ui.graph.layout_thread import LayoutThread, Order
from ui.graph.marks import Marks, Overlay
from ui.graph.painting import GraphPainter, has_room
from ui.graph.picture import Picture
from ui.graph.walking import joints

if TYPE_CHECKING:
    from ui.graph.scene import Scene
    from ui.theme import Theme
    from workbench.graph.snapshot import GraphSnapshot

MOVE_MS = 170
OPENING_SCALE = 0.45


class GraphCanvas(QWidget):
    """Paints one snapshot. Layouts are made elsewhere and come back as a scene."""

    laid_out = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scene: Scene | None = None
        self.camera = Camera()
        self.marks = Marks()
        self.selected: frozenset[str] = frozenset()
        self.current: str | None = None
        self.hovered: str | None = None
        self._painter = GraphPainter(theme)
        self._snapshot: GraphSnapshot | None = None
        self._order: Order | None = None
        self._expanded: frozenset[str] = frozenset()
        self._anchor: str | None = None
        self._reveal: frozenset[str] = frozenset()
        self._joints: tuple[tuple[str, str], ...] = ()
        self._origins: dict[str, QRectF] = {}
        self._progress = 1.0
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        # The application owns the thread, so that it outlives the widget until it has ended.
        self._thread = LayoutThread(QCoreApplication.instance())
        self._thread.finished_scene.connect(self._on_scene)
        self.destroyed.connect(self._thread.retire)
        self._motion = QVariantAnimation(self, startValue=0.0, endValue=1.0, duration=MOVE_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._motion.valueChanged.connect(self._on_moved)

    def stop(self) -> None:
        """End the layout thread; nothing new is laid out after that."""
        self._thread.stop()

    def render_snapshot(self, snapshot: GraphSnapshot | None) -> None:
        """Show a graph, or nothing. Groups that were open in the last one stay open."""
        if snapshot is self._snapshot:
            return
        had_scene = self.scene is not None
        self._snapshot = snapshot
        self._anchor = None
        if snapshot is None:
            self._thread.cancel()
            self._order, self.scene = None, None
            self.update()
            return
        self._submit(Order(snapshot, self._expanded if had_scene else None))

    def set_theme(self, theme: Theme) -> None:
        """Paint in another theme."""
        self._painter = GraphPainter(theme)
        self.update()

    def set_chips(self, chips: dict[str, str]) -> None:
        """Show the label of each operation's config."""
        self.marks.chips = dict(chips)
        self._remark()

    def set_reasons(self, reasons: dict[str, str]) -> None:
        """Hatch operations and say why, e.g. that they stay off the NPU."""
        self.marks.reasons = dict(reasons)
        self._remark()

    def set_tooltips(self, tooltips: dict[str, str]) -> None:
        """Give operations a line for their tooltip, e.g. which rule decided their config."""
        self.marks.tooltips = dict(tooltips)
        self._remark()

    def set_overlay(self, values: dict[str, float] | None, title: str, log: bool = False) -> None:
        """Colour operations by a number; None takes the colours away."""
        self.marks.overlay = Overlay(values, title, log) if values is not None else None
        self._remark()

    def _remark(self) -> None:
        self.marks.changed()
        self.update()

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
            self._submit(Order(self._snapshot, everything=True, area=self._area()))

    def collapse_all(self) -> None:
        """Close every group."""
        self._open(frozenset(), anchor=None)

    def expand_below(self, group: str) -> None:
        """Open a group and every group inside of it."""
        key = self._resolve(group)
        if key is not None and self.scene is not None:
            below = {k for k in self.scene.hierarchy.groups if k.startswith(key) or key == "/"}
            self._open(self._expanded | below, anchor=key)

    def is_expanded(self, group: str) -> bool:
        """Tell whether a group is open, or about to be."""
        return self._resolve(group) in self._expanded

    def fit(self) -> None:
        """Show the whole drawing; of a very tall one the top, at a size that says something."""
        if self.scene is not None:
            tall = self.scene.bounds.height() > 12 * self.height()
            self.look(fit(self.scene.bounds, self._size(), OPENING_SCALE if tall else 0.0))

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

    def _resolve(self, group: str) -> str | None:
        return self.scene.hierarchy.resolve(group) if self.scene is not None else None

    def _open(self, expanded: frozenset[str], anchor: str | None) -> None:
        if self._snapshot is not None and expanded != self._expanded:
            self._anchor = anchor
            self._expanded = expanded
            self._submit(Order(self._snapshot, expanded, area=self._area()))

    def _submit(self, order: Order) -> None:
        self._order = order
        self._thread.submit(order)

    def _on_scene(self, order: Order, scene: Scene) -> None:
        if order is not self._order:
            return
        old, self.scene = self.scene, scene
        self._order = None
        is_same = old is not None and old.hierarchy is scene.hierarchy
        self._expanded = scene.expanded
        self._choose(self.selected)
        if not scene.has(self.current):
            self.current = None
        self._motion.stop()
        self._progress, self._origins = 1.0, {}
        if old is None:
            self.look(fit(scene.bounds, self._size(), OPENING_SCALE))
        elif is_same:
            self._keep_in_place(old, scene)
        self._anchor = None
        if self._reveal:
            self._show_items(self._reveal)
        self.update()
        self.laid_out.emit()

    def _keep_in_place(self, old: Scene, scene: Scene) -> None:
        """Hold the header that was clicked, or the middle of the window, and move the others."""
        anchor = self._anchor if scene.has(self._anchor) else None
        if anchor is None:
            middle = self.picture_middle()
            near = [
                item
                for item in old.items_in(QRectF(middle.x() - 400, middle.y() - 300, 800, 600))
                if scene.has(item)
            ]
            anchor = near[0] if near else None
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

    def picture_middle(self) -> QPointF:
        """Return the place of the drawing in the middle of the window."""
        return self.camera.to_scene(QPointF(self.width() / 2, self.height() / 2))

    def _choose(self, selected: frozenset[str]) -> None:
        self.selected = selected
        self._joints = joints(self.scene, selected) if self.scene is not None else ()
        self.update()

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
        if self.camera.shown(self._size()).contains(whole) and self.camera.scale >= OPENING_SCALE:
            return
        fits = fit(whole, self._size(), OPENING_SCALE)
        scale = min(fits.scale, max(self.camera.scale, 0.8))
        target = whole if fits.scale > OPENING_SCALE else rects[0]
        self.look(Camera(scale).centred(target, self._size()))

    def _on_moved(self, value: float) -> None:
        self._progress = value
        if value >= 1.0:
            self._origins = {}
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        picture = self.picture()
        if picture is None:
            self._painter.paint_empty(painter, self.rect(), is_waiting=self._order is not None)
        else:
            self._painter.paint(painter, picture)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.update()


def _corner(scene: Scene, item: str) -> QPointF:
    """Return the place that stays under the mouse: where the plus or minus sign is."""
    return scene.rect(item).topLeft()
