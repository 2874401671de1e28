"""Plot data as plain arrays, without Qt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def _none() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True)
class RangeSeries:
    """Ranges of all tensors in program order. Arrays are [T]; NaN is unknown.

    ``labels`` are precisions, which have a colour in the theme. ``channels`` has the minimum and
    maximum of each channel [C] by tensor index; ``histograms`` has counts [B] with the
    minimum and maximum.
    """

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    is_weight: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    low: NDArray[np.float64] = field(default_factory=_none)
    high: NDArray[np.float64] = field(default_factory=_none)
    p_low: NDArray[np.float64] = field(default_factory=_none)
    p_high: NDArray[np.float64] = field(default_factory=_none)
    grid_low: NDArray[np.float64] = field(default_factory=_none)
    grid_high: NDArray[np.float64] = field(default_factory=_none)
    step: NDArray[np.float64] = field(default_factory=_none)
    channels: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)
    histograms: Mapping[int, tuple[NDArray[np.float64], float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorView:
    """One tensor: counts [B] between the ``edges``, its grid, and its channel ranges [C]."""

    counts: NDArray[np.float64]
    edges: tuple[float, float]
    grid: tuple[float, float] | None
    step: float
    label: str
    channel_min: NDArray[np.float64] | None = None
    channel_max: NDArray[np.float64] | None = None
    is_editable: bool = False


def _whole() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class SampleView:
    """Minimum and maximum of one tensor by sample [S]; NaN if a sample did not reach it."""

    numbers: NDArray[np.int64] = field(default_factory=_whole)
    low: NDArray[np.float64] = field(default_factory=_none)
    high: NDArray[np.float64] = field(default_factory=_none)

    @property
    def running_low(self) -> NDArray[np.float64]:
        """Cumulative minimum [S]."""
        return np.fmin.accumulate(self.low) if self.low.size else self.low

    @property
    def running_high(self) -> NDArray[np.float64]:
        """Cumulative maximum [S]."""
        return np.fmax.accumulate(self.high) if self.high.size else self.high

    @property
    def is_known(self) -> bool:
        """Whether any sample reached the tensor."""
        return bool(np.isfinite(self.low).any())

    def setters(self) -> tuple[int | None, int | None]:
        """Return the samples with the minimum and the maximum; None if several samples share it."""
        ends = ((self.low, np.nanmin(self.low)), (self.high, np.nanmax(self.high)))
        numbers = [self.numbers[values == end] for values, end in ends]
        low, high = (int(at[0]) if at.size == 1 else None for at in numbers)
        return low, high

    def widened_late(self) -> float:
        """Return the fraction by which the last quarter of the samples widened the range."""
        low, high = self.running_low, self.running_high
        before = max(0, self.low.size - self.low.size // 4 - 1)
        width = float(high[-1] - low[-1])
        return 1.0 - float(high[before] - low[before]) / width if width > 0 else 0.0


MOST_LINES = 1200


def thinned(
    x: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], reach: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x [2 N] and y [2 N] of the vertical lines for the visible channels.

    Channels that share a pixel are merged into one line from their minimum to their maximum.

    Args:
        x: Positions of the channels, ascending [C].
        low: Minimum of each channel [C].
        high: Maximum of each channel [C].
        reach: The visible range of x.
    """
    first, last = np.searchsorted(x, reach)
    x, low, high = x[first:last], low[first:last], high[first:last]
    if x.size > MOST_LINES:
        starts = np.linspace(0, x.size, MOST_LINES, endpoint=False).astype(np.intp)
        x = x[starts]
        low, high = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    return np.repeat(x, 2), np.column_stack([low, high]).reshape(-1)


def spread(
    positions: list[float], lows: list[NDArray[np.float64]], highs: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the x positions of channels, spread around their tensor's position."""
    if not positions:
        none = np.zeros(0)
        return none, none, none
    inside = [
        position + (np.arange(low.size) + 0.5) / low.size * 0.8 - 0.4
        for position, low in zip(positions, lows, strict=True)
    ]
    return np.concatenate(inside), np.concatenate(lows), np.concatenate(highs)
