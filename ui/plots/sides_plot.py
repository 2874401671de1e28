"""How often which values are, for several sides of one tensor, over each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtWidgets import QWidget

from ui.plots.chart import Chart, pen
from ui.theme import Theme

if TYPE_CHECKING:
    from numpy.typing import NDArray

BINS = 128


class SidesPlot(Chart):
    """One outline a side, in the side's colour."""

    def __init__(self, sides: tuple[str, ...], parent: QWidget | None = None) -> None:
        super().__init__("Values by side", "value", "elements, log10(1 + n)", parent)
        self._curves = {side: pg.PlotCurveItem([0.0, 1.0], [0.0], stepMode="center")
                        for side in sides}  # fmt: skip
        for curve in self._curves.values():
            self.plot.addItem(curve, ignoreBounds=True)

    def render_sides(
        self, values: Mapping[str, NDArray[np.float32]], limits: tuple[float, float]
    ) -> None:
        """Show other values."""
        low, high = limits if limits[1] > limits[0] else (limits[0] - 0.5, limits[0] + 0.5)
        most = 1.0
        for side, curve in self._curves.items():
            curve.setVisible(side in values)
            if side in values:
                counts, edges = np.histogram(values[side], BINS, (low, high))
                heights = np.log10(1.0 + counts)
                most = max(most, float(heights.max()))
                curve.setData(edges, heights)
        self.box.setLimits(xMin=low, xMax=high, minXRange=(high - low) / 1e4)
        self.box.setXRange(low, high, padding=0)
        self.box.setYRange(0.0, most * 1.06, padding=0)

    def restyle(self, theme: Theme) -> None:
        colours = colours_of(theme)
        for side, curve in self._curves.items():
            curve.setPen(pen(colours[side]))


def colours_of(theme: Theme) -> dict[str, str]:
    """Return the colour of each side."""
    return {
        "float": theme.precision_colour("float"), "quantized": theme.precision_colour("a8w8"),
        "integer": theme.precision_colour("a16w8"),
    }  # fmt: skip
