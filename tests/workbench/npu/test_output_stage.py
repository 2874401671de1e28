"""From accumulators to stored values, against Python's integers."""

import contextlib
import random
import struct

import numpy as np
import pytest

from tests.for_each import for_each
from tests.workbench.npu.streams import COPY
from tests.workbench.npu.test_arithmetic import exact
from workbench.npu.accumulators import accumulator_bits, begun, channel_scales
from workbench.npu.arithmetic import Rounding
from workbench.npu.checks import overwrites_table
from workbench.npu.counters import Counters, totals
from workbench.npu.faults import Fault, Finding, LimitFault, ModeFault, TableFault
from workbench.npu.memory import Memory
from workbench.npu.output_stage import ChannelScales, OutputStage
from workbench.npu.registers import Registers, Scale, device
from workbench.npu.state import Limits, Options, State, WeightCache

BITS = {8: 0, 16: 1, 32: 2, 64: 3}


def state(family="ethos-u55", macs=128, constants=b"", options=None, **settings):
    registers = Registers(device(family, macs))
    for name, value in {**COPY, "OFM_WIDTH_M1": 0, "OFM_DEPTH_M1": 3, **settings}.items():
        registers.set(name, value)
    memory = Memory(constants, 1 << 12, limit=1 << 24, checked=False)
    return State(registers.device, registers, memory, options or Options(counters=True), WeightCache())


def stage(scale=None, channels=None, bits=32, *, signed=True, **settings):
    settings.setdefault("OFM_PRECISION", int(signed) | BITS[bits] << 1 | 1 << 8 | 2 << 14)
    return OutputStage(state(**settings), scale, channels)


def plain(bias):
    """Return four channels with a bias and no scale."""
    return ChannelScales(np.full(4, bias), np.ones(4, np.int64), np.zeros(4, np.int64))


def stored(value, bits):
    limit = 1 << bits - 1
    return max(-limit, min(limit - 1, value))


