"""The ways of a line from corner to corner: straight down, or bowed between two rows."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import QLineF, QPointF
from PySide6.QtGui import QPainterPath

CURVE = 0.45
STRAIGHT = 0.5


class Piece:
    """One way. ``key`` tells it from others; ``north`` and ``south`` are its reach downwards.

    A straight one has a ``line``, a bowed one the four points of a Bezier ``curve``.
    """

    __slots__ = ("curve", "key", "line", "north", "south")

    def __init__(self, start: QPointF, end: QPointF) -> None:
        x, y, to_x, to_y = start.x(), start.y(), end.x(), end.y()
        self.key = (x, y, to_x, to_y)
        self.north, self.south = (y, to_y) if y <= to_y else (to_y, y)
        self.line: QLineF | None = None
        self.curve: tuple[QPointF, QPointF, QPointF, QPointF] | None = None
        if abs(x - to_x) < STRAIGHT:
            self.line = QLineF(start, end)
        else:
            bow = (to_y - y) * CURVE
            self.curve = (start, QPointF(x, y + bow), QPointF(to_x, to_y - bow), end)


def pieces(points: list[QPointF]) -> list[Piece]:
    """Return the ways between corners."""
    return [Piece(start, end) for start, end in pairwise(points)]


def curve(points: list[QPointF]) -> QPainterPath:
    """Return a smooth way through corners: vertical where it leaves and enters a row."""
    path = QPainterPath(points[0])
    for piece in pieces(points):
        if piece.curve is None:
            path.lineTo(piece.line.p2() if piece.line else points[-1])
        else:
            path.cubicTo(*piece.curve[1:])
    return path
