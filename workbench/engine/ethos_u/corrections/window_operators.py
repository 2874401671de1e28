"""Sliding windows, written with slices, joins and products with constants.

Without this, ExecuTorch computes them with indices that it builds anew in each inference, on the
CPU. All are the same values in another order.
"""

import math
from typing import Any

import torch
from torch import fx

from .graph_writer import Writer
from .transposed_convolutions import transposed

_ATEN = torch.ops.aten


def frames(write: Writer, x: fx.Node, dim: int, size: int, step: int) -> fx.Node:
    """Write overlapping windows as shifted parts of steps that are joined.

    Returns:
        The windows in place of ``dim``, their elements in a last dimension.
    """
    rank = x.meta["val"].dim()
    dim %= rank
    if dim != rank - 1:
        x = write(_ATEN.transpose.int, x, dim, -1)
    *batch, length = x.meta["val"].shape
    count, pieces = (length - size) // step + 1, -(-size // step)
    whole = (count + pieces - 1) * step
    if whole > length:
        x = write(_ATEN.constant_pad_nd.default, x, [0, whole - length], 0.0)
    elif whole < length:
        x = write(_ATEN.slice.Tensor, x, -1, 0, whole)
    steps = write(_ATEN.reshape.default, x, [*batch, count + pieces - 1, step])
    parts = [_some_places(write, steps, -2, at, count) for at in range(pieces)]
    if size % step:
        parts[-1] = write(_ATEN.slice.Tensor, parts[-1], -1, 0, size % step)
    windows = write(_ATEN.cat.default, parts, -1) if pieces > 1 else parts[0]
    return windows if dim == rank - 1 else write(_ATEN.transpose.int, windows, dim, -2)


def _some_places(write: Writer, x: fx.Node, dim: int, first: int, count: int) -> fx.Node:
    """Return some places of a dimension; the value itself where they are all."""
    if x.meta["val"].shape[dim] == count:
        return x
    return write(_ATEN.slice.Tensor, x, dim, first, first + count)


def _columns(
    write: Writer, x: fx.Node, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> fx.Node | None:
    """Write the windows of images as columns, as ``unfold`` gives them."""
    if x.meta["val"].dim() != 4:
        return None
    if any(padding):
        x = write(_ATEN.constant_pad_nd.default, x, [padding[1], padding[1], padding[0], padding[0]], 0.0)
    n, channels, *sides = x.meta["val"].shape
    reach = [step * (size - 1) + 1 for size, step in zip(kernel, dilation, strict=True)]
    counts = [(side - far) // step + 1 for side, far, step in zip(sides, reach, stride, strict=True)]
    if _are_tiles(sides, kernel, stride) and max(dilation) == 1:
        tiles = write(_ATEN.pixel_unshuffle.default, x, kernel[0])
    elif max(stride) == 1:
        parts = []
        for row in range(kernel[0]):
            rows = _some_places(write, x, 2, row * dilation[0], counts[0])
            for column in range(kernel[1]):
                part = _some_places(write, rows, 3, column * dilation[1], counts[1])
                parts.append(write(_ATEN.unsqueeze.default, part, 2))
        tiles = write(_ATEN.cat.default, parts, 2)
    else:
        # Output c * taps + t is tap t of channel c.
        size = channels * math.prod(kernel)
        full = torch.eye(size).view(size, channels, *kernel)
        weight = write.parameter("window_weight", full)
        tiles = write(_ATEN.conv2d.default, x, weight, None, stride, [0, 0], dilation)
    return write(_ATEN.reshape.default, tiles, [n, channels * math.prod(kernel), math.prod(counts)])


def _are_tiles(sides: Any, kernel: Any, stride: Any) -> bool:
    """Return whether windows are squares beside each other that fill the image."""
    is_square = kernel[0] == kernel[1] and list(kernel) == list(stride)
    return is_square and all(side % kernel[0] == 0 for side in sides)


def _from_columns(write: Writer, x: fx.Node, size: Any, *windows: Any) -> fx.Node | None:
    """Write columns back as an image; windows that overlap are a convolution over zeros."""
    kernel, dilation, padding, stride = windows
    if x.meta["val"].dim() != 3:
        return None
    n, rows, _ = x.meta["val"].shape
    sides = list(zip(size, kernel, dilation, padding, stride, strict=True))
    counts = [(side + 2 * pad - apart * (taps - 1) - 1) // step + 1 for side, taps, apart, pad, step in sides]
    if size[0] == kernel[0] == 1 and not any(padding) and kernel[1] % stride[1] == 0 and max(dilation) == 1:
        return _overlapping_rows(write, x, size[1], kernel[1], stride[1])
    tiles = write(_ATEN.reshape.default, x, [n, rows, *counts])
    if not any(padding) and max(dilation) == 1 and _are_tiles(size, kernel, stride):
        return write(_ATEN.pixel_shuffle.default, tiles, kernel[0])
    # Channel c * taps + t is tap t of output c.
    full = torch.eye(rows).view(rows, rows // math.prod(kernel), *kernel)
    rest = [
        side - ((count - 1) * step - 2 * pad + apart * (taps - 1) + 1)
        for count, (side, taps, apart, pad, step) in zip(counts, sides, strict=True)
    ]
    return transposed(write, tiles, (full, None), (stride, padding, rest, 1, dilation), after=write)


def _overlapping_rows(write: Writer, x: fx.Node, length: int, size: int, step: int) -> fx.Node:
    """Write columns of windows of one row as the sum of their parts, each shifted by its place."""
    n, rows, count = x.meta["val"].shape
    pieces = size // step
    windows = write(_ATEN.reshape.default, x, [n, rows // size, size, count])
    windows = write(_ATEN.transpose.int, windows, -1, -2)
    total = None
    for at in range(pieces):
        part = write(_ATEN.slice.Tensor, windows, -1, at * step, (at + 1) * step) if pieces > 1 else windows
        if pieces > 1:
            part = write(_ATEN.constant_pad_nd.default, part, [0, 0, at, pieces - 1 - at], 0.0)
        total = part if total is None else write(_ATEN.add.Tensor, total, part)
    whole = (count + pieces - 1) * step
    row = write(_ATEN.reshape.default, total, [n, rows // size, 1, whole])
    return write(_ATEN.constant_pad_nd.default, row, [0, length - whole], 0.0) if length > whole else row


WINDOWS: dict[Any, Any] = {
    _ATEN.unfold.default: frames,
    _ATEN.im2col.default: _columns,
    _ATEN.col2im.default: _from_columns,
}
