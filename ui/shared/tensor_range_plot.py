"""Plots of one tensor: its histogram with the quantization grid, and its channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from ui.shared.chart import COUNTS_LOG, Chart, pen, wash
from ui.shared.range_data import TensorView, thinned
from ui.shared.theme import Theme

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEP_PX = 4.0
_AXIS_PX = 58


class HistogramChart(Chart):
    """Histogram with the ends of the grid, and its steps if they are far enough apart.

    Signals:
        dragged: minimum and maximum of the range while its lines are dragged.
    """

    dragged = Signal(float, float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Histogram of the tensor", "value", COUNTS_LOG, parent)
        self.tensor: TensorView | None = None
        self._is_log = True
        self.steps = pg.PlotCurveItem(connect="pairs", skipFiniteCheck=True)
        self._bins = pg.PlotCurveItem([0.0, 1.0], [0.0], stepMode="center", fillLevel=0.0)
        self.limits = [pg.InfiniteLine(angle=90) for _ in range(2)]
        self._outside = [pg.LinearRegionItem(movable=False, pen=pg.mkPen(None)) for _ in range(2)]
        self._grid: tuple[float, float, float] | None = None
        self.levels: NDArray[np.float64] | None = None
        for line in self.limits:
            line.setZValue(10)
            line.sigDragged.connect(self._on_dragged)
        for item in (self.steps, self._bins, *self._outside, *self.limits):
            self.plot.addItem(item, ignoreBounds=True)
        self.box.sigXRangeChanged.connect(self._draw_steps)
        self.box.sigResized.connect(self._draw_steps)
        self.tell = self._tell_bin

    def render_tensor(self, tensor: TensorView | None) -> None:
        """Show a tensor."""
        self.tensor = tensor
        self.set_empty(empty=tensor is None)
        grid = tensor.grid if tensor is not None else None
        for line in self.limits:
            line.setVisible(grid is not None)
            line.setMovable(tensor is not None and tensor.is_editable)
            line.moving = False
        self._grid, self.levels = None, None
        for region in self._outside:
            region.hide()
        if tensor is None:
            self._bins.hide()
            self.steps.hide()
            return
        ends = [*tensor.edges, *(grid or ())]
        air = (max(ends) - min(ends)) * 0.03 or 0.5
        self.box.setLimits(xMin=min(ends) - air, xMax=max(ends) + air, minXRange=tensor.step or None)
        self.box.setXRange(min(ends) - air, max(ends) + air, padding=0)
        if grid is not None:
            self.show_grid(*grid, tensor.step)
        self._draw_bins()
        self._draw_steps()

    def show_grid(
        self, low: float, high: float, step: float, ends: tuple[float, float] | None = None
    ) -> None:
        """Show another grid of the same tensor; ``ends`` is its range."""
        self._grid = (low, high, step)
        for line, limit in zip(self.limits, ends or (low, high), strict=True):
            if not line.moving:
                line.setPos(limit)
        left, right = self.box.state["limits"]["xLimits"]
        for region, (start, end) in zip(self._outside, ((left, low), (high, right)), strict=True):
            region.setVisible(start < end)
            region.setRegion((start, max(start, end)))
        self._draw_steps()

    def show_levels(self, levels: NDArray[np.float64] | None) -> None:
        """Show the levels [L] of a non-uniform grid, ascending; None for none."""
        self.levels = levels
        self._draw_steps()

    def set_log(self, on: bool) -> None:
        """Switch the count axis to a logarithmic scale."""
        self._is_log = on
        self.set_label("left", COUNTS_LOG if on else "elements")
        self._draw_bins()

    def restyle(self, theme: Theme) -> None:
        label = self.tensor.label if self.tensor is not None else "a8w8"
        colour = theme.precision_colour(label)
        self._bins.setPen(pen(colour))
        self._bins.setBrush(wash(colour, 0.35))
        self.steps.setPen(pg.mkPen(wash(theme.muted, 0.35), width=1))
        for line in self.limits:
            line.setPen(pg.mkPen(theme.text, width=1, style=Qt.PenStyle.DashLine))
            line.setHoverPen(pg.mkPen(theme.accent, width=3))
        for region in self._outside:
            region.setBrush(wash(theme.bad, 0.13))

    def _draw_bins(self) -> None:
        tensor = self.tensor
        low, high = tensor.edges if tensor is not None else (0.0, 0.0)
        if tensor is None or not high > low or not tensor.counts.any():
            self._bins.hide()
            return
        counts = np.log10(1.0 + tensor.counts) if self._is_log else tensor.counts
        self._bins.setData(np.linspace(low, high, counts.size + 1), counts)
        self._bins.show()
        top = float(counts.max()) * 1.06
        self.box.setYRange(0.0, top, padding=0)
        self.show_counts(top if self._is_log else None)
        self._draw_steps()

    def _draw_steps(self) -> None:
        tensor = self.tensor
        left, right, bottom, top = self.reach()
        room = self.box.width() / _STEP_PX
        if tensor is not None and self.levels is not None:
            self._draw_levels(self.levels)
            return
        if tensor is None or self._grid is None or not self._grid[2] > 0:
            self.steps.hide()
            return
        first_level, last_level, step = self._grid
        low, high = max(left, first_level), min(right, last_level)
        shown = (high - low) / step
        if not 0 < shown < room:
            self.steps.hide()
            return
        first = np.ceil((low - first_level) / step - 1e-6)
        levels = first_level + step * (first + np.arange(int(shown) + 1))
        self.steps.setData(np.repeat(levels, 2), np.tile([bottom, top], levels.size))
        self.steps.show()

    def _draw_levels(self, levels: NDArray[np.float64]) -> None:
        """Draw the visible levels, at most one per pixel."""
        left, right, bottom, top = self.reach()
        shown = levels[(levels >= left) & (levels <= right)]
        if not shown.size or not right > left:
            self.steps.hide()
            return
        columns = ((shown - left) / (right - left) * max(self.box.width(), 1.0)).astype(int)
        shown = shown[np.unique(columns, return_index=True)[1]]
        self.steps.setData(np.repeat(shown, 2), np.tile([bottom, top], shown.size))
        self.steps.show()

    def _on_dragged(self) -> None:
        low, high = (float(line.value()) for line in self.limits)
        self.dragged.emit(low, high)

    def _tell_bin(self, point: QPointF) -> str:
        tensor = self.tensor
        if tensor is None or not tensor.edges[1] > tensor.edges[0]:
            return ""
        low, high = tensor.edges
        width = (high - low) / tensor.counts.size
        number = int((point.x() - low) // width)
        if not 0 <= number < tensor.counts.size:
            return f"{point.x():.4g}: outside the observed range"
        start = low + number * width
        return f"{start:.4g} to {start + width:.4g}: {tensor.counts[number]:,.0f} elements"


class ChannelChart(Chart):
    """Minimum to maximum of each channel of a weight."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Ranges of the channels", "output channel", "weight value", parent)
        self.count_along_x()
        self.tensor: TensorView | None = None
        self._lines = pg.PlotCurveItem(connect="pairs", skipFiniteCheck=True)
        self._zero = pg.InfiniteLine(pos=0.0, angle=0)
        for item in (self._zero, self._lines):
            self.plot.addItem(item, ignoreBounds=True)
        self.box.sigXRangeChanged.connect(self._draw)
        self.tell = self._tell_channel

    def render_tensor(self, tensor: TensorView | None) -> None:
        """Show the channels of a tensor."""
        self.tensor = tensor
        if tensor is None or tensor.channel_min is None or tensor.channel_max is None:
            self._lines.hide()
            return
        ends = np.concatenate([tensor.channel_min, tensor.channel_max])
        ends = ends[np.isfinite(ends)]
        if ends.size:
            self.set_rise(min(float(ends.min()), 0.0), max(float(ends.max()), 0.0))
        self.set_run(-0.7, tensor.channel_min.size - 0.3)
        self._lines.show()
        self._draw()

    def restyle(self, theme: Theme) -> None:
        label = self.tensor.label if self.tensor is not None else "a8w8"
        self._lines.setPen(pen(theme.precision_colour(label)))
        self._zero.setPen(pen(theme.grid))

    def _draw(self) -> None:
        tensor = self.tensor
        if tensor is None or tensor.channel_min is None or tensor.channel_max is None:
            return
        left, right, _, _ = self.reach()
        channels = np.arange(tensor.channel_min.size, dtype=np.float64)
        self._lines.setData(*thinned(channels, tensor.channel_min, tensor.channel_max, (left, right)))

    def _tell_channel(self, point: QPointF) -> str:
        tensor, channel = self.tensor, round(point.x())
        if tensor is None or tensor.channel_min is None or tensor.channel_max is None:
            return ""
        if not 0 <= channel < tensor.channel_min.size:
            return ""
        low, high = tensor.channel_min[channel], tensor.channel_max[channel]
        dead = " (all zero)" if low == high == 0 else ""
        return f"channel {channel}: {low:.4g} to {high:.4g}{dead}"


class TensorPlot(QWidget):
    """The histogram, with the channels below if there are any."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.histogram, self.channels = HistogramChart(self), ChannelChart(self)
        split = QSplitter(Qt.Orientation.Vertical, self)
        for number, chart in enumerate((self.histogram, self.channels)):
            chart.plot.getAxis("left").setWidth(_AXIS_PX)
            split.addWidget(chart)
            split.setCollapsible(number, False)
        self.channels.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)

    def render_tensor(self, tensor: TensorView | None, theme: Theme) -> None:
        """Show a tensor; None for none."""
        self.channels.setVisible(tensor is not None and tensor.channel_min is not None)
        for chart in (self.histogram, self.channels):
            chart.render_tensor(tensor)
            chart.restyle(theme)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.histogram.set_theme(theme)
        self.channels.set_theme(theme)

    def set_stale(self, stale: bool) -> None:
        """Fade the plot if its result is outdated."""
        self.histogram.set_stale(stale)
        self.channels.set_stale(stale)
