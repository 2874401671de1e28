"""Layered layout of each group's children, nested.

Every group is laid out separately and cached by the sizes of its open children, so that opening or
closing a group only recomputes that group and its ancestors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from workbench.errors import Cancelled
from workbench.graph.hierarchy import ROOT
from workbench.graph.labels import text_width
from workbench.graph.ordering import Rows, build_rows, order_rows, place_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from workbench.graph.hierarchy import Hierarchy


HEADER = 30.0
PADDING = 16.0
ROW_GAP = 34.0
COLUMN_GAP = 24.0
BEND_ROOM = 7.0
STUB_LENGTH = 16.0

Rect = tuple[float, float, float, float]
Point = tuple[float, float]
Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Route:
    """The line of one link, from its source's bottom to its target's top border.

    A stub has a gap: it ends shortly below its source and continues at its target. A ``reversed``
    route runs upwards.
    """

    source: str
    target: str
    points: tuple[Point, ...]
    is_stub: bool = False
    is_reversed: bool = False


@dataclass(slots=True)
class GroupLayout:
    """The layout inside one open group: sizes [px], children and routes relative to its corner."""

    width: float
    height: float
    boxes: dict[str, Rect] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)


def lay_out(
    children: list[str],
    links: list[tuple[str, str]],
    sizes: dict[str, Size],
    header: float = HEADER,
) -> GroupLayout:
    """Lay out the children of one group.

    ``children`` are in execution order; a link (source, target) against it is drawn upwards.
    ``sizes`` has width and height [px] of every child; ``header`` is the space above the first row.
    """
    index = {item: position for position, item in enumerate(children)}
    pairs = [(index[source], index[target]) for source, target in links]
    if pairs == [(low, low + 1) for low in range(len(children) - 1)]:
        return _lay_out_chain(children, sizes, header)
    edges = list(dict.fromkeys((min(pair), max(pair)) for pair in pairs))
    rows = build_rows(len(children), edges)
    order_rows(rows)
    half = [sizes[item][0] / 2 + COLUMN_GAP / 2 for item in children]
    half += [BEND_ROOM] * (len(rows.up) - len(children))
    shift = PADDING - COLUMN_GAP / 2
    xs = [x + shift for x in place_columns(rows, half)]
    bands = _bands(rows, [sizes[item][1] for item in children], header + PADDING / 2)
    right = max((x + room for x, room in zip(xs, half, strict=True)), default=80.0)
    layout = GroupLayout(right + shift, (bands[-1][1] if bands else header) + PADDING)
    band_of = {v: band for band, row in zip(bands, rows.layers, strict=True) for v in row}
    for position, item in enumerate(children):
        width, height = sizes[item]
        top, bottom = band_of[position]
        y = (top + bottom - height) / 2
        layout.boxes[item] = (xs[position] - width / 2, y, width, height)
    for link, pair in zip(links, pairs, strict=True):
        edge = (min(pair), max(pair))
        bends = [(xs[v], *band_of[v]) for v in rows.chains.get(edge, ())]
        ends = [layout.boxes[children[end]] for end in edge]
        points = _points(ends, [band_of[end] for end in edge], bends)
        is_stub, is_reversed = edge in rows.stubs, pair[0] > pair[1]
        way = (points[0], points[-1]) if is_stub else tuple(points)
        layout.routes.append(Route(*link, way[::-1] if is_reversed else way, is_stub, is_reversed))
    return layout


def _lay_out_chain(children: list[str], sizes: dict[str, Size], header: float) -> GroupLayout:
    """Lay out children that form a chain, the most common case, without ordering."""
    widest = max((sizes[item][0] for item in children), default=0.0)
    middle, top = PADDING + widest / 2, header + PADDING / 2
    layout = GroupLayout(widest + 2 * PADDING if children else 80.0, header + PADDING)
    for item in children:
        width, height = sizes[item]
        layout.boxes[item] = (middle - width / 2, top, width, height)
        layout.height = top + height + PADDING
        top += height + ROW_GAP
    for source, target in pairwise(children):
        start, end = layout.boxes[source], layout.boxes[target]
        layout.routes.append(
            Route(source, target, ((middle, start[1] + start[3]), (middle, end[1])))
        )
    return layout


def _bands(rows: Rows, heights: list[float], top: float) -> list[tuple[float, float]]:
    """Return the top and bottom of every row [px]."""
    bands = []
    for layer in rows.layers:
        tall = max((heights[v] for v in layer if v < rows.count), default=0.0)
        bands.append((top, top + tall))
        top += tall + ROW_GAP
    return bands


def _points(
    ends: list[Rect],
    bands: list[tuple[float, float]],
    bends: list[tuple[float, float, float]],
) -> list[Point]:
    """Return the corners of a line that leaves a row only through free space."""
    (x, y, width, height), (below_x, below_y, below_width, _) = ends
    start, end = x + width / 2, below_x + below_width / 2
    points = [(start, y + height), (start, bands[0][1])]
    for bend, top, bottom in bends:
        points += [(bend, top), (bend, bottom)]
    points += [(end, bands[1][0]), (end, below_y)]
    return [p for k, p in enumerate(points) if k == 0 or p != points[k - 1]]


NODE_HEIGHT = 42.0
PILL_HEIGHT = 22.0
GROUP_HEIGHT = 50.0
WIDEST = 300.0
CHIP_ROOM = 50.0
CHANGES_FOLLOWED = 200


@dataclass(frozen=True)
class Placement:
    """The drawing while some groups are open: the layout of every open group.

    ``insides`` has every open group, including the whole graph, in its own coordinates. Absolute
    coordinates are computed on demand, so that a change of one group is cheap.
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
        """Return whether an item is drawn: whether all its groups are open."""
        return self.hierarchy.parent.get(item) in self.insides

    @cached_property
    def boxes(self) -> dict[str, Rect]:
        """Absolute (x, y, width, height) of all items, groups before their children."""
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
            Cancelled: cancelled by the user; computed layouts are kept.
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
        """Return the groups that are drawn open: those whose ancestors are open too."""
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
        """Lay out the outdated groups, deepest first."""
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
