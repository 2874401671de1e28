"""ONNX operators on tensors: arithmetic, activations, comparisons and reductions.

The formulas are those of the operators' definitions (onnx/docs/Operators.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from workbench.engine.loading.onnx_import.calls import Call, Converted, NotConvertedError
from workbench.engine.loading.onnx_import.layers import linear

# Element types of ONNX (TensorProto.DataType).
TYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
}


def _plain(function: Callable[..., Any]) -> Callable[[Call], Converted]:
    """Return the converter of an operator that is a function of all its inputs."""
    return lambda call: call.function(function, *range(len(call.values)))


def _layer(make: Callable[[], nn.Module]) -> Callable[[Call], Converted]:
    return lambda call: call.module(make())


def _divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a quotient; integers are divided toward zero."""
    if isinstance(a, torch.Tensor) and not a.is_floating_point():
        return torch.div(a, b, rounding_mode="trunc")
    return a / b


def _mod(call: Call) -> Converted:
    return call.function(torch.fmod if call.get("fmod", 0) else torch.remainder, 0, 1)


def _variadic(function: Callable[[Any, Any], Any]) -> Callable[[Call], Converted]:
    def convert(call: Call) -> Converted:
        return call.function(lambda *v: reduce(function, v), *range(len(call.values)))

    return convert


def _mean(call: Call) -> Converted:
    count = len(call.values)
    return call.function(lambda *v: reduce(torch.add, v) / count, *range(count))


def _matrix_product(call: Call) -> Converted:
    weight = call.constant(1)
    if weight is None or weight.dim() != 2 or call.value().dim() < 2:
        return call.function(torch.matmul, 0, 1)
    return call.module(linear(weight.t().contiguous(), None))


def _clip(call: Call) -> Converted:
    ends = []
    for position, name in ((1, "min"), (2, "max")):
        value = call.get(name)
        if value is None and call.has(position):
            value = float(call.known(position, name))
        ends.append(value)
    if not call.value().is_floating_point():
        ends = [None if end is None else int(end) for end in ends]
    low, high = ends
    if (low, high) == (0.0, 6.0):
        return call.module(nn.ReLU6())
    if (low, high) == (0.0, None):
        return call.module(nn.ReLU())
    if low is None and high is None:
        return call.module(nn.Identity())
    return call.function(lambda x: torch.clamp(x, low, high))


def _hard_sigmoid(call: Call) -> Converted:
    alpha, beta = float(call.get("alpha", 0.2)), float(call.get("beta", 0.5))
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return call.module(nn.Hardsigmoid())
    return call.function(lambda x: torch.clamp(alpha * x + beta, 0.0, 1.0))


def _swish(call: Call) -> Converted:
    alpha = float(call.get("alpha", 1.0))
    if alpha == 1:
        return call.module(nn.SiLU())
    return call.function(lambda x: x * torch.sigmoid(alpha * x))


def _selu(call: Call) -> Converted:
    alpha, gamma = float(call.get("alpha", 1.67326319)), float(call.get("gamma", 1.05070102))
    return call.function(lambda x: gamma * torch.where(x > 0, x, alpha * (torch.exp(x) - 1)))


def _prelu(call: Call) -> Converted:
    slope = call.constant(1)
    x = call.value()
    channels = x.shape[1] if x.dim() > 1 else 1
    by_channel = (channels, *[1] * (x.dim() - 2))
    if slope is not None and (slope.numel() == 1 or tuple(slope.shape) == by_channel):
        layer = nn.PReLU(slope.numel())
        layer.weight = nn.Parameter(slope.detach().reshape(-1), requires_grad=False)
        return call.module(layer)
    return call.function(lambda x, s: torch.where(x < 0, x * s, x), 0, 1)


def _softmax(logarithm: bool) -> Callable[[Call], Converted]:
    function = F.log_softmax if logarithm else F.softmax
    kind = nn.LogSoftmax if logarithm else nn.Softmax

    def convert(call: Call) -> Converted:
        rank = call.value().dim()
        if call.version >= 13:
            return call.module(kind(call.axis(-1)))
        axis = call.axis(1)
        if axis == rank - 1:
            return call.module(kind(axis))
        # Before operator set 13 all axes from this one on are one.
        return call.function(lambda x: function(x.flatten(axis), axis).reshape(x.shape))

    return convert


