"""ONNX operators that move elements: reshaping, slicing, gathering, padding, resizing.

The formulas are those of the operators' definitions (onnx/docs/Operators.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from workbench.engine.loading.onnx_import.calls import MAX_ELEMENTS, Call, Converted, NotConvertedError
from workbench.engine.loading.onnx_import.operators import TYPES


def _shape(call: Call) -> Converted:
    rank = call.value().dim()
    start, end = int(call.get("start", 0)), int(call.get("end", rank))
    return torch.tensor(list(call.value().shape)[start:end], dtype=torch.int64)


def _filled(call: Call) -> Converted:
    shape = [int(v) for v in call.known(0, "shape").tolist()]
    value = call.get("value", torch.zeros(1))
    # One element that is repeated: nothing is allocated for it.
    return torch.as_tensor(value).reshape(-1)[0].expand(shape)


def _range(call: Call) -> Converted:
    start, limit, step = (call.known(i, "range") for i in range(3))
    count = max(math.ceil((float(limit) - float(start)) / float(step)), 0)
    if count > MAX_ELEMENTS:
        raise NotConvertedError(f"it has {count:,} elements")
    return torch.arange(count, dtype=start.dtype) * step + start


def _identity_matrix(call: Call) -> Converted:
    rows, columns = call.value().shape
    kind = TYPES.get(int(call.get("dtype", 1)), torch.float32)
    shift = int(call.get("k", 0))
    return (
        torch.eye(rows, columns, dtype=kind)
        if not shift
        else torch.diag_embed(torch.ones(max(rows, columns), dtype=kind), shift)[:rows, :columns]
    )


def _reshape(call: Call) -> Converted:
    shape = call.integers(1, "shape")
    sizes = list(call.value().shape)
    if not call.get("allowzero", 0):
        shape = [sizes[i] if size == 0 else size for i, size in enumerate(shape)]
    return call.function(lambda x: x.reshape(shape))


def _flatten(call: Call) -> Converted:
    axis = int(call.get("axis", 1))
    axis = axis + call.value().dim() if axis < 0 else axis
    if axis == 1 and call.value().dim() > 1:
        return call.module(nn.Flatten())
    rows = math.prod(call.value().shape[:axis])
    return call.function(lambda x: x.reshape(rows, -1))


def _transpose(call: Call) -> Converted:
    axes = call.get("perm") or list(reversed(range(call.value().dim())))
    return call.function(lambda x: x.permute(axes))


def _squeeze(call: Call) -> Converted:
    sizes = list(call.value().shape)
    axes = call.integers(1, "axes")
    axes = [i for i, n in enumerate(sizes) if n == 1] if axes is None else axes
    gone = {a % max(len(sizes), 1) for a in axes}
    if any(sizes[a] != 1 for a in gone):
        raise NotConvertedError(f"it removes axes {sorted(gone)} of {sizes}")
    return call.function(lambda x: x.squeeze(tuple(gone)))


def _unsqueeze(call: Call) -> Converted:
    axes = call.integers(1, "axes")
    rank = call.value().dim() + len(axes)
    places = sorted(a % rank for a in axes)

    def unsqueeze(x: torch.Tensor) -> torch.Tensor:
        for place in places:
            x = x.unsqueeze(place)
        return x

    return call.function(unsqueeze)


def _concat(call: Call) -> Converted:
    axis = call.axis(0)
    return call.function(lambda *v: torch.cat(v, axis), *range(len(call.values)))


def _split(call: Call) -> Converted:
    axis, size = call.axis(0), call.value().shape[call.axis(0)]
    sizes = call.integers(1, "split")
    if sizes is None:
        count = int(call.get("num_outputs", call.outputs))
        length = math.ceil(size / count)
        sizes = [min(length, max(size - i * length, 0)) for i in range(count)]
    if len(sizes) == 1:
        return call.module(nn.Identity())
    return call.function(lambda x: torch.split(x, sizes, axis))


def _expand(call: Call) -> Converted:
    shape = [int(v) for v in call.known(1, "shape").tolist()]
    target = list(torch.broadcast_shapes(tuple(call.value().shape), tuple(shape)))
    return call.function(lambda x: x.expand(target))


def _tile(call: Call) -> Converted:
    repeats = [int(v) for v in call.known(1, "repeats").tolist()]
    return call.function(lambda x: x.repeat(repeats))


def _slice(call: Call) -> Converted:
    starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
    axes = call.integers(3, "axes", list(range(len(starts))))
    steps = call.integers(4, "steps", [1] * len(starts))
    sizes = call.value().shape
    ranges: dict[int, range] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        place = axis % max(len(sizes), 1)
        ranges[place] = range(*slice(start, _end(end, step, sizes[place]), step).indices(sizes[place]))
    return call.function(lambda x: _taken(x, ranges))


def _end(end: int, step: int, size: int) -> int | None:
    """Return the end of a slice; one in front of the first element has no number in Python."""
    return None if step < 0 and end < -size else end


def _taken(x: torch.Tensor, ranges: dict[int, range]) -> torch.Tensor:
    places = [slice(None)] * x.dim()
    for axis, chosen in ranges.items():
        if chosen.step < 0:
            x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64))
        else:
            places[axis] = slice(chosen.start, max(chosen.stop, chosen.start), chosen.step)
    is_whole = all(p == slice(None) for p in places)
    return x if is_whole else x[tuple(places)]


def _gather(call: Call) -> Converted:
    axis, size = call.axis(0), call.value().shape[call.axis(0)]
    table, indices = call.constant(0), call.constant(1)
    if table is not None and indices is None and axis == 0 and table.dim() == 2:
        layer = nn.Embedding(*table.shape, device="meta")
        layer.weight = nn.Parameter(table.detach(), requires_grad=False)
        return call.module(layer, 1)
    if indices is None:
        return call.function(lambda x, i: _gathered(x, i % size, axis), 0, 1)
    fixed = indices.to(torch.int64) % size
    if fixed.dim() == 0:
        place = int(fixed)
        return call.function(lambda x: x.select(axis, place))
    rows = fixed.reshape(-1).tolist()
    if fixed.dim() == 1 and rows and rows == list(range(rows[0], rows[0] + len(rows))):
        return call.function(lambda x: x.narrow(axis, rows[0], len(rows)))
    return call.function(lambda x: _gathered(x, fixed, axis))


def _gathered(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
    return x.index_select(axis, indices.reshape(-1)).reshape(shape)


def _gather_elements(call: Call) -> Converted:
    axis = call.axis(0)
    size = call.value().shape[axis]
    return call.function(lambda x, i: x.gather(axis, i % size), 0, 1)


def _gather_nd(call: Call) -> Converted:
    if call.get("batch_dims", 0):
        raise NotConvertedError("it has batch axes")
    return call.function(lambda x, i: x[tuple(i.unbind(-1))], 0, 1)


def _scatter_nd(call: Call) -> Converted:
    if call.get("reduction", "none") != "none":
        raise NotConvertedError(f"it combines elements by {call.get('reduction')}")
    indices = call.known(1, "indices")
    return call.function(lambda x, updates: x.index_put(tuple(indices.unbind(-1)), updates), 0, 2)


def _scatter_elements(call: Call) -> Converted:
    if call.get("reduction", "none") != "none":
        raise NotConvertedError(f"it combines elements by {call.get('reduction')}")
    axis = call.axis(0)
    return call.function(lambda x, i, updates: x.scatter(axis, i, updates), 0, 1, 2)


def _one_hot(call: Call) -> Converted:
    depth = int(call.known(1, "depth"))
    off, on = call.known(2, "values").reshape(-1)
    axis = call.axis(-1, call.value().dim() + 1)

    def hot(x: torch.Tensor) -> torch.Tensor:
        classes = torch.arange(depth)
        is_on = (x.to(torch.int64) % depth).unsqueeze(-1) == classes
        return torch.where(is_on, on, off).movedim(-1, axis)

    return call.function(hot)


def _pad(call: Call) -> Converted:
    rank = call.value().dim()
    pads = call.get("paddings") or call.integers(1, "pads")
    axes = [a % rank for a in call.integers(3, "axes", list(range(rank)))]
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pairs[axis] = (pads[i], pads[i + len(axes)])
    mode = call.get("mode", "constant")
    if mode == "constant":
        value = call.get("value", 0.0)
        value = float(call.known(2, "value")) if call.has(2) else value
        flat = [side for pair in reversed(pairs) for side in pair]
        while flat[-2:] == [0, 0]:
            flat = flat[:-2]
        if not flat:
            return call.module(nn.Identity())
        return call.function(lambda x: F.pad(x, flat, value=value))
    return _pad_by_index(call, pairs, mode)


def _pad_by_index(call: Call, pairs: Sequence[tuple[int, int]], mode: str) -> Converted:
    """Return padding that repeats elements, as a layer of torch or by index."""
    rank, sizes = len(pairs), list(call.value().shape)
    is_spatial = rank in {3, 4} and not any(map(any, pairs[:2])) and min(map(min, pairs)) >= 0
    if is_spatial and mode in {"reflect", "edge"}:
        flat = [side for pair in reversed(pairs[2:]) for side in pair]
        way = {"reflect": "reflect", "edge": "replicate"}[mode]
        return call.function(lambda x: F.pad(x, flat, mode=way))
    chosen = {a: _reached(sizes[a], pair, mode) for a, pair in enumerate(pairs) if any(pair)}

    def pad(x: torch.Tensor) -> torch.Tensor:
        for axis, rows in chosen.items():
            x = x.index_select(axis, torch.tensor(rows))
        return x

    return call.function(pad)


def _reached(size: int, pair: tuple[int, int], mode: str) -> list[int]:
    """Return which elements of an axis padding reaches, in order."""
    if mode == "reflect":
        period = max(2 * (size - 1), 1)
        return [min(i % period, period - i % period) for i in range(-pair[0], size + pair[1])]
    if mode == "wrap":
        return [i % size for i in range(-pair[0], size + pair[1])]
    return [min(max(i, 0), size - 1) for i in range(-pair[0], size + pair[1])]


def _depth_to_space(call: Call) -> Converted:
    block = int(call.get("blocksize"))
    if call.get("mode", "DCR") == "CRD":
        return call.module(nn.PixelShuffle(block))

    def shuffle(x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // block**2, h * block, w * block)

    return call.function(shuffle)


def _space_to_depth(call: Call) -> Converted:
    block = int(call.get("blocksize"))

    def shuffle(x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // block, block, w // block, block).permute(0, 3, 5, 1, 2, 4)
        return x.reshape(n, c * block**2, h // block, w // block)

    return call.function(shuffle)


def _resize(call: Call) -> Converted:
    """Resize and Upsample, with the coordinates of the original written in the definition."""
    is_upsample = call.operator == "Upsample"
    default = "asymmetric" if is_upsample or call.version < 11 else "half_pixel"
    way = call.get("coordinate_transformation_mode", default)
    mode = call.get("mode", "nearest")
    if way == "tf_crop_and_resize" or call.get("antialias", 0) or call.get("exclude_outside", 0):
        raise NotConvertedError(f"it resizes by {way}, with smoothing, or without the outside")
    sizes = list(call.value().shape)
    resized, scales = _sizes(call, sizes, early=is_upsample or call.version < 11)
    changed = [a for a in range(len(sizes)) if resized[a] != sizes[a] or scales[a] != 1]
    if not changed:
        return call.module(nn.Identity())
    coordinates = {a: _coordinates(way, sizes[a], resized[a], scales[a]) for a in changed}
    if (layer := _torch_function(call, mode, resized, coordinates)) is not None:
        return layer
    tables = {a: _table(mode, call, c, sizes[a]) for a, c in coordinates.items()}

    def resize(x: torch.Tensor) -> torch.Tensor:
        for axis, table in tables.items():
            x = (x.movedim(axis, -1) @ table.t()).movedim(-1, axis)
        return x

    return call.function(resize)


def _sizes(call: Call, sizes: list[int], *, early: bool) -> tuple[list[int], list[float]]:
    """Return the sizes of the result and the scales of all axes."""
    rank = len(sizes)
    axes = [a % rank for a in call.get("axes", list(range(rank)))]
    resized, scales = list(sizes), [1.0] * rank
    factors = call.get("scales")
    position = 1 if early else 2
    if factors is None and call.has(position) and call.value(position).numel():
        factors = [float(v) for v in call.known(position, "scales").tolist()]
    if factors is not None:
        for axis, scale in zip(axes, factors, strict=True):
            scales[axis], resized[axis] = scale, math.floor(sizes[axis] * scale)
        return resized, scales
    if call.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotConvertedError("it keeps the ratio of height and width")
    for axis, size in zip(axes, call.integers(3, "sizes", []), strict=True):
        resized[axis], scales[axis] = size, size / sizes[axis]
    return resized, scales


def _coordinates(way: str, size: int, length: int, scale: float) -> torch.Tensor:
    """Return where each element of the result is in the original, in float64."""
    place = torch.arange(length, dtype=torch.float64)
    if way == "asymmetric":
        return place / scale
    if way == "align_corners":
        return place * (size - 1) / (length - 1) if length > 1 else place * 0
    if way == "pytorch_half_pixel" and length == 1:
        return place * 0
    if way == "half_pixel_symmetric":
        adjustment = length / (size * scale)
        return size / 2 * (1 - adjustment) + (place + 0.5) / scale - 0.5
    return (place + 0.5) / scale - 0.5


def _rounded(call: Call, coordinates: torch.Tensor) -> torch.Tensor:
    way = call.get("nearest_mode", "floor" if call.version < 11 else "round_prefer_floor")
    if way == "floor":
        return coordinates.floor()
    if way == "ceil":
        return coordinates.ceil()
    return (coordinates + 0.5).floor() if way == "round_prefer_ceil" else (coordinates - 0.5).ceil()


def _torch_function(
    call: Call, mode: str, resized: list[int], coordinates: dict[int, torch.Tensor]
) -> Converted | None:
    """Return the function of torch with these coordinates; None if there is none."""
    sizes, rank = list(call.value().shape), len(resized)
    if min(coordinates) < 2 or rank not in {3, 4}:
        return None
    target = resized[2:]
    ratio = {a: sizes[a] / resized[a] for a in coordinates}
    place = {a: torch.arange(resized[a], dtype=torch.float64) for a in coordinates}

    def equals(form: Callable[[int], torch.Tensor], seen: dict[int, torch.Tensor]) -> bool:
        return all(torch.allclose(form(a), seen[a], atol=1e-6) for a in coordinates)

    if mode == "nearest":
        rows = {a: _rounded(call, c).clamp(0, sizes[a] - 1) for a, c in coordinates.items()}
        if equals(lambda a: (place[a] * ratio[a]).floor(), rows):
            return call.function(lambda x: F.interpolate(x, target, mode="nearest"))
        return None
    is_stock = rank == 4 and float(call.get("cubic_coeff_a", -0.75)) == -0.75
    is_centered = equals(lambda a: (place[a] + 0.5) * ratio[a] - 0.5, coordinates)
    has_corners = call.get("coordinate_transformation_mode") == "align_corners"
    if not is_stock or not (is_centered or has_corners):
        return None
    way = {"linear": "bilinear", "cubic": "bicubic"}[mode]
    corners = not is_centered
    return call.function(lambda x: F.interpolate(x, target, mode=way, align_corners=corners))


def _table(mode: str, call: Call, coordinates: torch.Tensor, size: int) -> torch.Tensor:
    """Return the matrix that resizes an axis: results x originals."""
    table = torch.zeros(len(coordinates), size, dtype=torch.float64)
    rows = torch.arange(len(coordinates))
    if mode == "nearest":
        taken = [(_rounded(call, coordinates), torch.ones_like(coordinates))]
    else:
        low = coordinates.floor()
        part = coordinates - low
        weights = _cubic(part, float(call.get("cubic_coeff_a", -0.75)))
        if mode == "linear":
            weights = {0: 1 - part, 1: part}
        taken = [(low + offset, weight) for offset, weight in weights.items()]
    for place, weight in taken:
        # Outside of the original its first and last elements are repeated.
        table.index_put_((rows, place.long().clamp(0, size - 1)), weight, accumulate=True)
    return table.float()


def _cubic(part: torch.Tensor, a: float) -> dict[int, torch.Tensor]:
    """Return the weights of the four neighbours (Keys 1981)."""

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return {-1: far(part + 1), 0: near(part), 1: near(1 - part), 2: far(2 - part)}


def _dropout(call: Call) -> Converted:
    if call.outputs > 1:
        raise NotConvertedError("its mask is used")
    return call.module(nn.Identity())


_Table = dict[str, Callable[[Call], Any]]
SHAPES: _Table = {
    "Shape": _shape,
    "Size": lambda c: torch.tensor(c.value().numel()),
    "ConstantOfShape": _filled,
    "Range": _range,
    "EyeLike": _identity_matrix,
    "Identity": lambda c: c.module(nn.Identity()),
    "Dropout": _dropout,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Expand": _expand,
    "Tile": _tile,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "OneHot": _one_hot,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Resize": _resize,
    "Upsample": _resize,
}
