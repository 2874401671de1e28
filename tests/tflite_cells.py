"""Single operators and short chains of TensorFlow Lite beside those of ``litert_search``: cells by name.

Each function adds its operators to a writer and returns the outputs; the writer's type is that of the
activations.
"""

import numpy as np

from tests import tflite_models as ops


def _ints(*values):
    return np.array(values, np.int32)


def _with(w, name, x, shape, constants=(), *, table=None, version=1, grid=True, **fields):
    """Add an operator whose other inputs are constants of int32, on the grid of its input or its own."""
    y = w.activation(shape, like=x if grid else None)
    ins = [x, *(w.constant(np.array(one, np.int32)) for one in constants)]
    return w.call(name, ins, [y], table, version, **fields)


def prelu(w):
    x = w.input(1, 6, 7, 5)
    slopes = w.constant(w.random.integers(-100, 100, (1, 1, 5)).astype(w.dtype), scale=0.004, zero=0)
    return w.call("PRELU", [x, slopes], [w.activation(x.shape)])


def squared_difference(w):
    a, b = w.input(1, 6, 7, 5), w.input(1, 6, 7, 5)
    y = w.activation(a.shape)
    return w.call("SQUARED_DIFFERENCE", [a, b], [y], "SquaredDifferenceOptions", 2)


def _of_two(name, a_shape, b_shape):
    def cell(w):
        return ops.binary(w, name, w.input(*a_shape), w.input(*b_shape))

    return cell


def _of_same(name):
    """Two inputs on one grid, as minimum and maximum have them."""

    def cell(w):
        a = w.input(1, 6, 7, 5)
        b = w.input(1, 6, 7, 5, scale=a.scale, zero=a.zero)
        return ops.binary(w, name, a, b)

    return cell


def with_constant(name):
    def cell(w):
        x = w.input(1, 6, 7, 5)
        values = w.random.integers(-100, 100, (5,)).astype(w.dtype)
        other = w.constant(values, scale=x.scale if name in ("MINIMUM", "MAXIMUM") else 0.02, zero=x.zero)
        return ops.binary(w, name, x, other)

    return cell


def with_activation(name, activation):
    def cell(w):
        return ops.binary(w, name, w.input(1, 6, 7, 5), w.input(1, 6, 7, 5), activation)

    return cell


def _function(name):
    def cell(w):
        return ops.function(w, name, w.input(1, 6, 7, 5))

    return cell


def exponential(w):
    x = w.input(1, 6, 7, 5, scale=0.02 if w.dtype == "int8" else 1e-4)
    y = w.activation(
        x.shape, scale=0.05 if w.dtype == "int8" else 8e-4, zero=None if w.dtype == "int16" else -120
    )
    return w.call("EXP", [x], [y], "ExpOptions", 2)


def logarithm(w):
    least = -128 if w.dtype == "int8" else 0
    x = w.input(1, 6, 7, 5, scale=0.02 if w.dtype == "int8" else 1e-4, zero=least)
    y = w.activation(x.shape, scale=0.05 if w.dtype == "int8" else 5e-4)
    return w.call("LOG", [x], [y], None, 2)


def inverse_root(w):
    x = w.input(1, 6, 7, 5, scale=0.02, zero=-128)
    return w.call("RSQRT", [x], [w.activation(x.shape, scale=0.03, zero=-128)], None, 2)


def gelu(w):
    x = w.input(1, 6, 7, 5)
    return w.call("GELU", [x], [w.activation(x.shape)], "GeluOptions", 1, approximate=False)


def negation(w):
    x = w.input(1, 6, 7, 5, zero=0)
    return w.call("NEG", [x], [w.activation(x.shape, like=x)], "NegOptions", 1)


def space_to_depth(w):
    return _with(
        w,
        "SPACE_TO_DEPTH",
        w.input(1, 6, 8, 5),
        (1, 3, 4, 20),
        table="SpaceToDepthOptions",
        version=2,
        blockSize=2,
    )


