"""The range plot: range, percentile band and grid of all tensors, in two lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from ui.shared.chart import LINEAR, Chart, ValueScale, pen, symmetric_log, wash
from ui.shared.range_data import RangeSeries, spread, thinned
from ui.shared.theme import Theme

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_TENSORS = 12
_WIDTH = 0.8
_BINS = 64


def outlines(
    series: RangeSeries, indices: Iterable[int], scale: ValueScale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x [2 N] and y [2 N] of the outlines of horizontal histograms.

    The width of a bin is log(1 + count).

    Args:
        series: Source of the histograms; tensors without one are skipped.
        indices: The tensors to draw.
        scale: The value axis.
    """
    x, y = [np.zeros(0)], [np.zeros(0)]
    for index in indices:
        known = series.histograms.get(index)
        if known is None or not known[0].any():
            continue
        counts, low, high = known
        if counts.size % _BINS == 0:
            counts = counts.reshape(_BINS, -1).sum(1)
        sizes = np.log1p(counts)
        half = sizes / sizes.max() * _WIDTH / 2
        width = (high - low) / counts.size
        middles = scale.position(low + width * (np.arange(counts.size) + 0.5))
        for side in (index - half, index + half):
            x.append(np.column_stack([side[:-1], side[1:]]).reshape(-1))
            y.append(np.column_stack([middles[:-1], middles[1:]]).reshape(-1))
    return np.concatenate(x), np.concatenate(y)


_NAME_PX = 130
_AXIS_PX = 66


