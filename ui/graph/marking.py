"""What is told on operations of any level: their precision, and why they are not as wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ui.graph.levels import EDGE, PREPARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.graph.lineage import Lineage
    from workbench.project.rules import Effective
    from workbench.results import LowerResult, PrepareResult


def chips(lineage: Lineage, level: str, nodes: Mapping[str, Effective]) -> dict[str, Effective]:
    """Return the config of every operation of a level, told by the float operation it was."""
    snapshot = lineage.levels.get(level)
    found: dict[str, Effective] = {}
    for node in snapshot.nodes if snapshot else ():
        key = lineage.key(level, node.id) if node.kind == "call" else None
        if key is not None and key.role == "operation" and key.root in nodes:
            found[node.id] = nodes[key.root]
    return found


def reasons(
    prepared: PrepareResult | None,
    lowered: LowerResult | None,
    lineage: Lineage,
    level: str,
    nodes: Mapping[str, Effective],
) -> dict[str, str]:
    """Return why operations of a level are not as they were wanted.

    They were left in float although a rule asks for more, or they stay on the CPU.
    """
    found: dict[str, str] = {}
    for note in prepared.annotations if prepared else ():
        wanted = nodes.get(note.origin)
        if note.reason and not note.quantized and wanted and wanted.label != "float":
            for node_id in _same(lineage, PREPARED, note.node, level):
                found[node_id] = f"Not quantized: {note.reason}"
    for left in lowered.cpu_nodes if lowered else ():
        for node_id in _same(lineage, EDGE, left.node, level):
            before = f"{found[node_id]}\n" if node_id in found else ""
            found[node_id] = f"{before}On the CPU: {left.reason}"
    return found


def _same(lineage: Lineage, source: str, node_id: str, level: str) -> frozenset[str]:
    return lineage.translate(source, [node_id], level, with_owners=False)
