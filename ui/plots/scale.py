"""Value axes: linear, or logarithmic to both sides of zero."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_LABELS = 9
_LN10 = math.log(10.0)


@dataclass(frozen=True)
class ValueScale:
    """Maps values to places on an axis.

    ``linear`` is the size below which a symmetric logarithm runs straight; None is a linear axis.
    """

    linear: float | None = None

    def place(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where values stand on the axis."""
        if self.linear is None:
            return values
        sizes: NDArray[np.float64] = np.log1p(np.abs(values) / self.linear) / _LN10
        return np.copysign(sizes, values)

    def value(self, place: float) -> float:
        """Return the value at a place."""
        if self.linear is None:
            return place
        return math.copysign(math.expm1(min(abs(place), 300.0) * _LN10) * self.linear, place)

    def ticks(self, low: float, high: float) -> list[tuple[float, str]] | None:
        """Return labelled places between two places; None where the axis knows best."""
        if self.linear is None:
            return None
        first = math.floor(math.log10(self.linear)) + 1
        reach = max(abs(self.value(low)), abs(self.value(high)), self.linear * 10)
        decades = list(range(first, math.floor(math.log10(reach)) + 1))
        stride = max(1, -(-len(decades) // max(_MOST_LABELS // 2, 1)))
        # Counted from the largest, whose labels stand furthest from those about zero.
        kept = [10.0**power for power in decades[::-1][::stride]]
        values = [-value for value in kept] + [0.0] + kept[::-1]
        places = self.place(np.asarray(values, np.float64))
        return [
            (float(place), f"{value:g}")
            for place, value in zip(places, values, strict=True)
            if low <= place <= high
        ]


LINEAR = ValueScale()


def symmetric_log(limits: NDArray[np.float64]) -> ValueScale:
    """Return the logarithmic axis on which tensors with these widest values are all visible."""
    sizes = np.abs(limits)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return ValueScale(1.0)
    return ValueScale(10.0 ** (math.floor(math.log10(float(np.percentile(sizes, 10)))) - 2))
