"""Command streams laid out by hand, and the names of Vela's own table of registers."""

import struct

from tests.for_each import for_each
from tests.problems import refused
from workbench.pte.npu_commands import (
    Area,
    Command,
    CommandStream,
    Operation,
    decode,
    listing,
    name_of,
    operations,
    region_name,
    target_of_commands,
    tensors,
)
from workbench.pte.vela_stream import Port

# Arm's ethos-u-core-driver 24.11, ethosu85_interface.h: what differs from Ethos-U55 and U65.
ON_U85 = """
007 OP_RESIZE
108 SET_IFM_BROADCAST
12a SET_RESIZE_X_SCALE_N_M1
12b SET_RESIZE_Y_SCALE_N_M1
12c SET_RESIZE_X_OFFSET
12d SET_RESIZE_Y_OFFSET
12e SET_WEIGHT_FORMAT
134 SET_DMA0_IDX_REGION
180 SET_IFM2_BROADCAST
4025 SET_IFM_SCALE
4026 SET_IFM2_SCALE
4027 SET_OP_SCALAR
4033 SET_DMA0_SRC_STRIDE0
4034 SET_DMA0_SRC_STRIDE1
4035 SET_DMA0_DST_STRIDE0
4036 SET_DMA0_DST_STRIDE1
4037 SET_DMA0_IDX
4038 SET_DMA0_IDX_MAX
4039 SET_DMA0_IDX_SKIP1
4090 SET_WEIGHT1_BASE
4091 SET_WEIGHT1_LENGTH
4092 SET_WEIGHT2_BASE
4093 SET_WEIGHT2_LENGTH
4094 SET_WEIGHT3_BASE
4095 SET_WEIGHT3_LENGTH
4096 SET_RESIZE_X_STEP
4097 SET_RESIZE_Y_STEP
4100 OP_BRANCH
"""
NOT_ON_U85 = (0x10D, 0x18D, 0x181, 0x123)


def registers():
    """Return the name of every command of Ethos-U55 and U65, as Vela has it."""
    from ethosu.vela.ethos_u55_regs import ethos_u55_regs as vela

    short = {command.value: command.name for command in vela.cmd0}
    return short | {command.value | 0x4000: command.name for command in vela.cmd1}


def test_that_commands_have_the_names_of_arms_tools():
    known = registers()
    assert len(known) > 90
    assert {code: name_of(code, u85=False) for code in known} == known
    assert name_of(0x1FF, u85=False) == "command 0x01ff"
    assert name_of(0x4100, u85=False) == "command 0x4100"


def test_that_commands_of_the_u85_have_its_own_names():
    own = dict(line.split() for line in ON_U85.strip().splitlines())
    named = {int(code, 16): f"NPU_{name}" for code, name in own.items()}
    assert {code: name_of(code, u85=True) for code in named} == named
    for code in NOT_ON_U85:
        assert name_of(code, u85=True) == f"command 0x{code:04x}"
    for code, name in registers().items():
        if code not in named and code not in NOT_ON_U85:
            assert name_of(code, u85=True) == name


def short(code, value=0):
    return [code | value << 16]


def long(code, value):
    return [code | 0x4000 | (value >> 32) << 16, value & 0xFFFFFFFF]


def stream(*commands, family=0, macs=7, mark=b"COP1"):
    """Return the bytes of a stream; ``macs`` is the exponent of 2."""
    words = [word for command in commands for word in command]
    actions = [1, family << 28 | macs, 0, 2 | (len(words) >> 16) << 8 | (len(words) & 0xFFFF) << 16]
    return mark + struct.pack(f"<{4 + len(words)}I", *actions, *words)


