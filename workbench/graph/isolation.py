"""A part of a program as a graph of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from workbench.graph.snapshot import GraphSnapshot


def isolate(snapshot: GraphSnapshot, node_ids: Collection[str]) -> GraphSnapshot:
    """Return these operations with their operands and what they read from and write to."""
    kept = set(node_ids)
    border: set[str] = set()
    for node_id in kept:
        border.update(edge.source for edge in snapshot.inputs_of.get(node_id, ()))
        border.update(edge.target for edge in snapshot.outputs_of.get(node_id, ()))
    shown = kept | border
    waiting = [n for n in border - kept if snapshot.nodes_by_id[n].kind == "dequantize"]
    for node_id in waiting:
        # What prepares a weight is drawn with its user, so its parameter comes along.
        for edge in snapshot.inputs_of.get(node_id, ()):
            if snapshot.nodes_by_id[edge.source].kind in {"parameter", "constant"}:
                shown.add(edge.source)
    nodes = tuple(node for node in snapshot.nodes if node.id in shown)
    edges = tuple(
        edge
        for edge in snapshot.edges
        if edge.source in shown and edge.target in shown
        and (edge.source in kept or edge.target in kept or edge.target in waiting)
    )  # fmt: skip
    return replace(snapshot, nodes=nodes, edges=edges)