@for_each("rounding", [Rounding.NATURAL, Rounding.DOUBLE, Rounding.TRUNCATE])
@for_each("zero_point", [0, 100, 0xFF80])
@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_that_results_are_exact_up_to_the_largest_accumulators(count, rounding, zero_point):
    generator = random.Random(zero_point)
    zero = zero_point - 0x10000 if zero_point >> 15 else zero_point
    for _ in range(count):
        shift = generator.randrange(0, 63)
        scale = generator.randrange(1, 1 << generator.randrange(1, 32))
        reach = min(1 << 47, (1 << 60 + min(shift, 1)) // scale)
        values = [generator.randrange(-reach, reach) for _ in range(4)]
        bias = [generator.randrange(-(1 << 39), 1 << 39) >> generator.randrange(40) for _ in range(4)]
        values = [v if abs(v + b) < 1 << 47 else 0 for v, b in zip(values, bias, strict=True)]
        if (scale, shift) == (1, 0):
            continue
        found = stage(
            Scale(scale, shift, rounding),
            ChannelScales(np.array(bias), np.ones(4, np.int64), np.zeros(4, np.int64)),
            bits=64,
            OFM_ZERO_POINT=zero_point,
            ACTIVATION=0,
        ).apply(np.array(values).reshape(1, 1, 4))
        wanted = [
            stored(stored(exact(v + b, scale, shift, rounding), 64) + zero, 64)
            for v, b in zip(values, bias, strict=True)
        ]
        assert found.reshape(-1).tolist() == wanted, (scale, shift, values, bias)


@for_each("zero_point", [0, 0x7FFF, 0x8000])
def test_that_results_just_below_a_half_are_not_rounded_up(zero_point):
    """A float64 of the result would need more bits than it has."""
    zero = zero_point - 0x10000 if zero_point >> 15 else zero_point
    for shift in (30, 38, 40, 45):
        for scale in (1, (1 << 31) - 1):
            below = ((1 << shift - 1) - 1) // scale
            for value in (below, below + 1, -below, -below - 1):
                found = stage(
                    Scale(scale, shift, Rounding.NATURAL),
                    plain(7),
                    bits=64,
                    OFM_ZERO_POINT=zero_point,
                    ACTIVATION=0,
                ).apply(np.full((1, 1, 4), value - 7))
                wanted = exact(value, scale, shift, Rounding.NATURAL) + zero
                assert found.reshape(-1).tolist() == [wanted] * 4, (shift, scale, value)


def test_that_each_channel_has_its_bias_scale_and_shift():
    bias, scale, shift = (np.array([5, -7, 0, 1]), np.array([3, 1 << 30, 1, 7]), np.array([1, 31, 0, 3]))
    values = np.array([[[10, 1000, -3, 99]]])
    found = stage(None, ChannelScales(bias, scale, shift), OFM_ZERO_POINT=4).apply(values)
    rows = zip(values[0, 0].tolist(), bias.tolist(), scale.tolist(), shift.tolist(), strict=True)
    wanted = [exact(v + b, s, n, Rounding.NATURAL) + 4 for v, b, s, n in rows]
    assert found.reshape(-1).tolist() == wanted
    assert stage().apply(values).reshape(-1).tolist() == [10, 1000, -3, 99]


def test_that_a_bound_only_saves_work():
    values = np.array([[[10, -20, 30, -40]]])
    made = stage(Scale(3, 2, Rounding.NATURAL))
    wanted = made.apply(values).tolist()
    for bound in (40.0, 1e18, float("inf"), None):
        assert made.apply(values, bound).tolist() == wanted


@for_each("family", ["ethos-u55", "ethos-u85"])
@for_each("bits", [8, 16])
def test_that_the_clamp_holds_and_counts_what_it_changes(family, bits):
    macs = 256 if family == "ethos-u85" else 128
    made = stage(bits=bits, family=family, macs=macs, ACTIVATION_MIN=0xFFFE, ACTIVATION_MAX=5)
    assert made.apply(np.array([[[-9, -2, 5, 6]]])).tolist() == [[[-2, -2, 5, 5]]]
    assert made._state.counters.saturated == 2


def test_that_results_of_32_bits_are_clamped_on_the_u85_or_by_force():
    wide = {"ACTIVATION_MIN": 0xFFFE, "ACTIVATION_MAX": 5}
    values = np.array([[[-9, 6, 0, 0]]])
    free = stage(**wide)
    assert free.apply(values).reshape(-1).tolist()[:2] == [-9, 6]
    for forced in (3, 5):
        made = stage(ACTIVATION=forced << 12, **wide)
        assert made.apply(values).reshape(-1).tolist()[:2] == [-2, 5]
    unsigned = stage(ACTIVATION=2 << 12, ACTIVATION_MIN=1, ACTIVATION_MAX=0xFFFE)
    assert unsigned.apply(np.array([[[-9, 70000, 0, 3]]])).tolist() == [[[1, 65534, 1, 3]]]
    u85 = {"family": "ethos-u85", "macs": 256}
    assert stage(**u85, **wide).apply(values).reshape(-1).tolist()[:2] == [-2, 5]
    assert stage(ACTIVATION=1 << 12, **u85, **wide).apply(values).reshape(-1).tolist()[:2] == [-9, 6]
    narrow = stage(bits=8, ACTIVATION=1 << 12, **u85)
    narrow.apply(np.array([[[200, 0, 0, 0]]]))
    assert [f.code for f in narrow._state.findings] == ["store-range"]


@for_each(
    ("activation", "family"),
    [
        (1 << 12, "ethos-u55"),
        (4 << 12, "ethos-u55"),
        (1, "ethos-u55"),
        (24, "ethos-u55"),
        (3, "ethos-u55"),
        (4, "ethos-u55"),
        (10, "ethos-u85"),
        (11, "ethos-u85"),
        (2, "ethos-u85"),
        (31, "ethos-u85"),
    ],
)
def test_that_functions_that_do_not_exist_or_are_not_public_are_refused(activation, family):
    macs = 256 if family == "ethos-u85" else 128
    with pytest.raises(ModeFault):
        stage(bits=8, ACTIVATION=activation, family=family, macs=macs)


def looked_up(code, values, table, bits=8, family="ethos-u55", *, signed=True, slot=0, clip=0):
    u85 = family == "ethos-u85"
    activation = (code | slot << 5 | 1 << 12) if u85 else (code + slot | clip << 12)
    held = state(
        family,
        256 if u85 else 128,
        ACTIVATION=activation,
        ACTIVATION_MIN=0x8000,
        ACTIVATION_MAX=0x7FFF,
        OFM_PRECISION=int(signed) | BITS[bits] << 1 | 1 << 8 | 2 << 14,
    )
    held.memory.load_table(table.nbytes * slot if u85 else 256 * slot, table.reshape(-1).view(np.uint8))
    made = OutputStage(held, None)
    assert held.counters.table_bytes == table.nbytes
    return made.apply(np.array(values).reshape(1, 1, -1)).reshape(-1).tolist()


def test_that_tables_of_every_type_are_looked_up():
    small, wide = np.arange(256, dtype=np.uint8)[::-1].copy(), np.arange(256, dtype="<i4") * 1000
    signed = [int(np.int8(v)) for v in small]
    assert looked_up(16, [-128, 0, 127], small) == [signed[0], signed[128], signed[255]]
    assert looked_up(16, [-128, 127], small, slot=3) == [signed[0], signed[255]]
    assert looked_up(16, [-128, 127], wide, bits=32, clip=3) == [0, 255_000]
    for code, dtype in ((4, "i1"), (5, "<i2"), (7, "<i4")):
        table = np.arange(256).astype(dtype)
        bits = 8 * table.itemsize
        found = looked_up(code, [-128, -1, 127], table, bits, "ethos-u85", slot=1)
        assert found == [int(table[0]), int(table[127]), int(table[255])]
    table = np.arange(256, dtype=np.uint8)
    assert looked_up(1, [0, 255], table, 8, "ethos-u85", signed=False) == [0, 255]
    pairs = np.zeros((512, 2), "<i2")
    pairs[:, 0] = np.arange(-256, 256) * 128
    pairs[:, 1] = 128
    assert looked_up(16, [-32768, 77, 32767], pairs, 16) == [-32768, 77, 32767]
    assert looked_up(8, [-32768, 77, 32767], pairs, 16, "ethos-u85") == [-32768, 77, 32767]
    assert looked_up(9, [77, -1], pairs, 32, "ethos-u85") == [77 * 128, -128]
    assert looked_up(16, [77], pairs, 32, clip=5) == [77 * 128]
    for values in ([-129], [128]):
        with pytest.raises(TableFault):
            looked_up(16, values, small)
    for values in ([-32769], [32768]):
        with pytest.raises(TableFault):
            looked_up(8, values, pairs, 16, "ethos-u85")
    with pytest.raises(TableFault):
        looked_up(1, [-1], table, 8, "ethos-u85", signed=False)


def test_that_what_does_not_fit_is_told_once():
    made = stage(bits=8, family="ethos-u85", macs=256, ACTIVATION=1 << 12)
    assert made.apply(np.array([[[-128, 127, 0, 0]]])).tolist() == [[[-128, 127, 0, 0]]]
    assert made._state.findings == []
    made.apply(np.array([[[-129, 0, 0, 0]]]))
    made.apply(np.array([[[128, 0, 0, 0]]]))
    assert [f.code for f in made._state.findings] == ["store-range"]
    wide = stage(bits=32)
    assert wide.apply(np.array([[[1 << 31, -(1 << 31) - 1, 0, 0]]])).tolist() == [
        [[(1 << 31) - 1, -(1 << 31), 0, 0]]
    ]


@for_each("bits", [8, 16, 32, 64])
@for_each("signed", [True, False])
def test_that_results_at_the_ends_of_a_type_fit_and_those_beyond_are_told(bits, signed):
    u85 = {"family": "ethos-u85", "macs": 256, "ACTIVATION": 1 << 12}
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if bits == 64:
        least, most = max(least, -(1 << 62)), min(most, 1 << 62)
    made = stage(bits=bits, signed=signed, **u85)
    found = made.apply(np.array([[[least, most, 0, 1]]]))
    assert found.reshape(-1).tolist() == [least, most, 0, 1]
    assert made._state.findings == []
    for beyond in (least - 1, most + 1) if bits < 64 else ():
        told = stage(bits=bits, signed=signed, **u85)
        told.apply(np.array([[[beyond, 0, 0, 0]]]))
        assert [f.code for f in told._state.findings] == ["store-range"]


@for_each(
    ("value", "told"), [((1 << 31) - 1, False), (1 << 31, True), (-(1 << 31), False), (-(1 << 31) - 1, True)]
)
def test_that_sums_beyond_the_accumulators_are_told(value, told):
    made = stage(channels=plain(3))
    made._state.counters.accumulator_bits = 32
    sums = np.array([[[value - 3, 0, 0, 0]]])
    # A bound that no sum without the bias exceeds.
    made.check_accumulators(sums, float(abs(value - 3)))
    assert [f.code for f in made._state.findings] == ["accumulator-range"] * told
    made._state.findings.clear()
    made.check_accumulators(sums, float((1 << 31) - 4))
    assert made._state.findings == []
    made._state.counters.accumulator_bits = 0
    made.check_accumulators(np.array([[[1 << 60]]]), 1e20)
    assert made._state.findings == []


def test_that_the_peak_of_the_accumulators_holds_the_bias():
    made = stage(channels=plain(-5))
    made._state.counters.accumulator_bits = 32
    made.apply(np.array([[[1, -10, 3, 4]]]))
    assert made._state.counters.accumulator_peak == 15
    made.apply(np.array([[[1, 2, 3, 4]]]))
    assert made._state.counters.accumulator_peak == 15


def test_that_what_the_accumulators_held_is_added():
    sums = np.array([[[[1, 2, 3, 4]]]])
    u85 = {"family": "ethos-u85", "macs": 256}
    fresh = state(**u85)
    assert begun(fresh, sums) is sums
    assert fresh.accumulators is None
    kept = state(**u85, ACC_FORMAT=1 << 4)
    with pytest.raises(Fault):
        begun(kept, sums)
    kept.accumulators = sums * 10
    kept.keep_accumulators = True
    assert begun(kept, sums).tolist() == [[[[11, 22, 33, 44]]]]
    assert kept.accumulators.tolist() == [[[[11, 22, 33, 44]]]]
    kept.accumulators = np.zeros((1, 1, 1, 3), np.int64)
    with pytest.raises(Fault):
        begun(kept, sums)
    with pytest.raises(ModeFault):
        begun(state(**u85, ACC_FORMAT=3 << 4), sums)
    second = {f"IFM2_{name[4:]}": value for name, value in COPY.items() if name[:4] == "IFM_"}
    held = state(**u85, ACC_FORMAT=2 << 4, **{**second, "IFM2_ZERO_POINT": 2})
    held.memory.put(1, 0, np.array([10, 20, 30, 40], np.uint8))
    assert begun(held, sums).tolist() == [[[[9, 20, 31, 42]]]]


@for_each(
    ("family", "code", "bits"),
    [
        ("ethos-u55", 0, 32),
        ("ethos-u55", 1, 40),
        ("ethos-u65", 1, 40),
        ("ethos-u85", 0, 32),
        ("ethos-u85", 1, 48),
        ("ethos-u55", 2, None),
        ("ethos-u85", 3, None),
    ],
)
def test_that_accumulators_have_the_width_of_their_format(family, code, bits):
    registers = state(family, 256 if family != "ethos-u55" else 128, ACC_FORMAT=code).registers
    if bits is None:
        with pytest.raises(ModeFault):
            accumulator_bits(registers)
    else:
        assert accumulator_bits(registers) == bits


def record(bias, scale, shift, family, wide=False):
    """Return the ten bytes of one channel; Vela 5.1.0, the weight encoders."""
    if family != "ethos-u85":
        return struct.pack("<q", bias)[:5] + struct.pack("<IB", scale, shift)
    if wide:
        return struct.pack("<q", bias)[:6] + struct.pack("<HBB", scale, shift, 0)
    return struct.pack("<iIBB", bias, scale, shift, 0)


@for_each(
    ("family", "macs", "cores", "wide"),
    [
        ("ethos-u55", 128, 1, False),
        ("ethos-u65", 512, 2, False),
        ("ethos-u85", 256, 1, False),
        ("ethos-u85", 1024, 1, False),
        ("ethos-u85", 256, 1, True),
    ],
)
def test_that_records_of_channels_are_read_from_every_core(family, macs, cores, wide):
    rows = [(5, 3, 1), (-7, 1 << 14, 33), (-(1 << 31), 12345, 63), ((1 << 31) - 1, 1, 0), (9, 2, 7)]
    parts, constants, settings = [], b"", {"SCALE_REGION": 0, "WEIGHT_REGION": 0}
    for core in range(cores):
        parts = [record(*row, family, wide) for row in rows[core::cores]]
        settings[f"SCALE{core or ''}_BASE"] = len(constants)
        constants += b"".join(parts) + bytes(6)
    held = state(family, macs, constants, ACC_FORMAT=int(wide), **settings)
    held.registers.set("PARALLEL_MODE", int(cores > 1))
    found = channel_scales(held, len(rows))
    assert found.bias.tolist() == [b for b, _, _ in rows]
    assert found.scale.tolist() == [s for _, s, _ in rows]
    assert found.shift.tolist() == [n for _, _, n in rows]
    assert held.counters.scale_bytes == 10 * len(rows)


def test_that_work_is_spent_up_to_the_limit():
    held = state(options=Options(limits=Limits(work=10)))
    held.spend(4)
    held.spend(6)
    with pytest.raises(LimitFault):
        held.spend(1)


def test_that_a_finding_is_told_once_with_its_command_and_module():
    held = state()
    held.counters = Counters(64, "NPU_OP_CONV", "stem.conv")
    held.delegate = 2
    for _ in range(3):
        held.remark("warning", "a-code", "Something.")
    (found,) = held.findings
    assert found == Finding("warning", "a-code", "Something.", 64, "NPU_OP_CONV", "stem.conv", 2)
    assert str(found) == "NPU_OP_CONV at 0x40 of stem.conv: Something."
    first = Finding("error", "a", "B.", 0, "X")
    assert (str(first), first.delegate, state().delegate) == ("X at 0x0: B.", 0, 0)


def test_that_counters_are_added_up():
    first = Counters(
        0,
        "A",
        macs=3,
        read_bytes=1,
        written_bytes=2,
        weight_bytes=4,
        scale_bytes=5,
        copied_bytes=6,
        weights=7,
        zero_weights=8,
        saturated=9,
        accumulator_peak=10,
    )
    assert totals([first, first]) == {
        "operations": 2,
        "macs": 6,
        "read_bytes": 2,
        "written_bytes": 4,
        "weight_bytes": 8,
        "scale_bytes": 10,
        "copied_bytes": 12,
        "weights": 14,
        "zero_weights": 16,
        "saturated": 18,
    }
    fresh = Counters(4, "B").as_dict()
    assert {n: v for n, v in fresh.items() if v} == {"offset": 4, "command": "B"}
    assert totals([])["operations"] == 0


def test_that_only_small_devices_lose_their_tables():
    assert overwrites_table(device("ethos-u55", 32), uses_table=False)
    assert not overwrites_table(device("ethos-u55", 32), uses_table=True)
    assert not overwrites_table(device("ethos-u55", 128), uses_table=False)


def test_that_large_biases_and_shifts_leave_no_room_for_floats():
    """Results a 2**-40th below a half, and below a half of the largest shift."""
    scale = (1 << 31) - 1
    total = ((1 << 39) - 1) * pow(scale, -1, 1 << 40) % (1 << 40)
    total -= (1 << 40) * (total >> 39)
    made = stage(Scale(scale, 40, Rounding.NATURAL), plain(total - 3), bits=64, ACTIVATION=0)
    found = made.apply(np.full((1, 1, 4), 3)).reshape(-1).tolist()
    assert found == [exact(total, scale, 40, Rounding.NATURAL)] * 4
    # 179951 * 3203431780337 is 2**59 - 1.
    made = stage(Scale(179951, 60, Rounding.NATURAL), bits=64, ACTIVATION=0)
    assert made.apply(np.array([[[3203431780337, 3203431780338]]])).tolist() == [[[0, 1]]]


def test_that_a_scale_of_zero_leaves_the_zero_point():
    made = stage(Scale(0, 5, Rounding.NATURAL), bits=64, ACTIVATION=0, OFM_ZERO_POINT=9)
    assert made.apply(np.array([[[1 << 60, -5, 0]]])).tolist() == [[[9, 9, 9]]]


def test_that_unsigned_results_of_64_bits_end_with_those_of_signed_ones():
    u85 = {"family": "ethos-u85", "macs": 256, "ACTIVATION": 1 << 12}
    made = stage(bits=64, signed=False, **u85)
    values = np.array([[[-1, (1 << 63) - 1, 5]]])
    assert made.apply(values).tolist() == [[[0, (1 << 63) - 1, 5]]]
    assert [found.code for found in made._state.findings] == ["store-range"]


def test_that_only_operations_with_accumulators_have_a_peak():
    made = stage()
    made.apply(np.array([[[1, -10, 3, 4]]]))
    assert made._state.counters.accumulator_peak == 0
    made._state.counters.accumulator_bits = 32
    made.apply(np.zeros((0, 1, 4), np.int64))
    assert made._state.counters.accumulator_peak == 0


def test_that_results_in_parts_are_the_results(monkeypatch):
    """The size of the parts is a matter of speed."""
    monkeypatch.setattr("workbench.npu.output_stage._CHUNK", 10)
    made = stage(Scale(3, 1, Rounding.NATURAL), OFM_HEIGHT_M1=6, OFM_WIDTH_M1=1)
    values = np.arange(56).reshape(7, 2, 4)
    results = np.zeros((7, 2, 4), np.int32)
    made.fill(results, values)
    assert np.array_equal(results, (3 * values + 1) >> 1)


def test_that_the_limits_of_an_unsigned_table_have_no_sign():
    held = state(
        "ethos-u85", 256, ACTIVATION=1, ACTIVATION_MIN=2, ACTIVATION_MAX=0xFFFF, OFM_PRECISION=1 | 1 << 8
    )
    held.memory.load_table(0, np.arange(100, 356).astype(np.uint8) // 2)
    found = OutputStage(held, None).apply(np.array([[[0, 2, 50, 150]]]))
    assert found.reshape(-1).tolist() == [51, 51, 75, 125]
    # On the U55 results of 32 bits are clamped to 8 bits by force, here without a sign.
    held = state(
        ACTIVATION=16 | 2 << 12,
        ACTIVATION_MIN=0,
        ACTIVATION_MAX=255,
        OFM_PRECISION=1 | 2 << 1 | 1 << 8 | 2 << 14,
    )
    held.memory.load_table(0, (np.arange(256, dtype="<i4") * 1000).view(np.uint8))
    found = OutputStage(held, None).apply(np.array([[[-1, 0, 200, 300]]]))
    assert found.reshape(-1).tolist() == [0, 0, 200_000, 255_000]


@for_each(("code", "bits", "factor"), [(8, 16, 1), (9, 32, 128)])
def test_that_the_limits_of_a_table_of_pairs_have_a_sign(code, bits, factor):
    held = state(
        "ethos-u85",
        256,
        ACTIVATION=code,
        ACTIVATION_MIN=0xFF9C,
        ACTIVATION_MAX=100,
        OFM_PRECISION=1 | BITS[bits] << 1 | 1 << 8,
    )
    pairs = np.zeros((512, 2), "<i2")
    pairs[:, 0], pairs[:, 1] = np.arange(-256, 256) * 128, 128
    held.memory.load_table(0, pairs.reshape(-1).view(np.uint8))
    found = OutputStage(held, None).apply(np.array([[[-200, -100, 7, 200]]]))
    assert (found.reshape(-1) / factor).tolist() == [-100, -100, 7, 100]


@for_each(("family", "own"), [("ethos-u55", {3, 4}), ("ethos-u85", {10, 11})])
def test_that_tables_are_named_instead_of_functions_that_are_not_public(family, own):
    """Tanh and sigmoid; other functions that are refused do not exist."""
    hinted = set()
    for code in range(32):
        with contextlib.suppress(TableFault):
            try:
                stage(bits=8, family=family, macs=256, ACTIVATION=code)
            except ModeFault as fault:
                hinted |= {code} if fault.hint else set()
    assert hinted == own


def test_that_what_takes_time_to_count_is_counted_on_demand():
    made = OutputStage(state(options=Options(), ACTIVATION_MAX=5), None)
    made.apply(np.array([[[9, 9, 9, 9]]]))
    assert made._state.counters.saturated == 0
