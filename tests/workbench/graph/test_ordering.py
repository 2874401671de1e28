"""Rows and their order: against every pair of edges, and against every order of small rows."""

import itertools
import random

import pytest

from tests.for_each import for_each
from workbench.graph.ordering import (
    assign_ranks,
    build_rows,
    chain,
    count_crossings,
    order_rows,
    ordered_rows,
    place_columns,
    section_of,
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
SEEDS = pytest.mark.parametrize("seeds", [range(10), pytest.param(range(60), marks=pytest.mark.slow)])


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


def test_that_no_vertex_could_move_to_the_side_with_more_edges():
    for seed in range(60):
        rng = random.Random(seed)
        count, entries, exits = rng.randint(5, 9), rng.randint(0, 2), rng.randint(0, 2)
        edges = [
            (low, high)
            for low, high in random_edges(count, 11, seed)
            if high >= entries and low < count - exits
        ]
        ranks = assign_ranks(count, edges, entries, exits)
        assert len(ranks) == count
        for vertex in range(entries, count - exits):
            above = [ranks[low] for low, high in edges if high == vertex]
            below = [ranks[high] for low, high in edges if low == vertex]
            if below and len(below) >= len(above):
                assert ranks[vertex] == min(below) - 1
            elif above:
                assert ranks[vertex] == max(above) + 1


def test_that_entries_and_exits_have_their_rows_to_themselves():
    # 3 has no edge: it stands in the row below the entries.
    assert assign_ranks(4, [(0, 2), (1, 2)], entries=2) == [0, 0, 1, 1]
    assert assign_ranks(2, [], entries=1) == [0, 1]
    # 1 has no source and the entry a reader far below: only what is no entry comes closer.
    assert assign_ranks(3, [(0, 2), (1, 2)], entries=1) == [0, 1, 2]
    assert assign_ranks(4, [(0, 2), (0, 3), (1, 3), (2, 3)], entries=1, exits=1) == [0, 1, 1, 2]
    assert assign_ranks(3, [(0, 1)], entries=1, exits=1) == [0, 1, 2]
    assert assign_ranks(2, [], exits=2) == [0, 0]
    assert build_rows(3, [(0, 1)], 1, 1).layers == [[0], [1], [2]]
    assert build_rows(0, []).layers == []


def test_that_a_chain_has_the_rows_of_its_edges():
    for count in range(4):
        rows, expected = chain(count), build_rows(count, [*itertools.pairwise(range(count))])
        assert (rows.count, rows.layers) == (count, expected.layers)
        assert (rows.up, rows.down) == (expected.up, expected.down)


def test_that_consecutive_rows_keep_their_edges_and_get_a_row_of_what_comes_in():
    # Rows 0 to 3; the edge from 0 to 4 bends at 5 and 6.
    rows = build_rows(5, [(0, 1), (1, 2), (2, 4), (0, 4), (1, 3), (3, 4)])
    assert rows.layers == [[0], [1, 5], [2, 3, 6], [4]]
    section = section_of(rows, 2, 4)
    assert section.vertices == [2, 3, 4, 6]
    assert section.turns == {1: 4, 5: 5}
    part = section.rows
    assert part.count == 3
    assert part.layers == [[4, 5], [0, 1, 3], [2]]
    assert part.down == [[2], [2], [], [2], [0, 1], [3]]
    assert [sorted(above) for above in part.up] == [[4], [4], [0, 1, 3], [5], [], []]
    first = section_of(rows, 0, 2)
    assert (first.vertices, first.turns) == ([0, 1, 5], {})
    assert (first.rows.count, first.rows.layers) == (2, [[0], [1, 2]])
    assert section_of(rows, 0, 4).rows is rows


def uncrossed(seed, height=5, most=5, chains=0):
    """Return a random graph that can be drawn without a crossing, and chains beside it.

    It has ``height`` rows of up to ``most`` vertices; their numbers are in random order.
    """
    rng = random.Random(seed)
    names, edges = [], set()
    for _ in range(height):
        first = sum(len(row) for row in names)
        names.append(rng.sample(range(first, first + (size := rng.randint(2, most))), size))
    for upper, lower in itertools.pairwise(names):
        # From left to right, one step in one of the rows at a time.
        a = b = 0
        edges.add((upper[0], lower[0]))
        while a < len(upper) - 1 or b < len(lower) - 1:
            steps = [a < len(upper) - 1, b < len(lower) - 1]
            side = rng.choice([side for side in (0, 1) if steps[side]])
            a, b = a + (side == 0), b + (side == 1)
            edges.add((upper[a], lower[b]))
    count = sum(len(row) for row in names)
    for _ in range(chains):
        edges |= {*itertools.pairwise(range(count, count + height))}
        count += height
    return count, sorted(edges)


def ordered(graph, **options):
    rows = build_rows(*graph)
    order_rows(rows, **options)
    return rows


def test_that_rows_that_can_be_drawn_without_crossings_are_if_ordered_thoroughly():
    graphs = [uncrossed(seed) for seed in range(60)]
    assert not any(count_crossings(ordered(graph)) for graph in graphs)
    quick = [count_crossings(ordered(graph, thorough=False)) for graph in graphs]
    assert 0 < sum(crossings > 0 for crossings in quick) <= QUICK_WITH_CROSSINGS


# How many of the graphs keep a crossing if only two orders are tried, as recorded.
QUICK_WITH_CROSSINGS = 8


@for_each(
    ("height", "most", "seeds"),
    [(3, 6, (2, 6, 52, 69, 70, 71, 87)), (5, 5, (5, 6, 16, 54)), (6, 7, (6, 13)), (5, 8, (69,))],
)
def test_that_sweeps_and_swaps_of_two_orders_take_all_crossings_away(height, most, seeds):
    for seed in seeds:
        rows = ordered(uncrossed(seed, height, most), thorough=False)
        assert count_crossings(rows) == 0


def test_that_equal_blocks_share_their_rows():
    edges = ((0, 1), (0, 2), (1, 3))
    rows = ordered_rows(4, edges, 0, 1, thorough=False)
    assert ordered_rows(4, edges, 0, 1, thorough=False) is rows
    assert rows.layers == ordered((4, [*edges], 0, 1), thorough=False).layers


def test_that_only_small_graphs_are_ordered_from_the_other_side_and_at_random():
    from_other_side = uncrossed(0, chains=26)
    assert 150 < from_other_side[0] <= 300
    assert count_crossings(ordered(from_other_side, thorough=False)) == 0
    at_random = uncrossed(33, chains=26)
    assert at_random[0] == 150
    quick, thorough = (ordered(at_random, thorough=thorough) for thorough in (False, True))
    assert count_crossings(thorough) < count_crossings(quick)
    larger = uncrossed(33, chains=27)
    quick, thorough = (ordered(larger, thorough=thorough) for thorough in (False, True))
    assert quick.layers == thorough.layers
    assert count_crossings(quick) > 0


def test_that_crossings_of_two_rows_of_two_are_taken_away():
    rows = two_rows([(0, 1), (1, 0)], 2, 2)
    order_rows(rows)
    assert count_crossings(rows) == 0


def test_that_long_edges_bend_in_every_row_between():
    rows = build_rows(5, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (3, 4)])
    chain = rows.chains[0, 4]
    assert len(chain) == 3
    assert rows.chains[0, 3] == chain[:2]
    assert [next(r for r, layer in enumerate(rows.layers) if v in layer) for v in chain] == [1, 2, 3]
    assert rows.chains[0, 1] == []
    for above, below in itertools.pairwise([0, *chain, 4]):
        assert below in rows.down[above]
        assert above in rows.up[below]


@for_each(("length", "is_stub"), [(60, False), (61, True)])
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


def test_that_the_rooms_of_two_columns_do_not_overlap():
    rows = build_rows(4, [(0, 2), (1, 3)])
    assert rows.layers == [[0, 1], [2, 3]]
    assert place_columns(rows, [10.0, 20.0, 30.0, 5.0]) == pytest.approx([30.0, 65.0, 30.0, 65.0])


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
