"""Which operation of the exported program each node of the prepared one is, or stands in.

Preparing takes operators apart and names all nodes anew, so names alone tell wrong: an ``add`` of a
layer norm may bear the name that the sum of another block had before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from workbench.graph.lineage import Lineage
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import (
    GRAPH_FILE,
    IntegerQuality,
    NodeAnnotation,
    TensorQuality,
    TensorRange,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from workbench.engine.context import StageContext

_NAME = "origins"
_FLOAT, _PREPARED = "float", "prepared"
Told = TypeVar("Told", IntegerQuality, NodeAnnotation, TensorQuality, TensorRange)


def keep_origins(context: StageContext, floating: GraphSnapshot, prepared: GraphSnapshot) -> None:
    """Remember what the nodes of a prepared graph are."""
    lineage = Lineage({_FLOAT: floating, _PREPARED: prepared})
    keys = {node.id: lineage.key(_PREPARED, node.id) for node in prepared.nodes}
    found = {name: key.root for name, key in keys.items() if key is not None}
    context.store.keep(_NAME, context.plan.key("prepare"), found)


def with_origins(context: StageContext, rows: Iterable[Told]) -> tuple[Told, ...]:
    """Return rows that say which operation they are about; "" where nobody knows."""
    key = context.plan.key("prepare")
    if context.store.get(_NAME, key) is None:
        folders = context.path("export"), context.path("prepare")
        keep_origins(context, *(GraphSnapshot.load(folder / GRAPH_FILE) for folder in folders))
    known: Mapping[str, str] = context.store.get(_NAME, key)
    return tuple(row.model_copy(update={"origin": known.get(_node(row), "")}) for row in rows)


def _node(row: IntegerQuality | NodeAnnotation | TensorQuality | TensorRange) -> str:
    return row.tensor if isinstance(row, IntegerQuality | TensorQuality) else row.node
