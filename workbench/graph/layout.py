"""Layered layout of each group's children, nested.

Every group is laid out separately and cached by the sizes of its open children, so that opening or
closing a group only recomputes that group and its ancestors.

A drawing flows down, right, or down in columns side by side (``wrapped``). Positions are computed
for a flow down, as ``across`` and ``along``; a flow to the right swaps both at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal

from workbench.errors import Cancelled
from workbench.graph.hierarchy import ROOT, Ports
from workbench.graph.labels import text_width
from workbench.graph.ordering import Rows, Section, chain, ordered_rows, place_columns, section_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from workbench.graph.hierarchy import Hierarchy, Tensor


HEADER = 30.0
PADDING = 16.0
ROW_GAP = 34.0
PORT_GAP = 20.0
EMPTY_WIDTH = 80.0
COLUMN_GAP = 24.0
BEND_ROOM = 7.0
STUB_LENGTH = 16.0
# A flow to the right has room for a tensor's shape between two columns.
RIGHT_GAP = 124.0
# Groups are wrapped from this height on, into about this width per height [px].
WRAPPED_FROM, WRAPPED_ASPECT = 700.0, 1.6
MOST_COLUMNS = 40
LANE = 12.0
# A column may be this part of its height longer or shorter to end where fewer lines go on.
TOLERATED = 0.3

Flow = Literal["down", "right", "wrapped"]
Rect = tuple[float, float, float, float]
Point = tuple[float, float]
Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Route:
    """The line of one link, from its source's bottom to its target's top border.

    In a flow to the right, from its source's right to its target's left border.

    A stub has a gap: it ends shortly below its source and continues at its target. A ``reversed``
    route runs upwards. Inside an open group, ``port`` tells a route from its upper border to a
    child (``entry``: the source is the group) and from a child to its lower border (``exit``: the
    target is the group). ``tensor`` is set where the ends depend on it.
    """

    source: str
    target: str
    points: tuple[Point, ...]
    is_stub: bool = False
    is_reversed: bool = False
    port: Literal["", "entry", "exit"] = ""
    tensor: Tensor | None = None


@dataclass(slots=True)
class GroupLayout:
    """The layout inside one open group: sizes [px], children and routes relative to its corner.

    ``entries`` and ``exits`` have the x [px] at which tensors cross its upper and lower border;
    in a flow to the right the y at its left and right border.
    """

    width: float
    height: float
    boxes: dict[str, Rect] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)
    entries: dict[Tensor, float] = field(default_factory=dict)
    exits: dict[Tensor, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Contents:
    """What one group draws: children, links, sizes and ports.

    ``children`` are in execution order; a link (source, target) against it is drawn upwards; it
    has the tensors that it carries. ``sizes`` has width and height [px] of every child, ``inner``
    the layouts of the open ones. ``key`` is the group, ``ports`` what crosses its border. A
    ``thorough`` layout tries many orders for few crossings.
    """

    children: Sequence[str]
    links: Mapping[tuple[str, str], Sequence[Tensor]]
    sizes: Mapping[str, Size]
    key: str = ROOT
    ports: Ports = field(default_factory=Ports)
    thorough: bool = True
    inner: Mapping[str, GroupLayout] = field(default_factory=dict)


def lay_out(contents: Contents, header: float = HEADER, flow: Flow = "down") -> GroupLayout:
    """Lay out the children of one group; ``header`` is the space above the first row [px]."""
    return _Drawing(contents, header, flow).layout()


class _Drawing:
    """Lays out one group.

    The vertices are the entries, the children and the exits, in this order.
    """

    def __init__(self, contents: Contents, header: float, flow: Flow) -> None:
        self._contents, self._flow = contents, flow
        is_right = flow == "right"
        # The space for the header, across and along the flow.
        self._beside, self._before = (header, 0.0) if is_right else (0.0, header)
        self._row_gap = RIGHT_GAP if is_right else ROW_GAP
        self._entries, self._exits = [*contents.ports.entries], [*contents.ports.exits]
        first = len(self._entries)
        children = contents.children
        self._index = {child: first + position for position, child in enumerate(children)}
        self._last = first + len(children)
        self._count = self._last + len(self._exits)
        # The children, and the group itself for its ports.
        self._names = [contents.key] * first + [*children] + [contents.key] * len(self._exits)
        sizes = [contents.sizes[child] for child in children]
        self._sizes = (
            [(0.0, 0.0)] * first
            + [(size[1], size[0]) if is_right else size for size in sizes]
            + [(0.0, 0.0)] * len(self._exits)
        )

    def layout(self) -> GroupLayout:
        index, ports = self._index, self._contents.ports
        entering = [
            (position, index[child], tensor)
            for position, tensor in enumerate(self._entries)
            for child in ports.entries[tensor]
        ]
        leaving = [
            (index[ports.exits[tensor]], self._last + position, tensor)
            for position, tensor in enumerate(self._exits)
        ]
        linked = [(index[source], index[target]) for source, target in self._contents.links]
        pairs = [*((a, b) for a, b, _ in entering), *linked, *((a, b) for a, b, _ in leaving)]
        edges = list(dict.fromkeys((min(pair), max(pair)) for pair in pairs))
        rows = self._rows(edges)
        self._position_vertices(rows)
        layout = self._sized()
        for position, child, tensor in entering:
            self._route(layout, rows, (position, child), "entry", tensor)
        for (source, target), pair in zip(self._contents.links, linked, strict=True):
            for carried in self._tensors(source, target, pair):
                self._route(layout, rows, pair, "", carried)
        for child, position, tensor in leaving:
            self._route(layout, rows, (child, position), "exit", tensor)
        return _swapped(layout) if self._flow == "right" else layout

    def _rows(self, edges: list[tuple[int, int]]) -> Rows:
        """Return the vertices in rows; a chain, the most common case, needs no ordering."""
        count = self._count
        if len(edges) == count - 1 and all(high == low + 1 for low, high in edges):
            return chain(count)
        return ordered_rows(
            count, tuple(edges), len(self._entries), len(self._exits), thorough=self._contents.thorough
        )

    def _position_vertices(self, rows: Rows) -> None:
        """Compute the middle [px] of every vertex, and the top and bottom of every row."""
        half = [width / 2 + (COLUMN_GAP / 2 if width else BEND_ROOM) for width, _ in self._sizes]
        half += [BEND_ROOM] * (len(rows.up) - self._count)
        self._xs = place_columns(rows, half)
        self._band_of: dict[int, tuple[float, float]] = {}
        self._turns: dict[int, list[Point]] = {}
        left = self._beside + PADDING - COLUMN_GAP / 2
        bottom = self._before
        cuts = self._cuts(rows, half) if self._flow == "wrapped" else []
        turning: list[tuple[int, Point]] = []
        for first, last in pairwise([0, *cuts, len(rows.layers)]):
            section = section_of(rows, first, last)
            columns, room = self._xs, half
            if cuts:
                room = [half[v] for v in section.vertices] + [BEND_ROOM] * len(section.turns)
                columns = place_columns(section.rows, room)
            width = max((x + r for x, r in zip(columns, room, strict=True)), default=0.0)
            left += self._turn_in(section, turning, columns, left)
            for vertex, x in zip(section.vertices, [*columns], strict=False):
                self._xs[vertex] = left + x
            lower = self._stack(rows.layers[first:last], len(turning) * LANE)
            left += width
            if last < len(rows.layers):
                turning = self._turn_out(rows, last, lower, left)
                lower += PORT_GAP + len(turning) * LANE
            bottom = max(bottom, lower)
        self._width = max(left + PADDING - COLUMN_GAP / 2, self._beside + PADDING)
        self._close(bottom)

    def _close(self, bottom: float) -> None:
        """Set the height, and the lower border where tensors leave."""
        self._height = bottom + PADDING
        if not self._xs and self._flow == "right":
            self._height = EMPTY_WIDTH
        elif not self._xs:
            self._width = EMPTY_WIDTH
        if self._exits:
            # The lower border is below the last row of every column.
            self._height = bottom + PORT_GAP
            for vertex in range(self._last, self._count):
                self._band_of[vertex] = (self._height, self._height)

    def _stack(self, layers: list[list[int]], before: float) -> float:
        """Set the bands of consecutive rows; return the bottom of the last row of children.

        ``before`` is the space for lines that come from another column.
        """
        top = self._before + before
        if before:
            top += PORT_GAP
        elif not self._entries:
            top += PADDING / 2
        bottom = self._before
        for layer in layers:
            tall = max(self._sizes[v][1] for v in layer if v < self._count)
            self._band_of.update(dict.fromkeys(layer, (top, top + tall)))
            is_exit = self._last <= layer[0] < self._count
            bottom = bottom if is_exit else top + tall
            top += tall + (PORT_GAP if layer[0] < len(self._entries) else self._row_gap)
        return bottom

    def _turn_out(self, rows: Rows, cut: int, bottom: float, right: float) -> list[tuple[int, Point]]:
        """Lead the lines that leave a column to its right border.

        The leftmost line is the lowest and takes the rightmost lane, so that none cross.

        Returns:
            The sources of the lines in their order, with the foot of their lanes.
        """
        sources = [vertex for vertex in rows.layers[cut - 1] if rows.down[vertex]]
        turning = []
        for position, vertex in enumerate(sources):
            x, rest = self._way_out(vertex), len(sources) - position
            y = bottom + PORT_GAP + (rest - 1) * LANE
            lane = right + (rest - 1) * LANE
            self._turns[vertex] = [(x, bottom + PORT_GAP), (x, y), (lane, y)]
            turning.append((vertex, (lane, y)))
        return turning

    def _way_out(self, vertex: int) -> float:
        """Return where most lines leave a vertex: the port of an open group with a single one."""
        x = self._xs[vertex]
        inner = self._contents.inner.get(self._names[vertex]) if self._is_child(vertex) else None
        if inner is None or len(inner.exits) != 1:
            return x
        return x - self._sizes[vertex][0] / 2 + next(iter(inner.exits.values()))

    def _turn_in(
        self, section: Section, turning: list[tuple[int, Point]], columns: list[float], left: float
    ) -> float:
        """Lead the lines from the former column up and into this one.

        Returns:
            The width of their lanes [px].
        """
        if not turning:
            return 0.0
        room = len(turning) * LANE + COLUMN_GAP / 2
        for position, (vertex, (lane, _)) in enumerate(turning):
            y = self._before + PADDING / 2 + (len(turning) - 1 - position) * LANE
            x = left + room + columns[section.turns[vertex]]
            bottom = self._before + PADDING / 2 + len(turning) * LANE
            self._turns[vertex] += [(lane, y), (x, y), (x, bottom)]
        return room

    def _cuts(self, rows: Rows, half: list[float]) -> list[int]:
        """Return the rows at which columns begin, for about the wanted width per height."""
        layers = rows.layers
        tall = [max(self._sizes[v][1] for v in w if v < self._count) for w in layers]
        ends = list(accumulate(t + self._row_gap for t in tall))
        first, last = 1 + bool(self._entries), len(layers) - bool(self._exits)
        if not ends or ends[-1] < WRAPPED_FROM:
            return []
        wide = [
            (min(self._xs[v] - half[v] for v in w), max(self._xs[v] + half[v] for v in w)) for w in layers
        ]
        costs = [sum(bool(rows.down[v]) for v in layer) for layer in layers]
        best: list[int] = []
        best_error = _misfit(wide, ends, best)
        for columns in range(2, MOST_COLUMNS + 1):
            share = ends[-1] / columns
            cuts: list[int] = []
            for wanted in (share * k for k in range(1, columns)):
                near = [row for row in range(first, last) if abs(ends[row - 1] - wanted) <= TOLERATED * share]
                if near:
                    cuts.append(min(near, key=lambda row: (costs[row - 1], abs(ends[row - 1] - wanted))))
            error = _misfit(wide, ends, cuts)
            if error < best_error:
                best, best_error = cuts, error
            elif error > 2 * best_error:
                break
        return best

    def _sized(self) -> GroupLayout:
        layout = GroupLayout(self._width, self._height)
        for child, vertex in self._index.items():
            width, height = self._sizes[vertex]
            top, bottom = self._band_of[vertex]
            y = (top + bottom - height) / 2
            layout.boxes[child] = (self._xs[vertex] - width / 2, y, width, height)
        layout.entries = {t: self._xs[position] for position, t in enumerate(self._entries)}
        layout.exits = {t: self._xs[self._last + p] for p, t in enumerate(self._exits)}
        return layout

    def _tensors(self, source: str, target: str, pair: tuple[int, int]) -> Sequence[Tensor | None]:
        """Return the tensors of a link that have lines of their own, or None for one line."""
        inner = self._contents.inner
        if pair[0] > pair[1] or (source not in inner and target not in inner):
            return (None,)
        return self._contents.links[source, target]

    def _route(
        self,
        layout: GroupLayout,
        rows: Rows,
        pair: tuple[int, int],
        port: Literal["", "entry", "exit"],
        tensor: Tensor | None,
    ) -> None:
        upper, lower = edge = (min(pair), max(pair))
        names = [self._names[end] for end in pair]
        start, end = self._bottom(layout, upper, tensor), self._top(layout, lower, tensor)
        points = [start, (start[0], self._band_of[upper][1]), *self._turns.get(upper, ())]
        for bend in rows.chains.get(edge, ()):
            top, bottom = self._band_of[bend]
            points += [(self._xs[bend], top), (self._xs[bend], bottom)]
            points += self._turns.get(bend, ())
        points += [(end[0], self._band_of[lower][0]), end]
        points = [p for k, p in enumerate(points) if k == 0 or p != points[k - 1]]
        is_stub, is_reversed = edge in rows.stubs, pair != edge
        way = (points[0], points[-1]) if is_stub else tuple(points)
        way = way[::-1] if is_reversed else way
        layout.routes.append(Route(names[0], names[1], way, is_stub, is_reversed, port, tensor))

    def _is_child(self, vertex: int) -> bool:
        return len(self._entries) <= vertex < self._last

    def _bottom(self, layout: GroupLayout, vertex: int, tensor: Tensor | None) -> Point:
        """Return where a line leaves a vertex: an open child at the port of the tensor."""
        if not self._is_child(vertex):
            return self._xs[vertex], self._band_of[vertex][1]
        child = self._names[vertex]
        x, y, width, height = layout.boxes[child]
        inner = self._contents.inner.get(child)
        at = None if inner is None or tensor is None else inner.exits.get(tensor)
        return (x + width / 2 if at is None else x + at), y + height

    def _top(self, layout: GroupLayout, vertex: int, tensor: Tensor | None) -> Point:
        """Return where a line enters a vertex: an open child at the port of the tensor."""
        if not self._is_child(vertex):
            return self._xs[vertex], self._band_of[vertex][0]
        child = self._names[vertex]
        x, y, width, _ = layout.boxes[child]
        inner = self._contents.inner.get(child)
        at = None if inner is None or tensor is None else inner.entries.get(tensor)
        return (x + width / 2 if at is None else x + at), y


def _misfit(wide: list[tuple[float, float]], ends: list[float], cuts: list[int]) -> float:
    """Return how far columns are from the wanted width per height, as a ratio of at least 1."""
    starts, columns = [0.0, *ends], [*pairwise([0, *cuts, len(ends)])]
    across = sum(max(w[1] for w in wide[a:b]) - min(w[0] for w in wide[a:b]) for a, b in columns)
    down = max(starts[b] - starts[a] for a, b in columns)
    ratio = (across + len(cuts) * COLUMN_GAP) / down / WRAPPED_ASPECT
    return max(ratio, 1.0 / ratio)


def _swapped(layout: GroupLayout) -> GroupLayout:
    """Return a layout with x and y swapped."""
    boxes = {child: (y, x, height, width) for child, (x, y, width, height) in layout.boxes.items()}
    routes = [replace(r, points=tuple((y, x) for x, y in r.points)) for r in layout.routes]
    return GroupLayout(layout.height, layout.width, boxes, routes, layout.entries, layout.exits)


NODE_HEIGHT = 42.0
PILL_HEIGHT = 22.0
GROUP_HEIGHT = 50.0
WIDEST = 300.0
CHIP_ROOM = 50.0
# Graphs with up to so many operations and groups are ordered thoroughly; larger ones open quickly.
THOROUGH_UP_TO = 8000
CHANGES_FOLLOWED = 200


@dataclass(frozen=True)
class Placement:
    """The drawing while some groups are open: the layout of every open group.

    ``insides`` has every open group, including the whole graph, in its own coordinates. Absolute
    coordinates are computed on demand, so that a change of one group is cheap.
    """

    hierarchy: Hierarchy
    insides: dict[str, GroupLayout]
    flow: Flow = "down"

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
        boxes: dict[str, Rect] = {}
        waiting = [(self.insides[ROOT], 0.0, 0.0)]
        while waiting:
            inside, left, top = waiting.pop()
            for item, (x, y, width, height) in inside.boxes.items():
                boxes[item] = (left + x, top + y, width, height)
                if item in self.insides:
                    waiting.append((self.insides[item], left + x, top + y))
        return boxes


class Layout:
    """Lays out one hierarchy in one flow for any set of open groups."""

    def __init__(
        self, hierarchy: Hierarchy, cancelled: Callable[[], bool] | None = None, flow: Flow = "down"
    ) -> None:
        self.hierarchy, self.flow = hierarchy, flow
        self._thorough = len(hierarchy.parent) <= THOROUGH_UP_TO
        self._cancelled = cancelled or (lambda: False)
        self._current: dict[str, GroupLayout] = {}
        self._expanded: frozenset[str] = frozenset()
        self._asked: frozenset[str] = frozenset()
        self._seen: dict[str, dict[tuple[tuple[str, int], ...], GroupLayout]] = {}
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
        return Placement(self.hierarchy, dict(self._current), self.flow)

    def size(self, item: str) -> tuple[float, float]:
        """Return the width and height [px] of an operation or a closed group."""
        size = self._sizes.get(item)
        if size is None:
            size = self._sizes[item] = _size(self.hierarchy, item)
        return size

    def _reachable(self, expanded: frozenset[str]) -> frozenset[str]:
        """Return the groups that are drawn open: those whose ancestors are open too."""
        changed = expanded ^ self._asked
        if ROOT not in self._expanded or len(changed) > CHANGES_FOLLOWED:
            return frozenset(self._open_below(ROOT, expanded))
        groups = set(self._expanded)
        for key in changed:
            if key not in expanded:
                groups.difference_update(self._open_below(key, groups))
            elif self.hierarchy.parent.get(key) in groups:
                groups.update(self._open_below(key, expanded))
        return frozenset(groups | {ROOT})

    def _open_below(self, key: str, expanded: Collection[str]) -> set[str]:
        if key not in self.hierarchy.groups:
            return set()
        groups, opened, waiting = self.hierarchy.groups, {key}, [key]
        while waiting:
            for child in groups[waiting.pop()].children:
                if child in expanded and child in groups:
                    opened.add(child)
                    waiting.append(child)
        return opened

    def _dirty(self, expanded: frozenset[str]) -> set[str]:
        outdated: set[str] = set()
        for key in expanded ^ self._expanded:
            outdated.update((key, *self.hierarchy.ancestors(key)))
        return outdated

    def _lay_out_all(self, expanded: frozenset[str]) -> None:
        """Lay out the outdated groups, deepest first."""
        groups, order, waiting = self.hierarchy.groups, [], [ROOT]
        while waiting:
            key = waiting.pop()
            if key in self._current:
                continue
            order.append(key)
            waiting.extend(child for child in groups[key].children if child in expanded)
        for key in reversed(order):
            if self._cancelled():
                raise Cancelled
            self._current[key] = self._recall(key, expanded)

    def _recall(self, key: str, expanded: frozenset[str]) -> GroupLayout:
        group = self.hierarchy.groups[key]
        sizes = {}
        inner = {child: self._current[child] for child in group.children if child in expanded}
        for child in group.children:
            drawn = inner.get(child)
            sizes[child] = self.size(child) if drawn is None else (drawn.width, drawn.height)
        # Layouts are kept in ``_seen``, so that one identity is one layout.
        signature = [(child, id(drawn)) for child, drawn in inner.items()]
        seen = self._seen.setdefault(key, {})
        drawing = seen.get(tuple(signature))
        if drawing is None:
            links = {pair: link.tensors for pair, link in group.links.items()}
            contents = Contents(group.children, links, sizes, key, group.ports, self._thorough, inner)
            drawing = lay_out(contents, 0.0 if key == ROOT else HEADER, self.flow)
            seen[tuple(signature)] = drawing
        return drawing


def _size(hierarchy: Hierarchy, item: str) -> tuple[float, float]:
    title, subtitle = hierarchy.words(item)
    node = hierarchy.node(item)
    if node is None:
        width = max(text_width(title) + CHIP_ROOM, text_width(subtitle, 11.0)) + 44.0
        return min(width, WIDEST), GROUP_HEIGHT
    if node.kind in ("quantize", "dequantize", "observer", "input", "output"):
        return min(text_width(title, 11.0) + 28.0, WIDEST), PILL_HEIGHT
    width = max(text_width(title) + CHIP_ROOM, text_width(subtitle, 11.0)) + 24.0
    return min(width, WIDEST), NODE_HEIGHT
