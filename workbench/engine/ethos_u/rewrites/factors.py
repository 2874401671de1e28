"""Constant factors behind layers and of attention.

ExecuTorch multiplies queries and keys by the root of the factor of an attention, each an operation over
the whole tensor, with conversions around it. One factor of the queries is the same, and where a layer
computes them it is a part of its weights.
"""

import math
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    CONVOLUTIONS,
    MOVED,
    SCALED,
    conv_arguments,
    quantized_calls,
    written_name,
)

_ATEN = torch.ops.aten
_ATTENTION = _ATEN.scaled_dot_product_attention.default
_PASSING = {*MOVED, _ATEN.dropout.default}


def take_factors(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write attention without a mask with one factor; take factors into the layers before them."""
    done = list[str]()
    for node in quantized_calls(module, quantizer, _ATTENTION):
        if _is_plain(node):
            done.append(written_name(node))
            _write_attention(module, node)
    layers = set(quantized_calls(module, quantizer, _ATEN.linear.default, *CONVOLUTIONS))
    for node in quantized_calls(module, quantizer, *SCALED):
        factor, layer = _factor(node), _layer_before(node)
        if factor is not None and layer in layers and _take_factor(module, layer, factor):
            if (name := written_name(node)) not in done:
                done.append(name)
            node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
            module.graph.erase_node(node)
    return finished(module, done)


def _is_plain(node: fx.Node) -> bool:
    """Return whether an attention has neither mask nor dropout, and as many queries as keys of heads."""
    query, key, _, *more = node.args
    heads = [part.meta["val"].shape[:-2] for part in (query, key)]  # type: ignore[union-attr]
    return not any(more) and not {*node.kwargs} - {"scale"} and heads[0] == heads[1]


def _write_attention(module: fx.GraphModule, node: fx.Node) -> None:
    query, key, value = node.args[:3]
    write, size = Writer(module, node), query.meta["val"].shape[-1]  # type: ignore[union-attr]
    scale: Any = node.kwargs.get("scale")
    scaled = write(_ATEN.mul.Tensor, query, 1 / math.sqrt(size) if scale is None else scale)
    scores = write(_ATEN.matmul.default, scaled, write(_ATEN.transpose.int, key, -2, -1))
    write.replace(write(_ATEN.matmul.default, write(_ATEN.softmax.int, scores, -1), value))


def _factor(node: fx.Node) -> float | None:
    """Return the number that a value is multiplied by; None for another product."""
    number = node.args[1] if len(node.args) == 2 and not node.kwargs else None
    if isinstance(number, bool) or not isinstance(number, int | float) or not number:
        return None
    return float(number) if "mul" in str(node.target) else 1 / number


def _layer_before(node: fx.Node) -> fx.Node | None:
    """Return what computes the value of an operation, where nothing else reads it."""
    source: Any = node.args[0]
    while isinstance(source, fx.Node) and len(source.users) == 1:
        if source.target not in _PASSING:
            return source
        source = source.args[0]
    return None


def _take_factor(module: fx.GraphModule, layer: fx.Node | None, factor: float) -> bool:
    """Multiply the weights and the bias of a layer; return whether they are its own constants."""
    assert layer is not None
    _, weight, bias, *_ = conv_arguments(layer)
    held = {place: constant_of(module, part) for place, part in ((1, weight), (2, bias)) if part is not None}
    is_shared = any(len(part.users) > 1 for part in (weight, bias) if part is not None)
    if layer.kwargs or is_shared or any(value is None for value in held.values()):
        return False
    write = Writer(module, layer)
    for place, value in held.items():
        layer.update_arg(place, write.parameter(f"{layer.name}_scaled_{place}", value * factor))
    return True
