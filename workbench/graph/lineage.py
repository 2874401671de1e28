"""Correspondence of operations between the levels of one program.

An operation without a recorded origin that cannot be identified by its name or its position in its
module has no counterpart.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

from workbench.graph.labels import operator_name
from workbench.graph.snapshot import collection_paused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from workbench.graph.snapshot import GraphSnapshot, Node


Role = Literal["operation", "grid", "weight"]
How = Literal["same", "origin", "name", "order", "owner", "inside", ""]

_OPERATIONS = ("call", "control", "input", "output")
_FOLLOWERS = ("observer", "quantize", "dequantize")
_FOLDED = ("parameter", "constant")
_WEAKEST_FIRST: tuple[How, ...] = ("order", "name", "origin")


class Key(NamedTuple):
    """The identity of a node in the float program: operation, grid of its result, or operand.

    ``root`` is the operation's id at the first level; ``position`` is the operand's index.
    """

    role: Role
    root: str
    position: int = 0


class Counterpart(NamedTuple):
    """The nodes of another level, and how they were identified; ``how`` is empty if none.

    ``owner``: the node has no direct counterpart, and these are the operations it belongs to;
    ``inside``: it is a delegate, and these are its operations.
    """

    nodes: tuple[str, ...]
    how: How


NOTHING = Counterpart((), "")


class Lineage:
    """Relates the levels of one program. Operations are identified by the first level.

    Args:
        levels: Snapshots by the name of their level, the float program first.
    """

    def __init__(self, levels: Mapping[str, GraphSnapshot]) -> None:
        self.levels = dict(levels)
        self.first = next(iter(self.levels), "")
        self._keys: dict[str, dict[str, Key]] = {}
        self._ids: dict[str, dict[Key, list[str]]] = {}
        self._how: dict[str, dict[str, How]] = {}
        with collection_paused():
            for level, snapshot in self.levels.items():
                self._add(level, snapshot)

    def key(self, level: str, node_id: str) -> Key | None:
        """Return the identity of a node in the float program; None if unknown."""
        return self._keys.get(level, {}).get(node_id)

    def counterparts(self, level: str, node_id: str, other: str) -> Counterpart:
        """Return the nodes of the level ``other`` that correspond to a node of ``level``."""
        if level == other:
            return Counterpart((node_id,), "same")
        key = self.key(level, node_id)
        if key is None:
            return self._inside(level, node_id, other)
        ids = tuple(self._ids.get(other, {}).get(key, ()))
        if ids:
            return Counterpart(ids, self._weaker(level, node_id, other, ids[0]))
        if key.role != "operation":
            owner = tuple(self._ids.get(other, {}).get(Key("operation", key.root), ()))
            return Counterpart(owner, "owner") if owner else NOTHING
        return NOTHING

    def translate(
        self, level: str, node_ids: Collection[str], other: str, *, with_owners: bool = True
    ) -> frozenset[str]:
        """Return the counterparts of several nodes, owners only for nodes of the same kind."""
        ids: set[str] = set()
        for node_id in node_ids:
            match = self.counterparts(level, node_id, other)
            if with_owners or match.how not in {"owner", "inside"}:
                ids.update(match.nodes)
        return frozenset(ids)

    def carry(self, values: Mapping[str, float], level: str, other: str) -> dict[str, float]:
        """Transfer a value per operation to another level.

        If one operation became several, the last one gets the value, so that sums are preserved.
        """
        if level == other:
            return dict(values)
        carried: dict[str, float] = {}
        for node_id, value in values.items():
            match = self.counterparts(level, node_id, other)
            if match.nodes and match.how not in {"owner", "inside"}:
                carried[match.nodes[-1]] = value
        return carried

    def level_of(self, node_ids: Collection[str], preferred: str) -> str | None:
        """Return a level that contains one of these nodes, the preferred one if it does."""
        for level in (preferred, *self.levels):
            snapshot = self.levels.get(level)
            if snapshot and any(node_id in snapshot.nodes_by_id for node_id in node_ids):
                return level
        return None

    def _weaker(self, level: str, node_id: str, other: str, other_id: str) -> How:
        """Return the weaker identification of both ends."""
        hows = {self._how[level].get(node_id, "same"), self._how[other].get(other_id, "same")}
        return next((how for how in _WEAKEST_FIRST if how in hows), "same")

    def _inside(self, level: str, node_id: str, other: str) -> Counterpart:
        """Return the counterparts of a delegate's operations."""
        node = self.levels[level].nodes_by_id.get(node_id) if level in self.levels else None
        if node is None or node.kind != "delegate":
            return NOTHING
        keys = dict.fromkeys(
            key
            for inner, key in self._keys[level].items()
            if key.role == "operation" and inner.startswith(f"{node_id}/")
        )
        known = self._ids.get(other, {})
        nodes = tuple(related for key in keys for related in known.get(key, ()))
        return Counterpart(nodes, "inside") if nodes else NOTHING

    def _add(self, level: str, snapshot: GraphSnapshot) -> None:
        if level == self.first:
            how: dict[str, How] = {n.id: "same" for n in snapshot.nodes if _is_operation(n)}
            roots = {node_id: node_id for node_id in how}
        else:
            roots, how = _roots(snapshot, self.levels[self.first])
        keys = {node_id: Key("operation", root) for node_id, root in roots.items()}
        for node_id, key in _operands(snapshot, roots):
            keys[node_id] = key
        _follow(snapshot, keys, set(roots.values()))
        groups: dict[Key, list[str]] = defaultdict(list)
        for node in snapshot.nodes:
            if node.id in keys:
                groups[keys[node.id]].append(node.id)
        self._keys[level], self._ids[level], self._how[level] = keys, dict(groups), how


