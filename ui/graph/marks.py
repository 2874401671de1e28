"""What is told about operations besides the drawing: precision chips, reasons, overlay, texts.

Marks are given per operation; a closed group answers for all operations inside of it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from PySide6.QtGui import QColor

if TYPE_CHECKING:
    from workbench.graph.hierarchy import Hierarchy

MIXED = "mixed"
Merge = Literal["sum", "lowest", "highest"]
TIMES = "\u00d7"
# Perceptually even and legible to colour-blind readers: five stops of cividis (Nuñez et al. 2018).
_STOPS = ("#00224e", "#434e6c", "#7d7c78", "#bcae6c", "#fee838")


@dataclass(frozen=True, slots=True)
class Chip:
    """A config on an item: the label it has a colour for, and the text to write."""

    label: str
    text: str


@dataclass(frozen=True)
class Overlay:
    """A number per operation, drawn as colour. ``is_log`` spreads small values.

    ``merge`` says what a closed group shows: the sum of what is inside, as a share of the whole,
    or the lowest or highest of it. Where the lowest is the worst, it has the brightest colour.
    """

    values: dict[str, float]
    title: str
    is_log: bool = False
    merge: Merge = "sum"
    low: float = field(init=False, default=0.0)
    high: float = field(init=False, default=1.0)
    total: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        finite = [v for v in self.values.values() if math.isfinite(v)]
        if self.is_log:
            finite = [v for v in finite if v > 0]
        if finite:
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

    def colour(self, value: float) -> QColor:
        """Return the colour of a value."""
        return self.ramp(self.level(value))

    def ramp(self, level: float) -> QColor:
        """Return the colour of a level between the lowest (0) and the highest (1)."""
        return ramp(1.0 - level if self.merge == "lowest" else level)


def ramp(level: float) -> QColor:
    """Return the colour of a level between 0 and 1."""
    place = min(max(level, 0.0), 1.0) * (len(_STOPS) - 1)
    index = min(int(place), len(_STOPS) - 2)
    low, high, part = QColor(_STOPS[index]), QColor(_STOPS[index + 1]), place - index
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


class Marks:
    """All marks of one view. Answers for groups are remembered until a mark changes."""

    def __init__(self) -> None:
        self.chips: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.tooltips: dict[str, str] = {}
        self.overlay: Overlay | None = None
        self.version = 0
        self._chips: dict[str, Chip | None] = {}
        self._amounts: dict[str, float | None] = {}

    def changed(self) -> None:
        """Forget what was worked out from earlier marks."""
        self.version += 1
        self._chips.clear()
        self._amounts.clear()

    def chip(self, item: str, hierarchy: Hierarchy) -> Chip | None:
        """Return the chip of an item; of a group ``a8w8 x12``, or ``mixed``."""
        if item not in self._chips:
            self._chips[item] = self._find_chip(item, hierarchy)
        return self._chips[item]

    def _find_chip(self, item: str, hierarchy: Hierarchy) -> Chip | None:
        if item not in hierarchy.groups:
            label = self.chips.get(item)
            return Chip(label, label) if label else None
        labels = Counter(self.chips[leaf] for leaf in hierarchy.leaves(item) if leaf in self.chips)
        if not labels:
            return None
        (label, count), *others = labels.most_common()
        return Chip(MIXED, MIXED) if others else Chip(label, f"{label} {TIMES}{count}")

    def amount(self, item: str, hierarchy: Hierarchy) -> float | None:
        """Return an operation's overlay value; of a group the sum, or the lowest or highest."""
        if self.overlay is None:
            return None
        if item not in self._amounts:
            values = self.overlay.values
            found = [values[leaf] for leaf in hierarchy.leaves(item) if leaf in values]
            self._amounts[item] = _merged(found, self.overlay.merge)
        return self._amounts[item]

    def share(self, item: str, hierarchy: Hierarchy) -> float | None:
        """Return what part of the overlay's total an item has, between 0 and 1."""
        amount = self.amount(item, hierarchy)
        if amount is None or self.overlay is None or self.overlay.total <= 0:
            return None
        if self.overlay.merge != "sum":
            return None
        return abs(amount) / self.overlay.total

    def colour(self, item: str, hierarchy: Hierarchy) -> QColor | None:
        """Return the overlay's colour of an item: of its value, or of a group's share."""
        if self.overlay is None:
            return None
        if item in hierarchy.groups and self.overlay.merge == "sum":
            share = self.share(item, hierarchy)
            return None if share is None else ramp(share)
        value = self.amount(item, hierarchy)
        return None if value is None else self.overlay.colour(value)

    def reason(self, item: str, hierarchy: Hierarchy) -> str | None:
        """Return why an item stays outside; of a group only if all of it does."""
        if item not in hierarchy.groups:
            return self.reasons.get(item)
        if not self.reasons:
            return None
        leaves = hierarchy.leaves(item)
        if leaves and all(leaf in self.reasons for leaf in leaves):
            return self.reasons[leaves[0]]
        return None


def _merged(values: list[float], merge: Merge) -> float | None:
    if not values:
        return None
    if merge == "lowest":
        return min(values)
    if merge == "highest":
        return max(values)
    return math.fsum(map(abs, values)) if len(values) > 1 else values[0]
