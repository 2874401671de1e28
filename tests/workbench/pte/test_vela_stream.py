"""Blocks of an Ethos-U delegate: what is packed is read again, damage is refused."""

import struct

from tests.for_each import for_each
from tests.problems import refused
from workbench.pte.vela_stream import FOOTER, HEADER, Port, blocks, commands, packed, ports, scratch_bytes

PORTS = (Port((1, 1, 1, 2, 3, 4), 1, 64, 1), Port((1, 1, 1, 1, 1, 5), 2, 0, 1))
PARTS = {
    HEADER: b"",
    "cmd_data": bytes(range(20)),
    "scratch_size": struct.pack("<I", 4096),
    "inputs": PORTS,
    "outputs": PORTS[1:],
    FOOTER: b"",
}


def with_parts(**parts):
    return blocks(packed({**PARTS, **parts, FOOTER: b""}))


def test_that_packed_blocks_are_read_again():
    found = blocks(packed(PARTS))
    assert list(found) == list(PARTS)
    assert bytes(commands(found)) == bytes(range(20))
    assert scratch_bytes(found) == 4096
    assert ports(found, "inputs") == list(PORTS)
    assert [port.bytes for port in ports(found, "inputs")] == [24, 10]
    assert ports(found, "outputs") == [PORTS[1]]
    assert {block.key for block in found.values()} == {""}


def test_that_sizes_of_more_dimensions_are_multiplied_into_the_first():
    port = Port((2, 3, 1, 1, 1, 1, 7), 1, 0, 1)
    found = with_parts(inputs=(port, Port((5,), 4, 8, 1), Port((2, 3, 4, 5, 6), 1, 0, 1)))
    assert [p.shape for p in ports(found, "inputs")] == [
        (6, 1, 1, 1, 1, 7),
        (1, 1, 1, 1, 1, 5),
        (1, 2, 3, 4, 5, 6),
    ]


def test_that_a_negative_size_counts_as_none():
    assert Port((2, -3), 4, 0, 1).bytes == 0
    assert Port((2, 3), -4, 0, 1).bytes == 0


def test_that_a_stream_cut_short_anywhere_is_refused():
    stream = packed(PARTS)
    assert blocks(stream)
    for length in range(len(stream)):
        with refused("program-damaged"):
            blocks(stream[:length])


def test_that_the_last_block_is_no_longer_than_the_stream():
    stream = bytearray(packed(PARTS))
    struct.pack_into("<I", stream, len(stream) - 16, 1)
    with refused("program-damaged"):
        blocks(bytes(stream))


def test_that_a_stream_begins_with_its_header():
    with refused("program-damaged"):
        blocks(packed({"cmd_data": b"", **PARTS}))


def test_that_external_commands_are_a_key():
    stream = bytearray(packed({HEADER: b"", "cmd_data": b"weights.1", FOOTER: b""}))
    stream[32 + 20] = 1
    found = blocks(bytes(stream))
    assert found["cmd_data"].key == "weights.1"
    assert commands(found) is None
    assert commands(blocks(packed({HEADER: b"", FOOTER: b""}))) is None


@for_each(("data", "size"), [(b"", 0), (b"\1\0\0", 0), (b"\1\0\0\0", 1), (b"\1\0\0\0\7", 1)])
def test_that_scratch_without_four_bytes_is_none(data, size):
    assert scratch_bytes(with_parts(scratch_size=data)) == size
    assert scratch_bytes({}) == 0


@for_each(
    ("data", "count"),
    [
        (b"", 0),
        (b"\0\0\0", 0),
        (struct.pack("<i", 0), 0),
        (struct.pack("<10i", 1, *[1] * 9), 1),
        (struct.pack("<i", -1), None),
        (struct.pack("<10i", 2, *[1] * 9), None),
        (struct.pack("<10i", 1, *[1] * 9)[:-1], None),
    ],
)
def test_that_as_many_ports_are_read_as_are_described(data, count):
    found = with_parts(inputs=data)
    if count is None:
        with refused("program-damaged"):
            ports(found, "inputs")
    else:
        assert len(ports(found, "inputs")) == count
    assert ports({}, "inputs") == []
