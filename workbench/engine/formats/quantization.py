"""The rules of a project on an exported graph: observers that become emulation when converted.

Formats need no calibration. What passes the observers is kept all the same, because ranges and
histograms are what a format is chosen by; batch norms stay where they are.
"""

from __future__ import annotations

import math
import operator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver

from workbench.engine.formats.emulation import RESULT, Placing, quantize_per_format
from workbench.engine.formats.operations import role_of
from workbench.engine.fx import programs
from workbench.engine.fx.branches import constants, drop_constants, loop_bodies, own_branches
from workbench.engine.fx.observers import branches_of
from workbench.engine.fx.programs import overload
from workbench.engine.fx.rules import GraphRules, rules_of
from workbench.engine.training.model import EmulatedQatModel
from workbench.errors import Place, WorkbenchError
from workbench.project.configs import FormatConfig
from workbench.results import FormatMemory, NodeAnnotation
from workbench.results.programs import FLOAT_BITS
from workbench.targets.formats.operators import FUSED, NOT_IN_TABLE, OPERATORS, SOFTSIGN, UNRULED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.runtime.context import StageContext
    from workbench.project.model import Project
    from workbench.project.opened import OpenProject


_PRODUCTS = frozenset({"matmul", "bmm"})
_SUMS = frozenset({"add", "sub", "mul"})
_ABS = "aten.abs.default"


@dataclass(frozen=True)
class Operand:
    """One operand: who reads it, at which place of its arguments, as what ("x", "w", "b")."""

    reader: fx.Node
    argument: int | str
    name: str
    source: fx.Node

    def replace(self, source: fx.Node) -> None:
        """Let the reader read another node there."""
        if isinstance(self.argument, int):
            self.reader.update_arg(self.argument, source)
        else:
            self.reader.update_kwarg(self.argument, source)


@dataclass(frozen=True)
class Match:
    """One operation.

    Attributes:
        node: What computes it; the last of several.
        operation: Its name in MASE's table.
        operands: Its floating tensors.
        inside: The other nodes it consists of.
    """

    node: fx.Node
    operation: str
    operands: tuple[Operand, ...]
    inside: tuple[fx.Node, ...] = field(default=())


def operations(graph: fx.Graph) -> Iterator[Match]:
    """Yield every operation of a graph, in order."""
    operators: dict[fx.Node, Match] = {}
    taken: set[fx.Node] = set()
    for node in graph.nodes:
        name = OPERATORS.get(programs.op_of(node)) if node.op == "call_function" else None
        if name is None:
            continue
        plain = Match(node, name, tuple(_operands(node, name)))
        operation = _softsign(node) if name == SOFTSIGN else plain
        if operation is not None:
            operators[node] = operation
            taken.update(operation.inside)
    yield from (operation for node, operation in operators.items() if node not in taken)


def _operands(node: fx.Node, name: str) -> Iterator[Operand]:
    """Yield the operands that are floating tensors; numbers have no format."""
    for position, source in _arguments(node):
        if not isinstance(source, fx.Node) or not _is_float(source):
            continue
        operand = _argument(node, position)
        if position == 0:
            yield Operand(node, position, "x", source)
        elif name in _PRODUCTS | _SUMS or operand == "weight":
            yield Operand(node, position, "w", source)
        elif operand == "bias":
            yield Operand(node, position, "b", source)


def _arguments(node: fx.Node) -> Iterator[tuple[int | str, Any]]:
    yield from enumerate(node.args)
    yield from node.kwargs.items()


def _argument(node: fx.Node, position: int | str) -> str:
    """Return the operator's own name of an argument."""
    known = overload(node.target)
    if isinstance(position, str) or known is None:
        return str(position)
    return str(known._schema.arguments[position].name)  # noqa: SLF001 - no public name


def _softsign(node: fx.Node) -> Match | None:
    """Return x / (1 + |x|), which is all there is of a softsign in a graph; None for others."""
    x, total = node.args[:2]
    if not isinstance(x, fx.Node) or not isinstance(total, fx.Node):
        return None
    if OPERATORS.get(programs.op_of(total)) != "add" or 1 not in total.args[:2]:
        return None
    size = next((a for a in total.args[:2] if isinstance(a, fx.Node)), None)
    if size is None or programs.op_of(size) != _ABS or size.args[0] is not x or not _is_float(x):
        return None
    operands = Operand(size, 0, "x", x), Operand(node, 0, "x", x)
    return Match(node, SOFTSIGN, operands, (size, total))


def _is_float(source: fx.Node) -> bool:
    value = source.meta.get("val")
    return value is None or bool(value.is_floating_point())


