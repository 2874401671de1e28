"""Nodes of the graph of a delegate: what they compute with, and how corrections add and order them."""

import math
from typing import Any

import torch
from executorch.backends.arm.tosa.mapping import TosaSpecialDtype
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx

TOSA = exir_ops.backend.tosa
IMAGE_RANK, _MOST_DIMENSIONS = 4, 6
_EDGE = exir_ops.edge.aten
MOVING = (TOSA.TRANSPOSE.default, TOSA.REVERSE.default)
IN_PLACE = (TOSA.TRANSPOSE.default, TOSA.RESHAPE.default, TOSA.RESCALE.default)
JOINING = (TOSA.CONCAT.default, TOSA.PAD.default)
CONVOLUTIONS = (
    TOSA.CONV2D.default,
    TOSA.CONV3D.default,
    TOSA.DEPTHWISE_CONV2D.default,
    TOSA.TRANSPOSE_CONV2D.default,
    TOSA.MATMUL.default,
)
ACTIVATIONS = (TOSA.CLAMP.default, TOSA.TABLE.default)
# With ExecuTorch 1.4 they are operators of the edge until the program is written.
SUMS = (TOSA.REDUCE_SUM.default, _EDGE.sum.dim_IntList)
EXTREMES = (TOSA.REDUCE_MAX.default, TOSA.REDUCE_MIN.default, _EDGE.amax.default, _EDGE.amin.default)
SUMS_AND_MAXIMA = (*SUMS, *EXTREMES)
READING_SLICES = (TOSA.TRANSPOSE_CONV2D.default, TOSA.MATMUL.default, *SUMS_AND_MAXIMA)
WINDOWED = (TOSA.CONV2D.default, TOSA.DEPTHWISE_CONV2D.default)
NOT_JOINED = (*JOINING, *MOVING, *CONVOLUTIONS, TOSA.SLICE.default, TOSA.TILE.default)


def redirect(readers: list[fx.Node], value: fx.Node, other: fx.Node) -> None:
    """Let nodes read another value."""
    for reader in readers:
        reader.replace_input_with(value, other)


