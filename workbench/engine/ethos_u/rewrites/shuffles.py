"""Pixel shuffles as transposed convolutions that move values."""

from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import quantized_calls, written_name
from workbench.engine.ethos_u.rewrites.strides import is_slow_at_layouts

_ATEN = torch.ops.aten
_LARGEST_FACTOR = 2
_IMAGE_RANK = 4


def write_shuffles(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write pixel shuffles by two as transposed convolutions with weights of zero and one, on U85."""
    done = list[str]()
    if not is_slow_at_layouts(quantizer):
        return done
    for node in quantized_calls(module, quantizer, _ATEN.pixel_shuffle.default):
        source: Any = node.args[0]
        factor: Any = node.args[1]
        if node.kwargs or not 1 < factor <= _LARGEST_FACTOR or source.meta["val"].dim() != _IMAGE_RANK:
            continue
        channels, write = source.meta["val"].shape[1], Writer(module, node)
        # Of each input channel the place of the result that it is moved to.
        places = torch.pixel_shuffle(torch.eye(channels)[:, :, None, None], factor)
        weight = write.parameter(f"{node.name}_places", places)
        moved = write(_ATEN.conv_transpose2d.input, source, weight, None, [factor, factor])
        write.replace(moved)
        done.append(written_name(node))
    return finished(module, done)
