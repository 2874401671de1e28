"""Events of the runtime: as ExecuTorch's Inspector reads them, and safe from any bytes."""

import struct
from pathlib import Path

import pytest

from tests.for_each import for_each
from workbench.deploy.simulators.etdump import events_of

DATA = (Path(__file__).parents[3] / "data" / "etdump.bin").read_bytes()

EXPECTED = [
    ("Method::init", "runtime", 22984.0, 1),
    ("Program::load_method", "runtime", 27420.0, 1),
    ("convolution.out", "cpu", 43465.0, 1),
    ("relu.out", "cpu", 204295.0, 1),
    ("mean.out", "cpu", 20361.0, 1),
    ("permute_copy.out", "cpu", 16375.0, 1),
    ("addmm.out", "cpu", 592064.0, 1),
    ("Method::execute", "runtime", 3151883.0, 1),
]


def test_that_events_are_those_of_the_inspector():
    """The expected values are those of ``executorch.devtools.Inspector`` for this file."""
    found = [(e.name, e.kind, e.cycles, e.calls) for e in events_of(DATA)]
    assert found == EXPECTED


def test_that_no_bytes_are_no_events():
    assert events_of(b"") == ()


@for_each("data", [b"x", b"ED00", bytes(100), DATA[4:], b"\xff" * 1000, b"{}"])
def test_that_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match=r"ETDump|damaged"):
        events_of(data)


def test_that_every_truncation_is_refused_or_read():
    refused = 0
    for length in range(1, len(DATA)):
        try:
            assert len(events_of(DATA[:length])) <= len(EXPECTED)
        except ValueError:
            refused += 1
    assert refused > len(DATA) // 2


def dump(events, shared):
    """Return an ETDump with one run whose events all are one table with a long shared name."""
    made = bytearray(struct.pack("<I4s", 0, b"ED00"))

    def at(mark):
        struct.pack_into("<I", made, mark, len(made) - mark)

    def table(*fields):
        vtable = struct.pack(
            f"<HH{len(fields)}H", 4 + 2 * len(fields), 4 + 4 * len(fields), *fields
        )
        made.extend(bytes(-len(made) % 4) + vtable + bytes(-len(vtable) % 4))
        begin = len(made)
        made.extend(struct.pack("<i", len(vtable) + -len(vtable) % 4) + bytes(4 * len(fields)))
        return begin

    root = table(0, 4)
    struct.pack_into("<I", made, 0, root)
    runs = len(made)
    at(root + 4)
    made.extend(struct.pack("<II", 1, 4))
    run = table(0, 0, 0, 4)
    struct.pack_into("<I", made, runs + 4, run - runs - 4)
    at(run + 4)
    begin = len(made)
    made.extend(struct.pack("<I", events) + bytes(4 * events))
    event = table(4)
    profile = table(4)
    struct.pack_into("<I", made, event + 4, profile - event - 4)
    at(profile + 4)
    made.extend(struct.pack("<I", len(shared)) + shared + b"\0")
    for number in range(events):
        place = begin + 4 + 4 * number
        struct.pack_into("<I", made, place, event - place)
    return struct.pack("<I", len(made)) + bytes(made)


def test_that_events_that_share_one_long_name_are_refused():
    (only,) = events_of(dump(1, b"native_call_add.out"))
    assert (only.name, only.kind) == ("add.out", "cpu")
    with pytest.raises(ValueError, match="again and again"):
        events_of(dump(100_000, b"x" * 100_000))
