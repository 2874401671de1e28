"""Which operations are drawn, and which are folded into the one that uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.graph.snapshot import GraphSnapshot

_OPERANDS = ("parameter", "constant")
_PREPARING = ("quantize", "dequantize", "observer")


def fold_operands(snapshot: GraphSnapshot) -> dict[str, str]:
    """Return for every operation the drawn one that stands for it, itself if it is drawn.

    Parameters and constants, and the observers, quantize and dequantize operations that see
    nothing else, stand with their first user. An operand nobody uses is absent.
    """
    folded: set[str] = set()
    for node in snapshot.nodes:
        inputs = snapshot.inputs_of.get(node.id, ())
        prepares = node.kind in _PREPARING and bool(inputs)
        if node.kind in _OPERANDS or (prepares and all(e.source in folded for e in inputs)):
            folded.add(node.id)
    owner = {node.id: node.id for node in snapshot.nodes if node.id not in folded}
    # The second round is for files written by hand, where an operand may follow its user.
    for node in (*reversed(snapshot.nodes), *snapshot.nodes):
        if node.id not in owner:
            users = snapshot.outputs_of.get(node.id, ())
            user = next((edge.target for edge in users if edge.target in owner), None)
            if user is not None:
                owner[node.id] = owner[user]
    return owner
