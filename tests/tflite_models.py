"""Writes TensorFlow Lite models of random integers: single operators, chains, whole networks.

The tables come from LiteRT's own schema, so that nothing of the product writes what it reads.
"""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_TYPES = {name: getattr(schema.TensorType, name.upper()) for name in ("int8", "int16", "int32")}
_TYPES["int64"] = schema.TensorType.INT64
_TYPES["float32"], _TYPES["bool"] = schema.TensorType.FLOAT32, schema.TensorType.BOOL
SAME, VALID = schema.Padding.SAME, schema.Padding.VALID


class Tensor:
    """A tensor of a model: index, shape, type, scale and zero point."""

    def __init__(self, index, shape, dtype, scale, zero):
        self.index, self.shape, self.dtype = index, tuple(shape), dtype
        self.scale, self.zero = scale, zero


class Writer:
    """A model in the making. Scales and constants are drawn from the seed.

    Args:
        seed: Of everything random.
        dtype: Of activations, "int8" or "int16".
    """

    def __init__(self, seed=0, dtype="int8"):
        self.random, self.dtype = np.random.default_rng(seed), dtype
        self._model = schema.ModelT()
        self._model.version, self._model.description = 3, "random"
        self._model.buffers = [schema.BufferT()]
        self._model.operatorCodes = []
        self._graph = schema.SubGraphT()
        self._graph.name, self._graph.tensors, self._graph.operators = "main", [], []
        self._graph.inputs, self._model.subgraphs = [], [self._graph]

    def tensor(self, shape, dtype=None, scale=None, zero=None, data=None, axis=0):
        """Add a tensor; one with data is a constant."""
        dtype = dtype or self.dtype
        made = schema.TensorT()
        made.shape, made.type = [int(size) for size in shape], _TYPES[dtype]
        made.name = f"t{len(self._graph.tensors)}"
        made.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self._model.buffers.append(buffer)
            made.buffer = len(self._model.buffers) - 1
        if scale is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = [float(one) for one in np.atleast_1d(scale)]
            made.quantization.zeroPoint = [int(one) for one in np.atleast_1d(zero)]
            made.quantization.quantizedDimension = axis
        self._graph.tensors.append(made)
        return Tensor(len(self._graph.tensors) - 1, shape, dtype, scale, zero)

    def activation(self, shape, like=None, scale=None, zero=None):
        """Add an activation with a drawn grid, or with the grid of another one."""
        if like is not None:
            return self.tensor(shape, like.dtype, like.scale, like.zero)
        if scale is None:
            low, high = (0.01, 0.1) if self.dtype == "int8" else (1e-4, 1e-3)
            scale = float(np.float32(self.random.uniform(low, high)))
        if zero is None:
            zero = int(self.random.integers(-20, 20)) if self.dtype == "int8" else 0
        return self.tensor(shape, self.dtype, scale, zero)

    def input(self, *shape, **grid):
        """Add an input of the model."""
        made = self.activation(shape, **grid)
        self._graph.inputs.append(made.index)
        return made

    def constant(self, values, **grid):
        """Add a constant."""
        values = np.asarray(values)
        return self.tensor(values.shape, str(values.dtype), data=values, **grid)

    def call(self, name, inputs, outputs, options=None, version=1, **fields):
        """Add an operator; ``options`` is the name of its table, ``fields`` are its fields."""
        number = getattr(schema.BuiltinOperator, name)
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        code.version = version
        self._model.operatorCodes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex = len(self._model.operatorCodes) - 1
        made.inputs = [one.index for one in inputs]
        made.outputs = [one.index for one in outputs]
        if options is not None:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            made.builtinOptions = getattr(schema, f"{options}T")()
            for field, value in fields.items():
                assert hasattr(made.builtinOptions, field), field
                setattr(made.builtinOptions, field, value)
        self._graph.operators.append(made)
        return outputs[0] if len(outputs) == 1 else outputs

    def done(self, *outputs):
        """Return the bytes of the model."""
        self._graph.outputs = [one.index for one in outputs]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def convolution(w, x, channels, kernel=3, stride=1, *, depthwise=False, activation=0, **options):
    """Add a convolution, or a depthwise one, with a scale for each channel.

    Kernel and stride are a number, or height and width.
    """
    batch, height, width, depth = x.shape
    kernel, stride = (np.broadcast_to(pair, 2).tolist() for pair in (kernel, stride))
    if depthwise:
        channels, shape, axis = depth, (1, *kernel, depth), 3
    else:
        shape, axis = (channels, *kernel, depth), 0
    weights = w.random.integers(-127, 128, shape).astype(np.int8)
    taps = kernel[0] * kernel[1] * (1 if depthwise else depth)
    scales = (w.random.uniform(0.5, 1.5, channels) / (127 * taps**0.5)).astype(np.float32)
    zeros = np.zeros(channels, int)
    kind = np.int32 if w.dtype == "int8" else np.int64
    bias = w.random.integers(-500, 500, channels).astype(kind)
    padding = options.get("padding", SAME)
    size = [
        -(-side // step) if padding == SAME else (side - taps) // step + 1
        for side, taps, step in zip((height, width), kernel, stride, strict=True)
    ]
    y = w.activation((batch, *size, channels))
    ins = [
        x,
        w.constant(weights, scale=scales, zero=zeros, axis=axis),
        w.constant(bias, scale=scales * np.float32(x.scale), zero=zeros),
    ]
    fields = {
        "strideW": stride[1],
        "strideH": stride[0],
        "dilationWFactor": 1,
        "dilationHFactor": 1,
        "padding": padding,
        "fusedActivationFunction": activation,
    }
    if depthwise:
        fields["depthMultiplier"] = 1
        return w.call("DEPTHWISE_CONV_2D", ins, [y], "DepthwiseConv2DOptions", 3, **fields)
    return w.call("CONV_2D", ins, [y], "Conv2DOptions", 3, **fields)


def transposed_convolution(w, x, channels, kernel=3, stride=2):
    """Add a transposed convolution that gives ``stride`` times the sides of its input."""
    batch, height, width, depth = x.shape
    weights = w.random.integers(-127, 128, (channels, kernel, kernel, depth)).astype(np.int8)
    scales = (w.random.uniform(0.5, 1.5, channels) / (127 * kernel * depth**0.5)).astype(np.float32)
    zeros = np.zeros(channels, int)
    shape = (batch, height * stride, width * stride, channels)
    kind = np.int32 if w.dtype == "int8" else np.int64
    bias = w.random.integers(-500, 500, channels).astype(kind)
    ins = [
        w.constant(np.array(shape, np.int32)),
        w.constant(weights, scale=scales, zero=zeros, axis=0),
        x,
        w.constant(bias, scale=scales * np.float32(x.scale), zero=zeros),
    ]
    fields = {"padding": SAME, "strideW": stride, "strideH": stride}
    return w.call("TRANSPOSE_CONV", ins, [w.activation(shape)], "TransposeConvOptions", 3, **fields)


def fully_connected(w, x, channels, activation=0):
    """Add a fully connected layer of the last axis."""
    depth = x.shape[-1]
    weights = w.random.integers(-127, 128, (channels, depth)).astype(np.int8)
    scale = float(np.float32(1 / (127 * depth**0.5)))
    kind = np.int32 if w.dtype == "int8" else np.int64
    bias = w.random.integers(-500, 500, channels).astype(kind)
    y = w.activation((*x.shape[:-1], channels))
    ins = [
        x,
        w.constant(weights, scale=scale, zero=0),
        w.constant(bias, scale=float(np.float32(scale) * np.float32(x.scale)), zero=0),
    ]
    return w.call("FULLY_CONNECTED", ins, [y], "FullyConnectedOptions", 4, fusedActivationFunction=activation)


def binary(w, name, a, b, activation=0):
    """Add ADD, SUB, MUL, MINIMUM or MAXIMUM."""
    options = {"MINIMUM": "MaximumMinimumOptions", "MAXIMUM": "MaximumMinimumOptions"}
    shape = np.broadcast_shapes(a.shape, b.shape)
    if name in options:
        return w.call(name, [a, b], [w.activation(shape, like=a)], options[name], 2)
    table = f"{name.capitalize()}Options"
    y = w.activation(shape)
    return w.call(name, [a, b], [y], table, 2, fusedActivationFunction=activation)


def pool(w, name, x, kernel=2, stride=2, padding=VALID):
    """Add AVERAGE_POOL_2D or MAX_POOL_2D; the kernel is a side, or height and width."""
    height, width = np.broadcast_to(kernel, 2).tolist()
    sides = [
        -(-side // stride) if padding == SAME else (side - size) // stride + 1
        for side, size in zip(x.shape[1:3], (height, width), strict=True)
    ]
    y = w.activation((x.shape[0], *sides, x.shape[3]), like=x)
    return w.call(
        name,
        [x],
        [y],
        "Pool2DOptions",
        2,
        padding=padding,
        strideW=stride,
        strideH=stride,
        filterWidth=width,
        filterHeight=height,
    )


def function(w, name, x):
    """Add a function of each element, with the grid that TensorFlow Lite asks for."""
    grids = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128)}
    if name in grids:
        scale, zero = grids[name] if x.dtype == "int8" else (1 / 32768, 0)
        y = w.activation(x.shape, scale=scale, zero=zero)
    elif name in ("ABS", "RELU", "RELU6", "RELU_N1_TO_1"):
        y = w.activation(x.shape, like=x)
    else:
        y = w.activation(x.shape)
    if name == "SOFTMAX":
        return w.call(name, [x], [y], "SoftmaxOptions", 2, beta=1.0)
    if name == "LEAKY_RELU":
        return w.call(name, [x], [y], "LeakyReluOptions", 2, alpha=0.1)
    return w.call(name, [x], [y], None, 1 if name in ("HARD_SWISH", "RELU_N1_TO_1") else 2)


