"""Drawings of groups, and what no drawing may do."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, product

from workbench.graph.hierarchy import ROOT
from workbench.graph.layout import HEADER, Contents, lay_out

# Least number of points of a piece that are looked at, their largest distance, and how far inside
# a box a line must be to touch it [px].
SAMPLES, APART, TOUCH = 9, 12.0, 0.5
BOW = 0.45
# Side of the squares by which boxes near a line are looked up [px].
CELL = 400.0


def drawn_group(children, links, sizes, header=HEADER, flow="down"):
    """Return the layout of children without ports."""
    return lay_out(Contents(children, dict.fromkeys(links, ()), sizes), header, flow)


def way(points, flow="down"):
    """Return points along a route as it is painted: curves between rows, straight elsewhere."""
    if flow == "right":
        return [(x, y) for y, x in way([(y, x) for x, y in points])]
    found = [points[0]]
    for (x, y), (to_x, to_y) in pairwise(points):
        samples = max(SAMPLES, int((abs(to_x - x) + abs(to_y - y)) / APART))
        for k in range(1, samples + 1):
            t = k / samples
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
    boxes, found = placement.boxes, []
    cells = defaultdict(list)
    for item, (x, y, width, height) in boxes.items():
        for cell in _cells(x, y, x + width, y + height):
            cells[cell].append(item)
    for key, inside in placement.insides.items():
        left, top = boxes[key][:2] if key != ROOT else (0.0, 0.0)
        around = {key, *placement.hierarchy.ancestors(key)}
        for route in inside.routes:
            if route.is_stub:
                continue
            allowed = {route.source, route.target, *around}
            points = way([(left + x, top + y) for x, y in route.points], placement.flow)
            struck = {
                item
                for px, py in points
                for item in cells.get((px // CELL, py // CELL), ())
                if item not in allowed and _is_inside(boxes[item], px, py)
            }
            found += [(route, item) for item in struck]
    return found


def _cells(west, north, east, south):
    return product(
        range(int(west // CELL), int(east // CELL) + 1),
        range(int(north // CELL), int(south // CELL) + 1),
    )


def _is_inside(box, px, py):
    x, y, width, height = box
    return x + TOUCH < px < x + width - TOUCH and y + TOUCH < py < y + height - TOUCH
