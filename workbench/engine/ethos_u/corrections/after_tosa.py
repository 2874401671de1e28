"""Corrections of the graph of a delegate after ExecuTorch's passes, before Vela gets it.

Most are for faults of Vela. It leaves out slices, joins and changes of layout: the operators beside
them read and write in place, and some do so at a wrong place. A copy, or another order of the
operators, avoids that. A correction gets the graph and its delegate, and yields the names of the
nodes that it changed.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.arm._passes.arm_pass_utils import (
    get_constant_placeholder_kind,
    get_param_tensor,
    is_param_node,
    is_persistent_buffer,
)
from executorch.backends.transforms.utils import create_constant_placeholder, delete_constant_placeholder
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx

from .lowering import Delegate
from .tosa_nodes import (
    ACTIVATIONS,
    CONVOLUTIONS,
    EXTREMES,
    IMAGE_RANK,
    IN_PLACE,
    JOINING,
    MOVING,
    NOT_JOINED,
    SUMS,
    SUMS_AND_MAXIMA,
    TOSA,
    WINDOWED,
    computed_as_rows,
    copied_before,
    flattened,
    image_of,
    moved_before,
    padded_image,
    reader_of_reshape,
    redirect,
    reshaped,
    sizes_constant,
    source_of,
    summed_axis,
    swap_with_layout,
)
from .tosa_slices import (
    MOST_STRIDE,
    has_several_outputs,
    is_convolved_in_other_images,
    is_repeated_in_a_chain,
    loses_its_offset,
)

_EDGE = exir_ops.edge.aten


def sums_of_one_dimension(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Sum over one dimension at a time.

    Fault: ExecuTorch 1.4.1 moves a reshape behind a sum, which then sums all dimensions that the
        reshape had joined. TOSA sums one dimension, and only the first is written, with the shape
        of a sum over all: Vela computes wrong values.
    Instead: There is a sum for each of the dimensions.
    Right because: Integers of 32 bits have the same sum in any order.
    Network: interpolate(conv1d(x), scale_factor=2).square().mean(-1) in a8w8 for U55
    Tools: executorch 1.4.1, ethos-u-vela 5.1.0
    """
    del delegate
    for node in graph.find_nodes(op="call_function", target=_EDGE.sum.dim_IntList):
        value, (*axes, last), *rest = node.args
        for axis in axes:
            held = value.meta["val"]
            shape = [*held.shape]
            shape[axis] = 1
            with graph.inserting_before(node):
                value = graph.call_function(node.target, (value, [axis], *rest), node.kwargs)
            value.meta = {**node.meta, "val": held.new_empty(shape)}
        if axes:
            node.args = (value, [last], *rest)
            yield node.name


