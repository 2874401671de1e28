"""Accumulators that begin with something or stay inside, and chains of operations (U85)."""

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.npu.streams import COPY, Stream
from tests.workbench.npu.test_kernels import Window, carried_out, convolved
from tests.workbench.npu.test_output_stage import state
from workbench.npu.counters import Counters
from workbench.npu.machine import Machine
from workbench.npu.state import Options

CHECKED = Options(check=True)
# Of ACC_FORMAT: begin with what is held or with IFM2, leave the sums inside, the microblock 1x2.
HELD, IFM2, STAY, MICROBLOCK = 1 << 4, 2 << 4, 1 << 6, 1 << 8
SMALL = Window((1, 1))
IDENTITY = 1 << 13 << 32 | 1


def second(shape, address, precision):
    """Return the settings of an IFM2 of (height, width, depth)."""
    height, width, depth = shape
    item = 1 << (precision >> 2 & 3)
    return {
        "IFM2_BROADCAST": 0,
        "IFM2_PRECISION": precision,
        "IFM2_ZERO_POINT": 0,
        "IFM2_WIDTH0_M1": width - 1,
        "IFM2_HEIGHT0_M1": height - 1,
        "IFM2_HEIGHT1_M1": height - 1,
        "IFM2_REGION": 1,
        "IFM2_BASE0": address,
        "IFM2_BASE1": 0,
        "IFM2_BASE2": 0,
        "IFM2_BASE3": 0,
        "IFM2_STRIDE_X": depth * item,
        "IFM2_STRIDE_Y": width * depth * item,
        "IFM2_STRIDE_C": item,
    }


def operands(depth=4, channels=4):
    rng = np.random.default_rng(depth)
    ifm = rng.integers(-128, 128, (3, 3, depth), np.int8)
    weights = rng.integers(-127, 128, (channels, 1, 1, depth))
    return ifm, weights, rng.integers(-1000, 1000, channels)


def outputs(result):
    return result.outputs[0].view(np.int32).reshape(3, 3, -1)


@for_each("depthwise", [False, True])
def test_that_sums_go_on_from_one_operation_to_the_next(depthwise):
    """The first has another zero point and leaves its sums inside; bias and scale come last."""
    ifm, weights, bias = operands()
    weights = weights[..., :1] if depthwise else weights
    result = carried_out(
        "u85",
        SMALL,
        ifm,
        weights,
        bias,
        depthwise=depthwise,
        operations=(
            {"ACC_FORMAT": MICROBLOCK | STAY, "IFM_ZERO_POINT": 7},
            {"ACC_FORMAT": MICROBLOCK | HELD, "IFM_ZERO_POINT": 0},
        ),
    )
    first, last = (
        convolved(SMALL, ifm, weights, own, zero, depthwise=depthwise) for own, zero in ((0, 7), (bias, 0))
    )
    assert np.array_equal(outputs(result), first + last)
    assert result.findings == ()
    assert [one.scale_bytes for one in result.counters] == [0, 40]
    assert [one.written_bytes for one in result.counters] == [0, 4 * 9 * 4]


@for_each("depthwise", [False, True])
def test_that_sums_begin_with_a_second_feature_map_of_the_u85(depthwise):
    """The IFM has as many channels as the OFM, so it is the second feature map too."""
    ifm, weights, bias = operands()
    weights = weights[..., :1] if depthwise else weights
    sums = convolved(SMALL, ifm, weights, bias, depthwise=depthwise)
    for family, begun in (("u85", ifm.astype(int)), ("u55", 0)):
        micro = MICROBLOCK if family == "u85" else 0
        result = carried_out(
            family,
            SMALL,
            ifm,
            weights,
            bias,
            depthwise=depthwise,
            **second(ifm.shape, 0, 1) | {"ACC_FORMAT": micro | IFM2},
        )
        assert np.array_equal(outputs(result), sums + begun), family


