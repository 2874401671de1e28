"""Paints edges: straight lines when zoomed out, curves with arrows and shapes when zoomed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPen, QPolygonF, QStaticText

from ui.features.graph.picture import CLOSE, way_in, way_out
from ui.features.graph.scene import SHORT, curve, pieces
from workbench.graph.labels import dtype_label, elide
from workbench.graph.layout import RIGHT_GAP, STUB_LENGTH

if TYPE_CHECKING:
    from ui.features.graph.palette import Palette
    from ui.features.graph.picture import Picture
    from ui.features.graph.scene import Cell, Line, Piece, Scene
    from workbench.graph.hierarchy import Hierarchy
    from workbench.graph.layout import Flow, Route

LABELS_FROM = 0.7
# Shorter lines between rows are invisible when zoomed out [px].
SEEN_PX = 2.5
ARROW = 4.0
# Margin of arrow heads and text around line ends [scene px].
NEAR = 24.0


class _Ways:
    """Distinct pieces of lines. Edges of one tensor share most of their route."""

    def __init__(self) -> None:
        self.lines: list[QLineF] = []
        self.curves = QPainterPath()
        self._seen: set[tuple[float, float, float, float]] = set()

    def add(self, piece: Piece) -> None:
        """Add a piece unless it exists."""
        if piece.key in self._seen:
            return
        self._seen.add(piece.key)
        if piece.line is not None:
            self.lines.append(piece.line)
        elif piece.curve is not None:
            start, *bows = piece.curve
            self.curves.moveTo(start)
            self.curves.cubicTo(*bows)


class EdgePainter:
    """Paints the routes of a picture."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette

    def paint_far(self, painter: QPainter, cells: list[Cell], scale: float) -> None:
        """Paint the line pieces of the cells, except very short ones."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.setPen(self._palette.faint_edge)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for cell in cells:
            painter.drawPath(cell.lines)
            if scale * SHORT >= SEEN_PX:
                painter.drawPath(cell.short_lines)

    def paint_near(self, painter: QPainter, picture: Picture, cells: list[Cell]) -> None:
        """Paint curves, with arrow heads and shapes if legible."""
        area, still, flow = picture.area, picture.progress >= 1.0, picture.scene.flow
        north, south = area.top(), area.bottom()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=True)
        painter.setPen(self._palette.edge)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        labels: dict[tuple[str, str], tuple[Route, list[QPointF]]] = {}
        ways = _Ways()
        heads: list[tuple[QPointF, float]] = []
        stubs: list[tuple[Route, QPointF]] = []
        for line in _lines(cells, area if still else None):
            route, points = line.route, line.points() if still else self._points(picture, line)
            if not still and not _bounds(points).intersects(area):
                continue
            if route.is_stub:
                self._stub(painter, picture, route, points)
                stubs.append((route, points[0]))
                continue
            for piece in line.pieces(flow) if still else pieces(points, flow):
                if piece.south >= north and piece.north <= south:
                    ways.add(piece)
            if north - NEAR <= points[-1].y() <= south + NEAR:
                heads.append((points[-1], _head(route)))
            if north - NEAR <= points[0].y() <= south + NEAR:
                labels.setdefault((route.source, route.port), (route, points))
        painter.drawLines(ways.lines)
        painter.drawPath(ways.curves)
        if picture.camera.scale >= CLOSE:
            self._arrows(painter, heads, flow)
            self._beginnings(painter, picture, stubs)
        if picture.camera.scale >= LABELS_FROM:
            self._labels(painter, picture, list(labels.values()))

    def _points(self, picture: Picture, line: Line) -> list[QPointF]:
        route = line.route
        if picture.progress >= 1.0 or route.port:
            return line.points()
        flow = picture.scene.flow
        ends = [way_out(picture.rect(route.source), flow), way_in(picture.rect(route.target), flow)]
        return ends if not route.is_reversed else line.points()

    def _arrows(self, painter: QPainter, heads: list[tuple[QPointF, float]], flow: Flow) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._palette.edge.color())
        for tip, size in heads:
            if not size:
                continue
            if flow == "right":
                x, y = tip.x() - 1.6 * size, tip.y()
                corners = [QPointF(x, y - size), QPointF(x, y + size)]
            else:
                x, y = tip.x(), tip.y() - 1.6 * size
                corners = [QPointF(x - size, y), QPointF(x + size, y)]
            painter.drawPolygon(QPolygonF([tip, *corners]))
        painter.setBrush(Qt.BrushStyle.NoBrush)

    def _labels(self, painter: QPainter, picture: Picture, starts: list[tuple[Route, list[QPointF]]]) -> None:
        """Paint shapes and dtypes of tensors where lines leave their boxes."""
        labels: list[tuple[QPointF, QStaticText]] = []
        for route, points in starts:
            if route.port:
                continue
            text = tensor_text(picture.scene, route)
            if not text:
                continue
            x, y = points[0].x(), points[0].y()
            if picture.scene.flow == "right":
                room = RIGHT_GAP - 10
                static = self._palette.fitting_text(text, room, is_title=False)
                goes_up = min(points[-1].y(), points[min(2, len(points) - 1)].y()) < y - 2
                high = y + 1 if goes_up else y - 1 - static.size().height()
                labels.append((QPointF(x + 5, high), static))
                continue
            static = self._palette.static_text(text, is_title=False)
            goes_right = max(points[-1].x(), points[min(2, len(points) - 1)].x()) > x + 2
            left = x - 5 - static.size().width() if goes_right else x + 5
            labels.append((QPointF(left, y + 3), static))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._palette.scrim)
        painter.drawRects([QRectF(position, static.size()) for position, static in labels])
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setFont(self._palette.small_font)
        painter.setPen(self._palette.muted)
        for position, static in labels:
            painter.drawStaticText(position, static)

    def _stub(self, painter: QPainter, picture: Picture, route: Route, points: list[QPointF]) -> None:
        """Paint the two stubs of a line that is too long to draw."""
        start, end = points[0], points[-1]
        is_right = picture.scene.flow == "right"
        out = QPointF(STUB_LENGTH, 0.0) if is_right else QPointF(0.0, STUB_LENGTH)
        painter.drawLine(start, start + out)
        painter.drawLine(QPointF(end.x() - 10, end.y() - STUB_LENGTH), end)
        if picture.camera.scale >= CLOSE:
            source = route.tensor[0] if route.tensor and route.port else route.source
            title = elide(picture.scene.hierarchy.title(source), 16)
            static = self._palette.static_text(f"from {title}", is_title=False)
            painter.setFont(self._palette.small_font)
            painter.setPen(self._palette.muted)
            painter.drawStaticText(
                QPointF(end.x() - static.size().width() - 14, end.y() - STUB_LENGTH - 8), static
            )
            painter.setPen(self._palette.edge)

    def _beginnings(self, painter: QPainter, picture: Picture, stubs: list[tuple[Route, QPointF]]) -> None:
        """Paint the labels of stubs below boxes."""
        painter.setFont(self._palette.small_font)
        painter.setPen(self._palette.muted)
        starts = {route.source: start for route, start in stubs if not route.port}
        for source, start in starts.items():
            targets = [r.target for r in picture.scene.routes_of(source) if r.is_stub]
            targets = [target for target in targets if target != source]
            title = elide(picture.scene.hierarchy.title(targets[0]), 16)
            text = f"to {title}" if len(targets) == 1 else f"to {len(targets)} operations"
            static = self._palette.static_text(text, is_title=False)
            is_right = picture.scene.flow == "right"
            corner = QPointF(4, 0) if is_right else QPointF(6, STUB_LENGTH - 4)
            painter.drawStaticText(start + corner, static)

    def paint_joints(self, painter: QPainter, picture: Picture) -> None:
        """Paint the edges of the selection on top, across group borders."""
        if not picture.joints:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=True)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._palette.accent))
        area = picture.area
        for source, target in picture.joints:
            for line in picture.scene.lines_between(source, target):
                if line.route.is_stub:
                    continue
                points = self._points(picture, line)
                if _bounds(points).intersects(area):
                    painter.drawPath(curve(points, picture.scene.flow))


def _head(route: Route) -> float:
    """Return the size of a route's arrow head; 0 where it goes on behind a border."""
    if route.port == "exit":
        return 0.0
    return -ARROW if route.is_reversed else ARROW


