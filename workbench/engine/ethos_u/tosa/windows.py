"""Convolutions, products of matrices, pools and resizing.

Sums of products are computed in floating point where that is exact: while the largest input times
the largest sum of a channel's absolute weights stays below 2**24 (float32) or 2**53 (float64),
every partial sum in any order is a whole number of that type, and nothing rounds.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.ethos_u.tosa.arithmetic import PIECE, Scaling, magnitude, reciprocal, within
from workbench.engine.ethos_u.tosa.program import LIMITS, STORED, Array, NotExecuted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.engine.ethos_u.tosa.arithmetic import Call

_SINGLE, _DOUBLE, _LONG = 1 << 24, 1 << 53, 1 << 62
# Bytes of the matrix of one piece of a convolution.
_MATRIX_BYTES = 2 << 20


def _exact_type(bound: int) -> Any:
    """Return the cheapest type in which sums of this magnitude are exact."""
    if bound < _SINGLE:
        return np.float32
    if bound < _DOUBLE:
        return np.float64
    if bound >= _LONG:
        raise NotExecuted("sums beyond 62 bits")
    return np.int64


def _weights(call: Call) -> Array:
    """Return the weights less their zero point, the same for all samples."""
    return call.fixed(1).astype(np.int64) - call.number(4)


def _images(call: Call) -> Array:
    """Return the input with samples and batch as one axis."""
    values = call.inputs[0]
    return values.reshape(-1, *values.shape[2:])


def _biased(call: Call, sums: Array, bound: int) -> Array:
    """Return sums plus bias in the type of the output; of shape (samples, *shape)."""
    bias, kind = call.fixed(2).astype(np.int64), call.output.dtype
    shape = (-1, *call.output.shape)
    if bound + magnitude(bias) <= LIMITS[kind][1]:
        whole: Array = sums.astype(STORED[kind], copy=False)
        whole += bias.astype(STORED[kind])
        return whole.reshape(shape)
    return within(sums.astype(np.int64) + bias, kind).reshape(shape)


def convolution(call: Call) -> Array:
    """CONV2D and CONV3D: weights of shape (channels, *kernel, depth)."""
    values, weights, zero = _images(call), _weights(call), call.number(3)
    sums_of_channels = np.abs(weights).reshape(len(weights), -1).sum(1)
    bound = (magnitude(values) + abs(zero)) * int(sums_of_channels.max())
    dtype = _exact_type(bound)
    size, depth = weights.shape[1:-1], len(weights)
    matrix = np.ascontiguousarray(weights.reshape(depth, -1).T, dtype)
    out = call.output.shape[1:-1]
    sums = np.empty((len(values), *out, depth), STORED[call.output.dtype])
    wide = bound > LIMITS["INT32"][1] and sums.dtype == np.int32
    sums = sums.astype(np.int64) if wide else sums
    step = max(1, _MATRIX_BYTES // (int(np.prod(out[1:])) * matrix.itemsize * max(matrix.shape)))
    for image, target in zip(values, sums, strict=True):
        padded = _padded(image, call.attribute("Pad"), zero, dtype)
        for first in range(0, out[0], step):
            rows = slice(first, min(first + step, out[0]))
            columns = _columns(padded, call, size, (rows.stop - first, *out[1:]), first)
            target[rows] = (columns @ matrix).reshape(target[rows].shape)
    return _biased(call, sums, bound)


def _padded(image: Array, pads: Sequence[int], zero: int, dtype: Any) -> Array:
    """Return an image less its zero point, with zeros around it."""
    limits = [(int(pads[2 * k]), int(pads[2 * k + 1])) for k in range(image.ndim - 1)]
    if min(map(min, limits)) < 0:
        raise NotExecuted("a negative padding")
    if not any(map(any, limits)):
        return np.subtract(image, zero, dtype=dtype)
    shape = [n + sum(pair) for n, pair in zip(image.shape, limits, strict=False)]
    whole = np.zeros((*shape, image.shape[-1]), dtype)
    inner = tuple(slice(low, low + n) for (low, _), n in zip(limits, image.shape, strict=False))
    np.subtract(image, zero, out=whole[inner], dtype=dtype)
    return whole


def _columns(padded: Array, call: Call, size: Sequence[int], out: Sequence[int], first: int) -> Array:
    """Return what the kernel meets at each output element, as rows of a matrix."""
    strides, dilations = call.attribute("Stride"), call.attribute("Dilation")
    steps, item = padded.strides[:-1], padded.strides[-1]
    view = np.lib.stride_tricks.as_strided(
        padded[first * int(strides[0]) :],
        (*out, *size, padded.shape[-1]),
        (
            *(s * int(k) for s, k in zip(steps, strides, strict=True)),
            *(s * int(k) for s, k in zip(steps, dilations, strict=True)),
            item,
        ),
        writeable=False,
    )
    return view.reshape(int(np.prod(out)), -1)


def depthwise(call: Call) -> Array:
    """DEPTHWISE_CONV2D: weights of shape (height, width, depth, multiplier)."""
    values, weights, zero = _images(call), _weights(call), call.number(3)
    height, width, depth, factor = weights.shape
    bound = (magnitude(values) + abs(zero)) * int(np.abs(weights).sum((0, 1)).max())
    dtype = _exact_type(bound)
    planes = weights.reshape(height * width, depth, factor).astype(dtype)
    planes = planes[..., 0] if factor == 1 else planes
    (sy, sx), (dy, dx) = (map(int, call.attribute(n)) for n in ("Stride", "Dilation"))
    rows, columns = call.output.shape[1:3]
    wide = bound > LIMITS["INT32"][1] or call.output.dtype != "INT32"
    sums = np.empty((len(values), rows, columns, *planes.shape[1:]), np.int64 if wide else np.int32)
    step = max(1, PIECE // (columns * depth * factor))
    for image, target in zip(values, sums, strict=True):
        padded = _padded(image, call.attribute("Pad"), zero, dtype)
        for first in range(0, rows, step):
            count = min(step, rows - first)
            total = np.zeros((count, columns, *planes.shape[1:]), dtype)
            product = np.empty_like(total)
            for tap, (y, x) in enumerate(itertools.product(range(height), range(width))):
                top, left = first * sy + y * dy, x * dx
                met = padded[top : top + (count - 1) * sy + 1 : sy, left : left + (columns - 1) * sx + 1 : sx]
                np.multiply(met if factor == 1 else met[..., None], planes[tap], out=product)
                total += product
            target[first : first + count] = total
    return _biased(call, sums.reshape(len(values), rows, columns, depth * factor), bound)


def transposed_convolution(call: Call) -> Array:
    """TRANSPOSE_CONV2D: each input element adds a kernel to the output."""
    values, weights, zero = _images(call), _weights(call), call.number(3)
    sums_of_channels = np.abs(weights).reshape(len(weights), -1).sum(1)
    bound = (magnitude(values) + abs(zero)) * int(sums_of_channels.max())
    dtype = _exact_type(bound)
    depth, height, width, _ = weights.shape
    top, bottom, left, right = map(int, call.attribute("OutPad"))
    sy, sx = map(int, call.attribute("Stride"))
    count, rows, columns, _ = values.shape
    shape = ((rows - 1) * sy + height, (columns - 1) * sx + width)
    whole = np.zeros((count, *shape, depth), dtype)
    centred = np.subtract(values, zero, dtype=dtype)
    for y, x in itertools.product(range(height), range(width)):
        part = whole[:, y : y + (rows - 1) * sy + 1 : sy, x : x + (columns - 1) * sx + 1 : sx]
        part += centred @ np.ascontiguousarray(weights[:, y, x].T, dtype)
    sides = ((top, bottom), (left, right))
    whole = np.pad(whole, [(0, 0), *((max(0, a), max(0, b)) for a, b in sides), (0, 0)])
    cut = [slice(max(0, -a), whole.shape[k + 1] - max(0, -b)) for k, (a, b) in enumerate(sides)]
    inner = whole[:, cut[0], cut[1]]
    if inner.shape[1:3] != call.output.shape[1:3]:
        raise NotExecuted("an output of another size")
    kind = np.int64 if bound > LIMITS["INT32"][1] else STORED[call.output.dtype]
    return _biased(call, inner.astype(kind), bound)


def matmul(call: Call) -> Array:
    """MATMUL of (N, H, C) and (N, C, W)."""
    a, b = call.inputs[:2]
    zeros = call.number(2), call.number(3)
    bound = (magnitude(a) + abs(zeros[0])) * (magnitude(b) + abs(zeros[1])) * a.shape[-1]
    dtype = _exact_type(bound)
    left, right = (np.subtract(v, z, dtype=dtype) for v, z in zip((a, b), zeros, strict=True))
    return within((left @ right).astype(np.int64), call.output.dtype)


def _pool_axes(call: Call) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield the axes of a pool, each with the valid part of the input for every output."""
    kernel, strides, pads = (call.attribute(name) for name in ("Kernel", "Stride", "Pad"))
    for k, axis in enumerate((2, 3)):
        size, ranges = call.inputs[0].shape[axis], []
        for place in range(call.output.shape[axis - 1]):
            begin = place * int(strides[k]) - int(pads[2 * k])
            ranges.append((max(begin, 0), min(begin + int(kernel[k]), size)))
        if any(low >= high for low, high in ranges):
            raise NotExecuted("a window outside of its input")
        yield axis, ranges


