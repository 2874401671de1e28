"""The timeline plot: lanes for CPU, layers, modules, operations, commands and memories."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter
from PySide6.QtWidgets import QWidget

from ui.shared.chart import Chart, Scatter, ViewKeys, pen, wash
from ui.shared.npu_operations import efficiency_lines
from ui.shared.number_format import percent
from ui.shared.theme import Theme
from workbench.analysis.timeline import Slice, Timeline, commands, layers, modules
from workbench.graph.labels import operator_name
from workbench.results import ModuleCycles
from workbench.targets.ethos_u.efficiency import by_module

# Smaller coverage of a pixel column is rounding error.
_NOTHING = 1e-6


class LaneBars(pg.GraphicsObject):  # type: ignore[misc]
    """Bars of one colour in one lane, ascending along x without overlap.

    ``is_solid`` paints every partly covered pixel column as fully covered.
    """

    def __init__(self, lane: tuple[float, float], *, is_solid: bool = False) -> None:
        super().__init__()
        self._lane, self._is_solid = lane, is_solid
        self._colour = QColor("black")
        self._places, self._busy = np.zeros(0), np.zeros(0)

    def set_bars(self, edges: NDArray[np.float64]) -> None:
        """Set the bars; ``edges`` [bars, 2] are their starts and ends."""
        self.prepareGeometryChange()
        self._places = edges.reshape(-1)
        lengths = edges[:, 1] - edges[:, 0]
        ends = np.cumsum(lengths)
        # Covered length up to each start and end; linear in between.
        self._busy = np.stack([ends - lengths, ends], axis=1).reshape(-1)
        self.update()

    def set_colour(self, colour: QColor) -> None:
        """Set the colour."""
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
    """Return one row of pixels whose alpha is the coverage [0..1]."""
    alpha = np.clip(covered, 0.0, 1.0) * colour.alphaF()
    # Premultiplied ARGB32, little-endian: blue, green, red, alpha.
    parts = np.asarray([colour.blueF(), colour.greenF(), colour.redF(), 1.0])
    pixels = np.ascontiguousarray(np.rint(255 * alpha[:, None] * parts).astype(np.uint8))
    result = QImage(pixels.data, len(pixels), 1, 4 * len(pixels), QImage.Format.Format_ARGB32_Premultiplied)
    return result.copy()


_FONT_PX, _PAD_PX, _LEAST_PX = 11, 4.0, 34.0


class LaneNames(pg.GraphicsObject):  # type: ignore[misc]
    """Operator and module names of the bars of one lane, ascending along x.

    With ``follows``, the name of a bar that starts left of the view stays visible;
    otherwise the name moves with the start of the bar.
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
        self, edges: NDArray[np.float64], texts: tuple[tuple[str, ...], ...], lane: tuple[float, float]
    ) -> None:
        """Set the bars: ``edges`` [bars, 2] along x, two lines of text each, and the lane's y."""
        self.prepareGeometryChange()
        self._edges, self._texts, self._lane = edges, texts, lane
        self.update()

    def set_colour(self, colour: QColor) -> None:
        """Set the text colour."""
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
        for index in np.flatnonzero(shown & wide):
            left, right = max(starts[index], view.left()), min(ends[index], view.right())
            bar = QRectF(
                to_screen.map(QPointF(left, self._lane[1])), to_screen.map(QPointF(right, self._lane[0]))
            )
            _write(painter, metrics, bar.adjusted(_PAD_PX, _PAD_PX, -_PAD_PX, -_PAD_PX), self._texts[index])
        painter.restore()


def _write(painter: QPainter, metrics: QFontMetricsF, room: QRectF, lines: tuple[str, ...]) -> None:
    height = metrics.height()
    for number, line in enumerate(lines):
        below = (number + 1) * height
        if below > room.height():
            return
        # Module names differ at the end, operator names at the start.
        side = Qt.TextElideMode.ElideLeft if number else Qt.TextElideMode.ElideRight
        text = metrics.elidedText(line, side, room.width())
        point = QPointF(room.left(), room.top() + below - metrics.descent())
        painter.drawText(point, text)


