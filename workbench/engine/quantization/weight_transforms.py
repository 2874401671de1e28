"""Improvers: transformations of the float weights before quantization (IMPROVERS).

AdaRound is not included: torchao 0.18 has no such quantizer for exported programs.
"""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import torch
from torch import fx

from workbench.engine.calibration.quick_observers import quick_calibration
from workbench.engine.studies.switchable_program import SwitchedProgram
from workbench.project.configs import IMPROVERS
from workbench.results import Improvement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from workbench.engine.targets.base import Toolchain

    Inputs = tuple[torch.Tensor, ...]
    from collections.abc import Iterator, Sequence


_ATEN = torch.ops.aten
_CONVOLUTIONS = (_ATEN.conv1d.default, _ATEN.conv2d.default, _ATEN.conv3d.default)
_LINEAR = _ATEN.linear.default
_NORM = _ATEN.batch_norm.default
_GROUPS = {_ATEN.conv1d.default: 6, _ATEN.conv2d.default: 6, _ATEN.conv3d.default: 6}


@dataclass(frozen=True)
class Layer:
    """One layer; ``norm`` is the batch norm on its output, ``end`` the node with its result."""

    module: fx.GraphModule
    node: fx.Node
    norm: fx.Node | None

    @property
    def end(self) -> fx.Node:
        """The node whose value leaves the layer."""
        return self.norm or self.node

    @property
    def groups(self) -> int:
        """Groups of a convolution; 1 for a linear."""
        position = _GROUPS.get(self.node.target, 99)
        return int(str(self.node.args[position])) if len(self.node.args) > position else 1

    @property
    def weight(self) -> torch.Tensor:
        """The weight [out, in / groups, ...]."""
        value = tensor(self.module, self.node.args[1])
        assert value is not None
        return value

    @property
    def bias(self) -> torch.Tensor | None:
        """The bias of each output channel [out]; that of the norm, if there is one."""
        if self.norm is not None:
            return tensor(self.module, self.norm.args[2])
        return tensor(self.module, self.node.args[2]) if len(self.node.args) > 2 else None

    def gain(self) -> torch.Tensor:
        """Return the scale of the norm per channel [out]."""
        if self.norm is None:
            return torch.ones(self.weight.shape[0])
        gamma, variance = (
            tensor(self.module, self.norm.args[1]),
            tensor(self.module, self.norm.args[4]),
        )
        assert variance is not None
        scale = torch.rsqrt(variance + float(str(self.norm.args[7])))
        return scale if gamma is None else scale * gamma

    def scale_outputs(self, factors: torch.Tensor) -> None:
        """Multiply every output channel by a factor [out]."""
        if self.norm is not None:
            gamma = tensor(self.module, self.norm.args[1])
            assert gamma is not None
            gamma.mul_(factors)
        else:
            self.weight.mul_(_along(factors, 0, self.weight))
        if self.bias is not None:
            self.bias.mul_(factors)

    def scale_inputs(self, factors: torch.Tensor) -> None:
        """Multiply the weights of every input channel by a factor [in]."""
        if self.groups > 1:
            factor = factors.repeat_interleave(self.weight.shape[0] // self.groups)
            self.weight.mul_(_along(factor, 0, self.weight))
        else:
            self.weight.mul_(_along(factors, 1, self.weight))


def layers(module: fx.GraphModule) -> Iterator[Layer]:
    """Yield every layer with unshared weights, in program order."""
    uses: dict[str, int] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            uses[str(node.target)] = uses.get(str(node.target), 0) + max(len(node.users), 1)
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target not in (*_CONVOLUTIONS, _LINEAR):
            continue
        user = next(iter(node.users), None) if len(node.users) == 1 else None
        norm = user if user is not None and _is_norm(user) else None
        sources = [*node.all_input_nodes[1:], *(norm.all_input_nodes[1:] if norm else ())]
        if all(s.op == "get_attr" and uses[str(s.target)] == 1 for s in sources):
            yield Layer(module, node, norm)


def tensor(module: fx.GraphModule, node: Any) -> torch.Tensor | None:
    """Return the constant of a node; None for other nodes."""
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    value = operator.attrgetter(str(node.target))(module)
    return value.data if isinstance(value, torch.Tensor) else None


def _is_norm(node: fx.Node) -> bool:
    return node.target is _NORM and node.args[5] is False and all(node.args[1:5])


def _along(factors: torch.Tensor, dimension: int, weight: torch.Tensor) -> torch.Tensor:
    shape = [1] * weight.dim()
    shape[dimension] = -1
    return factors.reshape(shape)


def correct_biases(
    module: fx.GraphModule,
    samples: Sequence[tuple[torch.Tensor, ...]],
    quantizer: Callable[[], Any],
    toolchain: Toolchain,
) -> int:
    """Correct the biases of all layers with rounded weights in place; return their number."""
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
    """Return the mean over all dimensions but the channels: a linear's last, else the second."""
    if is_linear:
        return error.reshape(-1, error.shape[-1]).mean(0)
    return error.transpose(0, 1).flatten(1).mean(1)


_COMMUTE = frozenset(
    (
        _ATEN.relu.default, _ATEN.relu_.default, _ATEN.max_pool2d.default,
        _ATEN.avg_pool2d.default, _ATEN.adaptive_avg_pool2d.default, _ATEN.leaky_relu.default,
    )
)  # fmt: skip
# Nonlinear element-wise operators, which channel scales cannot pass.
_BENDS = {
    "hardtanh": "a clamp", "hardtanh_": "a clamp", "clamp": "a clamp", "relu6": "ReLU6",
    "relu6_": "ReLU6", "hardswish": "hard-swish", "hardswish_": "hard-swish", "silu": "SiLU",
    "silu_": "SiLU", "gelu": "GELU", "sigmoid": "a sigmoid", "tanh": "tanh",
}  # fmt: skip
_ROUNDS = 20
_CLOSE = 1e-4
# A channel that is all zero on one side is skipped.
_LEAST = 1e-8


def equalize(module: fx.GraphModule) -> int:
    """Equalise all pairs of layers in place; return the number of pairs."""
    pairs = _pairs(module)
    for _ in range(_ROUNDS):
        moved = [_equalize_pair(*pair) for pair in pairs]
        if max(moved, default=0.0) < _CLOSE:
            break
    return len(pairs)


def _pairs(module: fx.GraphModule) -> list[tuple[Layer, Layer]]:
    all_layers = list(layers(module))
    by_input = {layer.node.all_input_nodes[0]: layer for layer in all_layers}
    pairs = []
    for first in all_layers:
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
    """Return a note on the pairs skipped because of operators between them; "" if none."""
    pairs = list(layers(module))
    by_input = {layer.node.all_input_nodes[0]: layer for layer in pairs}
    counts: dict[str, int] = {}
    for first in pairs:
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
    groups = _groups(module)
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


def _groups(module: fx.GraphModule) -> dict[fx.Node, list[Layer]]:
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


def improve(
    module: fx.GraphModule,
    wanted: Iterable[str],
    samples: Callable[[], Iterable[Inputs]],
    quantizer: Callable[[], Any],
    toolchain: Toolchain,
) -> list[Improvement]:
    """Apply improvers to a float module in place, in the order of the table.

    Args:
        module: Float program as a module; its weights must not be shared.
        wanted: Ids of improvers.
        samples: Returns calibration inputs at every call.
        quantizer: Returns a quantizer for a trial quantization.
        toolchain: Prepares and converts the module.

    Returns:
        What each improver changed and skipped.
    """
    chosen = set(wanted)
    done: list[Improvement] = []
    for improver in IMPROVERS:
        if improver.id not in chosen:
            continue
        left = ""
        match improver.id:
            case "equalize":
                improved, left = equalize(module), left_alone(module)
            case "smooth":
                improved = smooth(module, samples())
            case "bias":
                improved = correct_biases(module, list(samples()), quantizer, toolchain)
            case _:
                assert_never(improver.id)
        done.append(Improvement(improver=improver.id, places=improved, left=left))
    return done
