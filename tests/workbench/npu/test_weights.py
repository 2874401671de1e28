"""Weight streams: decoded, refused when damaged, and put in order."""

import contextlib
import functools
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.for_each import for_each
from tests.workbench.npu.streams import DATA, compiled
from workbench.errors import WorkbenchError
from workbench.npu.faults import Fault, WeightFault
from workbench.npu.machine import Machine
from workbench.npu.state import WeightCache
from workbench.npu.weight_order import Geometry, microblock_depth, order_u55, order_u85, placed, woven_u85
from workbench.npu.weights import decode, decode_fast

LIMIT = 1 << 20


@functools.cache
def streams():
    """Streams of Arm's own encoder, with what Arm's own decoder makes of them."""
    with np.load(DATA / "weights.npz") as stored:
        names = {key.split("/")[0] for key in stored.files}
        return {n: (stored[f"{n}/stream"].tobytes(), stored[f"{n}/weights"]) for n in names}


class Bits:
    """Bits written one after the other, the lowest of a byte first."""

    def __init__(self):
        self._value, self._length = 0, 0

    def put(self, value, count):
        self._value |= (value & (1 << count) - 1) << self._length
        self._length += count

    @property
    def beyond(self):
        """How many bits stand in the last byte; none where it is full."""
        return self._length % 8

    def bytes(self, *, ended=True):
        """Return the bytes, with the code for the end if there is one."""
        if ended:
            self.put(7, 3)
        return self._value.to_bytes(-(-self._length // 8), "little")


def encode(weights, divisor):
    """Encode one slice without runs and without a palette, as plainly as the format allows."""
    return encoded(weights, divisor).bytes()


def encoded(weights, divisor, *, new=True):
    """Return the bits of a slice; ``new`` tells that an empty palette stands in its header."""
    codes = [abs(w) * 2 + (w < 0) for w in weights]
    out = Bits()
    for value, count in ((6, 3), (len(codes) - 1, 15), (divisor, 3), (0, 1), (int(new), 1)):
        out.put(value, count)
    if new:
        out.put(0, 13)
    # Each symbol is its quotient in ones and a zero; ones go in pairs.
    unary = []
    for code in codes:
        quotient = code >> divisor
        unary += [2] * (quotient // 2) + [quotient % 2]
    pending = []
    taken = 0
    for at in range(0, len(unary), 12):
        chunk = unary[at : at + 12] + [0] * (12 - len(unary[at : at + 12]))
        out.put(sum((c > 0) << i for i, c in enumerate(chunk)), 12)
        ones = [c - 1 for c in chunk if c]
        out.put(sum(c << i for i, c in enumerate(ones)), len(ones))
        for code in pending:
            out.put(code, divisor)
        ended = sum(c < 2 for c in unary[at : at + 12])
        pending, taken = codes[taken : taken + ended], taken + ended
    for code in pending:
        out.put(code, divisor)
    return out


def test_that_a_stream_of_nothing_has_no_weights():
    assert decode(b"", LIMIT).tolist() == []
    assert decode(b"\xff" * 16, LIMIT).tolist() == []


# Weights whose slices end at each of the bits of a byte.
LENGTHS = [[1] * count + [2] * more for count, more in product(range(1, 10), (0, 1))]


def test_that_a_stream_may_go_on_in_the_byte_behind_an_end():
    remainders = set()
    for first in LENGTHS:
        bits = encoded(first, 2)
        remainders.add((bits.beyond + 3) % 8)
        assert decode(bits.bytes() + encode([5, -6], 3), LIMIT).tolist() == [*first, 5, -6]
    assert len(remainders) == 8


def test_that_a_stream_may_end_with_its_last_bit():
    """Three bits behind a slice begin another one, where they are not the code for the end."""
    by_end = {encoded(weights, 2).beyond: weights for weights in LENGTHS}
    assert decode(encoded(by_end[0], 2).bytes(ended=False), LIMIT).tolist() == by_end[0]
    bits = encoded(by_end[5], 2)
    bits.put(0, 3)
    with pytest.raises(WeightFault):
        decode(bits.bytes(ended=False), LIMIT)


def test_that_a_slice_without_a_palette_holds_the_weights_themselves():
    weights = [3, -4, 0, 7, 1, -1]
    assert decode(encoded(weights, 2, new=False).bytes(), LIMIT).tolist() == weights
    bits = Bits()
    for value, count in ((6, 3), (4, 15), (7, 3), (0, 1), (0, 1)):
        bits.put(value, count)
    # Indices of no bits: five times the first weight.
    assert decode(bits.bytes(), LIMIT).tolist() == [0] * 5


def test_that_weights_have_nine_bits():
    assert decode(encode([-255, 255], 5), LIMIT).tolist() == [-255, 255]
    with pytest.raises(WeightFault):
        decode(encode([256], 5), LIMIT)


def test_that_a_divisor_that_does_not_exist_is_refused():
    bits = Bits()
    for value, count in ((6, 3), (0, 15), (6, 3), (0, 1), (0, 1), (0, 60)):
        bits.put(value, count)
    with pytest.raises(WeightFault):
        decode(bits.bytes(), LIMIT)


def test_that_a_header_cut_short_is_refused():
    bits = Bits()
    # A palette of 32 entries of nine bits, of which nothing is there.
    for value, count in ((6, 3), (0, 15), (0, 3), (0, 1), (1, 1), (0, 5), (31, 5), (7, 3)):
        bits.put(value, count)
    with pytest.raises(WeightFault):
        decode(bits.bytes(ended=False), LIMIT)


@for_each("name", sorted(streams()))
def test_that_streams_decode_as_with_the_decoder_of_arm(name):
    stream, weights = streams()[name]
    assert np.array_equal(decode(stream, LIMIT), weights)


@for_each("divisor", range(6))
def test_that_weights_survive_encoding_and_decoding(divisor):
    weights = np.random.default_rng(divisor).integers(-40, 41, 1000)
    got = decode(encode([int(w) for w in weights], divisor), LIMIT)
    assert np.array_equal(got, weights)


def test_that_a_stream_cut_short_is_refused():
    stream, weights = streams()["normal"]
    for size in range(8, len(stream) - 16, 97):
        with pytest.raises(Fault):
            decode(stream[:size], LIMIT)
    assert len(decode(stream, LIMIT)) == len(weights)


def test_that_a_stream_longer_than_the_limit_is_refused():
    for stream, weights in streams().values():
        assert len(decode(stream, len(weights))) == len(weights)
        with pytest.raises(WeightFault):
            decode(stream, len(weights) - 1)


def test_that_damaged_streams_give_weights_or_a_fault():
    generator = np.random.default_rng(5)
    refused = 0
    for stream, _ in streams().values():
        for _ in range(3):
            broken = bytearray(stream)
            broken[generator.integers(len(broken))] ^= 1 << int(generator.integers(8))
            try:
                assert len(decode(bytes(broken), LIMIT)) <= LIMIT
            except Fault:
                refused += 1
    assert refused > 0


def test_that_noise_gives_weights_or_a_fault():
    generator = np.random.default_rng(6)
    outcomes = set()
    for size in (1, 3, 17, 64, 300):
        for _ in range(20):
            try:
                outcomes.add(type(decode(generator.bytes(size), 1 << 16)))
            except Fault as fault:
                outcomes.add(type(fault))
    assert WeightFault in outcomes


def test_that_the_fast_format_has_raw_bytes_and_small_palettes():
    raw = bytes([1]) + bytes(12) + bytes([0xFE]) + bytes(18) + bytes([5, 0xFF, 0])
    assert decode_fast(raw, 3).tolist() == [7, 1, 2]
    eight = raw[:32] + bytes(8)
    assert decode_fast(eight, 8).size == 8
    with pytest.raises(WeightFault):
        decode_fast(eight, 9)
    codes = [2 * number for number in range(16)]
    header = sum(code << 112 + 9 * at for at, code in enumerate(codes))
    stream = header.to_bytes(32, "little") + bytes([0x10, 0x32, 0xFE])
    assert decode_fast(stream, 6).tolist() == [0, 1, 2, 3, 14, 15]
    with pytest.raises(WeightFault):
        decode_fast(stream, 7)
    header = 2 | 0b000000011 << 112 | 0b000000100 << 121
    stream = header.to_bytes(32, "little") + bytes([0b01_00_01_00])
    assert decode_fast(stream, 4).tolist() == [-1, 2, -1, 2]
    assert decode_fast(stream + bytes([0b00_00_01_01]), 8).tolist()[4:] == [2, 2, -1, -1]
    with pytest.raises(WeightFault):
        decode_fast(stream, 5)


def slow_order_u55(g, stream):
    """The loops of the encoder, one weight at a time."""
    depth = len(range(stream, g.ofm_depth, g.streams))
    step = (g.block_depth + g.streams - 1 - stream) // g.streams
    size = 16 if g.part_kernel or g.wide else 32
    high, wide = 8 // g.dilation_y, 8 // g.dilation_x
    fill = 4 if g.depthwise else (2 if g.wide else 4) if g.part_kernel else 1
    unit = 1 if g.depthwise else 8
    for ob in range(0, depth, step):
        for ib in range(0, 1 if g.depthwise else g.ifm_depth, size):
            block = 1 if g.depthwise else min(size, g.ifm_depth - ib) if g.part_kernel else size
            for y0, x0 in product(range(0, g.height, high), range(0, g.width, wide)):
                rows, columns = min(high, g.height - y0), min(wide, g.width - x0)
                elements = -(-rows * columns // fill) * fill
                outer = range(0, block, unit) if g.part_kernel else (0,)
                inner = (0,) if g.part_kernel else range(0, block, unit)
                for io, ou, e, ii in product(
                    outer, range(0, min(step, depth - ob), g.ofm_ublock), range(elements), inner
                ):
                    for oz, iz in product(range(g.ofm_ublock), range(unit)):
                        o, i = ob + ou + oz, ib + io + ii + iz
                        y, x = y0 + e // columns, x0 + e % columns
                        if o < depth and i < g.ifm_depth and e < rows * columns:
                            row = o * g.streams + stream
                            yield ((row * g.height + y) * g.width + x) * g.ifm_depth + i
                        else:
                            yield -1


def geometry(**settings):
    base = {
        "ofm_depth": 21,
        "height": 3,
        "width": 3,
        "ifm_depth": 40,
        "block_depth": 16,
        "ifm_bits": 8,
        "ofm_ublock": 8,
        "depthwise": False,
        "part_kernel": False,
        "dilation_y": 1,
        "dilation_x": 1,
        "streams": 1,
        "stride_y": 1,
        "stride_x": 1,
        "macs": 0,
        "sparse": False,
    }
    return Geometry(**{**base, **settings})


U55 = [
    {},
    {"part_kernel": True},
    {"part_kernel": True, "ifm_bits": 16, "ifm_depth": 35},
    {"ifm_bits": 16},
    {"depthwise": True, "ifm_depth": 1},
    {"height": 11, "width": 9},
    {"streams": 2, "ofm_depth": 37},
    {"ofm_ublock": 4, "ofm_depth": 5},
    {"height": 1, "width": 1, "ifm_depth": 100},
    {"part_kernel": True, "height": 1, "width": 20},
    {"height": 1, "width": 9},
    {"dilation_y": 2, "height": 9, "width": 5, "ifm_depth": 8},
    {"dilation_x": 2, "height": 5, "width": 9, "ifm_depth": 8},
    {"depthwise": True, "part_kernel": True, "ifm_depth": 1},
]


@for_each("settings", U55)
def test_that_the_order_of_the_u55_is_the_one_of_the_loops(settings):
    chosen = geometry(**settings)
    for stream in range(chosen.streams):
        assert order_u55(chosen, stream).tolist() == list(slow_order_u55(chosen, stream))


U85 = [
    {"macs": 256},
    {"macs": 256, "part_kernel": True},
    {"macs": 512, "streams": 2},
    {"macs": 2048, "streams": 4, "ofm_ublock": 64, "ofm_depth": 70, "block_depth": 64},
    {"macs": 256, "depthwise": True, "ifm_depth": 1, "stride_x": 2, "stride_y": 2, "height": 5},
    {"macs": 256, "part_kernel": True, "stride_x": 2, "stride_y": 2, "ifm_bits": 16},
]


def slow_order_u85(g, stream, gap):
    """The loops of the encoder for the U85, one weight at a time."""
    unit = 1 if g.depthwise else 16 if g.sparse else 8
    ifm_blocks = list(range(0, g.ifm_depth, g.ifm_block))
    high, wide = 8 // g.dilation_y, 8 // g.dilation_x
    for number, first in enumerate(range(0, g.ofm_depth, g.block_depth)):
        for ib in ifm_blocks[:: -1 if number % 2 else 1]:
            for x0, y0 in product(range(0, g.width, wide), range(0, g.height, high)):
                elements = elements_u85(
                    g, range(y0, min(y0 + high, g.height)), range(x0, min(x0 + wide, g.width)), gap
                )
                inputs = range(ib, min(ib + g.ifm_block, g.ifm_depth), g.ifm_ublock)
                outputs = range(first, min(first + g.block_depth, g.ofm_depth), g.ofm_ublock)
                quads = range(4 * stream, g.ofm_ublock, 4 * g.streams)
                for i0, o0, element, i1, quad, c, lane in product(
                    inputs, outputs, elements, range(0, g.ifm_ublock, unit), quads, range(4), range(unit)
                ):
                    o, i = o0 + quad + c, i0 + i1 + lane
                    if element is None or o >= g.ofm_depth or i >= g.ifm_depth:
                        yield -1
                    else:
                        y, x = element
                        yield ((o * g.height + y) * g.width + x) * g.ifm_depth + i


def elements_u85(g, rows, columns, gap):
    """Return rows and columns of a part of the kernel in their order, None for filling."""
    by_phase = g.part_kernel or g.depthwise
    steps = (g.stride_y, g.stride_x) if by_phase else (1, 1)
    found = []
    for phase_y, phase_x in product(range(steps[0]), range(steps[1])):
        for number, y in enumerate(rows[phase_y :: steps[0]]):
            across = [(y, x) for x in columns[phase_x :: steps[1]]]
            found += across[::-1] if number % 2 else across
    while len(found) % g.rounding:
        found.append(None)
    if g.depthwise:
        groups = [found[at : at + 10] + [None] * gap for at in range(0, len(found), 10)]
        found = [element for group in groups for element in group]
    return found


FURTHER_U85 = [
    {"ofm_depth": 48, "ifm_depth": 40, "height": 1, "width": 1},
    {"part_kernel": True, "ifm_bits": 16, "ifm_depth": 24},
    {"sparse": True, "ifm_depth": 70},
    {"dilation_y": 2, "height": 5, "width": 9, "ifm_depth": 8},
    {"dilation_x": 2, "height": 9, "width": 5, "ifm_depth": 8},
    {"depthwise": True, "ifm_depth": 1, "macs": 1024, "height": 5, "width": 4, "stride_x": 3},
    {"part_kernel": True, "dilation_y": 2, "stride_y": 2, "height": 6, "ifm_depth": 8},
]


@for_each("settings", [*U85, *FURTHER_U85])
def test_that_the_order_of_the_u85_is_the_one_of_the_loops(settings):
    chosen = geometry(**{"ofm_ublock": 16, "macs": 256, **settings})
    gap = 6 if chosen.depthwise and chosen.macs == 1024 else 0
    for stream in range(chosen.streams):
        found = order_u85(chosen, stream).tolist()
        assert found == list(slow_order_u85(chosen, stream, gap))


@for_each("settings", [{"streams": 1}, {"streams": 2}, {"streams": 2, "part_kernel": True}])
def test_that_the_one_stream_of_the_fast_format_takes_smallest_blocks_of_the_cores_in_turn(settings):
    """All cores together have the weights that one core alone has of a block."""
    chosen = geometry(**{"ofm_ublock": 16, "macs": 512, "ofm_depth": 40, **settings})
    woven = woven_u85(chosen)
    alone = order_u85(replace(chosen, streams=1), 0)
    assert woven.size == alone.size
    rows = chosen.rounding if chosen.part_kernel else 1
    size = chosen.ofm_ublock * chosen.ifm_ublock * rows
    for at in range(0, woven.size, size):
        block, together = woven[at : at + size], alone[at : at + size]
        assert sorted(block) == sorted(together)
        # A core has every second group of four channels.
        for core, part in enumerate(np.split(block, chosen.streams)):
            channels = part[part >= 0] // int(np.prod(chosen.shape[1:]))
            assert set(channels // 4 % chosen.streams) <= {core}


@for_each("settings", U85)
def test_that_every_weight_of_the_u85_has_one_place(settings):
    chosen = geometry(**{"ofm_ublock": 16, **settings})
    orders = [order_u85(chosen, stream) for stream in range(chosen.streams)]
    places = np.concatenate(orders)
    assert sorted(places[places >= 0]) == list(range(int(np.prod(chosen.shape))))


def test_that_ifm_blocks_of_the_u85_go_forth_and_back():
    chosen = geometry(ofm_ublock=16, macs=256, height=1, width=1, ofm_depth=48, ifm_depth=64, block_depth=16)
    channels = order_u85(chosen, 0) % 64
    assert [int(channels[at]) for at in range(0, 3072, 512)] == [0, 32, 32, 0, 0, 32]


def test_that_kernel_rows_of_the_u85_go_forth_and_back():
    chosen = geometry(ofm_ublock=16, macs=256, ofm_depth=16, ifm_depth=32)
    elements = order_u85(chosen, 0)[:: 16 * 32] // 32
    assert elements.tolist() == [0, 1, 2, 5, 4, 3, 6, 7, 8]


def test_that_filling_must_be_zero_and_lengths_must_agree():
    places, into = np.array([0, -1, 1]), np.zeros(2, np.int16)
    placed(np.array([5, 0, 6], np.int16), places, into)
    assert into.tolist() == [5, 6]
    with pytest.raises(WeightFault):
        placed(np.array([5, 1, 6], np.int16), places, into)
    with pytest.raises(WeightFault):
        placed(np.array([5, 0], np.int16), places, into)


def places_of_streams(machine):
    """Return first byte and length of each weight stream in the constants."""
    state, found = {}, set()
    for command in machine.commands:
        state[command.name.removeprefix("NPU_SET_")] = command.value
        if command.name == "NPU_OP_CONV" and state["WEIGHT_REGION"] == 0:
            found.add((state["WEIGHT_BASE"], state["WEIGHT_LENGTH"]))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, 24])
def test_that_flipped_bits_that_change_weights_change_outputs(count):
    case = compiled()["net_residual_0"]
    machine = Machine(case.blob)
    generator = np.random.default_rng(7)
    inputs = [generator.integers(-128, 128, case.inputs[0].shape, np.int8) for _ in range(3)]
    want = [machine.run([values]).outputs for values in inputs]
    start = case.blob.index(b"weight_data") + 32
    streams = places_of_streams(machine)
    noticed = changed = 0
    for _ in range(count):
        base, length = streams[generator.integers(len(streams))]
        at = start + base + int(generator.integers(length))
        broken = bytearray(case.blob)
        broken[at] ^= 1 << int(generator.integers(8))
        first, end = start + base, start + base + length
        try:
            same = np.array_equal(decode(broken[first:end], LIMIT), decode(case.blob[first:end], LIMIT))
        except Fault:
            same = False
        if same:
            continue
        changed += 1
        try:
            other = Machine(bytes(broken))
            noticed += any(
                not np.array_equal(other.run([values]).outputs[0], outputs[0])
                for values, outputs in zip(inputs, want, strict=True)
            )
        except WorkbenchError:
            noticed += 1
    assert changed > 0.6 * count
    assert noticed / changed >= 0.9


@for_each(
    ("macs", "ifm_bits", "gap"),
    [
        (128, 8, 0),
        (256, 8, 0),
        (512, 8, 2),
        (1024, 8, 6),
        (2048, 8, 6),
        (128, 16, 2),
        (256, 16, 2),
        (512, 16, 2),
        (1024, 16, 6),
    ],
)
def test_that_depthwise_groups_of_the_u85_have_a_gap_that_grows_with_its_macs(macs, ifm_bits, gap):
    chosen = geometry(
        ofm_ublock=16,
        macs=macs,
        depthwise=True,
        ifm_depth=1,
        ifm_bits=ifm_bits,
        ofm_depth=16,
        height=1,
        width=1,
    )
    # Ten elements and the gap, of 16 channels.
    assert len(order_u85(chosen, 0)) == (10 + gap) * 16


@for_each(
    ("settings", "block", "ublock", "rounding"),
    [
        ({"macs": 128}, 32, 32, 1),
        ({"macs": 256}, 32, 32, 1),
        ({"macs": 512}, 64, 64, 1),
        ({"macs": 256, "ofm_ublock": 8}, 64, 64, 1),
        ({"macs": 512, "ifm_bits": 32}, 32, 32, 1),
        ({"macs": 256, "sparse": True}, 128, 128, 1),
        ({"macs": 512, "sparse": True, "ifm_bits": 16}, 64, 64, 1),
        ({"macs": 256, "part_kernel": True}, 16, 16, 5),
        ({"macs": 256, "part_kernel": True, "ifm_bits": 16}, 16, 8, 10),
        ({"macs": 256, "part_kernel": True, "sparse": True}, 16, 16, 10),
        ({"macs": 256, "part_kernel": True, "sparse": True, "ifm_bits": 16}, 16, 16, 10),
        ({"macs": 256, "depthwise": True, "part_kernel": True}, 32, 1, 10),
    ],
)
def test_that_blocks_of_the_u85_are_those_of_vela(settings, block, ublock, rounding):
    """Vela 5.1.0, ethos_u85.cpp and ethos_u85_weight_encoder.cpp."""
    chosen = geometry(**{"ofm_ublock": 16, **settings})
    assert (chosen.ifm_block, chosen.ifm_ublock, chosen.rounding) == (block, ublock, rounding)


# Rows and columns of the output that each microblock covers.
PIXELS = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 16}


def test_that_a_microblock_has_an_eighth_of_the_macs_as_elements():
    depths = {}
    for macs, kind in product((128, 256, 512, 1024, 2048), PIXELS):
        with contextlib.suppress(Fault):
            depths[macs, kind] = microblock_depth(macs, kind)
    assert {at: depth * PIXELS[at[1]] * 8 for at, depth in depths.items()} == {at: at[0] for at in depths}
    assert {macs for macs, _ in depths} == {128, 256, 512, 1024, 2048}
    assert len(depths) == 13


@for_each(("macs", "kind"), [(128, 2), (2048, 0), (64, 0), (256, 6)])
def test_that_a_microblock_of_another_npu_is_refused(macs, kind):
    with pytest.raises(Fault):
        microblock_depth(macs, kind)


def test_that_decoded_weights_are_kept_until_there_are_too_many():
    kept = WeightCache()
    for key in "ab":
        kept.put(key, key.upper(), 1 << 20)
    assert [kept.get(key) for key in "abc"] == ["A", "B", None]
    small = WeightCache(limit=10)
    small.put("a", "A", 5)
    small.put("b", "B", 5)
    assert small.get("a") == "A"
    # The one that was used longest ago goes.
    small.put("c", "C", 1)
    assert [small.get(key) for key in "abc"] == ["A", None, "C"]
    small.put("d", "D", 11)
    assert [small.get(key) for key in "acd"] == [None, None, "D"]
