"""What plots draw, as plain arrays; nothing here needs a window."""

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
    """Tensors in order. Arrays are [T]; what is not known is NaN.

    ``labels`` are precisions, which have a colour in the theme. ``channels`` holds the least and
    greatest value of each channel [C] by the tensor's place; ``histograms`` counts [B] with the
    least and the greatest value.
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
    channels: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(
        default_factory=dict
    )
    histograms: Mapping[int, tuple[NDArray[np.float64], float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorView:
    """One tensor: counts [B] between the ``edges``, its grid, and its channels' ranges [C]."""

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
    """The extremes of one tensor by sample [S]; NaN where a sample never reached it."""

    numbers: NDArray[np.int64] = field(default_factory=_whole)
    low: NDArray[np.float64] = field(default_factory=_none)
    high: NDArray[np.float64] = field(default_factory=_none)

    @property
    def running_low(self) -> NDArray[np.float64]:
        """The least value so far [S]."""
        return np.fmin.accumulate(self.low) if self.low.size else self.low

    @property
    def running_high(self) -> NDArray[np.float64]:
        """The greatest value so far [S]."""
        return np.fmax.accumulate(self.high) if self.high.size else self.high

    @property
    def is_known(self) -> bool:
        """Whether any sample reached the tensor."""
        return bool(np.isfinite(self.low).any())

    def setters(self) -> tuple[int | None, int | None]:
        """Return the samples that set the minimum and the maximum; None where several do."""
        ends = ((self.low, np.nanmin(self.low)), (self.high, np.nanmax(self.high)))
        found = [self.numbers[values == end] for values, end in ends]
        low, high = (int(at[0]) if at.size == 1 else None for at in found)
        return low, high

    def widened_late(self) -> float:
        """Return by what share of its width the last quarter of the samples widened the range."""
        low, high = self.running_low, self.running_high
        before = max(0, self.low.size - self.low.size // 4 - 1)
        width = float(high[-1] - low[-1])
        return 1.0 - float(high[before] - low[before]) / width if width > 0 else 0.0


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