@contextmanager
def float_module(context: StageContext) -> Iterator[fx.GraphModule]:
    """Give the float program's module to prepare, batch norms and all."""
    yield own_branches(context.live("export").module(check_guards=False))


def prepare(module: fx.GraphModule, rules: GraphRules) -> fx.GraphModule:
    """Put an observer on every operand that a rule gives a format; equal ones share it.

    What loops repeat is prepared too; the branches of a condition are graphs of their own.

    Raises:
        WorkbenchError: a format cannot take an operand.
    """
    programs.write_nowhere(module, but_buffers=True)
    _own_constants(module)
    rules.decide(module.graph)
    observers: dict[tuple[fx.Node, str], fx.Node] = {}
    results: dict[fx.Node, fx.Node] = {}
    for operation in list(operations(module.graph)):
        rule = rules.won.get(operation.node)
        config = rules.project.config_of(rule) if rule is not None else None
        if rule is not None and isinstance(config, FormatConfig):
            _add_observers(module, operation, config, observers, results)
            rules.placed.update((n, rule) for n in (operation.node, *operation.inside))
    for name, body in list(loop_bodies(module)):
        module.set_submodule(name, prepare(body, rules), strict=True)
    module.recompile()
    return module


def _own_constants(module: fx.GraphModule) -> None:
    """Let branches hold their constants: there these are weights, and no values that flow."""
    for graph, placeholder, value in list(constants(module)):
        if placeholder.users:
            name = f"own_{placeholder.name}"
            if isinstance(value, torch.nn.Parameter):
                graph.register_parameter(name, value)
            else:
                graph.register_buffer(name, value)
            with graph.graph.inserting_before(placeholder):
                read = graph.graph.get_attr(name)
            read.meta = {**placeholder.meta}
            placeholder.replace_all_uses_with(read)
        graph.graph.erase_node(placeholder)
        graph.recompile()
    drop_constants(module)


def _add_observers(
    module: fx.GraphModule,
    match: Match,
    config: FormatConfig,
    observers: dict[tuple[fx.Node, str], fx.Node],
    results: dict[fx.Node, fx.Node],
) -> None:
    """Observe operands and result; ``results`` are observed results by what they are of."""
    for operand in match.operands:
        name = "x" if role_of(match.operation, operand.name) == "data" else operand.name
        placing = Placing(match.operation, name, config)
        source = results.get(operand.source, operand.source)
        if not _is_quantized(module, match, placing, source):
            continue
        key = source, placing.text
        if key not in observers:
            with module.graph.inserting_before(operand.reader):
                observers[key] = _observed(module, source, placing)
        operand.replace(observers[key])
    result = Placing(match.operation, RESULT, config)
    if _is_quantized(module, match, result, match.node):
        users = list(match.node.users)
        with module.graph.inserting_after(match.node):
            seen = _observed(module, match.node, result)
        results[match.node] = seen
        for user in users:
            user.replace_input_with(match.node, seen)


def _is_quantized(module: fx.GraphModule, match: Match, placing: Placing, source: fx.Node) -> bool:
    """Try the format on the operand's shape; return whether the operation quantizes it at all."""
    value = _constant(module, source)
    if value is None:
        held = source.meta["val"]
        value = torch.zeros(tuple(held.shape), dtype=held.dtype)
    try:
        with torch.no_grad():
            return quantize_per_format(value, placing.text) is not value
    except WorkbenchError as error:
        infos = [
            info.model_copy(update={"where": Place(kind="node", id=match.node.name)}) for info in error.infos
        ]
        raise WorkbenchError(infos) from error


def _observed(module: fx.GraphModule, source: fx.Node, placing: Placing) -> fx.Node:
    """Insert an observer that converting replaces by the emulation."""
    kind = MinMaxObserver if programs.is_constant(source) else HistogramObserver
    observer: Any = kind()
    observer.placing = placing
    number = sum(1 for node in module.graph.nodes if node.op == "call_module")
    name = f"format_observer_{number}"
    module.add_submodule(name, observer)
    node = module.graph.call_module(name, (source,))
    node.meta = {key: key_value for key, key_value in source.meta.items() if key in {"val", "tensor_meta"}}
    return node


def _constant(module: fx.GraphModule, node: fx.Node) -> torch.Tensor | None:
    if not programs.is_constant(node):
        return None
    value = operator.attrgetter(str(node.target))(module)
    assert isinstance(value, torch.Tensor)
    return value


