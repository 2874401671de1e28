"""Events of the runtime: as ExecuTorch's Inspector reads them, and safe from any bytes."""

import struct
from itertools import zip_longest
from pathlib import Path

import flatbuffers
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
        vtable = struct.pack(f"<HH{len(fields)}H", 4 + 2 * len(fields), 4 + 4 * len(fields), *fields)
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


DEFAULTS = {"name": "", "chain": 0, "id": None, "number": None, "delegate": "", "begun": 0}


def recorded(*runs, inputs=()):
    """Return an ETDump of runs of events, written after the schema's fields and their defaults."""
    builder = flatbuffers.Builder()

    def table(slots, *values):
        builder.StartObject(slots)
        for slot, write, value in values:
            if value is not None:
                write(slot, value, None)
        return builder.EndObject()

    def vector(items):
        builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            builder.PrependUOffsetTRelative(item)
        return builder.EndVector()

    def event(ended, **given):
        fields = {**DEFAULTS, **given}
        name, delegate = (builder.CreateString(fields["name"]), builder.CreateString(fields["delegate"]))
        text, whole = builder.PrependUOffsetTRelativeSlot, builder.PrependInt32Slot
        long = builder.PrependUint64Slot
        profile = table(
            8,
            (0, text, name),
            (1, whole, fields["chain"]),
            (2, whole, fields["id"]),
            (3, whole, fields["number"]),
            (4, text, delegate),
            (6, long, fields["begun"]),
            (7, long, ended),
        )
        return table(4, (0, text, profile))

    made = []
    for run, at in zip_longest(runs, inputs):
        name, events = builder.CreateString("run"), vector([event(**each) for each in run])
        made.append(
            table(
                4,
                (0, builder.PrependUOffsetTRelativeSlot, name),
                (1, builder.PrependInt64Slot, at),
                (3, builder.PrependUOffsetTRelativeSlot, events),
            )
        )
    root = table(2, (1, builder.PrependUOffsetTRelativeSlot, vector(made)))
    builder.Finish(root, b"ED00")
    data = bytes(builder.Output())
    return struct.pack("<I", len(data)) + data


def test_that_events_that_share_one_long_name_are_refused():
    (only,) = events_of(dump(1, b"native_call_add.out"))
    assert (only.name, only.kind) == ("add.out", "cpu")
    with pytest.raises(ValueError, match="again and again"):
        events_of(dump(100_000, b"x" * 100_000))


def found(data):
    return [(e.name, e.kind, e.cycles, e.calls) for e in events_of(data)]


def test_that_the_cycles_of_several_runs_are_averaged():
    first = [{"name": "native_call_add.out", "ended": 30}]
    second = [{"name": "native_call_add.out", "begun": 100, "ended": 150}]
    assert found(recorded(first, second)) == [("add.out", "cpu", 40.0, 2)]


def test_that_runs_are_joined_if_they_have_the_same_events_and_input():
    """Fields that are absent are as if they had the default of the schema: -1."""
    first, second = ([{"name": "a", "ended": 10}], [{"name": "a", "id": -1, "number": -1, "ended": 30}])
    assert found(recorded(first, second)) == [("a", "runtime", 20.0, 2)]
    other = [{"name": "a", "id": 5, "ended": 30}]
    assert [cycles for _, _, cycles, _ in found(recorded(first, other))] == [10.0, 30.0]
    named = [{"name": "a", "ended": 30}, {"name": "b", "ended": 1}]
    assert len(found(recorded(first, named))) == 3


def test_that_runs_without_an_input_are_as_if_it_were_minus_one():
    run = [{"name": "a", "ended": 10}]
    whole = recorded(run, run, inputs=(None, -1))
    assert found(whole) == [("a", "runtime", 10.0, 2)]
    assert len(found(recorded(run, run, inputs=(0, 1)))) == 2


@for_each(
    ("event", "shown", "kind"),
    [
        ({"name": "DELEGATE_CALL"}, "DELEGATE_CALL", "npu"),
        ({"name": "x", "delegate": "conv"}, "conv", "npu"),
        ({"name": "x", "number": 7, "delegate": "conv"}, "7", "npu"),
        ({"name": "native_call_mul.out"}, "mul.out", "cpu"),
        ({"name": "Method::init"}, "Method::init", "runtime"),
    ],
)
def test_that_an_event_of_a_delegate_is_one_of_the_npu(event, shown, kind):
    assert found(recorded([{**event, "ended": 1}])) == [(shown, kind, 1.0, 1)]


@for_each(
    ("begun", "ended", "cycles"),
    [(5, 5, 0.0), (5, 9, 4.0), ((1 << 32) - 10, 5, 15.0), ((1 << 32) - 1, 0, 1.0)],
)
def test_that_a_counter_of_32_bits_wraps_around(begun, ended, cycles):
    ((_, _, told, _),) = found(recorded([{"name": "a", "begun": begun, "ended": ended}]))
    assert told == cycles


def test_that_events_stand_in_the_order_of_their_instructions():
    run = [
        {"name": "a", "id": 1, "ended": 1},
        {"name": "b", "id": 2, "ended": 1},
        {"name": "c", "id": 1, "chain": 1, "ended": 1},
        {"name": "d", "id": 1, "ended": 1},
    ]
    assert [name for name, *_ in found(recorded(run))] == ["a", "d", "b", "c"]


def test_that_the_kernel_inside_an_instruction_stands_for_it():
    run = [
        {"name": "native_call_add.out", "id": 3, "ended": 8},
        {"name": "OPERATOR_CALL", "id": 3, "ended": 10},
    ]
    assert found(recorded(run)) == [("add.out", "cpu", 8.0, 1)]
