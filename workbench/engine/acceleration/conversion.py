"""Observers are inserted, and replaced by constants that are folded, in less time.

- ``quick_folding``: of a converted graph only what follows from constants alone is visited whole.
- ``quick_names``: a free name of an attribute is looked for in the tables of a module.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FOLDER = "torchao.quantization.pt2e.constant_fold:ConstantFolder"
FOLDED = (f"{_FOLDER}.run_node", f"{_FOLDER}.node_to_last_non_output_use")
_FOLDING_PINS = (
    (FOLDED[0], "5b908e8ff2a33058"),
    (FOLDED[1], "1a9d0180710a53ac"),
    (f"{_FOLDER}.is_impure", "e49ead6a04c0f569"),
    (f"{_FOLDER}._deduce_value", "4222c48847aeb1ed"),
)
NAMED = (
    "torchao.quantization.pt2e.utils:get_new_attr_name_with_prefix",
    "torch.ao.quantization.fx.prepare:get_new_attr_name_with_prefix",
)
_NAMING_PINS = ((NAMED[0], "334d55e45bc498fe"), (NAMED[1], "334d55e45bc498fe"))


@contextmanager
def quick_folding() -> Iterator[None]:
    """Fold constants with less work for nodes that follow from inputs while the block runs.

    Source: torchao 0.18 ``pt2e/constant_fold.py``. A node is unknown if one of its arguments is, and
    a dequantize of constants is unknown whatever its value is, which stock computes first.
    """
    if not sources_match("Quick folding of constants", _FOLDING_PINS):
        yield
        return
    import torch
    from torchao.quantization.pt2e.constant_fold import ConstantFolder

    operators, stock = torch.ops.quantized_decomposed, ConstantFolder.run_node
    dequantize = {
        operators.dequantize_per_channel.default,
        operators.dequantize_per_tensor.default,
        operators.dequantize_per_tensor.tensor,
    }

    def run_node(self: Any, node: Any) -> Any:
        if node.op == "output" or self.lifted_constant_names is not None:
            return stock(self, node)
        sources = [self.env[source] for source in node.all_input_nodes]
        if any(value is self.unknown_value for value in sources):
            return self.unknown_value
        # Of a tensor without values the value is passed on.
        if node.target in dequantize and not any(getattr(value, "is_meta", True) for value in sources):
            return self.unknown_value
        return stock(self, node)

    with ExitStack() as stack:
        stack.enter_context(replaced(ConstantFolder, "run_node", run_node))
        stack.enter_context(replaced(ConstantFolder, "node_to_last_non_output_use", _last_uses))
        yield


def _last_uses(self: Any) -> dict[Any, list[Any]]:
    """Return the nodes whose last reader but the output each node is, as stock does."""
    nodes = list(self.module.graph.nodes)
    uses: dict[Any, list[Any]] = {node: [] for node in nodes}
    read, output = set[Any](), nodes[-1]
    for node in reversed(nodes[:-1]):
        uses[node] += [source for source in node.all_input_nodes if source not in read]
        read.update(uses[node])
        # A node that only the output reads is dropped at once.
        if len(node.users) == 1 and output in node.users:
            uses[node].append(node)
    return uses


@contextmanager
def quick_names() -> Iterator[None]:
    """Look for free names of attributes in the tables of a module while the block runs.

    Source: torchao 0.18 ``pt2e/utils.py``, and the same function in torch 2.13, which count up from 0
    for each observer and ask the module for every number.
    """
    if not sources_match("Quick names of attributes", _NAMING_PINS):
        yield
        return
    with ExitStack() as stack:
        for path in NAMED:
            module, _, name = path.partition(":")
            stack.enter_context(replaced(import_module(module), name, _new_name_with_prefix))
        yield


def _new_name_with_prefix(prefix: str) -> Callable[[Any], str]:
    plain = prefix.replace(".", "_")

    def new_name(module: Any) -> str:
        parameters, buffers, modules = module._parameters, module._buffers, module._modules  # noqa: SLF001
        number, name = 0, f"{plain}0"
        while name in buffers or name in modules or name in parameters or hasattr(module, name):
            number += 1
            name = f"{plain}{number}"
        return name

    return new_name
