"""Two layers without a function between them become one."""

from math import prod
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    conv_arguments,
    is_8_bits,
    quantized_calls,
    written_name,
)
from workbench.engine.ethos_u.rewrites.strides import each_axis, padding_of

_ATEN = torch.ops.aten
_LAYERS = (_ATEN.linear.default, _ATEN.conv1d.default, _ATEN.conv2d.default)


def merge_linear_maps(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Merge a layer into the one that reads it, where both are linear and that takes fewer products."""
    done = list[str]()
    layers = list(quantized_calls(module, quantizer, *_LAYERS)) if is_8_bits(quantizer) else []
    known = set(layers)
    for second in layers:
        first: Any = second.args[0]
        while first in known and first is not second and _are_mergeable(module, first, second):
            done += [name for name in (written_name(first), written_name(second)) if name not in done]
            _merge(module, first, second)
            known.discard(first)
            first = second.args[0]
    return finished(module, done)


def _are_mergeable(module: fx.GraphModule, first: fx.Node, second: fx.Node) -> bool:
    """Return whether one layer computes both, exactly and with at most as many products."""
    if first.target is not second.target or len(first.users) > 1 or first.kwargs or second.kwargs:
        return False
    for layer in (first, second):
        _, stored, bias, *_, groups = conv_arguments(layer)
        is_shared = isinstance(stored, fx.Node) and len(stored.users) > 1
        unknown = constant_of(module, stored) is None or (bias and constant_of(module, bias) is None)
        if unknown or is_shared or (groups or 1) > 1:
            return False
    one, other = (constant_of(module, layer.args[1]) for layer in (first, second))
    merged = len(other) * one.shape[1] * max(prod(one.shape[2:]), prod(other.shape[2:]))
    if merged > one.numel() + other.numel():
        return False
    return (
        first.target is _ATEN.linear.default
        or _is_pointwise(second, other)
        or (_is_pointwise(first, one) and (_is_unpadded(second, other) or not _has_bias(module, first)))
    )


def _is_unpadded(conv: fx.Node, weight: torch.Tensor) -> bool:
    padding = padding_of(conv_arguments(conv)[4], weight.shape[2:], [1] * (weight.dim() - 2))
    return padding is not None and not any(padding)


def _is_pointwise(conv: fx.Node, weight: torch.Tensor) -> bool:
    """Return whether a convolution computes each place from that place alone."""
    strides = each_axis(conv_arguments(conv)[3], weight.dim() - 2, 1)
    return prod(weight.shape[2:]) == 1 and set(strides) == {1} and _is_unpadded(conv, weight)


def _has_bias(module: fx.GraphModule, layer: fx.Node) -> bool:
    bias = constant_of(module, conv_arguments(layer)[2])
    return bias is not None and bool(bias.any())


def _merge(module: fx.GraphModule, first: fx.Node, second: fx.Node) -> None:
    """Give the second layer the input of the first, and the weights and bias of both."""
    source, _, _, *settings = conv_arguments(first)
    one, other = (constant_of(module, layer.args[1]) for layer in (first, second))
    biases = [constant_of(module, conv_arguments(layer)[2]) for layer in (first, second)]
    left, right = other.double(), one.double()
    if prod(other.shape[2:]) > 1:
        # The second one has the places: the first is a product for each of them.
        weight = torch.einsum("om...,mi->oi...", left, right.flatten(1))
        settings = conv_arguments(second)[3:]
    else:
        weight = torch.einsum("om,mi...->oi...", left.flatten(1), right)
    write = Writer(module, second)
    total = None
    if any(bias is not None for bias in biases):
        before, after = (torch.zeros(1).double() if bias is None else bias.double() for bias in biases)
        shift = left.flatten(2).sum(2) if left.dim() > 2 else left
        total = write.parameter(
            f"{second.name}_merged_bias", (shift @ before.expand(len(one)) + after).to(other.dtype)
        )
    merged = write.parameter(f"{second.name}_merged_weight", weight.contiguous().to(other.dtype))
    given = [source, merged, total, *settings][: 3 if second.target is _ATEN.linear.default else 7]
    while given[-1] is None:
        given.pop()
    second.args = tuple(given)
    module.graph.erase_node(first)
