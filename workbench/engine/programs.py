"""Exported programs on disk, and small questions about their graphs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine import fx_tensors

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM_FILE = "program.pt2"
# Marks a quantize node whose tensor stays as it is: only what reads it there rounds it.
DYNAMIC = "quantized by its reader"
_CONTROL_FLOW = ("cond", "while_loop")


def save(program: torch.export.ExportedProgram, folder: Path) -> None:
    """Write a program as ``program.pt2`` into a result folder.

    Its example inputs stay out: torch would pickle them, and results hold no pickles.
    """
    inputs = program._example_inputs  # noqa: SLF001 - no public way to leave them out
    program._example_inputs = None  # noqa: SLF001
    try:
        torch.export.save(program, str(folder / PROGRAM_FILE))
    finally:
        program._example_inputs = inputs  # noqa: SLF001


def load(folder: Path) -> torch.export.ExportedProgram:
    """Read a program that ``save`` wrote."""
    return torch.export.load(str(folder / PROGRAM_FILE))


def is_control_flow(node: torch.fx.Node) -> bool:
    """Return whether a node runs one of several subgraphs."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") in _CONTROL_FLOW


def has_control_flow(graph_module: torch.fx.GraphModule) -> bool:
    """Return whether a graph holds ``torch.cond`` or ``while_loop``."""
    return any(is_control_flow(node) for node in graph_module.graph.nodes)


def written_buffers(graph_module: torch.fx.GraphModule) -> dict[str, str]:
    """Return the buffers that a graph writes, each with the node that writes it last."""
    written = {}
    for node in graph_module.graph.nodes:
        if _is_write(node) and node.args[0].op == "get_attr":
            written[str(node.args[0].target)] = str(node.name)
    return written


def is_constant(node: torch.fx.Node) -> bool:
    """Return whether a node is an attribute that its graph does not write."""
    written = any(_is_write(user) and user.args[0] is node for user in node.users)
    return node.op == "get_attr" and not written


def drop_unused(graph: torch.fx.Graph) -> None:
    """Take out of a graph what nobody reads; what it writes into its buffers stays."""
    graph.eliminate_dead_code(lambda node: node.is_impure() or _is_write(node))


def without_writes(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program that computes what its buffers become, and writes them at its end.

    So does ExecuTorch's export of language models (1.5.1, ``extension/llm/export/builder.py``):
    Arm's quantizer has no patterns for operators that write into a buffer. A program that writes
    none is returned as it is.
    """
    if not any(_writes_buffer(node, program) for node in program.graph.nodes):
        return program
    functional = program.run_decompositions({})
    return functional if functional.graph_signature.buffers_to_mutate else program


def _writes_buffer(node: torch.fx.Node, program: torch.export.ExportedProgram) -> bool:
    if not _is_write(node):
        return False
    at = node
    while at.op == "call_function" and at.args and isinstance(at.args[0], torch.fx.Node):
        at = at.args[0]
    return at.name in program.graph_signature.inputs_to_buffers


def _is_write(node: torch.fx.Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):  # noqa: SLF001
        return False
    mutable = target._schema.is_mutable  # noqa: SLF001 - no public name
    return bool(mutable and node.args and isinstance(node.args[0], torch.fx.Node))


def write_nowhere(graph_module: torch.fx.GraphModule, *, but_buffers: bool = False) -> None:
    """Put operators that return a new tensor in place of those that write into their input.

    Then the value of every node stays what it was when it was computed. Whoever read the input
    after the write reads the result. With ``but_buffers`` what the program keeps in its buffers is
    still written there.
    """
    order = {node: place for place, node in enumerate(graph_module.graph.nodes)}
    for node, place in order.items():
        packet = _without_write(node)
        if packet is None:
            continue
        written = node.args[0]
        assert isinstance(written, torch.fx.Node)
        if but_buffers and written.op == "get_attr":
            continue
        for user in list(written.users):
            if order[user] > place:
                user.replace_input_with(written, node)
        node.target = packet
    graph_module.recompile()


def _without_write(node: torch.fx.Node) -> Any:
    """Return the operator that computes what one that writes into its input does, or None."""
    if not isinstance(node.target, torch._ops.OpOverload):  # noqa: SLF001
        return None
    packet, _, overload = node.target.name().rpartition("::")[2].partition(".")
    if not node.target._schema.is_mutable or not packet.endswith("_"):  # noqa: SLF001
        return None
    found = getattr(torch.ops.aten, packet[:-1], None)
    return getattr(found, overload or "default", None)


def module_of(node: torch.fx.Node) -> str:
    """Return the dotted name of the innermost module a node came from; "" for the root."""
    stack = node.meta.get("nn_module_stack") or {}
    names = [str(entry[0]) for entry in stack.values()]
    return re.sub(r"@\d+$", "", names[-1]).removeprefix("L['self'].") if names else ""


def op_of(node: torch.fx.Node) -> str:
    """Return an operator's dotted name, e.g. ``aten.conv2d.default``."""
    return fx_tensors.op_name(node)


def origin_of(node: torch.fx.Node) -> str:
    """Return the name that the exporter recorded for the node this one was made of, or ""."""
    name, origin = "", node.meta.get("from_node")
    while origin:
        name, origin = origin[0].name, origin[0].from_node
    return str(name)
