"""Convolutions, pools and norms over three dimensions, written with those over two.

A volume [1, C, D, H, W] becomes a batch of D images [D, C, H, W]; the depth of a kernel becomes
channels that are the images beside each other.
"""

from typing import Any

import torch
from torch import fx

from .graph_writer import Writer

_ATEN = torch.ops.aten


def _convolution(
    write: Writer, x: fx.Node, weight: fx.Node, bias: Any = None, stride: Any = (1,), *rest: Any
) -> fx.Node | None:
    """Write a convolution as one over images, whose channels are the images that a kernel reads."""
    padding, apart, groups = _filled(rest, ((0,), (1,), 1))
    kernel = write.held(weight)
    size = x.meta["val"].shape
    if kernel is None or len(size) != 5 or size[0] != 1:
        return None
    (step, *steps), (pad, *pads), (gap, *gaps) = map(_three, (stride, padding, apart))
    channels, depth = size[1] // groups, kernel.shape[2]
    images = write(_ATEN.permute.default, write(_ATEN.squeeze.dim, x, 0), [1, 0, 2, 3])
    if pad:
        images = write(_ATEN.constant_pad_nd.default, images, [0, 0, 0, 0, 0, 0, pad, pad], 0.0)
    count = (size[2] + 2 * pad - gap * (depth - 1) - 1) // step + 1
    taps = [
        write(_ATEN.slice.Tensor, images, 0, tap * gap, tap * gap + (count - 1) * step + 1, step)
        for tap in range(depth)
    ]
    if groups > 1:
        taps = [
            write(_ATEN.slice.Tensor, tap, 1, group * channels, (group + 1) * channels)
            for group in range(groups)
            for tap in taps
        ]
    joined = write(_ATEN.cat.default, taps, 1) if len(taps) > 1 else taps[0]
    flat = kernel.transpose(1, 2).reshape(kernel.shape[0], depth * channels, *kernel.shape[3:])
    held = write.parameter("images_weight", flat)
    result = write(_ATEN.conv2d.default, joined, held, bias, steps, pads, gaps, groups)
    return _volume(write, result)


def _convolution_by_name(
    write: Writer, x: fx.Node, weight: fx.Node, bias: Any = None, stride: Any = (1,), *rest: Any
) -> fx.Node | None:
    """Write a convolution that is padded to the same size, where both ends get the same."""
    padding, apart, groups = _filled(rest, ("valid", (1,), 1))
    more = [g * (k - 1) for g, k in zip(_three(apart), weight.meta["val"].shape[2:], strict=True)]
    if padding == "valid":
        more = [0, 0, 0]
    if any(extent % 2 for extent in more):
        return None
    same = [extent // 2 for extent in more], apart, groups
    return _convolution(write, x, weight, bias, stride, *same)


def _volume(write: Writer, images: fx.Node) -> fx.Node:
    turned = write(_ATEN.permute.default, images, [1, 0, 2, 3])
    return write(_ATEN.unsqueeze.default, turned, 0)


def _filled(rest: tuple[Any, ...], defaults: tuple[Any, ...]) -> list[Any]:
    """Return the last settings of a call, those that it leaves out by their defaults."""
    return [*rest, *defaults[len(rest) :]]


def _three(setting: Any) -> list[int]:
    values = [setting] if isinstance(setting, int) else list(setting)
    return values * 3 if len(values) == 1 else values


def _mean_pool(
    write: Writer, x: fx.Node, size: Any, stride: Any = (), pad: Any = (0,), *rest: Any
) -> fx.Node | None:
    """Take a mean over a window as means over its images, then over their depth."""
    ceil, counted, divisor = _filled(rest, (False, True, None))
    if ceil or divisor is not None or (any(_three(pad)) and not counted):
        return None
    settings = [_three(size), _three(stride or size), _three(pad)]
    return _pool(write, _ATEN.avg_pool2d.default, x, settings)


def _max_pool(
    write: Writer, x: fx.Node, size: Any, stride: Any = (), pad: Any = (0,), *rest: Any
) -> fx.Node | None:
    """Take the largest of a window as that of its images, then over their depth."""
    apart, ceil = _filled(rest, ((1,), False))
    if ceil:
        return None
    settings = [_three(size), _three(stride or size), _three(pad), _three(apart)]
    return _pool(write, _ATEN.max_pool2d.default, x, settings)


def _pool(write: Writer, target: Any, x: fx.Node, settings: list[list[int]]) -> fx.Node:
    """Write a pool over images and one over depth; settings are size, stride, pad and dilation."""
    *outer, channels, depth, height, width = x.meta["val"].shape
    batch = outer or [1]
    images = [setting[1:] for setting in settings]
    depths = [[setting[0], one] for setting, one in zip(settings, (1, 1, 0, 1), strict=False)]
    if images[:2] != [[1, 1], [1, 1]]:
        x = write(_ATEN.reshape.default, x, [*batch, channels * depth, height, width])
        x = write(target, x, *images)
        height, width = x.meta["val"].shape[2:]
    if depths[:2] != [[1, 1], [1, 1]]:
        x = write(_ATEN.reshape.default, x, [*batch, channels, depth, height * width])
        x = write(target, x, *depths)
        depth = x.meta["val"].shape[2]
    return write(_ATEN.reshape.default, x, [*outer, channels, depth, height, width])


def _norm(write: Writer, x: fx.Node, *settings: Any) -> fx.Node | None:
    """Write the norm of a volume as that of an image with its rows beside each other."""
    shape = x.meta["val"].shape
    if len(shape) != 5:
        return None
    image = write(_ATEN.reshape.default, x, [*shape[:3], shape[3] * shape[4]])
    return write(_ATEN.reshape.default, write(write.target, image, *settings), [*shape])


VOLUMES: dict[Any, Any] = {
    _ATEN.conv3d.default: _convolution,
    _ATEN.conv3d.padding: _convolution_by_name,
    _ATEN.batch_norm.default: _norm,
    _ATEN.avg_pool3d.default: _mean_pool,
    _ATEN.max_pool3d.default: _max_pool,
}
