"""Vertex order and coordinates of the layered layout, with few edge crossings."""

from __future__ import annotations

import random
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

SWEEPS = 8
PATIENCE = 3
TRANSPOSE_UP_TO = 300
MAX_ORDERS = 1024
# Orders tried at random: up to this many, for up to this many vertices.
SHUFFLES, SHUFFLED_UP_TO = 10, 150


def count_crossings(rows: Rows) -> int:
    """Return the number of crossings of edges between adjacent rows."""
    position = _positions(rows.layers, len(rows.up))
    several = (layer for layer in rows.layers[:-1] if len(layer) > 1)
    return sum(_between(upper, rows.down, position) for upper in several)


def order_rows(rows: Rows, *, thorough: bool = True) -> None:
    """Reorder the rows in place to reduce edge crossings.

    Depth-first order, then median sweeps; if crossings remain and the group is small, again from
    the other side and, if ``thorough``, from shuffled orders. The best order is kept.
    """
    if all(len(layer) < 2 for layer in rows.layers):
        return
    first = rows.layers
    shuffled = random.Random(0)
    best: tuple[int, list[list[int]]] | None = None
    for attempt in range(2 + SHUFFLES if thorough else 2):
        rows.layers = [list(layer) for layer in first]
        if attempt < 2:
            _depth_first(rows, mirrored=attempt == 1)
        else:
            for layer in rows.layers:
                shuffled.shuffle(layer)
        crossings, layers = _improve(rows)
        if best is None or crossings < best[0]:
            best = crossings, layers
        most = SHUFFLED_UP_TO if attempt else TRANSPOSE_UP_TO
        if crossings == 0 or len(rows.up) > most:
            break
    if best is not None:
        rows.layers = best[1]


@lru_cache(maxsize=MAX_ORDERS)
def ordered_rows(
    count: int, edges: tuple[tuple[int, int], ...], entries: int, exits: int, *, thorough: bool
) -> Rows:
    """Return vertices in ordered rows; blocks of the same structure are ordered once.

    The arguments are those of ``build_rows`` and ``order_rows``. The result is shared: it must not
    be changed.
    """
    rows = build_rows(count, list(edges), entries, exits)
    order_rows(rows, thorough=thorough)
    return rows


def _improve(rows: Rows) -> tuple[int, list[list[int]]]:
    """Sweep until there is no gain; return the fewest crossings and their order."""
    best, best_layers = count_crossings(rows), [list(layer) for layer in rows.layers]
    idle = 0
    for sweep in range(SWEEPS):
        if best == 0 or idle >= PATIENCE:
            break
        _sweep(rows, downwards=sweep % 2 == 0)
        if len(rows.up) <= TRANSPOSE_UP_TO:
            _transpose(rows)
        crossings = count_crossings(rows)
        idle = 0 if crossings < best else idle + 1
        if crossings < best:
            best, best_layers = crossings, [list(layer) for layer in rows.layers]
    return best, best_layers


def _positions(layers: list[list[int]], total: int) -> list[int]:
    position = [0] * total
    for layer in layers:
        for index, vertex in enumerate(layer):
            position[vertex] = index
    return position


def _between(upper: list[int], down: list[list[int]], position: list[int]) -> int:
    seen: list[int] = []
    crossings = 0
    for vertex in upper:
        ends = [position[below] for below in down[vertex]]
        if len(ends) > 1:
            ends.sort()
        for end in ends:
            crossings += len(seen) - bisect_right(seen, end)
        for end in ends:
            insort(seen, end)
    return crossings


def _depth_first(rows: Rows, *, mirrored: bool) -> None:
    """Order vertices depth first; ``mirrored`` reverses siblings."""
    layer_of = {v: index for index, layer in enumerate(rows.layers) for v in layer}
    layers: list[list[int]] = [[] for _ in rows.layers]
    seen: set[int] = set()
    for start in [vertex for layer in rows.layers for vertex in layer]:
        waiting = [start]
        while waiting:
            vertex = waiting.pop()
            if vertex in seen:
                continue
            seen.add(vertex)
            layers[layer_of[vertex]].append(vertex)
            below = rows.down[vertex]
            waiting.extend(below if mirrored else reversed(below))
    rows.layers = layers


