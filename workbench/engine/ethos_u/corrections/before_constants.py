"""Corrections after ExecuTorch has decomposed operators, before it computes constants.

A correction gets the graph and its delegate, and yields the names of the nodes that it changed.
"""

from collections.abc import Iterator
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx

from .lowering import Delegate

_EDGE = exir_ops.edge.aten
_KERNEL = "_kernel"
_NOTED_GRIDS = ("input_qparams", "output_qparams")


def sums_in_8_bits(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Give cumulative sums a kernel of 8 bits.

    Fault: A cumulative sum becomes a convolution with ones, which get the type of what was summed:
        16-bit or float weights, which no device supports.
    Instead: The ones have 8 bits.
    Right because: A one is a one in 8 bits, and its scale is noted as 8 bits already.
    Network: linear(x).cumsum(1) in a16w8
    Tools: executorch 1.5.1
    """
    for node in graph.find_nodes(op="call_function", target=_EDGE.convolution.default):
        kernel: Any = node.args[1]
        grid = (node.meta.get("input_qparams") or {}).get(1)
        if grid is None or grid.dtype is not torch.int8 or not kernel.name.endswith(_KERNEL):
            continue
        ones = delegate.program.state_dict.get(kernel.name)
        if ones is not None and ones.dtype is not torch.int8:
            narrow = torch.nn.Parameter(ones.detach().to(torch.int8), requires_grad=False)
            delegate.program.state_dict[kernel.name] = narrow
            kernel.meta["val"] = kernel.meta["val"].to(torch.int8)
            yield kernel.name.removesuffix(_KERNEL)


def pool_zero_points(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Give average pools the zero points of their grids.

    Fault: The zero points of an average pool are quantized like real numbers. Input and output get
        the same wrong one, which cancels, but a mean that lies halfway between two integers goes up
        or down by the sign of a sum that is shifted.
    Instead: The zero points are those of the grid.
    Right because: TOSA subtracts them before it sums, and halves go away from zero for real.
    Network: AvgPool2d(2) of values on both sides of zero in a8w8
    Tools: executorch 1.5.1
    """
    del delegate
    number = 0
    for node in graph.find_nodes(op="call_function", target=exir_ops.backend.tosa.AVG_POOL2D.default):
        # Input and output have one zero point each.
        is_wrong = [_is_quantized_again(zero) for zero in node.args[1:3]]
        for zero in node.args[1:3]:
            for grids in _NOTED_GRIDS:
                zero.meta.pop(grids, None)
        number += any(is_wrong)
        yield from [f"average pool {number}"] * sum(is_wrong)


def _is_quantized_again(zero: Any) -> bool:
    """Return whether a zero point becomes another number where it is taken for a real one."""
    grids, value = zero.meta.get(_NOTED_GRIDS[1]) or {}, zero.args[1]
    return 0 in grids and int(grids[0].quantize_value(float(value))) != value