class _Lane(Chart):
    """One lane: the bars of activations or of weights."""

    def __init__(self, name: str, left: str, parent: QWidget | None = None) -> None:
        super().__init__(name, "", left, parent)
        self.count_along_x()
        self.series, self.scale = RangeSeries(), LINEAR
        self.members = np.zeros(0, np.intp)
        self._wide: list[tuple[str, Any]] = []
        self._band: list[tuple[str, Any]] = []
        self._chosen = pg.BarGraphItem(x=[0], y0=[0], y1=[0], width=1, pen=None)
        self._chosen.setZValue(-20)
        self._limits, self._steps = (
            pg.PlotCurveItem(connect="pairs", skipFiniteCheck=True) for _ in range(2)
        )
        self._channels: list[tuple[str, Any, tuple[Any, Any, Any]]] = []
        self._limits.setZValue(5)
        self._steps.setZValue(4)
        self.multiples = pg.PlotCurveItem(connect="pairs", skipFiniteCheck=True)
        self.multiples.setZValue(3)
        for item in (self._chosen, self._steps, self._limits, self.multiples):
            self.plot.addItem(item, ignoreBounds=True)
        self.plot.getAxis("left").setWidth(_AXIS_PX)
        self.theme: Theme | None = None

    def render_series(self, series: RangeSeries, members: NDArray[np.intp], scale: ValueScale) -> None:
        """Show tensors."""
        self.series, self.members, self.scale = series, members, scale
        self._rebuild_bars()
        position_of = scale.position
        ok = members[np.isfinite(series.grid_low[members]) & np.isfinite(series.grid_high[members])]
        ends = np.column_stack([series.grid_low[ok], series.grid_high[ok]]).reshape(-1)
        self._limits.setData(_across(np.repeat(ok, 2), 0.46), np.repeat(position_of(ends), 2))
        # One step above zero: smaller values are equal in the quantized model.
        self._steps.setData(_across(ok, 0.3), np.repeat(position_of(series.step[ok]), 2))
        self.fit()

    def fit(self) -> None:
        """Scale y to the visible tensors, and draw their channels."""
        left, right, _, _ = self.reach()
        series, inside = self.series, self.members[(self.members > left - 1) & (self.members < right + 1)]
        ends = np.concatenate(
            [series.low[inside], series.high[inside], series.grid_low[inside], series.grid_high[inside]]
        )
        ends = self.scale.position(ends[np.isfinite(ends)])
        low, high = (float(ends.min()), float(ends.max())) if ends.size else (-1.0, 1.0)
        self.set_rise(min(low, 0.0), max(high, 0.0))
        _, _, bottom, top = self.reach()
        ticks = self.scale.ticks(bottom, top)
        self.plot.getAxis("left").setTicks(None if ticks is None else [ticks, []])
        for _, curve, laid in self._channels:
            curve.setData(*thinned(*laid, (left, right)))
        few = inside if right - left <= MOST_TENSORS else inside[:0]
        whole = [position_of for position_of in few.tolist() if position_of not in series.channels]
        self.multiples.setData(*outlines(series, whole, self.scale))

    def choose(self, indices: NDArray[np.intp]) -> None:
        """Mark the selected tensors."""
        _, _, bottom, top = self.reach()
        sides = np.full(indices.size, 3 * max(abs(bottom), abs(top)))
        self._chosen.setVisible(bool(indices.size))
        if indices.size:
            self._chosen.setOpts(x=indices, y0=-sides, y1=sides)

    def restyle(self, theme: Theme) -> None:
        self.theme = theme
        self._chosen.setOpts(brush=wash(theme.accent, 0.28), pen=None)
        self._limits.setPen(pen(theme.text))
        self._steps.setPen(pen(theme.bad))
        self.multiples.setPen(pg.mkPen(wash(theme.text, 0.7), width=1))
        for label, curve, _ in self._channels:
            curve.setPen(pen(theme.precision_colour(label)))
        for items, opacity in ((self._wide, 0.35), (self._band, 0.9)):
            for label, bars in items:
                bars.setOpts(brush=wash(theme.precision_colour(label), opacity))

    def _rebuild_bars(self) -> None:
        for _, item in [*self._wide, *self._band, *((n, c) for n, c, _ in self._channels)]:
            self.plot.removeItem(item)
        series = self.series
        labels = sorted({series.labels[i] for i in self.members})
        apart = np.asarray([i in series.channels for i in range(len(series.names))], bool)
        whole = np.where(apart, np.nan, series.p_low)
        self._wide = [(n, self._bars(n, series.low, series.high, 0.8, -2)) for n in labels]
        self._band = [(n, self._bars(n, whole, series.p_high, 0.5, -1)) for n in labels]
        self._channels = [(n, *self._channel_lines(n)) for n in labels]
        if self.theme is not None:
            self.restyle(self.theme)

    def _channel_lines(self, label: str) -> tuple[Any, tuple[Any, Any, Any]]:
        channels, position_of = self.series.channels, self.scale.position
        known = [i for i in self.members.tolist() if i in channels and self.series.labels[i] == label]
        laid = spread(
            [float(i) for i in known],
            [position_of(channels[i][0]) for i in known],
            [position_of(channels[i][1]) for i in known],
        )
        curve = pg.PlotCurveItem(connect="pairs", skipFiniteCheck=True)
        self.plot.addItem(curve, ignoreBounds=True)
        return curve, laid

    def _bars(
        self, label: str, low: NDArray[np.float64], high: NDArray[np.float64], width: float, z: int
    ) -> Any:
        some = [i for i in self.members.tolist() if self.series.labels[i] == label]
        picked = np.asarray([i for i in some if np.isfinite([low[i], high[i]]).all()], np.intp)
        bars = pg.BarGraphItem(
            x=picked,
            y0=self.scale.position(low[picked]),
            y1=self.scale.position(high[picked]),
            width=width,
            pen=None,
        )
        bars.setZValue(z)
        self.plot.addItem(bars, ignoreBounds=True)
        return bars