def _sweep(rows: Rows, *, downwards: bool) -> None:
    neighbours = rows.up if downwards else rows.down
    position = _positions(rows.layers, len(rows.up))
    for layer in rows.layers if downwards else reversed(rows.layers):
        if len(layer) > 1:
            wish = {v: _median(neighbours[v], position, position[v]) for v in layer}
            layer.sort(key=wish.__getitem__)
            for index, vertex in enumerate(layer):
                position[vertex] = index


def _median(neighbours: list[int], position: list[int], own: int) -> float:
    if not neighbours:
        return own
    if len(neighbours) == 1:
        return position[neighbours[0]]
    positions = sorted(position[vertex] for vertex in neighbours)
    middle = len(positions) // 2
    if len(positions) % 2:
        return positions[middle]
    return (positions[middle - 1] + positions[middle]) / 2


def _transpose(rows: Rows) -> None:
    """Swap neighbours in a row while that reduces crossings."""
    position = _positions(rows.layers, len(rows.up))
    for _ in range(4):
        improved = False
        for layer in rows.layers:
            for index in range(len(layer) - 1):
                left, right = layer[index], layer[index + 1]
                gain = _gain(rows.up, left, right, position) + _gain(rows.down, left, right, position)
                if gain > 0:
                    layer[index], layer[index + 1] = right, left
                    position[left], position[right] = index + 1, index
                    improved = True
        if not improved:
            return


def _gain(neighbours: list[list[int]], left: int, right: int, position: list[int]) -> int:
    """Return the crossings of two vertices' edges now, minus those after a swap."""
    gain = 0
    others = [position[b] for b in neighbours[right]]
    for a in neighbours[left]:
        own = position[a]
        for other in others:
            gain += (own > other) - (own < other)
    return gain


SPAN_LIMIT = 60


@dataclass(slots=True)
class Rows:
    """Vertices in rows from top to bottom. Vertices from ``count`` on are bends of long edges.

    ``chains`` has the bends of each edge, from its upper to its lower end; edges that start at the
    same vertex share bends. Edges longer than 60 rows are in ``stubs``. ``aligned`` has the blocks of
    vertices with the same x once the rows were placed.
    """

    count: int
    layers: list[list[int]]
    up: list[list[int]]
    down: list[list[int]]
    chains: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    stubs: set[tuple[int, int]] = field(default_factory=set)
    aligned: tuple[_Blocks, ...] = ()


def assign_ranks(count: int, edges: list[tuple[int, int]], entries: int = 0, exits: int = 0) -> list[int]:
    """Return a row for each vertex; every edge (low, high) goes downwards.

    Longest path from the sources; then every vertex moves within its slack towards the side with
    more edges, and towards its consumers for ties. The first ``entries`` vertices have the first
    row to themselves, the last ``exits`` vertices the last row.
    """
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for low, high in edges:
        above[high].append(low)
        below[low].append(high)
    first, last = entries, count - exits
    rank = [0] * first + [min(first, 1)] * (last - first)
    between = range(first, last)
    for vertex in between:
        if above[vertex]:
            rank[vertex] = max(rank[low] for low in above[vertex]) + 1
    rank += [max(rank, default=-1) + 1] * exits
    for vertex in [*reversed(between), *between] * 2:
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


def build_rows(count: int, edges: list[tuple[int, int]], entries: int = 0, exits: int = 0) -> Rows:
    """Assign vertices to rows and split long edges into bends.

    Args:
        count: Number of vertices, numbered in execution order.
        edges: Distinct pairs (low, high), low < high.
        entries: Number of vertices at the start that have the first row to themselves.
        exits: Number of vertices at the end that have the last row to themselves.
    """
    rank = assign_ranks(count, edges, entries, exits)
    rows = Rows(count, [[] for _ in set(rank)], [], [])
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