def outputs_kept(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Keep outputs whose layout is changed back.

    Fault: Where a value leaves a delegate and is read inside it too, its layout is changed for the
        CPU and changed back. Vela joins the two changes and forgets that the first is an output:
        the delegate has an output less, and the program reads wrong values. So it is where the
        output is a reshape that is transposed inside.
    Instead: What reads the changed layout inside the delegate reads the value before it.
    Right because: Both changes together are one, or none. A reshape is taken twice.
    Network: x = conv(image); torch.cat([x, interpolate(other(adaptive_avg_pool2d(x, 1)))], 1) for
        U55, as in DeepLab and PSPNet
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    # A value whose two changes are none becomes an output in place of the second.
    while name := _kept_output(graph):
        yield name


def _kept_output(graph: fx.Graph) -> str:
    """Take one reader of an output off it; return the output's name, or "" if there is none to take off."""
    for node in graph.nodes:
        first: Any = node.args[0] if _is_transpose(node) else None
        if first is None or all(user.op != "output" for user in first.users):
            continue
        name = str(first.name)
        if first.target == TOSA.RESHAPE.default:
            with graph.inserting_before(node):
                again = reshaped(graph, first.args[0], [*first.meta["val"].shape])
            node.replace_input_with(first, again)
            return name
        if not _is_transpose(first):
            continue
        source, order = first.args[0], [first.args[1][axis] for axis in node.args[1]]
        if order == sorted(order):
            node.replace_all_uses_with(source)
            graph.erase_node(node)
        else:
            node.args = (source, order)
        return name
    return ""


def constants_rearranged(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Transpose constants ahead of time.

    Fault: Changes of layout are moved across operators after constants were folded, and some end
        behind a constant. For U55 Vela lets the program write the transposed constant into the
        constants, which are read-only.
    Instead: The constant is transposed before Vela gets it.
    Right because: The values are the same, in the same order.
    Network: conv(layer_norm(conv(x))) in a8w8 for U55, with weights of the norm over channels,
        height and width
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    for node in list(graph.nodes):
        source: Any = node.args[0] if _is_transpose(node) else None
        if source is None or not _is_constant(delegate.program, source):
            continue
        with graph.inserting_before(source):
            constant = create_constant_placeholder(
                delegate.program,
                graph,
                f"{node.name}_constant",
                get_constant_placeholder_kind(delegate.program, source),
                get_param_tensor(delegate.program, source).permute(node.args[1]).contiguous(),
                is_persistent_buffer(delegate.program, source),
            )
        constant.meta = {**source.meta, "val": constant.meta["val"]}
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
        if not source.users:
            delete_constant_placeholder(delegate.program, source)
        yield node.name


def rescales_joined(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Join equal rescales of a convolution.

    Fault: Where a convolution is called twice with one input, ExecuTorch computes it once and
        rescales it twice. Vela rejects a 16-bit convolution with two rescales for U55 and U65.
    Instead: Equal rescales of one value are one.
    Right because: They compute the same integers.
    Network: torch.maximum(conv(x)[:, :, 2:], conv(x)[:, :, :-2]) in a16w8 for U55
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    known: dict[str, fx.Node] = {}
    for node in list(graph.nodes):
        if node.target != TOSA.RESCALE.default or node.args[0].target not in CONVOLUTIONS:
            continue
        first = known.setdefault(f"{node.args} {node.kwargs}", node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            yield node.name


def slices_flattened(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Slice in at most four dimensions.

    Fault: Where an operator on elements reads a slice of five dimensions, of a batch or as images
        of another shape, with its result transposed, Vela's process ends for U55 and U65. For U85
        each image is then computed from the first.
    Instead: Dimensions beside each other that are whole are joined, and those of size 1 are left
        out, before the slice is taken. The slice gets its shape back.
    Right because: A slice takes the same elements, in the same order, whatever shape the dimensions
        have that it takes whole.
    Network: q, k, v = qkv.view(1, 16, 3, 4, 8).permute(2, 0, 3, 1, 4), then (k +
        rotated(k)).transpose(-1, -2), as rotary positions have it; q * scale with windows as a
        batch, as in Swin
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    for node in list(graph.nodes):
        if node.target != TOSA.SLICE.default:
            continue
        value, starts, sizes = node.args
        shape, part = [*value.meta["val"].shape], [*node.meta["val"].shape]
        flat = flattened(shape, starts.meta["val"], part)
        if len(shape) <= IMAGE_RANK or len(flat[0]) > IMAGE_RANK:
            continue
        with graph.inserting_before(node):
            source = reshaped(graph, value, flat[0])
            constants = [sizes_constant(graph, value, values) for values in flat[1:]]
            taken = graph.call_function(node.target, (source, *constants))
            taken.meta = {**node.meta, "val": node.meta["val"].reshape(flat[2])}
            node.replace_all_uses_with(reshaped(graph, taken, part))
        for old in (node, starts, sizes):
            if not old.users:
                graph.erase_node(old)
        yield node.name


def slices_computed(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Copy slices and pads before operators that lose their offset.

    Fault: Vela lets an operator read a sliced tensor in place. Maxima, minima, sums, means, matrix
        products, transposed convolutions, depthwise convolutions with several outputs a channel,
        convolutions with a dilation above two, all convolutions of a batch, and on U85 convolutions
        and pools with a stride above three then read with the wrong offset or shape: other
        elements, or beyond the memory. ExecuTorch writes a slice too where rows are left over
        behind the last window, and for each of several groups. For U85 Vela computes several
        operators on elements in a chain, and one behind the first reads a slice that it repeats, as
        for all rows, from the start of the sliced tensor. A padding with zeros becomes
        that of the convolution behind it; where a reshape between them makes other images, as for a
        batch in one dimension, it reads other elements.
    Instead: The slice or pad is copied before such an operator reads it, which costs the cycles of
        the copy.
    Right because: The copy is a maximum over windows of one element, which is the element.
    Network: conv(x)[:, :, 2:].amax(3) in a8w8; q, k, v = linear(x).chunk(3, -1), then q @
        k.transpose(-1, -2) for U55; x * scale + shift in a8w8 for U85, with scale and shift from
        chunk(2, -1), as in a diffusion transformer; Conv1d(4, 4, 3)(pad(x, (2, 0))) over a batch in
        a16w8
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    for node in list(graph.nodes):
        if node.target == TOSA.SLICE.default:
            is_lost = loses_its_offset(node) or (not delegate.is_u55 and is_repeated_in_a_chain(node))
        else:
            is_lost = node.target == TOSA.PAD.default and is_convolved_in_other_images(node)
        if is_lost:
            readers = list(node.users)
            if copied := copied_before(graph, node, readers[0]):
                redirect(readers, node, copied)
                yield node.name


def joined_computed(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Copy what would lose its place in a joined tensor.

    Fault: Vela lets an operator write its part of a joined or padded tensor in place. A depthwise
        convolution with several outputs a channel then loses its place, or Vela rejects the
        program, and a maximum or minimum is written to the start, or over all of the tensor. So is
        a function behind a transpose whose result is reshaped to several images. On U55 and U65 a
        resize reads beyond its input, and a matrix product in four dimensions loses its place.
    Instead: The result is copied into its place, which costs the cycles of the copy.
    Right because: The copy is a maximum over windows of one element, which is the element.
    Network: torch.cat([Conv2d(4, 8, 3, groups=4)(x), conv(x)], 1) in a8w8; pad(q @ k.transpose(2,
        3), (1, 0)) for U55, as in relative attention; torch.cat([x.mean(1, True), x.amax(1,
        True)], 1)
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    for node in list(graph.nodes):
        if node.target not in JOINING:
            continue
        inputs = node.all_input_nodes[:1] if node.target in JOINING[1:] else node.args[0]
        for value in dict.fromkeys(inputs):
            if _loses_its_place(value, delegate.is_u55) and (copied := copied_before(graph, value, node)):
                node.replace_input_with(value, copied)
                yield node.name


def flips_of_copies(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Copy matrix products before they are flipped.

    Fault: For U85 Vela joins a matrix product with the flip behind it, and its process ends for
        devices of 1,024 and 2,048 MACs.
    Instead: The product is copied before the flip, which costs the cycles of the copy.
    Right because: The copy is a maximum over windows of one element, which is the element.
    Network: torch.flip(q @ k.transpose(1, 2), [2]) in a8w8 for U85-2048
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    for node in list(graph.nodes):
        if delegate.is_u55 or node.target != TOSA.REVERSE.default:
            continue
        value: Any = node.args[0]
        if source_of(value, IN_PLACE).target == TOSA.MATMUL.default and (
            copied := copied_before(graph, value, node)
        ):
            node.replace_input_with(value, copied)
            yield node.name


def functions_of_sums(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Copy functions of sums before they meet another sum.

    Fault: For U85 Vela computes a function of a sum and an operator on it and another sum in a
        chain. It lays the other sum out in the shape in which it was summed, and takes memory for
        the shape that the operator has: the next tensor is written over it, or it lies beyond the
        memory.
    Instead: The function is copied before the operator reads it, which costs the cycles of the
        copy.
    Right because: The copy is a maximum over windows of one element, which is the element.
    Network: x.sum(1).pow(2) - x.pow(2).sum(1) in a8w8 for U85, as in factorization machines
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    for node in list(graph.nodes):
        if delegate.is_u55 or node.target not in _OF_TWO_VALUES or not _meet_as_sums(node):
            continue
        for side in node.args[:2]:
            reader, value = node, side
            while value.meta["val"].dtype == torch.int32:
                reader, value = value, value.args[0]
            is_function = source_of(value, IN_PLACE).target in (*_OF_TWO_VALUES, *ACTIVATIONS[1:])
            if is_function and (copied := copied_before(graph, value, reader)):
                reader.replace_input_with(value, copied)
                yield node.name
                break


def padded_pools(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Pad before a maximum with a large stride.

    Fault: For U85 Vela splits a max pool with a stride above three and loses its padding: most
        elements are wrong.
    Instead: A padding with the least integer comes before the pool.
    Right because: No maximum is below the least integer.
    Network: max_pool2d(x, 3, stride=4, padding=1) over [1, 3, 33, 33] in a8w8 for U85
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    for node in list(graph.nodes):
        if delegate.is_u55 or node.target != TOSA.MAX_POOL2D.default:
            continue
        value, kernel, strides, pads = node.args
        if max(strides) > MOST_STRIDE and any(pads):
            with graph.inserting_before(node):
                padded = padded_image(graph, value, pads)
            node.args = (padded, kernel, strides, [0, 0, 0, 0])
            yield node.name


def clamps_over_rows(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Compute clamps and functions of batches as rows.

    Fault: Vela computes a pointwise convolution over a batch, which a linear over rows is, as one
        over an image. With a clamp of its own between two of them, as a ReLU is in 16 bits and a
        hardtanh in 8, all rows but the first are wrong. So they are where a ReLU of a sum, a
        product or a pool is read by a linear over rows, in 8 and 16 bits, and where a function or
        clamp reads sums or maxima of a batch of images, or several operators read a function of a
        pointwise convolution over one. Where a reshape makes several images of what an operator has
        computed, or of a slice or a transpose, a function or clamp behind it is joined with the
        operator: it is wrong, or the program reads beyond its memory.
    Instead: The clamp or function gets the rows of one image, or comes before the reshape.
    Right because: A reshape moves no value, and both work on each element alone.
    Network: linear_b(torch.relu(linear_a(x))) over [1, 6, 16] in a16w8;
        linear_b(torch.relu(linear_a(x) + x)) in a8w8, as residual blocks of linears have it; x /
        (x.norm(dim=1, keepdim=True) + 0.1) over [3, 6, 6, 12];
        torch.sigmoid(conv(x).permute(0, 2, 3, 1).reshape(1, 12, 12, 2, 8)), as in the heads of
        detectors
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    for node in list(graph.nodes):
        if node.target not in ACTIVATIONS:
            continue
        if _moved_to_rows(graph, node):
            yield node.name


def activations_before_layouts(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Compute activations before changes of layout.

    Fault: For U85 Vela joins an operator, its activation, a transpose or flip, and the activation
        behind it, and computes the first activation alone. Where the result is a part of a joined
        tensor, it joins a convolution, a transpose and the activation too: it splits the channels,
        computes the first of them twice, and reads weights beyond their end. On all devices an
        8-bit activation is joined with a transpose of five dimensions, or of several images, which
        Vela computes in steps, and is written to wrong places; so is a 16-bit one for U85, and a
        table on a U55 or U65 that is joined or padded.
    Instead: The second activation comes before the change of layout. Behind a transpose of five
        dimensions or several images the result is copied first, which costs the cycles of the copy.
    Right because: An activation works on each element alone. The copy is a maximum over windows of
        one element, which is the element.
    Network: torch.sigmoid(torch.flip(torch.tanh(x), [3])) in a8w8 for U85;
        torch.cat([torch.sigmoid(Conv2d(4, 1, 1)(x)), torch.sigmoid(Conv2d(4, 4, 1)(x))], 1), as in
        the heads of YOLOX; Conv2d(3, 24, 1)(x).view(1, 3, 8, 4, 4).permute(0, 1, 3, 4, 2).sigmoid()
        in a8w8, as in the rows of YOLOv5
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    for node in list(graph.nodes):
        if node.target not in ACTIVATIONS:
            continue
        value: Any = node.args[0]
        is_in_steps = value.meta["val"].dtype == torch.int8 or not delegate.is_u55
        is_turned = not delegate.is_u55 or (node.target == TOSA.TABLE.default and _is_joined(node))
        if is_in_steps and _is_behind_deep_layout(value) and (copied := copied_before(graph, value, node)):
            node.replace_input_with(value, copied)
            if copied.target == TOSA.RESHAPE.default:
                moved_before(graph, node, copied)
            yield node.name
        elif is_turned and _moved_before_layouts(graph, node):
            _moved_to_rows(graph, node)
            yield node.name


def clamps_before_transposes(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Clamp before a transpose, where the result is joined with others.

    Fault: Vela joins a convolution, the transpose behind it and the clamp behind that, and loses
        the place of the result in the joined tensor.
    Instead: The clamp comes before the transpose.
    Right because: A clamp works on each element alone.
    Network: torch.cat([x, hardtanh(conv(x), 0.0, 6.0)], 3) in a8w8
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    for node in list(graph.nodes):
        turn: Any = node.args[0] if node.target == TOSA.CLAMP.default else None
        if not _is_transpose(turn) or len(turn.users) > 1:
            continue
        if any(user.target == TOSA.CONCAT.default for user in node.users):
            swap_with_layout(graph, turn, node)
            yield node.name


_BEHIND_SUMS = (*IN_PLACE, TOSA.SLICE.default, TOSA.TABLE.default)
_OF_TWO_VALUES = (
    TOSA.ADD.default,
    TOSA.SUB.default,
    TOSA.MUL.default,
    TOSA.MAXIMUM.default,
    TOSA.MINIMUM.default,
)


def _meet_as_sums(node: fx.Node) -> bool:
    """Return whether an operator reads two sums that Vela computes in another shape than its own."""
    sums = [_sum_behind(value) for value in node.args[:2]]
    if sums[0] is sums[1] or any(value.target not in SUMS for value in sums):
        return False
    is_turned = any(
        summed_axis(value) != value.meta["val"].dim() - 1 or image_of(value) != image_of(node)
        for value in sums
    )
    return is_turned and any(source_of(value, _BEHIND_SUMS) in sums for value in node.args[:2])


def _sum_behind(value: Any) -> fx.Node:
    """Return what a value is computed from by functions and with constants."""
    value = source_of(value, _BEHIND_SUMS)
    if value.target not in _OF_TWO_VALUES:
        return value  # type: ignore[no-any-return]
    computed = [side for side in value.args[:2] if source_of(side, IN_PLACE).op == "call_function"]
    return _sum_behind(computed[0]) if len(computed) == 1 else value


def _is_transpose(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.target == TOSA.TRANSPOSE.default


def _is_constant(program: Any, node: fx.Node) -> bool:
    """Return whether a node is a constant of the program that no branch or loop is given."""
    return is_param_node(program, node) and not node.meta.get("is_input", False)


def _loses_its_place(value: fx.Node, is_u55: bool) -> bool:
    """Return whether the operator of a value would write it at a wrong place."""
    product = source_of(value, (*IN_PLACE, TOSA.CLAMP.default))
    if product.target in EXTREMES:
        return True
    if product.target == TOSA.MATMUL.default:
        return is_u55 and value.meta["val"].dim() >= IMAGE_RANK
    if _is_turned_in_other_images(value):
        return True
    maker = source_of(value, (*IN_PLACE, *ACTIVATIONS))
    if maker.target == TOSA.RESIZE.default:
        return is_u55
    return bool(maker.target == TOSA.DEPTHWISE_CONV2D.default and has_several_outputs(maker))


def _is_behind_deep_layout(value: fx.Node) -> bool:
    """Return whether a value comes from a transpose of five dimensions or more, or of several images."""
    layout = source_of(value, IN_PLACE[1:])
    if not _is_transpose(layout):
        return False
    shape = layout.meta["val"].shape
    return len(shape) > IMAGE_RANK or (len(shape) == IMAGE_RANK and shape[0] > 1)


def _moved_before_layouts(graph: fx.Graph, node: fx.Node) -> bool:
    """Compute an activation before the changes of layout that it reads; return if there are any."""
    is_moved = False
    while (layout := _layout_behind_activation(node)) is not None:
        moved_before(graph, node, layout)
        is_moved = True
    return is_moved


def _layout_behind_activation(node: fx.Node) -> fx.Node | None:
    """Return the change of layout before an activation that is computed wrongly behind it."""
    layout: Any = node.args[0]
    if layout.target not in MOVING:
        return None
    maker = source_of(layout, (*MOVING, TOSA.RESHAPE.default, TOSA.RESCALE.default))
    if maker.target in ACTIVATIONS or (maker.target in CONVOLUTIONS and _is_joined(node)):
        return layout
    return None


def _loses_rows(node: fx.Node) -> bool:
    """Return whether all batches but the first of a clamp or function are lost."""
    value: Any = node.args[0]
    shape = value.meta["val"].shape
    if math.prod(shape[: 1 - IMAGE_RANK]) == 1:
        return False
    if source_of(value, IN_PLACE[1:]).target in SUMS_AND_MAXIMA:
        return True
    if len(shape) != IMAGE_RANK:
        return False
    if node.target != TOSA.CLAMP.default:
        is_lost = tuple(shape[1:3]) == (1, 1) or _has_several_readers(node)
        return is_lost and source_of(value, IN_PLACE[2:]).target in CONVOLUTIONS
    return source_of(value, IN_PLACE[1:]).target in CONVOLUTIONS or _joins_rows(node, value)


def _moved_to_rows(graph: fx.Graph, node: fx.Node) -> bool:
    """Compute a clamp or function before reshapes, or as rows, where it is lost; return if it was."""
    flipped: Any = node.args[0]
    if flipped.target == TOSA.REVERSE.default and _is_in_other_images(flipped.args[0]):
        moved_before(graph, node, flipped)
    is_moved = not _loses_rows(node) and _is_in_other_images(node.args[0])
    while is_moved and (reader := reader_of_reshape(node)) is not None:
        moved_before(graph, reader, reader.args[0])
    if is_lost := _loses_rows(node):
        computed_as_rows(graph, node)
    return is_moved or is_lost


def _has_several_readers(node: fx.Node) -> bool:
    """Return whether the result of a table is read more than once, also in another shape."""
    readers = list(node.users)
    while len(readers) == 1 and readers[0].target in IN_PLACE:
        readers = list(readers[0].users)
    return len(readers) > 1


def _is_in_other_images(value: fx.Node) -> bool:
    """Return whether a reshape makes several images of what an operator computes otherwise."""
    layout = source_of(value, IN_PLACE[2:])
    if layout.target != TOSA.RESHAPE.default or math.prod(value.meta["val"].shape[: 1 - IMAGE_RANK]) == 1:
        return False
    maker = source_of(value, IN_PLACE[1:])
    is_computed = maker.op == "call_function" and maker.target not in _NOT_IN_OTHER_IMAGES
    return is_computed and image_of(maker) != image_of(value)


def _is_turned_in_other_images(value: fx.Node) -> bool:
    """Return whether an activation before or behind a transpose has its result in several images."""
    layout = source_of(value, (*IN_PLACE[1:], *ACTIVATIONS))
    is_active = source_of(value, IN_PLACE).target in ACTIVATIONS
    has_images = math.prod(value.meta["val"].shape[: 1 - IMAGE_RANK]) > 1
    return is_active and has_images and _is_transpose(layout) and image_of(layout) != image_of(value)


def _joins_rows(node: fx.Node, value: fx.Node) -> bool:
    """Return whether a clamp reads what an operator has computed in another shape, for a linear."""
    maker = source_of(value, IN_PLACE)
    if maker.op != "call_function" or maker.target in NOT_JOINED:
        return False
    is_other = maker.meta["val"].shape != value.meta["val"].shape
    return is_other and any(_is_convolved(reader) for reader in node.users)


# What Vela joins no clamp with, or joins it rightly.
_NOT_IN_OTHER_IMAGES = (*JOINING, TOSA.TILE.default, TOSA.MATMUL.default)


def _is_convolved(reader: fx.Node) -> bool:
    """Return whether a reader is a convolution, or passes its elements on to one."""
    if reader.target in IN_PLACE[1:]:
        return any(_is_convolved(other) for other in reader.users)
    return reader.target in WINDOWED


def _is_joined(value: fx.Node) -> bool:
    """Return whether a value is written into a joined or padded tensor."""
    return any(
        reader.target in JOINING or (reader.target in IN_PLACE and _is_joined(reader))
        for reader in value.users
    )