# y range of each lane, upwards. Measurements exist for operations and what contains them.
EXTERNAL, SRAM, COMMANDS, NPU = (0.0, 0.8), (1.0, 1.8), (2.1, 2.7), (2.8, 4.5)
MODULES, LAYERS, CPU = (4.6, 5.5), (5.6, 6.4), (6.8, 7.6)
_ABOVE = (1.95, 7.8)
_ALL = (-0.25, 7.8)
_LANES = (
    ("CPU", CPU),
    ("layers", LAYERS),
    ("modules", MODULES),
    ("NPU", NPU),
    ("commands", COMMANDS),
    ("SRAM", SRAM),
    ("external\nmemory", EXTERNAL),
)
_MEASURED_LANES = 5
_NESTED: dict[str, tuple[tuple[float, float], Callable[[Timeline], list[Slice]]]] = {
    "layers": (LAYERS, layers),
    "modules": (MODULES, modules),
    "commands": (COMMANDS, commands),
}
_STOP_PX, _NEAR_PX = 15, 11
_AIR = 0.02
_RIM = 0.08
_UNITS = ((1e6, 1e-6, "million cycles"), (1e4, 1e-3, "thousand cycles"), (0.0, 1.0, "cycles"))


class TimelinePlot(Chart):
    """Bars of operations, CPU stops and the selection.

    Signals:
        span_chosen: index of an operation, and whether it extends the selection.
        slice_chosen: first and last operation of a layer or module.
        stop_chosen: index of a CPU stop.
        stretch_chosen: start and end cycle, and whether the drag has ended.
    """

    span_chosen = Signal(int, bool)
    slice_chosen = Signal(int, int)
    stop_chosen = Signal(int)
    stretch_chosen = Signal(float, float, bool)

    def __init__(
        self,
        describe_span: Callable[[int], str],
        describe_stop: Callable[[int], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Timeline of one inference", "cycles", "", parent)
        self.timeline = Timeline()
        self._describe_span, self._describe_stop = describe_span, describe_stop
        self._theme: Theme | None = None
        self.keys = ViewKeys(self)
        lanes = {"even": NPU, "odd": NPU, "computing": NPU, "sram": SRAM, "external": EXTERNAL}
        for kind, (lane, _) in _NESTED.items():
            lanes |= {f"{kind} even": lane, f"{kind} odd": lane}
        self._bars = {kind: LaneBars(lane) for kind, lane in lanes.items()}
        lows = {"operations": NPU, "layers": LAYERS, "modules": MODULES}
        self._bars |= {f"{kind} low": LaneBars(lane) for kind, lane in lows.items()}
        self._bars["cpu"] = LaneBars(CPU, is_solid=True)
        self._bars["chosen"] = LaneBars((EXTERNAL[0] - _RIM, LAYERS[1] + _RIM))
        self._bars["rim"] = LaneBars((LAYERS[1] + _RIM, LAYERS[1] + 2 * _RIM), is_solid=True)
        self._nested: dict[str, list[Slice]] = {}
        self._nested_names = {kind: LaneNames(follows=True) for kind in ("layers", "modules")}
        self._lines = pg.PlotCurveItem(connect="pairs")
        self._stops = Scatter(symbol="d", size=_STOP_PX, pxMode=True)
        self._names, self._stop_names = LaneNames(follows=True), LaneNames(follows=False)
        self._drag = pg.LinearRegionItem(movable=False)
        self._drag.hide()
        for item in (
            *self._bars.values(),
            self._lines,
            self._names,
            *self._nested_names.values(),
            self._stop_names,
            self._stops,
            self._drag,
        ):
            self.plot.addItem(item, ignoreBounds=True)
        self.tell = self._tell
        self.box.picked.connect(self._on_picked)
        self.box.brushed.connect(self._on_brushed)

    def render_timeline(self, timeline: Timeline, origin: str) -> None:
        """Show a timeline; ``origin`` is the origin of its cycles."""
        self.timeline = timeline
        self._draw_spans()
        self._draw_nested()
        self._draw_stops()
        self.mark([])
        end = timeline.end or 1.0
        scale, unit = next((s, u) for least, s, u in _UNITS if end >= least)
        self.plot.getAxis("bottom").setScale(scale)
        self.set_label("bottom", f"{unit}, {origin}")
        lanes = _LANES[:_MEASURED_LANES] if timeline.is_measured else _LANES
        is_used = {"CPU": bool(timeline.stops), "layers": bool(self._nested["layers"])}
        lanes = tuple(lane for lane in lanes if is_used.get(lane[0], True))
        self.plot.getAxis("left").setTicks([[(sum(y) / 2, name) for name, y in lanes], []])
        low, high = _ABOVE if timeline.is_measured else _ALL
        self.box.setYRange(low, high if timeline.stops else LAYERS[1] + 3 * _RIM, padding=0)
        self.keys.set_ends(-_AIR * end, (1 + _AIR) * end)
        self._drag.hide()

    def mark(self, indices: Iterable[int]) -> None:
        """Mark the selected operations."""
        spans = np.asarray(self.timeline.stretches(indices), np.float64).reshape(-1, 2)
        for kind in ("chosen", "rim"):
            self._bars[kind].set_bars(spans)

    def leave_stretch(self) -> None:
        """Remove the box of the last drag."""
        self._drag.hide()

    def restyle(self, theme: Theme) -> None:
        self._theme = theme
        fills = {
            "even": wash(theme.accent, 0.2),
            "odd": wash(theme.accent, 0.32),
            "computing": wash(theme.accent, 0.42),
            "sram": wash(theme.good, 0.6),
            "external": wash(theme.warning, 0.65),
            "chosen": wash(theme.text, 0.16),
            "rim": wash(theme.text, 0.9),
            "cpu": wash(theme.bad, 0.35),
            "commands even": wash(theme.muted, 0.3),
            "commands odd": wash(theme.muted, 0.5),
        }
        for kind in self._nested_names:
            fills |= {f"{kind} even": wash(theme.muted, 0.2), f"{kind} odd": wash(theme.muted, 0.34)}
        # Over the blue of the NPU a thin red would be violet.
        fills |= {
            "operations low": wash(theme.bad, 0.55),
            "layers low": wash(theme.bad, 0.3),
            "modules low": wash(theme.bad, 0.3),
        }
        for kind, colour in fills.items():
            self._bars[kind].set_colour(colour)
        self._lines.setPen(pen(theme.muted, is_dashed=True))
        self._stops.setBrush(wash(theme.bad))
        self._stops.setPen(pg.mkPen(None))
        for names in (self._names, *self._nested_names.values()):
            names.set_colour(QColor(theme.text))
        self._stop_names.set_colour(QColor(theme.muted))
        self._drag.setBrush(wash(theme.accent, 0.18))
        for line in self._drag.lines:
            line.setPen(pen(theme.accent))

    def _draw_spans(self) -> None:
        spans, edges = self.timeline.spans, self.timeline.edges
        self._bars["even"].set_bars(edges[::2])
        self._bars["odd"].set_bars(edges[1::2])
        self._draw_low("operations", edges, (bool(span.operation.cause) for span in spans))
        texts = tuple((s.operation.operator, s.operation.module) for s in spans)
        self._names.set_names(edges, texts, NPU)
        figures = np.asarray(
            [(s.operation.npu_cycles, s.operation.sram_cycles, s.operation.external_cycles) for s in spans],
            np.float64,
        ).reshape(-1, 3)
        # Vela's figures are not shown on an axis of measured cycles.
        shown = slice(0) if self.timeline.is_measured else slice(None)
        starts = edges[shown, 0]
        for column, kind in enumerate(("computing", "sram", "external")):
            ends = starts + figures[shown, column]
            self._bars[kind].set_bars(np.stack([starts, ends], axis=1))

    def _draw_nested(self) -> None:
        """Draw the layers and modules that operations belong to, and their commands."""
        for kind, (lane, slices_of) in _NESTED.items():
            slices = self._nested[kind] = slices_of(self.timeline)
            if kind == "layers" and slices == modules(self.timeline):
                # A flat network: the lane would repeat the modules.
                slices = self._nested[kind] = []
            edges = np.asarray([(s.start, s.end) for s in slices], np.float64).reshape(-1, 2)
            self._bars[f"{kind} even"].set_bars(edges[::2])
            self._bars[f"{kind} odd"].set_bars(edges[1::2])
            if kind in self._nested_names:
                self._draw_low(kind, edges, (bool(self._together(part).cause) for part in slices))
                texts = tuple((s.name,) for s in slices)
                self._nested_names[kind].set_names(edges, texts, lane)

    def _together(self, part: Slice) -> ModuleCycles:
        """Return the operations of a layer or module as one."""
        inside = self.timeline.spans[part.first : part.last + 1]
        (together,) = by_module((span.operation for span in inside), depth=0)
        return together

    def _draw_low(self, kind: str, edges: NDArray[np.float64], is_low: Iterable[bool]) -> None:
        """Draw over the bars of a lane that stay below half of the device's limit.

        The limit is compared with the estimate, which an axis of measured cycles does not show.
        """
        low = np.asarray(list(is_low), bool) & (not self.timeline.is_measured)
        self._bars[f"{kind} low"].set_bars(edges[low])

    def _slice_at(self, point: QPointF) -> Slice | None:
        """Return the layer, module or command at a point."""
        for kind, (lane, _) in _NESTED.items():
            if lane[0] <= point.y() <= lane[1]:
                slices = self._nested.get(kind, [])
                index = bisect_right([s.start for s in slices], point.x()) - 1
                return slices[index] if index >= 0 and point.x() < slices[index].end else None
        return None

    def _draw_stops(self) -> None:
        stops = self.timeline.stops
        edges = np.asarray([(stop.at, stop.end) for stop in stops], np.float64).reshape(-1, 2)
        self._bars["cpu"].set_bars(edges)
        positions = edges[:, 0]
        self._stops.setData(x=positions, y=np.full(positions.size, sum(CPU) / 2))
        low = _ABOVE[0] if self.timeline.is_measured else _ALL[0]
        self._lines.setData(
            x=np.repeat(positions, 2), y=np.tile([low, CPU[1]], positions.size), connect="pairs"
        )
        # A name may extend to the next stop; the last one to the right margin.
        ends = np.append(positions[1:], self.timeline.end * (1 + _AIR))[: positions.size]
        texts = tuple((f"    {_named(stop.nodes[0].op, len(stop.nodes))}", "") for stop in stops)
        self._stop_names.set_names(np.stack([positions, ends], axis=1), texts, CPU)

    def _stop_at(self, point: QPointF) -> int | None:
        if point.y() < (LAYERS[1] + CPU[0]) / 2 or not self.timeline.stops:
            return None
        away = [max(stop.at - point.x(), point.x() - stop.end, 0.0) for stop in self.timeline.stops]
        nearest = int(np.argmin(away))
        near = _NEAR_PX * float(self.box.viewPixelSize()[0])
        return nearest if away[nearest] <= near else None

    def _tell(self, point: QPointF) -> str:
        stop = self._stop_at(point)
        if stop is not None:
            return self._describe_stop(stop)
        part = self._slice_at(point)
        if part is not None:
            return self._describe_slice(part)
        operation = self.timeline.at(point.x()) if point.y() < CPU[0] else None
        return self._describe_span(operation) if operation is not None else ""

    def _describe_slice(self, part: Slice) -> str:
        cycles = part.end - part.start
        lines = [part.name, f"{cycles:,.0f} cycles"]
        if self.timeline.npu_cycles:
            lines[1] += f", {percent(cycles / self.timeline.npu_cycles)} of the NPU's"
        number = part.last - part.first + 1
        if number > 1:
            lines += [*efficiency_lines(self._together(part)), f"{number} operations"]
        else:
            lines.append(self._describe_span(part.first))
        return "\n".join(lines)

    def _on_picked(self, x: float, y: float, adds: bool) -> None:
        stop, part = self._stop_at(QPointF(x, y)), self._slice_at(QPointF(x, y))
        operation = self.timeline.at(x)
        if stop is not None:
            self.stop_chosen.emit(stop)
        elif part is not None and not adds:
            self.slice_chosen.emit(part.first, part.last)
        elif operation is not None and y < CPU[0]:
            self.span_chosen.emit(operation, adds)

    def _on_brushed(self, begun: float, now: float, is_over: bool) -> None:
        low, high = sorted((begun, now))
        self._drag.setRegion((low, high))
        self._drag.show()
        self.stretch_chosen.emit(low, high, is_over)


def _named(op: str, count: int) -> str:
    return f"{count} operators" if count > 1 else operator_name(op)
