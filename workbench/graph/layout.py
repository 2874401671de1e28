"""Where everything is drawn: a layered layout of each group's children, nested.

Every group is laid out by itself and remembered by the sizes of its open children, so that opening
or closing one group costs only that group and those around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.errors import Cancelled
from workbench.graph.group_layout import HEADER, GroupLayout, Rect, Size, lay_out
from workbench.graph.groups import ROOT
from workbench.graph.wording import text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from workbench.graph.hierarchy import Hierarchy

NODE_HEIGHT = 42.0
PILL_HEIGHT = 22.0
GROUP_HEIGHT = 50.0
WIDEST = 300.0
CHIP_ROOM = 50.0
CHANGES_FOLLOWED = 200


@dataclass(frozen=True)
class Placement:
    """Where everything is while some groups are open: the inside of every open group.

    ``insides`` has every open group, the whole graph included, in its own coordinates. What is
    absolute is worked out where it is asked for, so that a change of one group costs little.
    """

    hierarchy: Hierarchy
    insides: dict[str, GroupLayout]

    @property
    def width(self) -> float:
        """Width of the whole drawing [px]."""
        return self.insides[ROOT].width

    @property
    def height(self) -> float:
        """Height of the whole drawing [px]."""
        return self.insides[ROOT].height

    def shows(self, item: str) -> bool:
        """Tell whether an item is drawn: whether all groups around it are open."""
        return self.hierarchy.parent.get(item) in self.insides

    @cached_property
    def boxes(self) -> dict[str, Rect]:
        """Absolute (x, y, width, height) of all items, groups before what is inside of them."""
        found: dict[str, Rect] = {}
        waiting = [(self.insides[ROOT], 0.0, 0.0)]
        while waiting:
            inside, left, top = waiting.pop()
            for item, (x, y, width, height) in inside.boxes.items():
                found[item] = (left + x, top + y, width, height)
                if item in self.insides:
                    waiting.append((self.insides[item], left + x, top + y))
        return found


class Layout:
    """Lays out one hierarchy for any set of open groups."""

    def __init__(self, hierarchy: Hierarchy, cancelled: Callable[[], bool] | None = None) -> None:
        self.hierarchy = hierarchy
        self._cancelled = cancelled or (lambda: False)
        self._current: dict[str, GroupLayout] = {}
        self._expanded: frozenset[str] = frozenset()
        self._asked: frozenset[str] = frozenset()
        self._seen: dict[str, dict[tuple[tuple[str, float, float], ...], GroupLayout]] = {}
        self._sizes: dict[str, Size] = {}

    def arrange(self, expanded: frozenset[str]) -> Placement:
        """Return the placement for a set of open groups.

        Raises:
            Cancelled: somebody asked to stop; what is laid out by then is kept.
        """
        expanded -= {ROOT}
        wanted = self._reachable(expanded)
        for key in self._dirty(wanted):
            self._current.pop(key, None)
        self._expanded, self._asked = wanted, expanded
        self._lay_out_all(wanted)
        return Placement(self.hierarchy, dict(self._current))

    def size(self, item: str) -> tuple[float, float]:
        """Return the width and height [px] of an operation or a closed group."""
        found = self._sizes.get(item)
        if found is None:
            found = self._sizes[item] = _size(self.hierarchy, item)
        return found

    def _reachable(self, expanded: frozenset[str]) -> frozenset[str]:
        """Return the groups that show open: those asked for whose surroundings are open too."""
        changed = expanded ^ self._asked
        if ROOT not in self._expanded or len(changed) > CHANGES_FOLLOWED:
            return frozenset(self._open_below(ROOT, expanded))
        found = set(self._expanded)
        for key in changed:
            if key not in expanded:
                found.difference_update(self._open_below(key, found))
            elif self.hierarchy.parent.get(key) in found and key in self.hierarchy.groups:
                found.update(self._open_below(key, expanded))
        return frozenset(found | {ROOT})

    def _open_below(self, key: str, expanded: Collection[str]) -> set[str]:
        if key not in self.hierarchy.groups:
            return set()
        groups, found, waiting = self.hierarchy.groups, {key}, [key]
        while waiting:
            for child in groups[waiting.pop()].children:
                if child in expanded and child in groups:
                    found.add(child)
                    waiting.append(child)
        return found

    def _dirty(self, wanted: frozenset[str]) -> set[str]:
        parent, found = self.hierarchy.parent, set()
        for key in wanted ^ self._expanded:
            item: str | None = key
            while item is not None and item not in found:
                found.add(item)
                item = parent.get(item)
        return found

    def _lay_out_all(self, wanted: frozenset[str]) -> None:
        """Lay out the groups that are not current, the deepest first."""
        groups, order, waiting = self.hierarchy.groups, [], [ROOT]
        while waiting:
            key = waiting.pop()
            if key in self._current:
                continue
            order.append(key)
            waiting.extend(child for child in groups[key].children if child in wanted)
        for key in reversed(order):
            if self._cancelled():
                raise Cancelled
            self._current[key] = self._recall(key, wanted)

    def _recall(self, key: str, wanted: frozenset[str]) -> GroupLayout:
        children = self.hierarchy.groups[key].children
        sizes = {}
        signature: list[tuple[str, float, float]] = []
        for child in children:
            if child in wanted:
                inner = self._current[child]
                sizes[child] = (inner.width, inner.height)
                signature.append((child, inner.width, inner.height))
            else:
                sizes[child] = self.size(child)
        seen = self._seen.setdefault(key, {})
        found = seen.get(tuple(signature))
        if found is None:
            links = list(self.hierarchy.groups[key].links)
            found = lay_out(children, links, sizes, 0.0 if key == ROOT else HEADER)
            seen[tuple(signature)] = found
        return found


def _size(hierarchy: Hierarchy, item: str) -> tuple[float, float]:
    title, subtitle = hierarchy.words(item)
    node = hierarchy.node(item)
    if node is None:
        width = max(text_width(title) + CHIP_ROOM, text_width(subtitle, 11.0)) + 44.0
        return min(max(width, 120.0), WIDEST), GROUP_HEIGHT
    if node.kind in ("quantize", "dequantize", "observer", "input", "output"):
        return min(text_width(title, 11.0) + 28.0, WIDEST), PILL_HEIGHT
    width = max(text_width(title) + CHIP_ROOM, text_width(subtitle, 11.0)) + 24.0
    return min(max(width, 72.0), WIDEST), NODE_HEIGHT
