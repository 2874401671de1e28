"""Histograms lying in their tensors' columns, where a plot is zoomed in far enough for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ui.plots.scale import ValueScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ui.plots.series import RangeSeries

MOST_TENSORS = 12
_WIDTH = 0.8
_BINS = 64


def outlines(
    series: RangeSeries, places: Iterable[int], scale: ValueScale
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x [2 N] and y [2 N] of the lines about both sides of lying histograms.

    A bin is as wide as log(1 + its count).

    Args:
        series: Its histograms are read; tensors without one give no lines.
        places: The tensors to draw.
        scale: The value axis.
    """
    x, y = [np.zeros(0)], [np.zeros(0)]
    for place in places:
        known = series.histograms.get(place)
        if known is None or not known[0].any():
            continue
        counts, low, high = known
        if counts.size % _BINS == 0:
            counts = counts.reshape(_BINS, -1).sum(1)
        sizes = np.log1p(counts)
        half = sizes / sizes.max() * _WIDTH / 2
        width = (high - low) / counts.size
        middles = scale.place(low + width * (np.arange(counts.size) + 0.5))
        for side in (place - half, place + half):
            x.append(np.column_stack([side[:-1], side[1:]]).reshape(-1))
            y.append(np.column_stack([middles[:-1], middles[1:]]).reshape(-1))
    return np.concatenate(x), np.concatenate(y)