def chain(count: int) -> Rows:
    """Return vertices one below the other, each with an edge to the next."""
    vertices = range(count)
    return Rows(
        count,
        [[vertex] for vertex in vertices],
        [[vertex - 1] if vertex else [] for vertex in vertices],
        [[vertex + 1] if vertex + 1 < count else [] for vertex in vertices],
    )


@dataclass(frozen=True, slots=True)
class Section:
    """Consecutive rows on their own, numbered anew.

    ``vertices`` are the numbers in all rows. ``turns`` has the bend, in a row above the first one,
    of every vertex above whose edges come in; there are none in the first section.
    """

    rows: Rows
    vertices: list[int]
    turns: dict[int, int]


def section_of(rows: Rows, first: int, last: int) -> Section:
    """Return the rows from ``first`` up to and without ``last``."""
    layers = rows.layers[first:last]
    if len(layers) == len(rows.layers):
        return Section(rows, list(range(len(rows.up))), {})
    vertices = sorted(vertex for layer in layers for vertex in layer)
    number = {vertex: position for position, vertex in enumerate(vertices)}
    part = Rows(sum(vertex < rows.count for vertex in vertices), [], [], [])
    part.layers = [[number[vertex] for vertex in layer] for layer in layers]
    part.up = [[number[v] for v in rows.up[vertex] if v in number] for vertex in vertices]
    part.down = [[number[v] for v in rows.down[vertex] if v in number] for vertex in vertices]
    above = [v for v in rows.layers[first - 1] if rows.down[v]] if first else []
    turns = {vertex: len(vertices) + position for position, vertex in enumerate(above)}
    for vertex, bend in turns.items():
        part.up.append([])
        part.down.append([])
        for below in rows.down[vertex]:
            _join(part, bend, number[below])
    if turns:
        part.layers.insert(0, list(turns.values()))
    return Section(part, vertices, turns)


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


TOLERATED_WIDTH = 1.15

Conflicts = set[tuple[int, int]]