def mean(w, x, axes=(1, 2), keep=True):
    """Add MEAN over axes."""
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    if not keep:
        shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
    ins = [x, w.constant(np.array(axes, np.int32))]
    return w.call("MEAN", ins, [w.activation(shape)], "ReducerOptions", 2, keepDims=keep)


def resize(w, name, x, size):
    """Add RESIZE_NEAREST_NEIGHBOR or RESIZE_BILINEAR."""
    y = w.activation((1, *size, x.shape[3]), like=x)
    ins = [x, w.constant(np.array(size, np.int32))]
    table = "".join(part.capitalize() for part in name.split("_")) + "Options"
    half = {"halfPixelCenters": True} if name == "RESIZE_BILINEAR" else {}
    return w.call(name, ins, [y], table, 3, **half)


def joined(w, parts, axis=-1):
    """Add CONCATENATION of tensors with one grid."""
    axis %= len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    y = w.activation(shape, like=parts[0])
    return w.call("CONCATENATION", parts, [y], "ConcatenationOptions", 2, axis=axis)


def padded(w, x, sides):
    """Add PAD with the zero point."""
    shape = [size + sum(side) for size, side in zip(x.shape, sides, strict=True)]
    ins = [x, w.constant(np.array(sides, np.int32))]
    return w.call("PAD", ins, [w.activation(shape, like=x)], "PadOptions", 2)


