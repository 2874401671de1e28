"""A quantized program beside its float program, layer by layer over all samples at once."""

from __future__ import annotations

import copy
import operator
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import fx
from torch.nn import functional

from workbench.engine.calibration.quick_observers import quick_calibration
from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.fx.observers import activation_observers, fix_ranges
from workbench.engine.quantization.float_layers import Layer, along_outputs, layers, tensor
from workbench.engine.quantization.per_tensor_switches import QuantizingToolchain, SwitchedProgram, is_node_of
from workbench.engine.quantization.rounding import Problem
from workbench.studies.sensitivity import Noise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Inputs = tuple[torch.Tensor, ...]

_PER_TENSOR = torch.ops.quantized_decomposed.quantize_per_tensor.default
_PER_CHANNEL = torch.ops.quantized_decomposed.quantize_per_channel.default
# Positions of one sample's output that count, evenly spaced; fewer in layers with many weights,
# whose moments would take more multiplications.
_POSITIONS, _FEWEST_POSITIONS = 1024, 16
_MULTIPLICATIONS = 2e11
# Elements of all moments of a layer's inputs (400 MB).
_LARGEST_GRAM = 5e7
# Below it a batch norm's scale leaves nothing of a channel.
_LEAST_GAIN = 1e-8
_LINEAR, _EIGHT_BITS = 2, 255
# Shares of the calibrated range that are tried for activations.
RANGE_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)
# A range is changed where the error falls to this share.
_WORTH_IT = 0.98
# Relative difference of a folded weight from its layer's at which the layer is another one.
_SAME = 1e-4
# Every so many samples are held back from the choice of weights, of this many or more.
_HELD_BACK_EVERY, _FEWEST_TO_HOLD_BACK = 4, 8
# A weight at the end of its grid to this share of a step.
_AT_END = 0.01


@dataclass(frozen=True)
class Grid:
    """The grid of a layer's weights: steps [o] or [1], largest integer."""

    scale: torch.Tensor
    limit: int

    @property
    def per_tensor(self) -> bool:
        """Whether all output channels share a step."""
        return self.scale.numel() == 1


