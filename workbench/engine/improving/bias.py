"""Bias correction: the mean error that rounded weights cause is taken out of the biases.

Source: Nagel et al., ICCV 2019, section 4.2, with the expectation taken over calibration samples:
for each layer, rounded against float weights on the float input of that layer.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.acceleration.calibration import quick_calibration
from workbench.engine.improving.layers import layers
from workbench.engine.switches import SwitchedProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import fx

    from workbench.engine.toolchains.base import Toolchain


def correct_biases(
    module: fx.GraphModule,
    samples: Sequence[tuple[torch.Tensor, ...]],
    quantizer: Callable[[], Any],
    toolchain: Toolchain,
) -> int:
    """Correct the biases of all layers with rounded weights in place; return how many."""
    trial = toolchain.prepare(copy.deepcopy(module), quantizer())
    with torch.no_grad(), quick_calibration(trial):
        for sample in samples:
            trial(*sample)
    program = SwitchedProgram(trial, toolchain)
    named = {layer.node.name: layer for layer in layers(module) if layer.bias is not None}
    rounded = {
        node: switch
        for node in program.nodes
        if node.name in named and len(node.all_input_nodes) > 1
        for switch in [node.all_input_nodes[1]]
        if switch in program.switches
    }
    errors: dict[fx.Node, torch.Tensor] = {}
    with torch.no_grad():
        for sample in samples:
            values = program.run(sample, frozenset())
            for node, switch in rounded.items():
                error = program.error_at(node, values, switch)
                errors[node] = errors.get(node, torch.zeros(())) + _by_channel(
                    error, is_linear=named[node.name].weight.dim() == 2
                )
    for node, total in errors.items():
        bias = named[node.name].bias
        assert bias is not None
        bias.sub_((total / len(samples)).to(bias.dtype))
    return len(errors)


def _by_channel(error: torch.Tensor, *, is_linear: bool) -> torch.Tensor:
    """Return the mean over everything but the channels: the last of a linear, else the second."""
    if is_linear:
        return error.reshape(-1, error.shape[-1]).mean(0)
    return error.transpose(0, 1).flatten(1).mean(1)
