"""The wire: what fits, what is cut, what is refused, and who may talk to whom."""

import json
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.fakes.projects import make_project
from tests.for_each import for_each
from tests.problems import refused
from workbench import engine_process, engine_start, protocol
from workbench.engine_process import EngineProcess
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.process_guard import ProcessGuard
from workbench.project.configs import FixedRange
from workbench.project.gate import Gate
from workbench.project.model import Bookmark, ModelSource, TargetChoice
from workbench.protocol import (
    MAX_EVENT_BYTES,
    PROTOCOL_VERSION,
    EngineExit,
    LogLine,
    OversizedLine,
    RunStudy,
    RunUntil,
    StageFailed,
    StageProgress,
    decode_command,
    decode_event,
    encode_command,
    encode_event,
    protocol_of,
    read_lines,
    refused_job,
)
from workbench.studies.search import Limits


def command(spec="net.pt2"):
    project = make_project().model_copy(update={"model": ModelSource(spec=spec)})
    return RunUntil(job="j", project=project, folder=".", until="export", cache_root=".")


def lines_of(text, limit, chunk=7):
    """Return what a reader makes of a text that arrives in small pieces."""
    read, write = os.pipe()

    def send():
        for start in range(0, len(text), chunk):
            os.write(write, text[start : start + chunk])
        os.close(write)

    thread = threading.Thread(target=send)
    thread.start()
    found = [line for lines in read_lines(read, limit) for line in lines]
    thread.join()
    os.close(read)
    return found


@for_each("character", ["a", "\x00", "\u2713", '"'])
def test_that_an_event_never_exceeds_its_limit_and_keeps_the_end_of_the_details(character):
    long, part = character * (MAX_EVENT_BYTES + 1000), character * (MAX_EVENT_BYTES // 16)
    info = ErrorInfo(message=part, hint=part, where=Place(kind="file", id=part), details=part + "the end")
    events = [
        LogLine(level="info", text=long),
        StageProgress(job="j", stage="export", fraction=None, message=long),
        StageFailed(job="j", stage="export", key="k", elapsed_s=1.0, infos=(info,) * 21),
    ]
    for event in events:
        line = encode_event(event)
        assert len(line) <= MAX_EVENT_BYTES
        assert type(decode_event(line)) is type(event)
    assert decode_event(line).infos[0].details.endswith("the end")


def test_that_an_event_that_fits_is_sent_as_it_is():
    event = LogLine(level="info", text="\u2713" * 10_000)
    assert decode_event(encode_event(event)) == event


def test_that_an_event_of_exactly_the_limit_is_whole_and_a_longer_one_is_halved():
    def text(length):
        event = LogLine(level="info", text="a" * length)
        return len(event.model_dump_json()) + 1, decode_event(encode_event(event)).text

    room = MAX_EVENT_BYTES - text(0)[0]
    assert text(room) == (MAX_EVENT_BYTES, "a" * room)
    assert text(room + 1) == (MAX_EVENT_BYTES + 1, "a" * (MAX_EVENT_BYTES // 2))


def test_that_results_may_be_kept_in_no_cache_and_are_made_fast():
    assert command().accelerate
    assert RunStudy(job="j", project=make_project(), folder=".", study="blame", cache_root=".").accelerate
    for kind, more in ((RunUntil, {"until": "export"}), (RunStudy, {"study": "blame"})):
        made = kind(job="j", project=make_project(), folder=".", cache_root=".", cache_limit_bytes=0, **more)
        assert decode_command(encode_command(made)).cache_limit_bytes == 0
        with pytest.raises(ValidationError):
            kind(job="j", project=make_project(), folder=".", cache_root=".", cache_limit_bytes=-1, **more)


def test_that_a_command_may_be_longer_than_an_event():
    large = command("a" * 10 * MAX_EVENT_BYTES)
    assert decode_command(encode_command(large)) == large


def test_that_a_command_over_its_limit_is_refused(monkeypatch):
    limit = 100_000
    monkeypatch.setattr(protocol, "MAX_COMMAND_BYTES", limit)
    room = limit - len(encode_command(command("a"))) + 1
    assert len(encode_command(command("a" * room))) == limit
    for length in (room + 1, 2 * limit):
        with pytest.raises(WorkbenchError) as caught:
            encode_command(command("a" * length))
        assert caught.value.codes == ("command-too-large",)


def test_that_a_line_over_the_limit_is_skipped_and_the_next_is_read():
    text = b"first\n" + b"x" * 1000 + b"\nlast\nunfinished"
    assert lines_of(text, 100) == [b"first", OversizedLine(1000), b"last"]


@for_each("chunk", [1, 2, 3, 7, 20, 21, 22, 100])
def test_that_only_the_size_of_a_longer_line_is_known(monkeypatch, chunk):
    monkeypatch.setattr(protocol, "_CHUNK_BYTES", chunk)
    sizes = (20, 19, 21, 0, 61, 20, 100, 5)
    read, write = os.pipe()
    os.write(write, b"".join(bytes([65 + n]) * size + b"\n" for n, size in enumerate(sizes)))
    os.close(write)
    found = [line for lines in read_lines(read, 20) for line in lines]
    os.close(read)
    assert found == [
        bytes([65 + n]) * size if size <= 20 else OversizedLine(size) for n, size in enumerate(sizes)
    ]


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)), st.integers(1, 20))
def test_that_lines_are_the_same_however_they_arrive(lines, chunk):
    text = b"".join(line + b"\n" for line in lines)
    expected = [line if len(line) <= 20 else OversizedLine(len(line)) for line in lines]
    assert lines_of(text, 20, chunk) == expected


