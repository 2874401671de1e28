"""What is told about operations besides the drawing: chips, reasons, overlay, differences, texts.

Marks are given per operation; a closed group answers for all operations inside of it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ui.graph.overlay import ramp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QColor

    from ui.graph.overlay import Merge, Overlay
    from workbench.graph.compare import Difference
    from workbench.graph.hierarchy import Hierarchy

MIXED = "mixed"
TIMES = "\u00d7"
# How a difference is written: never by its colour alone.
SIGNS: dict[Difference, str] = {"added": "+", "removed": "\u2212", "changed": "\u2260"}


@dataclass(frozen=True, slots=True)
class Chip:
    """A config on an item: the label it has a colour for, and the text to write."""

    label: str
    text: str


class Marks:
    """All marks of one view. Answers for groups are remembered until a mark changes."""

    def __init__(self) -> None:
        self.chips: Mapping[str, str] = {}
        self.reasons: Mapping[str, str] = {}
        self.tooltips: Mapping[str, str] = {}
        self.differences: Mapping[str, Difference] = {}
        self.words: Mapping[str, str] = {}
        self.found: Mapping[str, tuple[int, ...]] = {}
        self.overlay: Overlay | None = None
        self.version = 0
        self._chips: dict[str, Chip | None] = {}
        self._amounts: dict[str, float | None] = {}
        self._differences: dict[str, str] = {}
        self._hits: dict[str, tuple[int, ...]] = {}

    def changed(self) -> None:
        """Forget what was worked out from earlier marks."""
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
            values, overlay = self.overlay.values, self.overlay
            found = [values[leaf] for leaf in hierarchy.leaves(item) if leaf in values]
            if overlay.brush is not None and item in hierarchy.groups:
                found = [value for value in found if overlay.is_brushed(value)]
            self._amounts[item] = _merged(found, overlay.merge)
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
        if value is None or not self.overlay.is_brushed(value):
            return None
        return self.overlay.colour(value)

    def difference(self, item: str, hierarchy: Hierarchy) -> str:
        """Return what became of an item, e.g. ``+``; of a group all of it, e.g. ``+2``."""
        if not self.differences:
            return ""
        if item not in self._differences:
            counts = Counter(
                self.differences[leaf]
                for leaf in hierarchy.leaves(item)
                if leaf in self.differences
            )
            parts = [(sign, counts[kind]) for kind, sign in SIGNS.items() if counts[kind]]
            self._differences[item] = " ".join(
                sign if item not in hierarchy.groups else f"{sign}{count}" for sign, count in parts
            )
        return self._differences[item]

    def hits(self, item: str, hierarchy: Hierarchy) -> tuple[int, ...]:
        """Return the saved queries that mean an item, or anything in a group, by their places."""
        if not self.found:
            return ()
        if item not in self._hits:
            found = {k for leaf in hierarchy.leaves(item) for k in self.found.get(leaf, ())}
            self._hits[item] = tuple(sorted(found))
        return self._hits[item]

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
    if merge == "farthest":
        return max(values, key=abs)
    return math.fsum(map(abs, values)) if len(values) > 1 else values[0]