def test_that_sums_beyond_the_accumulators_are_told_also_where_they_did_not_begin_at_zero():
    """The IFM is read as int32 too: 2**31 - 1, to which the products are added."""
    ifm = np.full((3, 3, 1), (1 << 31) - 1, np.int32).view(np.int8)
    weights, bias = np.ones((1, 1, 1, 4), int), np.zeros(1, int)
    begin = second((3, 3, 1), 0, 1 | 2 << 2)
    # The bytes of 2**31 - 1 are -1, -1, -1 and 127: their sum is 124.
    for zero_point, told in ((0, ["accumulator-range", "store-range"]), (31, []), (32, [])):
        settings = begin | {"ACC_FORMAT": MICROBLOCK | IFM2, "IFM_ZERO_POINT": zero_point}
        result = carried_out("u85", SMALL, ifm, weights, bias, **settings)
        assert [found.code for found in result.findings] == told
        wanted = min((1 << 31) - 1 + 124 - 4 * zero_point, (1 << 31) - 1)
        assert (outputs(result) == wanted).all()
    result = carried_out(
        "u85",
        SMALL,
        ifm,
        weights,
        bias,
        **begin,
        operations=(
            {"ACC_FORMAT": MICROBLOCK | IFM2 | STAY, "IFM_ZERO_POINT": 31},
            {"ACC_FORMAT": MICROBLOCK | HELD, "IFM_ZERO_POINT": 0},
        ),
    )
    assert [(found.code, found.offset) for found in result.findings] == [
        (code, result.counters[1].offset) for code in ("accumulator-range", "store-range")
    ]


INPUT = np.arange(-16, 16, dtype=np.int8)
U85 = COPY | {"OFM_PRECISION": 1 | 1 << 8, "OFM_SCALE": IDENTITY}


def run(*operations, options=CHECKED, **container):
    """Return the result of pools with settings of their own, each a pair of mode and settings."""
    stream = Stream("u85", 256).set(U85)
    for mode, settings in operations:
        stream.set(settings).do("POOL", mode)
    return Machine(stream.do("STOP").blob(**container)).run([INPUT], options)


def test_that_a_pool_may_leave_its_sums_to_one_that_only_writes_them():
    """Mode 3 adds up, mode 4 takes nothing but what the accumulators hold."""
    result = run(
        (3, {"ACC_FORMAT": STAY, "IFM_ZERO_POINT": 5}), (4, {"ACC_FORMAT": HELD, "IFM_ZERO_POINT": 0})
    )
    assert result.outputs[0].view(np.int8).tolist() == (INPUT - 5).tolist()
    assert [one.written_bytes for one in result.counters] == [0, 32]
    assert result.findings == ()


def test_that_an_average_of_the_u55_begins_at_zero():
    stream = Stream().set(COPY | second((1, 4, 8), 0, 1), ACC_FORMAT=IFM2 | STAY)
    result = Machine(stream.do("POOL", 1).do("STOP").blob()).run([INPUT], CHECKED)
    assert np.array_equal(result.outputs[0].view(np.int8), INPUT)


CHAIN = 2 << 14
CHAINED = {"OFM_PRECISION": 1 | 1 << 8 | CHAIN, "OFM_REGION": 3}
FROM_CHAIN = {"IFM_PRECISION": 1 | CHAIN, "IFM_REGION": 3}
TO_MEMORY = {"OFM_PRECISION": 1 | 1 << 8, "OFM_REGION": 1}


def test_that_a_chain_buffer_takes_a_tensor_from_one_operation_to_the_next():
    result = run((3, CHAINED | {"OFM_ZERO_POINT": 4}), (3, FROM_CHAIN | TO_MEMORY))
    assert result.outputs[0].view(np.int8).tolist() == [min(v + 8, 127) for v in INPUT.tolist()]
    assert [one.written_bytes for one in result.counters] == [0, 32]


