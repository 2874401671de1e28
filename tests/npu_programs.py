"""Random TOSA programs: drawn by a seed, and written as flatbuffers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts

U55 = ("Ethos_U55_High_End_Embedded", "Shared_Sram")
U65 = ("Ethos_U65_High_End", "Dedicated_Sram")
U85 = ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_256KB")
DEVICES = {
    **{f"ethos-u55-{macs}": U55 for macs in (32, 64, 128, 256)},
    **{f"ethos-u65-{macs}": U65 for macs in (256, 512)},
    **{f"ethos-u85-{macs}": U85 for macs in (128, 256, 512, 1024, 2048)},
}
NUMPY = {"INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT48": np.int64}
Parameters = dict[str, Any]
Array = npt.NDArray[Any]


class Impossible(Exception):
    """An operation does not fit the value it gets."""


@dataclass(frozen=True)
class Case:
    """A program: the shape of its input, and operations with their parameters."""

    seed: int
    device: str
    dtype: str
    shape: tuple[int, ...]
    operations: tuple[tuple[str, Parameters], ...]

    def as_json(self) -> str:
        """Return the case as text."""
        return json.dumps({**vars(self), "operations": list(self.operations)})

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Return the case of a text."""
        read = json.loads(text)
        operations = tuple((name, parameters) for name, parameters in read["operations"])
        return cls(**{**read, "shape": tuple(read["shape"]), "operations": operations})