@dataclass(frozen=True)
class Moments:
    """Moments of one layer's inputs x and wanted outputs y, by groups.

    ``gram`` is the second moment of x [g, d, d], ``cross`` that of y with x [g, o, d], ``power``
    that of y [g, o]: about the means ``inputs`` [g, d] and ``outputs`` [g, o] where the layer has a
    bias, else about 0. ``magnitude`` is the mean of abs(x), ``spread`` largest minus smallest x,
    both [g, d].
    """

    gram: torch.Tensor
    cross: torch.Tensor
    power: torch.Tensor
    inputs: torch.Tensor
    outputs: torch.Tensor
    magnitude: torch.Tensor
    spread: torch.Tensor

    def error(self, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return the mean squared error [g, o] of outputs by weights [g, o, d], biases [g, o]."""
        of_weights = ((weight @ self.gram - 2 * self.cross) * weight).sum(-1) + self.power
        if bias is None:
            return of_weights
        mean = (weight @ self.inputs[..., None])[..., 0] + bias - self.outputs
        return of_weights + mean * mean


@dataclass
class Change:
    """New folded weights [g, o, d] and biases [g, o] of a layer; None where they stay.

    ``rounded`` are the weights of the quantized program, None if ``weight`` is on its grid.
    """

    weight: torch.Tensor | None
    bias: torch.Tensor | None
    rounded: torch.Tensor | None = None

    @property
    def on_grid(self) -> torch.Tensor | None:
        """The weights of the quantized program; None where they stay."""
        return self.weight if self.rounded is None else self.rounded


@dataclass(frozen=True)
class WalkedLayer:
    """A layer that the walk has reached: its float layer, weights, grid and moments.

    ``weight`` are the folded weights [g, o, d] that are quantized, ``rounded`` the same on the
    grid, ``bias`` [g, o] the folded biases; None if the layer cannot take a mean error.
    ``float_weight`` and ``float_bias`` are those of the reference. ``held_back`` are the moments of
    samples that ``moments`` do not have; all samples are in both where there are few.
    """

    layer: Layer
    weight: torch.Tensor
    rounded: torch.Tensor
    bias: torch.Tensor | None
    float_weight: torch.Tensor
    float_bias: torch.Tensor | None
    grid: Grid
    moments: Moments
    held_back: Moments

    def problem(self) -> Problem:
        """Return the choice of integers for the weights."""
        groups, rows, _ = self.weight.shape
        scale = self.grid.scale.double().expand(groups * rows).reshape(groups, rows, 1)
        return Problem(
            self.weight,
            self.moments.gram,
            self.moments.cross,
            scale,
            self.grid.limit,
            self._pinned(self.weight / scale),
        )

    def best_bias(self, weight: torch.Tensor) -> torch.Tensor | None:
        """Return the biases [g, o] without a mean error for weights [g, o, d]; None without."""
        if self.bias is None:
            return None
        moments = self.moments
        return moments.outputs - (weight @ moments.inputs[..., None])[..., 0]

    def unseen_error(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the error [g, o] on held-back samples of weights [g, o, d] with their biases."""
        return self.held_back.error(weight, self.best_bias(weight))

    def gains(self, change: Change) -> bool:
        """Return whether a change lowers the error of the layer's outputs on held-back samples."""
        weight = change.on_grid
        bias = self.bias if change.bias is None else change.bias
        after = self.held_back.error(self.rounded if weight is None else weight, bias)
        return bool(after.sum() < self.held_back.error(self.rounded, self.bias).sum())

    def _pinned(self, steps: torch.Tensor) -> torch.Tensor:
        """Return the first weight at the end of each grid, from which an observer gets it."""
        size = steps.abs()
        rows = size.reshape(1, -1) if self.grid.per_tensor else size.flatten(0, 1)
        position = rows.argmax(1, keepdim=True)
        at_end = rows.gather(1, position) > self.grid.limit - _AT_END
        pinned = torch.zeros_like(rows, dtype=torch.bool).scatter(1, position, at_end)
        return pinned.reshape(steps.shape)


class _Sums:
    """Sums over the inputs and wanted outputs of a layer."""

    def __init__(self) -> None:
        self._parts: list[torch.Tensor] = []
        self._ends: list[torch.Tensor] = []
        self._count = 0

    def add(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Add inputs [g, n, d] and outputs [g, n, o]."""
        self._count += x.shape[1]
        turned = y.transpose(1, 2)
        parts = [x.transpose(1, 2) @ x, turned @ x, (y * y).sum(1), x.sum(1), y.sum(1), x.abs().sum(1)]
        sums = zip(self._parts, parts, strict=True)
        self._parts = [a + b for a, b in sums] if self._parts else parts
        self._ends.append(torch.stack([x.amax(1), -x.amin(1)]))

    def moments(self, *, centred: bool) -> Moments:
        """Return the moments, about the means if ``centred``."""
        gram, cross, power, inputs, outputs, magnitude = (p / self._count for p in self._parts)
        if centred:
            gram = gram - inputs[:, :, None] * inputs[:, None]
            cross = cross - outputs[:, :, None] * inputs[:, None]
            power = power - outputs * outputs
        spread = torch.stack(self._ends).amax(0).sum(0)
        return Moments(gram, cross, power, inputs, outputs, magnitude, spread)


def _split(items: list[Any]) -> list[list[Any]]:
    """Return the items to learn from, and those held back; all of them where there are few."""
    if len(items) < _FEWEST_TO_HOLD_BACK:
        return [items]
    back = items[_HELD_BACK_EVERY - 1 :: _HELD_BACK_EVERY]
    return [[x for i, x in enumerate(items) if (i + 1) % _HELD_BACK_EVERY], back]


class Stream:
    """The values of a graph for all samples; each is dropped after its last reader.

    Args:
        nodes: The nodes of the graph, in order.
        samples: The inputs of each sample.
        value: Computes one node from the values of its arguments.
    """

    def __init__(
        self,
        nodes: Sequence[fx.Node],
        samples: Sequence[Inputs],
        value: Callable[[fx.Node, dict[fx.Node, Any]], Any],
    ) -> None:
        self._nodes, self._value = list(nodes), value
        self._positions = {node: index for index, node in enumerate(self._nodes)}
        self._next = 0
        self._unread: dict[fx.Node, list[fx.Node]] = {}
        for node in self._nodes:
            if node.users:
                last = max(node.users, key=self._positions.__getitem__)
                self._unread.setdefault(last, []).append(node)
        inputs = [node for node in self._nodes if node.op == "placeholder"]
        self.values: list[dict[fx.Node, Any]] = [dict(zip(inputs, sample, strict=True)) for sample in samples]

    def through(self, node: fx.Node) -> None:
        """Compute everything up to a node."""
        for current in self._nodes[self._next : self._positions[node] + 1]:
            for values in self.values:
                if current not in values:
                    values[current] = self._value(current, values)
                for unread in self._unread.get(current, ()):
                    values.pop(unread, None)
            self._next += 1


class Trial:
    """A float module quantized by the project's rules and calibrated on samples.

    Args:
        module: The float module; it stays as it is.
        quantizer: A quantizer that leaves layers as they are written.
        toolchain: Prepares and converts.
        samples: Inputs to calibrate on.
        ranges: Ranges of activations to use instead of the calibrated ones, by node.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        quantizer: Any,
        toolchain: QuantizingToolchain,
        samples: Sequence[Inputs],
        ranges: dict[str, tuple[float, float]],
    ) -> None:
        prepared = toolchain.prepare(copy.deepcopy(module), quantizer)
        with torch.no_grad(), quick_calibration(prepared):
            for sample in samples:
                prepared(*sample)
        observers = activation_observers(prepared)
        counts = Counter(id(observer) for _, observer in observers)
        # Tensors whose range can change without that of another one.
        self.separate = {name for name, observer in observers if counts[id(observer)] == 1}
        fix_ranges(prepared, ranges)
        self.program = SwitchedProgram(prepared, toolchain)

    def noise(self, targets: Sequence[Sequence[torch.Tensor]], samples: Sequence[Inputs]) -> Noise:
        """Return the noise of the quantized outputs against those of the float model."""
        total, program = Noise(), self.program
        with torch.no_grad():
            for sample, expected in zip(samples, targets, strict=True):
                outputs = tensors_of(program.output(program.run(sample, program.switches)))
                for mine, target in zip(outputs, expected, strict=True):
                    exact, error = target.double(), target.double() - mine.double()
                    total = total.plus(Noise(signal=float((exact**2).sum()), noise=float((error**2).sum())))
        return total


class Walk:
    """Visits the quantized layers of a trial in program order, and changes the float module.

    A layer's inputs are those of the quantized program with all earlier changes; its wanted
    outputs are those of the reference.

    Args:
        trial: The quantized program.
        module: Its float module, which is changed.
        reference: A float module with the wanted outputs and the same names.
        samples: The inputs of each sample.
        check: Called with the number of a layer and of all before every layer; may raise.
    """

    def __init__(
        self,
        trial: Trial,
        module: fx.GraphModule,
        reference: fx.GraphModule,
        samples: Sequence[Inputs],
        check: Callable[[int, int], None],
    ) -> None:
        self.trial, self.program = trial, trial.program
        self.ranges: dict[str, tuple[float, float]] = {}
        self.changed = self.too_wide = self.unused = self.worse = 0
        self._check = check
        self._shares: dict[fx.Node, float] = {}
        self._layers = {layer.node.name: layer for layer in layers(module)}
        self._references = {layer.node.name: layer for layer in layers(reference)}
        self._reference = Stream(
            reference.graph.nodes, samples, lambda node, values: plain(reference, node, values)
        )
        self._quantized = Stream(self.program.nodes, samples, self._value)

    def run(self, visit: Callable[[WalkedLayer], Change], *, with_ranges: bool = False) -> None:
        """Walk the program; ``changed`` counts the layers and ranges that changed.

        Args:
            visit: Returns the change of a layer.
            with_ranges: Whether to choose ranges of activations too; they are in ``ranges``.
        """
        done = 0
        layer_nodes = {node for node in self.program.nodes if self._is_layer(node)}
        with torch.no_grad():
            for node in self.program.nodes:
                if node in layer_nodes:
                    self._check(done, len(layer_nodes))
                    done += 1
                    walked = self._walked(node)
                    if walked is not None:
                        self._take(node, walked, visit(walked))
                elif with_ranges and self._has_range(node):
                    self._choose_range(node)
                self._quantized.through(node)

    def _is_layer(self, node: fx.Node) -> bool:
        """Return whether a node is a layer of the float module with quantized weights."""
        layer = self._layers.get(node.name)
        return (
            layer is not None
            and node.name in self._references
            and node.target is layer.node.target
            and node.args[1] in self.program.switches
        )

    def _value(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        """Return a value of the quantized program, with the ranges chosen before."""
        if node in self.program.switches and node.args[0] in self._shares:
            quantize = node.args[0]
            assert isinstance(quantize, fx.Node)
            return _fake_quantized(values[quantize], quantize, self._shares[quantize])
        return self.program.value(node, values, self.program.switches)

    def _walked(self, node: fx.Node) -> WalkedLayer | None:
        """Return the layer at a node with its moments; None if it cannot be changed."""
        layer, switch = self._layers[node.name], node.args[1]
        assert isinstance(switch, fx.Node)
        grid, folded = self._grid(switch), self._source(switch)
        own = layer.weight * along_outputs(layer.gain(), layer.weight)
        if grid is None or folded is None or folded.shape != own.shape:
            return None
        # A correction may have changed the layer on its way to the quantizer.
        if not torch.allclose(folded, own, rtol=_SAME, atol=float(own.abs().max()) * _SAME):
            return None
        groups, size = layer.groups, folded[0].numel()
        if groups * size * size > _LARGEST_GRAM:
            self.too_wide += 1
            return None
        bias = self._bias(node) if layer.bias is not None else None
        every = self._moments(node, layer, size, centred=bias is not None)
        # Zero or not finite.
        peaks = [float(moments.gram.abs().max()) for moments in every]
        if not peaks or not all(0.0 < peak < torch.inf for peak in peaks):
            self.unused += 1
            return None
        rounded = self.program.value(switch, {}, self.program.switches)
        floating, float_bias = self._references[node.name], None
        if bias is not None and layer.bias is not None and floating.bias is not None:
            bias = bias.double().reshape(groups, -1)
            # A batch norm's statistics are in both folded biases.
            float_bias = bias - (layer.bias - floating.bias).double().reshape(groups, -1)
        of_float = floating.weight * along_outputs(floating.gain(), floating.weight)
        return WalkedLayer(
            layer=layer,
            weight=_by_groups(folded, groups),
            rounded=_by_groups(rounded, groups),
            bias=bias,
            float_weight=_by_groups(of_float, groups),
            float_bias=float_bias,
            grid=grid,
            moments=every[0],
            held_back=every[-1],
        )

    def _source(self, switch: fx.Node) -> torch.Tensor | None:
        """Return the float constant that a switch quantizes, if it is one."""
        quantize = switch.args[0]
        return tensor(self.program.module, quantize.args[0] if _is_call(quantize) else None)

    def _grid(self, switch: fx.Node) -> Grid | None:
        """Return the grid of a weight; None unless it is symmetric, per tensor or per output."""
        quantize = switch.args[0]
        if not _is_call(quantize):
            return None
        if quantize.target is _PER_TENSOR:
            scale, zero, low, high = quantize.args[1:5]
            scales, is_plain = torch.tensor([float(scale)]), zero == 0
        elif quantize.target is _PER_CHANNEL:
            scales, zeros = (tensor(self.program.module, a) for a in quantize.args[1:3])
            axis, low, high = quantize.args[3:6]
            is_plain = axis == 0 and zeros is not None and not bool(zeros.any())
        else:
            return None
        return Grid(scales.double(), int(high)) if is_plain and low == -high else None

    def _bias(self, node: fx.Node) -> torch.Tensor | None:
        """Return the float bias of a layer; None if it has none."""
        held = node.args[2] if len(node.args) > 2 else None
        if not isinstance(held, fx.Node):
            return None
        value = self._source(held) if held in self.program.switches else None
        return tensor(self.program.module, held) if value is None else value

    def _moments(self, node: fx.Node, layer: Layer, size: int, *, centred: bool) -> list[Moments]:
        """Return the moments of a layer: those to learn from, and those of held-back samples.

        Empty if the wanted outputs are gone.
        """
        end = self._references[node.name].end
        self._reference.through(end)
        pairs = list(zip(self._quantized.values, self._reference.values, strict=True))
        if any(end not in targets for _, targets in pairs):
            return []
        most = int(_MULTIPLICATIONS / (len(pairs) * layer.groups * size * size))
        every = []
        for chosen in _split(pairs):
            sums = _Sums()
            for values, targets in chosen:
                x, y = rows(node, layer, values[node.args[0]], targets[end])
                step = -(-x.shape[1] // min(max(most, _FEWEST_POSITIONS), _POSITIONS))
                sums.add(x[:, ::step].double(), y[:, ::step].double())
            every.append(sums.moments(centred=centred))
        return every

    def _take(self, node: fx.Node, walked: WalkedLayer, change: Change) -> None:
        """Apply a change that lowers the layer's error on held-back samples."""
        if change.weight is None and change.bias is None:
            return
        if walked.gains(change):
            self._apply(node, walked, change)
            self.changed += 1
        else:
            self.worse += 1

    def _apply(self, node: fx.Node, walked: WalkedLayer, change: Change) -> None:
        """Put the change of a layer into the float module and into this walk's program."""
        layer = walked.layer
        weight, bias = change.weight, change.bias
        if weight is not None:
            shaped = weight.reshape(layer.weight.shape).float()
            gain = along_outputs(layer.gain(), layer.weight)
            is_live = gain.abs() > _LEAST_GAIN
            own = torch.where(is_live, shaped / torch.where(is_live, gain, 1.0), layer.weight)
            layer.weight.copy_(own)
            rounded = change.on_grid
            assert rounded is not None
            self._put(node.args[1], rounded.reshape(layer.weight.shape).float())
        if bias is not None and walked.bias is not None:
            moved = (bias - walked.bias).flatten()
            assert layer.bias is not None
            layer.bias.add_(moved.to(layer.bias.dtype))
            self._put(node.args[2], bias.flatten().float())

    def _put(self, node: Any, value: torch.Tensor) -> None:
        """Replace a constant, which was computed already, for all samples."""
        for values in self._quantized.values:
            values[node] = value

    def _has_range(self, node: fx.Node) -> bool:
        """Return whether a node quantizes an 8-bit activation that only layers read."""
        if node.target is not _PER_TENSOR or not isinstance(node.args[0], fx.Node):
            return False
        if node.args[0].name not in self.trial.separate or self.program.is_constant(node.args[0]):
            return False
        low, high = node.args[3:5]
        readers = [reader for switch in node.users for reader in switch.users]
        layered = all(self._is_layer(reader) and reader.args[0] in node.users for reader in readers)
        return bool(readers) and layered and int(high) - int(low) <= _EIGHT_BITS

    def _choose_range(self, node: fx.Node) -> None:
        """Choose the range of an activation by the output error of the layers that read it.

        The error is that of rounded weights and activations together, so that a range whose steps
        matter little beside the weights' keeps its reach for values that no sample has. Both
        halves of the samples have to gain. All candidates have the calibrated zero point, so that
        both ends move by one factor.
        """
        readers = [reader for switch in node.users for reader in switch.users]
        halves = [dict.fromkeys(RANGE_SHARES, 0.0) for _ in range(2)]
        for number, values in enumerate(self._quantized.values):
            exact = values[node.args[0]]
            for reader in readers:
                expected = self._output(reader, exact, rounded=False)
                for share in RANGE_SHARES:
                    moved = self._output(reader, _fake_quantized(exact, node, share), rounded=True)
                    error = float((moved - expected).double().square().sum())
                    halves[number % 2][share] += error
        total = {share: sum(half[share] for half in halves) for share in RANGE_SHARES}
        best = min(total, key=total.__getitem__)
        if all(half[best] < half[1.0] * _WORTH_IT for half in halves):
            self._shares[node] = best
            self.changed += 1
            scale, zero, low, high = node.args[1:5]
            self.ranges[node.args[0].name] = ((low - zero) * scale * best, (high - zero) * scale * best)

    def _output(self, reader: fx.Node, value: torch.Tensor, *, rounded: bool) -> torch.Tensor:
        """Return a layer's output for an input, without the bias."""
        layer, switch = self._layers[reader.name], reader.args[1]
        weight = layer.weight * along_outputs(layer.gain(), layer.weight)
        if rounded:
            weight = self.program.value(switch, {}, self.program.switches)
        output: torch.Tensor = reader.target(value, weight, None, *reader.args[3:])  # type: ignore[operator]
        return output


def plain(module: fx.GraphModule, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """Return the value of one node of a float module."""
    if node.op == "get_attr":
        return operator.attrgetter(str(node.target))(module)
    if node.op == "output":
        return fx.map_arg(node.args[0], values.__getitem__)
    args = fx.map_arg(node.args, values.__getitem__)
    kwargs = fx.map_arg(node.kwargs, values.__getitem__)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def rows(node: fx.Node, layer: Layer, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a layer's inputs [g, n, d] and outputs [g, n, o], one row for each position.

    Args:
        node: The layer, a linear or a convolution of one to three dimensions.
        layer: The same in the float module.
        x: Its input.
        y: Its output.
    """
    if layer.weight.dim() == _LINEAR:
        return x.reshape(1, -1, x.shape[-1]), y.reshape(1, -1, y.shape[-1])
    spatial, groups = layer.weight.dim() - 2, layer.groups
    if x.dim() == spatial + 1:
        x, y = x[None], y[None]
    stride, padding, dilation = (
        _each(node.args[at] if len(node.args) > at else default, spatial)
        for at, default in ((3, 1), (4, 0), (5, 1))
    )
    x = functional.pad(x, [side for size in reversed(padding) for side in (size, size)])
    for axis, size in enumerate(layer.weight.shape[2:]):
        reach = (size - 1) * dilation[axis] + 1
        x = x.unfold(2 + axis, reach, stride[axis])[..., :: dilation[axis]]
    # [N, C, positions..., kernel...] to [N, positions..., C, kernel...]
    order = [0, *range(2, 2 + spatial), 1, *range(2 + spatial, 2 + 2 * spatial)]
    size = layer.weight[0].numel()
    columns = x.permute(order).reshape(-1, groups, size).transpose(0, 1)
    rows_of_y = y.transpose(1, -1) if spatial == 1 else y.movedim(1, -1)
    return columns, rows_of_y.reshape(-1, groups, rows_of_y.shape[-1] // groups).transpose(0, 1)


def _each(value: Any, count: int) -> list[int]:
    numbers = list(value) if isinstance(value, list | tuple) else [value]
    return [int(v) for v in (numbers * count if len(numbers) == 1 else numbers)]


def _by_groups(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Return weights [out, in / g, ...] as [g, out / g, d] in float64."""
    return weight.double().reshape(groups, weight.shape[0] // groups, -1)


def _fake_quantized(value: torch.Tensor, quantize: fx.Node, share: float) -> torch.Tensor:
    """Return a value [...] rounded to the grid of a quantizer whose range is a share of its own."""
    scale, zero, low, high = quantize.args[1:5]
    return torch.fake_quantize_per_tensor_affine(value, scale * share, zero, low, high)


def _is_call(node: Any) -> TypeGuard[fx.Node]:
    return isinstance(node, fx.Node) and is_node_of(node, "quantize")
