"""Rows for the children of one group, and the chains that carry long edges through them."""

from __future__ import annotations

from dataclasses import dataclass, field

SPAN_LIMIT = 60


@dataclass(slots=True)
class Rows:
    """Vertices in rows from top to bottom. Vertices from ``count`` on are bends of long edges.

    ``chains`` holds the bends that an edge passes, from its upper end to its lower end; edges
    that start at the same vertex share them. Edges longer than 60 rows are in ``stubs``.
    """

    count: int
    layers: list[list[int]]
    up: list[list[int]]
    down: list[list[int]]
    chains: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    stubs: set[tuple[int, int]] = field(default_factory=set)


def assign_ranks(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Return a row for each vertex; every edge (low, high) goes downwards.

    Longest path from the sources, then every vertex slides within its slack towards the side on
    which it has more edges, and towards its consumers if both sides are equal.
    """
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for low, high in edges:
        above[high].append(low)
        below[low].append(high)
    rank = [0] * count
    for vertex in range(count):
        if above[vertex]:
            rank[vertex] = max(rank[low] for low in above[vertex]) + 1
    for order in (range(count - 1, -1, -1), range(count)) * 2:
        for vertex in order:
            rank[vertex] = _slide(rank, vertex, above[vertex], below[vertex])
    used = {row: position for position, row in enumerate(sorted(set(rank)))}
    return [used[row] for row in rank]


def _slide(rank: list[int], vertex: int, above: list[int], below: list[int]) -> int:
    if not below:
        return max(rank[low] for low in above) + 1 if above else rank[vertex]
    highest = min(rank[high] for high in below) - 1
    if len(below) >= len(above):
        return highest
    return max(rank[low] for low in above) + 1


def build_rows(count: int, edges: list[tuple[int, int]]) -> Rows:
    """Place the vertices in rows and cut long edges into bends.

    Args:
        count: Number of vertices, numbered in execution order.
        edges: Distinct pairs (low, high), low < high.
    """
    rank = assign_ranks(count, edges)
    rows = Rows(count, [[] for _ in range(max(rank, default=-1) + 1)], [], [])
    rows.up = [[] for _ in range(count)]
    rows.down = [[] for _ in range(count)]
    for vertex in range(count):
        rows.layers[rank[vertex]].append(vertex)
    trunks: dict[int, list[int]] = {}
    for low, high in edges:
        span = rank[high] - rank[low]
        if span > SPAN_LIMIT:
            rows.stubs.add((low, high))
            continue
        trunk = trunks.setdefault(low, [])
        for row in range(len(trunk) + 1, span):
            _add_bend(rows, rank[low] + row, trunk[-1] if trunk else low, trunk)
        chain = trunk[: span - 1]
        rows.chains[low, high] = chain
        _join(rows, chain[-1] if chain else low, high)
    return rows


def _add_bend(rows: Rows, row: int, above: int, trunk: list[int]) -> None:
    bend = len(rows.up)
    rows.up.append([])
    rows.down.append([])
    rows.layers[row].append(bend)
    _join(rows, above, bend)
    trunk.append(bend)


def _join(rows: Rows, above: int, below: int) -> None:
    rows.down[above].append(below)
    rows.up[below].append(above)
