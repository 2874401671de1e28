"""The order within rows that lets few edges cross."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.graph.ranks import Rows

SWEEPS = 8
PATIENCE = 3
TRANSPOSE_UP_TO = 300


def count_crossings(rows: Rows) -> int:
    """Return how many pairs of edges between neighbouring rows cross."""
    position = _positions(rows.layers, len(rows.up))
    return sum(_between(upper, rows.down, position) for upper in rows.layers[:-1] if len(upper) > 1)


def order_rows(rows: Rows) -> None:
    """Reorder the layers in place so that few edges cross.

    Depth first, then median sweeps; where edges still cross and the group is not large, again
    from the other side. The best order stays.
    """
    if all(len(layer) < 2 for layer in rows.layers):
        return
    first = rows.layers
    best: tuple[int, list[list[int]]] | None = None
    for mirrored in (False, True):
        rows.layers = first
        _depth_first(rows, mirrored=mirrored)
        found = _improve(rows)
        if best is None or found[0] < best[0]:
            best = found
        if best[0] == 0 or len(rows.up) > TRANSPOSE_UP_TO:
            break
    if best is not None:
        rows.layers = best[1]


def _improve(rows: Rows) -> tuple[int, list[list[int]]]:
    """Sweep until nothing is gained; return the least crossings and the order that has them."""
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
        ends = sorted(position[below] for below in down[vertex])
        for end in ends:
            crossings += len(seen) - bisect_right(seen, end)
        for end in ends:
            insort(seen, end)
    return crossings


def _depth_first(rows: Rows, *, mirrored: bool) -> None:
    """Put each vertex behind those reached before it; ``mirrored`` turns siblings around."""
    layer_of = {v: index for index, layer in enumerate(rows.layers) for v in layer}
    layers: list[list[int]] = [[] for _ in rows.layers]
    seen = bytearray(len(rows.up))
    for start in [vertex for layer in rows.layers for vertex in layer]:
        waiting = [start]
        while waiting:
            vertex = waiting.pop()
            if seen[vertex]:
                continue
            seen[vertex] = 1
            layers[layer_of[vertex]].append(vertex)
            below = rows.down[vertex]
            waiting.extend(below if mirrored else reversed(below))
    rows.layers = layers


def _sweep(rows: Rows, *, downwards: bool) -> None:
    neighbours = rows.up if downwards else rows.down
    position = _positions(rows.layers, len(rows.up))
    order = range(1, len(rows.layers)) if downwards else range(len(rows.layers) - 2, -1, -1)
    for index in order:
        layer = rows.layers[index]
        if len(layer) > 1:
            wish = {v: _median(neighbours[v], position, position[v]) for v in layer}
            layer.sort(key=wish.__getitem__)
            for place, vertex in enumerate(layer):
                position[vertex] = place


def _median(neighbours: list[int], position: list[int], own: int) -> float:
    if not neighbours:
        return own
    places = sorted(position[vertex] for vertex in neighbours)
    middle = len(places) // 2
    if len(places) % 2:
        return places[middle]
    return (places[middle - 1] + places[middle]) / 2


def _transpose(rows: Rows) -> None:
    """Swap neighbours in a row while that takes crossings away."""
    position = _positions(rows.layers, len(rows.up))
    for _ in range(4):
        improved = False
        for layer in rows.layers:
            for index in range(len(layer) - 1):
                left, right = layer[index], layer[index + 1]
                gain = _gain(rows.up, left, right, position) + _gain(
                    rows.down, left, right, position
                )
                if gain > 0:
                    layer[index], layer[index + 1] = right, left
                    position[left], position[right] = index + 1, index
                    improved = True
        if not improved:
            return


def _gain(neighbours: list[list[int]], left: int, right: int, position: list[int]) -> int:
    """Return crossings between two vertices' edges now, minus those after a swap."""
    gain = 0
    for a in neighbours[left]:
        for b in neighbours[right]:
            gain += (position[a] > position[b]) - (position[a] < position[b])
    return gain
