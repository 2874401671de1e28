"""Drawings of groups, and what no drawing may do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from workbench.graph.hierarchy import ROOT
from workbench.graph.layout import HEADER, Contents, lay_out

# Least number of points of a piece that are looked at, their largest distance, and how far inside
# a box a line must be to touch it [px].
SAMPLES, APART, TOUCH = 9, 12.0, 0.5
BOW = 0.45


def drawn_group(children, links, sizes, header=HEADER, flow="down"):
    """Return the layout of children without ports."""
    return lay_out(Contents(children, dict.fromkeys(links, ()), sizes), header, flow)


def way(points, flow="down"):
    """Return points [px] along a route as it is painted, shape (n, 2): curves between rows."""
    if flow == "right":
        return way([(y, x) for x, y in points])[:, ::-1]
    pieces = [np.array(points[:1])]
    for (x, y), (to_x, to_y) in pairwise(points):
        samples = max(SAMPLES, int((abs(to_x - x) + abs(to_y - y)) / APART))
        t = np.arange(1, samples + 1) / samples
        bow = (to_y - y) * BOW
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
        pieces.append(
            np.stack([(a + b) * x + (c + d) * to_x, a * y + b * (y + bow) + c * (to_y - bow) + d * to_y], 1)
        )
    return np.concatenate(pieces)


def struck_boxes(placement):
    """Return every (route, item) where a line runs through a box that it does not join.

    A line may run inside the groups that contain one of its ends, and nowhere else.
    """
    boxes, found = placement.boxes, []
    items, corners = [*boxes], np.array([*boxes.values()])
    least = corners[:, :2] + TOUCH
    most = corners[:, :2] + corners[:, 2:] - TOUCH
    for key, inside in placement.insides.items():
        left, top = boxes[key][:2] if key != ROOT else (0.0, 0.0)
        around = {key, *placement.hierarchy.ancestors(key)}
        for route in inside.routes:
            if route.is_stub:
                continue
            allowed = {route.source, route.target, *around}
            points = way([(left + x, top + y) for x, y in route.points], placement.flow)
            near = (least < points.max(0)) & (most > points.min(0))
            for at in np.flatnonzero(near.all(1)):
                struck = (points > least[at]) & (points < most[at])
                if items[at] not in allowed and struck.all(1).any():
                    found.append((route, items[at]))
    return found
