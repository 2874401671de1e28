"""Random TOSA programs of one operator, for every one of the built-in executor, by a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
STORED = {
    "BOOL": np.bool_,
    "INT4": np.int8,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT48": np.int64,
}
BITS = {"BOOL": 1, "INT4": 4, "INT8": 8, "INT16": 16, "INT32": 32, "INT48": 48}


@dataclass
class Drawn:
    """A program under construction; ``samples`` values of every input are drawn with it."""

    g: np.random.Generator
    samples: int = 3
    graph: Any = field(default_factory=lambda: ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 1, 0, True))
    inputs: list[Array] = field(default_factory=list)
    number: int = 0

    def fresh(self) -> str:
        """Return a name that is not in use."""
        self.number += 1
        return f"value{self.number}"

    def values(self, shape: Shape, dtype: str, least: int, most: int, count: int = 1) -> Array:
        """Return values between two limits, which are drawn often."""
        drawn = self.g.integers(least, most, (count, *shape), np.int64, endpoint=True)
        edges = self.g.random(drawn.shape)
        drawn = np.where(edges < 0.03, least, np.where(edges > 0.97, most, drawn))
        return drawn.astype(STORED[dtype])

    def limits(self, dtype: str) -> tuple[int, int]:
        """Return limits of a type, often only a part of its range."""
        if dtype == "BOOL":
            return 0, 1
        bits = BITS[dtype]
        if dtype in {"INT32", "INT48"}:
            bits = int(self.g.integers(4, bits + 1))
        return -(1 << bits - 1), (1 << bits - 1) - 1

    def given(self, shape: Shape, dtype: str, least: int | None = None, most: int = 0) -> str:
        """Add an input of the program."""
        low, high = self.limits(dtype) if least is None else (least, most)
        name = self.fresh()
        tensor = ts.TosaSerializerTensor(name, list(shape), getattr(ts.DType, dtype))
        self.graph.addInputTensor(tensor)
        self.inputs.append(self.values(shape, dtype, low, high, self.samples))
        return name

    def constant(self, values: Any, dtype: str) -> str:
        """Add a constant."""
        array, name = np.asarray(values, STORED[dtype]), self.fresh()
        self.graph.addConst(list(array.shape), getattr(ts.DType, dtype), array, name)
        return name

    def shape(self, values: Any) -> str:
        """Add a constant shape."""
        name = self.fresh()
        self.graph.addConst([len(values)], ts.DType.SHAPE, [int(v) for v in values], name)
        return name

    def either(self, shape: Shape, dtype: str) -> str:
        """Add an input, or a constant."""
        if self.g.random() < 0.7 or not self.inputs:
            return self.given(shape, dtype)
        return self.constant(self.values(shape, dtype, *self.limits(dtype))[0], dtype)

    def add(self, name: str, inputs: list[str], shape: Any, dtype: str, attribute: str, **named: Any) -> None:
        """Add the operator, whose output is that of the program."""
        tensor = self.graph.addOutput(list(map(int, shape)), getattr(ts.DType, dtype))
        attributes = ts.TosaSerializerAttribute()
        getattr(attributes, f"{attribute}Attribute")(**named)
        self.graph.addOperator(getattr(ts.Op, name), inputs, [tensor.name], attributes)

    def some_shape(self, rank: int | None = None, most: int = 7) -> Shape:
        """Return a shape of up to five axes."""
        count = int(self.g.integers(1, 6)) if rank is None else rank
        return tuple(int(n) for n in self.g.integers(1, most, count))

    def one_of(self, *names: Any) -> Any:
        """Return one of some things."""
        return names[int(self.g.integers(len(names)))]

    def zero(self, dtype: str) -> tuple[str, int]:
        """Add a zero point, which only 8 bits have."""
        value = int(self.g.integers(-128, 128)) if dtype == "INT8" else 0
        return self.constant([value], dtype), value


_NAMES = {
    "ARITHMETIC_RIGHT_SHIFT": "ArithmeticRightShift",
    "BITWISE_AND": "BitwiseAnd",
    "BITWISE_OR": "BitwiseOr",
    "BITWISE_XOR": "BitwiseXor",
    "INTDIV": "IntDiv",
    "LOGICAL_AND": "LogicalAnd",
    "LOGICAL_LEFT_SHIFT": "LogicalLeftShift",
    "LOGICAL_RIGHT_SHIFT": "LogicalRightShift",
    "LOGICAL_OR": "LogicalOr",
    "LOGICAL_XOR": "LogicalXor",
    "BITWISE_NOT": "BitwiseNot",
    "LOGICAL_NOT": "LogicalNot",
    "GREATER_EQUAL": "GreaterEqual",
}


def _attribute(name: str) -> str:
    return _NAMES.get(name) or "".join(part.capitalize() for part in name.split("_"))


def _nan() -> Any:
    return ts.NanPropagationMode.PROPAGATE


def _pair(d: Drawn) -> tuple[Shape, Shape, Shape]:
    """Return two shapes, one of them broadcast, and the shape of the result."""
    whole = d.some_shape()
    a, b = (tuple(1 if d.g.random() < 0.2 else n for n in whole) for _ in range(2))
    return a, b, tuple(max(one, other) for one, other in zip(a, b, strict=True))


def _binary(d: Drawn, name: str) -> None:
    a, b, out = _pair(d)
    dtype = "INT32"
    if name.startswith("BITWISE"):
        dtype = d.one_of("INT8", "INT16", "INT32")
    if name.startswith("LOGICAL") and "SHIFT" not in name:
        dtype = "BOOL"
    target = "BOOL" if name in {"EQUAL", "GREATER", "GREATER_EQUAL"} else dtype
    more: dict[str, Any] = {}
    if "SHIFT" in name:
        dtype = target = d.one_of("INT8", "INT16", "INT32")
        inputs = [d.given(a, dtype), d.given(b, dtype, 0, BITS[dtype] - 1)]
        if name.startswith("ARITHMETIC"):
            more["round"] = bool(d.g.integers(2))
    elif name == "INTDIV":
        inputs = [d.given(a, dtype), d.given(b, dtype, *d.one_of((1, 9), (-99, -1)))]
    else:
        inputs = [d.either(a, dtype), d.either(b, dtype)]
    if name in {"MAXIMUM", "MINIMUM"}:
        more["nan_mode"] = _nan()
    d.add(name, inputs, out, target, _attribute(name), **more)


def _mul(d: Drawn, name: str) -> None:
    a, b, out = _pair(d)
    dtype = d.one_of("INT8", "INT16", "INT32")
    shift = int(d.g.integers(0, 40)) if dtype == "INT32" else 0
    inputs = [d.either(a, dtype), d.either(b, dtype), d.constant([shift], "INT8")]
    d.add(name, inputs, out, "INT32", "Mul")


def _unary(d: Drawn, name: str) -> None:
    shape = d.some_shape()
    dtype = "BOOL" if name == "LOGICAL_NOT" else "INT32"
    if name == "BITWISE_NOT":
        dtype = d.one_of("INT8", "INT16", "INT32")
    if name == "IDENTITY":
        dtype = d.one_of("INT8", "INT16", "INT32", "BOOL")
    d.add(name, [d.given(shape, dtype)], shape, dtype, _attribute(name))


def _negate(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32")
    inputs = [d.given(shape, dtype), d.zero(dtype)[0], d.zero(dtype)[0]]
    d.add(name, inputs, shape, dtype, "Negate")


def _clamp(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16")
    low, high = sorted(d.values((2,), dtype, *d.limits(dtype))[0])
    bounds = [np.array([v], STORED[dtype]).view(np.uint8).tolist() for v in (low, high)]
    d.add(
        name,
        [d.given(shape, dtype)],
        shape,
        dtype,
        "Clamp",
        min_val=bounds[0],
        max_val=bounds[1],
        nan_mode=_nan(),
    )


def _table(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16")
    size, target = (256, "INT8") if dtype == "INT8" else (513, "INT32")
    kind = "INT8" if dtype == "INT8" else "INT16"
    limit = d.one_of(100, 12_000) if dtype == "INT16" else 128
    values = d.values((size,), kind, -limit, limit - 1)[0]
    d.add(name, [d.given(shape, dtype), d.constant(values, kind)], shape, target, "Table")


def _select(d: Drawn, name: str) -> None:
    whole = d.some_shape()
    shapes = [tuple(1 if d.g.random() < 0.2 else n for n in whole) for _ in range(3)]
    out = tuple(max(column) for column in zip(*shapes, strict=True))
    dtype = d.one_of("INT8", "INT16", "INT32", "BOOL")
    inputs = [d.given(shapes[0], "BOOL"), d.either(shapes[1], dtype), d.either(shapes[2], dtype)]
    d.add(name, inputs, out, dtype, "Select")


def _cast(d: Drawn, name: str) -> None:
    shape, kinds = d.some_shape(), ["BOOL", "INT8", "INT16", "INT32"]
    source = d.one_of(*kinds)
    kinds.remove(source)
    d.add(name, [d.given(shape, source)], shape, d.one_of(*kinds), "Cast")


def _rescale(d: Drawn, name: str) -> None:
    shape = d.some_shape()
    source = d.one_of("INT8", "INT16", "INT32", "INT48")
    target = d.one_of("INT8", "INT16", "INT32")
    wide = source != "INT48" and bool(d.g.random() < 0.8)
    of_channels = bool(d.g.integers(2))
    count, bits = shape[-1] if of_channels else 1, 31 if wide else 15
    multiplier = d.g.integers(1 << bits - 1, (1 << bits) - 1, count)
    middle = BITS[source] - BITS[target] + bits
    around = int(d.g.integers(-6, 7)) + middle
    shift = np.clip(d.g.integers(around - 2, around + 3, count), 2, 62)
    narrow = "INT32" not in {source, target} and source != "INT48"
    unsigned_in = narrow and bool(d.g.random() < 0.2)
    unsigned_out = narrow and not unsigned_in and bool(d.g.random() < 0.2)
    zeros = [
        _rescale_zero(d, kind, unsigned=unsigned)
        for kind, unsigned in ((source, unsigned_in), (target, unsigned_out))
    ]
    modes = ["SINGLE_ROUND", *(["DOUBLE_ROUND"] if wide else [])]
    inputs = [
        _source(d, shape, source),
        d.constant(multiplier, "INT32" if wide else "INT16"),
        d.constant(shift, "INT8"),
        *zeros,
    ]
    d.add(
        name,
        inputs,
        shape,
        target,
        "Rescale",
        scale32=wide,
        rounding_mode=getattr(ts.RoundingMode, d.one_of(*modes)),
        per_channel=of_channels,
        input_unsigned=unsigned_in,
        output_unsigned=unsigned_out,
    )


def _source(d: Drawn, shape: Shape, dtype: str) -> str:
    """Add an input; one of 48 bits can only be a constant."""
    if dtype != "INT48":
        return d.given(shape, dtype)
    d.samples = 1
    return d.constant(d.values(shape, dtype, *d.limits(dtype))[0], dtype)


def _rescale_zero(d: Drawn, dtype: str, *, unsigned: bool) -> str:
    if unsigned and dtype == "INT16":
        return d.constant([d.one_of(0, -32768)], dtype)
    return d.zero(dtype)[0]


def _concat(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32", "BOOL")
    axis = int(d.g.integers(len(shape)))
    sizes = d.g.integers(1, 5, d.g.integers(1, 4))
    parts = [d.either((*shape[:axis], int(n), *shape[axis + 1 :]), dtype) for n in sizes]
    out = (*shape[:axis], int(sizes.sum()), *shape[axis + 1 :])
    d.add(name, parts, out, dtype, "Concat", axis=axis)


def _pad(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32", "BOOL")
    pads = d.g.integers(0, 4, (len(shape), 2))
    fill = d.constant(d.values((1,), dtype, *d.limits(dtype))[0], dtype)
    out = [n + a + b for n, (a, b) in zip(shape, pads, strict=True)]
    d.add(name, [d.given(shape, dtype), d.shape(pads.reshape(-1)), fill], out, dtype, "Pad")


def _reshape(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32", "BOOL")
    out = d.g.permutation(shape)
    d.add(name, [d.given(shape, dtype), d.shape(out)], out, dtype, "Reshape")


def _reverse(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32", "BOOL")
    axis = int(d.g.integers(len(shape)))
    d.add(name, [d.given(shape, dtype)], shape, dtype, "Reverse", axis=axis)


def _slice(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32", "BOOL")
    start = [int(d.g.integers(n)) for n in shape]
    size = [int(d.g.integers(1, n - s + 1)) for n, s in zip(shape, start, strict=True)]
    d.add(name, [d.given(shape, dtype), d.shape(start), d.shape(size)], size, dtype, "Slice")


def _tile(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32", "BOOL")
    times = d.g.integers(1, 4, len(shape))
    out = [n * t for n, t in zip(shape, times, strict=True)]
    d.add(name, [d.given(shape, dtype), d.shape(times)], out, dtype, "Tile")


def _transpose(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16", "INT32", "BOOL")
    order = [int(axis) for axis in d.g.permutation(len(shape))]
    out = [shape[axis] for axis in order]
    d.add(name, [d.given(shape, dtype)], out, dtype, "Transpose", perms=order)


def _gather(d: Drawn, name: str) -> None:
    n, k, c, w = (int(v) for v in d.g.integers(1, 8, 4))
    dtype = d.one_of("INT8", "INT16", "INT32")
    inputs = [d.either((n, k, c), dtype), d.given((n, w), "INT32", 0, k - 1)]
    d.add(name, inputs, (n, w, c), dtype, "Gather")


def _scatter(d: Drawn, name: str) -> None:
    n, k, c = (int(v) for v in d.g.integers(1, 8, 3))
    w, dtype = int(d.g.integers(1, k + 1)), d.one_of("INT8", "INT16", "INT32")
    inputs = [d.either((n, k, c), dtype), d.given((n, w), "INT32", 0, k - 1)]
    orders = [[d.g.permutation(k)[:w] for _ in range(n)] for _ in range(d.samples)]
    d.inputs[-1] = np.array(orders, np.int32)
    inputs.append(d.given((n, w, c), dtype))
    d.add(name, inputs, (n, k, c), dtype, "Scatter")


def _reduce(d: Drawn, name: str) -> None:
    shape = d.some_shape()
    axis = int(d.g.integers(len(shape)))
    dtype = "INT32" if name.endswith("SUM") else d.one_of("INT8", "INT16", "INT32")
    logical = name in {"REDUCE_ALL", "REDUCE_ANY"}
    dtype = "BOOL" if logical else dtype
    more = {"nan_mode": _nan()} if name in {"REDUCE_MAX", "REDUCE_MIN"} else {}
    out = (*shape[:axis], 1, *shape[axis + 1 :])
    d.add(name, [d.given(shape, dtype)], out, dtype, _attribute(name), axis=axis, **more)


def _argmax(d: Drawn, name: str) -> None:
    shape, dtype = d.some_shape(), d.one_of("INT8", "INT16")
    axis, limit = int(d.g.integers(len(shape))), d.one_of(2, 128)
    source = d.given(shape, dtype, -limit, limit - 1)
    out = (*shape[:axis], *shape[axis + 1 :])
    d.add(name, [source], out, "INT32", "ArgMax", axis=axis, nan_mode=_nan())


def _extent(d: Drawn, count: int, transposed: bool = False) -> Any:
    """Return sizes, kernel, stride, dilation, pads and output sizes of some axes that fit."""
    rows: list[tuple[int, ...]] = []
    while len(rows) < count:
        size, kernel, stride = (int(d.g.integers(1, 10)), int(d.g.integers(1, 5)), d.one_of(1, 1, 2, 3))
        dilation = d.one_of(1, 1, 2)
        before, after = (int(v) for v in d.g.integers(0, kernel, 2))
        room = size + before + after - (kernel - 1) * dilation - 1
        if transposed:
            out = (size - 1) * stride + before + after + kernel
            rows.append((size, kernel, stride, 1, before, after, out))
        elif room >= 0 and room % stride == 0:
            rows.append((size, kernel, stride, dilation, before, after, room // stride + 1))
    sizes, kernels, strides, dilations, befores, afters, outs = zip(*rows, strict=True)
    pads = [v for pair in zip(befores, afters, strict=True) for v in pair]
    return sizes, kernels, list(strides), list(dilations), pads, outs


def _convolution(d: Drawn, name: str) -> None:
    transposed = name == "TRANSPOSE_CONV2D"
    rank = 3 if name == "CONV3D" else 2
    sizes, kernels, strides, dilations, pads, outs = _extent(d, rank, transposed)
    n, c, oc = (int(v) for v in d.g.integers(1, 7, 3))
    dtype = d.one_of("INT8", "INT8", "INT16")
    weight = d.one_of("INT8", "INT8", "INT4") if dtype == "INT8" else "INT8"
    wide = "INT48" if dtype == "INT16" else "INT32"
    shape: Shape = (oc, *kernels, c)
    if name == "DEPTHWISE_CONV2D":
        factor = int(d.g.integers(1, 4))
        shape, oc = (*kernels, c, factor), c * factor
    most = 7 if weight == "INT4" else 127
    weights = d.values(shape, weight, -most, most)[0]
    if weight == "INT4" and weights.size % 2:
        weight = "INT8"
    source = d.given((n, *sizes, c), dtype)
    bias = d.constant(d.g.integers(-9999, 9999, d.one_of(1, oc)), wide)
    zeros = [d.zero(dtype)[0], d.zero(weight)[0]]
    inputs = [source, d.constant(weights, weight), bias, *zeros]
    named: dict[str, Any] = {"local_bound": False, "acc_type": getattr(ts.DType, wide)}
    if transposed:
        named |= {"out_pad": pads, "stride": strides}
    else:
        named |= {"pad": pads, "stride": strides, "dilation": dilations}
    attribute = {
        "CONV2D": "Conv2d",
        "CONV3D": "Conv3d",
        "DEPTHWISE_CONV2D": "DepthwiseConv2d",
        "TRANSPOSE_CONV2D": "TransposeConv2d",
    }[name]
    _narrowed(d, name, inputs, ((n, *outs, oc), wide), attribute, named)


def _narrowed(
    d: Drawn, name: str, inputs: list[str], out: tuple[Shape, str], attribute: str, named: dict[str, Any]
) -> None:
    """Add an operator; results of 48 bits cannot be outputs and are rescaled to 32."""
    shape, wide = out
    if wide != "INT48":
        d.add(name, inputs, shape, wide, attribute, **named)
        return
    tensor = d.graph.addIntermediate(list(shape), ts.DType.INT48)
    attributes = ts.TosaSerializerAttribute()
    getattr(attributes, f"{attribute}Attribute")(**named)
    d.graph.addOperator(getattr(ts.Op, name), inputs, [tensor.name], attributes)
    scale = [
        d.constant([1 << 14], "INT16"),
        d.constant([d.one_of(14, 18)], "INT8"),
        d.constant([0], "INT48"),
        d.constant([0], "INT32"),
    ]
    d.add(
        "RESCALE",
        [tensor.name, *scale],
        shape,
        "INT32",
        "Rescale",
        scale32=False,
        rounding_mode=ts.RoundingMode.SINGLE_ROUND,
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )


def _matmul(d: Drawn, name: str) -> None:
    n, h, c, w = (int(v) for v in d.g.integers(1, 9, 4))
    dtype = d.one_of("INT8", "INT16")
    wide = "INT48" if dtype == "INT16" else "INT32"
    inputs = [d.given((n, h, c), dtype), d.either((n, c, w), dtype)]
    inputs += [d.zero(dtype)[0], d.zero(dtype)[0]]
    _narrowed(d, name, inputs, ((n, h, w), wide), "MatMul", {})


def _pool(d: Drawn, name: str) -> None:
    dtype = d.one_of("INT8", "INT16")
    sizes, kernels, strides, dilations, pads, outs = _extent(d, 2)
    while dilations != [1, 1]:
        sizes, kernels, strides, dilations, pads, outs = _extent(d, 2)
    n, c = (int(v) for v in d.g.integers(1, 5, 2))
    named: dict[str, Any] = {"kernel": list(kernels), "stride": strides, "pad": pads}
    inputs = [d.given((n, *sizes, c), dtype)]
    if name == "MAX_POOL2D":
        d.add(name, inputs, (n, *outs, c), dtype, "MaxPool2d", **named, nan_mode=_nan())
        return
    inputs += [d.zero(dtype)[0], d.zero(dtype)[0]]
    d.add(name, inputs, (n, *outs, c), dtype, "AvgPool2d", **named, acc_type=ts.DType.INT32)


def _resize(d: Drawn, name: str) -> None:
    mode = d.one_of("NEAREST", "BILINEAR")
    dtype = d.one_of("INT8", "INT16")
    target = {"NEAREST": dtype, "BILINEAR": {"INT8": "INT32", "INT16": "INT48"}[dtype]}[mode]
    scale, offset, border, sizes, outs = [], [], [], [], []
    while len(sizes) < 2:
        top, bottom = d.one_of((1, 1), (2, 1), (4, 2), (3, 2), (6, 4), (16, 2), (1, 2), (5, 7))
        size, shift = int(d.g.integers(1, 8)), int(d.g.integers(-bottom, 16 * top))
        shift = shift if -top <= shift < 16 * top else 0
        edge = int(d.g.integers(-16 * top, top))
        room = (size - 1) * top - shift + edge
        if room >= 0 and room % bottom == 0 and bottom < 16 * top:
            scale += [top, bottom]
            offset.append(shift)
            border.append(edge)
            sizes.append(size)
            outs.append(room // bottom + 1)
    n, c = (int(v) for v in d.g.integers(1, 4, 2))
    inputs = [d.given((n, *sizes, c), dtype), *map(d.shape, (scale, offset, border))]
    named = {"mode": getattr(ts.ResizeMode, mode)}
    _narrowed(d, name, inputs, ((n, *outs, c), target), "Resize", named)


_DRAWERS: dict[str, Callable[[Drawn, str], None]] = {
    **dict.fromkeys(
        (
            "ADD",
            "SUB",
            "ARITHMETIC_RIGHT_SHIFT",
            "BITWISE_AND",
            "BITWISE_OR",
            "BITWISE_XOR",
            "EQUAL",
            "GREATER",
            "GREATER_EQUAL",
            "INTDIV",
            "LOGICAL_AND",
            "LOGICAL_LEFT_SHIFT",
            "LOGICAL_OR",
            "LOGICAL_RIGHT_SHIFT",
            "LOGICAL_XOR",
            "MAXIMUM",
            "MINIMUM",
        ),
        _binary,
    ),
    **dict.fromkeys(("ABS", "BITWISE_NOT", "CLZ", "IDENTITY", "LOGICAL_NOT"), _unary),
    **dict.fromkeys(("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D"), _convolution),
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM"), _reduce),
    **dict.fromkeys(("AVG_POOL2D", "MAX_POOL2D"), _pool),
    "ARGMAX": _argmax,
    "CAST": _cast,
    "CLAMP": _clamp,
    "CONCAT": _concat,
    "GATHER": _gather,
    "MATMUL": _matmul,
    "MUL": _mul,
    "NEGATE": _negate,
    "PAD": _pad,
    "RESCALE": _rescale,
    "RESHAPE": _reshape,
    "RESIZE": _resize,
    "REVERSE": _reverse,
    "SCATTER": _scatter,
    "SELECT": _select,
    "SLICE": _slice,
    "TABLE": _table,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
}
OPERATORS = tuple(sorted(_DRAWERS))


def drawn(name: str, seed: int) -> tuple[bytes, list[Array]]:
    """Return a program of one operator, and for each of its inputs the values of some samples."""
    d = Drawn(np.random.default_rng([seed, OPERATORS.index(name)]))
    _DRAWERS[name](d, name)
    return bytes(d.graph.serialize()), d.inputs
