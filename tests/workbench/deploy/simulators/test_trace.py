"""The NPU's trace of a run becomes measured cycles of each operation."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.for_each import for_each
from workbench.deploy.simulators import counters
from workbench.deploy.simulators.counters import Reading, command_cycles, read_trace, traced
from workbench.pte import npu_commands, program, vela_stream
from workbench.results import NpuCommand, VelaOperation, VelaReport

ONE_QUICK = ["u55", *(pytest.param(f, marks=pytest.mark.slow) for f in ("u65", "u85"))]


def written(path, *readings, more=()):
    events = [
        {"tid": "qread", "ph": "C", "ts": cycle, "args": {"qread": offset // 4}} for offset, cycle in readings
    ]
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [*more, *events]}).encode()))
    return path


def report(delegate, *commands, rows=2):
    figures = dict.fromkeys(
        (
            "cycles_total",
            "cycles_vela",
            "cycles_npu",
            "inference_ms",
            "sram_bytes",
            "flash_bytes",
            "macs",
            "weights_bytes",
            "encoded_weights_bytes",
            "command_stream_bytes",
            "scratch_bytes",
        ),
        0,
    )
    row = VelaOperation(
        name="",
        operator="",
        module="",
        tosa="",
        cycles=10,
        cycles_vela=10,
        npu_cycles=0,
        macs=0,
        sram_cycles=0,
        external_cycles=0,
        staging_bytes=0,
    )
    made = [NpuCommand(offset=offset, operation=operation) for offset, operation in commands]
    return VelaReport(**figures, delegate=delegate, operations=(row,) * rows, commands=made)


def readings(*pairs):
    return [Reading(offset, cycle) for offset, cycle in pairs]


@pytest.mark.parametrize("family", ONE_QUICK)
def test_that_a_traced_run_tells_when_each_command_was_read(bench, family):
    outcome = bench.run(family, 2, trace=True, runner=bench.runner(family, serves=True))
    assert outcome.report.succeeded, outcome.report.last_lines
    data = bench.program(family).read_bytes()
    (delegate,) = program.decode(data).methods[0].delegates
    stream = npu_commands.decode(vela_stream.blocks(delegate.data)["cmd_data"].data)
    offsets = [operation.offset for operation in stream.operations]
    cycles = outcome.report.measurements[0].cycles_per_inference
    assert len(outcome.invocations) == 2
    for invocation in outcome.invocations:
        taken = command_cycles(invocation, offsets)
        assert all(each > 0 for each in taken)
        assert taken == sorted(taken)
        assert sum(taken) == pytest.approx(cycles, abs=len(offsets))


def test_that_a_functional_run_traces_nothing(bench):
    outcome = bench.run(trace=True, fast=True)
    assert outcome.report.succeeded
    assert outcome.invocations == []
    assert not any("trace" in note for note in outcome.report.notes)


@for_each(
    ("how", "said"),
    [
        ("no-trace", "The simulator wrote no trace of its operations."),
        ("cut-trace", "The trace of the operations is damaged and incomplete."),
    ],
)
def test_that_a_missing_or_damaged_trace_is_said_and_the_run_still_counts(bench, how, said):
    bench.fails(how)
    outcome = bench.run(trace=True)
    assert outcome.report.succeeded
    assert said in outcome.report.notes


def test_that_a_command_ends_where_the_next_one_is_read():
    taken = command_cycles(readings((0, 5), (40, 10), (60, 30), (100, 70), (124, 90)), [40, 100])
    assert taken == [65, 20]
    more = readings((0, 5), (40, 10), (60, 30), (100, 70), (124, 90), (128, 95))
    assert command_cycles(more, [40, 100]) == [65, 25]


def test_that_commands_read_at_once_are_not_told_apart():
    taken = command_cycles(readings((0, 0), (40, 10), (200, 100)), [40, 80, 120])
    assert taken == [100, None, None]


def test_that_an_invocation_that_was_cut_leaves_its_rest_unknown():
    assert command_cycles(readings((0, 0), (80, 30)), [40, 80, 120]) == [30, None, None]
    assert command_cycles([], [40]) == [None]
    assert command_cycles(readings((0, 0)), []) == []


def test_that_invocations_go_round_the_delegates_and_are_averaged():
    first = [readings((0, 0), (40, 10), (60, 30)), readings((0, 0), (40, 20), (60, 50))]
    second = readings((0, 0), (90, 7))
    reports = [report(0, (20, 1), (40, 0)), report(1, (80, None), (88, 0), rows=1)]
    found = traced([first[0], second, first[1], second, first[0]], reports)
    assert [(t.delegate, t.cycles) for t in found] == [(0, 25.0), (0, 15.0), (1, None)]
    assert [t.difference for t in found] == [15.0, 5.0, None]
    assert traced([first[0]], reports) == ()
    assert traced([first[0]], []) == ()


def test_that_a_trace_larger_than_what_is_read_at_once_is_read_to_its_end(tmp_path):
    noise = [{"tid": "axi", "ts": 1, "args": {"beats": "]" * 900}} for _ in range(3000)]
    trace = read_trace(written(tmp_path / "t.gz", (0, 1), (8, 2), (4, 3), more=noise))
    assert trace.problem == ""
    assert trace.invocations == [readings((0, 1), (8, 2)), readings((4, 3))]


def packed(path, text):
    path.write_bytes(gzip.compress(text.encode()))
    return path


EVENTS = (
    '{"tid":"qread","ts":1,"args":{"qread":0}},{"tid":"qread","ts":2,"args":{"qread":2}},\n'
    '{"tid":"qread","ts":3,"args":{"qread":2}} , {"tid":"qread","ts":4,"args":{"qread":1}}'
)


@for_each("around", ['{"traceEvents":[%s]}', '{"traceEvents": [ %s ]}', "[%s]", "[\n%s\n]\n"])
def test_that_a_trace_is_read_in_pieces_of_any_size(tmp_path, monkeypatch, around):
    path = packed(tmp_path / "t.gz", around.replace("%s", EVENTS))
    for size in (*range(17, 60), 1000):
        monkeypatch.setattr(counters, "_CHUNK", size)
        trace = read_trace(path)
        assert trace.problem == ""
        # A position that is read again belongs to the same invocation.
        assert trace.invocations == [readings((0, 1), (8, 2), (8, 3)), readings((4, 4))]


def test_that_an_event_has_a_largest_size(tmp_path, monkeypatch):
    begin, event = '{"traceEvents": [', '{"tid": "qread", "ts": 1, "args": {"qread": 0}}'
    path = packed(tmp_path / "t.gz", f"{begin}{event}, {event}]}}")
    monkeypatch.setattr(counters, "_CHUNK", len(begin) + 40)
    for limit, problem in ((40, ""), (39, "The trace of the operations is damaged")):
        monkeypatch.setattr(counters, "_LONGEST_EVENT", limit)
        assert read_trace(path).problem.startswith(problem)
        assert bool(read_trace(path).problem) == bool(problem)


NO_TRACES = {
    "nothing in it": b"",
    "no events": b"{}",
    "cut off": b'{"traceEvents',
    "cut off in an event": b'{"traceEvents": [{"tid": "qread"',
    "no arguments": b'{"traceEvents": [{"tid": "qread"}]}',
    "time in words": b'{"traceEvents": [{"tid": "qread", "ts": "x", "args": {"qread": 1}}]}',
    "arguments no object": b'{"traceEvents": [{"tid": "qread", "ts": 1, "args": 3}]}',
    "deep": b'{"traceEvents": [{"a": ' + b"[" * 100_000,
    "time not a number": b'{"traceEvents": [{"tid": "qread", "ts": NaN, "args": {"qread": 1}}]}',
}


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", *(gzip.compress(text) for text in NO_TRACES.values())],
    ids=["empty", "no gzip", *NO_TRACES],
)
def test_that_a_file_that_is_no_trace_is_a_sentence(tmp_path, data):
    path = tmp_path / "t.gz"
    path.write_bytes(data)
    assert "damaged" in read_trace(path).problem
