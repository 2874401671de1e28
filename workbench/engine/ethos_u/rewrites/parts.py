"""Parts of a tensor that are taken before its layout is changed.

Queries, keys and values of one product lie beside each other in the channels. Where the layout is
changed first, and the parts are taken from the result, the whole tensor is moved in memory and each
part once more. Channels beside each other are a part that the NPU reads where it is.
"""

import operator
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import MOVED, quantized_calls, written_name

_ATEN = torch.ops.aten
_SELECTED = {_ATEN.select.int, _ATEN.slice.Tensor}
_SPLIT = {_ATEN.unbind.int, _ATEN.split.Tensor, _ATEN.split_with_sizes.default, _ATEN.chunk.default}
# Places of larger tensors are not followed: each takes 8 bytes.
_MOST_ELEMENTS = 1 << 23


class _Part(NamedTuple):
    """A part of a tensor, as channels beside each other and a change of layout.

    Attributes:
        begin, end: The channels, of the last axis.
        sizes: The shape of the part with those of its axes alone that have more than one place, in
            the order in which memory has them.
        order: The order of these axes in the result.
    """

    begin: int
    end: int
    sizes: list[int]
    order: list[int]


def take_parts_first(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Take parts of tensors before their layout is changed, where all of them are channels."""
    done = list[str]()
    for first in quantized_calls(module, quantizer, *MOVED):
        source: Any = first.args[0]
        held = source.meta["val"]
        if source.target in MOVED or first.kwargs or held.dim() < 2 or held.numel() > _MOST_ELEMENTS:
            continue
        leaves = _leaves(first, torch.arange(held.numel()).view(held.shape))
        parts = [_part(places, list(held.shape)) for _, places in leaves]
        if len(parts) < 2 or None in parts:
            continue
        for (leaf, places), part in zip(leaves, parts, strict=True):
            assert part is not None
            leaf.replace_all_uses_with(_written(Writer(module, leaf), source, part, list(places.shape)))
            done.append(written_name(leaf))
    return finished(module, done)


def _leaves(first: fx.Node, index: torch.Tensor) -> list[tuple[fx.Node, torch.Tensor]]:
    """Return the parts that are taken behind changes of layout, with the places of their elements.

    There are none where something else reads a tensor in between.
    """
    leaves, waiting = list[tuple[fx.Node, torch.Tensor]](), [(first, index)]
    while waiting:
        node, before = waiting.pop()
        value: Any = node.target(before, *node.args[1:], **node.kwargs)  # type: ignore[operator]
        if node.target in _SPLIT:
            if any(reader.target is not operator.getitem for reader in node.users):
                return []
            leaves += [(reader, value[reader.args[1]]) for reader in node.users]
        elif node.target in _SELECTED:
            leaves.append((node, value))
        elif all(_follows(reader, node) for reader in node.users):
            waiting += [(reader, value) for reader in node.users]
        else:
            return []
    return leaves


def _follows(reader: fx.Node, node: fx.Node) -> bool:
    """Return whether a node moves or takes elements of a value, and depends on no other value."""
    return reader.target in MOVED | _SELECTED | _SPLIT and reader.all_input_nodes == [node]


def _part(places: torch.Tensor, shape: list[int]) -> _Part | None:
    """Return a part of channels; None where it is another one.

    Args:
        places: The place in the source of each element of the part.
        shape: The shape of the source.
    """
    sizes = [size for size in places.shape if size > 1]
    flat = places.reshape(sizes)
    steps = [int(flat.select(axis, 1).flatten()[0] - flat.flatten()[0]) for axis in range(len(sizes))]
    expected = flat.flatten()[0].expand(sizes)
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        expected = expected + step * torch.arange(size).view(-1, *[1] * (len(sizes) - axis - 1))
    channels, rows = shape[-1], prod(shape[:-1])
    begin = int(flat.flatten()[0])
    taken = flat.numel() // rows
    is_whole = flat.numel() == rows * taken and begin + taken <= channels and taken < channels
    if not is_whole or not torch.equal(expected, flat):
        return None
    order = sorted(range(len(sizes)), key=steps.__getitem__, reverse=True)
    # In the order of memory each step is what the axes behind it hold, with other channels beside them.
    held = 1
    for axis in reversed(order):
        if steps[axis] != (held if held < taken else held // taken * channels):
            return None
        held *= sizes[axis]
        if held > taken and held % taken:
            return None
    turned = [order.index(axis) for axis in range(len(sizes))]
    return _Part(begin, begin + taken, [sizes[axis] for axis in order], turned)


def _written(write: Writer, source: fx.Node, part: _Part, shape: list[int]) -> fx.Node:
    """Return a part in its shape, of channels that are taken first."""
    result = write(_ATEN.slice.Tensor, source, len(source.meta["val"].shape) - 1, part.begin, part.end)
    for target, argument in _steps(list(result.meta["val"].shape), part, shape):
        result = write(target, result, argument)
    return result


def _steps(before: list[int], part: _Part, shape: list[int]) -> Iterator[tuple[Any, list[int]]]:
    """Yield the changes of layout between the channels and the part."""
    if part.order == sorted(part.order):
        part = part._replace(sizes=shape)
    if before != part.sizes:
        yield _ATEN.reshape.default, part.sizes
    if part.order != sorted(part.order):
        yield _ATEN.permute.default, part.order
        if [part.sizes[axis] for axis in part.order] != shape:
            yield _ATEN.reshape.default, shape
