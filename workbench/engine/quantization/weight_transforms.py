"""Exact transformations of the float weights: the float model computes what it did."""

from __future__ import annotations

from dataclasses import dataclass
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
_LINEAR = 2
_CLOSE = 1e-4
# A channel that is all zero on one side is skipped.
_LEAST = 1e-8


@dataclass(frozen=True)
class Joint:
    """A layer whose output channels other layers read, from a channel of their input on.

    ``readers`` are those layers, each with that channel: it is not 0 where a cat joins the output
    with others.
    """

    first: Layer
    readers: tuple[tuple[Layer, int], ...]


def equalize(module: fx.GraphModule) -> int:
    """Equalise all layers with those that read them in place; return the number of pairs.

    Source: Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias
    Correction, eq. 11.
    """
    every = [Joint(first, ((second, 0),)) for first, second in pairs(module)] + joints(module)
    for _ in range(_ROUNDS):
        moved = [_equalize_joint(joint) for joint in every]
        if max(moved, default=0.0) < _CLOSE:
            break
    return sum(len(joint.readers) for joint in every)


def joints(module: fx.GraphModule) -> list[Joint]:
    """Return the layers whose output a cat joins with others for layers that a scale reaches."""
    all_layers = list(layers(module))
    by_input: dict[fx.Node, list[Layer]] = {}
    for layer in all_layers:
        by_input.setdefault(layer.node.all_input_nodes[0], []).append(layer)
    result = []
    for first in all_layers:
        end = first.end
        while len(end.users) == 1 and next(iter(end.users)).target in _COMMUTE:
            end = next(iter(end.users))
        join = next(iter(end.users), None)
        if len(end.users) != 1 or join is None or join.target is not _ATEN.cat.default:
            continue
        start = _start(join, end, first)
        readers = _readers(join, by_input) if start is not None else []
        if start is not None and readers and all(_reads(first, r, join) for r in readers):
            result.append(Joint(first, tuple((reader, start) for reader in readers)))
    return result


def _start(join: fx.Node, end: fx.Node, first: Layer) -> int | None:
    """Return the first channel of a value in a cat of channels; None where it is no such cat."""
    parts, dim = join.args[0], join.args[1] if len(join.args) > 1 else 0
    assert isinstance(parts, list | tuple)
    rank = end.meta["val"].dim()
    axis = rank - 1 if first.weight.dim() == _LINEAR else rank - first.weight.dim() + 1
    if parts.count(end) != 1 or int(str(dim)) % rank != axis:
        return None
    return sum(int(part.meta["val"].shape[axis]) for part in parts[: parts.index(end)])


def _readers(value: fx.Node, by_input: dict[fx.Node, list[Layer]]) -> list[Layer]:
    """Return the layers that read a value; none where something else does, too."""
    readers: list[Layer] = []
    for user in value.users:
        if user.target in _COMMUTE:
            behind = _readers(user, by_input)
        else:
            behind = [layer for layer in by_input.get(value, []) if layer.node is user]
        if not behind:
            return []
        readers += behind
    return readers


def _reads(first: Layer, reader: Layer, join: fx.Node) -> bool:
    """Return whether the input channels of a layer are those of a cat."""
    weight = reader.weight
    axis = -1 if weight.dim() == _LINEAR else 1 - weight.dim()
    same = weight.dim() == first.weight.dim()
    return same and reader.groups == 1 and weight.shape[1] == join.meta["val"].shape[axis]


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


def _equalize_joint(joint: Joint) -> float:
    """Scale one layer and those that read it; return the largest change of a channel."""
    first, channels = joint.first, joint.first.weight.shape[0]
    ahead = first.weight.flatten(1).abs().amax(1) * first.gain().abs()
    behind = torch.stack([_largest(reader, start, channels) for reader, start in joint.readers]).amax(0)
    factors = torch.sqrt(behind / ahead)
    is_plain = (ahead > _LEAST) & (behind > _LEAST)
    factors = torch.where(is_plain, factors, torch.ones_like(factors))
    first.scale_outputs(factors)
    for reader, start in joint.readers:
        inverse = torch.ones(max(reader.weight.shape[1] * reader.groups, channels))
        inverse[start : start + channels] = 1.0 / factors
        reader.scale_inputs(inverse)
    return float((factors - 1.0).abs().max())


def _largest(reader: Layer, start: int, channels: int) -> torch.Tensor:
    """Return the largest magnitude of a layer's weights for each of some input channels."""
    if reader.groups > 1:
        return reader.weight.reshape(reader.groups, -1).abs().amax(1)
    return reader.weight.transpose(0, 1).flatten(1).abs().amax(1)[start : start + channels]


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