def place_columns(rows: Rows, half: list[float]) -> list[float]:
    """Return the centre of every vertex [px]; the leftmost border is at 0.

    Args:
        rows: Ordered rows, which keep their order from now on.
        half: Half the width of each vertex, including gaps.
    """
    if all(len(layer) == 1 for layer in rows.layers):
        widest = max(half, default=0.0)
        return [widest] * len(half)
    if not rows.aligned:
        rows.aligned = _aligned(rows)
    candidates = [_compact(blocks, half) for blocks in rows.aligned]
    for mirrored in (1, 3):
        candidates[mirrored] = [-x for x in candidates[mirrored]]
    return _combine(candidates, half)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Vertices with the same x, as blocks named by their first vertices.

    ``root`` is the block of every vertex. ``right`` has every block, from left to right, and its right
    neighbours, each with the pairs of vertices that are beside each other.
    """

    root: list[int]
    right: list[tuple[int, list[tuple[int, list[tuple[int, int]]]]]]


def _aligned(rows: Rows) -> tuple[_Blocks, ...]:
    """Return the blocks for rows from above and from below, each also mirrored."""
    conflicts, blocks = _conflicts(rows), []
    for upwards in (False, True):
        for mirrored in (False, True):
            layers = rows.layers[::-1] if upwards else rows.layers
            if mirrored:
                layers = [layer[::-1] for layer in layers]
            neighbours = rows.down if upwards else rows.up
            blocks.append(_blocks(layers, _align(layers, neighbours, conflicts)))
    return tuple(blocks)


def _conflicts(rows: Rows) -> Conflicts:
    """Return the edges that cross the inner segment of a long edge; they are not aligned."""
    position = _positions(rows.layers, len(rows.up))
    conflicts: Conflicts = set()
    for upper, lower in zip(rows.layers, rows.layers[1:], strict=False):
        start, scanned = 0, 0
        for index, vertex in enumerate(lower):
            inner = _upper_bend(rows, vertex)
            if inner is None and index != len(lower) - 1:
                continue
            end = position[inner] if inner is not None else len(upper)
            for other in lower[scanned : index + 1]:
                if _upper_bend(rows, other) is None:
                    outside = (a for a in rows.up[other] if not start <= position[a] <= end)
                    conflicts.update((above, other) for above in outside)
            scanned, start = index + 1, end
    return conflicts


def _upper_bend(rows: Rows, vertex: int) -> int | None:
    if vertex < rows.count or not rows.up[vertex]:
        return None
    above = rows.up[vertex][0]
    return above if above >= rows.count else None


def _align(layers: list[list[int]], neighbours: list[list[int]], conflicts: Conflicts) -> list[int]:
    """Return the root of every vertex's block: vertices with the same x."""
    root = list(range(len(neighbours)))
    position = _positions(layers, len(neighbours))
    for layer in layers[1:]:
        free = 0
        for vertex in layer:
            ends = sorted(neighbours[vertex], key=position.__getitem__)
            for above in ends[(len(ends) - 1) // 2 : len(ends) // 2 + 1]:
                if position[above] < free or _conflict(above, vertex, conflicts):
                    continue
                root[vertex] = root[above]
                free = position[above] + 1
                break
    return root


def _conflict(a: int, b: int, conflicts: Conflicts) -> bool:
    return bool(conflicts) and ((a, b) in conflicts or (b, a) in conflicts)


def _blocks(layers: list[list[int]], root: list[int]) -> _Blocks:
    beside: dict[int, dict[int, list[tuple[int, int]]]]
    beside = {root[vertex]: {} for layer in layers for vertex in layer}
    for layer in layers:
        for a, b in pairwise(layer):
            beside[root[a]].setdefault(root[b], []).append((a, b))
    waits = dict.fromkeys(beside, 0)
    for row in beside.values():
        for other in row:
            waits[other] += 1
    order = [block for block, count in waits.items() if count == 0]
    for block in order:
        for other in beside[block]:
            waits[other] -= 1
            if waits[other] == 0:
                order.append(other)
    return _Blocks(root, [(block, [*beside[block].items()]) for block in order])


def _compact(blocks: _Blocks, half: list[float]) -> list[float]:
    """Move all blocks to the left, then each one close to its right neighbours."""
    x = dict.fromkeys(blocks.root, 0.0)
    for vertex, block in enumerate(blocks.root):
        x[block] = max(x[block], half[vertex])
    placed: list[tuple[int, list[tuple[int, float]]]] = []
    for block, right in blocks.right:
        gaps = [(other, max([half[a] + half[b] for a, b in pairs])) for other, pairs in right]
        placed.append((block, gaps))
        left = x[block]
        for other, gap in gaps:
            x[other] = max(x[other], left + gap)
    for block, gaps in reversed(placed):
        if gaps:
            nearest = min([x[other] - gap for other, gap in gaps])
            x[block] = max(x[block], nearest)
    return [x[block] for block in blocks.root]


def _combine(candidates: list[list[float]], half: list[float]) -> list[float]:
    """Return the average of the four layouts, or the narrowest if it is much narrower."""
    spans = []
    for xs in candidates:
        low = min([x - room for x, room in zip(xs, half, strict=True)])
        high = max([x + room for x, room in zip(xs, half, strict=True)])
        spans.append((high - low, low, high))
    narrowest = min(range(4), key=lambda index: spans[index][0])
    width, low, high = spans[narrowest]
    for index, xs in enumerate(candidates):
        # Those to the left begin at 0, those to the right end there.
        shift = high if index % 2 else low
        candidates[index] = [x + shift for x in xs]
    balanced = []
    for four in zip(*candidates, strict=True):
        _, second, third, _ = sorted(four)
        balanced.append((second + third) / 2)
    left = min([x - room for x, room in zip(balanced, half, strict=True)])
    span = max([x + room for x, room in zip(balanced, half, strict=True)]) - left
    if span > width * TOLERATED_WIDTH:
        balanced, left = candidates[narrowest], low
    return [x - left for x in balanced]
