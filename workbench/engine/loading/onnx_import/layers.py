"""ONNX operators that are layers of torch: convolution, pooling, normalization, recurrence.

The formulas are those of the operators' definitions (onnx/docs/Operators.md); pictures are channels
first, sizes are those of the example inputs.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from workbench.engine.loading.onnx_import.calls import Call, Converted, NotConvertedError

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_MAXIMA = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_AVERAGES = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_ADAPTIVE = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


def _spatial(call: Call) -> int:
    rank = call.value().dim() - 2
    if not 1 <= rank <= 3:
        raise NotConvertedError(f"its input has {rank + 2} dimensions")
    return rank


def _pads(
    call: Call, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """Return how many elements are added in front of and behind each spatial axis."""
    rank = len(kernel)
    way = call.get("auto_pad", "NOTSET")
    if way == "VALID":
        return [(0, 0)] * rank
    if way not in {"SAME_UPPER", "SAME_LOWER"}:
        pads = call.get("pads", [0] * 2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))
    sides = []
    for size, k, s, d in zip(call.value().shape[2:], kernel, strides, dilations, strict=True):
        total = max((math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size, 0)
        less, more = total // 2, total - total // 2
        sides.append((less, more) if way == "SAME_UPPER" else (more, less))
    return sides


def _flat(pads: Sequence[tuple[int, int]]) -> list[int]:
    """Return pads in the order of ``torch.nn.functional.pad``: the last axis first."""
    return [side for pair in reversed(pads) for side in pair]


def _padded(pads: Sequence[tuple[int, int]], layer: nn.Module, name: str) -> nn.Module:
    kinds = (nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)
    pad = kinds[len(pads) - 1](tuple(_flat(pads)), 0.0)
    return nn.Sequential(OrderedDict([("pad", pad), (name, layer)]))


def _parameter(value: torch.Tensor) -> nn.Parameter:
    return value if isinstance(value, nn.Parameter) else nn.Parameter(value, requires_grad=False)


def convolution(call: Call) -> Converted:
    """Conv: a layer of torch where the weights are constant."""
    rank = _spatial(call)
    weight = call.value(1)
    kernel = list(weight.shape[2:])
    strides = call.get("strides", [1] * rank)
    dilations = call.get("dilations", [1] * rank)
    groups = int(call.get("group", 1))
    pads = _pads(call, kernel, strides, dilations)
    is_even = all(front == behind for front, behind in pads)
    padding = [front if is_even else 0 for front, _ in pads]
    if call.constant(1) is None or (call.has(2) and call.constant(2) is None):
        return _computed_convolution(call, pads, (strides, dilations, groups))
    layer = _CONVOLUTIONS[rank - 1](
        weight.shape[1] * groups,
        weight.shape[0],
        tuple(kernel),
        tuple(strides),
        tuple(padding),
        tuple(dilations),
        groups,
        bias=call.has(2),
        device="meta",
    )
    layer.weight = _parameter(weight)
    if call.has(2):
        layer.bias = _parameter(call.value(2))
    return call.module(layer if is_even else _padded(pads, layer, "conv"))


def _computed_convolution(
    call: Call, pads: Sequence[tuple[int, int]], settings: tuple[Any, Any, int]
) -> Converted:
    """Return a convolution whose weights are computed."""
    strides, dilations, groups = settings
    function: Any = (F.conv1d, F.conv2d, F.conv3d)[len(pads) - 1]
    flat = _flat(pads)

    def convolve(x: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> Any:
        x = F.pad(x, flat) if any(flat) else x
        return function(x, weight, *(bias or (None,)), strides, 0, dilations, groups)

    return call.function(convolve, *range(3 if call.has(2) else 2))


def transposed_convolution(call: Call) -> Converted:
    """ConvTranspose; what its pads remove is the layer's padding, or is cut off behind it."""
    rank = _spatial(call)
    weight = call.known(1, "weight")
    kernel = list(weight.shape[2:])
    strides = call.get("strides", [1] * rank)
    dilations = call.get("dilations", [1] * rank)
    extra = list(call.get("output_padding", [0] * rank))
    groups = int(call.get("group", 1))
    pads = _removed(call, kernel, (strides, dilations, extra))
    padding = [0] * rank
    if all(front >= behind or extra[i] >= behind - front for i, (front, behind) in enumerate(pads)):
        padding = [front for front, _ in pads]
        extra = [extra[i] + front - behind for i, (front, behind) in enumerate(pads)]
    cuts = [(f - p, b - p) for (f, b), p in zip(pads, padding, strict=True)]
    is_cut = padding == [0] * rank and any(map(any, pads))
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise NotConvertedError(f"its output is padded by {max(extra)}, its step is smaller")
    layer = _TRANSPOSED[rank - 1](
        weight.shape[0],
        weight.shape[1] * groups,
        tuple(kernel),
        tuple(strides),
        tuple(padding),
        tuple(extra),
        groups,
        call.has(2),
        tuple(dilations),
        device="meta",
    )
    layer.weight = _parameter(weight)
    if call.has(2):
        layer.bias = _parameter(call.known(2, "bias"))
    if not is_cut:
        return call.module(layer)
    cut = _Cut([slice(front, -behind or None) for front, behind in cuts])
    return call.module(nn.Sequential(OrderedDict([("conv", layer), ("cut", cut)])))


