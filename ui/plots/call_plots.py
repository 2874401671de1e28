"""Ranges that every call takes anew: each call's ends, and how its scales are distributed."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QWidget

from ui.plots.chart import Chart, pen, wash
from ui.theme import Theme
from workbench.analysis.ranges import CallRanges

_BINS = 24
_WIDTH = 0.8


class CallPlot(Chart):
    """A bar from the least to the greatest value of each call, sorted by its scale."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Ranges of the calls", "calls, smallest scale first", "value", parent)
        self._bars = pg.BarGraphItem(x=[], y0=[], y1=[], width=_WIDTH)
        self.plot.addItem(self._bars, ignoreBounds=True)
        self._order = np.empty(0, np.intp)
        self._ranges: CallRanges | None = None
        self.tell = self._tell

    def render_calls(self, ranges: CallRanges) -> None:
        """Show another tensor's calls."""
        self._ranges = ranges
        self._order = np.argsort(np.nan_to_num(ranges.scale, nan=-1.0), kind="stable")
        low, high = ranges.low[self._order], ranges.high[self._order]
        self._bars.setOpts(x=np.arange(low.size), y0=low, y1=high, width=_WIDTH)
        if low.size:
            self.set_rise(min(float(low.min()), 0.0), max(float(high.max()), 0.0))
        self.set_run(-0.7, max(low.size, 2) - 0.3)

    def restyle(self, theme: Theme) -> None:
        self._bars.setOpts(brush=wash(theme.accent, 0.6), pen=pen(theme.accent))

    def _tell(self, place: QPointF) -> str:
        at, ranges = round(place.x()), self._ranges
        if ranges is None or not 0 <= at < self._order.size:
            return ""
        call = self._order[at]
        scale, zero = ranges.scale[call], ranges.zero_point[call]
        grid = f"scale {scale:.4g}, zero point {zero:.0f}" if np.isfinite(scale) else "no range"
        return f"{ranges.low[call]:.4g} to {ranges.high[call]:.4g}\n{grid}"


class ScalePlot(Chart):
    """How many calls have which scale."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Scales of the calls", "scale", "calls", parent)
        self._bars = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.plot.addItem(self._bars, ignoreBounds=True)
        self._counts, self._edges = np.zeros(0, np.intp), np.zeros(1)
        self.tell = self._tell

    def render_calls(self, ranges: CallRanges) -> None:
        """Show another tensor's scales."""
        known = ranges.scale[np.isfinite(ranges.scale)].astype(np.float64)
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        if low == high:
            low, high = low * 0.95, high * 1.05
        self._counts, self._edges = np.histogram(known, _BINS, (low, high))
        self._bars.setOpts(x0=self._edges[:-1], x1=self._edges[1:], height=self._counts)
        self.set_rise(0.0, max(float(self._counts.max()), 1.0))
        self.set_run(low - (high - low) / 40, high + (high - low) / 40)

    def restyle(self, theme: Theme) -> None:
        self._bars.setOpts(brush=wash(theme.accent, 0.6), pen=pen(theme.accent))

    def _tell(self, place: QPointF) -> str:
        at = int(np.searchsorted(self._edges, place.x())) - 1
        if not 0 <= at < self._counts.size:
            return ""
        ends = f"{self._edges[at]:.4g} to {self._edges[at + 1]:.4g}"
        return f"scale {ends}\n{self._counts[at]} calls"