def test_that_a_stream_is_read_with_its_device_and_every_command():
    data = stream(short(0x104, 3), long(0x000, 0x5_8000_0010), short(0x000, 0xFFFF))
    found = decode(data)
    assert (found.format, found.family, found.macs) == ("COP1", "ethos-u55", 128)
    assert found.commands == (
        Command(0, "NPU_SET_IFM_DEPTH_M1", 3),
        Command(4, "NPU_SET_IFM_BASE0", 5, 0x80000010),
        Command(12, "NPU_OP_STOP", 0xFFFF),
    )
    assert [c.value for c in found.commands] == [3, 0x580000010, 0xFFFF]
    assert [c.text for c in found.commands] == ["3", "0x580000010", "65535"]
    assert target_of_commands(data) == ("ethos-u55", 128)
    assert [" ".join(line.split()) for line in listing(found)] == [
        "0x000000 NPU_SET_IFM_DEPTH_M1 3",
        "0x000004 NPU_SET_IFM_BASE0 0x580000010",
        "0x00000c NPU_OP_STOP 65535",
    ]


@for_each(
    ("family", "macs", "name", "count"),
    [(0, 5, "ethos-u55", 32), (1, 9, "ethos-u65", 512), (2, 11, "ethos-u85", 2048), (7, 0, "", 1)],
)
def test_that_the_configuration_names_family_and_macs(family, macs, name, count):
    found = decode(stream(short(0x12D, 1), family=family, macs=macs, mark=b"COP2"))
    assert (found.format, found.family, found.macs) == ("COP2", name, count)
    own = "RESIZE_Y_OFFSET" if name == "ethos-u85" else "AB_START"
    assert found.commands[0].name == f"NPU_SET_{own}"


def test_that_long_streams_and_other_actions_are_read():
    # Two words each: more than a length of 16 bits can say.
    many = decode(stream(*[long(0x104, 1)] * 33_000))
    assert len(many.commands) == 33_000
    words = (5, 2 | 1 << 16, 0x104 | 9 << 16, 6)
    bare = decode(b"COP1" + struct.pack("<4I", *words))
    assert (bare.family, bare.macs, len(bare.commands)) == ("", 0, 1)
    assert target_of_commands(b"COP1" + struct.pack("<4I", *words)) == ("", 0)
    assert decode(b"COP1").commands == ()


def test_that_damaged_streams_are_refused():
    good = stream(short(0x104, 3))
    for wrong in (
        b"COP3" + good[4:],
        good + b"\0",
        good[:-4],
        b"COP1" + struct.pack("<I", 1),
        stream([0x4000]),
        b"",
    ):
        with refused("program-damaged"):
            decode(wrong)
    for wrong in (good[:8], b"COP3" + good[4:], b""):
        with refused("program-damaged"):
            target_of_commands(wrong)
    assert target_of_commands(good[:12]) == ("ethos-u55", 128)


def size(height, width, depth, side="IFM"):
    names = {
        "IFM": ("IFM_HEIGHT0", "IFM_WIDTH0", "IFM_DEPTH"),
        "IFM2": ("IFM2_HEIGHT0", "IFM2_WIDTH0"),
        "OFM": ("OFM_HEIGHT", "OFM_WIDTH", "OFM_DEPTH"),
        "KERNEL": ("KERNEL_HEIGHT", "KERNEL_WIDTH"),
    }[side]
    return {f"{n}_M1": v - 1 for n, v in zip(names, (height, width, depth), strict=False)}


def started(kind, **registers):
    """Return the operation that registers and a start command give."""
    settings = [Command(0, f"NPU_SET_{name}", value) for name, value in registers.items()]
    (found,) = operations([*settings, Command(100, f"NPU_OP_{kind}", 0)])
    return found


MAPS = {
    **size(4, 5, 6),
    **size(2, 3, 7, "OFM"),
    "IFM_REGION": 9,
    "IFM_BASE0": 64,
    "IFM_STRIDE_Y": 40,
    "IFM_STRIDE_X": 8,
    "OFM_REGION": 2,
    "OFM_BASE0": 128,
    "OFM_STRIDE_Y": 1,
    "OFM_STRIDE_X": 50,
}
CODED = {
    **size(3, 2, 0, "KERNEL"),
    "WEIGHT_REGION": 8,
    "WEIGHT_BASE": 16,
    "WEIGHT_LENGTH": 1100,
    "SCALE_REGION": 9,
    "SCALE_BASE": 32,
    "SCALE_LENGTH": 44,
}


