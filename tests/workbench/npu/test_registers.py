"""Settings as Arm's headers lay them out, and tensors in memory against numpy."""

from itertools import product

import numpy as np
import pytest

from tests.for_each import for_each
from workbench.npu import registers as layouts
from workbench.npu.arithmetic import Rounding
from workbench.npu.faults import AddressFault, Fault, LimitFault, ModeFault, TableFault
from workbench.npu.memory import CONSTANTS, FAST_SCRATCH, SCRATCH, TABLES, Area, Memory, areas_of
from workbench.npu.registers import CHAINED, NO_STORAGE, FeatureMap, Kernel, Registers, Scale, device
from workbench.npu.state import Limits, WeightCache

MODES = Rounding.DOUBLE, Rounding.NATURAL, Rounding.TRUNCATE


def settings(family="ethos-u55", macs=128, **values):
    made = Registers(device(family, macs))
    for name, value in values.items():
        made.set(name, value)
    return made


# Cores and microblocks: Vela 5.1.0, architecture_features and ethos_u55.cpp.
@for_each(
    ("family", "macs", "cores", "depth", "shared"),
    [
        ("ethos-u55", 32, 1, 4, True),
        ("ethos-u55", 64, 1, 8, True),
        ("ethos-u55", 128, 1, 8, False),
        ("ethos-u55", 256, 1, 8, False),
        ("ethos-u65", 256, 1, 8, False),
        ("ethos-u65", 512, 2, 8, False),
        ("ethos-u85", 128, 1, 8, False),
        ("ethos-u85", 256, 1, 8, False),
        ("ethos-u85", 512, 2, 8, False),
        ("ethos-u85", 1024, 4, 8, False),
        ("ethos-u85", 2048, 4, 8, False),
    ],
)
def test_that_every_device_has_its_cores_and_tables(family, macs, cores, depth, shared):
    found = device(family, macs)
    assert (found.cores, found.ofm_ublock, found.table_is_shared) == (cores, depth, shared)
    assert str(found) == f"{family}-{macs}"
    assert found.u85 == (family == "ethos-u85")


def test_that_other_devices_are_refused():
    for family, macs in (("ethos-u55", 512), ("", 0), ("ethos-u65", 128), ("ethos-u85", 64)):
        with pytest.raises(ModeFault):
            device(family, macs)


def test_that_words_have_their_width_and_sign():
    made = settings(A=(3 << 40) + 5, B=(1 << 40) - 3, C=1 << 39, D=(1 << 39) - 1, W=0x1FF80, X_REGION=0x1A)
    assert made.address("A") == 5
    assert [made.stride(name) for name in "ABCD"] == [5, -3, -(1 << 39), (1 << 39) - 1]
    assert made.region("X") == 2
    assert (made.word("W", signed=True), made.word("W", signed=False)) == (-128, 0xFF80)
    assert settings(W=0x7FFF).word("W", signed=True) == 0x7FFF
    assert (made.get("NONE"), made.get("NONE", 7), made.get("W", 7)) == (0, 7, 0x1FF80)
    with pytest.raises(Fault):
        made["NONE"]


MAP = {
    "REGION": 1,
    "ZERO_POINT": 0xFFFD,
    "BASE0": 16,
    "BASE1": 32,
    "BASE2": 48,
    "BASE3": 64,
    "HEIGHT0_M1": 4,
    "HEIGHT1_M1": 5,
    "WIDTH0_M1": 6,
    "STRIDE_Y": 100,
    "STRIDE_X": 10,
    "STRIDE_C": 2,
}


def mapped(side, precision, family="ethos-u55", macs=128):
    values = {f"{side}_{name}": value for name, value in MAP.items()}
    return settings(family, macs, **values, **{f"{side}_PRECISION": precision}).feature_map(side)


@for_each("side", ["IFM", "IFM2", "OFM"])
@for_each("signed", [0, 1])
@for_each("width", [0, 1, 2, 3])
def test_that_a_feature_map_is_read_from_its_settings(side, signed, width):
    shift = 1 if side == "OFM" else 2
    found = mapped(side, signed | width << shift | 1 << 6)
    assert found == FeatureMap(
        side=side,
        region=1,
        dtype=np.dtype(f"{'ui'[signed]}{1 << width}"),
        bricks=True,
        zero_point=-3 if signed else 0xFFFD,
        bases=(16, 32, 48, 64),
        height0=5,
        height1=6,
        width0=7,
        strides=(100, 10, 2),
        storage=0,
    )
    assert (found.bits, found.signed) == (8 << width, bool(signed))
    assert not mapped(side, signed).bricks
    for layout in (2, 3):
        with pytest.raises(ModeFault):
            mapped(side, layout << 6)