@dataclass
class Value:
    """A tensor of the program under construction."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass
class Builder:
    """Writes a TOSA program; random constants come from ``generator``.

    No value has more than ``most`` elements.
    """

    generator: np.random.Generator
    most: int = 60_000
    graph: Any = field(default_factory=lambda: ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 0, 0, False))
    values: list[Value] = field(default_factory=list)
    number: int = 0

    def fresh(self, prefix: str) -> str:
        """Return a name that is not in use."""
        self.number += 1
        return f"{prefix}{self.number}"

    def constant(self, values: Any, dtype: str) -> Value:
        """Add a constant."""
        array = np.asarray(values, NUMPY[dtype])
        name = self.fresh("constant")
        self.graph.addConst(list(array.shape), getattr(ts.DType, dtype), array, name)
        return Value(name, array.shape, dtype)

    def shape(self, values: Any) -> str:
        """Add a constant shape, and return its name."""
        name = self.fresh("shape")
        self.graph.addConst([len(values)], ts.DType.SHAPE, [int(v) for v in values], name)
        return name

    def add(
        self,
        operator: str,
        inputs: list[Value | str],
        shape: Any,
        dtype: str,
        *given: Any,
        attribute: str,
        **named: Any,
    ) -> Value:
        """Add an operation with one output."""
        if min(shape, default=1) < 1 or np.prod(shape) > self.most:
            raise Impossible(f"{operator}: {shape}")
        made = self.graph.addIntermediate(list(map(int, shape)), getattr(ts.DType, dtype))
        attributes = ts.TosaSerializerAttribute()
        getattr(attributes, f"{attribute}Attribute")(*given, **named)
        names = [value if isinstance(value, str) else value.name for value in inputs]
        self.graph.addOperator(getattr(ts.Op, operator), names, [made.name], attributes)
        return Value(made.name, tuple(map(int, shape)), dtype)

    def zero(self, dtype: str, value: int = 0) -> Value:
        """Add a zero point."""
        return self.constant([value], dtype)

    def rescale(
        self, x: Value, dtype: str, scale: Any, zero: tuple[int, int] = (0, 0), rounding: int = 0
    ) -> Value:
        """Add a RESCALE; several scales are those of channels."""
        narrow = x.dtype == "INT48"
        bits = 15 if narrow else 31
        scales = np.atleast_1d(np.asarray(scale, np.float64))
        mantissa, exponent = np.frexp(scales)
        multipliers = np.round(mantissa * (1 << bits)).astype(np.int64)
        over = multipliers == 1 << bits
        multipliers[over] //= 2
        shifts = bits - (exponent + over)
        if shifts.min() < 2 or shifts.max() > 62:
            raise Impossible("scale")
        modes = (ts.RoundingMode.SINGLE_ROUND, ts.RoundingMode.DOUBLE_ROUND)
        mode = modes[0] if narrow else modes[rounding]
        parameters = [
            self.constant(multipliers, "INT16" if narrow else "INT32"),
            self.constant(shifts, "INT8"),
            self.zero(x.dtype, zero[0]),
            self.zero(dtype, zero[1]),
        ]
        return self.add(
            "RESCALE",
            [x, *parameters],
            x.shape,
            dtype,
            attribute="Rescale",
            scale32=not narrow,
            rounding_mode=mode,
            per_channel=len(scales) > 1,
            input_unsigned=False,
            output_unsigned=False,
        )


def _earlier(b: Builder, x: Value, p: Parameters, axis: int | None = None) -> Value | None:
    """Return the earlier value that joins ``x``, or None; only ``axis`` may differ in length."""
    if not p.get("with") or not b.values:
        return None
    found = b.values[max(0, len(b.values) - 1 - p["with"])]
    same = len(found.shape) == len(x.shape) and all(
        one == other or place == axis
        for place, (one, other) in enumerate(zip(found.shape, x.shape, strict=True))
    )
    return found if same and found.dtype == x.dtype else None


def _zero(generator: np.random.Generator, dtype: str) -> int:
    return int(generator.integers(-100, 100)) if dtype == "INT8" else 0


def _convolution(b: Builder, x: Value, p: Parameters, kind: str) -> Value:
    if len(x.shape) != 4:
        raise Impossible("rank")
    (n, h, w, c), g = x.shape, b.generator
    kh, kw = p["kernel"]
    transposed, depthwise = kind == "transpose", kind == "depthwise"
    oc = c * p["multiplier"] if depthwise else p["channels"]
    wide = "INT48" if x.dtype == "INT16" else "INT32"
    weight_shape = (kh, kw, c, p["multiplier"]) if depthwise else (oc, kh, kw, c)
    weights = g.integers(-127, 128, weight_shape) * (g.random(weight_shape) < p["density"])
    inputs: list[Value | str] = [
        x, b.constant(weights, "INT8"), b.constant(g.integers(-5000, 5000, oc), wide),
        b.zero(x.dtype, _zero(g, x.dtype)), b.zero("INT8"),
    ]  # fmt: skip
    accumulator = getattr(ts.DType, wide)
    if transposed:
        strides = p["stride"]
        out = [(h - 1) * strides[0] + kh, (w - 1) * strides[1] + kw]
        made = b.add(
            "TRANSPOSE_CONV2D", inputs, (n, *out, oc), wide, attribute="TransposeConv2d",
            out_pad=[0, 0, 0, 0], stride=list(strides), local_bound=False, acc_type=accumulator,
        )  # fmt: skip
    else:
        pads, out = _window(h, w, p, p["dilation"])
        made = b.add(
            "DEPTHWISE_CONV2D" if depthwise else "CONV2D", inputs, (n, *out, oc), wide,
            attribute="DepthwiseConv2d" if depthwise else "Conv2d", pad=pads,
            stride=list(p["stride"]), dilation=list(p["dilation"]), local_bound=False,
            acc_type=accumulator,
        )  # fmt: skip
    count = kh * kw * (1 if depthwise else c) * p["density"] + 1
    level = 1.0 / (60 * np.sqrt(count))
    scale = level * g.uniform(0.5, 2, oc if p["per_channel"] and oc > 1 else 1)
    return b.rescale(made, x.dtype, scale, (0, _zero(g, x.dtype)), p["rounding"])


def _window(h: int, w: int, p: Parameters, dilation: tuple[int, int] = (1, 1)) -> tuple[list[int], list[int]]:
    """Return the padding and output size of a window; the padding makes the strides fit."""
    pads, out = [], []
    for size, kernel, stride, step, wanted in zip(
        (h, w), p["kernel"], p["stride"], dilation, p["pad"], strict=True
    ):
        extent = (kernel - 1) * step + 1
        before = min(wanted, kernel - 1)
        after = before
        while (size + before + after - extent) % stride:
            after += 1
        if size + before + after < extent or after > max(kernel - 1, 0):
            raise Impossible("window")
        pads += [before, after]
        out.append((size + before + after - extent) // stride + 1)
    return pads, out


def _pool(b: Builder, x: Value, p: Parameters, kind: str) -> Value:
    if len(x.shape) != 4:
        raise Impossible("rank")
    n, h, w, c = x.shape
    pads, out = _window(h, w, p)
    common = {"kernel": list(p["kernel"]), "stride": list(p["stride"]), "pad": pads}
    if kind == "max":
        return b.add(
            "MAX_POOL2D",
            [x],
            (n, *out, c),
            x.dtype,
            attribute="MaxPool2d",
            **common,
            nan_mode=ts.NanPropagationMode.PROPAGATE,
        )
    zero = b.zero(x.dtype, _zero(b.generator, x.dtype))
    return b.add(
        "AVG_POOL2D",
        [x, zero, zero],
        (n, *out, c),
        x.dtype,
        attribute="AvgPool2d",
        **common,
        acc_type=ts.DType.INT32,
    )


def _binary(b: Builder, x: Value, p: Parameters, kind: str) -> Value:
    g = b.generator
    other_shape = tuple(1 if axis in p["broadcast"] else n for axis, n in enumerate(x.shape))
    limits = np.iinfo(NUMPY[x.dtype])
    other = b.constant(g.integers(limits.min, limits.max, other_shape, endpoint=True), x.dtype)
    other = x if p["self"] else _earlier(b, x, p) or other
    if kind in {"MAXIMUM", "MINIMUM"}:
        if x.dtype != "INT8":
            raise Impossible("type")
        pair = [b.rescale(v, "INT32", 1.0) for v in (x, other)]
        made = b.add(
            kind,
            [*pair],
            x.shape,
            "INT32",
            attribute=kind.capitalize(),
            nan_mode=ts.NanPropagationMode.PROPAGATE,
        )
        return b.rescale(made, x.dtype, 1.0)
    zeros = _zero(g, x.dtype), _zero(g, x.dtype)
    if kind == "MUL":
        pair = [b.rescale(v, "INT32", 1.0, (z, 0)) for v, z in zip((x, other), zeros, strict=True)]
        shift = b.constant([0], "INT8")
        made = b.add("MUL", [*pair, shift], x.shape, "INT32", attribute="Mul")
        level = 1 / 80 if x.dtype == "INT8" else 1 / 20000
    else:
        room = float(1 << (20 if x.dtype == "INT8" else 12))
        scales = (room * g.uniform(0.3, 1), room * g.uniform(0.3, 1))
        pair = [
            b.rescale(v, "INT32", s, (z, 0), p["rounding"])
            for v, s, z in zip((x, other), scales, zeros, strict=True)
        ]
        made = b.add(kind, [*pair], x.shape, "INT32", attribute=kind.capitalize())
        level = 0.8 / room
    scale = level * float(g.uniform(0.5, 2))
    return b.rescale(made, x.dtype, scale, (0, _zero(g, x.dtype)), p["rounding"])


def _table(b: Builder, x: Value, p: Parameters) -> Value:
    del p
    if x.dtype == "INT8":
        table = b.constant(b.generator.integers(-128, 128, 256), "INT8")
        return b.add("TABLE", [x, table], x.shape, "INT8", attribute="Table")
    steps = np.cumsum(b.generator.integers(-300, 300, 513)).clip(-32768, 32767)
    made = b.add("TABLE", [x, b.constant(steps, "INT16")], x.shape, "INT32", attribute="Table")
    return b.rescale(made, "INT16", 1 / 128)


def _clamp(b: Builder, x: Value, p: Parameters) -> Value:
    low, high = sorted(p["limits"])
    factor = 1 if x.dtype == "INT8" else 250
    bounds = [list(np.asarray([v * factor], NUMPY[x.dtype]).view(np.uint8)) for v in (low, high)]
    return b.add(
        "CLAMP",
        [x],
        x.shape,
        x.dtype,
        [int(v) for v in bounds[0]],
        [int(v) for v in bounds[1]],
        attribute="Clamp",
        nan_mode=ts.NanPropagationMode.PROPAGATE,
    )


def _reduce(b: Builder, x: Value, p: Parameters, kind: str) -> Value:
    axis = p["axis"] % len(x.shape)
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    if kind == "SUM":
        # Vela 5.1.0 compiles more places wrongly for U85; the product writes them as a rectangle.
        if x.shape[axis] > 1 << 16:
            raise Impossible("places")
        zero = _zero(b.generator, x.dtype)
        wide = b.rescale(x, "INT32", 1.0, (zero, 0))
        made = b.add("REDUCE_SUM", [wide], shape, "INT32", attribute="ReduceSum", axis=axis)
        return b.rescale(made, x.dtype, 1 / x.shape[axis], (0, zero), p["rounding"])
    return b.add(
        f"REDUCE_{kind}",
        [x],
        shape,
        x.dtype,
        attribute=f"Reduce{kind.capitalize()}",
        axis=axis,
        nan_mode=ts.NanPropagationMode.PROPAGATE,
    )


def _layout(  # noqa: PLR0911 - one for each kind
    b: Builder, x: Value, p: Parameters, kind: str
) -> Value:
    g, rank = b.generator, len(x.shape)
    axis = p["axis"] % rank
    shape = list(x.shape)
    if kind == "TRANSPOSE":
        order = [axis_ for axis_ in p["order"] if axis_ < rank]
        if order[0] != 0 and shape[0] != 1:
            raise Impossible("batch")
        return b.add("TRANSPOSE", [x], [shape[i] for i in order], x.dtype, order, attribute="Transpose")
    if kind == "RESHAPE":
        shape = [1, int(np.prod(shape[1:-1])) if rank > 2 else 1, 1, shape[-1]]
        if x.shape[0] != 1:
            raise Impossible("batch")
        return b.add("RESHAPE", [x, b.shape(shape)], shape, x.dtype, attribute="Reshape")
    if axis == 0:
        raise Impossible("batch")
    if kind == "SLICE":
        begin = p["amount"] % shape[axis]
        start = [begin if i == axis else 0 for i in range(rank)]
        shape[axis] -= begin
        return b.add("SLICE", [x, b.shape(start), b.shape(shape)], shape, x.dtype, attribute="Slice")
    if kind == "CONCAT":
        limits = np.iinfo(NUMPY[x.dtype])
        other = [p["amount"] + 1 if i == axis else n for i, n in enumerate(shape)]
        values = g.integers(limits.min, limits.max, other, endpoint=True)
        second = x if p["self"] else _earlier(b, x, p, axis) or b.constant(values, x.dtype)
        shape[axis] += second.shape[axis]
        return b.add("CONCAT", [x, second], shape, x.dtype, axis, attribute="Concat")
    if kind == "PAD":
        pads = [(p["amount"], p["after"]) if i == axis else (0, 0) for i in range(rank)]
        shape[axis] += p["amount"] + p["after"]
        flat = [value for pair in pads for value in pair]
        zero = b.zero(x.dtype, _zero(g, x.dtype))
        return b.add("PAD", [x, b.shape(flat), zero], shape, x.dtype, attribute="Pad")
    if kind == "REVERSE":
        return b.add("REVERSE", [x], shape, x.dtype, axis, attribute="Reverse")
    times = [2 if i == axis else 1 for i in range(rank)]
    shape[axis] *= 2
    return b.add("TILE", [x, b.shape(times)], shape, x.dtype, attribute="Tile")


def _resize(b: Builder, x: Value, p: Parameters) -> Value:
    if len(x.shape) != 4:
        raise Impossible("rank")
    n, h, w, c = x.shape
    k = p["factor"]
    bilinear = p["bilinear"]
    scale = [2 * k, 2, 2 * k, 2] if bilinear and p["half"] else [k, 1, k, 1]
    offset = [1 - k, 1 - k] if bilinear and p["half"] else [0, 0]
    border = [k - 1, k - 1] if bilinear and p["half"] else [0, 0]
    numerator, denominator = scale[0], scale[1]
    out = [
        ((size - 1) * numerator - off + bor) // denominator + 1
        for size, off, bor in zip((h, w), offset, border, strict=True)
    ]
    if any(
        ((size - 1) * numerator - off + bor) % denominator
        for size, off, bor in zip((h, w), offset, border, strict=True)
    ):
        raise Impossible("border")
    wide = x.dtype if not bilinear else ("INT32" if x.dtype == "INT8" else "INT48")
    mode = ts.ResizeMode.BILINEAR if bilinear else ts.ResizeMode.NEAREST
    made = b.add(
        "RESIZE",
        [x, b.shape(scale), b.shape(offset), b.shape(border)],
        (n, *out, c),
        wide,
        mode,
        attribute="Resize",
    )
    if not bilinear:
        return made
    return b.rescale(made, x.dtype, 1.0 / (numerator * numerator))


def _matmul(b: Builder, x: Value, p: Parameters) -> Value:
    rows, columns = int(np.prod(x.shape[:-1])), x.shape[-1]
    flat = b.add(
        "RESHAPE", [x, b.shape([1, rows, columns])], (1, rows, columns), x.dtype, attribute="Reshape"
    )
    turned = b.add("TRANSPOSE", [flat], (1, columns, rows), x.dtype, [0, 2, 1], attribute="Transpose")
    zero = b.zero(x.dtype, _zero(b.generator, x.dtype))
    wide = "INT32" if x.dtype == "INT8" else "INT48"
    made = b.add("MATMUL", [flat, turned, zero, zero], (1, rows, rows), wide, attribute="MatMul")
    level = 1 / (80 * np.sqrt(columns)) if x.dtype == "INT8" else 1 / (20000 * np.sqrt(columns))
    return b.rescale(made, x.dtype, level, (0, 0), p["rounding"])


Build = Callable[[Builder, Value, Parameters], Value]
OPERATIONS: dict[str, Build] = {
    "conv": lambda b, x, p: _convolution(b, x, p, "plain"),
    "depthwise": lambda b, x, p: _convolution(b, x, p, "depthwise"),
    "transpose conv": lambda b, x, p: _convolution(b, x, p, "transpose"),
    "max pool": lambda b, x, p: _pool(b, x, p, "max"),
    "average pool": lambda b, x, p: _pool(b, x, p, "average"),
    **{
        kind.lower(): lambda b, x, p, kind=kind: _binary(b, x, p, kind)
        for kind in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")
    },
    "table": _table,
    "clamp": _clamp,
    **{
        f"reduce {kind.lower()}": lambda b, x, p, kind=kind: _reduce(b, x, p, kind)
        for kind in ("MAX", "MIN", "SUM")
    },
    **{
        kind.lower(): lambda b, x, p, kind=kind: _layout(b, x, p, kind)
        for kind in ("TRANSPOSE", "RESHAPE", "SLICE", "CONCAT", "PAD", "REVERSE", "TILE")
    },
    "resize": _resize,
    "matmul": _matmul,
}


def drawn(seed: int) -> Case:
    """Return the program of a seed."""
    g = np.random.default_rng(seed)
    sizes = [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17]
    shape = (1, int(g.choice(sizes)), int(g.choice(sizes)), int(g.choice([*sizes, 24, 33])))
    operations = []
    for _ in range(int(g.integers(1, 6))):
        parameters: Parameters = {
            "kernel": [int(v) for v in g.integers(1, 5, 2)],
            "stride": [int(v) for v in (g.integers(1, 4, 2) if g.random() < 0.5 else (1, 1))],
            "dilation": [int(v) for v in (g.integers(1, 5, 2) if g.random() < 0.25 else (1, 1))],
            "pad": [int(v) for v in g.integers(0, 3, 2)],
            "channels": int(g.choice([*sizes, 32, 40])),
            "multiplier": int(g.choice([1, 1, 1, 2])),
            "density": float(g.choice([1.0, 1.0, 0.5, 0.1])),
            "per_channel": bool(g.random() < 0.6),
            "rounding": int(g.random() < 0.2),
            "broadcast": [axis for axis in range(1, 4) if g.random() < 0.25],
            "self": bool(g.random() < 0.2),
            "limits": [int(v) for v in g.integers(-128, 128, 2)],
            "axis": int(g.integers(0, 4)),
            "order": [0, *(int(v) for v in g.permutation([1, 2, 3]))],
            "amount": int(g.integers(0, 4)),
            "after": int(g.integers(0, 4)),
            "factor": int(g.choice([2, 2, 3, 4])),
            "bilinear": bool(g.random() < 0.5),
            "half": bool(g.random() < 0.5),
            "back": int(g.choice([0, 0, 0, 0, 0, 1, 2])),
            "with": int(g.choice([0, 0, 0, 1, 2])),
        }
        operations.append((str(g.choice(list(OPERATIONS))), parameters))
    device = str(g.choice(list(DEVICES)))
    dtype = "INT16" if g.random() < 0.35 else "INT8"
    shape = (2 if g.random() < 0.15 else 1, *shape[1:])
    return Case(seed, device, dtype, shape, tuple(operations))


# Batches, odd sides, maps of more than 65,536 pixels, sound of 16,000 samples, and maps beyond the SRAM
# that the memory modes leave: 384 KiB on U85.
_LARGE = (
    (1, 300, 300, 3),
    (1, 257, 131, 5),
    (3, 33, 47, 8),
    (1, 1, 16000, 1),
    (1, 16000, 1, 2),
    (5, 1, 401, 4),
    (2, 65, 64, 16),
    (1, 120, 161, 40),
)
_RESIZED = 1000


def enlarged(case: Case) -> Case:
    """Return a program with a large input, and strides up to 6.

    The reference model ends its process at a resize of 16,384 places or more.
    """
    g = np.random.default_rng([case.seed, 3])
    operations = tuple(
        (name, {**parameters, "stride": [int(v) for v in g.integers(1, 7, 2)]})
        for name, parameters in case.operations[:3]
    )
    resizes = any(name == "resize" for name, _ in operations)
    shapes = [shape for shape in _LARGE if max(shape) < _RESIZED or not resizes]
    return replace(case, shape=shapes[int(g.integers(len(shapes)))], operations=operations)


def program_of(case: Case) -> bytes:
    """Return the TOSA flatbuffer of a case.

    Raises:
        Impossible: an operation does not fit the value it gets.
    """
    # Maps of a large input may have more channels than it, beyond the SRAM.
    most = max(Builder.most, 3 * math.prod(case.shape))
    builder = Builder(np.random.default_rng([case.seed, 1]), most)
    graph = builder.graph
    tensor = ts.TosaSerializerTensor("input", list(case.shape), getattr(ts.DType, case.dtype))
    graph.addInputTensor(tensor)
    values = builder.values
    values.append(Value("input", case.shape, case.dtype))
    for name, parameters in case.operations:
        source = values[max(0, len(values) - 1 - parameters.get("back", 0))]
        values.append(OPERATIONS[name](builder, source, parameters))
    block = graph.currRegion.currBasicBlock
    read = {name for operator in block.operators for name in operator.inputs}
    outputs = [value for value in values if value.name not in read]
    if not any(value.name != "input" for value in outputs) or values[0] in outputs:
        raise Impossible("nothing is computed")
    for value in outputs:
        graph.addOutputTensor(block.tensors[value.name])
    return bytes(graph.serialize())
