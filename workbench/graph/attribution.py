"""Which operation of the program a row of a compiler's table belongs to, told by its module."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from workbench.graph.wording import operator_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.graph.snapshot import GraphSnapshot, Node

# What Vela calls the operators of its performance table, and the ATen operators behind them.
_ATEN: dict[str, tuple[str, ...]] = {
    "conv2d": ("conv2d", "conv1d", "convolution", "linear", "addmm", "mm"),
    "depthwiseconv2d": ("conv2d", "conv1d", "convolution"),
    "fullyconnected": ("linear", "addmm", "mm"),
    "avgpool": ("avg_pool", "mean"),
    "maxpool": ("max_pool", "amax"),
    "minimum": ("hardtanh", "relu6", "minimum", "clamp"),
    "reducesum": ("sum", "mean"),
    "transpose": ("permute", "transpose"),
    "table": ("sigmoid", "tanh", "gelu", "silu", "hardswish", "exp", "softmax"),
}  # fmt: skip


def attribute(rows: Sequence[tuple[str, str]], snapshot: GraphSnapshot) -> tuple[str | None, ...]:
    """Return the operation that each row belongs to; None where that cannot be told.

    A row of a module with a single operation belongs to it. Otherwise rows and operations of the
    same sort are matched in order, if there are as many of one as of the other.

    Args:
        rows: Module and operator of every row, in execution order, e.g. ``("stem", "Conv2D")``.
        snapshot: The program whose operations are looked for.
    """
    calls: dict[str, list[Node]] = defaultdict(list)
    for node in snapshot.nodes:
        if node.kind == "call":
            calls[node.module].append(node)
    by_sort: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, (module, operator) in enumerate(rows):
        by_sort[module, operator].append(index)
    found: list[str | None] = [None] * len(rows)
    for (module, operator), indices in by_sort.items():
        nodes = calls.get(module, []) if operator else []
        if module and len(nodes) == 1:
            nodes = nodes * len(indices)
        else:
            nodes = [node for node in nodes if _is_sort(node, operator)]
        if len(nodes) == len(indices):
            for index, node in zip(indices, nodes, strict=True):
                found[index] = node.id
    return tuple(found)


def _is_sort(node: Node, operator: str) -> bool:
    name = operator_name(node.op)
    wanted = operator.lower()
    return any(part in name for part in _ATEN.get(wanted, (wanted,)))
