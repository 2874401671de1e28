"""Bars of a lane, painted by the column: how much of a column they cover is how deep it is.

So thousands of bars cost no more than the columns of the picture, and those thinner than a pixel
add up to what they are together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

# Less than this of a column is rounding.
_NOTHING = 1e-6


class LaneBars(pg.GraphicsObject):  # type: ignore[misc]
    """Bars of one colour in one lane; ascending along x, none over another.

    ``is_solid`` paints every column that has any of a bar as if it were covered.
    """

    def __init__(self, lane: tuple[float, float], *, is_solid: bool = False) -> None:
        super().__init__()
        self._lane, self._is_solid = lane, is_solid
        self._colour = QColor("black")
        self._places, self._busy = np.zeros(0), np.zeros(0)

    def set_bars(self, edges: NDArray[np.float64]) -> None:
        """Show other bars: ``edges`` [bars, 2] are their starts and ends."""
        self.prepareGeometryChange()
        self._places = edges.reshape(-1)
        lengths = edges[:, 1] - edges[:, 0]
        ends = np.cumsum(lengths)
        # How much lies covered up to each start and each end; straight in between.
        self._busy = np.stack([ends - lengths, ends], axis=1).reshape(-1)
        self.update()

    def set_colour(self, colour: QColor) -> None:
        """Paint in another colour."""
        self._colour = colour
        self.update()

    def boundingRect(self) -> QRectF:
        if not self._places.size:
            return QRectF()
        left, right = float(self._places[0]), float(self._places[-1])
        return QRectF(left, self._lane[0], right - left, self._lane[1] - self._lane[0])

    def paint(self, painter: QPainter, *_rest: Any) -> None:
        view = self.viewRect()
        if view is None or not self._places.size:
            return
        to_screen = painter.transform()
        corner = to_screen.map(QPointF(view.left(), self._lane[1]))
        other = to_screen.map(QPointF(view.right(), self._lane[0]))
        first, last = int(np.floor(corner.x())), int(np.ceil(other.x()))
        wide = view.width() / max(other.x() - corner.x(), 1e-9)
        borders = view.left() + (np.arange(first, last + 1) - corner.x()) * wide
        covered = np.diff(np.interp(borders, self._places, self._busy)) / wide
        image = _row(np.ceil(covered - _NOTHING) if self._is_solid else covered, self._colour)
        painter.save()
        painter.resetTransform()
        painter.drawImage(QRectF(first, corner.y(), last - first, other.y() - corner.y()), image)
        painter.restore()


def _row(covered: NDArray[np.float64], colour: QColor) -> QImage:
    """Return one row of pixels, as opaque as they are covered [0..1]."""
    alpha = np.clip(covered, 0.0, 1.0) * colour.alphaF()
    # Little-endian ARGB32 with colours multiplied by alpha: blue, green, red, alpha.
    parts = np.asarray([colour.blueF(), colour.greenF(), colour.redF(), 1.0])
    pixels = np.ascontiguousarray(np.rint(255 * alpha[:, None] * parts).astype(np.uint8))
    made = QImage(
        pixels.data, len(pixels), 1, 4 * len(pixels), QImage.Format.Format_ARGB32_Premultiplied
    )
    return made.copy()
