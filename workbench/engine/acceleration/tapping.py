"""Graphs that give the values of chosen nodes beside their outputs, as compiled code."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import fx
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.acceleration.evaluation import fast_quantized_module
from workbench.engine.fx.programs import write_nowhere

if TYPE_CHECKING:
    from collections.abc import Collection

    import torch


class Tapped:
    """A module that is asked for the values of some of its nodes by name."""

    def __init__(self, module: fx.GraphModule, names: list[str]) -> None:
        self._module, self._names = module, names

    def __call__(self, *inputs: torch.Tensor) -> tuple[Any, dict[str, Any]]:
        """Return the outputs, flat, and the values by name."""
        outputs, values = self._module(*inputs)
        return outputs, dict(zip(self._names, values, strict=True))


def tapped_float(prepared: fx.GraphModule, names: Collection[str]) -> Tapped:
    """Return the float side of a prepared module: nothing is observed when it runs."""
    module, kept = _with_values(prepared, names)
    for node in list(module.graph.nodes):
        if node.op == "call_module" and _observes(module, node):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    write_nowhere(module)
    return Tapped(module, kept)


def tapped_quantized(converted: fx.GraphModule, names: Collection[str]) -> Tapped:
    """Return a converted module that runs fast; the values are its own for finite inputs."""
    module, kept = _with_values(converted, names)
    write_nowhere(module)
    return Tapped(fast_quantized_module(module), kept)


def _with_values(
    module: fx.GraphModule, names: Collection[str]
) -> tuple[fx.GraphModule, list[str]]:
    graph = copy.deepcopy(module.graph)
    # Inputs and outputs stay flat: the module's own nesting would not fit the values.
    graph.set_codegen(fx.graph.CodeGen())
    nodes = [node for node in graph.nodes if node.name in names]
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    output.args = ((output.args[0], tuple(nodes)),)
    return fx.GraphModule(module, graph), [node.name for node in nodes]


def _observes(module: fx.GraphModule, node: fx.Node) -> bool:
    return isinstance(module.get_submodule(str(node.target)), ObserverBase)