def _folded(values: Array, axis: int, ranges: list[tuple[int, int]], fold: Any) -> Array:
    """Return an axis folded over a range for each output."""
    moved = np.moveaxis(values, axis, 0)
    parts = [fold.reduce(moved[low:high], 0) for low, high in ranges]
    return np.moveaxis(np.stack(parts), 0, axis)


def max_pool(call: Call) -> Array:
    """MAX_POOL2D; padding counts for nothing."""
    values = call.inputs[0]
    for axis, ranges in _pool_axes(call):
        values = _folded(values, axis, ranges, np.maximum)
    return values


def average_pool(call: Call) -> Array:
    """AVG_POOL2D: sums over the valid elements, divided by their number."""
    sums = call.inputs[0].astype(np.int64) - call.number(1)
    counts = np.ones((), np.int64)
    for axis, ranges in _pool_axes(call):
        sums = _folded(sums, axis, ranges, np.add)
        counts = np.multiply.outer(counts, [high - low for low, high in ranges])
    within(sums, "INT32")
    least, most = LIMITS[call.output.dtype]
    results = np.empty(sums.shape, STORED[call.output.dtype])
    for count in np.unique(counts):
        multiplier, shift = (np.array([v]) for v in reciprocal(int(count)))
        at = np.broadcast_to((counts == count)[:, :, None], sums.shape[2:])
        scaling = Scaling(multiplier, shift, 0, call.number(2), least, most)
        results[:, :, at] = scaling.apply(sums[:, :, at], STORED[call.output.dtype])
    return results


