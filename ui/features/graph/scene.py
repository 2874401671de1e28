"""A graph placement in absolute coordinates, indexed for painting and hit tests.

The scene is divided into square cells. A cell is filled on first access, so that a
new layout costs only the visible part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QLineF, QPointF, QRectF
from PySide6.QtGui import QPainterPath

from workbench.graph.hierarchy import ROOT
from workbench.graph.layout import HEADER, RIGHT_GAP, STUB_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.graph.hierarchy import Hierarchy, Tensor
    from workbench.graph.layout import Flow, GroupLayout, Placement, Point, Route


SIDE = 40.0
CURVE = 0.45
STRAIGHT = 0.5


class Piece:
    """One segment of a route. ``north`` and ``south`` are its vertical extent.

    A straight segment has a ``line``, a curved one the four points of a Bezier ``curve``, which
    leaves and arrives in the direction of the flow.
    """

    __slots__ = ("curve", "key", "line", "north", "south")

    def __init__(self, start: QPointF, end: QPointF, flow: Flow) -> None:
        x, y, to_x, to_y = start.x(), start.y(), end.x(), end.y()
        self.key = (x, y, to_x, to_y)
        self.north, self.south = (y, to_y) if y <= to_y else (to_y, y)
        self.line: QLineF | None = None
        self.curve: tuple[QPointF, QPointF, QPointF, QPointF] | None = None
        if abs(x - to_x) < STRAIGHT or abs(y - to_y) < STRAIGHT:
            self.line = QLineF(start, end)
        elif flow == "right":
            bow = (to_x - x) * CURVE
            self.curve = (start, QPointF(x + bow, y), QPointF(to_x - bow, to_y), end)
        else:
            bow = (to_y - y) * CURVE
            self.curve = (start, QPointF(x, y + bow), QPointF(to_x, to_y - bow), end)


def pieces(points: list[QPointF], flow: Flow) -> list[Piece]:
    """Return the segments between corners."""
    return [Piece(start, end, flow) for start, end in pairwise(points)]


def curve(points: list[QPointF], flow: Flow) -> QPainterPath:
    """Return a smooth path through corners, at each row in the direction of the flow."""
    path = QPainterPath(points[0])
    for piece in pieces(points, flow):
        if piece.curve is None:
            path.lineTo(piece.line.p2() if piece.line else points[-1])
        else:
            path.cubicTo(*piece.curve[1:])
    return path


class Line:
    """A route, the scene position it is relative to, and its bounding box."""

    __slots__ = ("_pieces", "_points", "east", "left", "north", "route", "south", "top", "west")

    def __init__(self, route: Route, left: float, top: float) -> None:
        self.route, self.left, self.top = route, left, top
        self._points: list[QPointF] | None = None
        self._pieces: list[Piece] | None = None
        (x, y), (to_x, to_y) = route.points[0], route.points[-1]
        self.north, self.south = (top + y, top + to_y) if y <= to_y else (top + to_y, top + y)
        if len(route.points) > 4:
            xs, ys = zip(*route.points, strict=True)
            x, to_x = min(xs), max(xs)
            self.north, self.south = top + min(ys), top + max(ys)
        elif x > to_x:
            x, to_x = to_x, x
        self.west, self.east = left + x - SIDE, left + to_x + SIDE

    def points(self) -> list[QPointF]:
        """Return the corners of the route in scene coordinates."""
        if self._points is None:
            self._points = [QPointF(self.left + x, self.top + y) for x, y in self.route.points]
        return self._points

    def pieces(self, flow: Flow) -> list[Piece]:
        """Return the segments from corner to corner."""
        if self._pieces is None:
            self._pieces = pieces(self.points(), flow)
        return self._pieces

    def crosses(self, area: QRectF) -> bool:
        """Return whether the bounding box of the route touches an area."""
        return (
            self.south >= area.top()
            and self.north <= area.bottom()
            and self.east >= area.left()
            and self.west <= area.right()
        )


CELL = 2000.0
SHORT = 45.0
TOGGLE = 26.0
# Offsets of stubs and their labels from the ends of a line; to the right at its start.
STUB_BEFORE = QRectF(-130, -STUB_LENGTH - 10, 134, STUB_LENGTH + 8)
STUB_AFTER = {"down": QRectF(-4, 2, 134, STUB_LENGTH + 10), "right": QRectF(0, -12, RIGHT_GAP, 24)}

Part = Literal["node", "group", "header", "toggle", "ports"]


_NUMBERS = count()


@dataclass(slots=True)
class Cell:
    """The content of one cell: boxes and segments once, open groups in every cell they touch."""

    items: list[tuple[str, QRectF]] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    lines: QPainterPath = field(default_factory=QPainterPath)
    short_lines: QPainterPath = field(default_factory=QPainterPath)
    routes: list[Line] = field(default_factory=list)
    batches: dict[str, list[QRectF]] | None = None
    batched_for: int = 0


def is_direct(points: tuple[Point, ...]) -> bool:
    """Return whether a line has no bends between its two rows."""
    if len(points) > 4:
        return False
    return len(points) < 4 or (_is_aligned(points[0], points[1]) and _is_aligned(points[2], points[3]))


def _is_aligned(one: Point, other: Point) -> bool:
    return one[0] == other[0] or one[1] == other[1]


class Scene:
    """One placement in absolute coordinates, computed on demand.

    ``number`` identifies the scene without a reference to it.
    """

    def __init__(self, placement: Placement) -> None:
        self.number = next(_NUMBERS)
        self.placement = placement
        self.hierarchy: Hierarchy = placement.hierarchy
        self.flow = placement.flow
        self.bounds = QRectF(0, 0, placement.width, placement.height)
        self.tensor_texts: dict[tuple[str, str], str] = {}
        self._cells: dict[tuple[int, int], Cell] = {}
        self._rects: dict[str, QRectF] = {ROOT: QRectF(self.bounds)}

    def has(self, item: str | None) -> bool:
        """Return whether an item is drawn."""
        return item is not None and self.placement.shows(item)

    def is_open(self, item: str) -> bool:
        """Return whether an item is an open group."""
        return item in self.placement.insides

    @property
    def expanded(self) -> frozenset[str]:
        """The open groups, without the root."""
        return frozenset(self.placement.insides) - {ROOT}

    def rect(self, item: str) -> QRectF:
        """Return the rectangle of an item."""
        rect = self._rects.get(item)
        if rect is None:
            parent = self.hierarchy.parent[item]
            origin = self.rect(parent)
            x, y, width, height = self.placement.insides[parent].boxes[item]
            rect = self._rects[item] = QRectF(origin.x() + x, origin.y() + y, width, height)
        return rect

    def routes_of(self, item: str) -> Iterator[Route]:
        """Return the routes from or to an item inside its group, without those to its border."""
        inside = self.placement.insides[self.hierarchy.parent[item]]
        return (route for route in inside.routes if not route.port and item in (route.source, route.target))

    def lines_between(self, source: str, target: str) -> list[Line]:
        """Return the lines from one item to another, with those through borders in between."""
        parent, depth, groups = self.hierarchy.parent, self.hierarchy.depth, self.hierarchy.groups
        above, below = [source], [target]
        while depth[above[-1]] > depth[below[-1]]:
            above.append(parent[above[-1]])
        while depth[below[-1]] > depth[above[-1]]:
            below.append(parent[below[-1]])
        while parent[above[-1]] != parent[below[-1]]:
            above.append(parent[above[-1]])
            below.append(parent[below[-1]])
        link = groups[parent[above[-1]]].links.get((above[-1], below[-1]))
        lines: dict[int, Line] = {}
        for tensor in () if link is None else link.tensors:
            leaves = all(groups[p].ports.exits.get(tensor) == c for c, p in pairwise(above))
            reaches = all(c in groups[p].ports.entries.get(tensor, ()) for c, p in pairwise(below))
            if leaves and reaches:
                hops = [*pairwise(above), (above[-1], below[-1])]
                hops += [(group, child) for child, group in pairwise(below)]
                for start, end in hops:
                    lines |= {id(line.route): line for line in self._hop(start, end, tensor)}
        return list(lines.values())

    def _hop(self, source: str, target: str, tensor: Tensor) -> Iterator[Line]:
        """Yield the lines of a tensor between two siblings, or a group and its child."""
        parent = self.hierarchy.parent
        group = parent[source]
        if source == parent.get(target):
            group = source
        origin = self.rect(group)
        for route in self.placement.insides[group].routes:
            ends = (route.source, route.target)
            if ends == (source, target) and route.tensor in (None, tensor):
                yield Line(route, origin.x(), origin.y())

    def visible_cells(self, area: QRectF) -> list[Cell]:
        """Return the cells that touch an area."""
        wide = area.adjusted(-CELL / 4, -CELL / 4, CELL / 4, CELL / 4).intersected(self.bounds)
        if wide.isEmpty():
            return []
        return [
            self._cell(column, row)
            for column in range(int(wide.left() // CELL), int(wide.right() // CELL) + 1)
            for row in range(int(wide.top() // CELL), int(wide.bottom() // CELL) + 1)
        ]

    def _cell(self, column: int, row: int) -> Cell:
        known_cell = self._cells.get((column, row))
        if known_cell is not None:
            return known_cell
        cell = Cell()
        bounds = QRectF(column * CELL, row * CELL, CELL, CELL)
        axis = 0 if self.flow == "right" else 1
        waiting = [(self.placement.insides[ROOT], 0.0, 0.0)]
        while waiting:
            inside, left, top = waiting.pop()
            self._add_boxes(cell, bounds, inside, left, top, waiting)
            low = bounds.left() - left if axis == 0 else bounds.top() - top
            high = low + CELL
            for route in inside.routes:
                start, end = route.points[0][axis], route.points[-1][axis]
                turns = self.flow == "wrapped" and len(route.points) > 4
                if turns or ((start <= high or end <= high) and (start >= low or end >= low)):
                    line = Line(route, left, top)
                    if line.crosses(bounds):
                        _add_line(cell, line, bounds)
        # A cell is published to other threads only when it is complete.
        self._cells[column, row] = cell
        return cell

    def prepare(self, cancelled: Callable[[], bool]) -> None:
        """Fill all cells in advance, until ``stop`` returns True."""
        for row in range(int(self.bounds.bottom() // CELL) + 1):
            for column in range(int(self.bounds.right() // CELL) + 1):
                if cancelled():
                    return
                self._cell(column, row)

    def forget(self) -> None:
        """Free the cells step by step. Later accesses fill them again.

        Freeing a large scene at once would block all threads.
        """
        for cell in list(self._cells):
            self._cells.pop(cell, None)
        for item in list(self._rects):
            if item != ROOT:
                self._rects.pop(item, None)

    def _add_boxes(
        self,
        cell: Cell,
        bounds: QRectF,
        inside: GroupLayout,
        left: float,
        top: float,
        waiting: list[tuple[GroupLayout, float, float]],
    ) -> None:
        west, north = bounds.x() - left, bounds.y() - top
        east, south = west + CELL, north + CELL
        insides = self.placement.insides
        for item, (x, y, width, height) in inside.boxes.items():
            if y >= south or y + height < north or x >= east or x + width < west:
                continue
            if item in insides:
                cell.frames.append(item)
                waiting.append((insides[item], left + x, top + y))
            elif west <= x + width / 2 < east and north <= y + height / 2 < south:
                cell.items.append((item, QRectF(left + x, top + y, width, height)))

    def items_in(self, area: QRectF) -> list[str]:
        """Return the operations and closed groups that touch an area."""
        return [
            item for cell in self.visible_cells(area) for item, rect in cell.items if rect.intersects(area)
        ]

    def frames_in(self, area: QRectF) -> list[str]:
        """Return the open groups that touch an area, outer groups first."""
        names = {name for cell in self.visible_cells(area) for name in cell.frames}
        shown = [name for name in names if self.rect(name).intersects(area)]
        return sorted(shown, key=self.hierarchy.depth.__getitem__)

    def stub_at(self, point: QPointF) -> tuple[str, tuple[str, ...]] | None:
        """Return the stub at a position: its item, and the items at the other end."""
        starts: dict[str, list[str]] = {}
        after = STUB_AFTER["right" if self.flow == "right" else "down"]
        for cell in self.visible_cells(QRectF(point.x() - 1, point.y() - 1, 2, 2)):
            for line in cell.routes:
                if not line.route.is_stub:
                    continue
                start, *_, end = line.points()
                route = line.route
                if STUB_BEFORE.translated(end).contains(point) and route.port != "exit":
                    source = route.tensor[0] if route.port and route.tensor else route.source
                    return route.target, (source,)
                if after.translated(start).contains(point) and not route.port:
                    starts.setdefault(line.route.source, []).append(line.route.target)
        first_start = next(iter(starts.items()), None)
        return (first_start[0], tuple(dict.fromkeys(first_start[1]))) if first_start else None

    def hit(self, point: QPointF) -> tuple[str, Part] | None:
        """Return the item at a scene position and its part; None for the background."""
        around = QRectF(point.x() - 1, point.y() - 1, 2, 2)
        for item in self.items_in(around):
            rect = self.rect(item)
            if rect.contains(point):
                if item not in self.hierarchy.groups:
                    return item, "node"
                return item, "toggle" if point.x() < rect.left() + TOGGLE else "group"
        for item in reversed(self.frames_in(around)):
            rect = self.rect(item)
            if rect.contains(point):
                if point.y() > rect.top() + HEADER:
                    return None
                return item, "toggle" if point.x() < rect.left() + TOGGLE else "header"
        return None


def _add_line(cell: Cell, line: Line, bounds: QRectF) -> None:
    """Add a route and its segments to a cell."""
    cell.routes.append(line)
    if line.route.is_stub:
        return
    points = line.route.points
    if is_direct(points):
        points = (points[0], points[-1])
    x, y = line.left + points[0][0], line.top + points[0][1]
    for next_x, next_y in points[1:]:
        to_x, to_y = line.left + next_x, line.top + next_y
        if abs(to_y - y) > CELL or abs(to_x - x) > CELL:
            piece = _clipped(x, y, to_x, to_y, bounds)
            if piece is not None:
                _add_piece(cell.lines, piece)
        elif bounds.contains((x + to_x) / 2, (y + to_y) / 2):
            is_short = abs(to_y - y) + abs(to_x - x) <= SHORT
            _add_piece(cell.short_lines if is_short else cell.lines, QLineF(x, y, to_x, to_y))
        x, y = to_x, to_y


def _add_piece(path: QPainterPath, piece: QLineF) -> None:
    """Add a straight piece; it goes on from the last one if it starts there."""
    if path.isEmpty() or path.currentPosition() != piece.p1():
        path.moveTo(piece.p1())
    path.lineTo(piece.p2())


def _clipped(x: float, y: float, to_x: float, to_y: float, bounds: QRectF) -> QLineF | None:
    """Return the part of a long line in a cell, cut along its longer side."""
    across, down = to_x - x, to_y - y
    if abs(down) >= abs(across):
        ends = ((bounds.top() - y) / down, (bounds.bottom() - y) / down)
    else:
        ends = ((bounds.left() - x) / across, (bounds.right() - x) / across)
    start, end = max(0.0, min(ends)), min(1.0, max(ends))
    if start >= end:
        return None
    middle = (start + end) / 2
    if not bounds.contains(x + across * middle, y + down * middle):
        return None
    return QLineF(x + across * start, y + down * start, x + across * end, y + down * end)