@for_each(("command", "kind"), [("CONV", "convolution"), ("DEPTHWISE", "depthwise convolution")])
def test_that_a_convolution_reads_its_input_weights_and_scales(command, kind):
    assert started(command, **MAPS, **CODED) == Operation(
        offset=100,
        kind=kind,
        ifm=(4, 5, 6),
        ofm=(2, 3, 7),
        kernel=(3, 2),
        weight_bytes=1100,
        reads=(Area("feature map", 1, 64, 160), Area("weights", 0, 16, 1100), Area("scales", 1, 32, 44)),
        writes=(Area("feature map", 2, 128, 150),),
    )


def test_that_other_operations_read_what_they_need():
    pooled = started("POOL", **MAPS, **CODED)
    assert (pooled.kind, pooled.kernel, pooled.weight_bytes) == ("pooling", (3, 2), 0)
    assert [area.role for area in pooled.reads] == ["feature map"]
    second = {
        **size(4, 5, 0, "IFM2"),
        "IFM2_REGION": 2,
        "IFM2_BASE0": 8,
        "IFM2_STRIDE_Y": 3,
        "IFM2_STRIDE_X": 1,
    }
    both = started("ELEMENTWISE", **MAPS, **CODED, **second)
    assert (both.kind, both.kernel) == ("elementwise", ())
    assert both.reads[1] == Area("feature map", 2, 8, 12)
    assert len(started("ELEMENTWISE", **MAPS).reads) == 1
    assert len(started("CONV", **MAPS, **CODED, **second).reads) == 3
    assert started("RESIZE", **MAPS).kind == "resize"
    assert list(operations([Command(0, "NPU_OP_STOP", 0)])) == []


def test_that_a_copy_goes_from_a_place_to_a_place():
    copied = started(
        "DMA_START", DMA0_SRC_REGION=8, DMA0_SRC=64, DMA0_DST_REGION=10, DMA0_DST=96, DMA0_LEN=2048
    )
    assert copied == Operation(
        100,
        "copy",
        copied_bytes=2048,
        reads=(Area("copy", 0, 64, 2048),),
        writes=(Area("copy", 2, 96, 2048),),
    )
    assert str(copied) == "copy of 2,048 bytes"


def test_that_operations_and_areas_are_told_in_one_line():
    told = str(started("CONV", **MAPS, **CODED))
    assert told == "3x2 convolution, (4, 5, 6) to (2, 3, 7), 1,100 bytes of weights"
    assert str(started("ELEMENTWISE", **MAPS)) == "elementwise, (4, 5, 6) to (2, 3, 7)"
    assert str(Area("weights", 1, 255, 3)) == "weights in scratch at 0xff"
    assert [region_name(n) for n in range(4)] == ["constants", "scratch", "fast scratch", "region 3"]


def op(offset, reads=(), writes=()):
    return Operation(offset, "elementwise", reads=tuple(reads), writes=tuple(writes))


def fm(region, address, size=16, role="feature map"):
    return Area(role, region, address, size)