def test_that_storage_is_read_on_the_u85_only():
    for storage in range(4):
        assert mapped("IFM", storage << 14).storage == 0
        found = mapped("IFM", storage << 14, "ethos-u85", 256)
        assert found.storage == storage
        placed = storage < CHAINED
        assert found.bases == ((16, 32, 48, 64) if placed else (0, 0, 0, 0))
        assert (found.height0, found.height1, found.width0) == ((5, 6, 7) if placed else (0, 0, 0))
        assert found.strides == ((100, 10, 2) if placed else (0, 0, 0))
        assert found.region == (0 if storage == NO_STORAGE else 1)


def test_that_the_span_is_that_of_the_type_less_the_zero_point():
    assert mapped("IFM", 1).span == (-128 + 3, 127 + 3)
    assert mapped("IFM", 0).span == (0 - 0xFFFD, 255 - 0xFFFD)
    assert mapped("IFM", 1 | 1 << 2).span == (-32768 + 3, 32767 + 3)


def kernel(stride=0, height=5, width=7, **more):
    pads = {"IFM_PAD_TOP": 0, "IFM_PAD_LEFT": 0, "IFM_PAD_RIGHT": 0, "IFM_PAD_BOTTOM": 0, **more}
    return settings(
        KERNEL_STRIDE=stride, KERNEL_HEIGHT_M1=height - 1, KERNEL_WIDTH_M1=width - 1, **pads
    ).kernel


def test_that_a_window_is_read_from_its_settings():
    plain = kernel(IFM_PAD_TOP=0x81, IFM_PAD_LEFT=0x82, IFM_PAD_RIGHT=0x103, IFM_PAD_BOTTOM=0x184)
    assert plain == Kernel(5, 7, 1, 1, 1, 1, False, 1, 2, 0x84, 3)
    assert plain.padded
    assert not kernel().padded
    for pad in ("TOP", "LEFT", "RIGHT", "BOTTOM"):
        assert kernel(**{f"IFM_PAD_{pad}": 1}).padded
    strides = {
        bits: (kernel(bits).stride_y, kernel(bits).stride_x)
        for bits in (1, 2, 1 << 6, 1 << 9, 1 | 1 << 6, 2 | 1 << 9)
    }
    assert strides == {
        1: (1, 2),
        2: (2, 1),
        1 << 6: (1, 3),
        1 << 9: (3, 1),
        1 | 1 << 6: (1, 4),
        2 | 1 << 9: (4, 1),
    }
    wide = kernel(1 << 3 | 1 << 4 | 1 << 2)
    assert (wide.dilation_y, wide.dilation_x, wide.part_kernel) == (2, 2, True)
    # The registers hold the size of the dilated kernel.
    assert (wide.height, wide.width) == (3, 4)
    assert kernel(1 << 3).dilation_x == 2
    assert kernel(1 << 4).dilation_x == 1
    assert kernel(1 | 2).covered(4, 3) == (3 * 2 + 5, 2 * 2 + 7)
    assert wide.covered(1, 1) == (5, 7)


