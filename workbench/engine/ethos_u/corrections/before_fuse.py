"""Corrections before ExecuTorch erases activations that the grids of their outputs compute.

A correction gets the graph and its delegate, and yields the names of the nodes that it changed.
"""

from collections.abc import Iterator
from typing import Any

from executorch.backends.arm._passes.fuse_quantized_activation_pass import FuseQuantizedActivationPass
from executorch.backends.arm._passes.quant_args import QuantArgs
from executorch.backends.arm.constants import DEQUANT_PER_TENSOR_OP, QUANT_PER_TENSOR_OP
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx

from .lowering import Delegate


def negations_rescaled(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Rescale negated values to their grid.

    Fault: A negation is a negation of integers, which is right where its output has the step of its
        input. Where calibration gives another step, every value is off.
    Instead: The negated integers are rescaled to the grid of the output.
    Right because: The quantized model rounds the negated value to that grid.
    Network: -torch.amax(-conv(x), 3) in a8w8
    Tools: executorch 1.5.1
    """
    del delegate
    for node in list(graph.nodes):
        if node.target == exir_ops.edge.aten.neg.default and _has_own_grid(node):
            yield node.name


def _has_own_grid(node: fx.Node) -> bool:
    """Put the mirrored grid of its input behind a negation, if its output has another one."""
    source: Any = node.args[0]
    readers = list(node.users)
    grids = {tuple(reader.args[1:]) for reader in readers if reader.target == QUANT_PER_TENSOR_OP}
    if source.target != DEQUANT_PER_TENSOR_OP or len(grids) != 1:
        return False
    scale, zero, low, high, *rest = source.args[1:]
    # The integers of 8 bits are mirrored onto themselves; those of 16 bits are symmetric.
    mirrored = (scale, 0 if zero == 0 and high > _BYTE else low + high - zero, low, high, *rest)
    if grids == {mirrored}:
        return False
    with node.graph.inserting_after(node):
        integers = node.graph.call_function(QUANT_PER_TENSOR_OP, (node, *mirrored))
    with node.graph.inserting_after(integers):
        values = node.graph.call_function(DEQUANT_PER_TENSOR_OP, (integers, *mirrored))
    integers.meta, values.meta = dict(readers[0].meta), dict(node.meta)
    for reader in readers:
        reader.replace_input_with(node, values)
    return True


_BYTE = 255


def keep_relu_clamps(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Keep the clamp of a ReLU whose range goes below zero.

    Fault: A ReLU behind a convolution or a linear is erased, and only the lower limit of its grid
        is set to the zero point. Nothing obeys that limit: where the grid goes below zero, because
        cat or a fixed range decides it, negative values pass.
    Instead: The ReLU stays as a clamp of integers where its grid goes below zero.
    Right because: Its input and output have one grid, so that the clamp at the zero point is exact;
        a grid that starts at zero clamps by itself, and such programs stay as they are.
    Network: torch.cat([torch.relu(conv_a(x)), conv_b(x)], 1) in a8w8
    Reported: https://github.com/pytorch/executorch/issues/20486
    Tools: executorch 1.5.1
    """
    del delegate
    for node in list(filter(_loses_its_clamp, graph.nodes)):
        _separate(graph, node)
        yield node.name


def _loses_its_clamp(node: fx.Node) -> bool:
    """Return whether stock would erase an activation whose grid does not start at zero."""
    stock = FuseQuantizedActivationPass
    if node.op != "call_function" or not stock._is_fuseable_quantized_activation(node):  # noqa: SLF001
        return False
    if not stock._is_fuseable_input(node.args[0]):  # noqa: SLF001
        return False
    (quantize,) = node.users
    grid = QuantArgs.from_operator(quantize.target, quantize.args)
    return bool(grid.zp != grid.qmin) or _reaches_beyond(node, grid)


def _reaches_beyond(node: fx.Node, grid: QuantArgs) -> bool:
    """Return whether a grid has values above the upper limit of a hardtanh."""
    if node.target != exir_ops.edge.aten.hardtanh.default:
        return False
    return bool(grid.quantize_value(node.args[2]).item() < grid.qmax)


def _separate(graph: fx.Graph, activation: fx.Node) -> None:
    """Put the grid of an activation also between it and its input, so that both stay."""
    source: Any = activation.args[0]
    (quantize,) = activation.users
    with graph.inserting_before(activation):
        integers = graph.call_function(QUANT_PER_TENSOR_OP, (source, *quantize.args[1:]))
        values = graph.call_function(DEQUANT_PER_TENSOR_OP, (integers, *quantize.args[1:]))
    integers.meta, values.meta = dict(quantize.meta), dict(source.meta)
    activation.replace_input_with(source, values)
