"""The operators of a float graph that the quantizer's rules quantize."""

from collections.abc import Iterator
from typing import Any

from torch import fx

from workbench.engine.toolchain_patches.graph_writer import floating_calls


def quantized_calls(module: fx.GraphModule, quantizer: Any, *targets: Any) -> Iterator[fx.Node]:
    """Yield the calls of operators that are quantized: others run on the CPU as they are written.

    Args:
        module: A float program's graph.
        quantizer: Ethos-U's quantizer, with its rules.
        targets: Operators.
    """
    if not any(node.target in targets for node in module.graph.nodes):
        return
    quantized = _quantized(module, quantizer)
    for node in floating_calls(module, *targets):
        if node in quantized:
            yield node


def _quantized(module: fx.GraphModule, quantizer: Any) -> set[fx.Node]:
    """Return the nodes whose strongest rule is that of a configuration.

    Those that a plug-in's quantizer may take are left out: it knows operators as they are written.
    """
    decided, quantized = set[fx.Node](), set[fx.Node]()
    for one in quantizer.quantizer.quantizers:
        finder = getattr(one, "node_finder", None)
        if finder is None:
            if hasattr(one, "own"):
                return set()
            continue
        found = set(finder.find_nodes(module)) - decided
        decided |= found
        if one.quantization_config is not None:
            quantized |= found
    return quantized
