"""Comparison of two programs: which operators are equal, added, removed or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from workbench.graph.hierarchy import ROOT
from workbench.graph.labels import dtype_label
from workbench.graph.lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import Collection

    from workbench.graph.hierarchy import Hierarchy
    from workbench.graph.snapshot import GraphSnapshot, Node, TensorInfo


Difference = Literal["added", "removed", "changed"]

_OPERANDS = ("parameter", "constant")
_FOLLOWERS = ("observer", "quantize", "dequantize")
_FIRST, _LEFT, _RIGHT = "first", "left", "right"


class Pairing:
    """Relates two levels of a program, or one level of two runs, through the float program.

    Parameters and constants belong to the operator that uses them. Operators without a known origin
    in the float program are equal if name and operator are equal. ``removed`` are operators of the
    left program without a counterpart, ``added`` those of the right one; ``changed`` lists the
    differences of paired operators, for two runs of one level only.
    """

    def __init__(self, first: GraphSnapshot, left: GraphSnapshot, right: GraphSnapshot) -> None:
        self.left, self.right = left, right
        self._lineage = Lineage({_FIRST: first, _LEFT: left, _RIGHT: right})
        self.removed = self._unmatched(_LEFT, _RIGHT)
        self.added = self._unmatched(_RIGHT, _LEFT)
        self.changed: dict[str, str] = {}
        self.changed_right: dict[str, str] = {}
        if left.level == right.level:
            self._compare()

    def to_right(self, node_ids: Collection[str]) -> frozenset[str]:
        """Return the counterparts of operators of the left program."""
        return self._across(node_ids, _LEFT, _RIGHT)

    def to_left(self, node_ids: Collection[str]) -> frozenset[str]:
        """Return the counterparts of operators of the right program."""
        return self._across(node_ids, _RIGHT, _LEFT)

    def _across(self, node_ids: Collection[str], here: str, there: str) -> frozenset[str]:
        pairs: set[str] = set()
        for node_id in node_ids:
            pairs |= self._same(node_id, here, there) or self._lineage.translate(here, [node_id], there)
        return frozenset(pairs)

    def _same(self, node_id: str, here: str, there: str) -> frozenset[str]:
        """Return the equal nodes on the other side: of the same kind, not their owner."""
        levels = self._lineage.levels
        mine = levels[here].nodes_by_id.get(node_id)
        other = levels[there].nodes_by_id.get(node_id)
        match = self._lineage.counterparts(here, node_id, there)
        if mine is not None and match.nodes and match.how not in {"owner", "inside"}:
            return self._of_kind(mine, match.nodes, here, there)
        is_told = self._has_origin(here, node_id) or self._has_origin(there, node_id)
        if is_told or mine is None or other is None or mine.op != other.op:
            return frozenset()
        return frozenset([node_id])

    def _has_origin(self, level: str, node_id: str) -> bool:
        """Return whether the origin of an operator in the float program is known."""
        return self._lineage.key(level, node_id) is not None

    def _of_kind(self, node: Node, twins: tuple[str, ...], here: str, there: str) -> frozenset[str]:
        """Return the one observer or grid, of several on a tensor, with the same position."""
        known = self._lineage.levels[there].nodes_by_id
        alike = [twin for twin in twins if known[twin].kind == node.kind]
        if node.kind not in _FOLLOWERS or not alike:
            return frozenset(twins)
        back = self._lineage.counterparts(there, alike[0], here).nodes
        own = self._lineage.levels[here].nodes_by_id
        order = [name for name in back if own[name].kind == node.kind]
        index = order.index(node.id)
        return frozenset(alike[index : index + 1])

    def _unmatched(self, here: str, there: str) -> frozenset[str]:
        return frozenset(
            node.id
            for node in self._lineage.levels[here].nodes
            if node.kind not in _OPERANDS and not self._same(node.id, here, there)
        )

    def _compare(self) -> None:
        right = self.right.nodes_by_id
        for node in self.left.nodes:
            twins = self._same(node.id, _LEFT, _RIGHT)
            other = right[next(iter(twins))] if len(twins) == 1 else None
            words = _words(node, other) if other is not None else ""
            if other is not None and words:
                self.changed[node.id] = self.changed_right[other.id] = words


def _words(one: Node, other: Node) -> str:
    """Return the differences of two operators; empty if there are none."""
    words = []
    if one.op != other.op:
        words.append(f"{one.op} became {other.op}")
    if len(one.outputs) != len(other.outputs):
        words.append(f"{len(one.outputs)} outputs became {len(other.outputs)}")
    else:
        for before, after in zip(one.outputs, other.outputs, strict=True):
            if before != after:
                words.append(f"{_tensor(before)} became {_tensor(after)}")
    attrs = [k for k in one.attrs.keys() | other.attrs.keys() if k not in _NOT_COMPARED]
    for name in sorted(attrs):
        before_, after_ = one.attrs.get(name, "none"), other.attrs.get(name, "none")
        if before_ != after_:
            words.append(f"{name} {before_} became {after_}")
    return "; ".join(words)


_NOT_COMPARED = frozenset(("debug_handle", "bytes", "origin"))


def _tensor(info: TensorInfo) -> str:
    text = f"{info.shape_text} {dtype_label(info.dtype)}"
    grid = info.qparams
    if grid is None:
        return text
    if len(grid.scale) == 1:
        return f"{text} scale {grid.scale[0]:.4g} zero point {grid.zero_point[0]}"
    return f"{text} {len(grid.scale)} scales from {min(grid.scale):.4g}"


def alike_anywhere(hierarchy: Hierarchy, group: str, *, any_shape: bool = False) -> tuple[str, ...]:
    """Return the groups anywhere in a program that have the structure of a given group.

    Operators and their connections are equal at every depth; so are the shapes and types of all
    tensors, unless ``any_shape``. For a run of repeated blocks, its blocks are compared.
    """
    own = hierarchy.groups[group]
    wanted = own.children[0] if own.is_run else group
    if wanted == ROOT or wanted not in hierarchy.groups:
        return (group,)
    forms = _forms(hierarchy, any_shape=any_shape)
    return tuple(key for key in hierarchy.groups if key != ROOT and forms[key] == forms[wanted])


def _forms(hierarchy: Hierarchy, *, any_shape: bool) -> dict[str, int]:
    """Return a number per item; items of equal structure have equal numbers."""
    nodes, groups = hierarchy.snapshot.nodes_by_id, hierarchy.groups
    numbers: dict[object, int] = {}
    forms: dict[str, int] = {}
    for key in reversed(list(hierarchy.groups_below(ROOT))):
        group = groups[key]
        for child in group.children:
            if child not in groups:
                node = nodes[child]
                tensors = tuple((info.shape, info.dtype) for info in node.outputs)
                content: object = (node.op, () if any_shape else tensors)
                forms[child] = numbers.setdefault(content, len(numbers))
        positions = {child: position for position, child in enumerate(group.children)}
        wiring = tuple(sorted((positions[a], positions[b]) for a, b in group.links))
        content = (tuple(forms[child] for child in group.children), wiring)
        forms[key] = numbers.setdefault(content, len(numbers))
    return forms
