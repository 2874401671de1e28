"""Does another sample still widen the range? The extremes of every sample, and those so far."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QWidget

from ui.plots.chart import Chart, pen, wash
from ui.plots.series import SampleView
from ui.theme import Theme

_DOT_PX = 4


class CoveragePlot(Chart):
    """Dots are the extremes of single samples; the lines are the range after each of them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Range over the samples", "samples seen", "value", parent)
        self.view_of = SampleView()
        self._lines = [pg.PlotCurveItem() for _ in range(2)]
        self._dots = pg.ScatterPlotItem(size=_DOT_PX, pen=None, pxMode=True)
        for item in (*self._lines, self._dots):
            self.plot.addItem(item, ignoreBounds=True)
        self.tell = self._tell

    def render_samples(self, view: SampleView) -> None:
        """Show another tensor's samples."""
        self.view_of = view
        places = np.arange(view.numbers.size, dtype=np.float64)
        for line, values in zip(self._lines, (view.running_low, view.running_high), strict=True):
            line.setData(places, values, connect="finite")
        self._dots.setData(np.tile(places, 2), np.concatenate([view.low, view.high]))
        ends = np.concatenate([view.low, view.high])
        ends = ends[np.isfinite(ends)]
        if ends.size:
            self.set_rise(min(float(ends.min()), 0.0), max(float(ends.max()), 0.0))
        self.set_run(-0.7, max(view.numbers.size, 2) - 0.3)

    def restyle(self, theme: Theme) -> None:
        self._dots.setBrush(wash(theme.muted, 0.9))
        for line in self._lines:
            line.setPen(pen(theme.accent))

    def _tell(self, place: QPointF) -> str:
        at, view = round(place.x()), self.view_of
        if not 0 <= at < view.numbers.size:
            return ""
        return (
            f"sample {view.numbers[at]}: {view.low[at]:.4g} to {view.high[at]:.4g}\n"
            f"range so far: {view.running_low[at]:.4g} to {view.running_high[at]:.4g}"
        )
