"""Names inside the bars of a lane: drawn where there is room, cut where there is little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

_FONT_PX, _PAD_PX, _LEAST_PX = 11, 4.0, 34.0


class LaneNames(pg.GraphicsObject):  # type: ignore[misc]
    """Operator and module of each bar; bars are ascending along x and lie in one lane.

    With ``follows`` a bar that begins left of what is shown has its name where it can be read;
    else its name goes with its begin.
    """

    def __init__(self, *, follows: bool) -> None:
        super().__init__()
        self._follows = follows
        self._edges = np.zeros((0, 2))
        self._texts: tuple[tuple[str, ...], ...] = ()
        self._lane = (0.0, 1.0)
        self._colour = QColor("black")
        self._font = QFont()
        self._font.setPixelSize(_FONT_PX)

    def set_names(
        self, edges: NDArray[np.float64], texts: tuple[tuple[str, ...], ...],
        lane: tuple[float, float],
    ) -> None:  # fmt: skip
        """Name other bars: ``edges`` [bars, 2] along x, their two lines, the lane's ends."""
        self.prepareGeometryChange()
        self._edges, self._texts, self._lane = edges, texts, lane
        self.update()

    def set_colour(self, colour: QColor) -> None:
        """Write in another colour."""
        self._colour = colour
        self.update()

    def boundingRect(self) -> QRectF:
        if not len(self._edges):
            return QRectF()
        left, right = float(self._edges[0, 0]), float(self._edges[-1, 1])
        return QRectF(left, self._lane[0], right - left, self._lane[1] - self._lane[0])

    def paint(self, painter: QPainter, *_rest: Any) -> None:
        view = self.viewRect()
        if view is None or not len(self._edges):
            return
        starts, ends = self._edges.T
        shown = ((ends if self._follows else starts) > view.left()) & (starts < view.right())
        to_screen = painter.transform()
        least = _LEAST_PX / max(abs(to_screen.m11()), 1e-12)
        wide = np.minimum(ends, view.right()) - np.maximum(starts, view.left()) >= least
        painter.save()
        painter.resetTransform()
        painter.setFont(self._font)
        painter.setPen(self._colour)
        metrics = QFontMetricsF(self._font)
        for place in np.flatnonzero(shown & wide):
            left, right = max(starts[place], view.left()), min(ends[place], view.right())
            bar = QRectF(
                to_screen.map(QPointF(left, self._lane[1])),
                to_screen.map(QPointF(right, self._lane[0])),
            )
            _write(painter, metrics, bar.adjusted(_PAD_PX, _PAD_PX, -_PAD_PX, -_PAD_PX),
                   self._texts[place])  # fmt: skip
        painter.restore()


def _write(painter: QPainter, metrics: QFontMetricsF, room: QRectF, lines: tuple[str, ...]) -> None:
    height = metrics.height()
    for number, line in enumerate(lines):
        below = (number + 1) * height
        if below > room.height():
            return
        # Modules differ at their ends, operators at their beginnings.
        side = Qt.TextElideMode.ElideLeft if number else Qt.TextElideMode.ElideRight
        text = metrics.elidedText(line, side, room.width())
        place = QPointF(room.left(), room.top() + below - metrics.descent())
        painter.drawText(place, text)
