"""Marks of operations: chips, reasons, overlay, differences and tooltips.

Marks are set per operation. A closed group shows the merged marks of its operations.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from PySide6.QtGui import QColor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.graph.compare import Difference
    from workbench.graph.hierarchy import Hierarchy


Merge = Literal["sum", "lowest", "highest", "farthest", "mean"]
# Perceptually uniform and safe for colour-blind users: five stops of cividis (Nuñez et al. 2018),
# and for diverging scales ColorBrewer's PuOr (Harrower and Brewer 2003).
_STOPS = ("#00224e", "#434e6c", "#7d7c78", "#bcae6c", "#fee838")
_TURNING = ("#5e3c99", "#b2abd2", "#f7f7f7", "#fdb863", "#e66101")


@dataclass(frozen=True)
class Overlay:
    """A number per operation, drawn as colour. ``is_log`` spreads small values.

    ``merge`` is how a closed group combines values: their sum as a fraction of the total,
    the lowest, the highest, the value farthest from zero, or the mean by ``weights``. With "lowest"
    and "mean", the lowest value has the brightest colour.
    With ``middle`` the scale is diverging and symmetric around it.
    ``brush`` is the coloured part of the scale in [0, 1].
    """

    values: dict[str, float]
    title: str
    is_log: bool = False
    merge: Merge = "sum"
    middle: float | None = None
    brush: tuple[float, float] | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
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
        """Return the position of a value between the lowest (0) and the highest (1)."""
        low, high = self.low, self.high
        if self.is_log and low > 0:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        if not math.isfinite(value):
            return 1.0 if value > 0 else 0.0
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def value(self, level: float) -> float:
        """Return the value at a position: the inverse of ``level``."""
        if self.is_log and self.low > 0:
            return float(self.low * (self.high / self.low) ** level)
        return self.low + (self.high - self.low) * level

    def brushed(self, brush: tuple[float, float] | None) -> Overlay:
        """Return the overlay with another brush; None is the whole scale."""
        return replace(self, brush=brush)

    def is_brushed(self, value: float) -> bool:
        """Return whether a value is in the brush; True without a brush."""
        return self.brush is None or self.brush[0] <= self.level(value) <= self.brush[1]

    def brushed_operations(self) -> frozenset[str]:
        """Return the operations with values in the brush."""
        return frozenset(name for name, value in self.values.items() if self.is_brushed(value))

    def colour(self, value: float) -> QColor:
        """Return the colour of a value."""
        return self.ramp(self.level(value))

    def ramp(self, level: float) -> QColor:
        """Return the colour of a position between the lowest (0) and the highest (1)."""
        if self.middle is not None:
            return ramp(level, _TURNING)
        return ramp(1.0 - level if self.merge in {"lowest", "mean"} else level)


def ramp(level: float, stops: tuple[str, ...] = _STOPS) -> QColor:
    """Return the colour of a position in [0, 1]."""
    position = min(max(level, 0.0), 1.0) * (len(stops) - 1)
    index = min(int(position), len(stops) - 2)
    low, high, part = QColor(stops[index]), QColor(stops[index + 1]), position - index
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


MIXED = "mixed"
TIMES = "\u00d7"
# Signs of differences, shown in addition to their colours.
SIGNS: dict[Difference, str] = {"added": "+", "removed": "\u2212", "changed": "\u2260"}


@dataclass(frozen=True, slots=True)
class Chip:
    """The config chip of an item: its label, which sets the colour, and its text.

    ``wish`` is the label that was asked for and not applied, "" if there is none.
    """

    label: str
    text: str
    wish: str = ""


class Marks:
    """All marks of one view. Merged marks of groups are cached until a mark changes."""

    def __init__(self) -> None:
        self.chips: Mapping[str, str] = {}
        self.wishes: Mapping[str, str] = {}
        self.reasons: Mapping[str, str] = {}
        self.tooltips: Mapping[str, str] = {}
        self.differences: Mapping[str, Difference] = {}
        self.words: Mapping[str, str] = {}
        self.search_hits: Mapping[str, tuple[int, ...]] = {}
        self.overlay: Overlay | None = None
        self.version = 0
        self._chips: dict[str, Chip | None] = {}
        self._amounts: dict[str, float | None] = {}
        self._differences: dict[str, str] = {}
        self._hits: dict[str, tuple[int, ...]] = {}

    def changed(self) -> None:
        """Clear the cache of merged marks."""
        self.version += 1
        for known in (self._chips, self._amounts, self._differences, self._hits):
            known.clear()

    def chip(self, item: str, hierarchy: Hierarchy) -> Chip | None:
        """Return the chip of an item; of a group ``a8w8 x12``, or ``mixed``."""
        if item not in self._chips:
            self._chips[item] = self._find_chip(item, hierarchy)
        return self._chips[item]

    def _find_chip(self, item: str, hierarchy: Hierarchy) -> Chip | None:
        if item not in hierarchy.groups:
            label = self.chips.get(item)
            return Chip(label, label, self.wishes.get(item, "")) if label else None
        leaves = [leaf for leaf in hierarchy.leaves(item) if leaf in self.chips]
        labels = Counter(self.chips[leaf] for leaf in leaves)
        if not labels:
            return None
        (label, count), *others = labels.most_common()
        if others:
            return Chip(MIXED, MIXED)
        wishes = {self.wishes.get(leaf, "") for leaf in leaves}
        wish = wishes.pop() if len(wishes) == 1 else ""
        return Chip(label, f"{label} {TIMES}{count}", wish)

    def amount(self, item: str, hierarchy: Hierarchy) -> float | None:
        """Return an operation's overlay value; of a group as the overlay merges them."""
        if self.overlay is None:
            return None
        if item not in self._amounts:
            values, overlay = self.overlay.values, self.overlay
            leaves = [leaf for leaf in hierarchy.leaves(item) if leaf in values]
            if overlay.brush is not None and item in hierarchy.groups:
                leaves = [leaf for leaf in leaves if overlay.is_brushed(values[leaf])]
            if overlay.merge == "mean":
                self._amounts[item] = _mean(leaves, values, overlay.weights)
            else:
                self._amounts[item] = _merged([values[leaf] for leaf in leaves], overlay.merge)
        return self._amounts[item]

    def share(self, item: str, hierarchy: Hierarchy) -> float | None:
        """Return an item's fraction of the overlay's total, in [0, 1]."""
        amount = self.amount(item, hierarchy)
        if amount is None or self.overlay is None or self.overlay.total <= 0:
            return None
        if self.overlay.merge != "sum":
            return None
        return abs(amount) / self.overlay.total

    def colour(self, item: str, hierarchy: Hierarchy) -> QColor | None:
        """Return the overlay colour of an item: of its value, or of a group's fraction."""
        if self.overlay is None:
            return None
        if item in hierarchy.groups and self.overlay.merge == "sum":
            share = self.share(item, hierarchy)
            return None if share is None else ramp(share)
        value = self.amount(item, hierarchy)
        if value is None or not self.overlay.is_brushed(value):
            return None
        return self.overlay.colour(value)

    def difference(self, item: str, hierarchy: Hierarchy) -> str:
        """Return the difference sign of an item, e.g. ``+``; of a group e.g. ``+2``."""
        if not self.differences:
            return ""
        if item not in self._differences:
            counts = Counter(
                self.differences[leaf] for leaf in hierarchy.leaves(item) if leaf in self.differences
            )
            parts = [(sign, counts[kind]) for kind, sign in SIGNS.items() if counts[kind]]
            self._differences[item] = " ".join(
                sign if item not in hierarchy.groups else f"{sign}{count}" for sign, count in parts
            )
        return self._differences[item]

    def hits(self, item: str, hierarchy: Hierarchy) -> tuple[int, ...]:
        """Return the indices of saved searches that match an item, or anything in a group."""
        if not self.search_hits:
            return ()
        if item not in self._hits:
            letters = {k for leaf in hierarchy.leaves(item) for k in self.search_hits.get(leaf, ())}
            self._hits[item] = tuple(sorted(letters))
        return self._hits[item]

    def reason(self, item: str, hierarchy: Hierarchy) -> str | None:
        """Return the reason of an item; of a group only if all its operations have one."""
        if item not in hierarchy.groups:
            return self.reasons.get(item)
        if not self.reasons:
            return None
        leaves = hierarchy.leaves(item)
        if leaves and all(leaf in self.reasons for leaf in leaves):
            return self.reasons[leaves[0]]
        return None


def _mean(names: list[str], values: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """Return the mean of values by their weights; None where nothing weighs."""
    weight = math.fsum(weights.get(name, 0.0) for name in names)
    return math.fsum(values[name] * weights.get(name, 0.0) for name in names) / weight if weight else None


def _merged(values: list[float], merge: Merge) -> float | None:
    if not values:
        return None
    if merge == "lowest":
        return min(values)
    if merge == "highest":
        return max(values)
    if merge == "farthest":
        return max(values, key=abs)
    return math.fsum(map(abs, values)) if len(values) > 1 else values[0]
