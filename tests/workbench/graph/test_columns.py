"""Where vertices stand: what mirroring, turning and long edges may not change."""

import random
from itertools import combinations, pairwise

import pytest

from tests.for_each import for_each
from tests.workbench.graph.test_ordering import SEEDS, random_edges
from workbench.graph.ordering import Rows, build_rows, count_crossings, order_rows, place_columns, section_of


def drawings(seeds, count=16, wanted=22):
    """Yield ordered rows of random graphs, and half the width of every vertex."""
    for seed in seeds:
        rows = build_rows(count, random_edges(count, wanted, seed))
        order_rows(rows, thorough=False)
        rng = random.Random(seed)
        yield rows, [rng.choice((10.0, 25.0, 60.0)) for _ in rows.up]


def mirrored(rows):
    return Rows(rows.count, [layer[::-1] for layer in rows.layers], rows.up, rows.down)


def turned(rows):
    return Rows(rows.count, rows.layers[::-1], rows.down, rows.up)


def inner_crossings(rows):
    """Return whether two segments between bends of long edges cross."""
    place = {v: i for layer in rows.layers for i, v in enumerate(layer)}
    for layer in rows.layers:
        inner = [
            (place[a], place[b]) for a in layer for b in rows.down[a] if a >= rows.count and b >= rows.count
        ]
        if any((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(inner, 2)):
            return True
    return False


@SEEDS
def test_that_a_mirrored_drawing_stands_mirrored(seeds):
    for rows, half in drawings(seeds):
        xs = place_columns(rows, half)
        width = max(x + r for x, r in zip(xs, half, strict=True))
        other = place_columns(mirrored(rows), half)
        assert other == pytest.approx([width - x for x in xs])


@SEEDS
def test_that_bends_of_a_long_edge_stand_in_one_column(seeds):
    """Unless edges branch off on the way."""
    straight = 0
    for rows, half in drawings(seeds, 24, 40):
        if inner_crossings(rows):
            continue
        xs = place_columns(rows, half)
        for chain in rows.chains.values():
            if any(len(rows.down[bend]) > 1 for bend in chain):
                continue
            assert len({round(xs[bend], 6) for bend in chain}) <= 1
            straight += len(chain) > 1
    assert straight > 1.25 * len(seeds)


def test_that_a_long_edge_stays_straight_where_others_cross_it():
    count, straight = 24, 0
    for seed in range(20):
        rng = random.Random(seed)
        # Six rows of four, a chain through them, and one edge from the first to the last row.
        edges = {(n, n + 4) for n in range(20)}
        edges |= {(4 * row + rng.randrange(4), 4 * row + 4 + rng.randrange(4)) for row in range(5)}
        rows = build_rows(count, sorted({*edges, (0, 20 + rng.randrange(1, 4))}))
        for layer in rows.layers:
            rng.shuffle(layer)
        (long,) = (chain for chain in rows.chains.values() if chain)
        xs = place_columns(rows, [10.0] * len(rows.up))
        assert len({round(xs[bend], 6) for bend in long}) == 1
        # The rows in the middle alone: all bends have one above them.
        section = section_of(rows, 2, 5)
        xs = place_columns(section.rows, [10.0] * len(section.rows.up))
        bends = {section.vertices.index(bend) for bend in long[1:4]} | {section.turns[long[0]]}
        assert len({round(xs[bend], 6) for bend in bends}) == 1
        straight += len(bends) == 4
    assert straight == 20


# Rows, half the widths, and where vertices stand. In each of four drawings, rows are aligned with
# the row above or below, and moved left or right; the middle of the two middle places counts.
PLACES = [
    # 0 to 4 aligned with the row above, left and right: 10 50 50 110 70 and 10 50 30 110 50;
    # with the row below: 30 70 10 130 30 and 10 50 50 110 110.
    (
        [[0, 1, 3], [2, 4]],
        [(0, 4), (1, 2), (1, 4), (3, 4)],
        [10.0, 30.0, 10.0, 30.0, 10.0],
        [10.0, 50.0, 40.0, 110.0, 60.0],
    ),
    # 30 30 70 70 90, 70 10 50 70 70, 70 30 70 70 90, 50 10 50 70 70: 60 20 60 70 80, and 10 more so
    # that 1 begins at 0. This is 110 wide; the narrowest one, the first, is 100 wide.
    (
        [[0], [1, 2, 4], [3]],
        [(0, 1), (0, 2), (0, 3), (2, 3)],
        [10.0, 30.0, 10.0, 30.0, 10.0],
        [70.0, 30.0, 70.0, 80.0, 90.0],
    ),
    # The first one is 40 wide, the middle of all four would be 50 wide: it is not taken.
    ([[0, 2], [1, 4], [3]], [(0, 1), (0, 3), (1, 3)], [10.0] * 5, [10.0, 10.0, 30.0, 10.0, 30.0]),
]


@for_each(("layers", "edges", "half", "expected"), PLACES)
def test_that_a_vertex_stands_in_the_middle_of_four_drawings_or_in_the_narrowest(
    layers, edges, half, expected
):
    rows = build_rows(len({v for edge in edges for v in edge} | {2}), edges)
    rows.layers = layers
    assert place_columns(rows, half) == pytest.approx(expected)


def test_that_a_drawing_of_smaller_vertices_has_the_same_proportions():
    for rows, half in drawings(range(8)):
        xs = place_columns(rows, half)
        small = place_columns(rows, [room / 256 for room in half])
        assert small == pytest.approx([x / 256 for x in xs])


@SEEDS
def test_that_a_drawing_is_no_wider_than_its_rows_ask_for(seeds):
    """A chain with a wide row: nothing else makes the drawing wider."""
    edges = [(0, n) for n in range(1, 6)] + [(n, 6) for n in range(1, 6)]
    rows = build_rows(7, edges)
    xs = place_columns(rows, [10.0] * 7)
    assert sorted(xs[1:6]) == pytest.approx([10.0, 30.0, 50.0, 70.0, 90.0])
    assert xs[0] == xs[6] == pytest.approx(50.0)
    for rows, half in drawings(seeds):
        xs = place_columns(rows, half)
        widest = max(sum(2 * half[v] for v in layer) for layer in rows.layers)
        width = max(x + r for x, r in zip(xs, half, strict=True))
        assert widest - 1e-6 <= width <= 3 * widest


def test_that_a_parent_stands_in_the_middle_of_its_children():
    edges = [((n - 1) // 2, n) for n in range(1, 15)]
    rows = build_rows(15, edges)
    order_rows(rows)
    xs = place_columns(rows, [10.0] * 15)
    for parent in range(7):
        left, right = xs[2 * parent + 1], xs[2 * parent + 2]
        assert xs[parent] == pytest.approx((left + right) / 2)
    assert [b - a for a, b in pairwise(sorted(xs[7:]))] == pytest.approx([20.0] * 7)


def test_that_a_drawing_upside_down_has_the_same_columns():
    """A tree that grows upwards stands as one that grows downwards."""
    edges = [((n - 1) // 2, n) for n in range(1, 15)]
    rows = build_rows(15, edges)
    order_rows(rows)
    xs = place_columns(rows, [10.0 + v % 3 for v in range(15)])
    assert place_columns(turned(rows), [10.0 + v % 3 for v in range(15)]) == pytest.approx(xs)


@for_each("count", [1, 2, 3, 4, 5, 6])
def test_that_a_reader_of_several_stands_under_their_middle(count):
    for turn in (False, True):
        edges = [(n, count) for n in range(count)] if not turn else [(0, n + 1) for n in range(count)]
        rows = build_rows(count + 1, edges)
        half = [10.0 + 7 * (v % 3) for v in range(count + 1)]
        xs = place_columns(rows, half)
        several = sorted(xs[:count] if not turn else xs[1:])
        single = xs[count] if not turn else xs[0]
        middle = (several[(count - 1) // 2] + several[count // 2]) / 2
        assert single == pytest.approx(middle)


@SEEDS
def test_that_no_two_neighbours_of_an_ordered_row_cross_less_the_other_way(seeds):
    for seed in seeds:
        rows = build_rows(14, random_edges(14, 20, seed))
        order_rows(rows, thorough=False)
        fewest = count_crossings(rows)
        for layer in rows.layers:
            for at in range(len(layer) - 1):
                layer[at], layer[at + 1] = layer[at + 1], layer[at]
                assert count_crossings(rows) >= fewest
                layer[at], layer[at + 1] = layer[at + 1], layer[at]


def test_that_lanes_of_edges_past_each_other_stand_apart():
    """Two long edges beside a chain: their bends keep their room in every row."""
    edges = [*pairwise(range(6)), (0, 5), (0, 4), (1, 5)]
    rows = build_rows(6, sorted(edges))
    order_rows(rows)
    half = [30.0] * 6 + [7.0] * (len(rows.up) - 6)
    xs = place_columns(rows, half)
    for layer in rows.layers:
        for left, right in pairwise(layer):
            assert xs[right] - xs[left] >= half[left] + half[right] - 1e-9
    assert count_crossings(rows) == 0
