"""Norms and other lines of channels, as a part of the layers after them or as one operation.

A batch norm that follows no convolution is four operations over the whole tensor, and an input that
is normalized two or more: a difference, a quotient. All are a factor and a summand for each channel.
A convolution without padding, or a linear, takes both into its weights. With padding it cannot: its
zeros are those behind the norm. Then the line is a convolution with one weight for each channel.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.batch_norm_folding import line_of
from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    conv_arguments,
    is_8_bits,
    order_of,
    quantized_calls,
    written_name,
)
from workbench.engine.ethos_u.rewrites.strides import is_outside, is_slow_at_layouts

_ATEN = torch.ops.aten
_UNPADDED = {_ATEN.conv1d.default, _ATEN.conv2d.default}
# A factor and a summand for each channel may go through these: through largest values only with
# factors above zero, through means always.
_LARGEST = {_ATEN.max_pool1d.default, _ATEN.max_pool2d.default}
_MEANS = {_ATEN.mean.dim, _ATEN.adaptive_avg_pool1d.default, _ATEN.adaptive_avg_pool2d.default}
_SAME = {_ATEN.dropout.default, _ATEN.clone.default}
_FLATTENED = {_ATEN.flatten.using_ints, _ATEN.view.default, _ATEN.reshape.default}
# Layouts that one factor and summand for all channels may go through.
_TURNS = {_ATEN.permute.default, _ATEN.transpose.int}
_AXES_OF_ONE = {_ATEN.unsqueeze.default, _ATEN.squeeze.dim}
_LAYOUTS = {*_FLATTENED, *_TURNS, *_AXES_OF_ONE}
_PADDING, _CHANNELS = 4, 1
# Sequences and images.
_CONVOLVED = {3, 4}
# Norms over values have a weight and a bias behind them.
_NORMALIZED = {_ATEN.layer_norm.default, _ATEN.group_norm.default}
# At most so much more noise of the weights, as a ratio of powers. Beside 8-bit activations, which
# are rounded once less, more of it does not show: 46.3 dB instead of 38.1 over four layers with 4.
_MORE_NOISE, _MORE_BESIDE_8_BITS = 1.0, 8.0


@dataclass(frozen=True)
class _Line:
    """The factor and the summand of each channel, and its mean square before and after them.

    ``most`` is how much more noise the weights may make that take them, as a ratio of powers.
    ``axis`` is that of the channels; None for one factor and summand of all values.
    """

    factor: torch.Tensor
    summand: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor
    most: float
    axis: int | None = _CHANNELS

    def over(self, channels: int) -> "_Line":
        """Return the line with a factor and a summand for each of so many channels."""
        if self.axis is not None:
            return self
        factor, summand = self.factor.expand(channels), self.summand.expand(channels)
        return _Line(factor, summand, self.before.expand(channels), self.after.expand(channels), self.most)


def fold_norms_forward(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take norms and lines into the weights of the layers that read them, where all of them can."""
    done = list[str]()
    most = _MORE_BESIDE_8_BITS if is_8_bits(quantizer) else _MORE_NOISE
    for chain, line in _lines(module, quantizer, most):
        last = chain[-1]
        layers = list(_layers(module, last, 1, line))
        # Without a layer at the end of every path the norm is written by itself.
        if layers and all(layer is not None for layer, _ in layers):
            for layer, repeats in layers:
                assert layer is not None
                _take_line(module, layer, line, repeats)
            done += [written_name(node) for node in chain]
            last.replace_all_uses_with(_before_line(Writer(module, last), chain))
            for node in reversed(chain):
                module.graph.erase_node(node)
    return finished(module, done)


