"""Sensitivity units: the quantizers of a program that are switched together."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from torch import fx

from workbench.engine.fx import programs
from workbench.engine.quantization.per_tensor_switches import is_node_of
from workbench.studies.sensitivity import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.engine.quantization.per_tensor_switches import SwitchedProgram


class Switching:
    """The switches of each unit of a program.

    Args:
        program: The program to divide.
        exported: The float graph it came from, which still has the batch norms.
    """

    def __init__(self, program: SwitchedProgram, exported: fx.Graph) -> None:
        self.program = program
        self._origins = _origins(program, exported)
        self._unit_of = _joined(program, self._origins)
        members: dict[fx.Node, list[fx.Node]] = {}
        for node in program.nodes:
            if node in self._unit_of:
                members.setdefault(self._unit_of[node], []).append(node)
        written = frozenset(program.writes.values())
        members_touched = (m for m in members.values() if self._touched(m))
        self._members = [m for m in members_touched if not written.issuperset(m)]
        folded = _folded(exported, {node.name for node in program.nodes})
        # No rule applies to values written to a buffer.
        named = [[node for node in member if node not in written] for member in self._members]
        self.units = [_unit(name, program, named, folded, self._origins) for name in named]

    def only(self, index: int) -> frozenset[fx.Node]:
        """Return the switches to enable so that only one unit is quantized, with its borders."""
        inside = set(self._members[index])
        return frozenset(
            switch
            for switch in self.program.switches
            if inside & set(switch.users) or (_source(switch) in inside and not _is_own(switch))
        )

    def inside(self, index: int) -> frozenset[fx.Node]:
        """Return the switches to disable so that only one unit is float.

        These are its weights and inner tensors. Inputs from other units stay quantized.
        """
        inside = set(self._members[index])
        return frozenset(
            switch
            for switch in self.program.switches
            if inside & set(switch.users)
            and (
                (held := _source(switch)) is None
                or held.op == "get_attr"
                or held in inside
                or _is_own(switch)
            )
        )

    def weights(self, index: int) -> frozenset[fx.Node]:
        """Return the switches of a unit's weights that have a scale for each channel."""
        return self.inside(index) & self.program.channel_weights()

    def _touched(self, members: list[fx.Node]) -> bool:
        inside = set(members)
        return any(inside & set(switch.users) for switch in self.program.switches)


def _is_own(switch: fx.Node) -> bool:
    """Return whether the rounding belongs to its reader only, and the tensor is unchanged."""
    quantize = switch.args[0]
    return isinstance(quantize, fx.Node) and programs.DYNAMIC in quantize.meta


def _source(switch: fx.Node) -> fx.Node | None:
    quantize = switch.args[0]
    source = quantize.args[0] if isinstance(quantize, fx.Node) else None
    return source if isinstance(source, fx.Node) else None


def _origins(program: SwitchedProgram, exported: fx.Graph) -> dict[fx.Node, str]:
    """Return the origin in the exported graph of every operator."""
    names = {node.name for node in exported.nodes}
    origins = {}
    for node in program.nodes:
        pending = list(node.meta.get("from_node") or [])
        origins[node] = node.name
        while pending and origins[node] not in names:
            source = pending.pop(0)
            origins[node] = source.name
            pending.extend(source.from_node)
    return origins


def _joined(program: SwitchedProgram, origins: dict[fx.Node, str]) -> dict[fx.Node, fx.Node]:
    """Join operators without a quantizer between them, of one leaf module, or of one node.

    If readers round their inputs themselves, there are no quantized activations: each operator is
    then a unit.
    """
    operators = [n for n in program.nodes if _is_operator(n)]
    leader = {node: node for node in operators}

    def find(node: fx.Node) -> fx.Node:
        while leader[node] is not node:
            node = leader[node]
        return node

    for node, other in _bonds(program, operators, origins):
        if other in leader:
            leader[find(node)] = find(other)
    return {node: find(node) for node in operators}


def _bonds(
    program: SwitchedProgram, operators: Sequence[fx.Node], origins: Mapping[fx.Node, str]
) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield each operator with those that must be quantized together with it."""
    flows = not any(_is_own(switch) for switch in program.switches)
    parents = {programs.module_of(n).rpartition(".")[0] for n in operators}
    written = set(program.writes.values())
    first: dict[str, fx.Node] = {}
    for node in operators:
        yield node, first.setdefault(f"node {origins[node]}", node)
        module = programs.module_of(node)
        if module and module not in parents:
            yield node, first.setdefault(module, node)
        for source in node.all_input_nodes:
            held = _source(source) if source in program.switches and node in written else source
            # Values written to a buffer are quantized with their producer.
            if held is not None and (flows or node in written):
                yield node, held


def _is_operator(node: fx.Node) -> bool:
    return (
        node.op == "call_function" and not is_node_of(node, "quantize") and not is_node_of(node, "dequantize")
    )


def _folded(exported: fx.Graph, left: set[str]) -> dict[str, str]:
    """Return the folded batch norm of each module; those ``left`` are not folded."""
    norms = (n for n in exported.nodes if n.op == "call_function" and n.name not in left)
    return {
        programs.module_of(node.all_input_nodes[0]): programs.module_of(node)
        for node in norms
        if "batch_norm" in programs.op_of(node)
    }


def _unit(
    members: list[fx.Node],
    program: SwitchedProgram,
    every: list[list[fx.Node]],
    folded: dict[str, str],
    origins: dict[fx.Node, str],
) -> Unit:
    named = [programs.module_of(node) for node in members]
    modules = list(dict.fromkeys(m for n in named for m in (n, folded.get(n, n))))
    others = {programs.module_of(n) for group in every if group is not members for n in group}
    operators = tuple(programs.op_of(node) for node in members)
    weights = _weights(members, program)
    if not all(modules) or any(_covers(m, other) for m in modules for other in others):
        names = tuple(dict.fromkeys(origins[node] for node in members))
        shown = f"{modules[0] or 'model'}: {', '.join(names[:2])}"
        return Unit(name=shown, kind="node_name", matches=names, operators=operators, weights=weights)
    parent = modules[0].rpartition(".")[0]
    is_whole = len(modules) > 1 and parent and all(_covers(parent, m) for m in modules)
    if is_whole and not any(_covers(parent, other) for other in others):
        modules = [parent]
    name = modules[0] if len(modules) == 1 else f"{modules[0]} + {len(modules) - 1}"
    return Unit(name=name, kind="module_name", matches=tuple(modules), operators=operators, weights=weights)


def _covers(module: str, other: str) -> bool:
    return other == module or other.startswith(f"{module}.")


def _weights(members: list[fx.Node], program: SwitchedProgram) -> int:
    total = 0
    for node in members:
        for source in node.all_input_nodes:
            held = _source(source) if source in program.switches else source
            if held is not None and program.is_constant(held):
                total += operator.attrgetter(str(held.target))(program.module).numel()
    return total
