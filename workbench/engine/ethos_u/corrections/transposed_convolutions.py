"""Transposed convolutions, written with zeros and a convolution."""

from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .graph_writer import Writer, constant_of, finished, floating_calls

_ATEN = torch.ops.aten
_TRANSPOSED = {
    _ATEN.conv_transpose1d.default: _ATEN.conv1d.default,
    _ATEN.conv_transpose2d.input: _ATEN.conv2d.default,
}
_FOUR_BITS = 15


def zeros_for_transposed(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write transposed convolutions with zeros and a convolution.

    Fault: Vela rejects 16-bit transposed convolutions for U55 and U65, ExecuTorch scales their
        4-bit weights along the wrong axis, and takes none over one dimension.
    Instead: Zeros are put between the values, and a convolution with turned weights follows.
        Transposed convolutions in 8 bits over two dimensions stay as they are, and those in 16 bits
        on U85.
    Right because: Both compute the same sums of the same products.
    Network: torch.nn.ConvTranspose2d(8, 4, 2, stride=2) in a16w8 for U55
    Tools: executorch 1.5.1
    """
    left = list(floating_calls(module, *_TRANSPOSED))
    if not left:
        return []
    chosen = _precise(module, quantizer)
    done = list[str]()
    for node in left:
        if node.name in chosen and constant_of(module, node.args[1]) is not None:
            write = Writer(module, node)
            write.replace(_grown(module, write, node))
            done.append(node.name)
    return finished(module, done)


def _precise(module: fx.GraphModule, quantizer: EthosUQuantizer) -> set[str]:
    """Return the transposed convolutions that stock cannot lower as they are quantized."""
    copied = fx.Graph()
    copied.output(copied.graph_copy(module.graph, {}))
    nodes = set[str]()
    narrow_only = quantizer.tosa_spec.is_U55_subset
    annotated = EthosUQuantizer.annotate(quantizer, fx.GraphModule(module, copied))
    for node in annotated.graph.nodes:
        note = node.meta.get("quantization_annotation")
        specs = note.input_qspec_map if note is not None else {}
        if node.target not in _TRANSPOSED:
            continue
        value, weight = (specs.get(node.args[i]) for i in (0, 1))
        few = weight is not None and weight.quant_max - weight.quant_min <= _FOUR_BITS
        wide = narrow_only and getattr(value, "dtype", None) is torch.int16
        groups = node.args[6] if len(node.args) > 6 else 1
        sizes = node.args[1].meta["val"].shape
        # The steps of weights are those of input channels then, whose number is another.
        odd = groups != 1 and sizes[0] != sizes[1] * groups
        # Over one dimension there is no pattern, and rules reach the convolution instead.
        if wide or few or odd or node.target is _ATEN.conv_transpose1d.default:
            nodes.add(node.name)
    return nodes


def _grown(module: fx.GraphModule, write: Writer, node: fx.Node) -> fx.Node:
    """Return a convolution over a value with zeros between, equal to a transposed one."""
    given: list[Any] = [*node.args, *_USUAL[len(node.args) :]]
    value, _, bias, stride, padding, extra, groups, dilation = given
    weight = constant_of(module, node.args[1])
    dims = weight.dim() - 2
    is_alone = value.meta["val"].dim() < weight.dim()
    value = write(_ATEN.unsqueeze.default, value, 0) if is_alone else value
    extents = [[*extent] * (dims // len(extent)) for extent in (stride, padding, extra, dilation)]
    value = spread_with_zeros(write, value, weight.shape[2:], *extents)
    parts = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
    turned = parts.reshape(-1, *parts.shape[2:]).flip(*range(2, dims + 2))
    constant = write.constant(f"{node.name}_weight", turned)
    settings = bias, [1] * dims, [0] * dims, extents[-1], groups
    result = write(_TRANSPOSED[node.target], value, constant, *settings)
    return write(_ATEN.squeeze.dim, result, 0) if is_alone else result


def spread_with_zeros(
    write: Writer, value: fx.Node, kernel: Any, stride: Any, padding: Any, *rest: Any
) -> fx.Node:
    """Return a value whose convolution with turned weights is a transposed convolution.

    Args:
        write: The writer of the node in whose place it is.
        value: Values, (N, C, ...).
        kernel: Sizes of the weights over each dimension behind the channels.
        stride: Strides of the transposed convolution.
        padding: Its padding.
        rest: Its output padding and its dilation.
    """
    extra, dilation = rest
    pads = list[int]()
    for dim, taps in enumerate(kernel):
        value = _spread(write, value, dim + 2, stride[dim])
        around = dilation[dim] * (taps - 1) - padding[dim]
        pads = [around, around + extra[dim] - (stride[dim] - 1), *pads]
    for dim in range(len(kernel)):
        before, after = pads[2 * (len(kernel) - 1 - dim) : 2 * (len(kernel) - dim)]
        size = value.meta["val"].shape[dim + 2]
        if before < 0 or after < 0:
            ends = max(0, -before), size - max(0, -after)
            value = write(_ATEN.slice.Tensor, value, dim + 2, *ends)
    if any(pad > 0 for pad in pads):
        value = write(_ATEN.constant_pad_nd.default, value, [max(0, pad) for pad in pads])
    return value


# bias, stride, padding, output_padding, groups, dilation where a call leaves them out.
_USUAL: tuple[Any, ...] = (None, None, None, [1], [0], [0], 1, [1])


def _spread(write: Writer, value: fx.Node, dim: int, stride: int) -> fx.Node:
    """Return a value with zeros after each of its entries along a dimension, in 4 dimensions."""
    if stride == 1:
        return value
    shape = list(value.meta["val"].shape)
    after = shape[dim + 1 :]
    wide = 1
    for size in after:
        wide *= size
    flat = write(_ATEN.reshape.default, value, [shape[0], -1, 1, wide])
    padded = write(_ATEN.constant_pad_nd.default, flat, [0, 0, 0, stride - 1])
    return write(_ATEN.reshape.default, padded, [*shape[:dim], shape[dim] * stride, *after])
