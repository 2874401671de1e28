"""What is changed at each layer of a walk: integers, ranges, biases and channel scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench.engine.quantization.layer_walk import Change
from workbench.engine.quantization.rounding import clipped, learned, second_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.engine.quantization.layer_walk import WalkedLayer

# A channel's scale changes by this factor at most.
_MOST = 2.0
_TINY = 1e-12


def learn_rounding(walked: WalkedLayer, check: Callable[[], None]) -> Change:
    """Return the weights of learned rounding, with the biases that leave no mean error."""
    problem = walked.problem()
    return _on_grid(walked, learned(problem, check) * problem.scale)


def round_by_second_order(walked: WalkedLayer) -> Change:
    """Return the weights of GPTQ, with the biases that leave no mean error."""
    problem = walked.problem()
    return _on_grid(walked, second_order(problem) * problem.scale)


def _on_grid(walked: WalkedLayer, weight: torch.Tensor) -> Change:
    return Change(weight, walked.best_bias(weight))


def clip_weights(walked: WalkedLayer) -> Change:
    """Return the weights cut off where the layer's output has the least error."""
    problem = walked.problem()
    reach = clipped(problem, per_tensor=walked.grid.per_tensor) * problem.scale * problem.limit
    weight = torch.minimum(torch.maximum(problem.weight, -reach), reach)
    return Change(None if torch.equal(weight, problem.weight) else weight, None)


def correct_bias(walked: WalkedLayer) -> Change:
    """Return the biases that leave no mean error of the layer's output, channel by channel.

    Source: Nagel et al. 2019, Data-Free Quantization, section 4.2, with means of the data.
    """
    return Change(None, walked.best_bias(walked.rounded))


def restore_statistics(walked: WalkedLayer) -> Change:
    """Return channel scales and biases that restore mean and variance of the layer's outputs.

    The batch norm after a quantized layer is re-estimated on the quantized program and folded
    again: y' = (y - mean) sqrt(variance of float / variance) + mean of float, by channel. Weights
    with one grid per channel keep their integers, since the grid is scaled; layers with one grid
    per tensor get the means only.
    Source: Nagel et al. 2021, A White Paper on Neural Network Quantization, section 5.2 (batch-norm
    re-estimation), with targets from the float program.
    """
    moments, rounded = walked.moments, walked.rounded
    if walked.grid.per_tensor:
        return correct_bias(walked)
    power = ((rounded @ moments.gram) * rounded).sum(-1)
    factor = (moments.power.clamp_min(0.0) / power.clamp_min(_TINY)).sqrt()
    factor = torch.where(power > _TINY, factor.clamp(1.0 / _MOST, _MOST), 1.0)
    weight = rounded * factor[..., None]
    return Change(weight, walked.best_bias(weight))
