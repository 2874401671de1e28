"""Operators of the graph of a delegate that cost cycles for nothing, before corrections for Vela.

What is computed twice is computed once, sums over one element are left out, and zeros before a
convolution become its padding. All results are the same integers.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from .lowering import Delegate
from .tosa_nodes import IMAGE_RANK, TOSA, WINDOWED, reshaped

_COMPUTED = {
    TOSA.RESCALE.default,
    TOSA.RESHAPE.default,
    TOSA.REDUCE_SUM.default,
    TOSA.MUL.default,
    TOSA.ADD.default,
    TOSA.SUB.default,
}
_QPARAMS = ("input_qparams", "output_qparams")


def equal_operations_joined(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Compute once what is computed twice.

    Fault: ExecuTorch decomposes a norm into its mean and its variance, which has the mean in it
        again: the mean, and the difference to it, are computed twice over the whole tensor.
    Instead: What reads the second reads the first.
    Right because: Equal operators of equal values have equal results.
    Network: GroupNorm(32, 32)(conv(x)) in a8w8 for U55
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    known = dict[Any, fx.Node]()
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is TOSA.CONST_SHAPE.default:
            key = repr((node.target, node.args))
        elif node.target in _COMPUTED:
            key = repr((node.target, node.args, node.kwargs, [node.meta.get(k) for k in _QPARAMS]))
        else:
            continue
        first = known.setdefault(key, node)
        if first is not node and not any(user.op == "output" for user in node.users):
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            if node.target is not TOSA.CONST_SHAPE.default:
                yield node.name


def sums_of_single_elements(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Leave sums over a single element out.

    Fault: A mean over two axes is a sum over each. Where one has a single element, Vela sums it with
        a change of layout on both sides: 396,766 of 1,960,000 cycles of an encoder with a norm.
    Instead: What reads the sum reads its input.
    Right because: The sum over one element is the element.
    Network: GroupNorm(32, 32)(conv1d(x)) in a8w8 for U55
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    for node in list(graph.find_nodes(op="call_function", target=TOSA.REDUCE_SUM.default)):
        source: Any = node.args[0]
        if source.meta["val"].shape == node.meta["val"].shape:
            node.replace_all_uses_with(source)
            graph.erase_node(node)
            yield node.name


def squares_of_two_conversions(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Multiply values with themselves in one operation.

    Fault: A square reads one conversion to 32 bits twice. Vela joins a conversion with what reads it
        once: the conversion, the product and the way back are operations over the whole tensor,
        6.3 instead of 0.75 cycles an element on U55-128.
    Instead: Each of both sides has a conversion of its own, which is joined.
    Right because: Both conversions have the same results.
    Network: x * x behind a convolution in a8w8 for U55
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    for node in list(graph.find_nodes(op="call_function", target=TOSA.RESCALE.default)):
        if node.meta["val"].dtype is not torch.int32:
            continue
        uses = [(user, i) for user in node.users for i, a in enumerate(user.args) if a is node]
        for user, i in uses[1:]:
            with graph.inserting_before(node):
                own = graph.call_function(node.target, node.args, node.kwargs)
            own.meta = dict(node.meta)
            user.update_arg(i, own)
            yield node.name


def zeros_into_convolutions(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Take zeros before convolutions into their padding.

    Fault: PyTorch's convolutions pad both ends of an axis alike. Zeros at one end, as for causal
        convolutions and in networks that come from TensorFlow, are a copy of the tensor.
    Instead: The convolutions that read it pad, each end by itself: TOSA and the NPU have that.
    Right because: What is padded is the integer of zero in both.
    Network: Conv2d(16, 16, 3, 2)(pad(relu(Conv2d(16, 16, 1)(x)), (0, 1, 0, 1))) in a8w8 for U55
    Tools: executorch 1.5.1, ethos-u-vela 5.1.0
    """
    del delegate
    for pad in list(graph.find_nodes(op="call_function", target=TOSA.PAD.default)):
        layouts = list(_layouts_behind(pad))
        readers = list([pad, *layouts][-1].users)
        conv = readers[0] if len(readers) == 1 and readers[0].target in WINDOWED else None
        padding = conv and _padding_with_zeros(pad, layouts, conv)
        if conv is None or padding is None:
            continue
        value: Any = pad.args[0]
        for layout in layouts:
            value = _same_layout(graph, layout, value)
        conv.update_arg(0, value)
        conv.update_arg(4, padding)
        graph.eliminate_dead_code()
        yield pad.name


