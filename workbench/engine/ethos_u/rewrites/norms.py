"""Batch norms that follow no convolution, as a part of the layers after them or as one operation.

ExecuTorch computes such a norm with four operations over the whole tensor. It is a factor and a
summand for each channel. A convolution without padding, or a linear, takes both into its weights.
With padding it cannot: its zeros are those behind the norm. Then the norm is a convolution with one
weight for each channel.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.batch_norm_folding import write_line
from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    conv_arguments,
    is_8_bits,
    quantized_calls,
    written_name,
)

_ATEN = torch.ops.aten
_UNPADDED = {_ATEN.conv1d.default, _ATEN.conv2d.default}
# A factor and a summand for each channel may go through these: through largest values only with
# factors above zero, through means always.
_LARGEST = {_ATEN.max_pool1d.default, _ATEN.max_pool2d.default}
_MEANS = {
    _ATEN.mean.dim,
    _ATEN.adaptive_avg_pool1d.default,
    _ATEN.adaptive_avg_pool2d.default,
    _ATEN.dropout.default,
    _ATEN.clone.default,
}
_FLATTENED = {_ATEN.flatten.using_ints, _ATEN.view.default, _ATEN.reshape.default}
_PADDING = 4
# At most so much more noise of the weights, as a ratio of powers. Beside 8-bit activations, which
# are rounded once less, more of it does not show: 46.3 dB instead of 38.1 over four layers with 4.
_MORE_NOISE, _MORE_BESIDE_8_BITS = 1.0, 6.0


@dataclass(frozen=True)
class _Line:
    """The factor and the summand of each channel, and its mean square before and after them.

    ``most`` is how much more noise the weights may make that take them, as a ratio of powers.
    """

    factor: torch.Tensor
    summand: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor
    most: float


def fold_norms_forward(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take batch norms into the weights of the layers that read them, where all of them can."""
    done = list[str]()
    most = _MORE_BESIDE_8_BITS if is_8_bits(quantizer) else _MORE_NOISE
    for norm in quantized_calls(module, quantizer, _ATEN.batch_norm.default):
        line = _line(module, norm, most)
        if line is None:
            continue
        layers = list(_layers(module, norm, 1, line))
        # Without a layer at the end of every path the norm is written by itself.
        if layers and all(layer is not None for layer, _ in layers):
            for layer, repeats in layers:
                assert layer is not None
                _take_line(module, layer, line, repeats)
            norm.replace_all_uses_with(norm.args[0])
            module.graph.erase_node(norm)
            done.append(written_name(norm))
    return finished(module, done)


