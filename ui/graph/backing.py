"""The drawing as it was last painted: moved with the camera, so that a frame paints only its edges.

Moving copies what is there and paints the strips that come into view. Zooming a drawing that takes
long to paint shows what is there larger or smaller, until the camera rests for a moment.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QColor, QPainter, QPixmap

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ui.graph.camera import Camera
    from ui.graph.painting import GraphPainter
    from ui.graph.picture import Picture

SLOW_S = 0.004
# How far words and tags reach out of boxes and lines, but for a few [px of the drawing].
ACROSS, DOWN = 140.0, 40.0
EXACT_PX = 0.02
LEAST_SHARE, LARGEST_ZOOM = 0.3, 4.0


class Backing:
    """Keeps one painting of the scene. ``is_due`` tells that a better one is, given time."""

    def __init__(self, graph: GraphPainter) -> None:
        self._graph = graph
        self._image = QPixmap()
        self._camera: Camera | None = None
        self._key: Hashable = None
        self._is_far = False
        self._cost = 0.0
        self._is_rough = False
        self.is_due = False

    def paint(self, painter: QPainter, picture: Picture, ratio: float) -> None:
        """Paint the scene of a picture.

        Args:
            painter: Of the window.
            picture: What shows.
            ratio: Pixels of the screen for each of the window's.
        """
        key = (
            picture.scene.number, picture.marks.version, picture.selected, picture.joints,
            picture.size.toTuple(), ratio,
        )  # fmt: skip
        if picture.progress < 1.0:
            self._camera = None
            self._graph.paint_scene(painter, picture)
            return
        shift = self._shift(picture.camera, ratio) if key == self._key else None
        if shift is not None:
            self._move(picture, *shift, ratio)
        elif key == self._key and self._may_be_rough(picture):
            self._show_rough(painter, picture)
            return
        else:
            self._key = key
            self._repaint(picture, ratio)
        painter.drawPixmap(QPointF(0, 0), self._image)

    def refine(self) -> None:
        """Paint all of it at the next frame."""
        self._key, self.is_due = None, False

    def _may_be_rough(self, picture: Picture) -> bool:
        """Tell whether what is there serves for a moment: it is near, and painting takes long."""
        if self._camera is None or self._cost < SLOW_S:
            return False
        known, wanted = self._camera.shown(picture.size), picture.area
        both = known.intersected(wanted)
        share = both.width() * both.height() / max(wanted.width() * wanted.height(), 1e-9)
        return share >= LEAST_SHARE and wanted.width() * LARGEST_ZOOM >= known.width()

    def _shift(self, camera: Camera, ratio: float) -> tuple[int, int] | None:
        """Return how far the drawing moved, in whole pixels of the screen; None if not just so."""
        old = self._camera
        if old is None or old.scale != camera.scale or self._is_rough:
            return None
        across = (old.x - camera.x) * camera.scale * ratio
        down = (old.y - camera.y) * camera.scale * ratio
        dx, dy = round(across), round(down)
        if abs(across - dx) > EXACT_PX or abs(down - dy) > EXACT_PX:
            return None
        if abs(dx) >= self._image.width() // 2 or abs(dy) >= self._image.height() // 2:
            return None
        return dx, dy

    def _repaint(self, picture: Picture, ratio: float) -> None:
        start = time.thread_time()
        size = (picture.size * ratio).toSize()
        if self._image.size() != size:
            self._image = QPixmap(size)
        self._image.setDevicePixelRatio(ratio)
        painter = QPainter(self._image)
        self._is_far = self._graph.paint_scene(painter, picture)
        painter.end()
        self._camera, self._is_rough, self.is_due = picture.camera, False, False
        self._cost = time.thread_time() - start

    def _move(self, picture: Picture, dx: int, dy: int, ratio: float) -> None:
        if dx == 0 and dy == 0:
            return
        width, height = self._image.width(), self._image.height()
        self._image.scroll(dx, dy, QRect(0, 0, width, height))
        strips = []
        if dx:
            strips.append(QRectF(0 if dx > 0 else width + dx, 0, abs(dx), height))
        if dy:
            strips.append(QRectF(0, 0 if dy > 0 else height + dy, width, abs(dy)))
        painter = QPainter(self._image)
        for strip in strips:
            clip = QRectF(strip.topLeft() / ratio, strip.size() / ratio)
            self._paint_strip(painter, picture, clip)
        painter.end()
        self._camera, self.is_due = picture.camera, True

    def _paint_strip(self, painter: QPainter, picture: Picture, clip: QRectF) -> None:
        camera = picture.camera
        corner = camera.to_scene(clip.topLeft())
        part = QRectF(corner, clip.size() / camera.scale).adjusted(-ACROSS, -DOWN, ACROSS, DOWN)
        painter.save()
        painter.setClipRect(clip)
        self._graph.paint_scene(painter, replace(picture, part=part, is_far=self._is_far))
        painter.restore()

    def _show_rough(self, painter: QPainter, picture: Picture) -> None:
        """Show what was painted at another scale, where it belongs now."""
        old, now = self._camera or picture.camera, picture.camera
        whole = QRectF(0, 0, picture.size.width(), picture.size.height())
        painter.fillRect(whole, QColor(self._graph.palette.theme.background))
        corner = now.to_window(QPointF(old.x, old.y))
        factor = now.scale / old.scale
        painter.drawPixmap(
            QRectF(corner, picture.size * factor), self._image, QRectF(self._image.rect())
        )
        self._is_rough, self.is_due = True, True