def _round(call: Call) -> Converted:
    return call.function(torch.round)


def _cast(call: Call) -> Converted:
    kind = TYPES.get(int(call.get("to", 0)))
    if kind is None:
        raise NotConvertedError(f"it makes elements of type {call.get('to')}")
    if kind == call.value().dtype:
        return call.module(nn.Identity())
    return call.function(lambda x: x.to(kind))


def _cast_like(call: Call) -> Converted:
    kind = call.value(1).dtype
    return call.function(lambda x: x.to(kind))


def _is_infinite(call: Call) -> Converted:
    negative, positive = call.get("detect_negative", 1), call.get("detect_positive", 1)
    return call.function(lambda x: torch.isinf(x) & (((x > 0) & bool(positive)) | ((x < 0) & bool(negative))))


def _axes(call: Call) -> list[int] | None:
    """Return the axes of a reduction; None to change nothing."""
    axes = call.integers(1, "axes")
    if axes:
        return [a % max(call.value().dim(), 1) for a in axes]
    return None if call.get("noop_with_empty_axes", 0) else list(range(call.value().dim()))


def _reduction(function: Callable[..., Any]) -> Callable[[Call], Converted]:
    def convert(call: Call) -> Converted:
        axes, keep = _axes(call), bool(call.get("keepdims", 1))
        if axes is None:
            return call.module(nn.Identity())
        return call.function(lambda x: function(x, axes, keep))

    return convert


def _product(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _arg(function: Callable[..., Any]) -> Callable[[Call], Converted]:
    def convert(call: Call) -> Converted:
        if call.get("select_last_index", 0):
            raise NotConvertedError("it takes the last of equal values")
        axis, keep = call.axis(0), bool(call.get("keepdims", 1))
        return call.function(lambda x: function(x, axis, keepdim=keep))

    return convert


def _top(call: Call) -> Converted:
    count = call.integers(1, "k")
    count = count if isinstance(count, int) else count[0]
    axis, largest = call.axis(-1), bool(call.get("largest", 1))
    is_sorted = bool(call.get("sorted", 1))
    return call.function(lambda x: tuple(torch.topk(x, count, axis, largest, is_sorted)))


def _cumulative(call: Call) -> Converted:
    axis = int(call.known(1, "axis"))
    if call.get("exclusive", 0) or call.get("reverse", 0):
        raise NotConvertedError("it sums in reverse, or without the element itself")
    return call.function(lambda x: x.cumsum(axis))


def _triangle(call: Call) -> Converted:
    diagonal = int(call.known(1, "diagonal")) if call.has(1) else 0
    function = torch.triu if call.get("upper", 1) else torch.tril
    return call.function(lambda x: function(x, diagonal))


def _einsum(call: Call) -> Converted:
    text = str(call.get("equation"))
    return call.function(partial(torch.einsum, text), *range(len(call.values)))


def _norm(call: Call) -> Converted:
    order, axis = int(call.get("p", 2)), call.axis(-1)
    return call.function(lambda x: x / x.norm(order, axis, keepdim=True))


def _attention(call: Call) -> Converted:
    """Attention of operator set 23, without a cache of keys and values."""
    if len([v for v in call.values if v is not None]) > 4 or call.outputs > 1:
        raise NotConvertedError("it has a cache of keys and values")
    if call.get("softcap") or call.get("qk_matmul_output_mode"):
        raise NotConvertedError("it has a soft limit")
    heads, groups = call.get("q_num_heads"), call.get("kv_num_heads")
    causal, scale = bool(call.get("is_causal", 0)), call.get("scale")

    def split(x: torch.Tensor, count: int | None) -> torch.Tensor:
        return x if x.dim() == 4 else x.unflatten(2, (count, -1)).transpose(1, 2)

    def attend(q: Any, k: Any, v: Any, *mask: torch.Tensor) -> torch.Tensor:
        y = F.scaled_dot_product_attention(
            split(q, heads),
            split(k, groups),
            split(v, groups),
            attn_mask=mask[0] if mask else None,
            is_causal=causal,
            scale=scale,
            enable_gqa=heads != groups,
        )
        return y if q.dim() == 4 else y.transpose(1, 2).flatten(2)

    return call.function(attend, *range(4 if call.has(3) else 3))


def _scaler(call: Call) -> Converted:
    """Scaler of ai.onnx.ml: (x - offset) * scale, for each feature."""
    offset, scale = (torch.tensor(call.get(n, [d])) for n, d in (("offset", 0.0), ("scale", 1.0)))

    class Scaler(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("offset", offset)
            self.register_buffer("scale", scale)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x - self.offset) * self.scale

    return call.module(Scaler())


def _linear_regressor(call: Call) -> Converted:
    if call.get("post_transform", "NONE") != "NONE":
        raise NotConvertedError(f"it applies {call.get('post_transform')}")
    targets = int(call.get("targets", 1))
    weight = torch.tensor(call.get("coefficients")).reshape(targets, -1)
    bias = torch.tensor(call.get("intercepts", [0.0] * targets))
    return call.module(linear(weight, bias))


_FLOAT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs,
    "Neg": torch.neg,
    "Exp": torch.exp,
    "Log": torch.log,
    "Sqrt": torch.sqrt,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Tan": torch.tan,
    "Asin": torch.asin,
    "Acos": torch.acos,
    "Atan": torch.atan,
    "Sinh": torch.sinh,
    "Cosh": torch.cosh,
    "Asinh": torch.asinh,
    "Acosh": torch.acosh,
    "Atanh": torch.atanh,
    "Erf": torch.erf,
    "Sign": torch.sign,
    "Floor": torch.floor,
    "Ceil": torch.ceil,
    "Reciprocal": torch.reciprocal,
    "IsNaN": torch.isnan,
    "Not": torch.logical_not,
    "BitwiseNot": torch.bitwise_not,
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": _divide,
    "Pow": torch.pow,
    "Equal": torch.eq,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Where": torch.where,
}
_MODULES: dict[str, Callable[[], nn.Module]] = {
    "Relu": nn.ReLU,
    "Sigmoid": nn.Sigmoid,
    "Tanh": nn.Tanh,
    "HardSwish": nn.Hardswish,
    "Softsign": nn.Softsign,
    "Softplus": nn.Softplus,
    "Mish": nn.Mish,
}

