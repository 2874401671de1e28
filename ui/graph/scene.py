"""A placement made ready for painting and for the mouse: a grid of cells. Built off the window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QLineF, QPointF, QRectF

from workbench.graph.group_layout import HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.graph.group_layout import Route
    from workbench.graph.hierarchy import Hierarchy
    from workbench.graph.layout import Placement

CELL = 2000.0
TOGGLE = 26.0
UNBENT = 4

Part = Literal["node", "group", "header", "toggle"]


@dataclass(slots=True)
class Cell:
    """What stands in one square of the drawing."""

    bounds: QRectF
    items: list[str] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    lines: list[QLineF] = field(default_factory=list)
    routes: list[int] = field(default_factory=list)
    batches: dict[str, list[QRectF]] | None = None
    batched_for: int = 0


class Scene:
    """Rectangles, lines and cells of one placement.

    ``frames`` are the open groups, parents first; every other item is a box. Cells hold each box
    and line piece once, and each frame and route wherever it passes.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        placement: Placement,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.hierarchy = hierarchy
        self.placement = placement
        self.bounds = QRectF(0, 0, placement.width, placement.height)
        self.rects = {item: QRectF(*box) for item, box in placement.boxes.items()}
        self.frames = [item for item in placement.boxes if item in placement.expanded]
        self.cells: dict[tuple[int, int], Cell] = {}
        self.routes_of: dict[str, list[int]] = {}
        for number, item in enumerate(self.frames):
            for cell in self._cells_under(self.rects[item]):
                cell.frames.append(number)
        for item, box in placement.boxes.items():
            if item not in placement.expanded:
                self._cell(box[0] + box[2] / 2, box[1] + box[3] / 2, item)
        for number, (route, left, top) in enumerate(placement.routes):
            if number % 1000 == 0 and cancelled():
                return
            self._add_route(number, route, left, top)

    def _at(self, column: int, row: int) -> Cell:
        cell = self.cells.get((column, row))
        if cell is None:
            bounds = QRectF(column * CELL, row * CELL, CELL, CELL)
            cell = self.cells[column, row] = Cell(bounds)
        return cell

    def _cell(self, x: float, y: float, item: str) -> None:
        cell = self._at(int(x // CELL), int(y // CELL))
        cell.items.append(item)
        rect = self.rects[item]
        if not cell.bounds.contains(rect):
            cell.bounds = cell.bounds.united(rect)

    def _cells_under(self, rect: QRectF) -> Iterator[Cell]:
        for column in range(int(rect.left() // CELL), int(rect.right() // CELL) + 1):
            for row in range(int(rect.top() // CELL), int(rect.bottom() // CELL) + 1):
                yield self._at(column, row)

    def _add_route(self, number: int, route: Route, left: float, top: float) -> None:
        self.routes_of.setdefault(route.source, []).append(number)
        self.routes_of.setdefault(route.target, []).append(number)
        points = route.points
        if len(points) <= UNBENT:
            points = (points[0], points[-1])
        x, y = left + points[0][0], top + points[0][1]
        if route.is_stub:
            self._at(int(x // CELL), int(y // CELL)).routes.append(number)
            x, y = left + points[-1][0], top + points[-1][1]
            self._at(int(x // CELL), int(y // CELL)).routes.append(number)
            return
        cells, last = self.cells, None
        for next_x, next_y in points[1:]:
            to_x, to_y = left + next_x, top + next_y
            key = (int((x + to_x) / 2 // CELL), int((y + to_y) / 2 // CELL))
            if abs(to_y - y) > CELL or abs(to_x - x) > CELL:
                self._add_long(number, QLineF(x, y, to_x, to_y))
                last = None
            else:
                cell = cells.get(key) or self._at(*key)
                cell.lines.append(QLineF(x, y, to_x, to_y))
                if key != last:
                    cell.routes.append(number)
                    last = key
            x, y = to_x, to_y

    def _add_long(self, number: int, line: QLineF) -> None:
        """Cut a line into pieces that are no longer than a cell."""
        pieces = int(line.length() // CELL) + 1
        for piece in range(pieces):
            part = QLineF(line.pointAt(piece / pieces), line.pointAt((piece + 1) / pieces))
            middle = part.center()
            cell = self._at(int(middle.x() // CELL), int(middle.y() // CELL))
            cell.lines.append(part)
            cell.routes.append(number)

    def visible_cells(self, area: QRectF) -> list[Cell]:
        """Return the cells that may show in a part of the drawing."""
        wide = area.adjusted(-CELL / 2, -CELL / 2, CELL / 2, CELL / 2)
        columns = range(int(wide.left() // CELL), int(wide.right() // CELL) + 1)
        rows = range(int(wide.top() // CELL), int(wide.bottom() // CELL) + 1)
        if len(columns) * len(rows) > len(self.cells):
            return [cell for cell in self.cells.values() if cell.bounds.intersects(wide)]
        found = (self.cells.get((column, row)) for column in columns for row in rows)
        return [cell for cell in found if cell is not None]

    def items_in(self, area: QRectF) -> list[str]:
        """Return the boxes, operations and closed groups, that a rectangle touches."""
        return [
            item
            for cell in self.visible_cells(area)
            for item in cell.items
            if self.rects[item].intersects(area)
        ]

    def hit(self, point: QPointF) -> tuple[str, Part] | None:
        """Return what the mouse means at a place of the drawing; None for empty ground."""
        around = QRectF(point.x() - 1, point.y() - 1, 2, 2)
        groups = self.hierarchy.groups
        for item in self.items_in(around):
            if self.rects[item].contains(point):
                if item not in groups:
                    return item, "node"
                return item, "toggle" if point.x() < self.rects[item].left() + TOGGLE else "group"
        cell = self.cells.get((int(point.x() // CELL), int(point.y() // CELL)))
        for number in reversed(cell.frames if cell else []):
            rect = self.rects[self.frames[number]]
            if rect.contains(point):
                if point.y() > rect.top() + HEADER:
                    return None
                is_toggle = point.x() < rect.left() + TOGGLE
                return self.frames[number], "toggle" if is_toggle else "header"
        return None

    def points(self, number: int) -> list[QPointF]:
        """Return the corners of a route in the drawing."""
        route, left, top = self.placement.routes[number]
        return [QPointF(left + x, top + y) for x, y in route.points]