def talking(monkeypatch, *lines):
    """Let an engine process be a program that says some lines and waits."""
    code = "import os, sys, time; os.write(int(sys.argv[1]), sys.stdin.buffer.read()); time.sleep(9)"

    def start(*surroundings):
        with engine_start.engine_pipes() as (own, children):
            process = subprocess.Popen(
                [sys.executable, "-c", code, str(children.events)],
                stdin=subprocess.PIPE,
                pass_fds=(children.events,),
                start_new_session=True,
                stdout=children.log,
                stderr=children.log,
            )
        process.stdin.write(b"".join(line + b"\n" for line in lines))
        process.stdin.close()
        return engine_start.StartedEngine(process, ProcessGuard(process.pid), own, *surroundings)

    monkeypatch.setattr(engine_start, "start", start)
    return EngineProcess()


def test_that_an_engine_of_another_version_is_refused_with_one_sentence(monkeypatch):
    other = f'{{"event": "ready", "protocol": {PROTOCOL_VERSION + 1}, "news": true}}'
    events = list(talking(monkeypatch, other.encode()).events())
    assert [type(event) for event in events] == [EngineExit]
    assert not events[0].expected
    assert str(PROTOCOL_VERSION) in events[0].sentence
    assert str(PROTOCOL_VERSION + 1) in events[0].sentence


def test_that_an_event_over_the_limit_is_skipped_with_a_warning(monkeypatch):
    ready = f'{{"event": "ready", "protocol": {PROTOCOL_VERSION}, "pid": 1, "start_s": 0}}'
    long = b'{"event": "log", "level": "info", "text": "' + b"x" * MAX_EVENT_BYTES + b'"}'
    last = b'{"event": "log", "level": "info", "text": "last"}'
    engine = talking(monkeypatch, ready.encode(), long, last)
    events = []
    for event in engine.events():
        events.append(event)
        if isinstance(event, LogLine) and event.text == "last":
            engine.stop(0.0)
    assert [event.event for event in events] == ["ready", "log", "log", "engine_exit"]
    assert events[1].level == "warning"
    assert str(len(long)) in events[1].text


def test_that_the_problem_of_an_end_names_the_stage_or_what_was_asked_for():
    ended = EngineExit(expected=False, sentence="The engine ended.", stage="lower")
    problem = ended.problem("sweep", "last lines")
    assert (problem.message, problem.details) == ("The engine ended.", "last lines")
    assert (problem.code, problem.where) == ("engine-ended", Place(kind="stage", id="lower"))
    crashed = EngineExit(expected=False, sentence="Killed.", crashed=True)
    assert crashed.problem("sweep").where == Place(kind="stage", id="sweep")
    assert crashed.problem().where is None
    assert crashed.problem().code == "toolchain-crashed"
    assert "Native code" in crashed.problem().hint
    assert "Run again" in ended.problem().hint


@for_each(
    ("line", "version"),
    [
        (b'{"event": "ready", "protocol": 3}', 3),
        (b'{"event": "ready"}', 0),
        (b'{"event": "ready", "protocol": "3"}', 0),
        (b'{"event": "log_line"}', None),
        (b"[1]", None),
        (b"", None),
        (b"Loading torch ...", None),
    ],
)
def test_that_only_a_ready_line_tells_a_version(line, version):
    assert protocol_of(line) == version


@for_each("number", [float("nan"), float("inf"), float("-inf")])
def test_that_a_number_that_json_lacks_is_refused_before_it_is_sent(number):
    study = RunStudy(
        job="j",
        study="sample",
        project=make_project(),
        folder=".",
        options={"a": [1, {"b": number}]},
        cache_root=".",
    )
    with refused("command-invalid"):
        encode_command(study)


@for_each(
    ("model", "fields"),
    [
        (FixedRange, {"tensor": "x", "minimum": -1.0, "maximum": "@"}),
        (Gate, {"lsb": "@"}),
        (Gate, {"sqnr": "@"}),
        (Gate, {"fail_if": ["sqnr<1e999"]}),
        (Bookmark, {"name": "x", "level": "export", "scale": "@"}),
        (Bookmark, {"name": "x", "level": "export", "scale": 1.0, "dx": "@"}),
        (TargetChoice, {"id": "formats", "options": {"a": "@"}}),
        (Limits, {"max_cycles": "@"}),
    ],
)
def test_that_numbers_of_a_project_are_finite(model, fields):
    for number in (float("nan"), float("inf")):
        given = json.loads(json.dumps(fields).replace('"@"', json.dumps(number)))
        with pytest.raises(ValidationError):
            model.model_validate(given)


def test_that_a_command_that_cannot_be_decoded_names_its_job():
    line = encode_command(command()).replace(b'"export"', b'"no stage"')
    assert refused_job(line) == ("j", "no stage")
    assert refused_job(b"no JSON") is None
    assert refused_job(b'{"command": "cancel", "job": "j"}') is None


def test_that_a_log_line_is_cut_while_it_arrives():
    read, write = os.pipe()

    def send():
        os.write(write, b"short\n")
        for _ in range(40):
            os.write(write, b"x" * 50_000)
        os.write(write, b"\nlast")
        os.close(write)

    thread = threading.Thread(target=send)
    thread.start()
    found = list(engine_process._log_lines(read))
    thread.join()
    os.close(read)
    assert [len(line) for line in found] == [5, engine_process._MAX_LOG_LINE, 4]


def test_that_a_deeply_nested_line_is_no_line_of_a_version():
    assert protocol.protocol_of(b"[" * 100_000) is None