class _Cut(nn.Module):
    """Removes elements from the ends of the spatial axes."""

    def __init__(self, ranges: Sequence[slice]) -> None:
        super().__init__()
        self._ranges = (slice(None), slice(None), *ranges)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[self._ranges]


def _removed(call: Call, kernel: Sequence[int], settings: tuple[Any, Any, Any]) -> list[tuple[int, int]]:
    """Return the pads of a transposed convolution, also where its output's shape says them."""
    strides, dilations, extra = settings
    shape = call.get("output_shape")
    way = call.get("auto_pad", "NOTSET")
    if shape is None and way not in {"SAME_UPPER", "SAME_LOWER"}:
        return _pads(call, kernel, strides, dilations)
    sizes = list(call.value().shape[2:])
    lengths = shape[-len(sizes) :] if shape else [s * n for s, n in zip(strides, sizes, strict=True)]
    sides = []
    for i, size in enumerate(sizes):
        full = strides[i] * (size - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        total = full - lengths[i]
        if total < 0:
            # The output is longer than what the kernel reaches.
            extra[i] -= total
            total = 0
        less, more = total // 2, total - total // 2
        sides.append((less, more) if way == "SAME_UPPER" else (more, less))
    return sides


def max_pool(call: Call) -> Converted:
    """MaxPool without indices."""
    rank = _spatial(call)
    if call.outputs > 1:
        raise NotConvertedError("its indices are used")
    kernel = call.get("kernel_shape")
    strides = call.get("strides", [1] * rank)
    dilations = call.get("dilations", [1] * rank)
    pads = _pads(call, kernel, strides, dilations)
    plain, rounds_up = _pool_form(call, pads, (kernel, strides, dilations))
    kind = _MAXIMA[rank - 1]
    if plain is not None:
        return call.module(
            kind(tuple(kernel), tuple(strides), tuple(plain), tuple(dilations), False, rounds_up)
        )
    layer = kind(tuple(kernel), tuple(strides), 0, tuple(dilations), ceil_mode=bool(call.get("ceil_mode")))
    flat, lowest = _flat(pads), torch.finfo(torch.float32).min
    return call.function(lambda x: layer(F.pad(x, flat, value=lowest)))


def _pool_form(
    call: Call, pads: Sequence[tuple[int, int]], window: tuple[Any, Any, Any]
) -> tuple[list[int] | None, bool]:
    """Return the padding of a pooling layer with this result, and whether its size is rounded up.

    Elements that are added behind only are reached by rounding the size up. None for no such layer.
    """
    kernel, strides, dilations = window
    ceil = bool(call.get("ceil_mode", 0))
    front = [f for f, _ in pads]
    if any(f > k // 2 for f, k in zip(front, kernel, strict=True)):
        return None, ceil
    if all(f == b for f, b in pads):
        return front, ceil
    for i, size in enumerate(call.value().shape[2:]):
        reach = (kernel[i] - 1) * dilations[i] + 1
        length = (size + sum(pads[i]) - reach) // strides[i] + 1
        own = math.ceil((size + 2 * front[i] - reach) / strides[i]) + 1
        if (own - 1) * strides[i] >= size + front[i]:
            own -= 1
        if length != own:
            return None, ceil
    return front, True


def average_pool(call: Call) -> Converted:
    """AveragePool, over the elements inside or with the zeros around them."""
    rank = _spatial(call)
    kernel = call.get("kernel_shape")
    strides = call.get("strides", [1] * rank)
    ones = [1] * rank
    if any(d != 1 for d in call.get("dilations", ones)):
        raise NotConvertedError("it has dilations")
    pads = _pads(call, kernel, strides, ones)
    counts = bool(call.get("count_include_pad", 0))
    plain, rounds_up = _pool_form(call, pads, (kernel, strides, ones))
    is_even = all(f == b for f, b in pads)
    kind = _AVERAGES[rank - 1]
    if plain is not None and (is_even or not counts):
        return call.module(kind(tuple(kernel), tuple(strides), tuple(plain), rounds_up, counts))
    if not counts:
        raise NotConvertedError(f"its pads {pads} are not those of a layer of torch")
    return call.module(_padded(pads, kind(tuple(kernel), tuple(strides)), "pool"))


def global_average(call: Call) -> Converted:
    """GlobalAveragePool."""
    return call.module(_ADAPTIVE[_spatial(call) - 1](1))


def global_maximum(call: Call) -> Converted:
    """GlobalMaxPool."""
    axes = list(range(2, call.value().dim()))
    return call.function(lambda x: x.amax(axes, keepdim=True))


def batch_norm(call: Call) -> Converted:
    """BatchNormalization with the statistics that were learned."""
    if call.get("training_mode", 0):
        raise NotConvertedError("it is in training mode; export the model after model.eval()")
    rank = call.value().dim()
    if not 2 <= rank <= 5:
        raise NotConvertedError(f"its input has {rank} dimensions")
    scale, bias, mean, variance = (call.known(i, "statistics") for i in range(1, 5))
    layer = _BATCH_NORMS[rank - 2](scale.numel(), float(call.get("epsilon", 1e-5)))
    layer.weight, layer.bias = _parameter(scale), _parameter(bias)
    layer.running_mean, layer.running_var = mean.detach(), variance.detach()
    return call.module(layer)


def instance_norm(call: Call) -> Converted:
    """InstanceNormalization."""
    scale, bias = call.known(1, "scale"), call.known(2, "bias")
    kind = _INSTANCE_NORMS[_spatial(call) - 1]
    layer = kind(scale.numel(), float(call.get("epsilon", 1e-5)), affine=True)
    layer.weight, layer.bias = _parameter(scale), _parameter(bias)
    return call.module(layer)


def layer_norm(call: Call) -> Converted:
    """LayerNormalization over the axes from ``axis`` on."""
    if call.outputs > 1:
        raise NotConvertedError("its mean or deviation is used")
    shape = list(call.value().shape[call.axis(-1) :])
    epsilon = float(call.get("epsilon", 1e-5))
    scale, bias = call.constant(1), call.constant(2)
    is_layer = scale is not None and list(scale.shape) == shape
    is_layer &= not call.has(2) or (bias is not None and list(bias.shape) == shape)
    if not is_layer:

        def normalized(x: torch.Tensor, scale: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
            x = F.layer_norm(x, shape, eps=epsilon) * scale
            return x + bias[0] if bias else x

        return call.function(normalized, *range(3 if call.has(2) else 2))
    layer = nn.LayerNorm(shape, epsilon, bias=bias is not None)
    assert scale is not None
    layer.weight = _parameter(scale)
    if bias is not None:
        layer.bias = _parameter(bias)
    return call.module(layer)


def group_norm(call: Call) -> Converted:
    """GroupNormalization; before operator set 21 scale and bias are those of the groups."""
    groups, channels = int(call.get("num_groups")), call.value().shape[1]
    scale, bias = call.known(1, "scale"), call.known(2, "bias")
    if scale.numel() == groups != channels:
        scale, bias = (v.repeat_interleave(channels // groups) for v in (scale, bias))
    layer = nn.GroupNorm(groups, channels, float(call.get("epsilon", 1e-5)))
    layer.weight, layer.bias = _parameter(scale), _parameter(bias)
    return call.module(layer)


def rms_norm(call: Call) -> Converted:
    """RMSNormalization over the axes from ``axis`` on."""
    shape = list(call.value().shape[call.axis(-1) :])
    epsilon = float(call.get("epsilon", 1e-5))
    scale = call.constant(1)
    if scale is None or list(scale.shape) != shape:
        return call.function(lambda x, s: F.rms_norm(x, shape, None, epsilon) * s, 0, 1)
    layer = nn.RMSNorm(shape, epsilon)
    layer.weight = _parameter(scale)
    return call.module(layer)


def local_response(call: Call) -> Converted:
    """LRN."""
    values = (call.get("alpha", 1e-4), call.get("beta", 0.75), call.get("bias", 1.0))
    return call.module(nn.LocalResponseNorm(int(call.get("size")), *map(float, values)))


def linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    """Return a linear layer, given its weight as outputs x inputs."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    layer.weight = _parameter(weight)
    if bias is not None:
        layer.bias = _parameter(bias)
    return layer


def gemm(call: Call) -> Converted:
    """Gemm: a linear layer where the second matrix and the third one are constant."""
    alpha, beta = float(call.get("alpha", 1.0)), float(call.get("beta", 1.0))
    first, second = bool(call.get("transA", 0)), bool(call.get("transB", 0))
    weight = call.constant(1)
    bias = call.constant(2) if call.has(2) else None
    is_layer = weight is not None and not first and (bias is not None or not call.has(2))
    if is_layer and weight is not None:
        weight = weight if second else weight.t()
        outputs = weight.shape[0]
        weight = weight if alpha == 1 else weight * alpha
        if bias is not None and bias.numel() in {1, outputs} and bias.dim() <= 2:
            bias = bias if beta == 1 else bias * beta
            bias = bias if bias.shape == (outputs,) else bias.reshape(-1).expand(outputs).clone()
        elif bias is not None:
            raise NotConvertedError(f"its third input has the shape {list(bias.shape)}")
        stored = weight if isinstance(weight, nn.Parameter) else weight.contiguous()
        return call.module(linear(stored, bias))

    def product(a: torch.Tensor, b: torch.Tensor, *c: torch.Tensor) -> torch.Tensor:
        result = alpha * ((a.t() if first else a) @ (b.t() if second else b))
        return result + beta * c[0] if c else result

    return call.function(product, *range(3 if call.has(2) else 2))


# Where the gates of ONNX are in torch: LSTM i o f c -> i f g o, GRU z r h -> r z n.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_ACTIVATIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


class Recurrent(nn.Module):
    """A recurrent layer of torch with the shapes of ONNX: steps x directions x batch x hidden."""

    def __init__(self, layer: nn.Module, *, reverse: bool, batch_first: bool, states: Sequence[Any]) -> None:
        super().__init__()
        self.layer, self._reverse, self._batch_first = layer, reverse, batch_first
        self._states = len(states)
        self._has_initial_value = [value is not None for value in states]
        for number, value in enumerate(states):
            if value is not None:
                self.register_buffer(f"state_{number}", value)

    def forward(self, x: torch.Tensor, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return all outputs of the layer, and its last states."""
        rest = iter(inputs)
        states = [
            getattr(self, f"state_{n}") if stored else next(rest)
            for n, stored in enumerate(self._has_initial_value)
        ]
        if self._batch_first:
            x, states = x.transpose(0, 1), [s.transpose(0, 1) for s in states]
        x = x.flip(0) if self._reverse else x
        if not states:
            y, last = self.layer(x)
        else:
            y, last = self.layer(x, tuple(states) if len(states) == 2 else states[0])
        last = last if isinstance(last, tuple) else (last,)
        y = y.flip(0) if self._reverse else y
        directions = last[0].shape[0]
        y = y.unflatten(2, (directions, -1)).transpose(1, 2)
        if self._batch_first:
            return y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last)
        return y, *last


def recurrent(call: Call) -> Converted:
    """LSTM, GRU or RNN with the activations of torch."""
    kind = call.operator
    way = call.get("direction", "forward")
    activations = [a.lower() for a in call.get("activations", [])]
    both = 2 if way == "bidirectional" else 1
    expected = _ACTIVATIONS[kind] * both
    is_relu = kind == "RNN" and activations == ["relu"] * both
    if activations and activations != expected and not is_relu:
        raise NotConvertedError(f"its activations are {', '.join(activations)}")
    if call.get("clip") or call.get("input_forget") or call.has(7):
        raise NotConvertedError("it has a clip, a peephole, or a forget gate tied to the input")
    batch_first = bool(call.get("layout", 0))
    steps = call.value().shape[1 if batch_first else 0]
    if call.has(4) and not bool((call.known(4, "sequence_lens") == steps).all()):
        raise NotConvertedError("its sequences have different lengths")
    layer = _recurrent_layer(call, both, is_relu=is_relu)
    positions = [5, 6] if kind == "LSTM" else [5]
    states: list[torch.Tensor | None] = [call.constant(p) for p in positions if call.has(p)]
    variable = [p for p in positions if call.has(p) and call.constant(p) is None]
    if not variable and not any(s is not None and bool(s.any()) for s in states):
        states = []
    elif len(states) != len(positions):
        raise NotConvertedError("one of its two states is given, the other is not")
    module = Recurrent(layer, reverse=way == "reverse", batch_first=batch_first, states=states)
    return call.module(module, 0, *variable)


def _recurrent_layer(call: Call, directions: int, *, is_relu: bool) -> nn.Module:
    kind, hidden = call.operator, int(call.get("hidden_size"))
    weights = call.known(1, "weights"), call.known(2, "weights")
    bias = call.known(3, "bias") if call.has(3) else None
    gates = _GATES[kind]
    parts = {}
    for direction in range(directions):
        end = "_reverse" if direction else ""
        for name, value in zip(("weight_ih_l0", "weight_hh_l0"), weights, strict=True):
            parts[f"{name}{end}"] = _ordered(value[direction], gates, hidden)
        if bias is not None:
            halves = bias[direction].split(len(gates) * hidden)
            for name, value in zip(("bias_ih_l0", "bias_hh_l0"), halves, strict=True):
                parts[f"{name}{end}"] = _ordered(value, gates, hidden)
    if kind == "GRU" and not call.get("linear_before_reset", 0):
        if directions == 2:
            raise NotConvertedError("it resets before the product in both directions")
        return ResetFirst(parts, hidden)
    layers: dict[str, Callable[..., Any]] = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
    options = {"nonlinearity": "relu"} if is_relu else {}
    layer: nn.Module = layers[kind](
        weights[0].shape[2], hidden, bias=bias is not None, bidirectional=directions == 2, **options
    )
    layer.load_state_dict(parts)
    return layer


def _ordered(value: torch.Tensor, gates: Sequence[int], hidden: int) -> torch.Tensor:
    blocks = value.detach().split(hidden)
    return torch.cat([blocks[gate] for gate in gates])


class ResetFirst(nn.Module):
    """A GRU whose reset gate is applied before the product: n = tanh(W x + R (r h) + b)."""

    def __init__(self, parts: dict[str, torch.Tensor], hidden: int) -> None:
        super().__init__()
        inputs = parts["weight_ih_l0"]
        zeros = torch.zeros(3 * hidden)
        bias = parts.get("bias_ih_l0", zeros) + parts.get("bias_hh_l0", zeros)
        recurrent = parts["weight_hh_l0"]
        self.inputs = linear(inputs, bias)
        self.gates = linear(recurrent[: 2 * hidden].clone(), None)
        self.candidate = linear(recurrent[2 * hidden :].clone(), None)
        self._hidden = hidden

    def forward(
        self, x: torch.Tensor, state: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all outputs, and the last one with a leading axis."""
        hidden = x.new_zeros(x.shape[1], self._hidden) if state is None else state[0]
        rows = []
        for step in self.inputs(x).unbind(0):
            reset, update, candidate = step.split(self._hidden, 1)
            from_reset, from_update = self.gates(hidden).split(self._hidden, 1)
            reset = torch.sigmoid(reset + from_reset)
            update = torch.sigmoid(update + from_update)
            candidate = torch.tanh(candidate + self.candidate(reset * hidden))
            hidden = (1 - update) * candidate + update * hidden
            rows.append(hidden)
        return torch.stack(rows), hidden.unsqueeze(0)


LAYERS: dict[str, Callable[[Call], Converted]] = {
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average,
    "GlobalMaxPool": global_maximum,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "GroupNormalization": group_norm,
    "RMSNormalization": rms_norm,
    "LRN": local_response,
    "Gemm": gemm,
    "LSTM": recurrent,
    "GRU": recurrent,
    "RNN": recurrent,
}
