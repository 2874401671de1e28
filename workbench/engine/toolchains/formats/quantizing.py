"""The rules of a project on an exported graph: observers that become emulation when converted.

Formats need no calibration. What passes the observers is kept all the same, because ranges and
histograms are what a format is chosen by; batch norms stay where they are.
"""

from __future__ import annotations

import operator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver

from workbench.engine import programs
from workbench.engine.branches import constants, drop_constants, loop_bodies, own_branches
from workbench.engine.formats.operations import role_of
from workbench.engine.graph_rules import GraphRules
from workbench.engine.toolchains.formats.emulation import (
    RESULT,
    Placing,
    quantize_per_format,
)
from workbench.engine.toolchains.formats.finding import Found, operations
from workbench.errors import Place, WorkbenchError
from workbench.project.format_config import FormatConfig
from workbench.results import NodeAnnotation
from workbench.targets.number_formats.operators import FUSED, NOT_IN_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.context import StageContext
    from workbench.project.model import Project


@contextmanager
def float_module(context: StageContext) -> Iterator[fx.GraphModule]:
    """Give the float program's module to prepare, batch norms and all."""
    yield own_branches(context.hot("export").module(check_guards=False))


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
    for found in list(operations(module.graph)):
        rule = rules.won.get(found.node)
        config = rules.project.config_of(rule) if rule is not None else None
        if rule is not None and isinstance(config, FormatConfig):
            _place(module, found, config, observers, results)
            rules.placed.update((n, rule) for n in (found.node, *found.inside))
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


def _place(
    module: fx.GraphModule, found: Found, config: FormatConfig,
    observers: dict[tuple[fx.Node, str], fx.Node], results: dict[fx.Node, fx.Node],
) -> None:  # fmt: skip
    """Observe operands and result; ``results`` are observed results by what they are of."""
    for operand in found.operands:
        name = "x" if role_of(found.operation, operand.name) == "data" else operand.name
        placing = Placing(found.operation, name, config)
        source = results.get(operand.source, operand.source)
        if not _is_quantized(module, found, placing, source):
            continue
        key = source, placing.text
        if key not in observers:
            with module.graph.inserting_before(operand.reader):
                observers[key] = _observed(module, source, placing)
        operand.replace(observers[key])
    result = Placing(found.operation, RESULT, config)
    if _is_quantized(module, found, result, found.node):
        users = list(found.node.users)
        with module.graph.inserting_after(found.node):
            seen = _observed(module, found.node, result)
        results[found.node] = seen
        for user in users:
            user.replace_input_with(found.node, seen)


def _is_quantized(module: fx.GraphModule, found: Found, placing: Placing, source: fx.Node) -> bool:
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
            info.model_copy(update={"where": Place(kind="node", id=found.node.name)})
            for info in error.infos
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
    node.meta = {key: each for key, each in source.meta.items() if key in {"val", "tensor_meta"}}
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
        reason = "" if rule else FUSED.get(op, NOT_IN_TABLE) if wanted else _NO_RULE
        annotations.append(NodeAnnotation(
            node=node.name, op=op, module=programs.module_of(node),
            config=project.label_of(rule) if rule else "float",
            by=f"{rule.id} {rule.kind} {rule.match}".rstrip() if rule else "",
            quantized=rule is not None, reason=reason,
        ))  # fmt: skip
    return annotations


_NO_RULE = "No rule gives it a format."
