"""Layers over patches that were gathered by changes of layout, as convolutions over the picture.

Patches are cut out in many ways: by views and permutations, by unfolding, by pixel unshuffles. Where
each place of what a layer reads comes from is found by moving the numbers of the places.
"""

from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished, fused_reader
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    MOVED,
    conv_arguments,
    quantized_calls,
    written_name,
)
from workbench.engine.ethos_u.rewrites.strides import each_axis, padding_of

_ATEN = torch.ops.aten
# What cuts patches out of a picture.
_CUTS = {*MOVED, _ATEN.slice.Tensor, _ATEN.cat.default, _ATEN.pixel_unshuffle.default}
_IMAGE = 4


@dataclass(frozen=True)
class _Patches:
    """Patches of a picture: their size and step, and the place of each value in one.

    ``places`` are channels, rows and columns, one for each input of the layer. ``is_last`` is whether
    the picture has its channels last.
    """

    size: tuple[int, int]
    step: tuple[int, int]
    places: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    channels: int
    is_last: bool


def write_patches(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write layers over patches that were gathered before as convolutions over the picture."""
    done = list[str]()
    for layer in quantized_calls(module, quantizer, _ATEN.linear.default, _ATEN.conv2d.default):
        _, stored, held, *_ = conv_arguments(layer)
        weight, bias = constant_of(module, stored), constant_of(module, held)
        is_known = weight is not None and (held is None or bias is not None)
        source: Any = layer.args[0]
        if not is_known or layer.kwargs or not _is_per_place(layer, weight):
            continue
        picture = picture_behind(layer, source)
        patches = picture and _patches(layer, picture, source)
        if picture and patches:
            done.append(written_name(layer))
            _write(module, layer, picture, (weight.flatten(1), bias), patches)
    return finished(module, done)


def _is_per_place(layer: fx.Node, weight: torch.Tensor) -> bool:
    """Return whether a layer is a linear, or a convolution of each place by itself."""
    _, _, _, stride, padding, _, groups = conv_arguments(layer)
    return layer.target is _ATEN.linear.default or (
        tuple(weight.shape[2:]) == (1, 1)
        and (groups or 1) == 1
        and set(each_axis(stride, 2, 1)) == {1}
        and padding_of(padding, [1, 1], [1, 1]) == [0, 0]
        and layer.meta["val"].dim() == _IMAGE
    )


def picture_behind(layer: fx.Node, source: fx.Node) -> fx.Node | None:
    """Return the one value of four axes that changes of layout alone bring to a layer."""
    if source.target not in _CUTS:
        return None
    inside, leaves, waiting = {source}, set[fx.Node](), [source]
    while waiting:
        node = waiting.pop()
        for read in node.all_input_nodes:
            if read.target not in _CUTS:
                leaves.add(read)
            elif read not in inside:
                inside.add(read)
                waiting.append(read)
    readers = {reader for node in inside for reader in node.users}
    if len(leaves) != 1 or not readers <= inside | {layer}:
        return None
    (picture,) = leaves
    shape = picture.meta["val"].shape
    return picture if len(shape) == _IMAGE and shape[0] == 1 else None


def _moved_numbers(picture: fx.Node, source: fx.Node) -> torch.Tensor:
    """Return for each place of what a layer reads the number of the place that it comes from."""
    shape = picture.meta["val"].shape
    values = {picture: torch.arange(shape.numel()).view(shape)}
    waiting = [source]
    while waiting:
        node = waiting[-1]
        if left := [read for read in node.all_input_nodes if read not in values]:
            waiting += left
            continue
        waiting.pop()
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    return values[source]


def _patches(layer: fx.Node, picture: fx.Node, source: fx.Node) -> _Patches | None:
    """Return the patches that a layer reads, row by row; None where it reads something else."""
    numbers = _moved_numbers(picture, source)
    if layer.target is not _ATEN.linear.default:
        numbers = numbers.permute(0, 2, 3, 1)
    rows = numbers.reshape(-1, numbers.shape[-1])
    _, one, two, three = picture.meta["val"].shape
    first = (rows // (two * three), rows // three % two, rows % three)
    last = (rows % three, rows // (two * three), rows // three % two)
    for is_last, places, sizes in ((False, first, (two, three)), (True, last, (one, two))):
        channels = three if is_last else one
        if (patches := _as_patches(places, sizes, channels, is_last=is_last)) is not None:
            return patches
    return None


def _as_patches(
    places: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    sizes: tuple[int, int],
    channels: int,
    *,
    is_last: bool,
) -> _Patches | None:
    """Return patches whose values are at some places of a picture; None where there are none."""
    origins = [axis.amin(1, keepdim=True) for axis in places[1:]]
    within = (places[0], *(axis - origin for axis, origin in zip(places[1:], origins, strict=True)))
    if any(bool((axis != axis[:1]).any()) for axis in within):
        return None
    channel, row, column = (axis[0] for axis in within)
    size = int(row.max()) + 1, int(column.max()) + 1
    is_whole = len(channel) == size[0] * size[1] * channels
    number = (channel * size[0] + row) * size[1] + column
    # Heads that are joined behind an attention are rows of one place.
    if min(size) == 1 or len(origins[0]) == 1 or not is_whole or len(number.unique()) != len(number):
        return None
    tops, lefts = (origin.flatten().unique().tolist() for origin in origins)
    step = (_step_of(tops, size[0]), _step_of(lefts, size[1]))
    counts = [(extent - k) // s + 1 for extent, k, s in zip(sizes, size, step, strict=True)]
    rows, columns = torch.meshgrid(*map(torch.arange, counts), indexing="ij")
    is_grid = len(origins[0]) == rows.numel() and all(
        torch.equal(origin.flatten(), at.flatten() * s)
        for origin, at, s in zip(origins, (rows, columns), step, strict=True)
    )
    return _Patches(size, step, (channel, row, column), channels, is_last) if is_grid else None


def _step_of(starts: list[int], size: int) -> int:
    return starts[1] - starts[0] if len(starts) > 1 else size


def _write(
    module: fx.GraphModule,
    layer: fx.Node,
    picture: fx.Node,
    parameters: tuple[torch.Tensor, torch.Tensor | None],
    patches: _Patches,
) -> None:
    """Put a convolution over a picture, and its activation, in the place of a layer over patches."""
    weight, bias = parameters
    last, write = fused_reader(layer), Writer(module, layer)
    x = write(_ATEN.permute.default, picture, [0, 3, 1, 2]) if patches.is_last else picture
    kernel = torch.zeros(len(weight), patches.channels, *patches.size)
    kernel[(slice(None), *patches.places)] = weight
    own = write.parameter(f"{layer.name}_patch_weight", kernel)
    held = None if bias is None else write.parameter(f"{layer.name}_patch_bias", bias)
    result = write(_ATEN.conv2d.default, x, own, held, [*patches.step])
    after = Writer(module, last)
    if last is not layer:
        result = after.called(last, result)
    if layer.target is _ATEN.linear.default:
        result = after(_ATEN.permute.default, result, [0, 2, 3, 1])
        result = after(_ATEN.reshape.default, result, [*layer.meta["val"].shape])
    after.replace(result)
    if last is not layer:
        module.graph.erase_node(layer)
