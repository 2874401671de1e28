"""Very many channels as few lines: what one pixel column cannot show apart is put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_LINES = 1200


def thinned(
    x: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64],
    reach: tuple[float, float],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Return x [2 N] and y [2 N] of the upright lines to draw for the channels in reach.

    Nothing is lost of the outline: lines that fall together keep the least and the greatest.

    Args:
        x: Places of the channels, ascending [C].
        low: Least value of each channel [C].
        high: Greatest value of each channel [C].
        reach: The shown part of x.
    """
    first, last = np.searchsorted(x, reach)
    x, low, high = x[first:last], low[first:last], high[first:last]
    if x.size > MOST_LINES:
        starts = np.linspace(0, x.size, MOST_LINES, endpoint=False).astype(np.intp)
        x = x[starts]
        low, high = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    return np.repeat(x, 2), np.column_stack([low, high]).reshape(-1)


def spread(
    places: list[float], lows: list[NDArray[np.float64]], highs: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Lay the channels of each tensor side by side about the tensor's place."""
    if not places:
        none = np.zeros(0)
        return none, none, none
    inside = [
        place + (np.arange(low.size) + 0.5) / low.size * 0.8 - 0.4
        for place, low in zip(places, lows, strict=True)
    ]
    return np.concatenate(inside), np.concatenate(lows), np.concatenate(highs)