class RangePlot(QWidget):
    """Two lanes with a shared x axis.

    Signals:
        tensors_chosen: indices of tensors, ascending.
    """

    tensors_chosen = Signal(object)

    def __init__(self, describe: Callable[[int], str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.series = RangeSeries()
        self._describe = describe
        self._chosen: frozenset[int] = frozenset()
        self._is_log = False
        self.activations = _Lane("Ranges of activations", "activation value", self)
        self.weights = _Lane("Ranges of weights", "weight value", self)
        self.weights.set_label("bottom", "tensors in program order")
        self.weights.view.setXLink(self.activations.view)
        self._brush = [pg.LinearRegionItem(movable=False, pen=pen("#888888")) for _ in range(2)]
        split = QSplitter(Qt.Orientation.Vertical, self)
        for number, lane in enumerate(self._lanes()):
            split.addWidget(lane)
            split.setStretchFactor(number, 3 - number)
            split.setCollapsible(number, False)
            self._brush[number].hide()
            lane.plot.addItem(self._brush[number], ignoreBounds=True)
            lane.tell = self._tell
            lane.box.brushed.connect(self._on_brushed)
            lane.box.picked.connect(self._on_picked)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)
        self.activations.box.sigXRangeChanged.connect(self._on_moved)

    def render_series(self, series: RangeSeries) -> None:
        """Show all tensors."""
        self.series = series
        count = max(len(series.names), 1)
        self.activations.set_run(-0.7, count - 0.3)
        self._render()
        self.choose(())

    def render_channels(self, series: RangeSeries) -> None:
        """Add the channels of the tensors. The view does not move."""
        self.series = series
        self._render()

    def set_log(self, on: bool) -> None:
        """Switch between a linear and a symmetric logarithmic axis."""
        self._is_log = on
        self._render()
        self.choose(self._chosen)

    def choose(self, indices: Iterable[int]) -> None:
        """Mark the selected tensors."""
        self._chosen = frozenset(indices)
        marked = np.asarray(sorted(self._chosen), np.intp)
        for lane in self._lanes():
            lane.choose(marked)

    def reveal(self, index: int) -> None:
        """Scroll to a tensor if it is not visible."""
        left, right, _, _ = self.activations.reach()
        if not left <= index <= right:
            half = (right - left) / 2
            self.activations.box.setXRange(index - half, index + half, padding=0)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for lane, brush in zip(self._lanes(), self._brush, strict=True):
            lane.set_theme(theme)
            brush.setBrush(wash(theme.accent, 0.2))
            for line in brush.lines:
                line.setPen(pen(theme.accent))

    def set_stale(self, stale: bool) -> None:
        """Fade the plot if its result is outdated."""
        for lane in self._lanes():
            lane.set_stale(stale)

    def _lanes(self) -> tuple[_Lane, _Lane]:
        return self.activations, self.weights

    def _render(self) -> None:
        series = self.series
        for lane, is_weight in zip(self._lanes(), (False, True), strict=True):
            members = np.flatnonzero(series.is_weight == is_weight)
            sizes = np.fmax(np.abs(series.low[members]), np.abs(series.high[members]))
            lane.render_series(series, members, symmetric_log(sizes) if self._is_log else LINEAR)
            lane.setVisible(bool(members.size) or not is_weight)
        self._on_moved()

    def _on_moved(self) -> None:
        left, right, _, _ = self.activations.reach()
        first, last = max(0, round(left)), min(len(self.series.names) - 1, round(right))
        fits = (last - first + 1) * _NAME_PX <= max(self.weights.box.width(), 1)
        named = [(float(i), self.series.names[i]) for i in range(first, last + 1)] if fits else None
        for lane in self._lanes():
            lane.plot.getAxis("bottom").setTicks(None if named is None else [named, []])
            lane.fit()

    def _nearest(self, x: float) -> int | None:
        index = round(x)
        return index if 0 <= index < len(self.series.names) else None

    def _tell(self, point: QPointF) -> str:
        nearest = self._nearest(point.x())
        return "" if nearest is None else self._describe(nearest)

    def _on_picked(self, x: float, _y: float, adds: bool) -> None:
        index = self._nearest(x)
        if index is not None:
            picked = self._chosen ^ {index} if adds else {index}
            self.tensors_chosen.emit(sorted(picked))

    def _on_brushed(self, begun: float, now: float, is_over: bool) -> None:
        for brush in self._brush:
            brush.setRegion((min(begun, now), max(begun, now)))
            brush.setVisible(not is_over)
        if is_over:
            first, last = max(0, round(min(begun, now))), round(max(begun, now))
            inside = range(first, min(last, len(self.series.names) - 1) + 1)
            self.tensors_chosen.emit(list(inside))


def _across(indices: NDArray[np.intp], half: float) -> NDArray[np.float64]:
    return np.column_stack([indices - half, indices + half]).reshape(-1)
