"""Where everything is drawn: a layered layout of each group's children, nested.

Every group is laid out by itself and remembered by the sizes of its open children, so that opening
or closing one group costs only that group and those around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import Cancelled
from workbench.graph.group_layout import HEADER, GroupLayout, Rect, Route, Size, lay_out
from workbench.graph.groups import ROOT
from workbench.graph.wording import elide, text_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.graph.hierarchy import Hierarchy

NODE_HEIGHT = 42.0
PILL_HEIGHT = 22.0
GROUP_HEIGHT = 50.0
WIDEST = 300.0
CHIP_ROOM = 50.0


@dataclass(slots=True)
class Placement:
    """Absolute rectangles (x, y, width, height) of all visible items, groups before children.

    A route is given with the corner [px] that its points are relative to.
    """

    width: float
    height: float
    boxes: dict[str, Rect]
    routes: list[tuple[Route, float, float]]
    expanded: frozenset[str]


class Layout:
    """Lays out one hierarchy for any set of open groups."""

    def __init__(self, hierarchy: Hierarchy, cancelled: Callable[[], bool] | None = None) -> None:
        self.hierarchy = hierarchy
        self._cancelled = cancelled or (lambda: False)
        self._current: dict[str, GroupLayout] = {}
        self._expanded: frozenset[str] = frozenset()
        self._seen: dict[str, dict[tuple[tuple[str, float, float], ...], GroupLayout]] = {}
        self._sizes: dict[str, Size] = {}

    def arrange(self, expanded: frozenset[str]) -> Placement:
        """Return the placement for a set of open groups.

        Raises:
            Cancelled: somebody asked to stop; what is laid out by then is kept.
        """
        wanted = self._reachable(expanded)
        for key in self._dirty(wanted):
            self._current.pop(key, None)
        self._expanded = wanted
        return self._place(self._lay_out_all(wanted), wanted)

    def size(self, item: str) -> tuple[float, float]:
        """Return the width and height [px] of an operation or a closed group."""
        found = self._sizes.get(item)
        if found is None:
            found = self._sizes[item] = _size(self.hierarchy, item)
        return found

    def _reachable(self, expanded: frozenset[str]) -> frozenset[str]:
        groups, found, waiting = self.hierarchy.groups, {ROOT}, [ROOT]
        while waiting:
            for child in groups[waiting.pop()].children:
                if child in expanded and child in groups:
                    found.add(child)
                    waiting.append(child)
        return frozenset(found)

    def _dirty(self, wanted: frozenset[str]) -> set[str]:
        parent, found = self.hierarchy.parent, set()
        for key in wanted ^ self._expanded:
            item: str | None = key
            while item is not None and item not in found:
                found.add(item)
                item = parent.get(item)
        return found

    def _lay_out_all(self, wanted: frozenset[str]) -> GroupLayout:
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
        return self._current[ROOT]

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

    def _place(self, root: GroupLayout, wanted: frozenset[str]) -> Placement:
        boxes: dict[str, Rect] = {}
        routes: list[tuple[Route, float, float]] = []
        waiting: list[tuple[GroupLayout, float, float]] = [(root, 0.0, 0.0)]
        while waiting:
            layout, left, top = waiting.pop()
            for item, (x, y, width, height) in layout.boxes.items():
                boxes[item] = (left + x, top + y, width, height)
                if item in wanted:
                    waiting.append((self._current[item], left + x, top + y))
            routes += [(route, left, top) for route in layout.routes]
        return Placement(root.width, root.height, boxes, routes, wanted)


def _size(hierarchy: Hierarchy, item: str) -> tuple[float, float]:
    title, subtitle = elide(hierarchy.title(item)), elide(hierarchy.subtitle(item))
    node = hierarchy.node(item)
    if node is None:
        width = max(text_width(title) + CHIP_ROOM, text_width(subtitle, 11.0)) + 44.0
        return min(max(width, 120.0), WIDEST), GROUP_HEIGHT
    if node.kind in ("quantize", "dequantize", "observer", "input", "output"):
        return min(text_width(title, 11.0) + 28.0, WIDEST), PILL_HEIGHT
    width = max(text_width(title) + CHIP_ROOM, text_width(subtitle, 11.0)) + 24.0
    return min(max(width, 72.0), WIDEST), NODE_HEIGHT
