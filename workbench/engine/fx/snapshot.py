"""Conversion of a torch program at any level to a torch-free snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram

from workbench.engine.fx import modules, programs
from workbench.engine.fx.modules import Location, list_modules
from workbench.engine.fx.observers import BRANCHES
from workbench.graph.snapshot import Edge, GraphSnapshot, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.engine.fx.modules import Program
    from workbench.graph.snapshot import Module, NodeKind, TensorInfo

_FOLLOWERS = ("quantize", "dequantize", "observer")
_FOLDED = ("parameter", "constant")


def snapshot(
    program: Program, level: str, modules: torch.nn.Module | Sequence[Module] | None = None
) -> GraphSnapshot:
    """Return the snapshot of a program.

    Args:
        program: An exported program (float, re-exported or edge), or a prepared or converted
            graph module.
        level: Name of the level, e.g. ``float``.
        modules: The model, or the modules of another snapshot of it. Without it, modules are
            those named by operations; only an exported program has their sizes.

    Returns:
        Every operation in execution order. The graphs inside ``cond``, ``while_loop`` and
        delegates are nested: their nodes are named ``<node>/<branch>/<name>``.
    """
    walk = _Walk()
    walk.add(program, _Frame())
    drafts = _placed(walk.drafts)
    nodes = tuple(draft.freeze() for draft in drafts)
    known = {node.id for node in nodes}
    edges = tuple(
        Edge(source, draft.id, output, position)
        for draft in drafts
        for position, (source, output) in enumerate(draft.inputs)
        if source in known
    )
    return GraphSnapshot(level, nodes, edges, list_modules(program, modules, walk.types))


@dataclass(slots=True)
class _Draft:
    id: str
    op: str
    kind: NodeKind
    location: Location | None
    outputs: tuple[TensorInfo, ...]
    source: str
    attrs: dict[str, str]
    inputs: list[tuple[str, int]] = field(default_factory=list)

    def freeze(self) -> Node:
        location = self.location or Location()
        return Node(
            self.id,
            self.op,
            self.kind,
            location.module,
            location.call,
            location.group,
            self.outputs,
            self.source,
            self.attrs,
        )


@dataclass(frozen=True, slots=True)
class _Frame:
    """Context of a nested graph: id prefix, location, and operands."""

    prefix: str = ""
    location: Location = field(default_factory=Location)
    operands: tuple[str, ...] = ()


class _Walk:
    """Collects the operations of a program and of its nested programs."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self.types: dict[str, str] = {}
        self._by_id: dict[str, _Draft] = {}

    def add(self, program: Program, frame: _Frame) -> str:
        """Add all nodes; return the id of the output node."""
        values = programs.Values(program)
        names: dict[str, str] = {}
        operands = iter(frame.operands)
        output = ""
        for node in values.module.graph.nodes:
            names[node.name] = frame.prefix + node.name
            if node.op == "get_attr" and isinstance(values.get(node), torch.nn.Module):
                continue
            draft = self._draft(node, values, names, frame)
            if draft.kind == "input" and frame.prefix:
                operand = next(operands, "")
                if operand in self._by_id and self._by_id[operand].kind in _FOLDED:
                    names[node.name] = operand
                    continue
                draft.inputs = [(operand, 0)] if operand else []
            if draft.kind in ("control", "delegate"):
                self._nest(node, values, names, draft)
            self.drafts.append(draft)
            self._by_id[draft.id] = draft
            output = draft.id if draft.kind == "output" else output
        return output

    def _draft(
        self, node: torch.fx.Node, values: programs.Values, names: dict[str, str], frame: _Frame
    ) -> _Draft:
        op, kind = programs.op_name(node), self._kind(node, values)
        held = values.get(node) if kind in _FOLDED else None
        for path, _, type_name in modules.frames(node.meta.get("nn_module_stack")):
            self.types.setdefault(path, type_name)
        draft = _Draft(
            names[node.name],
            op,
            kind,
            self._location(node, kind, frame),
            programs.tensors(node.meta.get("val", held)),
            modules.source_line(node.meta.get("stack_trace")),
            _attrs(node, kind, values),
        )
        draft.inputs = [(names[source.name], _output_index(node)) for source in _arguments(node)]
        if kind == "observer":
            draft.op = draft.attrs["observer"]
        if kind in ("quantize", "dequantize"):
            self._quantize(node, draft, values)
        return draft

    @staticmethod
    def _kind(node: torch.fx.Node, values: programs.Values) -> NodeKind:
        if node.op == "placeholder":
            return values.kinds.get(node.name, "input")
        if node.op == "get_attr":
            is_parameter = isinstance(values.get(node), torch.nn.Parameter)
            named = str(node.target).startswith(("_param_constant", "_frozen_param"))
            return "parameter" if is_parameter or named else "constant"
        if node.op == "call_module":
            module = values.module.get_submodule(str(node.target))
            return "observer" if hasattr(module, "calculate_qparams") else "call"
        op = programs.op_name(node)
        if op == "executorch_call_delegate":
            return "delegate"
        if isinstance(node.target, torch._ops.HigherOrderOperator):  # noqa: SLF001
            return "control"
        return "output" if node.op == "output" else programs.quantize_kind(op) or "call"

    @staticmethod
    def _location(node: torch.fx.Node, kind: NodeKind, frame: _Frame) -> Location | None:
        if kind in ("input", "output"):
            return frame.location
        location = modules.locate(node.meta.get("nn_module_stack"))
        if location is None or (kind in _FOLLOWERS and not location.group):
            return None
        if not frame.prefix:
            return location
        return replace(location, group=frame.location.group + location.group)

    def _quantize(self, node: torch.fx.Node, draft: _Draft, values: programs.Values) -> None:
        grid = programs.qparams(node, values)
        if grid is None or not draft.inputs:
            return
        source = self._by_id.get(draft.inputs[0][0])
        outputs = draft.outputs or (source.outputs[:1] if source else ())
        dtype = grid.dtype if draft.kind == "quantize" else "float32"
        draft.outputs = tuple(replace(info, dtype=dtype, qparams=grid) for info in outputs)
        if source and source.kind in _FOLDED:
            source.outputs = tuple(replace(info, qparams=grid) for info in source.outputs)

    def _nest(
        self, node: torch.fx.Node, values: programs.Values, names: dict[str, str], draft: _Draft
    ) -> None:
        """Add the graphs that a node calls, before it, and connect their outputs to it."""
        graphs = [
            (argument, values.get(argument))
            for argument in node.all_input_nodes
            if argument.op == "get_attr" and isinstance(values.get(argument), torch.nn.Module)
        ]
        location = draft.location or Location()
        group = (*location.group, node.name)
        draft.location = Location(location.module, location.call, group)
        operands = [argument for argument in node.args if isinstance(argument, (tuple, list))]
        flat = [name for argument in operands for name in _named(argument, names)]
        if draft.kind == "delegate":
            flat = _named(node.args[1:], names)
        own = {names[argument.name] for argument, _ in graphs}
        draft.inputs = [(source, 0) for source, _ in draft.inputs if source not in own]
        branches = BRANCHES.get(draft.op, ())
        for position, (argument, module) in enumerate(graphs):
            name = str(getattr(module, "backend_id", argument.target))
            branch = branches[position] if position < len(branches) else name
            inner = getattr(module, "original_module", module)
            if not isinstance(inner, (ExportedProgram, torch.fx.GraphModule)):
                continue
            below = Location(location.module, location.call, (*group, branch))
            frame = _Frame(f"{draft.id}/{branch}/", below, tuple(flat))
            result = self.add(inner, frame)
            draft.inputs = [edge for edge in draft.inputs if edge[0] not in flat]
            draft.inputs.append((result, 0))


