"""The painted state of the graph widget: scene, camera, marks and selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEasingCurve,
    QObject,
    QPointF,
    QRectF,
    QSize,
    QSizeF,
    Qt,
    QTimer,
    QVariantAnimation,
    Signal,
)
from PySide6.QtGui import QPainter

from ui.features.graph import painting
from ui.features.graph.marks import Marks
from ui.features.graph.navigation import joints
from ui.features.graph.paint_overlays import has_map, map_strip
from ui.features.graph.painting import Backing, GraphPainter, has_room
from ui.features.graph.picture import SMALLEST, Camera, Picture, fit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from PySide6.QtWidgets import QWidget

    from ui.features.graph.marks import Overlay
    from ui.features.graph.scene import Scene
    from ui.shared.theme import Theme
    from workbench.graph.compare import Difference
    from workbench.graph.layout import Flow


MOVE_MS = 170
REST_MS = 80


class GraphSurface(QObject):
    """Paints a scene with its marks and its selection onto a widget.

    Attributes:
        scene: The laid-out graph; None before the first layout.
        camera: The visible part of the scene.
        selected: Ids of the selected operations.
        current: The item with the keyboard focus.
        hovered: The item under the mouse.
        is_waiting: Whether a layout is being computed.
        strip: The part of the widget beside the drawing for the minimap; empty if there is none.
        rest: Timer that repaints at full quality after the camera has stopped.

    Signals:
        scale_changed: the scale of the camera, 1 is full size.
        room_changed: the drawing has another part of the widget.
    """

    scale_changed = Signal(float)
    room_changed = Signal()

    def __init__(self, theme: Theme, widget: QWidget) -> None:
        super().__init__(widget)
        self.scene: Scene | None = None
        self.camera = Camera()
        self.marks = Marks()
        self.selected: frozenset[str] = frozenset()
        self.current: str | None = None
        self.hovered: str | None = None
        self.is_waiting = False
        self.strip = QRectF()
        # The size of the upper right corner that buttons of the widget cover [px].
        self.corner = QSizeF()
        self._widget = widget
        self._painter = GraphPainter(theme)
        self._backing = Backing(self._painter)
        self.rest = QTimer(self, interval=REST_MS, singleShot=True)
        self.rest.timeout.connect(self.refine)
        self._joints: tuple[tuple[str, str], ...] = ()
        self._origins: dict[str, QRectF] = {}
        self._progress = 1.0
        self._motion = QVariantAnimation(self, startValue=0.0, endValue=1.0, duration=MOVE_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._motion.valueChanged.connect(self._on_moved)

    @property
    def theme(self) -> Theme:
        """The present theme."""
        return self._painter.palette.theme

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self._painter = GraphPainter(theme)
        self._backing = Backing(self._painter)
        self.update()

    def set_chips(self, chips: Mapping[str, str], wishes: Mapping[str, str] | None = None) -> None:
        """Set the config label of each operation, and labels that were asked for in vain."""
        if (chips, wishes or {}) != (self.marks.chips, self.marks.wishes):
            self.marks.chips, self.marks.wishes = chips, wishes or {}
            self._remark()

    def set_reasons(self, reasons: Mapping[str, str]) -> None:
        """Hatch operations, with the reason, e.g. why they run on the CPU."""
        self.marks.reasons = reasons
        self._remark()

    def set_tooltips(self, tooltips: Mapping[str, str]) -> None:
        """Set a tooltip line of operations, e.g. which rule set their config."""
        if tooltips != self.marks.tooltips:
            self.marks.tooltips = tooltips
            self._remark()

    def set_differences(self, differences: Mapping[str, Difference], words: Mapping[str, str]) -> None:
        """Mark added, removed and changed operations, with a description of the change."""
        self.marks.differences, self.marks.words = differences, words
        self._remark()

    def set_hits(self, hits: Mapping[str, tuple[int, ...]]) -> None:
        """Set the saved searches that match each operation, by their indices."""
        self.marks.search_hits = hits
        self._remark()

    def set_overlay(self, overlay: Overlay | None) -> None:
        """Colour operations by a number; None removes the colours."""
        self.marks.overlay = overlay
        self._remark()

    def brush(self, part: tuple[float, float] | None) -> None:
        """Colour only a part of the overlay's scale in [0, 1]; None colours all of it."""
        if self.marks.overlay is not None and self.marks.overlay.brush != part:
            self.set_overlay(self.marks.overlay.brushed(part))

    def export_png(self, path: Path) -> None:
        """Write the visible part as PNG, at twice the resolution of the screen."""
        picture = self.picture()
        if picture is not None:
            painting.write_png(self._painter, picture, path)

    def export_svg(self, path: Path) -> None:
        """Write the visible part as SVG."""
        picture = self.picture()
        if picture is not None:
            painting.write_svg(self._painter, picture, path)

    def update(self) -> None:
        """Schedule a repaint."""
        self._widget.update()

    def refine(self) -> None:
        """Repaint at full quality."""
        self._backing.refine()
        self.update()

    def look(self, camera: Camera) -> None:
        """Show another part of the scene."""
        is_scaled = camera.scale != self.camera.scale
        self.camera = camera
        self.share_room()
        if is_scaled:
            self.scale_changed.emit(camera.scale)
        self.update()

    def choose(self, selected: frozenset[str]) -> None:
        """Paint these operations as selected."""
        self.selected = selected
        self._joints = joints(self.scene, selected) if self.scene is not None else ()
        self.update()

    def show_scene(self, scene: Scene | None, *, is_waiting: bool = False) -> None:
        """Show another scene at once, without an animation."""
        self.scene, self.is_waiting = scene, is_waiting
        if scene is not None:
            self.choose(self.selected)
            if not scene.has(self.current):
                self.current = None
        self._motion.stop()
        self._progress, self._origins = 1.0, {}
        self.share_room()
        self.update()

    def animate_from(self, former: Scene, dx: float, dy: float) -> None:
        """Move the visible items from their former rectangles, shifted by ``dx`` and ``dy``."""
        picture, scene = self.picture(), self.scene
        if picture is None or scene is None or not self._widget.isVisible():
            return
        if not has_room(picture):
            return
        area = picture.area
        self._origins = {
            item: former.rect(item).translated(dx, dy)
            for item in (*scene.items_in(area), *scene.frames_in(area))
            if former.has(item)
        }
        self._progress = 0.0
        self._motion.start()

    def picture(self) -> Picture | None:
        """Return everything that the present paint depends on; None without a scene."""
        if self.scene is None:
            return None
        return Picture(
            self.scene,
            self.camera,
            self.size(),
            self.marks,
            self.selected,
            self.current,
            self.hovered,
            self._joints,
            self._origins,
            self._progress,
            strip=self.strip,
        )

    def area(self) -> QRectF:
        """Return the visible part of the scene."""
        return self.camera.shown(self.size())

    def size(self) -> QSizeF:
        """Return the size of the drawing, without the strip of the minimap [px]."""
        return self._room(self.strip)

    def middle(self) -> QPointF:
        """Return the scene position in the middle of the drawing."""
        return self.camera.to_scene(QRectF(QPointF(), self.size()).center())

    def fitting(self, rect: QRectF, smallest: float = SMALLEST, flow: Flow = "down") -> Camera:
        """Return the camera that shows all of a rectangle, as ``fit`` does, beside the minimap.

        Where buttons would cover an item, the rectangle is below them.
        """
        camera = fit(rect, self._whole(), smallest, flow)
        room = self._room(self._strip_at(camera.scale))
        camera = fit(rect, room, smallest, flow)
        corner = QRectF(QPointF(room.width() - self.corner.width(), 0.0), self.corner)
        ends = (camera.to_scene(corner.topLeft()), camera.to_scene(corner.bottomRight()))
        if self.scene is None or not self.scene.items_in(QRectF(*ends)):
            return camera
        below = QSizeF(room.width(), room.height() - corner.height())
        return fit(rect, below, smallest, flow).panned(0.0, corner.height())

    def zoomed(self, factor: float, anchor: QPointF) -> Camera:
        """Return the camera zoomed around a position of the widget.

        Zooming out ends where all of the scene is visible, or at full size. A scene that fits the
        drawing across or down after zooming out is in its middle there.
        """
        if self.scene is None or factor >= 1.0:
            return self.camera.zoomed(factor, anchor)
        whole = min(self.fitting(self.scene.bounds).scale, 1.0)
        camera = self.camera.zoomed(min(max(factor, whole / self.camera.scale), 1.0), anchor)
        room, bounds = self._room(self._strip_at(camera.scale)), self.scene.bounds
        middle = camera.centred(bounds, room)
        fits_across = bounds.width() * camera.scale <= room.width()
        fits_down = bounds.height() * camera.scale <= room.height()
        return Camera(
            camera.scale, middle.x if fits_across else camera.x, middle.y if fits_down else camera.y
        )

    def centring(self, rect: QRectF, scale: float) -> Camera:
        """Return the camera of a scale that is centred on a rectangle, beside the minimap."""
        return Camera(scale).centred(rect, self._room(self._strip_at(scale)))

    def keep_middle(self, former: QSize) -> None:
        """Keep the horizontal middle of the drawing after the widget had another size."""
        before = _beside(self.strip, QSizeF(former))
        self.share_room()
        self.look(self.camera.panned((self.size().width() - before.width()) / 2, 0.0))

    def share_room(self) -> None:
        """Give the minimap a strip of the widget, or the drawing all of it."""
        strip = self._strip_at(self.camera.scale)
        if strip != self.strip:
            self.strip = strip
            self.room_changed.emit()

    def paint(self) -> None:
        """Paint the widget."""
        painter = QPainter(self._widget)
        picture = self.picture()
        if picture is None:
            self._painter.paint_empty(painter, self._widget.rect(), is_waiting=self.is_waiting)
        else:
            self._backing.paint(painter, picture, self._widget.devicePixelRatioF())
            self._painter.paint_over(painter, picture)
            if self._backing.is_due:
                self.rest.start()
        if self._widget.hasFocus():
            painter.setPen(self._painter.palette.accent.color())
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self._widget.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _whole(self) -> QSizeF:
        return QSizeF(self._widget.width(), self._widget.height())

    def _strip_at(self, scale: float) -> QRectF:
        """Return the strip of the minimap at a scale of the present scene."""
        whole = self._whole()
        if self.scene is None or not has_map(self.scene, whole, scale):
            return QRectF()
        return map_strip(self.scene, whole)

    def _room(self, strip: QRectF) -> QSizeF:
        """Return the size of the drawing beside a strip."""
        return _beside(strip, self._whole())

    def _remark(self) -> None:
        self.marks.changed()
        self.update()

    def _on_moved(self, value: float) -> None:
        self._progress = value
        if value >= 1.0:
            self._origins = {}
        self.update()


def _beside(strip: QRectF, whole: QSizeF) -> QSizeF:
    """Return the size of the drawing beside a strip of a widget."""
    if strip.isEmpty():
        return whole
    if strip.x() == 0:
        return QSizeF(whole.width(), strip.y())
    return QSizeF(strip.x(), whole.height())
