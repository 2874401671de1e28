"""Drawings of groups, and what no drawing may do."""

from __future__ import annotations

from itertools import pairwise

from workbench.graph.hierarchy import ROOT
from workbench.graph.layout import HEADER, Contents, lay_out

# Points of a curve that are looked at, and how far inside a box a line must be to touch it [px].
SAMPLES, TOUCH = 9, 0.5
BOW = 0.45


def drawn_group(children, links, sizes, header=HEADER):
    """Return the layout of children without ports."""
    return lay_out(Contents(children, dict.fromkeys(links, ()), sizes), header)


def way(points):
    """Return points along a route as it is painted: curves between rows, straight elsewhere."""
    found = [points[0]]
    for (x, y), (to_x, to_y) in pairwise(points):
        for k in range(1, SAMPLES + 1):
            t = k / SAMPLES
            bow = (to_y - y) * BOW
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            found.append((
                (a + b) * x + (c + d) * to_x, a * y + b * (y + bow) + c * (to_y - bow) + d * to_y
            ))  # fmt: skip
    return found


def struck_boxes(placement):
    """Return every (route, item) where a line runs through a box that it does not join.

    A line may run inside the groups that contain one of its ends, and nowhere else.
    """
    boxes = placement.boxes
    found = []
    for key, inside in placement.insides.items():
        left, top = boxes[key][:2] if key != ROOT else (0.0, 0.0)
        around = {key, *placement.hierarchy.ancestors(key)}
        for route in inside.routes:
            if route.is_stub:
                continue
            allowed = {route.source, route.target, *around}
            points = way([(left + x, top + y) for x, y in route.points])
            low = min(y for _, y in points)
            high = max(y for _, y in points)
            for item, (x, y, width, height) in boxes.items():
                if item in allowed or y > high or y + height < low:
                    continue
                if any(
                    x + TOUCH < px < x + width - TOUCH and y + TOUCH < py < y + height - TOUCH
                    for px, py in points
                ):
                    found.append((route, item))
    return found