def depth_to_space(w):
    return _with(
        w,
        "DEPTH_TO_SPACE",
        w.input(1, 3, 4, 20),
        (1, 6, 8, 5),
        table="DepthToSpaceOptions",
        version=2,
        blockSize=2,
    )


def space_to_batch(w):
    x = w.input(1, 6, 8, 5)
    return _with(
        w,
        "SPACE_TO_BATCH_ND",
        x,
        (4, 3, 4, 5),
        [(2, 2), ((0, 0), (0, 0))],
        table="SpaceToBatchNDOptions",
        version=3,
    )


def batch_to_space(w):
    x = w.input(4, 3, 4, 5)
    return _with(
        w,
        "BATCH_TO_SPACE_ND",
        x,
        (1, 6, 8, 5),
        [(2, 2), ((0, 0), (0, 0))],
        table="BatchToSpaceNDOptions",
        version=3,
    )


def dilated(w):
    """A dilated convolution as TensorFlow writes it: with space to batch, and back."""
    x = w.input(1, 8, 8, 4)
    apart = _with(
        w,
        "SPACE_TO_BATCH_ND",
        x,
        (4, 6, 6, 4),
        [(2, 2), ((2, 2), (2, 2))],
        table="SpaceToBatchNDOptions",
        version=3,
    )
    y = ops.convolution(w, apart, 6, 3, padding=ops.VALID)
    return _with(
        w,
        "BATCH_TO_SPACE_ND",
        y,
        (1, 8, 8, 6),
        [(2, 2), ((0, 0), (0, 0))],
        table="BatchToSpaceNDOptions",
        version=3,
    )


def strided_slice(w):
    x = w.input(1, 9, 8, 5)
    ends = [(0, 1, 0, 0), (1, 9, 8, 5), (1, 2, 3, 1)]
    return _with(w, "STRIDED_SLICE", x, (1, 4, 3, 5), ends, table="StridedSliceOptions", version=2)


def strided_slice_of_masks(w):
    x = w.input(1, 9, 8, 5)
    ends = [(0, 2, 0, 1), (1, 7, 0, 2), (1, 1, 1, 1)]
    return _with(
        w,
        "STRIDED_SLICE",
        x,
        (1, 5, 8),
        ends,
        table="StridedSliceOptions",
        version=2,
        beginMask=1,
        endMask=4,
        shrinkAxisMask=8,
    )


def packed(w):
    a = w.input(1, 6, 5)
    b = w.input(1, 6, 5, scale=a.scale, zero=a.zero)
    y = w.activation((1, 2, 6, 5), like=a)
    return w.call("PACK", [a, b], [y], "PackOptions", 2, valuesCount=2, axis=1)


def unpacked(w):
    x = w.input(1, 3, 6, 5)
    parts = [w.activation((1, 6, 5), like=x) for _ in range(3)]
    w.call("UNPACK", [x], parts, "UnpackOptions", 2, num=3, axis=1)
    return parts[2], parts[0]


def split_unevenly(w):
    x = w.input(1, 6, 7, 9)
    parts = [w.activation((1, 6, 7, size), like=x) for size in (2, 3, 4)]
    ins = [x, w.constant(_ints(2, 3, 4)), w.constant(np.array(3, np.int32))]
    w.call("SPLIT_V", ins, parts, "SplitVOptions", 2, numSplits=3)
    return tuple(parts)


def split_evenly(w):
    return tuple(ops.split(w, w.input(1, 6, 8, 5), 2, 2))


def expanded(w):
    return _with(w, "EXPAND_DIMS", w.input(6, 7, 5), (1, 6, 7, 5), [0], table="ExpandDimsOptions", version=1)


def squeezed(w):
    return _with(
        w, "SQUEEZE", w.input(1, 6, 1, 5), (1, 6, 5), table="SqueezeOptions", version=1, squeezeDims=[2]
    )


def tiled(w):
    return _with(
        w, "TILE", w.input(1, 3, 4, 5), (1, 6, 4, 10), [(1, 2, 1, 2)], table="TileOptions", version=2
    )


def reversed_rows(w):
    return _with(
        w, "REVERSE_V2", w.input(1, 6, 7, 5), (1, 6, 7, 5), [[2]], table="ReverseV2Options", version=3
    )


