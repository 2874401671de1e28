"""Horizontal coordinates for ordered rows, straight where possible.

Source: U. Brandes and B. Köpf, Fast and Simple Horizontal Coordinate Assignment (2001), with
compaction over the graph of blocks so that real widths are respected.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.graph.ranks import Rows

TOLERATED_WIDTH = 1.15

Conflicts = set[tuple[int, int]]


def place_columns(rows: Rows, half: list[float]) -> list[float]:
    """Return the centre of every vertex [px]; the leftmost border is at 0.

    Args:
        rows: Ordered rows.
        half: Half the room each vertex needs, gaps included.
    """
    if all(len(layer) == 1 for layer in rows.layers):
        widest = max(half, default=0.0)
        return [widest] * len(half)
    conflicts = _conflicts(rows)
    candidates = []
    for upwards in (False, True):
        for mirrored in (False, True):
            layers = rows.layers[::-1] if upwards else rows.layers
            if mirrored:
                layers = [layer[::-1] for layer in layers]
            neighbours = rows.down if upwards else rows.up
            xs = _compact(layers, _align(layers, neighbours, conflicts), half)
            candidates.append([-x for x in xs] if mirrored else xs)
    return _combine(candidates, half)


def _conflicts(rows: Rows) -> Conflicts:
    """Return the edges that cross the straight run of a long edge; they must not align."""
    position = [0] * len(rows.up)
    for layer in rows.layers:
        for index, vertex in enumerate(layer):
            position[vertex] = index
    found: Conflicts = set()
    for upper, lower in zip(rows.layers, rows.layers[1:], strict=False):
        start, scanned = 0, 0
        for index, vertex in enumerate(lower):
            inner = _upper_bend(rows, vertex)
            if inner is None and index != len(lower) - 1:
                continue
            end = position[inner] if inner is not None else len(upper) - 1
            for other in lower[scanned : index + 1]:
                for above in rows.up[other]:
                    is_inner = other >= rows.count and above >= rows.count
                    if not is_inner and not start <= position[above] <= end:
                        found.add((above, other))
            scanned, start = index + 1, end
    return found


def _upper_bend(rows: Rows, vertex: int) -> int | None:
    if vertex < rows.count or not rows.up[vertex]:
        return None
    above = rows.up[vertex][0]
    return above if above >= rows.count else None


def _align(layers: list[list[int]], neighbours: list[list[int]], conflicts: Conflicts) -> list[int]:
    """Return the root of every vertex's block: vertices that share one x."""
    total = len(neighbours)
    root = list(range(total))
    position = [0] * total
    for layer in layers:
        for index, vertex in enumerate(layer):
            position[vertex] = index
    for layer in layers[1:]:
        reached = -1
        for vertex in layer:
            ends = neighbours[vertex]
            if len(ends) > 1:
                ends = sorted(ends, key=position.__getitem__)
            for above in ends[(len(ends) - 1) // 2 : len(ends) // 2 + 1]:
                if position[above] <= reached or _conflict(above, vertex, conflicts):
                    continue
                root[vertex] = root[above]
                reached = position[above]
                break
    return root


def _conflict(a: int, b: int, conflicts: Conflicts) -> bool:
    return bool(conflicts) and ((a, b) in conflicts or (b, a) in conflicts)


def _block_gaps(
    layers: list[list[int]], root: list[int], half: list[float]
) -> dict[int, dict[int, float]]:
    """Return for every block its right neighbours and how far their centres must stay apart."""
    gaps: dict[int, dict[int, float]] = {root[vertex]: {} for layer in layers for vertex in layer}
    for layer in layers:
        for a, b in pairwise(layer):
            row, gap = gaps[root[a]], half[a] + half[b]
            if row.get(root[b], 0.0) < gap:
                row[root[b]] = gap
    return gaps


def _compact(layers: list[list[int]], root: list[int], half: list[float]) -> list[float]:
    """Push all blocks to the left, then each one right up to its right neighbours."""
    gaps = _block_gaps(layers, root, half)
    waits = dict.fromkeys(gaps, 0)
    for row in gaps.values():
        for other in row:
            waits[other] += 1
    x = dict.fromkeys(gaps, 0.0)
    for vertex, block in enumerate(root):
        x[block] = max(x[block], half[vertex])
    order = [block for block, count in waits.items() if count == 0]
    for block in order:
        for other, gap in gaps[block].items():
            x[other] = max(x[other], x[block] + gap)
            waits[other] -= 1
            if waits[other] == 0:
                order.append(other)
    for block in reversed(order):
        if gaps[block]:
            x[block] = max(x[block], min(x[other] - gap for other, gap in gaps[block].items()))
    return [x[block] for block in root]


def _combine(candidates: list[list[float]], half: list[float]) -> list[float]:
    """Return the balance of the four layouts, or the narrowest if that is much narrower."""
    spans = []
    for xs in candidates:
        low = min(x - room for x, room in zip(xs, half, strict=True))
        high = max(x + room for x, room in zip(xs, half, strict=True))
        spans.append((high - low, low, high))
    narrowest = min(range(4), key=lambda index: spans[index][0])
    width, low, high = spans[narrowest]
    for index, xs in enumerate(candidates):
        shift = low - spans[index][1] if index % 2 == 0 else high - spans[index][2]
        candidates[index] = [x + shift for x in xs]
    balanced = []
    for four in zip(*candidates, strict=True):
        _, second, third, _ = sorted(four)
        balanced.append((second + third) / 2)
    left = min(x - room for x, room in zip(balanced, half, strict=True))
    span = max(x + room for x, room in zip(balanced, half, strict=True)) - left
    if span > width * TOLERATED_WIDTH:
        balanced, left = candidates[narrowest], low
    return [x - left for x in balanced]
