"""Modules that become one operator: a config on one of them alone breaks the fusion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.graph.snapshot import GraphSnapshot, Node


@dataclass(frozen=True)
class FusedGroup:
    """The modules of one fused operator in order, and their parent if it holds nothing else."""

    members: tuple[str, ...]
    parent: str | None

    @property
    def name(self) -> str:
        """What to call it."""
        return self.parent or " + ".join(self.members)

    @property
    def matches(self) -> list[str]:
        """The module names that a rule for the whole group must speak of."""
        return [self.parent] if self.parent else list(self.members)


def fused_groups(snapshot: GraphSnapshot) -> Mapping[str, FusedGroup]:
    """Return for every module that is fused with others the group it belongs to.

    A group is a convolution or linear operator, the batch normalisation behind it and the
    activation behind that, each the only reader of the one before, in modules of their own.

    Source: ExecuTorch 1.5.1, fusing patterns of the Arm backend's quantizer.
    """
    found: dict[str, FusedGroup] = {}
    for node in snapshot.nodes:
        if _starts(node):
            members = list(dict.fromkeys(n.module for n in _chain(snapshot, node)))
            if len(members) > 1 and all(members):
                group = FusedGroup(tuple(members), _own_parent(snapshot, members))
                found.update(dict.fromkeys(members, group))
    return found


def _base(node: Node) -> str:
    """Return the bare name of an operator: ``aten.relu_.default`` is ``relu``."""
    parts = node.op.split(".")
    return parts[1 if len(parts) > 1 else 0].strip("_") if node.kind == "call" else ""


def _starts(node: Node) -> bool:
    return _base(node).startswith(("conv", "linear", "addmm"))


def _normalises(node: Node) -> bool:
    return "batch_norm" in _base(node)


def _activates(node: Node) -> bool:
    return _base(node) in {"relu", "relu6", "hardtanh", "clamp"}


def _chain(snapshot: GraphSnapshot, start: Node) -> list[Node]:
    chain = [start]
    for belongs in (_normalises, _activates):
        readers = [n for n in snapshot.consumers(chain[-1].id) if n.kind == "call"]
        if len(readers) == 1 and belongs(readers[0]):
            chain.append(readers[0])
    return chain


def _own_parent(snapshot: GraphSnapshot, members: list[str]) -> str | None:
    parents = {member.rpartition(".")[0] for member in members}
    parent = parents.pop()
    inside = {m.path for m in snapshot.modules if m.path.startswith(f"{parent}.")}
    return parent if parent and not parents and inside == set(members) else None
