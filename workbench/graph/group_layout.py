"""The inside of one group: rows, order, columns and the lines between children."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from workbench.graph.coordinates import place_columns
from workbench.graph.ordering import order_rows
from workbench.graph.ranks import Rows, build_rows

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
    """The line of one link from its source's lower to its target's upper border.

    A stub has no line between: it ends shortly below its source and starts again at its target.
    A route against the flow (``reversed``) runs upwards.
    """

    source: str
    target: str
    points: tuple[Point, ...]
    is_stub: bool = False
    is_reversed: bool = False


@dataclass(slots=True)
class GroupLayout:
    """The inside of one open group: sizes [px], children and routes relative to its corner."""

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

    ``children`` are in execution order, and a link (source, target) against it is drawn upwards.
    ``sizes`` has width and height [px] of every child; ``header`` is room above the first row.
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
    """Lay out children that follow each other one by one, as most do: no order to find."""
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
    """Return the corners of a line that leaves a row only where nothing stands in its way."""
    (x, y, width, height), (below_x, below_y, below_width, _) = ends
    start, end = x + width / 2, below_x + below_width / 2
    points = [(start, y + height), (start, bands[0][1])]
    for bend, top, bottom in bends:
        points += [(bend, top), (bend, bottom)]
    points += [(end, bands[1][0]), (end, below_y)]
    return [p for k, p in enumerate(points) if k == 0 or p != points[k - 1]]
