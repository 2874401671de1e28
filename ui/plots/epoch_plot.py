"""A figure after every epoch: dots on a line, with where it began and the best one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QWidget

from ui.plots.chart import Chart, pen, wash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ui.theme import Theme

_DOT_PX, _BEST_PX = 5, 10
# Plots below each other have their epochs below each other.
_AXIS_PX = 52


class EpochPlot(Chart):
    """Values by epoch, the first one 1; a dashed line where they were before."""

    def __init__(self, name: str, left: str, unit: str, parent: QWidget | None = None) -> None:
        super().__init__(name, "epoch", left, parent)
        self.values = np.zeros(0)
        self.best = 0
        self._unit = unit
        self._line = pg.PlotCurveItem()
        self._dots = pg.ScatterPlotItem(size=_DOT_PX, pen=None, pxMode=True)
        self._best = pg.ScatterPlotItem(size=_BEST_PX, pen=None, pxMode=True)
        self._before = pg.InfiniteLine(angle=0)
        self._before.hide()
        for item in (self._before, self._line, self._dots, self._best):
            self.plot.addItem(item, ignoreBounds=True)
        self.plot.getAxis("left").setWidth(_AXIS_PX)
        self.tell = self._tell
        self.set_run(0.3, 2.7)
        self.set_rise(0.0, 1.0)

    def render_epochs(
        self, values: NDArray[np.float64], total: int, best: int = 0, before: float | None = None
    ) -> None:
        """Show the values [E] of epochs 1 to E of ``total``; ``best`` is 0 for none."""
        self.values, self.best = values, best
        places = np.arange(1, values.size + 1, dtype=np.float64)
        self._line.setData(places, values)
        self._dots.setData(places, values)
        self._best.setData([float(best)] if best else [], values[best - 1 : best] if best else [])
        self._before.setVisible(before is not None)
        shown = values
        if before is not None:
            self._before.setValue(before)
            shown = np.append(values, before)
        if shown.size:
            self.set_rise(float(shown.min()), float(shown.max()))
        self.set_run(0.3, max(total, values.size, 2) + 0.7)

    def restyle(self, theme: Theme) -> None:
        self._line.setPen(pen(theme.accent))
        self._dots.setBrush(wash(theme.accent))
        self._best.setBrush(wash(theme.warning))
        self._before.setPen(pen(theme.muted, is_dashed=True))

    def _tell(self, place: QPointF) -> str:
        at = round(place.x())
        if not 1 <= at <= self.values.size:
            return ""
        best = ", the best" if at == self.best else ""
        return f"epoch {at}: {self.values[at - 1]:.4g} {self._unit}".rstrip() + best