def reshaped(w, x, shape):
    """Add RESHAPE."""
    ins = [x, w.constant(np.array(shape, np.int32))]
    y = w.activation(shape, like=x)
    return w.call("RESHAPE", ins, [y], "ReshapeOptions", newShape=list(shape))


def turned(w, x, order):
    """Add TRANSPOSE."""
    ins = [x, w.constant(np.array(order, np.int32))]
    y = w.activation([x.shape[axis] for axis in order], like=x)
    return w.call("TRANSPOSE", ins, [y], "TransposeOptions", 2)


def sliced(w, x, first, size):
    """Add SLICE."""
    ins = [x, w.constant(np.array(first, np.int32)), w.constant(np.array(size, np.int32))]
    return w.call("SLICE", ins, [w.activation(size, like=x)], "SliceOptions", 2)


def split(w, x, parts, axis):
    """Add SPLIT into equal parts."""
    shape = list(x.shape)
    shape[axis] //= parts
    ins = [w.constant(np.array(axis, np.int32)), x]
    outs = [w.activation(shape, like=x) for _ in range(parts)]
    return w.call("SPLIT", ins, outs, "SplitOptions", 2, numSplits=parts)


def requantized(w, x):
    """Add QUANTIZE to another grid of the same type."""
    return w.call("QUANTIZE", [x], [w.activation(x.shape)], "QuantizeOptions", 1)