def gathered(w):
    x = w.input(1, 6, 7, 5)
    return _with(w, "GATHER", x, (1, 3, 7, 5), [(5, 0, 2)], table="GatherOptions", version=3, axis=1)


def mirrored(mode):
    def cell(w):
        x = w.input(1, 6, 7, 5)
        sides = [((0, 0), (2, 1), (1, 2), (0, 0))]
        return _with(w, "MIRROR_PAD", x, (1, 9, 10, 5), sides, table="MirrorPadOptions", version=2, mode=mode)

    return cell


def padded_with(w):
    x = w.input(1, 6, 7, 5)
    ins = [
        x,
        w.constant(np.array(((0, 0), (1, 2), (0, 1), (0, 0)), np.int32)),
        w.constant(np.array([17], w.dtype), scale=x.scale, zero=x.zero),
    ]
    return w.call("PADV2", ins, [w.activation((1, 9, 8, 5), like=x)], "PadV2Options", 2)


def padded_channels(w):
    return ops.padded(w, w.input(1, 6, 7, 5), [(0, 0), (0, 0), (0, 0), (1, 2)])


def _reduced(name, axes, *, grid=True):
    def cell(w):
        x = w.input(1, 6, 7, 5)
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        return _with(w, name, x, shape, [axes], table="ReducerOptions", version=2, grid=grid, keepDims=True)

    return cell


def total(w):
    """A sum whose grid is coarser than that of its input, as a sum's is."""
    x = w.input(1, 6, 7, 5)
    y = w.activation((1, 6, 7, 1), scale=4 * x.scale)
    return w.call("SUM", [x, w.constant(_ints(3))], [y], "ReducerOptions", 2, keepDims=True)


def mean_of(axes, shape=(1, 6, 7, 5)):
    def cell(w):
        return ops.mean(w, w.input(*shape), axes)

    return cell


def largest_place(w):
    x = w.input(1, 6, 7, 5)
    y = w.tensor((1, 6, 7), "int32")
    return w.call("ARG_MAX", [x, w.constant(np.array(3, np.int32))], [y], "ArgMaxOptions", 2, outputType=2)


def matrix_product(w):
    a, b = w.input(1, 3, 6, 5), w.input(1, 3, 5, 7)
    y = w.activation((1, 3, 6, 7), scale=0.3 if w.dtype == "int8" else 0.004)
    return w.call("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions", 3, adjX=False, adjY=False)


def matrix_product_turned(w):
    a, b = w.input(1, 3, 6, 5), w.input(1, 3, 7, 5)
    y = w.activation((1, 3, 6, 7), scale=0.3 if w.dtype == "int8" else 0.004)
    return w.call("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions", 3, adjX=False, adjY=True)


def transposed(w):
    return ops.transposed_convolution(w, w.input(1, 5, 6, 8), 4)


def transposed_once(w):
    return ops.transposed_convolution(w, w.input(1, 5, 6, 8), 4, stride=1)


def _resized(name, size, **fields):
    def cell(w):
        x = w.input(1, 5, 6, 8)
        y = w.activation((1, *size, 8), like=x)
        table = "".join(part.capitalize() for part in name.split("_")) + "Options"
        return w.call(name, [x, w.constant(_ints(*size))], [y], table, 3, **fields)

    return cell


def _turned(order, shape=(1, 6, 7, 5)):
    def cell(w):
        return ops.turned(w, w.input(*shape), order)

    return cell


def joined_grids(w):
    """Parts on grids of their own, each put on the grid of the result by itself first."""
    x, y = w.input(1, 6, 7, 5), w.input(1, 6, 7, 3)
    return ops.joined(w, [x, w.call("QUANTIZE", [y], [w.activation(y.shape, like=x)], "QuantizeOptions", 1)])


def to_other_type(w):
    x = w.input(1, 6, 7, 5)
    y = w.tensor(x.shape, "int16" if w.dtype == "int8" else "int8", 0.001 if w.dtype == "int8" else 0.01, 0)
    return w.call("QUANTIZE", [x], [y], "QuantizeOptions", 1)


