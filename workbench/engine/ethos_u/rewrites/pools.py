"""Pools that take the pads before them, and pools with strides above 3 as pools of single windows.

Strides of pools end at 3 too. Where windows lie beside each other, each becomes a row of an image by
itself: in memory the values are in that order already.
"""

from math import ceil, prod
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    conv_arguments,
    is_8_bits,
    quantized_calls,
    written_name,
)
from workbench.engine.ethos_u.rewrites.strides import each_axis, is_slow_at_layouts

_ATEN = torch.ops.aten
PADS = (_ATEN.pad.default, _ATEN.constant_pad_nd.default)
_LARGEST, _AVERAGE = _ATEN.max_pool2d.default, _ATEN.avg_pool2d.default
_LONGEST_STRIDE = 3
# Values behind these are not below zero.
_NOT_NEGATIVE = {
    _ATEN.relu.default,
    _ATEN.relu_.default,
    _ATEN.relu6.default,
    _ATEN.sigmoid.default,
    _ATEN.softmax.int,
    _ATEN.abs.default,
}
_IMAGE = 4
# A larger value is outside the SRAM of U85, where many short rows are read slowly.
_MOST_VALUES = 384 * 1024


def take_pool_pads(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take what is padded before pools into the pools, where all that read it can."""
    done, is_narrow = list[str](), is_8_bits(quantizer)
    for pad in quantized_calls(module, quantizer, *PADS):
        pools = [_pool_behind(reader) for reader in pad.users]
        settings = [pool and _with_pad(pad, pool, is_narrow=is_narrow) for pool in pools]
        if not settings or not all(settings):
            continue
        done.append(written_name(pad))
        for pool, setting in zip(pools, settings, strict=True):
            assert pool is not None
            assert setting is not None
            _take_pad(Writer(module, pool), pad, pool, setting)
    return finished(module, done)


def _pool_behind(reader: fx.Node) -> fx.Node | None:
    """Return the pool that reads a value, as an image of one row too."""
    node = reader
    if node.target is _ATEN.unsqueeze.default and len(node.users) == 1:
        (node,) = node.users
    return node if node.target in {_LARGEST, _AVERAGE} and not node.kwargs else None


def ends_of(pad: fx.Node, count: int) -> tuple[list[tuple[int, int]], float] | None:
    """Return the ends that are padded of each of the last axes, and the value; None for other pads."""
    sizes: Any = pad.args[1]
    rest = [*pad.args[2:]]
    mode = rest.pop(0) if pad.target is _ATEN.pad.default and rest else "constant"
    pairs = list(zip(sizes[::2], sizes[1::2], strict=True))
    if mode != "constant" or pad.kwargs or min(sizes) < 0 or any(map(any, pairs[count:])):
        return None
    ends = [*[(0, 0)] * (count - len(pairs)), *reversed(pairs[:count])]
    return ends, float(rest[0] or 0.0) if rest else 0.0  # type: ignore[arg-type]


def _with_pad(pad: fx.Node, pool: fx.Node, *, is_narrow: bool) -> list[Any] | None:
    """Return the settings of a pool that pads too: kernel, stride, padding, and whether it is whole.

    None where it cannot. ``is_narrow`` is whether all is quantized with 8 bits.
    """
    source: Any = pad.args[0]
    shape = source.meta["val"].shape
    padded = ends_of(pad, len(shape) - 2)
    if padded is None or len(shape) not in {3, _IMAGE} or pool.meta["val"].dim() != _IMAGE:
        return None
    (ends, value), sizes = padded, [*[1] * (_IMAGE - len(shape)), *shape[2:]]
    ends = [*[(0, 0)] * (2 - len(ends)), *ends]
    _, kernel, stride, own, *_ = conv_arguments(pool)
    kernel = each_axis(kernel, 2, 1)
    stride, own = each_axis(stride or kernel, 2, 1), each_axis(own, 2, 0)
    is_even = all(before == after for before, after in ends)
    before = [a + b for (a, _), b in zip(ends, own, strict=True)]
    if pool.target is _AVERAGE:
        is_mean = value == 0 and is_even and is_narrow and _counts_all(pool, own)
        return [kernel, stride, before, False] if is_mean and _are_few(kernel, before) else None
    is_least = value <= torch.finfo(torch.float32).min or (value == 0 and source.target in _NOT_NEGATIVE)
    dilation, whole = conv_arguments(pool)[4:6]
    if not is_least or whole or set(each_axis(dilation, 2, 1)) != {1}:
        return None
    spans = list(zip(sizes, kernel, stride, before, pool.meta["val"].shape[2:], strict=True))
    is_within = all(pads <= size // 2 for size, pads in zip(kernel, before, strict=True))
    for is_whole in (False, True):
        if is_within and all(_results(*span[:4], is_whole=is_whole) == span[4] for span in spans):
            return [kernel, stride, before, is_whole]
    return None


def _counts_all(pool: fx.Node, own: list[int]) -> bool:
    """Return whether a mean divides by the places of the window, padded ones too."""
    *_, whole, counts = [*pool.args, *(None,) * 6][:6]
    return not whole and pool.args[6:] in {(), (None,)} and (counts is not False or not any(own))


def _are_few(kernel: list[int], padding: list[int]) -> bool:
    """Return whether windows are small, and each reads a value that is not padded."""
    return max(kernel) <= _LONGEST_STRIDE and all(a < b for a, b in zip(padding, kernel, strict=True))


def _results(size: int, kernel: int, stride: int, padding: int, *, is_whole: bool) -> int:
    """Return how many windows a pool has over an axis, each of which begins before the far padding."""
    left = size + 2 * padding - kernel
    if not is_whole:
        return left // stride + 1
    count = ceil(left / stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def _take_pad(write: Writer, pad: fx.Node, pool: fx.Node, settings: list[Any]) -> None:
    """Let a pool read what is padded, and pad itself; a mean does as a convolution of each channel."""
    source: Any = pad.args[0]
    kernel, stride, padding, is_whole = settings
    if source.meta["val"].dim() < _IMAGE:
        source = write(_ATEN.unsqueeze.default, source, 2)
    if pool.target is _LARGEST:
        write.replace(write(_LARGEST, source, kernel, stride, padding, [1, 1], is_whole))
    else:
        channels = source.meta["val"].shape[1]
        weight = torch.full((channels, 1, *kernel), 1 / prod(kernel))
        mean = write.parameter(f"{pool.name}_mean", weight)
        write.replace(write(_ATEN.conv2d.default, source, mean, None, stride, padding, [1, 1], channels))


def write_pools_of_rows(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write pools over windows beside each other, with strides above 3, as pools of single windows."""
    done = list[str]()
    for pool in quantized_calls(module, quantizer, _LARGEST, _AVERAGE):
        _, kernel, stride, own, *rest = conv_arguments(pool)
        kernel = each_axis(kernel, 2, 1)
        is_beside = each_axis(stride or kernel, 2, 1) == kernel and not any(each_axis(own, 2, 0))
        is_long = max(kernel) > _LONGEST_STRIDE and prod(pool.meta["val"].shape[2:]) > 1
        dilation, is_whole = rest[:2] if pool.target is _LARGEST else (None, rest[0])
        is_slower = is_slow_at_layouts(quantizer) and pool.args[0].meta["val"].numel() > _MOST_VALUES  # type: ignore[union-attr]
        is_plain = set(each_axis(dilation, 2, 1)) == {1} and not is_whole and not pool.kwargs
        if is_beside and is_long and is_plain and not is_slower and pool.args[6:] in {(), (None,)}:
            done.append(written_name(pool))
            _write_rows(Writer(module, pool), pool, kernel)
    return finished(module, done)


def _write_rows(write: Writer, pool: fx.Node, kernel: list[int]) -> None:
    """Put a pool of columns, then one of rows, in the place of a pool of windows."""
    value: Any = pool.args[0]
    batch, channels, height, width = value.meta["val"].shape
    rows, columns = height // kernel[0], width // kernel[1]
    for dim, extent in ((2, rows * kernel[0]), (3, columns * kernel[1])):
        if value.meta["val"].shape[dim] > extent:
            value = write(_ATEN.slice.Tensor, value, dim, 0, extent)
    height = rows * kernel[0]
    if kernel[1] > 1:
        value = _pooled(write, pool, value, [batch, height * columns, kernel[1], channels])
        value = _as_image(write, value, [batch, height, columns, channels])
    if kernel[0] > 1:
        value = _pooled(write, pool, value, [batch, rows, kernel[0], columns * channels])
        value = _as_image(write, value, [batch, rows, columns, channels])
    write.replace(value)


def _pooled(write: Writer, pool: fx.Node, value: fx.Node, shape: list[int]) -> fx.Node:
    """Return the pool of each row of a value, whose channels are last in the shape."""
    return write(pool.target, _as_image(write, value, shape), [1, shape[2]], [1, 1])


def _as_image(write: Writer, value: fx.Node, shape: list[int]) -> fx.Node:
    """Return an image with channels first of the values of another, in their order with channels last."""
    last = write(_ATEN.permute.default, value, [0, 2, 3, 1])
    return write(_ATEN.permute.default, write(_ATEN.reshape.default, last, shape), [0, 3, 1, 2])