def _named(arguments: Any, names: dict[str, str]) -> list[str]:
    return [names.get(item.name, "") if isinstance(item, torch.fx.Node) else "" for item in arguments]


def _arguments(node: torch.fx.Node) -> list[torch.fx.Node]:
    arguments: list[torch.fx.Node] = []
    torch.fx.map_arg((node.args, node.kwargs), arguments.append)
    return arguments


def _output_index(node: torch.fx.Node) -> int:
    """Return the output index of a ``getitem``; 0 for other nodes."""
    is_item = getattr(node.target, "__name__", "") == "getitem" and len(node.args) > 1
    return node.args[1] if is_item and isinstance(node.args[1], int) else 0


def _attrs(node: torch.fx.Node, kind: NodeKind, values: programs.Values) -> dict[str, str]:
    if kind == "observer":
        return programs.observer_attrs(values.module.get_submodule(str(node.target)))
    attrs = {} if kind in _FOLLOWERS else programs.literals(node)
    if kind in _FOLDED:
        attrs["target"] = values.names.get(node.name, str(node.target))
    if kind == "delegate":
        lowered = values.get(node.args[0])
        attrs["backend"] = str(getattr(lowered, "backend_id", ""))
        attrs["bytes"] = str(len(getattr(lowered, "processed_bytes", b"")))
    if "debug_handle" in node.meta:
        attrs["debug_handle"] = str(node.meta["debug_handle"])
    if origin := programs.origin_of(node):
        attrs["origin"] = origin
    return attrs


def _outside(draft: _Draft) -> Location | None:
    """Return the location of an operation's result: for a nested graph, outside its group."""
    location = draft.location
    if location is None or draft.kind not in ("control", "delegate"):
        return location
    return replace(location, group=location.group[:-1])


def _placed(drafts: list[_Draft]) -> list[_Draft]:
    """Assign a location to every draft: observers to their tensor, operands to their user."""
    by_id = {draft.id: draft for draft in drafts}
    users: dict[str, list[_Draft]] = {}
    for draft in drafts:
        for source, _ in draft.inputs:
            users.setdefault(source, []).append(draft)
        producer = by_id.get(draft.inputs[0][0]) if draft.inputs else None
        if producer is None:
            continue
        if draft.location is None and producer.kind not in _FOLDED:
            draft.location = _outside(producer)
        if not draft.outputs and draft.kind == "observer":
            draft.outputs = producer.outputs[:1]
    for draft in reversed(drafts):
        if draft.location is None:
            locations = [user.location for user in users.get(draft.id, ()) if user.location]
            draft.location = modules.common(locations)
    return drafts