def compared(name):
    """A comparison that chooses: SELECT_V2 between both sides."""

    def cell(w):
        a = w.input(1, 6, 7, 5)
        b = w.input(1, 6, 7, 5, scale=a.scale, zero=a.zero)
        table = "".join(part.capitalize() for part in name.split("_")) + "Options"
        mask = w.call(name, [a, b], [w.tensor(a.shape, "bool")], table, 2)
        y = w.activation(a.shape, like=a)
        return w.call("SELECT_V2", [mask, a, b], [y], "SelectV2Options", 1)

    return cell


def grouped(w):
    """A convolution in groups: the weights have fewer channels than the input."""
    x = w.input(1, 6, 7, 8)
    weights = w.random.integers(-127, 128, (6, 3, 3, 4)).astype(np.int8)
    scales, zeros = np.full(6, 0.002, np.float32), np.zeros(6, int)
    kind = np.int32 if w.dtype == "int8" else np.int64
    ins = [
        x,
        w.constant(weights, scale=scales, zero=zeros, axis=0),
        w.constant(
            w.random.integers(-500, 500, 6).astype(kind), scale=scales * np.float32(x.scale), zero=zeros
        ),
    ]
    fields = {"strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1, "padding": ops.SAME}
    return w.call("CONV_2D", ins, [w.activation((1, 6, 7, 6))], "Conv2DOptions", 3, **fields)


def _convolution(weights, out, table="Conv2DOptions", *, bias=True, axis=0, **fields):
    """A convolution with given sizes of weights and result, and options of its own."""

    def cell(w):
        depth = weights[3] if axis == 0 else weights[3] // fields.get("depthMultiplier", 1)
        x = w.input(1, 9, 8, depth)
        channels = out[3]
        values = w.random.integers(-127, 128, weights).astype(np.int8)
        scales, zeros = w.random.uniform(0.001, 0.003, channels).astype(np.float32), np.zeros(channels, int)
        ins = [x, w.constant(values, scale=scales, zero=zeros, axis=axis)]
        kind = np.int32 if w.dtype == "int8" else np.int64
        if bias:
            summands = w.random.integers(-500, 500, channels).astype(kind)
            ins.append(w.constant(summands, scale=scales * np.float32(x.scale), zero=zeros))
        options = {
            "strideW": 1,
            "strideH": 1,
            "dilationWFactor": 1,
            "dilationHFactor": 1,
            "padding": ops.SAME,
        }
        name = "CONV_2D" if axis == 0 else "DEPTHWISE_CONV_2D"
        return w.call(name, ins, [w.activation(out)], table, 3, **(options | fields))

    return cell


def _depthwise(weights, out, **fields):
    return _convolution(weights, out, "DepthwiseConv2DOptions", axis=3, **({"depthMultiplier": 1} | fields))


def softmax_of(beta):
    def cell(w):
        x = w.input(1, 6, 20, scale=None if w.dtype == "int8" else 10 / 32768)
        scale, zero = (1 / 256, -128) if w.dtype == "int8" else (1 / 32768, 0)
        y = w.activation(x.shape, scale=scale, zero=zero)
        return w.call("SOFTMAX", [x], [y], "SoftmaxOptions", 2, beta=beta)

    return cell


def leaky(alpha):
    def cell(w):
        x = w.input(1, 6, 7, 5)
        return w.call("LEAKY_RELU", [x], [w.activation(x.shape)], "LeakyReluOptions", 2, alpha=alpha)

    return cell


def pool_with_relu(name):
    def cell(w):
        x = w.input(1, 8, 9, 5)
        fields = {"padding": ops.SAME, "strideW": 3, "strideH": 2, "filterWidth": 4, "filterHeight": 3}
        y = w.activation((1, 4, 3, 5), like=x)
        return w.call(name, [x], [y], "Pool2DOptions", 2, fusedActivationFunction=1, **fields)

    return cell


def rows_through_a_layer(w):
    return ops.fully_connected(w, w.input(6, 20), 9, activation=3)


def gated(w):
    """A squeeze and excitation: a mean, two layers, a hard sigmoid as tables, and a product."""
    x = ops.convolution(w, w.input(1, 8, 8, 6), 8)
    y = ops.convolution(w, ops.mean(w, x), 4, 1, activation=1)
    y = ops.convolution(w, y, 8, 1)
    return ops.binary(w, "MUL", x, ops.function(w, "HARD_SWISH" if w.dtype == "int8" else "RELU", y))


def unet(w):
    """A step down, a step up, and the picture beside it."""
    x = ops.convolution(w, w.input(1, 8, 8, 4), 6, activation=1)
    down = ops.convolution(w, ops.pool(w, "MAX_POOL_2D", x), 8, activation=1)
    up = ops.transposed_convolution(w, down, 6)
    beside = w.call("QUANTIZE", [x], [w.activation(x.shape, like=up)], "QuantizeOptions", 1)
    return ops.convolution(w, ops.joined(w, [up, beside]), 3, 1)


def pyramid(w):
    """Pools of three sizes side by side, joined."""
    x = ops.convolution(w, w.input(1, 9, 9, 4), 6, activation=1)
    parts = [ops.pool(w, "MAX_POOL_2D", x, kernel, 1, ops.SAME) for kernel in (3, 5, 7)]
    return ops.convolution(w, ops.joined(w, [x, *parts]), 8, 1)


def mixed_head(w):
    """Rows of a picture as a sequence through a layer, split in two, multiplied."""
    x = ops.reshaped(w, ops.convolution(w, w.input(1, 6, 6, 4), 8), (36, 8))
    a, b = ops.split(w, ops.fully_connected(w, x, 12), 2, 1)
    return ops.binary(w, "MUL", a, b, activation=1)


_FIVES = (1, 6, 7, 5)
CELLS = {
    "prelu": prelu,
    "squared_difference": squared_difference,
    "minimum": _of_same("MINIMUM"),
    "maximum": _of_same("MAXIMUM"),
    **{f"{n.lower()}_of_a_row": _of_two(n, _FIVES, (1, 1, 7, 5)) for n in ("ADD", "SUB", "MUL")},
    **{f"{n.lower()}_of_channels": _of_two(n, _FIVES, (1, 1, 1, 5)) for n in ("ADD", "SUB", "MUL")},
    **{f"{n.lower()}_of_a_column_and_a_row": _of_two(n, (1, 6, 1, 5), (1, 1, 7, 5)) for n in ("ADD", "MUL")},
    **{f"{n.lower()}_with_constant": with_constant(n) for n in ("ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM")},
    **{f"{n.lower()}_with_relu6": with_activation(n, 3) for n in ("ADD", "SUB", "MUL")},
    "relu_n1_to_1": _function("RELU_N1_TO_1"),
    "exp": exponential,
    "log": logarithm,
    "rsqrt": inverse_root,
    "gelu": gelu,
    "neg": negation,
    "space_to_depth": space_to_depth,
    "depth_to_space": depth_to_space,
    "space_to_batch": space_to_batch,
    "batch_to_space": batch_to_space,
    "dilated": dilated,
    "strided_slice": strided_slice,
    "strided_slice_of_masks": strided_slice_of_masks,
    "pack": packed,
    "unpack": unpacked,
    "split_v": split_unevenly,
    "split": split_evenly,
    "expand_dims": expanded,
    "squeeze": squeezed,
    "tile": tiled,
    "reverse": reversed_rows,
    "gather": gathered,
    "mirror_pad_reflect": mirrored(0),
    "mirror_pad_symmetric": mirrored(1),
    "pad_v2": padded_with,
    "pad_channels": padded_channels,
    "reduce_max": _reduced("REDUCE_MAX", (3,)),
    "reduce_min": _reduced("REDUCE_MIN", (1, 2)),
    "sum": total,
    "mean_of_rows": mean_of((1,)),
    "mean_of_channels": mean_of((3,)),
    "mean_of_a_batch": mean_of((1, 2), (2, 6, 7, 5)),
    "arg_max": largest_place,
    "batch_matmul": matrix_product,
    "batch_matmul_turned": matrix_product_turned,
    "transpose_conv": transposed,
    "transpose_conv_once": transposed_once,
    "resize_bilinear": _resized("RESIZE_BILINEAR", (10, 12)),
    "resize_bilinear_corners": _resized("RESIZE_BILINEAR", (9, 11), alignCorners=True),
    "resize_bilinear_centers": _resized("RESIZE_BILINEAR", (10, 12), halfPixelCenters=True),
    "resize_nearest": _resized("RESIZE_NEAREST_NEIGHBOR", (20, 24)),
    "resize_nearest_centers": _resized("RESIZE_NEAREST_NEIGHBOR", (10, 12), halfPixelCenters=True),
    "transpose_to_nchw": _turned((0, 3, 1, 2)),
    "transpose_to_nhwc": _turned((0, 2, 3, 1)),
    "transpose_of_two": _turned((1, 0), (6, 7)),
    "joined_grids": joined_grids,
    "to_other_type": to_other_type,
    **{f"select_{n.lower()}": compared(n) for n in ("GREATER", "LESS_EQUAL", "EQUAL")},
    "grouped": grouped,
    "conv_dilation": _convolution((6, 3, 3, 4), (1, 9, 8, 6), dilationWFactor=2, dilationHFactor=3),
    "conv_valid": _convolution((6, 3, 2, 4), (1, 4, 7, 6), padding=ops.VALID, strideH=2),
    "conv_without_bias": _convolution((6, 3, 3, 4), (1, 9, 8, 6), bias=False),
    "conv_stride_4": _convolution((6, 4, 4, 4), (1, 2, 2, 6), padding=ops.VALID, strideH=4, strideW=4),
    "conv_relu_n1_to_1": _convolution((6, 3, 3, 4), (1, 9, 8, 6), fusedActivationFunction=2),
    "conv_of_rows": _convolution((6, 9, 1, 4), (1, 1, 8, 6), padding=ops.VALID),
    "conv_of_one_channel": _convolution((6, 5, 5, 1), (1, 9, 8, 6)),
    "depthwise_dilation": _depthwise((1, 3, 3, 5), (1, 9, 8, 5), dilationWFactor=2, dilationHFactor=2),
    "depthwise_multiplier": _depthwise((1, 3, 3, 6), (1, 9, 8, 6), depthMultiplier=6),
    "depthwise_multiplier_of_two": _depthwise((1, 3, 3, 6), (1, 9, 8, 6), depthMultiplier=3),
    "depthwise_valid": _depthwise((1, 3, 5, 5), (1, 4, 2, 5), padding=ops.VALID, strideH=2, strideW=2),
    "softmax_of_half": softmax_of(0.5),
    "softmax_of_two": softmax_of(2.0),
    "leaky_above_one": leaky(1.5),
    "leaky_below_zero": leaky(-0.3),
    "average_pool_with_relu": pool_with_relu("AVERAGE_POOL_2D"),
    "max_pool_with_relu": pool_with_relu("MAX_POOL_2D"),
    "rows_through_a_layer": rows_through_a_layer,
    "gated": gated,
    "unet": unet,
    "pyramid": pyramid,
    "mixed_head": mixed_head,
}


# Where LiteRT 2.3.0 computes something else than the hardware does, by type of the activations:
# - ``neg``: it wraps the least number around, the NPU keeps to the largest one;
# - ``sum``: its result is none, also where nothing is rounded: -1 everywhere, or what memory had;
# - ``prelu``: it reads 16-bit slopes as those of 8 bits;
# - means over one axis and fully connected layers of 16 bits are rounded with other factors.
EXPLAINED = {"int8": {"neg", "sum"}, "int16": {"sum", "prelu", "mean_of_rows", "mixed_head"}}


def cell(name, dtype, seed=0):
    """Return the model of a cell."""
    w = ops.Writer(seed, dtype)
    outputs = CELLS[name](w)
    return w.done(*(outputs if isinstance(outputs, tuple) else (outputs,)))
