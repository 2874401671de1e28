"""Cross-layer equalisation: two layers in a row share the range of the channels between them.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction,
ICCV 2019, section 4.1. Only operators that commute with a positive scale of a channel may lie
between, so the float model computes the same, up to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench.engine.improving.layers import Layer, layers

if TYPE_CHECKING:
    from torch import fx

_ATEN = torch.ops.aten
_COMMUTE = frozenset(
    (
        _ATEN.relu.default, _ATEN.relu_.default, _ATEN.max_pool2d.default,
        _ATEN.avg_pool2d.default, _ATEN.adaptive_avg_pool2d.default, _ATEN.leaky_relu.default,
    )
)  # fmt: skip
# Operators on each value by itself that bend, so that no scale of a channel passes.
_BENDS = {
    "hardtanh": "a clamp", "hardtanh_": "a clamp", "clamp": "a clamp", "relu6": "ReLU6",
    "relu6_": "ReLU6", "hardswish": "hard-swish", "hardswish_": "hard-swish", "silu": "SiLU",
    "silu_": "SiLU", "gelu": "GELU", "sigmoid": "a sigmoid", "tanh": "tanh",
}  # fmt: skip
_ROUNDS = 20
_CLOSE = 1e-4
# A channel that is all zero on one side is left alone.
_LEAST = 1e-8


def equalize(module: fx.GraphModule) -> int:
    """Equalise all pairs of layers in place; return how many pairs there are."""
    pairs = _pairs(module)
    for _ in range(_ROUNDS):
        moved = [_equalize_pair(*pair) for pair in pairs]
        if max(moved, default=0.0) < _CLOSE:
            break
    return len(pairs)


def _pairs(module: fx.GraphModule) -> list[tuple[Layer, Layer]]:
    found = list(layers(module))
    by_input = {layer.node.all_input_nodes[0]: layer for layer in found}
    pairs = []
    for first in found:
        end = first.end
        while len(end.users) == 1:
            second = by_input.get(end)
            if second is not None:
                if _fit(first, second):
                    pairs.append((first, second))
                break
            user = next(iter(end.users))
            if user.target not in _COMMUTE:
                break
            end = user
    return pairs


def left_alone(module: fx.GraphModule) -> str:
    """Say which pairs stay as they are because of what stands between them; "" if none does."""
    found = list(layers(module))
    by_input = {layer.node.all_input_nodes[0]: layer for layer in found}
    counts: dict[str, int] = {}
    for first in found:
        end, bend = first.end, ""
        while len(end.users) == 1 and end not in by_input:
            end = next(iter(end.users))
            if end.target not in _COMMUTE:
                named = _bend(end)
                if not named:
                    break
                bend = named
        second = by_input.get(end)
        if bend and second is not None and _fit(first, second):
            counts[bend] = counts.get(bend, 0) + 1
    said = [
        f"{count} {'pairs stay as they are: ' if count > 1 else 'pair stays as it is: '}"
        f"{bend} stands between, which no scale of a channel passes."
        for bend, count in counts.items()
    ]
    return " ".join(said)


def _bend(node: fx.Node) -> str:
    name = getattr(node.target, "_opname", "")
    is_relu6 = tuple(node.args[1:3]) in {(0, 6), (0.0, 6.0)}
    return "ReLU6" if is_relu6 and name in _BENDS else _BENDS.get(name, "")


def _fit(first: Layer, second: Layer) -> bool:
    channels = first.weight.shape[0]
    if first.weight.dim() != second.weight.dim():
        return False
    if second.groups == 1:
        return bool(second.weight.shape[1] == channels)
    return second.groups == channels


def _equalize_pair(first: Layer, second: Layer) -> float:
    """Scale one pair; return the greatest change of a channel."""
    ahead = first.weight.flatten(1).abs().amax(1) * first.gain().abs()
    if second.groups > 1:
        behind = second.weight.reshape(second.groups, -1).abs().amax(1)
    else:
        behind = second.weight.transpose(0, 1).flatten(1).abs().amax(1)
    factors = torch.sqrt(behind / ahead)
    is_plain = (ahead > _LEAST) & (behind > _LEAST)
    factors = torch.where(is_plain, factors, torch.ones_like(factors))
    first.scale_outputs(factors)
    second.scale_inputs(1.0 / factors)
    return float((factors - 1.0).abs().max())
