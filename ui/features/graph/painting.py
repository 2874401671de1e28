"""Paints a graph on a widget, a PNG or an SVG."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QBuffer, QIODevice, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPixmap
from PySide6.QtSvg import QSvgGenerator

from ui.features.graph.paint_boxes import BoxPainter
from ui.features.graph.paint_edges import EdgePainter
from ui.features.graph.paint_headers import READABLE, HeaderPainter
from ui.features.graph.paint_overlays import ChromePainter
from ui.features.graph.palette import Palette
from ui.features.graph.picture import FAR, MANY, TINY
from workbench.errors import not_written
from workbench.files import write_file

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from ui.features.graph.picture import Camera, Picture
    from ui.shared.theme import Theme


class GraphPainter:
    """Paints a ``Picture`` in one theme."""

    def __init__(self, theme: Theme) -> None:
        self.palette = Palette(theme)
        self._boxes = BoxPainter(self.palette)
        self._edges = EdgePainter(self.palette)
        self._headers = HeaderPainter(self.palette)
        self._chrome = ChromePainter(self.palette, self._boxes)

    def paint(self, painter: QPainter, picture: Picture, *, with_map: bool = True) -> None:
        """Paint everything: background, open groups, edges, boxes, headers, legend and minimap."""
        self.paint_scene(painter, picture)
        self.paint_over(painter, picture, with_map=with_map)

    def paint_scene(self, painter: QPainter, picture: Picture) -> bool:
        """Paint everything that moves with the camera; return whether it was painted zoomed out."""
        whole = QRectF(0, 0, picture.size.width(), picture.size.height())
        painter.fillRect(whole, QColor(self.palette.theme.background))
        painter.save()
        _through(painter, picture)
        is_far = self._paint_scene(painter, picture)
        painter.restore()
        return is_far

    def paint_over(self, painter: QPainter, picture: Picture, *, with_map: bool = True) -> None:
        """Paint headers, outlines, legend and minimap."""
        painter.save()
        _through(painter, picture)
        if picture.camera.scale >= READABLE:
            self._headers.paint(painter, picture)
        self._boxes.paint_pointers(painter, picture)
        painter.restore()
        painter.save()
        self._chrome.paint_legend(painter, picture)
        if with_map:
            self._chrome.paint_map(painter, picture)
        painter.restore()

    def paint_empty(self, painter: QPainter, rect: QRect, *, is_waiting: bool) -> None:
        """Paint the background, with a text while a layout is being computed."""
        painter.fillRect(rect, QColor(self.palette.theme.background))
        if is_waiting:
            painter.setPen(self.palette.muted)
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, "Computing layout…")

    def _paint_scene(self, painter: QPainter, picture: Picture) -> bool:
        scene, area = picture.scene, picture.area
        cells = scene.visible_cells(area)
        self._boxes.paint_frames(painter, picture, cells)
        is_far = picture.is_far
        if is_far is None:
            count = sum(len(cell.items) for cell in cells)
            is_far = picture.camera.scale < FAR or count > 8 * MANY
        shown: list[str] = []
        still = picture.progress >= 1.0
        if not is_far:
            # A box is elsewhere during an animation.
            shown = [
                item
                for cell in cells
                for item, rect in cell.items
                if (rect if still else picture.rect(item)).intersects(area)
            ]
            is_far = len(shown) > MANY and picture.is_far is None
        if is_far:
            if picture.camera.scale >= TINY:
                self._edges.paint_far(painter, cells, picture.camera.scale)
            self._boxes.paint_far(painter, picture, cells)
            shown = [item for item in picture.selected if scene.has(item)]
        else:
            self._edges.paint_near(painter, picture, cells)
            self._boxes.paint_near(painter, picture, shown)
        self._edges.paint_joints(painter, picture)
        self._boxes.paint_outlines(painter, picture, shown)
        if not is_far:
            self._boxes.paint_words(painter, picture, shown)
        return is_far


def _through(painter: QPainter, picture: Picture) -> None:
    """Set a painter to scene coordinates."""
    painter.scale(picture.camera.scale, picture.camera.scale)
    painter.translate(-picture.camera.x, -picture.camera.y)


def has_room(picture: Picture) -> bool:
    """Return whether the visible items are few enough to be animated."""
    return len(picture.scene.items_in(picture.area)) <= MANY // 2


SLOW_S = 0.004
# Margin of text and tags around boxes and lines [scene px].
ACROSS, DOWN = 140.0, 40.0
EXACT_PX = 0.02
LEAST_SHARE, LARGEST_ZOOM = 0.3, 4.0


class Backing:
    """Caches the painted scene. ``is_due`` is whether the cached image needs a repaint."""

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
            painter: Painter of the widget.
            picture: The picture to paint.
            ratio: Device pixels per logical pixel.
        """
        key = (
            picture.scene.number,
            picture.marks.version,
            picture.selected,
            picture.joints,
            picture.size.toTuple(),
            ratio,
        )
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
        """Repaint everything in the next frame."""
        self._key, self.is_due = None, False

    def _may_be_rough(self, picture: Picture) -> bool:
        """Return whether to scale the cached image for now: it overlaps and painting is slow."""
        if self._camera is None or self._cost < SLOW_S:
            return False
        known, wanted = self._camera.shown(picture.size), picture.area
        both = known.intersected(wanted)
        share = both.width() * both.height() / max(wanted.width() * wanted.height(), 1e-9)
        return share >= LEAST_SHARE and wanted.width() * LARGEST_ZOOM >= known.width()

    def _shift(self, camera: Camera, ratio: float) -> tuple[int, int] | None:
        """Return the camera shift in device pixels; None if it is not a whole number."""
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
        """Paint the cached image, scaled and moved to the present camera."""
        old, now = self._camera or picture.camera, picture.camera
        whole = QRectF(0, 0, picture.size.width(), picture.size.height())
        painter.fillRect(whole, QColor(self._graph.palette.theme.background))
        corner = now.to_window(QPointF(old.x, old.y))
        factor = now.scale / old.scale
        painter.drawPixmap(QRectF(corner, picture.size * factor), self._image, QRectF(self._image.rect()))
        self._is_rough, self.is_due = True, True


SHARPNESS = 2


def _still(picture: Picture) -> Picture:
    """Return the picture without hover, focus and animation."""
    return replace(picture, hovered=None, current=None, origins={}, progress=1.0)


def write_png(graph: GraphPainter, picture: Picture, path: Path) -> None:
    """Write a picture as PNG.

    Raises:
        WorkbenchError: the file cannot be written.
    """
    size = picture.size.toSize()
    image = QImage(size * SHARPNESS, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SHARPNESS)
    painter = QPainter(image)
    graph.paint(painter, _still(picture), with_map=False)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "png")  # type: ignore[call-overload]  # the stub lacks a device
    _write(path, buffer)


def write_svg(graph: GraphPainter, picture: Picture, path: Path) -> None:
    """Write a picture as SVG.

    Raises:
        WorkbenchError: the file cannot be written.
    """
    size: QSize = picture.size.toSize()
    buffer = QBuffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle(f"Graph, level {picture.scene.hierarchy.snapshot.level}")
    painter = QPainter(generator)
    graph.paint(painter, _still(picture), with_map=False)
    painter.end()
    _write(path, buffer)


def _write(path: Path, buffer: QBuffer) -> None:
    try:
        write_file(path, bytes(buffer.data().data()))
    except OSError as error:
        raise not_written(path, error, code="picture-not-writable") from error