OPERATORS: dict[str, Callable[[Call], Converted]] = {
    **{name: _plain(function) for name, function in _FLOAT_FUNCTIONS.items()},
    **{name: _layer(make) for name, make in _MODULES.items()},
    "Mod": _mod,
    "Sum": _variadic(torch.add),
    "Max": _variadic(torch.maximum),
    "Min": _variadic(torch.minimum),
    "Mean": _mean,
    "MatMul": _matrix_product,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "Swish": _swish,
    "PRelu": _prelu,
    "LeakyRelu": lambda c: c.module(nn.LeakyReLU(float(c.get("alpha", 0.01)))),
    "Elu": lambda c: c.module(nn.ELU(float(c.get("alpha", 1.0)))),
    "Celu": lambda c: c.module(nn.CELU(float(c.get("alpha", 1.0)))),
    "Selu": _selu,
    "ThresholdedRelu": lambda c: c.module(nn.Threshold(float(c.get("alpha", 1.0)), 0.0)),
    "Gelu": lambda c: c.module(nn.GELU(str(c.get("approximate", "none")))),
    "Softmax": _softmax(logarithm=False),
    "LogSoftmax": _softmax(logarithm=True),
    "Round": _round,
    "Cast": _cast,
    "CastLike": _cast_like,
    "IsInf": _is_infinite,
    "ReduceSum": _reduction(torch.sum),
    "ReduceMean": _reduction(torch.mean),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMin": _reduction(torch.amin),
    "ReduceProd": _reduction(_product),
    "ReduceL1": _reduction(lambda x, a, k: x.abs().sum(a, k)),
    "ReduceL2": _reduction(lambda x, a, k: (x * x).sum(a, k).sqrt()),
    "ReduceSumSquare": _reduction(lambda x, a, k: (x * x).sum(a, k)),
    "ReduceLogSum": _reduction(lambda x, a, k: x.sum(a, k).log()),
    "ReduceLogSumExp": _reduction(torch.logsumexp),
    "ArgMax": _arg(torch.argmax),
    "ArgMin": _arg(torch.argmin),
    "TopK": _top,
    "CumSum": _cumulative,
    "Trilu": _triangle,
    "Einsum": _einsum,
    "LpNormalization": _norm,
    "Attention": _attention,
    "ai.onnx.ml.Scaler": _scaler,
    "ai.onnx.ml.LinearRegressor": _linear_regressor,
}
