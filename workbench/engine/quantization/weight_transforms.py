"""Exact transformations of the float weights: the float model computes what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine.quantization.float_layers import Layer, layers, tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

_ATEN = torch.ops.aten
_COMMUTE = frozenset(
    (
        _ATEN.relu.default,
        _ATEN.relu_.default,
        _ATEN.max_pool2d.default,
        _ATEN.avg_pool2d.default,
        _ATEN.adaptive_avg_pool2d.default,
        _ATEN.leaky_relu.default,
    )
)
# Nonlinear element-wise operators, which channel scales cannot pass.
_BENDS = {
    "hardtanh": "a clamp",
    "hardtanh_": "a clamp",
    "clamp": "a clamp",
    "relu6": "ReLU6",
    "relu6_": "ReLU6",
    "hardswish": "hard-swish",
    "hardswish_": "hard-swish",
    "silu": "SiLU",
    "silu_": "SiLU",
    "gelu": "GELU",
    "sigmoid": "a sigmoid",
    "tanh": "tanh",
}
_ROUNDS = 20
_CLOSE = 1e-4
# A channel that is all zero on one side is skipped.
_LEAST = 1e-8


def equalize(module: fx.GraphModule) -> int:
    """Equalise all pairs of layers in place; return the number of pairs."""
    every = pairs(module)
    for _ in range(_ROUNDS):
        moved = [_equalize_pair(*pair) for pair in every]
        if max(moved, default=0.0) < _CLOSE:
            break
    return len(every)


def pairs(module: fx.GraphModule) -> list[tuple[Layer, Layer]]:
    """Return the pairs of layers between which a channel's scale passes."""
    all_layers = list(layers(module))
    by_input = {layer.node.all_input_nodes[0]: layer for layer in all_layers}
    result = []
    for first in all_layers:
        end = first.end
        while len(end.users) == 1:
            second = by_input.get(end)
            if second is not None:
                if _fit(first, second):
                    result.append((first, second))
                break
            user = next(iter(end.users))
            if user.target not in _COMMUTE:
                break
            end = user
    return result


def left_alone(module: fx.GraphModule) -> str:
    """Return a note on the pairs skipped because of operators between them; "" if none."""
    every = list(layers(module))
    by_input = {layer.node.all_input_nodes[0]: layer for layer in every}
    counts: dict[str, int] = {}
    for first in every:
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
    notes = [
        f"{count} {'pairs stay as they are: ' if count > 1 else 'pair stays as it is: '}"
        f"{bend} stands between, which no scale of a channel passes."
        for bend, count in counts.items()
    ]
    return " ".join(notes)


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
    """Scale one pair; return the largest change of a channel."""
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


_LAYER_NORM = torch.ops.aten.layer_norm.default
_STRENGTH = 0.5
_LEAST_PEAK = 1e-5


def smooth(module: fx.GraphModule, samples: Iterable[tuple[torch.Tensor, ...]]) -> int:
    """Smooth all linears after layer norms in place; return the number of norms."""
    groups = smooth_groups(module)
    watch = _Peaks(module, set(groups))
    with torch.no_grad():
        for sample in samples:
            watch.run(*sample)
    for norm, linears in groups.items():
        if norm not in watch.peaks:
            continue
        peaks = watch.peaks[norm].clamp(min=_LEAST_PEAK)
        weights = torch.stack([layer.weight.abs().amax(0) for layer in linears]).amax(0)
        factors = peaks**_STRENGTH / weights.clamp(min=_LEAST_PEAK) ** (1.0 - _STRENGTH)
        factors = factors.clamp(min=_LEAST_PEAK)
        for argument in (2, 3):
            held = tensor(module, norm.args[argument])
            assert held is not None
            held.div_(factors)
        for linear in linears:
            linear.scale_inputs(factors)
    return len(groups)


def smooth_groups(module: fx.GraphModule) -> dict[fx.Node, list[Layer]]:
    """Return the linears after each layer norm that has no other reader."""
    linears = {layer.node: layer for layer in layers(module) if layer.weight.dim() == 2}
    uses: dict[str, int] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            uses[str(node.target)] = uses.get(str(node.target), 0) + len(node.users)
    groups = {}
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is not _LAYER_NORM or len(node.args) < 4:
            continue
        own = [tensor(module, operand) for operand in node.args[2:4]]
        is_own = all(
            held is not None and held.dim() == 1 and uses[str(operand.target)] == 1
            for held, operand in zip(own, node.args[2:4], strict=True)
        )
        if is_own and node.users and all(user in linears for user in node.users):
            groups[node] = [linears[user] for user in node.users]
    return groups


class _Peaks(fx.Interpreter):
    """Maximum magnitude per channel of some nodes."""

    def __init__(self, module: fx.GraphModule, nodes: set[fx.Node]) -> None:
        super().__init__(module)
        self._watched = nodes
        self.peaks: dict[fx.Node, torch.Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n in self._watched:
            peak = value.abs().reshape(-1, value.shape[-1]).amax(0)
            self.peaks[n] = torch.maximum(peak, self.peaks[n]) if n in self.peaks else peak
        return value