def write_norms_as_one(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write norms, and lines of inputs of several operations, as convolutions of each channel."""
    done = list[str]()
    # On U85 operations on elements take fewer cycles than the changes of layout beside a convolution.
    is_slow = is_slow_at_layouts(quantizer)
    for chain, line in _lines(module, quantizer, 0.0):
        last = chain[-1]
        is_long = not is_slow and (
            last.target in _NORMALIZED or (len(chain) > 1 and is_outside(_source_of(chain[0])))
        )
        if (last.target is _ATEN.batch_norm.default or is_long) and _write_as_one(module, chain, line):
            done += [written_name(node) for node in chain]
            for node in reversed(chain[:-1]):
                module.graph.erase_node(node)
    return finished(module, done)


def _write_as_one(module: fx.GraphModule, chain: Sequence[fx.Node], line: _Line) -> bool:
    """Put a convolution of each channel in the place of a line, if it has one for each channel."""
    write = Writer(module, chain[-1])
    dims = len(write.shape)
    is_last = line.axis == dims - 1
    if dims not in _CONVOLVED or not (is_last or line.axis in {None, _CHANNELS}):
        return False
    source = _before_line(write, chain)
    if is_last:
        source = write(_ATEN.permute.default, source, [0, dims - 1, *range(1, dims - 1)])
    parts = line.over(source.meta["val"].shape[_CHANNELS])
    result = line_of(write, source, parts.factor.float(), parts.summand.float())
    if is_last:
        result = write(_ATEN.permute.default, result, [0, *range(2, dims), 1])
    write.replace(result)
    return True


def _before_line(write: Writer, chain: Sequence[fx.Node]) -> fx.Node:
    """Return the value that a line is computed from: of a norm over values, that without its weights."""
    first, *_ = chain
    if first.target not in _NORMALIZED:
        return _source_of(first)
    source, over, _, _, *rest = first.args
    return write(first.target, source, over, None, None, *rest)


def _lines(
    module: fx.GraphModule, quantizer: EthosUQuantizer, most: float
) -> Iterator[tuple[list[fx.Node], _Line]]:
    """Yield norms, and operations with constants in a row, each with the line that they compute."""
    for norm in quantized_calls(module, quantizer, _ATEN.batch_norm.default):
        if (line := _line(module, norm, most)) is not None:
            yield [norm], line
    for norm in quantized_calls(module, quantizer, *_NORMALIZED):
        if (line := _weights_of(module, norm, most)) is not None:
            yield [norm], line
    left = list(quantized_calls(module, quantizer, *_STEPS))
    for node in reversed(left):
        if node.users and (row := _chain(module, node, left, most)) is not None:
            yield row
            left = [other for other in left if other not in row[0]]


# What an operation with a constant does: factor and summand for a value, with the constant behind it.
_STEPS: dict[Any, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    target: step
    for names, step in (
        ("add", lambda value: (torch.ones_like(value), value)),
        ("sub", lambda value: (torch.ones_like(value), -value)),
        ("mul", lambda value: (value, torch.zeros_like(value))),
        ("div", lambda value: (1 / value, torch.zeros_like(value))),
    )
    for target in (getattr(_ATEN, names).Tensor, getattr(_ATEN, names).Scalar)
}


def _chain(
    module: fx.GraphModule, last: fx.Node, among: Sequence[fx.Node], most: float
) -> tuple[list[fx.Node], _Line] | None:
    """Return the operations with constants up to one, which nothing else reads, and their line.

    Values behind them are taken for normalized ones: without a mean, and with a variance of one.
    """
    chain, node = list[fx.Node](), last
    factor, summand, axis = torch.ones(1).double(), torch.zeros(1).double(), None
    while node in among and (not chain or len(node.users) == 1):
        step = _step(module, node)
        if step is None or (axis is not None and step[2] not in {None, axis}):
            break
        factor, summand = factor * step[0], factor * step[1] + summand
        axis = step[2] if axis is None else axis
        chain.insert(0, node)
        node = _source_of(node)
    if not chain or not bool((factor != 0).all() and factor.isfinite().all()):
        return None
    factor, summand = torch.broadcast_tensors(factor, summand)
    ones = torch.ones_like(factor)
    return chain, _Line(factor, summand, (1 + summand.square()) / factor.square(), ones, most, axis)


def _step(module: fx.GraphModule, node: fx.Node) -> tuple[torch.Tensor, torch.Tensor, int | None] | None:
    """Return the factor, the summand and the axis of the channels of an operation with a constant."""
    other, shape = node.args[1], node.meta["val"].shape
    value = constant_of(module, other) if isinstance(other, fx.Node) else torch.tensor(other)
    if value is None or node.kwargs or len(node.args) != 2 or _source_of(node).meta["val"].shape != shape:
        return None
    sizes = [1] * (len(shape) - value.dim()) + [*value.shape]
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    if len(axes) > 1 or len(sizes) > len(shape):
        return None
    return *_STEPS[node.target](value.double().flatten()), axes[0] if axes else None


def _source_of(node: fx.Node) -> fx.Node:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    return source


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


def _weights_of(module: fx.GraphModule, norm: fx.Node, most: float) -> _Line | None:
    """Return the weight and bias of each channel of a norm over values; None for one without them."""
    held, over = conv_arguments(norm)[2:4], norm.args[1]
    weight, bias = (constant_of(module, value) for value in held)
    size = (weight if bias is None else bias).numel() if weight is not None or bias is not None else 0
    is_over_channels = norm.target is _ATEN.layer_norm.default
    unknown = any(v is None and node is not None for v, node in zip((weight, bias), held, strict=True))
    if unknown or not size or norm.kwargs or (is_over_channels and len(over) != 1):  # type: ignore[arg-type]
        return None
    factor = torch.ones(size).double() if weight is None else weight.double()
    summand = torch.zeros(size).double() if bias is None else bias.double()
    axis = norm.meta["val"].dim() - 1 if is_over_channels else _CHANNELS
    return _Line(factor, summand, torch.ones(size), factor.square() + summand.square(), most, axis)


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
        elif _keeps_lines(reader, line, repeats, len(shape)):
            yield from _layers(module, reader, repeats, line)
        elif target in _TURNS and repeats == 1:
            axis = order_of(reader, len(shape)).index(line.axis or 0)
            yield from _layers(module, reader, repeats, replace(line, axis=axis))
        elif (
            target in _FLATTENED
            and line.axis == _CHANNELS
            and list(reader.meta["val"].shape) == [shape[0], shape[1:].numel()]
            and repeats == 1
        ):
            yield from _layers(module, reader, shape[2:].numel(), line)
        else:
            yield None, 0


def _keeps_lines(reader: fx.Node, line: _Line, repeats: int, dims: int) -> bool:
    """Return whether a line before an operation is the same line behind it."""
    target = reader.target
    if target in _SAME or (line.axis is None and target in _LAYOUTS):
        return True
    if target in _AXES_OF_ONE:
        larger = dims + int(target is _ATEN.unsqueeze.default)
        return line.axis is not None and reader.args[1] % larger > line.axis
    if line.axis not in {None, _CHANNELS} or dims <= _CHANNELS + 1:
        return False
    if target in _LARGEST:
        return bool((line.factor > 0).all()) and repeats == 1
    over: Any = reader.args[1] if target is _ATEN.mean.dim else [-1]
    return target in _MEANS and bool(over) and all(axis % dims > _CHANNELS for axis in over)


def _takes(module: fx.GraphModule, reader: fx.Node, line: _Line, repeats: int) -> bool:
    """Return whether a layer pads no input, and its weights stay fit for their grids."""
    target, args = reader.target, conv_arguments(reader)
    if target is not _ATEN.linear.default and target not in _UNPADDED:
        return False
    weight, bias = constant_of(module, args[1]), constant_of(module, args[2])
    if weight is None or (args[2] is not None and bias is None):
        return False
    axis = _CHANNELS
    if target is _ATEN.linear.default:
        axis, is_fit = args[0].meta["val"].dim() - 1, True
    else:
        is_fit = args[_PADDING] != "same" and not any(args[_PADDING] or ())
    channels = weight.shape[1] * (args[6] or 1)
    parts = line.over(channels)
    return (
        is_fit
        and line.axis in {None, axis}
        and channels == len(parts.factor) * repeats
        and _noise(weight, parts, args[6] or 1, repeats) <= line.most * _ROUNDED
    )


# Ratios that are one but for rounding are not above one.
_ROUNDED = 1 + 1e-6


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
    line = line.over(weight.shape[1] * groups)
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
