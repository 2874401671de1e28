"""A number per operation as colour: scales, the part of the scale that is brushed, its texts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from PySide6.QtGui import QColor

Merge = Literal["sum", "lowest", "highest", "farthest"]
# Perceptually even and legible to colour-blind readers: five stops of cividis (Nuñez et al. 2018),
# and for scales that turn at a middle ColorBrewer's PuOr (Harrower and Brewer 2003).
_STOPS = ("#00224e", "#434e6c", "#7d7c78", "#bcae6c", "#fee838")
_TURNING = ("#5e3c99", "#b2abd2", "#f7f7f7", "#fdb863", "#e66101")


@dataclass(frozen=True)
class Overlay:
    """A number per operation, drawn as colour. ``is_log`` spreads small values.

    ``merge`` says what a closed group shows: the sum of what is inside, as a share of the whole,
    the lowest or highest of it, or what is farthest from zero. Where the lowest is the worst, it
    has the brightest colour.
    With a ``middle`` the scale goes two ways from there, as far as the value farthest from it.
    ``brush`` is the part of the scale, between 0 and 1, that alone has colours.
    """

    values: dict[str, float]
    title: str
    is_log: bool = False
    merge: Merge = "sum"
    middle: float | None = None
    brush: tuple[float, float] | None = None
    low: float = field(init=False, default=0.0)
    high: float = field(init=False, default=1.0)
    total: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        finite = [v for v in self.values.values() if math.isfinite(v)]
        if self.is_log:
            finite = [v for v in finite if v > 0]
        if finite and self.middle is not None:
            reach = max(abs(v - self.middle) for v in finite)
            object.__setattr__(self, "low", self.middle - reach)
            object.__setattr__(self, "high", self.middle + reach)
        elif finite:
            object.__setattr__(self, "low", min(finite))
            object.__setattr__(self, "high", max(finite))
        object.__setattr__(self, "total", sum(abs(v) for v in finite))

    def level(self, value: float) -> float:
        """Return where a value stands between the lowest (0) and the highest (1)."""
        low, high = self.low, self.high
        if self.is_log and low > 0:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        if not math.isfinite(value):
            return 1.0 if value > 0 else 0.0
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def value(self, level: float) -> float:
        """Return the value at a level: what ``level`` undoes."""
        if self.is_log and self.low > 0:
            return float(self.low * (self.high / self.low) ** level)
        return self.low + (self.high - self.low) * level

    def brushed(self, brush: tuple[float, float] | None) -> Overlay:
        """Return the overlay with another part of its scale brushed; None for the whole."""
        return replace(self, brush=brush)

    def is_brushed(self, value: float) -> bool:
        """Tell whether a value has a colour: everything has while nothing is brushed."""
        return self.brush is None or self.brush[0] <= self.level(value) <= self.brush[1]

    def brushed_operations(self) -> frozenset[str]:
        """Return the operations in the brushed part of the scale."""
        return frozenset(name for name, value in self.values.items() if self.is_brushed(value))

    def colour(self, value: float) -> QColor:
        """Return the colour of a value."""
        return self.ramp(self.level(value))

    def ramp(self, level: float) -> QColor:
        """Return the colour of a level between the lowest (0) and the highest (1)."""
        if self.middle is not None:
            return ramp(level, _TURNING)
        return ramp(1.0 - level if self.merge == "lowest" else level)


def ramp(level: float, stops: tuple[str, ...] = _STOPS) -> QColor:
    """Return the colour of a level between 0 and 1."""
    place = min(max(level, 0.0), 1.0) * (len(stops) - 1)
    index = min(int(place), len(stops) - 2)
    low, high, part = QColor(stops[index]), QColor(stops[index + 1]), place - index
    return QColor(
        round(low.red() + (high.red() - low.red()) * part),
        round(low.green() + (high.green() - low.green()) * part),
        round(low.blue() + (high.blue() - low.blue()) * part),
    )


def number_text(value: float) -> str:
    """Return a value in at most about six characters, e.g. ``12.3k``."""
    if not math.isfinite(value):
        return "\u221e" if value > 0 else "\u2212\u221e" if value < 0 else "?"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit != 'k' else 1e3):.3g}{unit}"
    return f"{value:.4g}"