def test_that_scales_and_roundings_are_read_by_family():
    value = (5 | 3 << 6 | 1 << 13) << 32 | 0xC0000001
    assert settings("ethos-u85", 256, OFM_SCALE=value).ofm_scale == Scale(0x40000001, 5, Rounding.NATURAL, 3)
    modes = [settings("ethos-u85", 256, OFM_SCALE=mode << 45).ofm_scale.rounding for mode in range(6)]
    assert modes == [
        Rounding.DOUBLE,
        Rounding.NATURAL,
        Rounding.DOUBLE_ASYMMETRIC,
        Rounding.SYMMETRIC,
        Rounding.TRUNCATE,
        Rounding.LOWER,
    ]
    for mode in (6, 7):
        with pytest.raises(ModeFault):
            _ = settings("ethos-u85", 256, OFM_SCALE=mode << 45).ofm_scale
    for mode, rounding in enumerate((Rounding.DOUBLE, Rounding.TRUNCATE, Rounding.NATURAL)):
        u55 = settings(OFM_SCALE=value, OFM_PRECISION=mode << 14)
        assert u55.ofm_scale == Scale(0xC0000001, 5, rounding)
        assert u55.ofm_rounding == (rounding, 0)
    with pytest.raises(ModeFault):
        settings(OFM_PRECISION=3 << 14).rounding("OFM")
    assert settings("ethos-u85", 256).ofm_rounding == (Rounding.NATURAL, 0)
    assert settings("ethos-u85", 256, OFM_SCALE=9 << 38).ofm_rounding == (Rounding.DOUBLE, 9)
    operand = settings("ethos-u85", 256, IFM_SCALE=value, IFM2_SCALE=7 << 38)
    assert operand.operand_scale("IFM") == Scale(0x40000001, 5, Rounding.NATURAL, 3)
    assert operand.operand_scale("IFM2") == Scale(0, 0, Rounding.DOUBLE, 7)
    assert settings(OFM_HEIGHT_M1=1, OFM_WIDTH_M1=2, OFM_DEPTH_M1=3).ofm_shape == (2, 3, 4)
    assert layouts.TILES_2X2 == 0


