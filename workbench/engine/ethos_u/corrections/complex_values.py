"""Which values of a graph are complex, and what ExecuTorch's kernels for the CPU compute of them."""

from collections.abc import Iterator

import torch
from torch import fx

_ATEN = torch.ops.aten
# What ExecuTorch's kernels for the CPU compute of complex numbers.
# Source: ExecuTorch 1.5.1 ``kernels/portable/cpu`` and ``kernels/optimized/cpu``.
_TRANSFORM = _ATEN._fft_r2c.default  # noqa: SLF001
_READERS_ON_CPU = (_ATEN.abs.default, _ATEN._fft_c2r.default)  # noqa: SLF001
_ON_CPU = frozenset(
    (
        *(_TRANSFORM, _ATEN.slice.Tensor, _ATEN.select.int),
        *(_ATEN.reshape.default, _ATEN.view.default, _ATEN.clone.default, _ATEN.contiguous.default),
    )
)


class NotWrittenError(Exception):
    """An operator computes with complex numbers in a way that has no form with real ones."""


def is_complex(node: fx.Node) -> bool:
    """Return whether a node computes complex numbers."""
    return node.op == "call_function" and _is_of_complex(node)


def _is_of_complex(node: fx.Node) -> bool:
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) and value else value
    return isinstance(first, torch.Tensor) and first.is_complex()


def left_complex(module: fx.GraphModule) -> Iterator[fx.Node]:
    """Yield the operators that compute or read complex numbers."""
    for node in module.graph.nodes:
        if node.op == "call_function" and (is_complex(node) or reads_complex(node)):
            yield node


def reads_complex(node: fx.Node) -> bool:
    """Return whether a node reads complex numbers."""
    return any(map(_is_of_complex, node.all_input_nodes))


def spectrum_of(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the complex values that a node is computed from, back to real ones."""
    waiting, seen = [node], {node}
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source not in seen and is_complex(source):
                seen.add(source)
                waiting.append(source)
                yield source


def is_for_cpu(node: fx.Node) -> bool:
    """Return whether ExecuTorch computes a reader of complex numbers, and those, on the CPU."""
    return node.target in _READERS_ON_CPU and all(map(_is_on_cpu, spectrum_of(node)))


def _is_on_cpu(node: fx.Node) -> bool:
    """Return whether a kernel computes a complex value; the transform's gives half a spectrum only."""
    is_half = node.target is not _TRANSFORM or bool(node.args[3])
    return node.target in _ON_CPU and is_half
