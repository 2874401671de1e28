"""From a range of real values to the grid of integers that stands for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grid:
    """Integers ``qmin`` to ``qmax`` that stand for ``scale * (integer - zero_point)``."""

    scale: float
    zero_point: int
    qmin: int
    qmax: int

    @property
    def low(self) -> float:
        """The least value that an integer stands for."""
        return self.scale * (self.qmin - self.zero_point)

    @property
    def high(self) -> float:
        """The greatest value that an integer stands for."""
        return self.scale * (self.qmax - self.zero_point)


@dataclass(frozen=True)
class Scheme:
    """How an observer makes a grid of a range: limits, symmetry, smallest scale."""

    qmin: int
    qmax: int
    symmetric: bool = False
    eps: float = 2.0**-16
    is_unsigned: bool = False

    def grid(self, minimum: float, maximum: float) -> Grid:
        """Return the grid that torchao's observers make of a range, bit for bit.

        Source: torchao 0.18, ``UniformQuantizationObserverBase._calculate_qparams``, in float32;
        ranges that do not hold zero are widened to it.
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
