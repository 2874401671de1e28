"""Where the error comes from: the operations that add it, and its path to the output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.graph.snapshot import GraphSnapshot
    from workbench.results import TensorQuality


# Operations that add less of the error are not named.
_NAMED_SHARE = 0.1


def largest_sources(tensors: Iterable[TensorQuality]) -> list[TensorQuality]:
    """Return the tensors whose operations themselves add a tenth of all error or more, most first.

    Args:
        tensors: The compared tensors.
    """
    named = [tensor for tensor in tensors if (tensor.added_share or 0.0) >= _NAMED_SHARE]
    return sorted(named, key=lambda tensor: -(tensor.added_share or 0.0))


def error_path(graph: GraphSnapshot, tensors: Sequence[TensorQuality]) -> tuple[int, ...]:
    """Return the tensors through which most of the error reaches the worst output.

    It starts at the last tensors before an output, and goes on to the input with the lowest SQNR
    at each operation, passing over operations without a figure.

    Args:
        graph: The exported program, whose nodes are the tensors' origins.
        tensors: The compared tensors.

    Returns:
        Indices of ``tensors`` in execution order; empty where no output has a figure.
    """
    by_origin: dict[str, int] = {}
    for index, tensor in enumerate(tensors):
        known = by_origin.get(tensor.origin)
        if tensor.origin and (known is None or _sqnr(tensor) <= _sqnr(tensors[known])):
            by_origin[tensor.origin] = index
    outputs = [node.id for node in graph.nodes if node.kind == "output"]
    path: list[int] = []
    nearest = _nearest(graph, outputs, by_origin)
    while nearest:
        worst = min(nearest, key=lambda index: (_sqnr(tensors[index]), index))
        path.append(worst)
        nearest = _nearest(graph, [tensors[worst].origin], by_origin)
    return tuple(reversed(path))


def _nearest(graph: GraphSnapshot, nodes: Iterable[str], by_origin: dict[str, int]) -> list[int]:
    """Return the first tensors with a figure before some nodes."""
    indices, pending = [], list(nodes)
    passed: set[str] = set()
    while pending:
        for producer in graph.producers(pending.pop()):
            if producer.id in passed:
                continue
            passed.add(producer.id)
            if producer.id in by_origin:
                indices.append(by_origin[producer.id])
            else:
                pending.append(producer.id)
    return indices


def _sqnr(tensor: TensorQuality) -> float:
    return math.inf if tensor.sqnr_db is None else tensor.sqnr_db
