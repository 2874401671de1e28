"""Module names of operations inside branches and loops.

torch.export does not record them there unless it exports strictly; then every name has an extra
outer module. Without them, rules for modules or types would silently not apply inside branches.

This file depends on torch only, because generated scripts contain it.
"""

from collections.abc import Iterator
from typing import Any

import torch

_ROOT = "_export_root"


def name_modules(program: torch.export.ExportedProgram, model: torch.nn.Module | None) -> list[str]:
    """Set the modules of operations inside branches; return the branches without modules.

    Args:
        program: An exported program; metadata of its nested graphs is changed.
        model: Its source, exported once more if necessary; None if unknown.
    """
    unnamed = list(_take_off_roots(program))
    if not unnamed or model is None:
        return unnamed
    args, kwargs = program.example_inputs
    try:
        with torch.no_grad():
            strict = torch.export.export(model, args, kwargs, strict=True)
    except Exception:  # noqa: BLE001 - whatever keeps it from it: the branches stay unnamed
        return unnamed
    list(_take_off_roots(strict))
    known = dict(_nested(strict))
    return [
        name
        for name, graph in _nested(program)
        if name in unnamed and not (name in known and _take_over(graph, known[name]))
    ]


def _nested(program: torch.export.ExportedProgram) -> Iterator[tuple[str, torch.fx.GraphModule]]:
    for name, module in program.graph_module.named_modules():
        if name and isinstance(module, torch.fx.GraphModule):
            yield name, module


def _take_off_roots(program: torch.export.ExportedProgram) -> Iterator[str]:
    """Use the module names of the outer graph; yield the nested graphs without names."""
    for name, graph in _nested(program):
        operations = [node for node in graph.graph.nodes if node.op == "call_function"]
        for node in operations:
            stack = node.meta.get("nn_module_stack") or {}
            node.meta["nn_module_stack"] = {
                key: (path.removeprefix(f"{_ROOT}."), kind)
                for key, (path, kind) in stack.items()
                if path != _ROOT
            }
        if operations and not any(node.meta["nn_module_stack"] for node in operations):
            yield name


def _take_over(graph: torch.fx.GraphModule, known: torch.fx.GraphModule) -> bool:
    """Copy the modules of an equal graph; return whether it is equal."""

    def outline(module: torch.fx.GraphModule) -> list[Any]:
        return [(node.op, node.name, str(node.target)) for node in module.graph.nodes]

    if outline(graph) != outline(known):
        return False
    for mine, theirs in zip(graph.graph.nodes, known.graph.nodes, strict=True):
        for key in ("nn_module_stack", "stack_trace"):
            if mine.op == "call_function" and key in theirs.meta:
                mine.meta[key] = theirs.meta[key]
    return True