def write_norms_as_one(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write batch norms over sequences and images as convolutions with one weight a channel."""
    done = list[str]()
    for norm in quantized_calls(module, quantizer, _ATEN.batch_norm.default):
        source: Any = norm.args[0]
        if _line(module, norm, 0.0) is not None and len(norm.meta["val"].shape) in {3, 4}:
            write_line(module, norm, source)
            done.append(written_name(norm))
    return finished(module, done)


def _line(module: fx.GraphModule, norm: fx.Node, most: float) -> _Line | None:
    """Return what a norm with constant statistics does; None for one that is folded backward.

    ``most`` is how much more noise the weights may make that take it.
    """
    source: Any = norm.args[0]
    if norm.args[5] or source.target in _UNPADDED or source.target is _ATEN.linear.default:
        return None
    given = [constant_of(module, value) for value in norm.args[1:5]]
    if any(value is None and node is not None for value, node in zip(given, norm.args[1:5], strict=True)):
        return None
    weight, bias, mean, variance = given
    if mean is None or variance is None:
        return None
    epsilon: Any = norm.args[7]
    factor = torch.rsqrt(variance.double() + epsilon)
    factor = factor if weight is None else factor * weight.double()
    summand = -mean.double() * factor
    summand = summand if bias is None else summand + bias.double()
    before, after = mean.double(), mean.double() * factor + summand
    squares = before.square() + variance, after.square() + variance * factor.square()
    return _Line(factor, summand, *squares, most)


def _layers(
    module: fx.GraphModule, node: fx.Node, repeats: int, line: _Line
) -> Iterator[tuple[fx.Node | None, int]]:
    """Yield the layers that read a value, each with the inputs that one channel has there.

    None stands for a reader that cannot take a factor and a summand for each channel.
    """
    for reader in node.users:
        target, shape = reader.target, node.meta["val"].shape
        if reader.args[0] is not node or reader.kwargs:
            yield None, 0
        elif _takes(module, reader, line, repeats):
            yield reader, repeats
        elif (target in _LARGEST and bool((line.factor > 0).all()) and repeats == 1) or _is_mean(
            reader, len(shape)
        ):
            yield from _layers(module, reader, repeats, line)
        elif (
            target in _FLATTENED
            and list(reader.meta["val"].shape) == [shape[0], shape[1:].numel()]
            and repeats == 1
        ):
            yield from _layers(module, reader, shape[2:].numel(), line)
        else:
            yield None, 0


def _is_mean(reader: fx.Node, dims: int) -> bool:
    """Return whether a reader takes means over places, and none over channels."""
    if reader.target not in _MEANS:
        return False
    over: Any = reader.args[1] if reader.target is _ATEN.mean.dim else [-1]
    return (
        bool(over) and all(axis % dims > 1 for axis in over)
        if dims > 2
        else (reader.target in {_ATEN.dropout.default, _ATEN.clone.default})
    )


def _takes(module: fx.GraphModule, reader: fx.Node, line: _Line, repeats: int) -> bool:
    """Return whether a layer pads no input, and its weights stay fit for their grids."""
    target, args = reader.target, conv_arguments(reader)
    weight, bias = constant_of(module, args[1]), constant_of(module, args[2])
    if weight is None or (args[2] is not None and bias is None):
        return False
    if target is _ATEN.linear.default:
        is_fit = reader.meta["val"].dim() == 2 and args[0].meta["val"].dim() == 2
    else:
        is_fit = target in _UNPADDED and args[_PADDING] != "same" and not any(args[_PADDING] or ())
    groups = args[6] or 1
    return (
        is_fit
        and weight.shape[1] * groups == len(line.factor) * repeats
        and _noise(weight, line, groups, repeats) <= line.most
    )


def _noise(weight: torch.Tensor, line: _Line, groups: int, repeats: int) -> float:
    """Return how much more noise the 8-bit weights with the factors make than those without.

    The step of a weight is a part of the largest of its output; its noise is multiplied by the
    values of its input.
    """
    plain = weight.double().abs().flatten(2) if weight.dim() > 2 else weight.double().abs()[..., None]
    folded = plain * _of_outputs(line.factor.abs(), weight, groups, repeats)[..., None]
    before = line.before.sum() * folded.flatten(1).amax(1).square().mean()
    after = line.after.sum() * plain.flatten(1).amax(1).square().mean()
    return float(before / after) if after > 0 else math.inf


def _of_outputs(values: torch.Tensor, weight: torch.Tensor, groups: int, repeats: int) -> torch.Tensor:
    """Return the value of each input of each output: [outputs, inputs of a group]."""
    inputs = values.repeat_interleave(repeats).view(groups, 1, -1)
    return inputs.expand(-1, len(weight) // groups, -1).reshape(len(weight), -1)


def _take_line(module: fx.GraphModule, layer: fx.Node, line: _Line, repeats: int) -> None:
    """Give a layer the weights and the bias that do what the norm does before it."""
    args: list[Any] = [*layer.args, *(None,) * 7][: max(3, len(layer.args))]
    stored, bias = constant_of(module, args[1]), constant_of(module, args[2])
    weight, groups = stored.double(), (args[6] if len(args) > 6 else 1)
    shape = (*weight.shape[:2], *[1] * (weight.dim() - 2))
    factor, summand = (
        _of_outputs(part, weight, groups, repeats).view(shape) for part in (line.factor, line.summand)
    )
    shift = (weight * summand).flatten(1).sum(1)
    total = shift if bias is None else shift + bias
    write = Writer(module, layer)
    own = write.parameter(f"{layer.name}_normed_weight", (weight * factor).to(stored.dtype))
    summed = write.parameter(f"{layer.name}_normed_bias", total.to(stored.dtype))
    layer.args = (args[0], own, summed, *args[3:])
