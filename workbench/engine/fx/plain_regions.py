"""Parts of a float program that torch keeps apart for a mode, put back among the others.

What ``torch.no_grad`` or ``torch.autocast`` surrounds becomes a graph of its own, in which nothing
would be quantized. Gradients do not matter to a program, and what computes in half precision under
autocast is refused before.

This file stands on torch alone, because a generated script carries it along.
"""

import copy
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import TensorArgument

_HIGHER = torch.ops.higher_order
_MODES = (_HIGHER.wrap_with_set_grad_enabled, _HIGHER.wrap_with_autocast)


def with_plain_regions(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose operators stand in its own graph, whatever mode surrounds them."""
    if not any(_regions(part) for part in graphs_of(program.graph_module)):
        return program
    module = copied_graph(program)
    for part in graphs_of(module):
        while regions := _regions(part):
            _put_in_line(part, regions[0])
        part.recompile()
    return rebuilt(program, module, copy.deepcopy(program.graph_signature))


def graphs_of(module: fx.GraphModule) -> list[fx.GraphModule]:
    """Return a graph and those of its branches and loops."""
    return [part for part in module.modules() if isinstance(part, fx.GraphModule)]


def copied_graph(program: torch.export.ExportedProgram) -> fx.GraphModule:
    """Return a copy of a program's graph, with the names of inputs.

    A copy of torch.fx has other names for inputs that are named as functions of Python are: ``input``
    becomes ``input_1``, and the program's signature does not know it.
    """
    module = copy.deepcopy(program.graph_module)
    inputs = (graph.find_nodes(op="placeholder") for graph in (module.graph, program.graph))
    for own, given in zip(*inputs, strict=True):
        own.name = own.target = given.name
    module.recompile()
    return module


def rebuilt(
    program: torch.export.ExportedProgram, module: fx.GraphModule, signature: Any
) -> torch.export.ExportedProgram:
    """Return a program with another graph, whose outputs are named anew, and the same weights."""
    results: Any = module.graph.output_node().args[0]
    for spec, value in zip(signature.output_specs, results, strict=True):
        if isinstance(spec.arg, TensorArgument):
            spec.arg = TensorArgument(value.name)
    calls = copy.deepcopy(program.module_call_graph)
    if calls[0].signature is not None:
        users = [spec.arg for spec in signature.output_specs if spec.kind.name == "USER_OUTPUT"]
        calls[0].signature.outputs = users
    return torch.export.ExportedProgram(
        module,
        module.graph,
        signature,
        program.state_dict,
        program.range_constraints,
        calls,
        program.example_inputs,
        program.constants,
        verifiers=program.verifiers,
    )


def _regions(part: fx.GraphModule) -> list[fx.Node]:
    return [node for node in part.graph.nodes if node.op == "call_function" and node.target in _MODES]


def _put_in_line(owner: fx.GraphModule, call: fx.Node) -> None:
    """Replace the call of a graph that a mode surrounds by the nodes of that graph."""
    given = [node for node in call.args if isinstance(node, fx.Node)]
    part: Any = getattr(owner, str(given[0].target))
    known: dict[fx.Node, Any] = dict(zip(part.graph.find_nodes(op="placeholder"), given[1:], strict=True))
    with owner.graph.inserting_before(call):
        for node in part.graph.nodes:
            if node.op == "get_attr":
                known[node] = owner.graph.get_attr(_held(owner, getattr(part, str(node.target))))
                known[node].meta = dict(node.meta)
            elif node.op == "call_function":
                known[node] = owner.graph.node_copy(node, known.__getitem__)
    results = [known[node] for node in part.graph.output_node().args[0]]
    for reader in list(call.users):
        reader.replace_all_uses_with(results[reader.args[1]])  # type: ignore[index]
        owner.graph.erase_node(reader)
    owner.graph.erase_node(call)
    if not given[0].users:
        owner.graph.erase_node(given[0])
        delattr(owner, str(given[0].target))


def _held(owner: fx.GraphModule, value: Any) -> str:
    """Put a graph or a tensor into a module, and return its name there."""
    name = "region"
    while hasattr(owner, name):
        name += "_"
    setattr(owner, name, value)
    return name