def convert(module: fx.GraphModule, *, fold: bool = True) -> fx.GraphModule:
    """Return the emulated program, made of the module itself; ``fold`` applies weights' once.

    What loops repeat is converted too; the branches of a condition are graphs of their own.
    """
    for node in list(module.graph.nodes):
        if node.op == "call_module":
            observer: Any = module.get_submodule(str(node.target))
            observer.placing.becomes(module, node)
            module.delete_submodule(str(node.target))
    for name, body in list(loop_bodies(module)):
        module.set_submodule(name, convert(body, fold=fold), strict=True)
    if fold:
        _fold(module)
    module.recompile()
    return module


def _fold(module: fx.GraphModule) -> None:
    for node in list(module.graph.nodes):
        source = node.args[0] if node.target is quantize_per_format else None
        value = _constant(module, source) if isinstance(source, fx.Node) else None
        if value is None:
            continue
        with torch.no_grad():
            placed = quantize_per_format(value.detach(), *node.args[1:])
        name = f"_on_grid_{node.name}"
        module.register_buffer(name, placed)
        with module.graph.inserting_before(node):
            constant = module.graph.get_attr(name)
        constant.meta = {**node.meta}
        node.replace_all_uses_with(constant)
        module.graph.erase_node(node)
    programs.drop_unused(module.graph)


def report(rules: GraphRules, prepared: fx.GraphModule, project: Project) -> list[NodeAnnotation]:
    """Return for every operator whether its operands have a format, by which rule, or why not."""
    annotations = []
    for node in prepared.graph.nodes:
        if node.op != "call_function" or "val" not in node.meta:
            continue
        rule, by = rules.placed.get(node), rules.won.get(node)
        op, wanted = programs.op_of(node), by is not None and project.config_of(by) is not None
        why = None if rule else FUSED.get(op, NOT_IN_TABLE) if wanted else UNRULED
        cause, reason = why or ("", "")
        annotations.append(
            NodeAnnotation(
                node=node.name,
                op=op,
                module=programs.module_of(node),
                config=project.label_of(rule) if rule else "float",
                by=f"{rule.id} {rule.kind} {rule.match}".rstrip() if rule else "",
                quantized=rule is not None,
                reason=reason,
                cause=cause,
            )
        )
    return annotations


def qat_model(floating: fx.GraphModule, opened: OpenProject) -> EmulatedQatModel:
    """Return the float program with its formats, to be trained."""
    return EmulatedQatModel(
        floating,
        lambda module: convert(prepare(module, rules_of(opened)), fold=False),
        lambda node: node.target is quantize_per_format,
    )


def memory(observed: fx.GraphModule) -> FormatMemory:
    """Return the average bits of weights and of what flows into operations; the rest is float32.

    Weights are all floating constants that the graph reads, biases and statistics among them.

    Args:
        observed: From ``prepare``, calibrated or not.
    """
    weights, data = _Sum(), _Sum()
    _add(observed, weights, data)
    return FormatMemory(
        weight_bits=weights.average,
        data_bits=data.average,
        weight_elements=weights.elements,
        data_elements=data.elements,
    )


def _add(observed: fx.GraphModule, weights: _Sum, data: _Sum) -> None:
    """Add the values of a graph and of the branches and loops in it."""
    for node in observed.graph.nodes:
        if not programs.is_constant(node) or not node.users:
            continue
        value = operator.attrgetter(str(node.target))(observed)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            users = (_placing(observed, user) for user in node.users)
            placing = next((candidate for candidate in users if candidate is not None), None)
            weights.add(tuple(value.shape), placing)
    seen: set[tuple[fx.Node, str]] = set()
    for operation in operations(observed.graph):
        for operand in operation.operands:
            source = operand.source
            placing = _placing(observed, source)
            origin = source.args[0] if placing is not None else source
            key = origin, placing.text if placing is not None else ""
            if not programs.is_constant(origin) and key not in seen:
                seen.add(key)
                data.add(tuple(origin.meta["val"].shape), placing)
    for _, branch in branches_of(observed):
        _add(branch, weights, data)


class _Sum:
    def __init__(self) -> None:
        self.elements, self._bits = 0, 0.0

    def add(self, shape: tuple[int, ...], placing: Placing | None) -> None:
        count = math.prod(shape)
        self.elements += count
        self._bits += count * (FLOAT_BITS if placing is None else _bits(placing, shape))

    @property
    def average(self) -> float | None:
        return self._bits / self.elements if self.elements else None


def _bits(placing: Placing, shape: tuple[int, ...]) -> float:
    operation = placing.formatted_operation
    if placing.operand == RESULT:
        return operation.result_bits()
    return operation.bits(shape, placing.operand)


def _placing(observed: fx.GraphModule, node: fx.Node) -> Placing | None:
    if node.op != "call_module":
        return None
    placing: Placing | None = getattr(observed.get_submodule(str(node.target)), "placing", None)
    return placing
