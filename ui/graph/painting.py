"""One painting of a graph, on a window, an image or a drawing file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from ui.graph.headers import READABLE
from ui.graph.paint_boxes import BoxPainter
from ui.graph.paint_chrome import ChromePainter
from ui.graph.paint_edges import EdgePainter
from ui.graph.paint_headers import HeaderPainter
from ui.graph.palette import Palette
from ui.graph.picture import FAR, MANY, TINY

if TYPE_CHECKING:
    from ui.graph.picture import Picture
    from ui.theme import Theme


class GraphPainter:
    """Paints pictures in one theme."""

    def __init__(self, theme: Theme) -> None:
        self.palette = Palette(theme)
        self._boxes = BoxPainter(self.palette)
        self._edges = EdgePainter(self.palette)
        self._headers = HeaderPainter(self.palette)
        self._chrome = ChromePainter(self.palette, self._boxes)

    def paint(self, painter: QPainter, picture: Picture, *, with_map: bool = True) -> None:
        """Paint everything: ground, open groups, lines, boxes, headers, legend and map."""
        self.paint_scene(painter, picture)
        self.paint_over(painter, picture, with_map=with_map)

    def paint_scene(self, painter: QPainter, picture: Picture) -> bool:
        """Paint what moves with the camera; return whether it was painted as from afar."""
        whole = QRectF(0, 0, picture.size.width(), picture.size.height())
        painter.fillRect(whole, QColor(self.palette.theme.background))
        painter.save()
        _through(painter, picture)
        is_far = self._paint_scene(painter, picture)
        painter.restore()
        return is_far

    def paint_over(self, painter: QPainter, picture: Picture, *, with_map: bool = True) -> None:
        """Paint what stays in the window or follows the mouse: headers, outlines, legend, map."""
        painter.save()
        _through(painter, picture)
        if picture.camera.scale >= READABLE:
            self._headers.paint(painter, picture)
        self._boxes.paint_pointers(painter, picture)
        painter.restore()
        self._chrome.paint_legend(painter, picture)
        if with_map:
            self._chrome.paint_map(painter, picture)

    def paint_empty(self, painter: QPainter, rect: QRect, *, is_waiting: bool) -> None:
        """Paint the ground alone, and say so if a drawing is on its way."""
        painter.fillRect(rect, QColor(self.palette.theme.background))
        if is_waiting:
            painter.setPen(self.palette.muted)
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, "Drawing the graph …")

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
            # A box may stand elsewhere while it moves.
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
    """Let a painter paint in places of the drawing."""
    painter.scale(picture.camera.scale, picture.camera.scale)
    painter.translate(-picture.camera.x, -picture.camera.y)


def has_room(picture: Picture) -> bool:
    """Tell whether few enough items show that moving them one by one stays smooth."""
    return len(picture.scene.items_in(picture.area)) <= MANY // 2
