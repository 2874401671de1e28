"""Zeros that are padded before a convolution become its own padding."""

from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import finished
from workbench.engine.ethos_u.rewrites.quantized_calls import conv_arguments, quantized_calls, written_name
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
    rest = pad.args[2:]
    mode, value = (
        (*rest, *("constant", None)[len(rest) :]) if pad.target is _PAD else ("constant", *rest, 0)[:2]
    )
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    is_even = all(left == right >= 0 for left, right in pairs)
    if mode != "constant" or value or pad.kwargs or not is_even or any(map(any, pairs[count:])):
        return None
    sizes = [left for left, _ in pairs[:count]]
    return [*[0] * (count - len(sizes)), *reversed(sizes)]