def tensor_text(scene: Scene, route: Route) -> str:
    """Return ``1x3x8x8 f32`` for the tensor of a route, and the number of further tensors."""
    key = (route.source, route.target)
    if key not in scene.tensor_texts:
        scene.tensor_texts[key] = _tensor_text(scene.hierarchy, route)
    return scene.tensor_texts[key]


def _tensor_text(hierarchy: Hierarchy, route: Route) -> str:
    group = hierarchy.groups[hierarchy.parent[route.source]]
    link = group.links.get((route.source, route.target))
    if link is None:
        return ""
    source, output = link.tensors[0]
    outputs = hierarchy.snapshot.nodes_by_id[source].outputs
    if output >= len(outputs):
        return ""
    info = outputs[output]
    grid = info.qparams
    bits = f" {grid.bits} bit" if grid and f"int{grid.bits}" not in info.dtype else ""
    more = f" +{len(link.tensors) - 1}" if len(link.tensors) > 1 else ""
    return f"{info.shape_text} {dtype_label(info.dtype)}{bits}{more}"


def _lines(cells: list[Cell], area: QRectF | None) -> list[Line]:
    """Return the distinct lines of cells; with ``area`` only lines that may be visible in it."""
    lines_by_route = {id(line.route): line for cell in cells for line in cell.routes}
    if area is None:
        return list(lines_by_route.values())
    west, north, east, south = area.left(), area.top(), area.right(), area.bottom()
    return [
        line
        for line in lines_by_route.values()
        if line.south >= north and line.north <= south and line.east >= west and line.west <= east
    ]


def _bounds(points: list[QPointF]) -> QRectF:
    xs, ys = [p.x() for p in points], [p.y() for p in points]
    return QRectF(min(xs) - 2, min(ys) - 2, max(xs) - min(xs) + 4, max(ys) - min(ys) + 4)