def _layouts_behind(value: fx.Node) -> Iterator[fx.Node]:
    """Yield the changes of layout that read a value one after another, and nothing else does."""
    while len(value.users) == 1 and next(iter(value.users)).target in _LAYOUTS:
        (value,) = value.users
        yield value


_LAYOUTS = {TOSA.TRANSPOSE.default, TOSA.RESHAPE.default, TOSA.SLICE.default}


def _padding_with_zeros(pad: fx.Node, layouts: list[fx.Node], conv: fx.Node) -> list[int] | None:
    """Return the padding of a convolution that takes zeros; None where it cannot.

    Not where a result would be of zeros alone, which the NPU need not support.
    """
    (sizes,) = pad.args[1].args  # type: ignore[union-attr]
    ends: list[Any] = list(zip(sizes[::2], sizes[1::2], strict=True))
    # Vela transposes an input faster than what is computed from it.
    is_input = pad.args[0].op == "placeholder"  # type: ignore[union-attr]
    for layout in layouts:
        shape, before = (node.meta["val"].shape for node in (layout, layout.args[0]))  # type: ignore[union-attr]
        ones = len(shape) - len(before)
        if layout.target is TOSA.TRANSPOSE.default and is_input:
            ends = [ends[axis] for axis in layout.args[1]]  # type: ignore[union-attr]
        elif layout.target is TOSA.SLICE.default and not any(layout.args[1].args[0]):  # type: ignore[union-attr]
            cuts = [a - b for a, b in zip(before, shape, strict=True)]
            ends = [(first, last - cut) for (first, last), cut in zip(ends, cuts, strict=True)]
        elif layout.target is TOSA.RESHAPE.default and ones >= 0 and [*shape] == [1] * ones + [*before]:
            ends = [(0, 0)] * ones + ends
        else:
            return None
    parameters = conv.meta.get("input_qparams", {}).get(0)
    if min(map(min, ends)) < 0 or len(ends) != IMAGE_RANK or any(ends[0] + ends[3]) or parameters is None:
        return None
    _, weight, _, _, own, dilation = conv.args
    at = int(conv.target is TOSA.CONV2D.default)
    kernel = weight.meta["val"].shape[at : at + 2]  # type: ignore[union-attr]
    reach = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]  # type: ignore[arg-type]
    both = [a + b for a, b in zip(own, ends[1] + ends[2], strict=True)]  # type: ignore[arg-type]
    is_zero = pad.kwargs.get("value") == parameters.get_zp_per_tensor()
    return both if is_zero and all(n <= reach[i // 2] for i, n in enumerate(both)) else None


def _same_layout(graph: fx.Graph, layout: fx.Node, value: fx.Node) -> fx.Node:
    """Return a value in the layout that a change of layout gives to a larger one."""
    held = value.meta["val"]
    if layout.target is TOSA.SLICE.default:
        # It cuts zeros alone.
        return value
    with graph.inserting_before(layout):
        if layout.target is TOSA.RESHAPE.default:
            ones = len(layout.meta["val"].shape) - held.dim()
            return reshaped(graph, value, [*[1] * ones, *held.shape])
        moved = graph.call_function(layout.target, (value, layout.args[1]), layout.kwargs)
    moved.meta = {**layout.meta, "val": held.permute(layout.args[1])}
    return moved