@for_each("settings", [{"IFM_REGION": 2}, {"OFM_DEPTH_M1": 6, "IFM_DEPTH_M1": 6}])
def test_that_a_chain_buffer_without_such_a_tensor_is_refused(settings):
    with refused("npu-command"):
        run((3, CHAINED), (3, FROM_CHAIN | TO_MEMORY | settings))


def test_that_a_chain_that_fills_the_table_memory_twice_is_told():
    """Table 8 has 512 pairs of 16 bits; the first of the operations that use it is named."""
    pairs = np.zeros((512, 2), "<i2")
    pairs[:, 0] = np.arange(-256, 256) * 128
    pairs[:, 1] = 128
    load = {"DMA0_SRC_REGION": 0, "DMA0_SRC": 0, "DMA0_DST_REGION": 1 << 8, "DMA0_DST": 0, "DMA0_LEN": 2048}
    wide = {"OFM_PRECISION": 1 | 1 << 1 | 1 << 8 | CHAIN, "ACTIVATION_MIN": 0x8000, "ACTIVATION_MAX": 0x7FFF}
    table, plain = {"ACTIVATION": 8}, {"ACTIVATION": 0}
    for middle, told in ((table, ["tables-in-chain"]), (plain, [])):
        stream = Stream("u85", 256).set(U85).set(load).do("DMA_START").do("DMA_WAIT")
        stream.set(plain).do("POOL", 3)
        stream.set(CHAINED | wide | table)
        first = stream.offset
        stream.do("POOL", 3).set({"IFM_PRECISION": 1 | 1 << 2 | CHAIN, "IFM_REGION": 3} | middle)
        stream.do("POOL", 3).set({"OFM_REGION": 1, "OFM_PRECISION": 1 | 1 << 8} | plain)
        blob = stream.do("POOL", 3).do("STOP").blob(pairs.tobytes())
        result = Machine(blob).run([INPUT], CHECKED)
        assert [(found.code, found.severity) for found in result.findings] == [
            (code, "warning") for code in told
        ]
        assert all(f"at {first:#x} " in found.message for found in result.findings)


def test_that_only_programs_that_ask_for_accumulators_keep_them():
    ifm, weights, bias = operands()
    formats = ({"ACC_FORMAT": MICROBLOCK | STAY}, {"ACC_FORMAT": MICROBLOCK})
    result = carried_out("u85", SMALL, ifm, weights, bias, operations=formats)
    assert np.array_equal(outputs(result), convolved(SMALL, ifm, weights, bias))
    assert [one.written_bytes for one in result.counters] == [0, 4 * 9 * 4]


@for_each("depthwise", [False, True])
def test_that_sums_that_began_with_something_are_clamped_to_8_bits(depthwise):
    ifm, weights, _ = operands()
    weights, bias = weights[..., :1] if depthwise else weights, np.full(4, 200)
    result = carried_out(
        "u85",
        SMALL,
        ifm,
        weights,
        bias,
        depthwise=depthwise,
        **second(ifm.shape, 0, 1),
        ACC_FORMAT=MICROBLOCK | IFM2,
        OFM_PRECISION=1,
        ACTIVATION=0,
    )
    sums = convolved(SMALL, ifm, weights, bias, depthwise=depthwise) + ifm
    found = result.outputs[0].view(np.int8).reshape(3, 3, 16)[..., :4]
    assert np.array_equal(found, sums.clip(-128, 127))


def test_that_a_run_begins_before_the_first_command():
    assert state().counters == Counters(0, "")


@pytest.mark.parametrize("family", ["u55", "u85"])
def test_that_inputs_and_outputs_may_be_empty(family):
    machine = Machine(Stream(family, 256).do("STOP").blob(ports=((0, 0), (0, 0))))
    result = machine.run([np.zeros(0, np.int8)], CHECKED)
    assert [values.tolist() for values in result.outputs] == [[]]
