"""What was left on the CPU, tied to the float program: what decided it, and what goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.graph.wording import operator_name
from workbench.pipeline.resolution import resolve_graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from workbench.graph.snapshot import GraphSnapshot, Node
    from workbench.project.model import Project
    from workbench.project.rules import Effective
    from workbench.results import CpuNode, LowerResult, PrepareResult

# Causes that lie in a neighbour, whose suggestion then speaks of these too.
_BORROWED = frozenset({"beside", "empty", "rule"})
_CONVERSIONS = frozenset({"quantize", "dequantize"})


@dataclass(frozen=True)
class Operator:
    """An operator on the CPU, the float operation that it was, and what its rules give it.

    ``origin`` and ``effective`` are None where that is not known.
    """

    cpu: CpuNode
    origin: Node | None
    effective: Effective | None
    module: str

    @property
    def name(self) -> str:
        """What to call it: the float program's name where that is known."""
        return self.origin.id if self.origin else operator_name(self.cpu.op)


class Left:
    """Operators and conversions on the CPU, in the graph that they stand in."""

    def __init__(
        self, operators: tuple[Operator, ...], total: int, border: tuple[str, ...],
        edge: GraphSnapshot,
    ) -> None:  # fmt: skip
        self.operators, self.total, self.border, self.edge = operators, total, border, edge
        self._ids = {each.cpu.node for each in operators}
        ends = (node.id for node in edge.nodes if node.kind in ("input", "output"))
        self._ends = {end for end in ends if "/" not in end}

    def with_followers(self, chosen: Iterable[Operator]) -> tuple[str, ...]:
        """Return operators together with those that stay only because of them."""
        found = dict.fromkeys(each.cpu.node for each in chosen)
        following = {
            each.cpu.node for each in self.operators
            if each.cpu.cause in _BORROWED and not _is_decided(each)
        }  # fmt: skip
        waiting = list(found)
        while waiting:
            for near in self._near(waiting.pop()):
                if near in following and near not in found:
                    found[near] = None
                    waiting.append(near)
        return tuple(each.cpu.node for each in self.operators if each.cpu.node in found)

    def fewer(self, leaving: Iterable[str]) -> int:
        """Return by how much operators and conversions on the CPU become fewer.

        Conversions that only those that leave needed go too; where one of them touches an
        operator that stays, or an end of the program, a conversion comes. Counted in the graph.
        """
        gone, edge = set(leaving), self.edge
        freed = came = 0
        for node in edge.nodes:
            if node.kind == "dequantize" and node.id not in self.border:
                users = edge.consumers(node.id)
                freed += bool(users) and all(user.id in gone for user in users)
            elif node.kind == "quantize" and node.id not in self.border:
                freed += any(maker.id in gone for maker in edge.producers(node.id))
            elif node.id in self._ids or node.id in self._ends:
                makers = {m.id for m in edge.producers(node.id)} & (self._ids | self._ends)
                came += sum((maker in gone) != (node.id in gone) for maker in makers)
        return len(gone) + freed - came

    def _near(self, node: str) -> Iterator[str]:
        """Yield the operators on the CPU that a node meets, conversions between them left out."""
        for step in (self.edge.producers, self.edge.consumers):
            waiting = list(step(node))
            while waiting:
                each = waiting.pop()
                if each.kind in _CONVERSIONS:
                    waiting += step(each.id)
                elif each.id in self._ids:
                    yield each.id


def _is_decided(operator: Operator) -> bool:
    effective = operator.effective
    return effective is not None and (effective.label == "float" or bool(effective.kept_off))


def left_on_cpu(
    project: Project, lowered: LowerResult, program: GraphSnapshot, edge: GraphSnapshot,
    prepared: PrepareResult | None,
) -> Left:  # fmt: skip
    """Return what was left on the CPU; the arguments are those of ``suggest``."""
    resolution = resolve_graph(project, program)
    made = {note.node: note for note in prepared.annotations} if prepared else {}
    operators = []
    for cpu in lowered.cpu_nodes:
        node = edge.nodes_by_id.get(cpu.node)
        if node is None or node.kind in _CONVERSIONS:
            continue
        name = node.attrs.get("origin", "")
        note = made.get(name)
        origin = program.nodes_by_id.get(name)
        if origin is None and note is not None:
            origin = program.nodes_by_id.get(note.origin)
        module = origin.module if origin else cpu.module or (note.module if note else "")
        effective = resolution.nodes.get(origin.id) if origin else None
        if effective is None and module:
            effective = resolution.modules.get(module)
        operators.append(Operator(cpu, origin, effective, module))
    border = tuple(node.node for node in lowered.cpu_nodes if node.cause == "border")
    return Left(tuple(operators), len(lowered.cpu_nodes), border, edge)