def placed(shape, dtype="i1", *, bricks=False, tiles=None, region=SCRATCH, base=0, storage=0):
    """Return where a tensor lies; ``tiles`` are height0, height1, width0 and four bases."""
    height, width, depth = shape
    item = np.dtype(dtype).itemsize
    height0, height1, width0, *bases = tiles or (height, height, width, base, 0, 0, 0)
    if bricks:
        strides = (width * 16 * item * -(-depth // 16), 16 * item, width * 16 * item)
    else:
        strides = (width * depth * item, depth * item, item)
    return FeatureMap(
        "IFM", region, np.dtype(dtype), bricks, 0, tuple(bases), height0, height1, width0, strides, storage
    )


def memory(scratch=4096, constants=b"constant" * 8, limit=1 << 20, checked=False):
    return Memory(constants, scratch, limit=limit, checked=checked)


@for_each("dtype", ["i1", "u1", "i2", "i4", "i8"])
@for_each("bricks", [False, True])
@for_each("depth", [1, 16, 19, 40])
def test_that_a_tensor_is_read_as_it_was_written(dtype, bricks, depth):
    held, shape = memory(1 << 14), (3, 5, depth)
    tensor = placed(shape, dtype, bricks=bricks, base=64)
    values = np.arange(15 * depth, dtype=np.int64).reshape(shape).astype(dtype)
    held.write(tensor, values[None])
    assert held.read(tensor, shape).tobytes() == values.tobytes()
    item = np.dtype(dtype).itemsize
    raw = held.regions[SCRATCH][0]
    for y, x, c in ((0, 0, 0), (2, 4, depth - 1), (1, 3, depth // 2)):
        at = 64 + y * tensor.strides[0] + x * tensor.strides[1]
        at += (c >> 4) * tensor.strides[2] + (c & 15) * item if bricks else c * item
        assert raw[at : at + item].tobytes() == values[y, x, c].tobytes()
    size = 15 * depth * item
    assert (held.bytes_written, held.bytes_read) == (size, size)


def test_that_a_tensor_of_four_tiles_lies_in_four_places():
    held, shape = memory(), (5, 6, 2)
    tensor = placed(shape, tiles=(2, 3, 4, 0, 1000, 2000, 3000))
    values = np.arange(60, dtype=np.int8).reshape(shape)
    held.write(tensor, values[None])
    assert np.array_equal(held.read(tensor, shape)[0], values)
    raw = held.regions[SCRATCH].view(np.int8)[0]
    assert raw[0] == values[0, 0, 0]
    assert raw[1000] == values[0, 4, 0]
    assert raw[2000] == values[2, 0, 0]
    assert raw[3000] == values[3, 4, 0]
    assert raw[3000 + 12 + 2 + 1] == values[4, 5, 1]
    one = placed(shape, tiles=(5, 5, 6, 0, 0, 0, 0), storage=1)
    assert held.read(one, shape).shape == (1, *shape)
    with pytest.raises(ModeFault):
        held.read(placed(shape, tiles=(4, 5, 6, 0, 0, 0, 0), storage=1), shape)
    with pytest.raises(ModeFault):
        held.read(placed(shape, tiles=(5, 5, 5, 0, 0, 0, 0), storage=1), shape)


def test_that_areas_know_their_bytes_also_backwards():
    forth = Area(1, 100, (3, 4), (10, 2), 2)
    assert (forth.first, forth.end, forth.elements) == (100, 100 + 20 + 6 + 2, 12)
    back = Area(1, 100, (3, 4), (-10, 2), 1)
    assert (back.first, back.end) == (80, 107)


def test_that_what_lies_outside_a_region_is_refused():
    held = memory(128)
    assert held.bytes_at(SCRATCH, 0, 128).size == 128
    assert held.peak[SCRATCH] == 128
    assert held.bytes_at(0, 8, 8).tobytes() == b"constant"
    for region, address, size in (
        (SCRATCH, 1, 128),
        (SCRATCH, -1, 2),
        (SCRATCH, 128, 1),
        (3, 0, 1),
        (SCRATCH, 0, 0),
        (0, 60, 5),
    ):
        with pytest.raises(AddressFault):
            held.bytes_at(region, address, size)
    with pytest.raises(AddressFault):
        held.put(0, 0, np.zeros(1, np.uint8))
    held.put(SCRATCH, 127, np.ones(1, np.uint8))
    assert held.regions[SCRATCH][0, 127] == 1
    with pytest.raises(AddressFault):
        held.view(Area(SCRATCH, 0, (129,), (0,), 1), np.dtype(np.uint8), write=False)
    held.view(Area(SCRATCH, 0, (128,), (0,), 1), np.dtype(np.uint8), write=False)


def test_that_fast_scratch_grows_up_to_the_limit():
    held = memory(1024, b"", limit=1024 + 200_000, checked=True)
    held.put(FAST_SCRATCH, 10, np.ones(5, np.uint8))
    assert held.regions[FAST_SCRATCH].size == 1 << 16  # Pages of 64 KiB.
    assert held.regions[FAST_SCRATCH][0, 9] == held.regions[FAST_SCRATCH][0, 15] == 0xA5
    held.put(FAST_SCRATCH, 199_999, np.ones(1, np.uint8))
    assert held.regions[FAST_SCRATCH][0, 10:15].tolist() == [1] * 5
    with pytest.raises(AddressFault):
        held.put(FAST_SCRATCH, 300_000, np.ones(1, np.uint8))
    assert memory(16).regions[SCRATCH].tolist() == [[0] * 16]
    assert memory(16, checked=True).regions[SCRATCH].tolist() == [[0xA5] * 16]


def test_that_a_program_may_not_want_more_than_the_limit():
    memory(100, b"x" * 28, limit=128)
    with pytest.raises(LimitFault):
        memory(101, b"x" * 28, limit=128)


def test_that_a_tensor_larger_than_its_region_is_refused_before_it_is_made():
    held = memory(128, b"", limit=1 << 12)
    tensor = placed((1, 1, 128))
    held.demand_room(tensor, (1, 1, 128))
    with pytest.raises(AddressFault):
        held.demand_room(tensor, (1, 1, 129))
    # A sixteenth of the limit at most, as elements of 64 bits are computed twice.
    fast = placed((1, 1, 256), region=FAST_SCRATCH)
    held.demand_room(fast, (1, 16, 16))
    with pytest.raises(LimitFault):
        held.demand_room(fast, (1, 1, 257))
    chained = placed((1, 1, 256), region=7, storage=CHAINED)
    held.demand_room(chained, (1, 1, 256))
    with pytest.raises(AddressFault):
        held.demand_room(placed((1, 1, 4), region=7), (1, 1, 4))


class Watch:
    def __init__(self):
        self.seen = []

    def reads(self, area):
        self.seen.append(("reads", area))

    def writes(self, area):
        self.seen.append(("writes", area))


def test_that_tables_must_be_loaded_and_lie_in_table_memory():
    held = memory()
    held.watch = Watch()
    held.load_table(256, np.arange(256, dtype=np.uint8))
    assert held.table(256, 256).tolist() == list(range(256))
    assert [(how, area.region, area.first, area.end) for how, area in held.watch.seen] == [
        ("writes", TABLES, 256, 512),
        ("reads", TABLES, 256, 512),
    ]
    for offset, size in ((255, 256), (256, 257), (-1, 4), (2048, 1)):
        with pytest.raises(TableFault):
            held.table(offset, size)
    held.load_table(0, np.zeros(2048, np.uint8))
    assert held.table(0, 2048).size == 2048
    with pytest.raises(TableFault):
        held.load_table(1, np.zeros(2048, np.uint8))
    held.bytes_at(SCRATCH, 0, 4)
    held.put(SCRATCH, 0, np.zeros(4, np.uint8))
    assert [how for how, _ in held.watch.seen[-2:]] == ["reads", "writes"]


def test_that_the_least_recently_used_weights_are_dropped():
    cache = WeightCache(limit=10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    assert cache.get("a") == 1
    # Together with what stays it is as large as the limit.
    cache.put("c", 3, 6)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    cache.put("d", 4, 100)
    assert [cache.get(key) for key in "acd"] == [None, None, 4]
    cache.put("e", 5, 1)
    assert cache.get("d") is None


def test_that_a_run_has_room_for_any_compiled_network():
    assert Limits() == Limits(steps=2_000_000, memory_bytes=1 << 30, work=200_000_000_000)


def test_that_a_copy_takes_bytes_between_regions_and_writes_no_constants():
    memory = Memory(bytes(range(32)), 64, limit=1 << 10, checked=False)
    memory.record = []
    memory.copy((CONSTANTS, 8), (SCRATCH, 16), 16)
    assert memory.regions[SCRATCH][0, 16:32].tolist() == list(range(8, 24))
    assert not memory.regions[SCRATCH][0, :16].any()
    read, written = memory.record
    assert (read.region, read.written, read.address) == (CONSTANTS, False, 8)
    assert (written.region, written.written, written.address) == (SCRATCH, True, 16)
    assert (read.bricks, written.bricks) == (False, False)
    assert read.places.tolist() == list(range(8, 24))
    assert written.places.tolist() == list(range(16, 32))
    with pytest.raises(Fault):
        memory.copy((SCRATCH, 16), (CONSTANTS, 0), 16)
    with pytest.raises(Fault):
        memory.copy((SCRATCH, 56), (SCRATCH, 0), 16)
    assert memory.regions[CONSTANTS].tolist() == [list(range(32))]


def test_that_fast_scratch_gets_what_the_constants_and_scratch_leave():
    left = (1 << 17) - 1024
    memory(1000, bytes(24), limit=1 << 17).put(FAST_SCRATCH, left - 1, np.ones(1, np.uint8))
    with pytest.raises(AddressFault):
        memory(1000, bytes(24), limit=1 << 17).put(FAST_SCRATCH, left, np.ones(1, np.uint8))
    with pytest.raises(AddressFault):
        memory(1000, bytes(24), limit=1024).put(FAST_SCRATCH, 0, np.ones(1, np.uint8))


def test_that_not_even_one_byte_fits_a_region_that_does_not_exist():
    with pytest.raises(AddressFault):
        memory().demand_room(placed((1, 1, 1), region=7), (1, 1, 1))


def address(tensor, y, x, c):
    """Return where an element lies: tiles 0 and 2 on the left, 1 and 3 on the right."""
    right = x >= tensor.width0
    split = tensor.height1 if right else tensor.height0
    base = tensor.bases[right + 2 * (y >= split)]
    y, x = y - split * (y >= split), x - tensor.width0 * right
    item = tensor.dtype.itemsize
    place = base + y * tensor.strides[0] + x * tensor.strides[1]
    if tensor.bricks:
        return place + (c >> 4) * tensor.strides[2] + (c & 15) * item
    return place + c * item


@for_each("bricks", [False, True])
@for_each("tiles", [None, (2, 3, 4, 0, 10_000, 20_000, 30_000)])
def test_that_areas_of_a_box_are_the_addresses_of_its_elements(bricks, tiles):
    shape = (5, 6, 40)
    tensor = placed(shape, "i2", bricks=bricks, tiles=tiles, base=64)
    for box in (
        ((0, 5), (0, 6), (0, 40)),
        ((0, 2), (0, 4), (0, 16)),
        ((1, 4), (3, 6), (5, 37)),
        ((4, 5), (5, 6), (39, 40)),
        ((2, 3), (4, 5), (16, 32)),
        ((0, 1), (0, 1), (20, 21)),
    ):
        found = list(areas_of(tensor, shape, tuple(slice(*ends) for ends in box)))
        assert all(area.elements for area in found)
        places = [int(place) for area in found for place in area.places.ravel()]
        wanted = [address(tensor, *at) for at in product(*(range(*ends) for ends in box))]
        assert sorted(places) == sorted(wanted), box