def _is_operation(node: Node) -> bool:
    return node.kind in _OPERATIONS and not (node.kind in ("input", "output") and "/" in node.id)


def _roots(snapshot: GraphSnapshot, first: GraphSnapshot) -> tuple[dict[str, str], dict[str, How]]:
    """Return the float operation of each operation, and how it was identified."""
    roots: dict[str, str] = {}
    how: dict[str, How] = {}
    known = {node.id: node for node in first.nodes if _is_operation(node)}
    waiting: list[Node] = []
    for node in snapshot.nodes:
        if not _is_operation(node) or _unpacks_delegate(node, snapshot):
            continue
        origin, same = known.get(node.attrs.get("origin", "")), known.get(node.id)
        if origin is not None and _may_be(node, origin):
            roots[node.id], how[node.id] = origin.id, "origin"
        elif same is not None and same.op == node.op and same.module == node.module:
            roots[node.id], how[node.id] = same.id, "name"
        else:
            waiting.append(node)
    taken = set(roots.values())
    free = _by_module([node for node in known.values() if node.id not in taken])
    for place, nodes in _by_module(waiting).items():
        others = free.get(place, [])
        if len(others) == len(nodes):
            for node, other in zip(nodes, others, strict=True):
                roots[node.id], how[node.id] = other.id, "order"
    return roots, how


def _may_be(node: Node, origin: Node) -> bool:
    """Return whether a recorded origin is plausible: passes move operations only between equals."""
    return not node.module or not origin.module or node.module == origin.module


def _unpacks_delegate(node: Node, snapshot: GraphSnapshot) -> bool:
    return operator_name(node.op) == "getitem" and any(
        producer.kind == "delegate" for producer in snapshot.producers(node.id)
    )


def _by_module(nodes: list[Node]) -> dict[tuple[str, int, str], list[Node]]:
    groups: dict[tuple[str, int, str], list[Node]] = defaultdict(list)
    for node in nodes:
        if node.module and node.kind == "call":
            groups[node.module, node.call, operator_name(node.op)].append(node)
    return groups


def _operands(snapshot: GraphSnapshot, roots: Mapping[str, str]) -> Iterator[tuple[str, Key]]:
    """Yield parameters with the operation and the position they are used at."""
    nodes = snapshot.nodes_by_id
    for node in snapshot.nodes:
        if node.kind not in _FOLDED:
            continue
        at = node.id
        for _ in range(len(_FOLLOWERS) + 1):
            edges = snapshot.outputs_of.get(at, ())
            user = next((e for e in edges if e.target in roots), None)
            if user is not None:
                yield node.id, Key("weight", roots[user.target], user.input_index)
                break
            after = [e for e in edges if nodes[e.target].kind in _FOLLOWERS and not e.input_index]
            if not after:
                break
            at = after[0].target


def _follow(snapshot: GraphSnapshot, keys: dict[str, Key], known: Collection[str]) -> None:
    """Give observers and grids the key of their tensor."""
    for node in snapshot.nodes:
        inputs = snapshot.inputs_of.get(node.id, ())
        is_inner = node.kind == "input" and "/" in node.id
        if (node.kind not in _FOLLOWERS and not is_inner) or not inputs:
            continue
        key = keys.get(inputs[0].source)
        if key is not None:
            keys[node.id] = Key("grid", key.root) if key.role == "operation" else key
        elif node.attrs.get("origin") in known:
            keys[node.id] = Key("grid", node.attrs["origin"])


# Operator names in Vela's performance table, and their ATen operators.
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
}


def attribute(rows: Sequence[tuple[str, str]], snapshot: GraphSnapshot) -> tuple[str | None, ...]:
    """Return the operation that each row belongs to; None if unknown.

    A row of a module with a single operation belongs to it. Otherwise rows and operations of the
    same kind are matched in order, if their numbers are equal.

    Args:
        rows: Module and operator of every row, in execution order, e.g. ``("stem", "Conv2D")``.
        snapshot: The program with the operations.
    """
    calls: dict[str, list[Node]] = defaultdict(list)
    for node in snapshot.nodes:
        if node.kind == "call":
            calls[node.module].append(node)
    by_sort: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, (module, operator) in enumerate(rows):
        by_sort[module, operator].append(index)
    ids: list[str | None] = [None] * len(rows)
    for (module, operator), indices in by_sort.items():
        nodes = calls.get(module, []) if operator else []
        if module and len(nodes) == 1:
            nodes = nodes * len(indices)
        else:
            nodes = [node for node in nodes if _is_sort(node, operator)]
        if len(nodes) == len(indices):
            for index, node in zip(indices, nodes, strict=True):
                ids[index] = node.id
    return tuple(ids)


def _is_sort(node: Node, operator: str) -> bool:
    name = operator_name(node.op)
    wanted = operator.lower()
    return any(part in name for part in _ATEN.get(wanted, (wanted,)))