def copied_before(graph: fx.Graph, value: fx.Node, reader: fx.Node) -> fx.Node | None:
    """Return a copy of a tensor of 8 or 16 bits before its reader; None for any other value.

    A largest value over windows of one element is the element, and Vela leaves no pool out.
    """
    held = value.meta["val"]
    if held.dtype not in {torch.int8, torch.int16} or held.dim() > _MOST_DIMENSIONS:
        return None
    shape = [*held.shape]
    flat = [1, *[1] * (IMAGE_RANK - 1 - len(shape)), *shape][-IMAGE_RANK:]
    if len(shape) >= IMAGE_RANK:
        flat = [1, int(held.numel() // (shape[-1] * shape[-2])), *shape[-2:]]
    with graph.inserting_before(reader):
        source = value if flat == shape else reshaped(graph, value, flat)
        pool = graph.call_function(TOSA.MAX_POOL2D.default, (source, [1, 1], [1, 1], [0, 0, 0, 0]))
        pool.meta = dict(source.meta)
        return pool if flat == shape else reshaped(graph, pool, shape)


def padded_image(graph: fx.Graph, value: fx.Node, pads: list[int]) -> fx.Node:
    """Return an image with rows and columns of the least integer around it."""
    held = value.meta["val"]
    top, bottom, left, right = pads
    sizes = sizes_constant(graph, value, [0, 0, top, bottom, left, right, 0, 0])
    padded = graph.call_function(TOSA.PAD.default, (value, sizes))
    padded.kwargs = {"value": torch.iinfo(held.dtype).min}
    n, height, width, channels = held.shape
    shape = n, height + top + bottom, width + left + right, channels
    padded.meta = {**value.meta, "val": held.new_empty(shape)}
    return padded


def sizes_constant(graph: fx.Graph, value: fx.Node, sizes: list[int]) -> fx.Node:
    """Return a constant of integers that an operator on a value takes."""
    sizes_node = graph.call_function(TOSA.CONST_SHAPE.default, (sizes,))
    key = TosaSpecialDtype.meta_key()
    sizes_node.meta = {**value.meta, "val": sizes, key: TosaSpecialDtype.SHAPE}
    return sizes_node


def reshaped(graph: fx.Graph, value: fx.Node, shape: list[int]) -> fx.Node:
    """Return a tensor in another shape."""
    sizes = sizes_constant(graph, value, shape)
    node = graph.call_function(TOSA.RESHAPE.default, (value, sizes))
    node.meta = {**value.meta, "val": value.meta["val"].reshape(shape)}
    return node


def image_of(value: fx.Node) -> tuple[int, ...]:
    """Return the shape of a tensor with at least four dimensions, as Vela takes it."""
    shape = tuple(value.meta["val"].shape)
    return (*[1] * (IMAGE_RANK - len(shape)), *shape)


def flattened(shape: list[int], starts: list[int], part: list[int]) -> tuple[list[int], ...]:
    """Return shape, starts and sizes of a slice in as few dimensions as it can be taken in."""
    joined = [[1, 0, 1]]
    for size, start, taken in zip(shape, starts, part, strict=True):
        if size == taken == 1:
            continue
        if size == taken and joined[-1][0] == joined[-1][2]:
            joined[-1] = [joined[-1][0] * size, 0, joined[-1][2] * taken]
        else:
            joined.append([size, start, taken])
    if len(joined) > 1 and joined[0][0] == 1:
        del joined[0]
    flat, begins, sizes = map(list, zip(*joined, strict=True))
    return flat, begins, sizes


def source_of(value: fx.Node, passed: tuple[Any, ...]) -> fx.Node:
    """Return the operator behind others that only pass its elements on."""
    while value.target in passed:
        value = value.all_input_nodes[0]
    return value


def swap_with_layout(graph: fx.Graph, layout: fx.Node, node: fx.Node) -> None:
    """Let an operator on single elements read what a change of layout reads, and be read by it."""
    source: Any = layout.args[0]
    readers = list(node.users)
    node.replace_input_with(layout, source)
    with graph.inserting_after(node):
        moved = graph.call_function(layout.target, (node, *layout.args[1:]), layout.kwargs)
    moved.meta = dict(node.meta)
    node.meta = {**node.meta, "val": node.meta["val"].new_empty(source.meta["val"].shape)}
    redirect(readers, node, moved)
    if not layout.users:
        graph.erase_node(layout)


def computed_as_rows(graph: fx.Graph, node: fx.Node) -> None:
    """Let an operator on single elements read and write a batch as rows of one image."""
    value: Any = node.args[0]
    shape = [*value.meta["val"].shape]
    with graph.inserting_before(node):
        flat = reshaped(graph, value, [1, math.prod(shape[:-2]), *shape[-2:]])
    node.replace_input_with(value, flat)
    # The 32 bits of a table of 16-bit values are taken back before the shape.
    is_wide = node.target == TOSA.TABLE.default and value.meta["val"].dtype == torch.int16
    is_taken_back = is_wide and all(r.target == TOSA.RESCALE.default for r in node.users)
    ends = list(node.users) if is_taken_back else [node]
    for changed in {node, *ends}:
        changed.meta = {**changed.meta, "val": changed.meta["val"].reshape(flat.meta["val"].shape)}
    for end in ends:
        readers = list(end.users)
        with graph.inserting_before(end.next):
            redirect(readers, end, reshaped(graph, end, shape))


def moved_before(graph: fx.Graph, node: fx.Node, layout: fx.Node) -> None:
    """Compute an activation before a change of layout or a reshape."""
    swap_with_layout(graph, layout, node)
    # The 32 bits of a table of 16-bit values are taken back before the layout.
    for reader in list(node.users):
        for rescale in list(reader.users):
            if rescale.target == TOSA.RESCALE.default:
                swap_with_layout(graph, reader, rescale)


def summed_axis(node: fx.Node) -> int:
    """Return the dimension that a sum is over."""
    axis: Any = node.kwargs.get("axis", node.args[1:2])
    while isinstance(axis, list | tuple):
        (axis,) = axis
    return int(axis) % node.meta["val"].dim()


def strides_of(node: fx.Node) -> tuple[int, ...]:
    """Return the strides of a convolution or pool; 1 for other operators."""
    at = _STRIDE_AT.get(node.target)
    return tuple(node.args[at]) if at is not None else (1,)  # type: ignore[arg-type]


_STRIDE_AT = {
    TOSA.CONV2D.default: 3,
    TOSA.DEPTHWISE_CONV2D.default: 3,
    TOSA.MAX_POOL2D.default: 2,
    TOSA.AVG_POOL2D.default: 4,
}


def reader_of_reshape(node: fx.Node) -> Any:
    """Return what reads a reshape: an activation, or a rescale before it; None for no reshape."""
    while node.args[0].target == TOSA.RESCALE.default:
        node = node.args[0]
    return node if node.args[0].target == TOSA.RESHAPE.default else None
