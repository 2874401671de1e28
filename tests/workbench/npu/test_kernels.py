"""Convolutions, depthwise ones and pools with random windows, against loops over every element.

Weights go through the stream that the hardware reads: put in its order, encoded, decoded.
"""

from itertools import product

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.npu.streams import COPY, Stream
from tests.workbench.npu.test_output_stage import record
from tests.workbench.npu.test_weights import encode
from workbench.errors import WorkbenchError
from workbench.npu.machine import Machine
from workbench.npu.state import Limits, Options
from workbench.npu.weight_order import Geometry, order_u55, order_u85, woven_u85

FAMILIES = {"u55": 128, "u65": 512, "u85": 256}
IDENTITY = 1 << 13 << 32 | 1


class Window:
    """A window with its padding; ``apply`` yields for each output the taps inside of the IFM."""

    def __init__(self, size, stride=(1, 1), dilation=(1, 1), padding=(0, 0, 0, 0)):
        self.size, self.stride, self.dilation, self.padding = size, stride, dilation, padding

    def outputs(self, height, width):
        top, left, bottom, right = self.padding
        sides = []
        for axis, length in enumerate((height + top + bottom, width + left + right)):
            reach = (self.size[axis] - 1) * self.dilation[axis] + 1
            sides.append((length - reach) // self.stride[axis] + 1)
        return sides

    def taps(self, values, y, x):
        top, left, _, _ = self.padding
        for ky, kx in product(range(self.size[0]), range(self.size[1])):
            row = y * self.stride[0] + ky * self.dilation[0] - top
            column = x * self.stride[1] + kx * self.dilation[1] - left
            if 0 <= row < values.shape[0] and 0 <= column < values.shape[1]:
                yield (ky, kx), values[row, column]

    def settings(self):
        def step(axis, low, high):
            return ((self.stride[axis] - 1) & 1) << low | ((self.stride[axis] - 1) >> 1) << high

        return {
            "KERNEL_HEIGHT_M1": (self.size[0] - 1) * self.dilation[0],
            "KERNEL_WIDTH_M1": (self.size[1] - 1) * self.dilation[1],
            "KERNEL_STRIDE": step(1, 0, 6)
            | step(0, 1, 9)
            | (self.dilation[1] - 1) << 3
            | (self.dilation[0] - 1) << 4,
            "IFM_PAD_TOP": self.padding[0],
            "IFM_PAD_LEFT": self.padding[1],
            "IFM_PAD_BOTTOM": self.padding[2],
            "IFM_PAD_RIGHT": self.padding[3],
        }


def sizes(side, shape, item):
    height, width, depth = shape
    names = {
        f"{side}_HEIGHT0_M1": height - 1,
        f"{side}_HEIGHT1_M1": height - 1,
        f"{side}_WIDTH0_M1": width - 1,
        f"{side}_STRIDE_X": depth * item,
        f"{side}_STRIDE_Y": width * depth * item,
        f"{side}_DEPTH_M1": depth - 1,
    }
    if side == "OFM":
        names |= {"OFM_HEIGHT_M1": height - 1, "OFM_WIDTH_M1": width - 1}
    return names


def blob_of(stream, ifm, ofm_shape, constants):
    scratch = -(-ifm.nbytes // 16) * 16
    size = 4 * int(np.prod(ofm_shape))
    return stream.blob(constants, scratch + size, ((0, ifm.nbytes), (scratch, size)))


def computed(family, window, ifm, weights, bias, *, depthwise=False, part_kernel=False, **more):
    """Return the int32 sums of an operation with weights; ``more`` are further settings."""
    result = carried_out(
        family, window, ifm, weights, bias, depthwise=depthwise, part_kernel=part_kernel, **more
    )
    assert result.findings == ()
    (counted,) = result.counters
    assert (counted.weights, counted.zero_weights) == (weights.size, int((weights == 0).sum()))
    shape = (*window.outputs(*ifm.shape[:2]), weights.shape[0])
    assert counted.macs == int(np.prod(shape)) * weights[0].size
    return result.outputs[0].view(np.int32).reshape(shape)


def carried_out(
    family,
    window,
    ifm,
    weights,
    bias,
    *,
    depthwise=False,
    part_kernel=False,
    operations=({},),
    fast=False,
    macs=0,
    options=None,
    **more,
):
    """Return the result of operations with the same weights.

    Args:
        family: "u55", "u65" or "u85".
        window: The kernel.
        ifm: (height, width, depth).
        weights: (channels, height, width, depth).
        bias: One for each channel.
        depthwise: Whether channels are kept apart.
        part_kernel: Whether the kernel is traversed first.
        operations: The settings of each operation that differ from those of the others.
        fast: Whether the weights are in the fast format of the U85.
        macs: Of the NPU; those of ``FAMILIES`` by default.
        options: How to run.
        more: Further settings.
    """
    height, width, depth = ifm.shape
    channels = weights.shape[0]
    shape = (*window.outputs(height, width), channels)
    u85 = family == "u85"
    macs = macs or FAMILIES[family]
    cores = 2 if macs == 512 else 1
    block, ublock = 16, 16 if u85 else 8
    geometry = Geometry(
        ofm_depth=channels,
        height=window.size[0],
        width=window.size[1],
        ifm_depth=1 if depthwise else depth,
        block_depth=block,
        ifm_bits=8 * ifm.itemsize,
        ofm_ublock=ublock,
        depthwise=depthwise,
        part_kernel=part_kernel,
        dilation_y=window.dilation[0],
        dilation_x=window.dilation[1],
        streams=cores,
        stride_y=window.stride[0] if u85 else 1,
        stride_x=window.stride[1] if u85 else 1,
        macs=macs,
        sparse=False,
    )
    constants, settings = b"", {"WEIGHT_REGION": 0, "SCALE_REGION": 0}
    for core in range(1 if fast else min(cores, channels)):
        places = (order_u85 if u85 else order_u55)(geometry, core)
        places = woven_u85(geometry) if fast else places
        flat = np.append(weights.reshape(-1), 0)[places]
        stream = raw_stream(flat) if fast else encode([int(w) for w in flat], 5)
        stream += b"\xff" * (-len(stream) % 16)
        settings |= {f"WEIGHT{core or ''}_BASE": len(constants), f"WEIGHT{core or ''}_LENGTH": len(stream)}
        constants += stream
        if core and u85:
            continue
        own = bias if u85 else bias[core::cores]
        rows = b"".join(record(int(b), 1, 0, f"ethos-{family}") for b in own)
        settings[f"SCALE{core or ''}_BASE"] = len(constants)
        constants += rows + bytes(-len(rows) % 16)
    signed = int(ifm.dtype.kind == "i")
    base = -(-ifm.nbytes // 16) * 16
    settings |= COPY | sizes("IFM", ifm.shape, ifm.itemsize) | sizes("OFM", shape, 4)
    settings |= window.settings() | {
        "IFM_PRECISION": signed | (ifm.itemsize - 1) << 2,
        "OFM_BASE0": base,
        "OFM_PRECISION": 1 | 2 << 1 | (0 if u85 else 2 << 14),
        "OFM_BLK_DEPTH_M1": block - 1,
        "OFM_SCALE": IDENTITY,
        "ACC_FORMAT": cores << 8 if u85 else 0,
        "ACTIVATION": 1 << 12 if u85 else 0,
    }
    settings["KERNEL_STRIDE"] |= int(part_kernel) << 2
    stream = Stream(family, macs).set(settings | more)
    if family == "u65":
        stream.set(PARALLEL_MODE=1)
    stream.set(WEIGHT_FORMAT=int(fast))
    for own in operations:
        stream.set(own).do("DEPTHWISE" if depthwise else "CONV")
    machine = Machine(blob_of(stream.do("STOP"), ifm, shape, constants))
    return machine.run([ifm], options or Options(check=True))


def raw_stream(weights):
    """Return weights of int8 in the fast format: a header of 32 bytes, then the weights."""
    return bytes([1]) + bytes(31) + weights.astype(np.int8).tobytes()


def convolved(window, ifm, weights, bias, zero_point=0, *, depthwise=False):
    height, width, _ = ifm.shape
    rows, columns = window.outputs(height, width)
    values = ifm.astype(np.int64) - zero_point
    sums = np.zeros((rows, columns, weights.shape[0]), np.int64) + bias
    for y, x in product(range(rows), range(columns)):
        for (ky, kx), tap in window.taps(values, y, x):
            plane = weights[:, ky, kx].astype(np.int64)
            sums[y, x] += plane[:, 0] * tap if depthwise else plane @ tap
    return sums


WINDOWS = (
    Window((1, 1)),
    Window((3, 3), padding=(1, 1, 1, 1)),
    Window((2, 3), (2, 1), (1, 2)),
    Window((3, 2), (1, 3), (2, 1), (2, 0, 1, 1)),
    Window((5, 1), (3, 2), padding=(0, 0, 2, 0)),
)


@for_each("family", FAMILIES)
def test_that_convolutions_are_sums_of_products(family):
    for number, window in enumerate(WINDOWS):
        rng = np.random.default_rng(number)
        ifm = rng.integers(-128, 128, (9, 7, 5 + 16 * (number == 1)), np.int8)
        weights = rng.integers(-127, 128, (19, *window.size, ifm.shape[2]))
        bias = rng.integers(-(1 << 20), 1 << 20, 19)
        found = computed(family, window, ifm, weights, bias, part_kernel=bool(number % 2))
        assert np.array_equal(found, convolved(window, ifm, weights, bias)), number


@for_each("family", FAMILIES)
def test_that_depthwise_operations_keep_channels_apart(family):
    for number, window in enumerate(WINDOWS):
        rng = np.random.default_rng(number)
        ifm = rng.integers(0, 256, (9, 7, 19), np.uint8)
        weights = rng.integers(-127, 128, (19, *window.size, 1))
        bias = rng.integers(-(1 << 20), 1 << 20, 19)
        found = computed(family, window, ifm, weights, bias, depthwise=True, IFM_ZERO_POINT=100)
        wanted = convolved(window, ifm, weights, bias, 100, depthwise=True)
        assert np.array_equal(found, wanted), number


@for_each("family", FAMILIES)
def test_that_sums_of_16_bit_inputs_are_exact_beyond_24_bits(family):
    ifm = np.full((3, 3, 40), -32767, np.int16)
    weights = np.full((3, 1, 1, 40), 127)
    weights[1, 0, 0, ::2], weights[2] = -128 + 1, 0
    bias = np.array([1, -1, 7])
    found = computed(family, WINDOWS[0], ifm, weights, bias)
    assert np.array_equal(found, convolved(WINDOWS[0], ifm, weights, bias))


def test_that_weights_that_are_all_zero_leave_the_bias():
    ifm = np.zeros((4, 4, 3), np.int8)
    bias = np.array([5, -6, 7, 8])
    for family in FAMILIES:
        found = computed(family, WINDOWS[1], ifm, np.zeros((4, 3, 3, 3), int), bias)
        assert (found == bias).all()


def test_that_one_scale_may_hold_for_all_channels():
    rng = np.random.default_rng(11)
    ifm = rng.integers(-128, 128, (3, 3, 8), np.int8)
    weights, bias = rng.integers(-127, 128, (6, 1, 1, 8)), np.arange(6)
    sums = convolved(WINDOWS[0], ifm, weights, bias)
    for depthwise in (False, True):
        if depthwise:
            ifm, weights = ifm[:, :, :6].copy(), weights[:, :, :, :1]
            sums = convolved(WINDOWS[0], ifm, weights, bias, depthwise=True)
        shared = {"OFM_PRECISION": 1 | 2 << 1 | 1 << 8 | 2 << 14, "OFM_SCALE": 3 << 32 | 5}
        found = computed("u55", WINDOWS[0], ifm, weights, bias, depthwise=depthwise, **shared)
        assert np.array_equal(found, (5 * sums + 4) >> 3)


def test_that_sums_in_parts_are_the_sums(monkeypatch):
    """The size of the parts is a matter of speed."""
    monkeypatch.setattr("workbench.npu.convolution._MATRIX_BYTES", 100)
    monkeypatch.setattr("workbench.npu.convolution._PIECE", 100)
    rng = np.random.default_rng(12)
    ifm = rng.integers(-128, 128, (9, 7, 6), np.int8)
    window, bias = WINDOWS[3], np.arange(6)
    weights = rng.integers(-9, 9, (6, *window.size, 6))
    found = computed("u55", window, ifm, weights, bias)
    assert np.array_equal(found, convolved(window, ifm, weights, bias))
    found = computed("u55", window, ifm, weights[..., :1], bias, depthwise=True)
    assert np.array_equal(found, convolved(window, ifm, weights, bias, depthwise=True))
    zeros = np.zeros_like(weights)
    assert (computed("u55", window, ifm, zeros, bias) == bias).all()


def test_that_a_depthwise_operation_needs_as_many_channels_as_it_gives():
    ifm = np.zeros((4, 4, 3), np.int8)
    with refused("npu-command"):
        computed("u55", WINDOWS[0], ifm, np.zeros((4, 1, 1, 1), int), np.zeros(4, int), depthwise=True)


def test_that_the_ifm_is_doubled_before_it_is_convolved():
    rng = np.random.default_rng(4)
    stored = rng.integers(-128, 128, (4, 3, 6), np.int8)
    weights, bias = rng.integers(-9, 9, (8, 3, 3, 6)), np.arange(8)
    nearest = stored.repeat(2, 0).repeat(2, 1)
    zeros = np.zeros_like(nearest)
    zeros[::2, ::2] = stored
    odd = Window((3, 3), padding=(1, 1, 0, 0))
    for mode, whole in ((1, nearest), (2, zeros)):
        for window, cut in ((WINDOWS[1], whole), (odd, whole[:7, :5])):
            rows, columns = window.outputs(*cut.shape[:2])
            more = sizes("OFM", (rows, columns, 8), 4) | {"IFM_UPSCALE": mode}
            wide = np.zeros((cut.shape[0], cut.shape[1], 6), np.int8)
            wide.reshape(-1)[: stored.size] = stored.reshape(-1)
            more |= dict(sizes("IFM", stored.shape, 1).items())
            found = computed("u55", window, wide, weights, bias, **more)
            assert np.array_equal(found, convolved(window, cut, weights, bias)), mode


def pooled(family, mode, window, ifm, constants=bytes(16), **more):
    height, width, depth = ifm.shape
    shape = (*window.outputs(height, width), depth)
    settings = (
        COPY
        | sizes("IFM", ifm.shape, 1)
        | sizes("OFM", shape, 4)
        | window.settings()
        | {"OFM_BASE0": -(-ifm.nbytes // 16) * 16, "OFM_PRECISION": 1 | 2 << 1 | 1 << 8 | 2 << 14}
    )
    if family == "u85":
        settings |= {
            "OFM_PRECISION": 1 | 2 << 1 | 1 << 8,
            "OFM_SCALE": IDENTITY,
            "ACTIVATION": 1 << 12,
            "ACC_FORMAT": 1 << 8,
        }
    stream = Stream(family, FAMILIES[family]).set(settings | more).do("POOL", mode).do("STOP")
    result = Machine(blob_of(stream, ifm, shape, constants)).run([ifm], Options(check=True))
    (counted,) = result.counters
    return result.outputs[0].view(np.int32).reshape(shape), counted


@for_each(
    ("family", "mode", "fold"),
    [("u55", 0, max), ("u65", 0, max), ("u85", 0, max), ("u85", 5, min), ("u85", 3, sum)],
)
def test_that_pools_fold_what_is_inside_of_the_ifm(family, mode, fold):
    for number, window in enumerate(WINDOWS):
        ifm = np.random.default_rng(number).integers(-128, 128, (9, 7, 6), np.int8)
        found, counted = pooled(family, mode, window, ifm)
        for y, x, c in np.ndindex(found.shape):
            taps = [int(tap[c]) for _, tap in window.taps(ifm, y, x)]
            assert found[y, x, c] == fold(taps), (number, y, x, c)
        moves = window.size == (1, 1)
        assert counted.macs == (0 if moves else found.size * window.size[0] * window.size[1])


@for_each("family", ["u55", "u85"])
def test_that_averages_divide_by_what_is_inside_of_the_ifm(family):
    """Halves go away from zero, as with the reference model."""
    for number, window in enumerate(WINDOWS[1:]):
        ifm = np.random.default_rng(number).integers(-128, 128, (9, 7, 6), np.int8)
        if window.dilation != (1, 1) or (family == "u55" and not any(window.padding)):
            continue
        found, _ = pooled(family, 1, window, ifm)
        for y, x, c in np.ndindex(found.shape):
            taps = [int(tap[c]) for _, tap in window.taps(ifm, y, x)]
            size, total = len(taps), abs(sum(taps))
            wanted = (2 * total + size) // (2 * size) * (1 if sum(taps) >= 0 else -1)
            assert found[y, x, c] == wanted, (number, taps)


@for_each(("axis", "mode"), [(1, 6), (0, 7)])
def test_that_positions_of_the_largest_are_found_along_one_axis(axis, mode):
    ifm = np.random.default_rng(mode).integers(-128, 128, (5, 6, 3), np.int8)
    window = Window((5, 1)) if mode == 7 else Window((1, 6))
    shape = [5, 6, 3]
    shape[axis] = 1
    found, _ = pooled("u85", mode, window, ifm)
    assert found.tolist() == ifm.argmax(axis, keepdims=True).tolist()


def test_that_a_pool_has_as_many_channels_as_its_ifm():
    ifm = np.zeros((4, 4, 3), np.int8)
    with refused("npu-command"):
        pooled("u55", 0, WINDOWS[0], ifm, IFM_DEPTH_M1=3)


@for_each("padding", [{"IFM_PAD_TOP": 9, "IFM_PAD_BOTTOM": 9}, {"IFM_PAD_LEFT": 7}])
def test_that_padding_over_all_of_the_ifm_is_refused(padding):
    ifm = np.zeros((9, 7, 3), np.int8)
    with refused("npu-command"):
        pooled("u55", 0, WINDOWS[0], ifm, **padding)


def test_that_work_beyond_the_limit_is_refused_before_it_is_done():
    ifm = np.zeros((9, 7, 4), np.int8)
    settings = COPY | sizes("IFM", ifm.shape, 1) | sizes("OFM", ifm.shape, 1) | {"OFM_BASE0": 256}
    stream = Stream().set(settings).do("POOL", 0).do("STOP")
    machine = Machine(stream.blob(bytes(16), 2048, ((0, ifm.nbytes), (256, ifm.nbytes))))
    work = 2 * ifm.size
    assert machine.run([ifm], Options(limits=Limits(work=work)))
    with pytest.raises(WorkbenchError) as caught:
        machine.run([ifm], Options(limits=Limits(work=work - 1)))
    assert caught.value.codes == ("npu-limit",)


def product_of(left, right, **more):
    """Return left [H, W, K] times right [N, K] on the U85, and the result of the run."""
    shape, item = (*left.shape[:2], right.shape[0]), left.itemsize
    both = np.concatenate([left.reshape(-1), right.reshape(-1)])
    ifm2 = {
        name.replace("IFM_", "IFM2_"): value
        for name, value in sizes("IFM", (1, *right.shape), item).items()
        if "DEPTH" not in name
    }
    settings = (
        COPY
        | sizes("IFM", left.shape, item)
        | ifm2
        | sizes("OFM", shape, 4)
        | {
            "IFM_PRECISION": 1 | (item - 1) << 2,
            "IFM2_PRECISION": 1 | (item - 1) << 2,
            "IFM2_ZERO_POINT": 0,
            "IFM2_REGION": 1,
            "IFM2_BASE0": left.nbytes,
            "IFM2_BASE1": 0,
            "IFM2_BASE2": 0,
            "IFM2_BASE3": 0,
            "IFM2_STRIDE_C": 1,
            "OFM_BASE0": -(-both.nbytes // 16) * 16,
            "OFM_PRECISION": 1 | 2 << 1 | 1 << 8,
            "OFM_SCALE": IDENTITY,
            "ACTIVATION": 1 << 12,
            "ACC_FORMAT": 1 << 8,
        }
    )
    stream = Stream("u85", 256).set(settings | more).do("CONV", 1).do("STOP")
    result = Machine(blob_of(stream, both, shape, bytes(16))).run([both], Options(check=True))
    assert result.counters[0].macs == left.shape[0] * left.shape[1] * right.size
    return result.outputs[0].view(np.int32).reshape(shape), [f.code for f in result.findings]


def test_that_the_u85_multiplies_two_feature_maps():
    rng = np.random.default_rng(9)
    left, right = (rng.integers(-128, 128, (2, 3, 5), np.int8), rng.integers(-128, 128, (4, 5), np.int8))
    wanted = left.astype(int) @ right.T.astype(int)
    assert np.array_equal(product_of(left, right)[0], wanted)
    moved = (left.astype(int) - 3) @ (right.T.astype(int) + 2)
    found, _ = product_of(left, right, IFM_ZERO_POINT=3, IFM2_ZERO_POINT=0xFFFE)
    assert np.array_equal(found, moved)
    with refused("npu-command"):
        product_of(left, right, OFM_DEPTH_M1=2)
    with refused("npu-command"):
        product_of(left, right, IFM2_PRECISION=1 | 2 << 14)


@for_each("family", FAMILIES)
def test_that_depthwise_sums_of_16_bit_inputs_are_exact_beyond_24_bits(family):
    ifm = np.full((3, 3, 4), -32767, np.int16)
    weights = np.full((4, 3, 3, 1), 127)
    weights[1, 0, 0], weights[2] = 126, -127
    found = computed(family, Window((3, 3)), ifm, weights, np.arange(4), depthwise=True)
    wanted = convolved(Window((3, 3)), ifm, weights, np.arange(4), depthwise=True)
    assert np.array_equal(found, wanted)


def test_that_the_second_core_has_no_weights_where_there_is_one_channel():
    ifm = np.random.default_rng(1).integers(-128, 128, (4, 4, 5), np.int8)
    weights, bias = np.arange(1, 46).reshape(1, 3, 3, 5), np.array([7])
    found = computed("u65", Window((3, 3)), ifm, weights, bias)
    assert np.array_equal(found, convolved(Window((3, 3)), ifm, weights, bias))


def test_that_the_u85_reads_weights_that_are_not_compressed():
    """From one stream, also where others are left from an operation before."""
    rng = np.random.default_rng(3)
    ifm = rng.integers(-128, 128, (4, 4, 40), np.int8)
    weights, bias = rng.integers(-127, 128, (16, 1, 1, 40)), np.arange(16)
    for macs in (256, 512):
        result = carried_out(
            "u85", Window((1, 1)), ifm, weights, bias, fast=True, macs=macs, WEIGHT1_BASE=0, WEIGHT1_LENGTH=16
        )
        found = result.outputs[0].view(np.int32).reshape(4, 4, 16)
        assert np.array_equal(found, convolved(Window((1, 1)), ifm, weights, bias))
        # The IFM is read in two blocks of 32 channels, or in one of 64.
        assert result.counters[0].weight_bytes == 32 + 16 * 64


def test_that_an_operation_has_at_most_a_weight_for_32_bytes_of_the_limit():
    ifm = np.ones((3, 3, 32), np.int8)
    weights, bias = np.ones((16, 1, 1, 32), int), np.zeros(16, int)
    limit = 32 * weights.size
    case = ("u55", Window((1, 1)), ifm, weights, bias)
    found = carried_out(*case, options=Options(limits=Limits(memory_bytes=limit)))
    assert (found.outputs[0].view(np.int32) == 32).all()
    with refused("npu-weights"):
        carried_out(*case, options=Options(limits=Limits(memory_bytes=limit - 1)))


@for_each(("window", "count"), [(Window((1, 2)), 2), (Window((2, 1)), 2)])
def test_that_a_window_of_two_elements_computes(window, count):
    ifm = np.random.default_rng(6).integers(-128, 128, (3, 3, 4), np.int8)
    found, counted = pooled("u55", 0, window, ifm)
    assert counted.macs == count * found.size


@for_each(
    ("scale", "computes"),
    [
        ((1 << 31) + 1 | 31 << 32, False),
        (1 << 30 | 30 << 32, False),
        (1, False),
        (3 << 29 | 30 << 32, True),
        (1 << 29 | 30 << 32, True),
        (2, True),
    ],
)
def test_that_a_pool_of_single_elements_computes_where_it_scales(scale, computes):
    """Vela writes a factor of one as (2**31 + 1) / 2**31 too."""
    ifm = np.random.default_rng(7).integers(-128, 128, (3, 3, 4), np.int8)
    found, counted = pooled("u55", 0, WINDOWS[0], ifm, OFM_SCALE=scale)
    factor = (scale & 0xFFFFFFFF) / (1 << (scale >> 32))
    assert found.tolist() == np.floor(ifm * factor + 0.5).astype(int).tolist()
    assert counted.macs == (found.size if computes else 0)


def test_that_a_pool_with_a_scale_for_each_channel_computes():
    ifm = np.random.default_rng(8).integers(-128, 128, (3, 3, 4), np.int8)
    rows = [(5, 3, 1), (-7, 1, 0), (0, 9, 2), (100, 1, 3)]
    constants = b"".join(record(*row, "ethos-u55") for row in rows) + bytes(8)
    found, counted = pooled(
        "u55",
        0,
        WINDOWS[0],
        ifm,
        constants=constants,
        SCALE_REGION=0,
        SCALE_BASE=0,
        OFM_PRECISION=1 | 2 << 1 | 2 << 14,
    )
    for channel, (bias, scale, shift) in enumerate(rows):
        wanted = np.floor((ifm[..., channel].astype(int) + bias) * scale / (1 << shift) + 0.5)
        assert np.array_equal(found[..., channel], wanted)
    assert counted.macs == found.size


def test_that_sums_of_channels_leave_the_zero_point_out_and_spend_work():
    ifm = np.random.default_rng(9).integers(-128, 128, (3, 5, 4), np.int8)
    settings = (
        COPY
        | sizes("IFM", ifm.shape, 1)
        | sizes("OFM", (3, 5, 1), 4)
        | {"OFM_BASE0": 64, "OFM_PRECISION": 1 | 2 << 1 | 1 << 8 | 2 << 14, "IFM_ZERO_POINT": 3}
    )
    stream = Stream().set(settings).do("POOL", 2).do("STOP")
    machine = Machine(blob_of(stream, ifm, (3, 5, 1), bytes(16)))
    # Every output, and every input that is added up.
    work = 3 * 5 + 3 * 5 * 4
    result = machine.run([ifm], Options(limits=Limits(work=work)))
    assert np.array_equal(result.outputs[0].view(np.int32), (ifm.astype(int) - 3).sum(2).ravel())
    with refused("npu-limit"):
        machine.run([ifm], Options(limits=Limits(work=work - 1)))


def test_that_products_of_16_bits_are_exact_and_told_where_no_accumulator_holds_them():
    left, right = np.full((2, 3, 5), 383, np.int16), np.full((4, 5), 18_131, np.int16)
    left[0, 0], right[1] = -32_767, [3, 1, 4, 1, 5]
    found, told = product_of(left, right)
    wanted = left.astype(int) @ right.T.astype(int)
    assert np.array_equal(found[0, 1:], wanted[0, 1:])
    assert np.array_equal(found[0, 0, 1], wanted[0, 0, 1])
    # -32767 * 18131 * 5 is less than -2**31.
    assert told == ["accumulator-range", "store-range"]
    fitting = left.clip(-400, 400)
    found, told = product_of(fitting, right)
    assert np.array_equal(found, fitting.astype(int) @ right.T.astype(int))
    assert told == []
