"""One painting of a graph, on a window, an image or a drawing file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

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
        """Paint everything: ground, open groups, lines, boxes, outlines, legend and map."""
        whole = QRectF(0, 0, picture.size.width(), picture.size.height())
        painter.fillRect(whole, QColor(self.palette.theme.background))
        camera = picture.camera
        painter.save()
        painter.scale(camera.scale, camera.scale)
        painter.translate(-camera.x, -camera.y)
        self._paint_scene(painter, picture)
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

    def _paint_scene(self, painter: QPainter, picture: Picture) -> None:
        scene, area = picture.scene, picture.area
        cells = scene.visible_cells(area)
        frames = self._boxes.paint_frames(painter, picture, cells)
        count = sum(len(cell.items) for cell in cells)
        is_far = picture.camera.scale < FAR or count > 4 * MANY
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
            is_far = len(shown) > MANY
        if is_far:
            if picture.camera.scale >= TINY:
                self._edges.paint_far(painter, cells)
            self._boxes.paint_far(painter, picture, cells)
            shown = [item for item in picture.selected if scene.has(item)]
        else:
            self._edges.paint_near(painter, picture, cells)
            self._boxes.paint_near(painter, picture, shown)
        self._edges.paint_joints(painter, picture)
        self._boxes.paint_outlines(painter, picture, shown)
        if not is_far:
            self._boxes.paint_words(painter, picture, shown)
        self._headers.paint(painter, picture, frames)


def has_room(picture: Picture) -> bool:
    """Tell whether few enough items show that moving them one by one stays smooth."""
    return len(picture.scene.items_in(picture.area)) <= MANY // 2
