"""Activation-aware scales: channels with large activations get finer weights (AWQ)."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import torch

from workbench.engine.quantization.float_layers import tensor
from workbench.engine.quantization.layer_walk import Change
from workbench.engine.quantization.weight_transforms import pairs, smooth_groups

if TYPE_CHECKING:
    from torch import fx

    from workbench.engine.quantization.float_layers import Layer
    from workbench.engine.quantization.layer_walk import Moments, Walk, WalkedLayer

_STRENGTHS = tuple(step / 10 for step in range(11))
_LEAST = 1e-5
# The grid of 8-bit activations has so many steps, and an error of a twelfth of a step squared.
_STEPS, _UNIFORM = 255.0, 1.0 / 12.0
# Layers are scaled where the expected error falls to this share: smaller gains did not hold on unseen
# data (MobileNetV2 lost 0.8 dB with 0.99).
_WORTH_IT = 0.8


@dataclass(frozen=True)
class _Reader:
    walked: WalkedLayer
    channels: int

    def error(self, scales: torch.Tensor, moments: Moments) -> float:
        """Return the expected squared error of the outputs with input channels scaled by 1 / s.

        Args:
            scales: s [channels].
            moments: Those of the layer, or of its held-back samples.
        """
        weight = self.walked.weight
        columns = scales.repeat_interleave(weight.shape[-1] // self.channels)
        scaled = weight * columns
        step = scaled.abs().amax(-1, keepdim=True).clamp_min(_LEAST**2) / self.walked.grid.limit
        error = torch.round(scaled / step) * step / columns - weight
        of_weights = ((error @ moments.gram) * error).sum()
        if self.walked.bias is not None:
            # Moments are about the means, and the biases stay.
            of_weights = of_weights + (error @ moments.inputs[..., None]).square().sum()
        # The activations' own grid is that of their largest channel.
        peak = (moments.spread.reshape(self.channels, -1).amax(1) / scales).amax()
        noise = (peak / _STEPS) ** 2 * _UNIFORM * (scaled * scaled).sum()
        return float(of_weights + noise)


def scale_by_activations(module: fx.GraphModule, walk: Walk) -> int:
    """Scale channels in front of layers in place; return the number of places.

    Each channel of a layer's input is divided, and its weights are multiplied, by
    s = m^a / sqrt(max m^a min m^a), where m is the channel's mean magnitude, and a of 0 to 1 is
    the one with the least error of the layers' outputs, of which rounded activations are a part.
    Layers whose error does not fall on held-back samples too are left as they are, and counted by
    the walk. The float model computes what it did.
    Source: Lin et al. 2023, AWQ: Activation-aware Weight Quantization, eq. 4 and 5. torchao 0.18's
    ``torchao.prototype.awq`` scales linears of eager models only.

    Args:
        module: The float module, which is changed.
        walk: A walk over it.
    """
    reached: dict[str, WalkedLayer] = {}

    def remember(walked: WalkedLayer) -> Change:
        reached[walked.layer.node.name] = walked
        return Change(None, None)

    walk.run(remember)
    places = 0
    for first, second in pairs(module):
        walked = reached.get(second.node.name)
        if walked is None or second.groups > 1 or walked.grid.per_tensor:
            continue
        scales = _scales([_Reader(walked, second.weight.shape[1])], walk)
        if scales is not None:
            first.scale_outputs(1.0 / scales)
            second.scale_inputs(scales)
            places += 1
    for norm, layers in smooth_groups(module).items():
        every = [reached.get(layer.node.name) for layer in layers]
        readers = [_Reader(w, w.weight.shape[-1]) for w in every if w and not w.grid.per_tensor]
        scales = _scales(readers, walk) if len(readers) == len(layers) else None
        if scales is not None:
            _scale_norm(module, norm, layers, scales)
            places += 1
    return places


def _scale_norm(module: fx.GraphModule, norm: fx.Node, layers: list[Layer], scales: torch.Tensor) -> None:
    for argument in (2, 3):
        held = tensor(module, norm.args[argument])
        assert held is not None
        held.div_(scales)
    for layer in layers:
        layer.scale_inputs(scales)


def _scales(readers: list[_Reader], walk: Walk) -> torch.Tensor | None:
    """Return the best scales [channels] for layers with one input; None if none is better."""
    channels = readers[0].channels
    size = readers[0].walked.moments.magnitude.reshape(channels, -1).mean(1).clamp_min(_LEAST)
    candidates = [size**strength for strength in _STRENGTHS]
    candidates = [s / (s.amax() * s.amin()).sqrt() for s in candidates]
    known, held_back = (
        [sum(reader.error(scales, moments(reader.walked)) for reader in readers) for scales in candidates]
        for moments in (attrgetter("moments"), attrgetter("held_back"))
    )
    best = min(range(len(known)), key=known.__getitem__)
    if known[best] >= known[0] * _WORTH_IT:
        return None
    if held_back[best] >= held_back[0] * _WORTH_IT:
        walk.worse += len(readers)
        return None
    return candidates[best].float()
