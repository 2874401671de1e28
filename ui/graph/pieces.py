"""The ways of a line from corner to corner: straight down, or bowed between two rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QLineF, QPointF, QRectF
from PySide6.QtGui import QPainterPath

if TYPE_CHECKING:
    from workbench.graph.layout import Route

SIDE = 40.0
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


class Line:
    """A route, the corner of the drawing that it is relative to, and the room that it takes."""

    __slots__ = ("_pieces", "_points", "east", "left", "north", "route", "south", "top", "west")

    def __init__(self, route: Route, left: float, top: float) -> None:
        self.route, self.left, self.top = route, left, top
        self._points: list[QPointF] | None = None
        self._pieces: list[Piece] | None = None
        (x, y), (to_x, to_y) = route.points[0], route.points[-1]
        self.north, self.south = (top + y, top + to_y) if y <= to_y else (top + to_y, top + y)
        if len(route.points) > 4:
            xs = [point[0] for point in route.points]
            x, to_x = min(xs), max(xs)
        elif x > to_x:
            x, to_x = to_x, x
        self.west, self.east = left + x - SIDE, left + to_x + SIDE

    def points(self) -> list[QPointF]:
        """Return the corners of the route in the drawing."""
        if self._points is None:
            self._points = [QPointF(self.left + x, self.top + y) for x, y in self.route.points]
        return self._points

    def pieces(self) -> list[Piece]:
        """Return the ways from corner to corner, as they are drawn from nearby."""
        if self._pieces is None:
            self._pieces = pieces(self.points())
        return self._pieces

    def crosses(self, area: QRectF) -> bool:
        """Tell, cheaply, whether the route may show in a part of the drawing."""
        return (
            self.south >= area.top()
            and self.north <= area.bottom()
            and self.east >= area.left()
            and self.west <= area.right()
        )
