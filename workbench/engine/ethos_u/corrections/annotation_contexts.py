"""Corrections around ExecuTorch's passes before annotation.

A correction is a context manager of the float graph that the passes get, which yields a list of
what it changes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

_ATEN = torch.ops.aten
# Operators whose result, or decomposition, has a size that a constant gives.
_SIZED_BY_CONSTANTS = frozenset(
    {
        _ATEN.scaled_dot_product_attention.default,
        _ATEN.index.Tensor,
        _ATEN.index_select.default,
        _ATEN.gather.default,
        _ATEN.embedding.default,
    }
)


def _sized_constants(graph_module: fx.GraphModule) -> list[str]:
    """Return what is computed of constants alone, and read by such an operator."""
    constant: dict[fx.Node, bool] = {}
    for node in graph_module.graph.nodes:
        inputs = node.all_input_nodes
        constant[node] = node.op == "get_attr" or (
            node.op == "call_function" and bool(inputs) and all(constant[i] for i in inputs)
        )
    readers = (n for n in graph_module.graph.nodes if n.target in _SIZED_BY_CONSTANTS)
    return list(dict.fromkeys(i.name for n in readers for i in n.all_input_nodes if constant[i]))


@contextmanager
def static_sizes(graph_module: fx.GraphModule) -> Iterator[list[str]]:
    """Write sizes of constants as numbers.

    Fault: The passes take the sizes of constants that are no parameters as variable. Operators that
        ask a constant, or what it selects, for its size then fail ("Could not get device from 4",
        "a.node.constant should not be None").
    Instead: The constants have the sizes that they have.
    Right because: The sizes of constants do not change.
    Network: scaled_dot_product_attention(self.query, key(x), value(x)), as in DETR; and
        x[:, self.order].std(1)
    Tools: executorch 1.5.1
    """
    values = [node.meta.get("val") for node in graph_module.graph.nodes]
    modes = {v.fake_mode for v in values if isinstance(v, FakeTensor)}
    variable = [mode for mode in modes if not mode.static_shapes]
    for mode in variable:
        mode.static_shapes = True
    try:
        yield _sized_constants(graph_module) if variable else []
    finally:
        for mode in variable:
            mode.static_shapes = False
