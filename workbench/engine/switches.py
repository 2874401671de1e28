"""A quantized program in which every quantizer is a switch, run tensor by tensor."""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine import programs
from workbench.engine.acceleration.evaluation import requantized
from workbench.errors import Place, failure
from workbench.studies.sensitivity import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.engine.toolchains.base import Toolchain

Values = dict[fx.Node, Any]

_PER_TENSOR = torch.ops.quantized_decomposed.quantize_per_tensor.default
_EXACT = 2**20


class SwitchedProgram:
    """A converted program whose dequantize nodes give the quantized or the float value.

    ``switches`` are all dequantize nodes. With all on, every value is that of the converted
    program; with all off, that of the prepared one, with batch norms folded.

    Raises:
        WorkbenchError: the program has branches or loops.
    """

    def __init__(self, calibrated: fx.GraphModule, toolchain: Toolchain) -> None:
        if programs.has_control_flow(calibrated):
            raise failure(
                "Sensitivity is not measured for models with branches or loops.",
                "Compare configurations in Runs instead.",
                Place(kind="stage", id="sensitivity"),
            )
        self.module = toolchain.convert(copy.deepcopy(calibrated), fold=False)
        programs.write_nowhere(self.module)
        self.nodes = list(self.module.graph.nodes)
        self.switches = frozenset(n for n in self.nodes if _is(n, "dequantize"))
        self._constants: Values = {}
        self._find_constants()
        self._followers = {node: list(node.users) for node in self.nodes}

    def run(self, inputs: tuple[torch.Tensor, ...], on: frozenset[fx.Node]) -> Values:
        """Return the values of all nodes with the switches ``on`` closed."""
        values: Values = {}
        given = iter(inputs)
        for node in self.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            else:
                values[node] = self._value(node, values, on)
        return values

    def rerun(self, before: Values, changed: Iterable[fx.Node], on: frozenset[fx.Node]) -> Any:
        """Return the output when the switches ``on`` are closed.

        Args:
            before: The values of a run.
            changed: The switches that were otherwise in that run.
            on: The switches that are closed now.
        """
        due = set(changed)
        values: Values = {}
        for node in self.nodes:
            if node not in due:
                values[node] = before[node]
                continue
            values[node] = self._value(node, values, on)
            if values[node] is not before[node]:
                due.update(self._followers[node])
        return values[self.nodes[-1]]

    def error_at(self, node: fx.Node, values: Values, switch: fx.Node) -> torch.Tensor:
        """Return by how much one switch alone moves the value of a node that reads it."""
        moved = {**values, switch: self._switched(switch, values)}
        error: torch.Tensor = self._value(node, moved, frozenset()) - values[node]
        return error

    def output(self, values: Values) -> Any:
        """Return the output among the values of a run."""
        return values[self.nodes[-1]]

    def _value(self, node: fx.Node, values: Values, on: frozenset[fx.Node]) -> Any:
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(self.module)
        if node.op == "output":
            return fx.map_arg(node.args[0], values.__getitem__)
        if _is(node, "quantize"):
            return values[node.args[0]]
        if node in self.switches:
            return self._switched(node, values) if node in on else values[node.args[0]]
        args = fx.map_arg(node.args, values.__getitem__)
        kwargs = fx.map_arg(node.kwargs, values.__getitem__)
        assert callable(node.target)
        return node.target(*args, **kwargs)

    def _switched(self, node: fx.Node, values: Values) -> Any:
        if node in self._constants:
            return self._constants[node]
        quantize = node.args[0]
        assert isinstance(quantize, fx.Node)
        value = values[quantize]
        if quantize.target is _PER_TENSOR and _is_plain(quantize, value):
            scale, zero_point, low, high = quantize.args[1:5]
            return requantized(value, (scale, zero_point, low, high), 1.0 / scale, True)
        return self._stock(node, value)

    def _stock(self, node: fx.Node, value: torch.Tensor) -> Any:
        quantize = node.args[0]
        assert isinstance(quantize, fx.Node)
        parts = []
        for each in (quantize, node):
            read = operator.attrgetter
            parts.append(
                fx.map_arg(each.args[1:], lambda n: read(str(n.target))(self.module))  # noqa: B023
            )
        stored = quantize.target(value, *parts[0], **quantize.kwargs)  # type: ignore[operator]
        return node.target(stored, *parts[1], **node.kwargs)  # type: ignore[operator]

    def _find_constants(self) -> None:
        """Compute quantized weights once."""
        for node in self.switches:
            quantize = node.args[0]
            source = quantize.args[0] if isinstance(quantize, fx.Node) else None
            if isinstance(source, fx.Node) and source.op == "get_attr":
                value = operator.attrgetter(str(source.target))(self.module)
                with torch.no_grad():
                    self._constants[node] = self._stock(node, value)


def _is(node: fx.Node, what: str) -> bool:
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name.startswith(f"{what}_per_")


def _is_plain(quantize: fx.Node, value: torch.Tensor) -> bool:
    """Tell whether the quick arithmetic gives the stock values; see ``acceleration.evaluation``."""
    scale, zero_point, low, high = quantize.args[1:5]
    if value.dtype is not torch.float32 or any(isinstance(a, fx.Node) for a in quantize.args[1:5]):
        return False
    held = torch.tensor(scale, dtype=torch.float32).item() == scale
    return bool(held and -_EXACT < low <= zero_point <= high < _EXACT)


