"""Values of one tensor as a picture: one channel, or all of them side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QWidget

from ui.plots.chart import Chart
from ui.theme import Theme

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Viridis (van der Walt and Smith, 2015) at nine places: even steps of lightness, colour-blind-safe.
_VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962",
            "#addc30", "#fde725")  # fmt: skip


def picture_of(values: NDArray[np.float32], channel: int | None) -> NDArray[np.float32]:
    """Return rows and columns [H, W] of a tensor; without a channel all of them as a mosaic.

    The first axis is the batch; a tensor with one axis more is one row, or one row a vector.
    """
    inner = values[0] if values.ndim > 1 and values.shape[0] == 1 else values
    if inner.ndim < 2:
        return inner.reshape(1, -1)
    if inner.ndim == 2:
        return inner
    planes = inner.reshape(-1, *inner.shape[-2:])
    if channel is not None:
        plane: NDArray[np.float32] = planes[min(channel, len(planes) - 1)]
        return plane
    count, height, width = planes.shape
    across = math.ceil(math.sqrt(count))
    down = -(-count // across)
    mosaic = np.full((down * across, height, width), np.nan, np.float32)
    mosaic[:count] = planes
    rows = mosaic.reshape(down, across, height, width).transpose(0, 2, 1, 3)
    return rows.reshape(down * height, across * width)


class HeatMap(Chart):
    """A picture with its own colours; ``limits`` are the values of the two ends."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, "", "", parent)
        self.values = np.zeros((0, 0), np.float32)
        self._image = pg.ImageItem(axisOrder="row-major")
        self._image.setColorMap(pg.ColorMap(np.linspace(0, 1, len(_VIRIDIS)), list(_VIRIDIS)))
        self.plot.addItem(self._image)
        self.plot.hideAxis("left")
        self.plot.hideAxis("bottom")
        self.box.invertY(True)
        self.box.setMouseEnabled(x=True, y=True)
        self.tell = self._tell

    def render_values(
        self, values: NDArray[np.float32], limits: tuple[float, float], *, is_square: bool
    ) -> None:
        """Show other values [H, W]."""
        self.values = values
        low, high = limits
        self._image.setImage(values, levels=(low, high if high > low else low + 1.0))
        height, width = values.shape
        self.box.setAspectLocked(is_square)
        self.box.setRange(xRange=(0, width), yRange=(0, height), padding=0.01)

    def restyle(self, theme: Theme) -> None:
        self.view.setBackground(theme.background)

    def _tell(self, place: QPointF) -> str:
        row, column = math.floor(place.y()), math.floor(place.x())
        height, width = self.values.shape
        if not (0 <= row < height and 0 <= column < width):
            return ""
        value = self.values[row, column]
        return "" if np.isnan(value) else f"row {row}, column {column}: {value:.5g}"