def resize(call: Call) -> Array:
    """RESIZE, nearest or bilinear; bilinear sums are not divided."""
    values = call.inputs[0]
    scale, offset = (call.fixed(k) for k in (1, 2))
    rows, columns = call.output.shape[1:3]
    axes = [
        _positions(n, size, (int(scale[2 * k]), int(scale[2 * k + 1])), int(offset[k]))
        for k, (n, size) in enumerate(((rows, values.shape[2]), (columns, values.shape[3])))
    ]
    (y, low_y, high_y, n_y), (x, low_x, high_x, n_x) = axes
    if int(call.attribute("Mode")) == _NEAREST:
        at_y, at_x = (np.where(2 * f >= n, high, low) for f, low, high, n in axes)
        return values[:, :, at_y][:, :, :, at_x]
    wide = values.astype(np.int64)
    down, across = y[:, None, None], x[:, None]
    mixed = wide[:, :, low_y] * (n_y - down) + wide[:, :, high_y] * down
    sums = mixed[:, :, :, low_x] * (n_x - across) + mixed[:, :, :, high_x] * across
    return within(sums, call.output.dtype)


_NEAREST = 1


def _positions(count: int, size: int, scale: tuple[int, int], offset: int) -> tuple[Array, Array, Array, int]:
    """Return for each output the fraction, the two neighbours, and the fraction's denominator."""
    numerator, denominator = scale
    at = np.arange(count, dtype=np.int64) * denominator + offset
    low = at // numerator
    return (at - low * numerator, np.clip(low, 0, size - 1), np.clip(low + 1, 0, size - 1), numerator)
