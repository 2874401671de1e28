"""Pads, pairs of layers and pixel shuffles written as other layers.

Zeros that are padded before convolutions become their own padding. Two layers without a function
between them become one. Pixel shuffles become transposed convolutions that move values.
"""

from math import prod
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished, fused_reader
from workbench.engine.ethos_u.corrections.transposed_convolutions import (
    TRANSPOSED,
    interleaved,
    not_lowered,
    write_phases,
)
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    conv_arguments,
    is_8_bits,
    quantized_calls,
    written_name,
)
from workbench.engine.ethos_u.rewrites.strides import each_axis, padding_of

_ATEN = torch.ops.aten
_DEFAULT = {
    _ATEN.conv1d.default: _ATEN.conv1d.default,
    _ATEN.conv1d.padding: _ATEN.conv1d.default,
    _ATEN.conv2d.default: _ATEN.conv2d.default,
    _ATEN.conv2d.padding: _ATEN.conv2d.default,
}
_PAD = _ATEN.pad.default


def take_pads(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take zeros around a tensor into the padding of the convolutions that read it, if all can."""
    done = list[str]()
    for pad in quantized_calls(module, quantizer, _PAD, _ATEN.constant_pad_nd.default):
        readers = list(pad.users)
        paddings = [_padding_with(pad, reader) for reader in readers]
        if not readers or any(padding is None for padding in paddings):
            continue
        for reader, padding in zip(readers, paddings, strict=True):
            source, weight, bias, stride, _, dilation, groups = conv_arguments(reader)
            count = weight.meta["val"].dim() - 2
            reader.target = _DEFAULT[reader.target]
            steps = each_axis(stride, count, 1), padding, each_axis(dilation, count, 1)
            reader.args = (source.args[0], weight, bias, *steps, groups or 1)
        module.graph.erase_node(pad)
        done.append(written_name(pad))
    return finished(module, done)


def _padding_with(pad: fx.Node, reader: fx.Node) -> list[int] | None:
    """Return the padding of a convolution that takes a pad; None where it cannot.

    Not where a result would be of zeros alone, which the NPU need not support.
    """
    if reader.target not in _DEFAULT or reader.kwargs or reader.args[0] is not pad:
        return None
    kernel: Any = reader.args[1]
    if not isinstance(kernel, fx.Node) or reader.args.count(pad) > 1:
        return None
    sizes = kernel.meta["val"].shape[2:]
    dilation = each_axis(conv_arguments(reader)[5], len(sizes), 1)
    own, added = padding_of(conv_arguments(reader)[4], sizes, dilation), _zeros_around(pad, len(sizes))
    if own is None or added is None or len(pad.meta["val"].shape) != len(sizes) + 2:
        return None
    both = [a + b for a, b in zip(own, added, strict=True)]
    reach = [step * (size - 1) for step, size in zip(dilation, sizes, strict=True)]
    return both if all(size <= most for size, most in zip(both, reach, strict=True)) else None


def _zeros_around(pad: fx.Node, count: int) -> list[int] | None:
    """Return the zeros on both sides of each of the last axes; None for other pads."""
    ends: Any = pad.args[1]
    has_mode = pad.target is _PAD and len(pad.args) > 2
    mode = pad.args[2] if has_mode else "constant"
    value = pad.args[3:] if has_mode else pad.args[2:]
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    is_even = all(left == right >= 0 for left, right in pairs)
    if mode != "constant" or any(value) or pad.kwargs or not is_even or any(map(any, pairs[count:])):
        return None
    sizes = [left for left, _ in pairs[:count]]
    return [*[0] * (count - len(sizes)), *reversed(sizes)]


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
    arguments = [source, merged, total, *settings][: 3 if second.target is _ATEN.linear.default else 7]
    while arguments[-1] is None:
        arguments.pop()
    second.args = tuple(arguments)
    module.graph.erase_node(first)


def write_transposed(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write transposed convolutions as convolutions whose channels become places."""
    left, done = not_lowered(module, quantizer), list[str]()
    for node in quantized_calls(module, quantizer, *TRANSPOSED):
        name = written_name(node)
        if node not in left and write_phases(module, node):
            done.append(name)
    return finished(module, done)


_IMAGE_RANK = 4


def write_shuffles(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write pixel shuffles by the convolution before them, or by one that moves values."""
    done = list[str]()
    convolutions = set(quantized_calls(module, quantizer, _ATEN.conv2d.default))
    for node in quantized_calls(module, quantizer, _ATEN.pixel_shuffle.default):
        source: Any = node.args[0]
        factor: Any = node.args[1]
        if node.kwargs or factor == 1 or source.meta["val"].dim() != _IMAGE_RANK:
            continue
        name = written_name(node)
        conv = _convolution_before(module, node)
        if conv in convolutions:
            _shuffle_outputs(module, conv, node, factor)
        else:
            channels, write = source.meta["val"].shape[1], Writer(module, node)
            # Of each input channel the place of the result that it is moved to.
            places = torch.pixel_shuffle(torch.eye(channels)[:, :, None, None], factor)
            weight = write.parameter(f"{node.name}_places", places)
            moved = write(_ATEN.conv_transpose2d.input, source, weight, None, [factor, factor])
            write.replace(moved)
            write_phases(module, moved)
        done.append(name)
    return finished(module, done)


def _convolution_before(module: fx.GraphModule, shuffle: fx.Node) -> Any:
    """Return the convolution with constant weights whose result, or its function, is shuffled alone."""
    source: Any = shuffle.args[0]
    conv: Any = source if source.target is _ATEN.conv2d.default else next(iter(source.all_input_nodes), None)
    if conv is None or conv.target is not _ATEN.conv2d.default or conv.kwargs or len(source.users) > 1:
        return None
    _, stored, held, *_, groups = conv_arguments(conv)
    is_known = constant_of(module, stored) is not None and (
        held is None or constant_of(module, held) is not None
    )
    is_alone = len(conv.users) == 1 and source in {conv, fused_reader(conv)}
    return conv if is_known and is_alone and (groups or 1) == 1 else None


def _shuffle_outputs(module: fx.GraphModule, conv: fx.Node, shuffle: fx.Node, factor: int) -> None:
    """Put convolutions of the rows of the result in the place of one and a pixel shuffle."""
    x, stored, held, *_ = conv_arguments(conv)
    weight, bias = constant_of(module, stored), constant_of(module, held)
    source: Any = shuffle.args[0]
    last = fused_reader(shuffle)
    write, after = Writer(module, conv), Writer(module, last)
    functions = [node for node, reads in ((source, conv), (last, shuffle)) if node is not reads]
    # Output (c * factor + row) * factor + column is the place (row, column) of channel c.
    by_row = [
        None if part is None else part.unflatten(0, (-1, factor, factor)).transpose(0, 1).transpose(1, 2)
        for part in (weight, bias)
    ]
    rows = list[fx.Node]()
    for row in range(factor):
        own, summand = (
            None if part is None else write.parameter(f"{conv.name}_row", part[row].flatten(0, 1))
            for part in by_row
        )
        result = write(conv.target, x, own, summand, *conv.args[3:])
        for function in functions:
            result = after.called(function, result)
        rows.append(result)
    after.replace(interleaved(after, rows, factor))
    if last is not shuffle:
        module.graph.erase_node(shuffle)
