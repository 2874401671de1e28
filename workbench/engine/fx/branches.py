"""Operands of branches and loops, including constants."""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any

from torch import fx

from workbench.engine.fx import programs
from workbench.engine.fx.observers import branches_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

# Argument positions of control-flow graphs, and of their operands: a condition's operands, and
# the values that a loop reads but does not carry.
_GRAPHS = {"cond": (1, 2), "while_loop": (0, 1)}
_BODY = 1
_OPERANDS = 3


def branch_names(module: fx.GraphModule, inside: str = "") -> Iterator[tuple[int, str]]:
    """Yield the id of every graph below one, and the name prefix of its nodes."""
    for below, branch in branches_of(module):
        yield id(branch), f"{inside}{below}"
        yield from branch_names(branch, f"{inside}{below}")


def own_branches(module: fx.GraphModule) -> fx.GraphModule:
    """Return a module with its own branches: those of an exported program are shared."""
    for node in module.graph.nodes:
        if programs.is_control_flow(node):
            for position in _GRAPHS[_kind(node)]:
                name, graph = _graph(module, node, position)
                mine = fx.GraphModule(graph, copy.deepcopy(graph.graph))
                module.set_submodule(name, own_branches(mine), strict=True)
    return module


def loop_bodies(module: fx.GraphModule) -> Iterator[tuple[str, fx.GraphModule]]:
    """Yield the body of each loop of a graph, with its name."""
    for node in module.graph.nodes:
        if programs.is_control_flow(node) and _kind(node) == "while_loop":
            yield _graph(module, node, _BODY)


def constants(
    module: fx.GraphModule, known: Mapping[fx.Node, torch.Tensor] | None = None
) -> Iterator[tuple[fx.GraphModule, fx.Node, torch.Tensor]]:
    """Yield the constant inputs of branches: the branch, its placeholder, the tensor.

    Args:
        module: A graph; nested branches are included.
        known: Its own constant inputs.
    """
    for node in module.graph.nodes:
        if not programs.is_control_flow(node):
            continue
        for position in _GRAPHS[_kind(node)]:
            _, graph = _graph(module, node, position)
            values = {
                inside: value
                for source, inside in _handed(node, graph)
                if (value := _constant(module, source, known or {})) is not None
            }
            yield from ((graph, inside, value) for inside, value in values.items())
            yield from constants(graph, values)


def drop_constants(module: fx.GraphModule) -> None:
    """Remove the constant operands of a graph's branches, which then contain the constants."""
    for node in module.graph.nodes:
        if programs.is_control_flow(node):
            given: Any = node.args[_OPERANDS]
            node.update_arg(_OPERANDS, tuple(operand for operand in given if operand.op != "get_attr"))
    programs.drop_unused(module.graph)


def _handed(node: fx.Node, graph: fx.GraphModule) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield the operands of a branch, each with its placeholder."""
    given: Any = node.args[_OPERANDS]
    placeholders = [inner for inner in graph.graph.nodes if inner.op == "placeholder"]
    # Carried values come first.
    yield from zip(given, placeholders[len(placeholders) - len(given) :], strict=True)


def _constant(
    module: fx.GraphModule, source: fx.Node, known: Mapping[fx.Node, torch.Tensor]
) -> torch.Tensor | None:
    while source.op == "call_module":
        # An observer returns its input.
        source = source.all_input_nodes[0]
    if source.op == "get_attr":
        value: torch.Tensor = operator.attrgetter(str(source.target))(module)
        return value
    return known.get(source)


def _kind(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", ""))


def _graph(module: fx.GraphModule, node: fx.Node, index: int) -> tuple[str, fx.GraphModule]:
    source: Any = node.args[index]
    graph: Any = module.get_submodule(str(source.target))
    return str(source.target), graph
