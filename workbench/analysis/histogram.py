"""Clipping and rounding noise of a tensor, estimated from its histogram.

Values are assumed to be uniform inside a bin, except exact zeros, which every grid represents.
A prediction covers the tensor's own quantization, not noise from earlier tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Histogram:
    """Counts [B] of values in equal bins from ``low`` to ``high``.

    ``zeros`` is the share of values that are exactly zero; ``mean_square`` is the mean of the
    squared values, computed from the bins if None.
    """

    counts: NDArray[np.float64]
    low: float
    high: float
    zeros: float = 0.0
    mean_square: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether there are counts to predict from."""
        return self.high > self.low and bool(self.counts.sum() > 0)

    @property
    def edges(self) -> NDArray[np.float64]:
        """The bin edges [B + 1]."""
        return np.linspace(self.low, self.high, self.counts.size + 1)

    def coarser(self, most: int) -> Histogram:
        """Return the histogram with at most ``most`` bins, if the number of bins is divisible."""
        if self.counts.size <= most or self.counts.size % most:
            return self
        counts = self.counts.reshape(most, -1).sum(1)
        return Histogram(counts, self.low, self.high, self.zeros, self.mean_square)

    def quantile(self, share: float) -> float:
        """Return the quantile of a share of all values, with linear interpolation inside a bin."""
        reached = np.cumsum(self.counts)
        wanted = share * reached[-1]
        index = int(np.searchsorted(reached, wanted))
        before = reached[index] - self.counts[index]
        inside = (wanted - before) / max(float(self.counts[index]), 1.0)
        return float(self.low + (index + inside) * (self.high - self.low) / self.counts.size)

    def draws(self, count: int) -> NDArray[np.float64]:
        """Return as many deterministic sample values as the histogram counts, unordered."""
        density = self._density()
        reached = np.concatenate([[0.0], np.cumsum(density)])
        zeros = round(min(max(self.zeros, 0.0), 1.0) * count) if reached[-1] > 0 else count
        shares = (np.arange(count - zeros) + 0.5) / max(count - zeros, 1) * reached[-1]
        values = np.concatenate([np.interp(shares, reached, self.edges), np.zeros(zeros)])
        return np.random.default_rng(0).permutation(values)

    def clipped(self, grid: Grid) -> float:
        """Return the share of values more than half a step outside the grid."""
        low, high = grid.low - grid.scale / 2, grid.high + grid.scale / 2
        if not self.is_known or (self.low >= low and self.high <= high):
            return 0.0
        reached = np.concatenate([[0.0], np.cumsum(self.counts)]) / self.counts.sum()
        below, above = np.interp([low, high], self.edges, reached)
        return float(max(0.0, 1.0 - (above - below)))

    def signal(self) -> float:
        """Return the mean of the squared values."""
        if self.mean_square is not None:
            return self.mean_square
        cubes = self.edges**3
        squares = (cubes[1:] - cubes[:-1]) / 3
        total = float(self.counts.sum())
        return float(self._density() @ squares) / total if total else 0.0

    def noise(self, grid: Grid) -> float:
        """Return the mean squared error of the grid."""
        noise_power: float = self.noises(
            np.asarray([grid.scale]), np.asarray([grid.low]), grid.qmax - grid.qmin
        )[0]
        return float(noise_power)

    def noises(self, scale: NDArray[np.float64], low: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """Return the mean squared error of each of several grids [G].

        Args:
            scale: Step of each grid [G].
            low: Smallest value of each grid [G].
            steps: Number of steps of each grid.
        """
        # The integral of (x - nearest grid value)^2, in steps: a parabola around every value.
        positions = (self.edges[None, :] - low[:, None]) / scale[:, None]
        nearest = np.clip(np.rint(positions), 0.0, steps)
        apart = positions - nearest
        integral = nearest / 12.0 + apart * apart * apart / 3.0
        errors = (integral[:, 1:] - integral[:, :-1]) * scale[:, None] ** 3
        total = float(self.counts.sum())
        noise: NDArray[np.float64] = (errors @ self._density()) / (total or 1.0)
        return noise

    def sqnr_db(self, grid: Grid) -> float | None:
        """Return 10 log10(signal / noise) [dB] of the tensor's own quantization."""
        if not self.is_known:
            return None
        signal, noise = self.signal(), self.noise(grid)
        return 10.0 * math.log10(signal / noise) if signal > 0 and noise > 0 else None

    def _density(self) -> NDArray[np.float64]:
        """Return counts per unit of value [B], without the exact zeros."""
        counts = self.counts.astype(np.float64)
        if self.zeros and self.low <= 0.0 <= self.high:
            width = (self.high - self.low) / counts.size
            index = min(int(-self.low / width), counts.size - 1)
            # Observers redistribute counts when they widen their bins: zeros may be in nearby bins.
            left = self.zeros * counts.sum()
            for at in (index, index - 1, index + 1):
                if 0 <= at < counts.size:
                    taken = min(left, counts[at])
                    counts[at] -= taken
                    left -= taken
        return counts * (self.counts.size / (self.high - self.low))


@dataclass(frozen=True)
class Grid:
    """Integers ``qmin`` to ``qmax`` that represent ``scale * (integer - zero_point)``."""

    scale: float
    zero_point: int
    qmin: int
    qmax: int

    @property
    def low(self) -> float:
        """The smallest representable value."""
        return self.scale * (self.qmin - self.zero_point)

    @property
    def high(self) -> float:
        """The largest representable value."""
        return self.scale * (self.qmax - self.zero_point)


@dataclass(frozen=True)
class Scheme:
    """How an observer computes a grid from a range: limits, symmetry, smallest scale."""

    qmin: int
    qmax: int
    symmetric: bool = False
    eps: float = 2.0**-16
    is_unsigned: bool = False

    def grid(self, minimum: float, maximum: float) -> Grid:
        """Return the grid that torchao's observers compute from a range, bit-exact.

        Source: torchao 0.18, ``UniformQuantizationObserverBase._calculate_qparams``, in float32;
        ranges that exclude zero are extended to it.
        """
        low = min(np.float32(minimum), np.float32(0.0))
        high = max(np.float32(maximum), np.float32(0.0))
        eps = np.float32(self.eps)
        if self.symmetric:
            half = np.float32((self.qmax - self.qmin) / 2)
            scale = max(np.float32(max(-low, high) / half), eps)
            middle = (self.qmin + self.qmax) // 2 if self.is_unsigned else 0
            return Grid(float(scale), middle, self.qmin, self.qmax)
        with np.errstate(over="ignore"):
            scale = max(np.float32(high - low) / np.float32(self.qmax - self.qmin), eps)
        zero_point = self.qmin - int(np.round(np.float32(low) / scale))
        return Grid(float(scale), max(self.qmin, min(self.qmax, zero_point)), self.qmin, self.qmax)
