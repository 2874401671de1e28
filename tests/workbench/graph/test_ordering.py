"""Rows and their order: against every pair of edges, and against every order of small rows."""

import itertools
import random

import pytest

from tests.for_each import for_each
from workbench.graph.ordering import (
    SPAN_LIMIT,
    assign_ranks,
    build_rows,
    count_crossings,
    order_rows,
    place_columns,
)


def crossings_by_hand(rows):
    place = {v: i for layer in rows.layers for i, v in enumerate(layer)}
    total = 0
    for upper in rows.layers:
        edges = [(place[a], place[b]) for a in upper for b in rows.down[a]]
        total += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(edges, 2))
    return total


def random_edges(count, wanted, seed):
    rng = random.Random(seed)
    pairs = (sorted(rng.sample(range(count), 2)) for _ in range(wanted))
    return sorted({(low, high) for low, high in pairs})


# Seeds of random graphs; the slow tests take more.
SEEDS = pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(60), marks=pytest.mark.slow)]
)


def two_rows(edges, upper, lower):
    rows = build_rows(upper + lower, [(a, upper + b) for a, b in edges])
    assert [len(layer) for layer in rows.layers] == [upper, lower]
    return rows


def test_that_every_edge_goes_downwards_and_no_row_is_empty():
    for seed in range(30):
        edges = random_edges(14, 18, seed)
        ranks = assign_ranks(14, edges)
        assert all(ranks[low] < ranks[high] for low, high in edges)
        assert set(ranks) == set(range(max(ranks) + 1))


def test_that_vertices_slide_to_the_side_with_more_edges():
    # 1 waits at its only reader; 5 stays below its only source as it has no reader.
    assert assign_ranks(5, [(0, 2), (2, 3), (3, 4), (1, 4)]) == [0, 2, 1, 2, 3]
    assert assign_ranks(4, [(0, 1), (1, 2), (0, 3)]) == [0, 1, 2, 1]
    assert assign_ranks(3, []) == [0, 0, 0]
    # 3 has two sources and one reader far below: it stays with its sources.
    edges = [(0, 1), (1, 2), (2, 4), (4, 6), (0, 3), (5, 3), (3, 6)]
    assert assign_ranks(7, sorted((min(e), max(e)) for e in edges))[3] in {1, 2}


def test_that_long_edges_bend_in_every_row_between():
    rows = build_rows(5, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (3, 4)])
    chain = rows.chains[0, 4]
    assert len(chain) == 3
    assert rows.chains[0, 3] == chain[:2]
    assert [next(r for r, layer in enumerate(rows.layers) if v in layer) for v in chain] == [
        1,
        2,
        3,
    ]
    assert rows.chains[0, 1] == []
    for above, below in itertools.pairwise([0, *chain, 4]):
        assert below in rows.down[above]
        assert above in rows.up[below]


@for_each(("length", "is_stub"), [(SPAN_LIMIT, False), (SPAN_LIMIT + 1, True)])
def test_that_only_edges_beyond_the_limit_are_stubs(length, is_stub):
    edges = [*itertools.pairwise(range(length + 1)), (0, length)]
    rows = build_rows(length + 1, edges)
    assert ((0, length) in rows.stubs) == is_stub
    assert ((0, length) in rows.chains) != is_stub


@SEEDS
def test_that_crossings_are_those_of_every_pair_of_edges(seeds):
    for seed in seeds:
        rows = build_rows(16, random_edges(16, 26, seed))
        assert count_crossings(rows) == crossings_by_hand(rows)


@SEEDS
def test_that_ordering_never_adds_crossings_and_keeps_every_vertex(seeds):
    for seed in seeds:
        rows = build_rows(16, random_edges(16, 24, seed))
        before, kept = count_crossings(rows), [sorted(layer) for layer in rows.layers]
        order_rows(rows)
        assert count_crossings(rows) <= before
        assert [sorted(layer) for layer in rows.layers] == kept


def test_that_small_rows_are_ordered_nearly_as_well_as_any_order_could():
    total, best = 0, 0
    for seed in range(8):
        rng = random.Random(seed)
        edges = {(rng.randrange(4), rng.randrange(5)) for _ in range(9)}
        edges |= {(a, a) for a in range(4)} | {(3, 4)}
        rows = two_rows(sorted(edges), 4, 5)
        best += min(
            sum(
                (upper[a] - upper[c]) * (lower[b] - lower[d]) < 0
                for (a, b), (c, d) in itertools.combinations(edges, 2)
            )
            for upper in itertools.permutations(range(4))
            for lower in itertools.permutations(range(5))
            # Of an order and the same one from right to left, one is enough.
            if upper[0] < upper[1]
        )
        order_rows(rows)
        total += count_crossings(rows)
    assert best <= total <= 1.25 * best


def test_that_edges_of_a_tree_never_cross():
    edges = [((n - 1) // 3, n) for n in range(1, 60)]
    rows = build_rows(60, edges)
    order_rows(rows)
    assert count_crossings(rows) == 0


@SEEDS
def test_that_neighbours_keep_their_room(seeds):
    for seed in seeds:
        rows = build_rows(14, random_edges(14, 20, seed))
        order_rows(rows)
        half = [10.0 + v % 4 * 5 for v in range(len(rows.up))]
        xs = place_columns(rows, half)
        assert min(x - room for x, room in zip(xs, half, strict=True)) == pytest.approx(0.0)
        for layer in rows.layers:
            for left, right in itertools.pairwise(layer):
                assert xs[right] - xs[left] >= half[left] + half[right] - 1e-6


def test_that_a_chain_is_a_straight_column():
    rows = build_rows(4, [(0, 1), (1, 2), (2, 3)])
    assert place_columns(rows, [5.0, 20.0, 10.0, 5.0]) == [20.0] * 4
    assert place_columns(build_rows(0, []), []) == []


def test_that_the_bends_of_a_long_edge_stand_in_a_column():
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    rows = build_rows(5, edges)
    order_rows(rows)
    xs = place_columns(rows, [10.0] * len(rows.up))
    assert len({xs[v] for v in rows.chains[0, 4]}) == 1
    assert len({xs[v] for v in (1, 2, 3)}) == 1


def test_that_a_vertex_between_two_stands_in_the_middle():
    rows = build_rows(3, [(0, 2), (1, 2)])
    xs = place_columns(rows, [10.0, 10.0, 10.0])
    assert xs == pytest.approx([10.0, 30.0, 20.0])


def test_that_outputs_stand_right_below_what_is_computed_last():
    # 1 and 2 have the same row: an output that reads one of them does not push it down.
    assert assign_ranks(4, [(0, 1), (0, 2), (2, 3)], exits=1) == [0, 1, 1, 2]
    assert assign_ranks(1, [], exits=1) == [0]
