"""Dilated convolutions over sequences, as convolutions over images without dilation.

The NPU's dilations end at 2: Vela compiles a larger one as several convolutions whose results are
copied. As an image whose width is the dilation, the taps of a result are below each other. In memory
the values are in that order already.
"""

from dataclasses import dataclass

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished, fused_reader
from workbench.engine.ethos_u.rewrites.pools import PADS, ends_of
from workbench.engine.ethos_u.rewrites.quantized_calls import conv_arguments, quantized_calls, written_name
from workbench.engine.ethos_u.rewrites.strides import each_axis, padding_of

_ATEN = torch.ops.aten
_LARGEST_DILATION = 2
_SEQUENCE_RANK = 3


@dataclass(frozen=True)
class _Dilated:
    """A convolution over a sequence: what it reads, and the zeros before and behind that."""

    node: fx.Node
    source: fx.Node
    weight: torch.Tensor
    dilation: int
    before: int
    behind: int


def write_dilations(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write convolutions over sequences with a dilation above 2 as ones over images."""
    done = list[str]()
    for node in quantized_calls(module, quantizer, _ATEN.conv1d.default, _ATEN.conv1d.padding):
        conv = _dilated(module, node)
        if conv is not None:
            done.append(written_name(node))
            _write_image(module, conv)
    return finished(module, done)


def _dilated(module: fx.GraphModule, node: fx.Node) -> _Dilated | None:
    """Return a convolution with a large dilation, and the stride 1; None for any other."""
    source, stored, _, stride, padded, dilations, _ = conv_arguments(node)
    weight = constant_of(module, stored)
    (dilation,), (step,) = each_axis(dilations, 1, 1), each_axis(stride, 1, 1)
    if weight is None or node.kwargs or source.meta["val"].dim() != _SEQUENCE_RANK or step != 1:
        return None
    padding = padding_of(padded, weight.shape[2:], [dilation])
    if padding is None or dilation <= _LARGEST_DILATION or weight.shape[2] == 1:
        return None
    before = behind = padding[0]
    padded_before = ends_of(source, 1) if source.target in PADS else None
    if padded_before is not None and padded_before[1] == 0:
        ((left, right),), _ = padded_before
        before, behind, source = before + left, behind + right, source.args[0]
    return _Dilated(node, source, weight, dilation, before, behind)


def _write_image(module: fx.GraphModule, conv: _Dilated) -> None:
    """Put a convolution over an image, whose rows are as long as the dilation, in the place of one."""
    last, write = fused_reader(conv.node), Writer(module, conv.node)
    _, _, bias, _, _, _, groups = conv_arguments(conv.node)
    outputs, width, kernel = conv.node.meta["val"].shape[-1], conv.dilation, conv.weight.shape[2]
    batch, channels, extent = conv.source.meta["val"].shape
    # Zeros that fill no row are added to the sequence.
    first = conv.before if conv.before % width else 0
    x, fill = conv.source, -(extent + first) % width
    if first or fill:
        x = write(_ATEN.constant_pad_nd.default, x, [first, fill], 0.0)
    rows = (extent + first + fill) // width
    x = write(
        _ATEN.reshape.default, write(_ATEN.permute.default, x, [0, 2, 1]), [batch, rows, width, channels]
    )
    x = write(_ATEN.permute.default, x, [0, 3, 1, 2])
    above = (conv.before - first) // width
    below = max(0, -(-outputs // width) + kernel - 1 - rows - above)
    padding = above if above == below else 0
    if above != below:
        x = write(_ATEN.constant_pad_nd.default, x, [0, 0, above, below], 0.0)
    weight = write.parameter(f"{conv.node.name}_row_weight", conv.weight.unsqueeze(3))
    settings = ([1, 1], [padding, 0], [1, 1], groups or 1)
    result, after = write(_ATEN.conv2d.default, x, weight, bias, *settings), Writer(module, last)
    if last is not conv.node:
        result = after.called(last, result)
    after.replace(_as_sequence(after, result, outputs))
    if last is not conv.node:
        module.graph.erase_node(conv.node)


def _as_sequence(write: Writer, image: fx.Node, places: int) -> fx.Node:
    """Return the first places of an image, row by row."""
    batch, channels, height, width = image.meta["val"].shape
    x = write(_ATEN.permute.default, image, [0, 2, 3, 1])
    x = write(_ATEN.reshape.default, x, [batch, height * width, channels])
    x = write(_ATEN.permute.default, x, [0, 2, 1])
    return x if height * width == places else write(_ATEN.slice.Tensor, x, 2, 0, places)
