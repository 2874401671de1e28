"""The operators of a float graph that the quantizer's rules quantize."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import floating_calls, quantized_nodes

_ATEN = torch.ops.aten
ORDERS = {_ATEN.permute.default, _ATEN.transpose.int}
ARITHMETIC = {_ATEN.add.Tensor, _ATEN.sub.Tensor, _ATEN.mul.Tensor, _ATEN.div.Tensor}
CONVOLUTIONS = {_ATEN.conv1d.default, _ATEN.conv1d.padding, _ATEN.conv2d.default, _ATEN.conv2d.padding}
SCALED = {_ATEN.mul.Tensor, _ATEN.mul.Scalar, _ATEN.div.Tensor, _ATEN.div.Scalar}
VIEWS = {
    _ATEN.view.default,
    _ATEN.reshape.default,
    _ATEN.flatten.using_ints,
    _ATEN.unflatten.int,
    _ATEN.unsqueeze.default,
    _ATEN.squeeze.dim,
}
# Changes of layout, which leave every element what it is.
MOVED = {*ORDERS, *VIEWS, _ATEN.squeeze.dims, _ATEN.clone.default, _ATEN.contiguous.default}
# Functions of one value that compute each place of an axis other than the channels' from that place alone.
OF_EACH_PLACE = {
    _ATEN.relu.default,
    _ATEN.relu6.default,
    _ATEN.hardtanh.default,
    _ATEN.leaky_relu.default,
    _ATEN.gelu.default,
    _ATEN.silu.default,
    _ATEN.sigmoid.default,
    _ATEN.tanh.default,
    _ATEN.elu.default,
    _ATEN.hardswish.default,
    _ATEN.dropout.default,
    _ATEN.rsqrt.default,
    _ATEN.batch_norm.default,
}


def quantized_calls(module: fx.GraphModule, quantizer: Any, *targets: Any) -> Iterator[fx.Node]:
    """Yield the calls of operators that are quantized, but for those that are left as they are written.

    Others run on the CPU as they are written.

    Args:
        module: A float program's graph.
        quantizer: Ethos-U's quantizer, with its rules.
        targets: Operators.
    """
    if not any(node.target in targets for node in module.graph.nodes):
        return
    quantized = quantized_nodes(module, quantizer)
    for node in floating_calls(module, *targets):
        if node in quantized and written_name(node) not in getattr(quantizer, "left", ()):
            yield node


def conv_arguments(node: fx.Node) -> list[Any]:
    """Return what a convolution, linear or pool is called with: seven values, None for what is not."""
    return [*node.args, *(None,) * 7][:7]


def order_of(turn: fx.Node, dims: int) -> list[int]:
    """Return the axes of a value in the order in which a permutation or transpose has them."""
    if turn.target is _ATEN.permute.default:
        order: Any = turn.args[1]
        return [axis % dims for axis in order]
    one, other = (axis % dims for axis in turn.args[1:3])  # type: ignore[operator]
    turned = list(range(dims))
    turned[one], turned[other] = other, one
    return turned


def written_name(node: fx.Node) -> str:
    """Return the name that a node, or the one that it was made of, has in the float program."""
    name, sources = node.name, node.meta.get("from_node")
    while sources:
        name, sources = sources[0].name, sources[0].from_node
    return str(name)


def is_8_bits(quantizer: Any) -> bool:
    """Return whether all rules quantize activations and weights with 8 bits, or not at all."""
    for one in quantizer.quantizer.quantizers:
        config = getattr(one, "quantization_config", None)
        for spec in (getattr(config, "input_activation", None), getattr(config, "weight", None)):
            span = None if spec is None else (spec.quant_max or 0) - (spec.quant_min or 0)
            if span is not None and not _NARROW_STEPS <= span <= _FULL_STEPS:
                return False
    return True


# Weights of 8 bits have 254 or 255 steps, activations 255.
_NARROW_STEPS, _FULL_STEPS = 254, 255
