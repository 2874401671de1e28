"""Drawings in columns side by side: how many columns, and where they begin."""

from itertools import groupby, pairwise

import pytest

from tests.fakes.drawings import drawn_group
from tests.for_each import for_each
from workbench.graph.hierarchy import Ports
from workbench.graph.layout import Contents, GroupLayout, lay_out

T, U = ("t", 0), ("u", 0)


def column_sizes(names, links, sizes):
    """Return how many rows each column has, from left to right."""
    boxes = drawn_group(names, links, sizes, 0.0, "wrapped").boxes
    columns, right = [0], 0.0
    for _, row in groupby(boxes, key=lambda name: name[1:]):
        names = [*row]
        if min(boxes[name][0] for name in names) > right > 0.0:
            columns.append(0)
        columns[-1] += 1
        right = max(right, *(boxes[name][0] + boxes[name][2] for name in names))
    return columns


def chain(count, height, width, first=None):
    """Return names, links and sizes of boxes below each other; the first may be wider."""
    names = [f"c{n}" for n in range(count)]
    sizes = dict.fromkeys(names, (width, height))
    sizes["c0"] = (first or width, height)
    return names, [*pairwise(names)], sizes


# A row takes its height and a gap of 34, a column its width and 24, and 24 are between two columns.
@for_each(
    ("boxes", "expected"),
    [
        # Width 100 n + 24 (n - 1) by height 1200 / n: for n = 4 it is 472 by 300, nearly 1.6.
        (chain(12, 66.0, 76.0), [3, 3, 3, 3]),
        # 400 and two more of 100 are 648 by 400; 400 and 100 are 524 by 600, which is narrower.
        (chain(12, 66.0, 76.0, first=376.0), [4, 4, 4]),
        # Two columns of one row each: no more are possible.
        (chain(2, 400.0, 100.0), [1, 1]),
        # No row is near the middle of three, but two are near the thirds.
        (chain(3, 400.0, 100.0), [1, 1, 1]),
        # Never more than forty, although eighty were nearer to 1.6.
        (chain(80, 4000.0, 10.0), [2] * 40),
    ],
)
def test_that_columns_are_about_as_wide_as_a_window(boxes, expected):
    assert column_sizes(*boxes) == expected


@for_each(("double", "expected"), [(5, [6, 4]), (6, [5, 5])])
def test_that_a_column_ends_at_fewer_lines_if_it_is_at_most_three_tenths_longer(double, expected):
    """Two chains, which become one: of ten rows, the fourth to sixth may be the last."""
    names = [f"{side}{row}" for row in range(10) for side in ("ab" if row < double else "c")]
    links = [(f"{side}{row}", f"{side}{row + 1}") for row in range(double - 1) for side in "ab"]
    links += [(f"{side}{double - 1}", f"c{double}") for side in "ab"]
    links += [(f"c{row}", f"c{row + 1}") for row in range(double, 9)]
    assert column_sizes(names, links, dict.fromkeys(names, (397.0, 100.0))) == expected


@for_each("ports", [Ports({T: ["a"]}), Ports({}, {T: "a"})])
def test_that_no_column_begins_between_the_border_and_a_child(ports):
    contents = Contents(["a"], {}, {"a": (10.0, 640.0)}, "g/", ports)
    (route,) = lay_out(contents, 0.0, "wrapped").routes
    assert len(route.points) == 2
    assert route.points[0][0] == route.points[1][0]


@for_each(("exits", "way"), [({T: 10.0}, 10.0), ({T: 10.0, U: 50.0}, 50.0), ({}, 50.0)])
def test_that_a_line_leaves_a_column_below_the_only_port_of_an_open_group(exits, way):
    names = ["a", "b", "c", "d"]
    links = dict.fromkeys(pairwise(names), (T,))
    inner = {"a": GroupLayout(100.0, 400.0, exits=exits)}
    sizes = dict.fromkeys(names, (100.0, 400.0))
    drawn = lay_out(Contents(names, links, sizes, inner=inner), 0.0, "wrapped")
    left, top, _, height = drawn.boxes["a"]
    points = drawn.routes[0].points
    assert points[0] == (left + exits.get(T, 50.0), top + height)
    assert (left + way, top + height + 20.0) in points
    # On to the lane at the right.
    assert points[points.index((left + way, top + height + 20.0)) + 1] == pytest.approx(
        (left + 100.0 + 12.0, top + height + 20.0)
    )
