"""Paints the legend of the overlay, and the minimap in a strip beside the drawing."""

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

MARGIN, MAP_MARGIN = 12.0, 6.0
# Breadth of the minimap [px], and its largest share of the widget.
MAP_BROADEST, MAP_NARROWEST, MAP_SHARE = 110.0, 34.0, 0.12
# Smaller widgets have no minimap [px].
LEAST_ROOM = 160.0
# The visible share of a scene from which there is no minimap.
MAP_MOST_SEEN = 0.75
MAP_ITEMS = 2000
LEGEND = QSizeF(230.0, 53.0)


def has_map(scene: Scene, size: QSizeF, scale: float) -> bool:
    """Return whether a widget of that size has a minimap: it shows too little of the scene."""
    if min(size.width(), size.height()) < LEAST_ROOM:
        return False
    across = min(size.width() / max(scene.bounds.width() * scale, 1.0), 1.0)
    down = min(size.height() / max(scene.bounds.height() * scale, 1.0), 1.0)
    return across * down < MAP_MOST_SEEN


def map_strip(scene: Scene, size: QSizeF) -> QRectF:
    """Return the strip of a widget for the minimap: below wider scenes, at the right of others."""
    wide, high, aspect = size.width(), size.height(), _aspect(scene)
    if aspect > wide / high:
        broad = _breadth((wide - 2 * MAP_MARGIN) / aspect, high)
        return QRectF(0, high - broad, wide, broad)
    broad = _breadth((high - 2 * MAP_MARGIN) * aspect, wide)
    return QRectF(wide - broad, 0, broad, high)


def map_rect(scene: Scene, strip: QRectF) -> QRectF:
    """Return the rectangle of the minimap at the start of its strip.

    It has the proportions of the scene, but for scenes that are much longer than broad.
    """
    room = strip.adjusted(MAP_MARGIN, MAP_MARGIN, -MAP_MARGIN, -MAP_MARGIN)
    aspect = _aspect(scene)
    if room.width() > room.height():
        return QRectF(room.x(), room.y(), min(room.height() * aspect, room.width()), room.height())
    return QRectF(room.x(), room.y(), room.width(), min(room.width() / aspect, room.height()))


def map_to_scene(scene: Scene, strip: QRectF, point: QPointF) -> QPointF:
    """Return the scene position at a position of the minimap; the nearest one beside it."""
    rect = map_rect(scene, strip)
    across = min(max((point.x() - rect.x()) / rect.width(), 0.0), 1.0)
    down = min(max((point.y() - rect.y()) / rect.height(), 0.0), 1.0)
    return QPointF(across * scene.bounds.width(), down * scene.bounds.height())


def _aspect(scene: Scene) -> float:
    return max(scene.bounds.width(), 1.0) / max(scene.bounds.height(), 1.0)


def _breadth(width: float, room: float) -> float:
    """Return the breadth of the strip, with its margins [px]."""
    most = max(min(MAP_BROADEST, MAP_SHARE * room), MAP_NARROWEST)
    return round(min(max(width, MAP_NARROWEST), most) + 2 * MAP_MARGIN)


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
        scrim = QColor(self._palette.theme.surface)
        scrim.setAlpha(200)
        painter.fillRect(QRectF(bar.x(), bar.y(), left - bar.x(), bar.height()), scrim)
        painter.fillRect(QRectF(right, bar.y(), bar.right() - right, bar.height()), scrim)
        painter.setPen(QPen(QColor(self._palette.theme.accent), 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(left, bar.y() - 2, right - left, bar.height() + 4))

    def paint_map(self, painter: QPainter, picture: Picture) -> None:
        """Paint the minimap in its strip, if there is one."""
        scene, strip = picture.scene, picture.strip
        if strip.isEmpty():
            return
        painter.fillRect(strip, QColor(self._palette.theme.surface))
        painter.setPen(QColor(self._palette.theme.border))
        corner = strip.topRight() if strip.x() == 0 else strip.bottomLeft()
        painter.drawLine(strip.topLeft(), corner)
        rect = map_rect(scene, strip)
        key = (scene.number, picture.marks.version, rect.width(), rect.height())
        # During an animation the former image is used.
        if self._map is None or (key != self._key and picture.progress >= 1.0):
            self._map, self._key = self._draw_map(picture, rect.size()), key
        painter.drawPixmap(rect, self._map, QRectF(self._map.rect()))
        across, down = rect.width() / scene.bounds.width(), rect.height() / scene.bounds.height()
        area = picture.area
        window = QRectF(
            rect.x() + area.x() * across,
            rect.y() + area.y() * down,
            max(area.width() * across, 4),
            max(area.height() * down, 4),
        ).intersected(rect)
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
                rect.x() * across,
                rect.y() * down,
                max(rect.width() * across, 1.5),
                max(rect.height() * down - 0.5, 1.0),
            )
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
