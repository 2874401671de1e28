"""Transposed convolutions, written as convolutions whose channels become places."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .graph_writer import Writer, constant_of, finished, floating_calls, fused_reader

_ATEN = torch.ops.aten
TRANSPOSED = {
    _ATEN.conv_transpose1d.default: _ATEN.conv1d.default,
    _ATEN.conv_transpose2d.input: _ATEN.conv2d.default,
}
_FOUR_BITS = 15


def zeros_for_transposed(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write transposed convolutions that cannot be lowered as convolutions.

    Fault: Vela rejects 16-bit transposed convolutions for U55 and U65, ExecuTorch scales their
        4-bit weights along the wrong axis, and takes none over one dimension.
    Instead: Of a stride of n, each of n results in a row is a channel of a convolution, and these
        channels become places.
    Right because: Both compute the same sums of the same products.
    Network: torch.nn.ConvTranspose2d(8, 4, 2, stride=2) in a16w8 for U55
    Tools: executorch 1.5.1
    """
    done = list[str]()
    for node in not_lowered(module, quantizer):
        if write_phases(module, node):
            done.append(node.name)
    return finished(module, done)


def not_lowered(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[fx.Node]:
    """Return the transposed convolutions that stock cannot lower as they are quantized."""
    left = list(floating_calls(module, *TRANSPOSED))
    if not left:
        return []
    copied = fx.Graph()
    copied.output(copied.graph_copy(module.graph, {}))
    names = set[str]()
    narrow_only = quantizer.tosa_spec.is_U55_subset
    annotated = EthosUQuantizer.annotate(quantizer, fx.GraphModule(module, copied))
    for node in annotated.graph.nodes:
        note = node.meta.get("quantization_annotation")
        specs = note.input_qspec_map if note is not None else {}
        if node.target not in TRANSPOSED:
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
            names.add(node.name)
    return [node for node in left if node.name in names]


def write_phases(module: fx.GraphModule, node: fx.Node) -> bool:
    """Put convolutions in the place of a transposed one with constant weights; return whether it has."""
    weight, bias = (constant_of(module, given) for given in node.args[1:3])
    if weight is None or (bias is None and node.args[2:3] not in {(), (None,)}):
        return False
    settings: list[Any] = [*node.args, *_USUAL[len(node.args) :]][3:]
    value: Any = node.args[0]
    last = fused_reader(node)
    write, after = Writer(module, node), Writer(module, last)
    is_alone = value.meta["val"].dim() < weight.dim()
    value = write(_ATEN.unsqueeze.default, value, 0) if is_alone else value
    activation = last if last is not node else None
    result = transposed(write, value, (weight, bias), settings, after=after, activation=activation)
    after.replace(after(_ATEN.squeeze.dim, result, 0) if is_alone else result)
    if last is not node:
        module.graph.erase_node(node)
    return True


# bias, stride, padding, output_padding, groups, dilation where a call leaves them out.
_USUAL: tuple[Any, ...] = (None, None, None, [1], [0], [0], 1, [1])


@dataclass(frozen=True)
class _Axis:
    """One axis of a transposed convolution.

    Result ``block * stride + phase`` reads inputs from ``block + first`` on. ``places`` has a one
    for each phase and input of these where a tap of the weights falls: [phases, inputs, taps].
    """

    extent: int
    stride: int
    outputs: int
    first: int
    places: torch.Tensor

    @property
    def ends(self) -> tuple[int, int]:
        """How many zeros are added at both ends; fewer than none are cut off."""
        blocks, reach = ceil(self.outputs / self.stride), self.places.shape[1]
        return -self.first, blocks + reach - 1 + self.first - self.extent


def _axis_of(extent: int, taps: int, stride: int, padding: int, extra: int, dilation: int) -> _Axis:
    falls = [
        (phase, at, tap)
        for phase in range(stride)
        for tap in range(taps)
        for at, left in [divmod(phase + padding - tap * dilation, stride)]
        if not left
    ]
    first, last = min(at for _, at, _ in falls), max(at for _, at, _ in falls)
    places = torch.zeros(stride, last - first + 1, taps)
    for phase, at, tap in falls:
        places[phase, at - first, tap] = 1
    outputs = (extent - 1) * stride - 2 * padding + dilation * (taps - 1) + extra + 1
    return _Axis(extent, stride, outputs, first, places)


def transposed(
    write: Writer,
    value: fx.Node,
    parameters: tuple[torch.Tensor, torch.Tensor | None],
    settings: Sequence[Any],
    *,
    after: Writer,
    activation: fx.Node | None = None,
) -> fx.Node:
    """Return a transposed convolution of a batch as convolutions whose channels become places.

    Args:
        write: The writer of the node in whose place they are.
        value: Values, (N, C, ...).
        parameters: Weights of the transposed convolution, over one or two axes, and its bias.
        settings: Its stride, padding, output padding, groups and dilation.
        after: The writer for what follows the convolutions.
        activation: An activation of the result, which each convolution computes.
    """
    weight, bias = parameters
    stride, padding, extra, groups, dilation = settings
    count = weight.dim() - 2
    by_axis = [[*setting] * (count // len(setting)) for setting in (stride, padding, extra, dilation)]
    axes = list(map(_axis_of, value.meta["val"].shape[2:], weight.shape[2:], *by_axis))
    value, around = _padded(write, value, axes)
    parts = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
    turned = parts.flatten(0, 1).unsqueeze(2) if count == 1 else parts.flatten(0, 1)
    rows = torch.ones(1, 1, 1) if count == 1 else axes[0].places
    # [row phase, column phase, output, input of a group, row, column]
    phases = torch.einsum("aus,bvt,oist->aboiuv", rows.to(weight), axes[-1].places.to(weight), turned)
    target = _ATEN.conv1d.default if count == 1 else _ATEN.conv2d.default

    def convolved(kernels: torch.Tensor) -> fx.Node:
        outputs = kernels.flatten(0, 1).squeeze(2) if count == 1 else kernels.flatten(0, 1)
        own = write.parameter("phase_weight", outputs)
        times = None if bias is None else write.parameter("phase_bias", bias.repeat(len(kernels)))
        result = write(target, value, own, times, [1] * count, around, [1] * count, groups)
        return result if activation is None else after.called(activation, result)

    def row_of(kernels: torch.Tensor) -> fx.Node:
        if groups == 1:
            return convolved(kernels)
        # Outputs of a group are beside each other, so that each phase is a convolution.
        each_phase = [convolved(kernels[phase, None]) for phase in range(len(kernels))]
        return after(_ATEN.cat.default, each_phase, 1) if len(each_phase) > 1 else each_phase[0]

    result = interleaved(after, [row_of(kernels) for kernels in phases], axes[-1].stride)
    return _without_rest(after, result, axes)


def _padded(write: Writer, value: fx.Node, axes: Sequence[_Axis]) -> tuple[fx.Node, list[int]]:
    """Return a value with what is added or cut at its ends, and the padding that is left for it."""
    ends = [axis.ends for axis in axes]
    if all(before == after >= 0 for before, after in ends):
        return value, [before for before, _ in ends]
    for dim, ((before, after), axis) in enumerate(zip(ends, axes, strict=True), start=2):
        if before < 0 or after < 0:
            value = write(_ATEN.slice.Tensor, value, dim, max(0, -before), axis.extent - max(0, -after))
    grown = [max(0, end) for both in reversed(ends) for end in both]
    if any(grown):
        value = write(_ATEN.constant_pad_nd.default, value, grown, 0.0)
    return value, [0] * len(axes)


def interleaved(write: Writer, rows: Sequence[fx.Node], across: int) -> fx.Node:
    """Return results whose channels are phases of the last axis, each of one phase of rows, in order.

    Args:
        write: The writer of the node in whose place it is.
        rows: Values with channels ``phase * outputs + output``, one for each phase of rows.
        across: The number of phases of the last axis.
    """
    if len(rows) == across == 1:
        return rows[0]
    count = rows[0].meta["val"].dim() - 2
    last = [write(_ATEN.permute.default, row, [0, *range(2, count + 2), 1]) for row in rows]
    beside = write(_ATEN.cat.default, last, 2) if len(last) > 1 else last[0]
    batch, *sizes, depth = last[0].meta["val"].shape
    sizes[-1] *= across
    sizes[0] *= len(rows)
    places = write(_ATEN.reshape.default, beside, [batch, *sizes, depth // across])
    return write(_ATEN.permute.default, places, [0, count + 1, *range(1, count + 1)])


def _without_rest(write: Writer, value: fx.Node, axes: Sequence[_Axis]) -> fx.Node:
    """Return a value without the places that the last block has too many."""
    for dim, axis in enumerate(axes, start=2):
        if value.meta["val"].shape[dim] > axis.outputs:
            value = write(_ATEN.slice.Tensor, value, dim, 0, axis.outputs)
    return value