class Switching:
    """Which switches belong to which unit of a program.

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
        self._members = [m for m in members.values() if self._touched(m)]
        folded = _folded(exported, {node.name for node in program.nodes})
        self.units = [
            _unit(each, program, self._members, folded, self._origins) for each in self._members
        ]

    def only(self, place: int) -> frozenset[fx.Node]:
        """Return the switches to close so that one unit alone is quantized, ends included."""
        inside = set(self._members[place])
        return frozenset(
            switch
            for switch in self.program.switches
            if inside & set(switch.users) or _source(switch) in inside
        )

    def inside(self, place: int) -> frozenset[fx.Node]:
        """Return the switches to open so that one unit alone is float: its weights and between.

        What comes from another unit stays as that one rounds it.
        """
        inside = set(self._members[place])
        return frozenset(
            switch
            for switch in self.program.switches
            if inside & set(switch.users)
            and ((held := _source(switch)) is None or held.op == "get_attr" or held in inside)
        )

    def _touched(self, members: list[fx.Node]) -> bool:
        inside = set(members)
        return any(inside & set(switch.users) for switch in self.program.switches)


def _source(switch: fx.Node) -> fx.Node | None:
    quantize = switch.args[0]
    source = quantize.args[0] if isinstance(quantize, fx.Node) else None
    return source if isinstance(source, fx.Node) else None


def _origins(program: SwitchedProgram, exported: fx.Graph) -> dict[fx.Node, str]:
    """Return for every operator the name of the exported node it was made of."""
    names = {node.name for node in exported.nodes}
    found = {}
    for node in program.nodes:
        pending = list(node.meta.get("from_node") or [])
        found[node] = node.name
        while pending and found[node] not in names:
            source = pending.pop(0)
            found[node] = source.name
            pending.extend(source.from_node)
    return found


def _joined(program: SwitchedProgram, origins: dict[fx.Node, str]) -> dict[fx.Node, fx.Node]:
    """Join operators with no quantizer between them, of one leaf module, or of one node."""
    leader: dict[fx.Node, fx.Node] = {}
    operators = [n for n in program.nodes if _is_operator(n)]

    def find(node: fx.Node) -> fx.Node:
        while leader[node] is not node:
            node = leader[node]
        return node

    for node in operators:
        leader[node] = node
    parents = {programs.module_of(n).rpartition(".")[0] for n in operators}
    first: dict[str, fx.Node] = {}
    for node in operators:
        leader[find(node)] = find(first.setdefault(f"node {origins[node]}", node))
        module = programs.module_of(node)
        if module and module not in parents:
            leader[find(node)] = find(first.setdefault(module, node))
        for source in node.all_input_nodes:
            if source in leader:
                leader[find(node)] = find(source)
    return {node: find(node) for node in operators}


def _is_operator(node: fx.Node) -> bool:
    return node.op == "call_function" and not _is(node, "quantize") and not _is(node, "dequantize")


def _folded(exported: fx.Graph, left: set[str]) -> dict[str, str]:
    """Return the batch norm that is folded into a module, by it; those ``left`` are not."""
    norms = (n for n in exported.nodes if n.op == "call_function" and n.name not in left)
    return {
        programs.module_of(node.all_input_nodes[0]): programs.module_of(node)
        for node in norms
        if "batch_norm" in programs.op_of(node)
    }


def _unit(
    members: list[fx.Node], program: SwitchedProgram, every: list[list[fx.Node]],
    folded: dict[str, str], origins: dict[fx.Node, str],
) -> Unit:  # fmt: skip
    named = [programs.module_of(node) for node in members]
    modules = list(dict.fromkeys(m for n in named for m in (n, folded.get(n, n))))
    others = {programs.module_of(n) for each in every if each is not members for n in each}
    operators = tuple(programs.op_of(node) for node in members)
    weights = _weights(members, program)
    if not all(modules) or any(_covers(m, other) for m in modules for other in others):
        names = tuple(dict.fromkeys(origins[node] for node in members))
        shown = f"{modules[0] or 'model'}: {', '.join(names[:2])}"
        return Unit(
            name=shown, kind="node_name", matches=names, operators=operators, weights=weights
        )
    parent = modules[0].rpartition(".")[0]
    is_whole = len(modules) > 1 and parent and all(_covers(parent, m) for m in modules)
    if is_whole and not any(_covers(parent, other) for other in others):
        modules = [parent]
    name = modules[0] if len(modules) == 1 else f"{modules[0]} + {len(modules) - 1}"
    return Unit(
        name=name, kind="module_name", matches=tuple(modules), operators=operators, weights=weights
    )


def _covers(module: str, other: str) -> bool:
    return other == module or other.startswith(f"{module}.")


def _weights(members: list[fx.Node], program: SwitchedProgram) -> int:
    total = 0
    for node in members:
        for source in node.all_input_nodes:
            held = _source(source) if source in program.switches else source
            if held is not None and held.op == "get_attr":
                total += operator.attrgetter(str(held.target))(program.module).numel()
    return total
