"""Paints the legend of the overlay and the minimap, which do not zoom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QLinearGradient, QPainter, QPen, QPixmap

from ui.features.graph.marks import number_text
from workbench.graph.hierarchy import ROOT

if TYPE_CHECKING:
    from ui.features.graph.paint_boxes import BoxPainter
    from ui.features.graph.palette import Palette
    from ui.features.graph.picture import Picture
    from ui.features.graph.scene import Scene

MARGIN = 12.0
MAP_LONGEST, MAP_SHORTEST = 180.0, 34.0
# Its largest share of the width, and the visible share of a scene from which there is none.
MAP_SHARE, MAP_MOST_SEEN = 0.2, 0.75
MAP_ITEMS = 2000
LEGEND = QSizeF(230.0, 53.0)


def map_rect(scene: Scene, size: QSizeF) -> QRectF:
    """Return the rectangle of the minimap: at the right, portrait for tall scenes."""
    bounds = scene.bounds
    longest = min(MAP_LONGEST * 1.6, size.height() * 0.6)
    aspect = max(bounds.width(), 1.0) / max(bounds.height(), 1.0)
    widest = min(MAP_LONGEST, max(size.width() * MAP_SHARE, MAP_SHORTEST))
    width = min(max(longest * aspect, MAP_SHORTEST), widest)
    height = min(max(width / aspect, MAP_SHORTEST), longest)
    return QRectF(size.width() - width - MARGIN, size.height() - height - MARGIN, width, height)


def has_map(scene: Scene, area: QRectF) -> bool:
    """Return whether there is a minimap while an area is visible: it would cover what it shows."""
    seen = area.intersected(scene.bounds)
    whole = max(scene.bounds.width() * scene.bounds.height(), 1.0)
    return seen.width() * seen.height() < MAP_MOST_SEEN * whole


def map_to_scene(scene: Scene, size: QSizeF, point: QPointF) -> QPointF:
    """Return the scene position at a minimap position."""
    rect = map_rect(scene, size)
    return QPointF(
        (point.x() - rect.x()) / rect.width() * scene.bounds.width(),
        (point.y() - rect.y()) / rect.height() * scene.bounds.height(),
    )


def legend_bar(size: QSizeF) -> QRectF:
    """Return the rectangle of the legend's colour bar."""
    top = size.height() - LEGEND.height() - MARGIN
    return QRectF(MARGIN + 10, top + 22, LEGEND.width() - 20, 8)


class ChromePainter:
    """Paints the legend and the minimap. The minimap image is cached."""

    def __init__(self, palette: Palette, boxes: BoxPainter) -> None:
        self._palette = palette
        self._boxes = boxes
        self._map: QPixmap | None = None
        self._key: tuple[int, int, float, float] | None = None

    def paint_legend(self, painter: QPainter, picture: Picture) -> None:
        """Paint the legend of the overlay."""
        overlay = picture.marks.overlay
        if overlay is None:
            return
        theme = self._palette.theme
        top = picture.size.height() - LEGEND.height() - MARGIN
        rect = QRectF(MARGIN, top, LEGEND.width(), LEGEND.height())
        painter.setPen(QPen(QColor(theme.border)))
        painter.setBrush(QColor(theme.surface))
        painter.drawRoundedRect(rect, 4, 4)
        bar = legend_bar(picture.size)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for step in range(9):
            gradient.setColorAt(step / 8, overlay.ramp(step / 8))
        painter.fillRect(bar, gradient)
        low, high = overlay.low, overlay.high
        if overlay.brush is not None:
            low, high = (overlay.value(level) for level in overlay.brush)
            self._brush(painter, bar, overlay.brush)
        painter.setFont(self._palette.small_font)
        painter.setPen(self._palette.text)
        title = f"{overlay.title}{' (log)' if overlay.is_log else ''}"
        right = Qt.TextElideMode.ElideRight
        title = painter.fontMetrics().elidedText(title, right, int(bar.width()))
        line = QRectF(bar.x(), rect.y() + 4, bar.width(), 16)
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, title)
        painter.setPen(self._palette.muted)
        line = QRectF(bar.x(), rect.y() + 33, bar.width(), 16)
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, number_text(low))
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, number_text(high))
        if overlay.middle is not None and overlay.brush is None:
            painter.drawText(line, Qt.AlignmentFlag.AlignHCenter, number_text(overlay.middle))

    def _brush(self, painter: QPainter, bar: QRectF, part: tuple[float, float]) -> None:
        """Dim the scale outside the brush, and outline the brush."""
        left, right = (bar.x() + bar.width() * level for level in part)
        veil = QColor(self._palette.theme.surface)
        veil.setAlpha(200)
        painter.fillRect(QRectF(bar.x(), bar.y(), left - bar.x(), bar.height()), veil)
        painter.fillRect(QRectF(right, bar.y(), bar.right() - right, bar.height()), veil)
        painter.setPen(QPen(QColor(self._palette.theme.accent), 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(left, bar.y() - 2, right - left, bar.height() + 4))

    def paint_map(self, painter: QPainter, picture: Picture) -> None:
        """Paint the minimap, unless most of the scene is visible."""
        scene = picture.scene
        if not has_map(scene, picture.area):
            return
        rect = map_rect(scene, picture.size)
        key = (scene.number, picture.marks.version, rect.width(), rect.height())
        # During an animation the former image is used.
        if self._map is None or (key != self._key and picture.progress >= 1.0):
            self._map, self._key = self._draw_map(picture, rect.size()), key
        painter.setOpacity(0.92)
        painter.drawPixmap(rect, self._map, QRectF(self._map.rect()))
        painter.setOpacity(1.0)
        across, down = rect.width() / scene.bounds.width(), rect.height() / scene.bounds.height()
        area = picture.area
        window = QRectF(
            rect.x() + area.x() * across, rect.y() + area.y() * down,
            max(area.width() * across, 4), max(area.height() * down, 4),
        ).intersected(rect)  # fmt: skip
        painter.setPen(QPen(QColor(self._palette.theme.accent), 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(window)

    def _draw_map(self, picture: Picture, size: QSizeF) -> QPixmap:
        scene = picture.scene
        pixmap = QPixmap(size.toSize())
        pixmap.fill(QColor(self._palette.theme.surface))
        painter = QPainter(pixmap)
        across = size.width() / max(scene.bounds.width(), 1.0)
        down = size.height() / max(scene.bounds.height(), 1.0)
        for item in _outline(scene):
            rect = scene.rect(item)
            colour = QColor(self._boxes.far_colour(scene, picture.marks, item))
            if scene.is_open(item):
                # Its children are too small here.
                colour = QColor(self._palette.theme.border)
            small = QRectF(
                rect.x() * across, rect.y() * down,
                max(rect.width() * across, 1.5), max(rect.height() * down - 0.5, 1.0),
            )  # fmt: skip
            painter.fillRect(small, colour)
        painter.setPen(QColor(self._palette.theme.border))
        painter.drawRect(0, 0, pixmap.width() - 1, pixmap.height() - 1)
        painter.end()
        return pixmap


def _outline(scene: Scene) -> list[str]:
    """Return the boxes of the minimap: open groups are replaced by their children up to a limit."""
    level = list(scene.hierarchy.groups[ROOT].children)
    while True:
        opened = [
            child
            for item in level
            for child in (scene.hierarchy.groups[item].children if scene.is_open(item) else [item])
        ]
        if len(opened) == len(level) or len(opened) > MAP_ITEMS:
            return level
        level = opened
