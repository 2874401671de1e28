"""How many edges of a drawing cross: of ours with everything open, and of Graphviz dot's."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

from workbench.graph.hierarchy import ROOT, Hierarchy
from workbench.graph.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.graph.layout import Flow, Route

Point = tuple[float, float]
Segment = tuple[Point, Point, tuple[object, object]]

CELL = 60.0
INCH = 72.0


def ours(tree: Hierarchy, flow: Flow = "down") -> int:
    """Return the crossings of the drawing with every group open."""
    placement = Layout(tree, flow=flow).arrange(frozenset(tree.groups))
    boxes = placement.boxes
    segments: list[Segment] = []
    for key, inside in placement.insides.items():
        left, top = boxes[key][:2] if key != ROOT else (0.0, 0.0)
        segments += route_segments(inside.routes, left, top)
    return crossings(segments)


def route_segments(routes: Iterable[Route], left: float = 0.0, top: float = 0.0) -> list[Segment]:
    """Return the segments of drawn routes, moved by ``left`` and ``top``."""
    return [
        segment
        for route in routes
        if not route.is_stub
        for segment in _segments([(left + x, top + y) for x, y in route.points], (route.source, route.target))
    ]


def dot(tree: Hierarchy, seconds: float) -> int | None:
    """Return the crossings of dot's drawing with clusters; None if it does not finish."""
    numbers = {n: k for k, n in enumerate(tree.parent) if n not in tree.groups}
    lines = ["digraph {", 'node [shape=box label=""]', "splines=polyline"]
    layout = Layout(tree)
    _cluster(tree, ROOT, numbers, layout, lines)
    for source, target in dict.fromkeys(_edges(tree)):
        lines.append(f"{numbers[source]} -> {numbers[target]}")
    lines.append("}")
    try:
        done = subprocess.run(
            ["dot", "-Tplain"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    segments: list[Segment] = []
    for line in done.stdout.splitlines():
        if line.startswith("edge "):
            _, source, target, count, *rest = line.split()
            values = [float(v) * INCH for v in rest[: 2 * int(count)]]
            points = list(zip(values[::2], values[1::2], strict=True))
            segments += _segments(points, (source, target))
    return crossings(segments)


def _cluster(tree: Hierarchy, key: str, numbers: dict[str, int], layout: Layout, lines: list[str]) -> None:
    for child in tree.groups[key].children:
        if child in tree.groups:
            lines.append(f'subgraph "cluster_{len(lines)}" {{')
            _cluster(tree, child, numbers, layout, lines)
            lines.append("}")
        else:
            width, height = layout.size(child)
            lines.append(f"{numbers[child]} [width={width / INCH} height={height / INCH}]")


def _edges(tree: Hierarchy) -> Iterable[tuple[str, str]]:
    for edge in tree.snapshot.edges:
        target = tree.owner.get(edge.target)
        if tree.owner.get(edge.source) == edge.source and target not in (None, edge.source):
            yield edge.source, str(target)


def _segments(points: list[Point], ends: tuple[object, object]) -> list[Segment]:
    return [(a, b, ends) for a, b in pairwise(points) if a != b]


def crossings(segments: list[Segment]) -> int:
    """Return the pairs of edges without a common end that cross, each pair once."""
    cells: dict[tuple[int, int], list[Segment]] = defaultdict(list)
    for segment in segments:
        (west, east), (north, south) = (
            sorted(int(end[axis] // CELL) for end in segment[:2]) for axis in (0, 1)
        )
        for cell in product(range(west, east + 1), range(north, south + 1)):
            cells[cell].append(segment)
    found = set()
    for inside in cells.values():
        for one, other in combinations(inside, 2):
            if not set(one[2]) & set(other[2]) and _cross(one, other):
                found.add(frozenset((one[2], other[2])))
    return len(found)


def _cross(one: Segment, other: Segment) -> bool:
    (a, b, _), (c, d, _) = one, other
    if max(a[0], b[0]) < min(c[0], d[0]) or max(c[0], d[0]) < min(a[0], b[0]):
        return False
    return _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0


def _side(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