def test_that_parts_of_an_input_count_as_using_it():
    weights = fm(0, 0, 8, "weights")
    parts = (
        op(0, [fm(1, 0), weights], [fm(1, 64)]),
        op(4, [fm(1, 16), weights], [fm(1, 64)]),
        op(8, [fm(1, 64), fm(1, 32)], [fm(1, 96)]),
        op(12, [fm(2, 16)], [fm(1, 127)]),
        op(16, [fm(1, 128)], [fm(1, 0, 8, "copy")]),
    )
    found = tensors(
        CommandStream("COP1", "ethos-u55", 128, (), parts),
        [Port((1, 32), 1, 0, 1)],
        [Port((1, 32), 1, 96, 1), Port((1, 4), 0, 500, 1)],
    )
    named = {(t.name, t.area.address): t for t in found}
    given = named["input 0", 0]
    assert (given.shape, given.area.bytes, given.read, given.written) == ((1, 32), 32, (0, 4), ())
    result = named["output 0", 96]
    assert (result.written, result.read, result.uses) == ((8, 12), (), (8, 12))
    empty = named["output 1", 500]
    assert (empty.uses, empty.area.bytes) == ((), 0)
    assert named["weights", 0].read == (0, 4)
    assert (named["feature map", 64].written, named["feature map", 64].read) == ((0, 4), (8,))
    assert named["feature map", 64].uses == (0, 4, 8)
    assert named["feature map", 32].read == (8,)
    assert named["copy", 0].written == (16,)
    assert named["feature map", 128].read == (16,)
    assert {t.address_text for t in found if t.name == "feature map"} == {
        "scratch 0x40",
        "scratch 0x20",
        "fast scratch 0x10",
        "scratch 0x80",
    }
    assert len(found) == 9


def test_that_a_range_used_without_end_is_cut():
    parts = tuple(op(4 * n, [fm(1, 0)]) for n in range(1500))
    parts += tuple(op(8000 + n, [fm(1, 100 + n)]) for n in range(1500))
    whole = CommandStream("COP1", "ethos-u55", 128, (), parts)
    first, second = tensors(whole, [Port((16,), 1, 0, 1), Port((5000,), 1, 50, 1)], [])[:2]
    assert len(first.read) == 1000
    assert len(second.read) == 1000
    assert tensors(whole, [], [])[0].read == tuple(range(0, 4000, 4))


def test_that_what_was_never_set_is_zero():
    none = Area("feature map", 0, 0, 0)
    assert started("CONV") == Operation(
        offset=100,
        kind="convolution",
        ifm=(0, 0, 0),
        ofm=(0, 0, 0),
        kernel=(0, 0),
        weight_bytes=0,
        copied_bytes=0,
        reads=(none, Area("weights", 0, 0, 0), Area("scales", 0, 0, 0)),
        writes=(none,),
    )
    nowhere = Area("copy", 0, 0, 0)
    assert started("DMA_START") == Operation(
        100, "copy", weight_bytes=0, copied_bytes=0, reads=(nowhere,), writes=(nowhere,)
    )
    for known in (size(4, 5, 6), {"IFM_STRIDE_Y": 40, "IFM_STRIDE_X": 8}):
        assert started("POOL", **known).reads == (none,)
    assert str(Operation(0, "pooling", (1,), (2,))) == "pooling, (1,) to (2,)"
    assert str(Operation(0, "copy")) == "copy of 0 bytes"


def test_that_a_stream_may_be_as_large_as_the_limit(monkeypatch):
    data = stream(short(0x104, 3), short(0x000))
    monkeypatch.setattr("workbench.pte.npu_commands._MOST_BYTES", len(data))
    assert len(decode(data).commands) == 2
    with refused("program-damaged"):
        decode(data + bytes(4))


def test_that_an_output_without_bytes_is_only_what_lies_at_its_address():
    parts = (op(0, [fm(1, 500)]), op(4, [fm(1, 501)]))
    whole = CommandStream("COP1", "ethos-u55", 128, (), parts)
    assert tensors(whole, [], [Port((1, 4), 0, 500, 1)])[0].read == (0,)


def test_that_values_of_tensors_are_shown_with_their_sign():
    names = {
        "NPU_SET_IFM_ZERO_POINT": "-128",
        "NPU_SET_ACTIVATION_MIN": "-128",
        "NPU_SET_IFM_DEPTH_M1": "65408",
    }
    assert {name: Command(0, name, 0xFF80).text for name in names} == names
    assert Command(0, "NPU_SET_OFM_ZERO_POINT", 127).text == "127"
