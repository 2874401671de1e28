"""Commands on the wire: a Cancel reaches the job it names and no other, limits hold."""

import os
import threading
import time

import pytest

from tests.engine.in_process import Engine, allowed, project
from workbench import files
from workbench.errors import Place
from workbench.pipeline import keys
from workbench.pipeline import plan as plan_module
from workbench.pipeline.stages import stages_until
from workbench.project.opened import OpenProject
from workbench.protocol import (
    MAX_COMMAND_BYTES,
    Cancel,
    JobFinished,
    LogLine,
    RunUntil,
    Shutdown,
    StageFailed,
    StageFinished,
    StageProgress,
    decode_event,
    encode_command,
)

pytestmark = pytest.mark.engine


@pytest.fixture
def engine(tmp_path):
    made = Engine(tmp_path)
    yield made
    made.close()


def run_until(engine, job, until="export"):
    command = RunUntil(
        job=job,
        project=project("small"),
        folder=str(engine.folder),
        until=until,
        cache_root=str(engine.cache.root),
    )
    return allowed(command)


def write_together(engine, *commands):
    os.write(engine._write, b"".join(map(encode_command, commands)))


def outcomes(engine, count):
    """Return the outcomes of the next jobs that end, by job."""
    ended = {}
    for line in engine._lines:
        event = decode_event(line)
        engine.events.append(event)
        if isinstance(event, JobFinished):
            ended[event.job] = event.outcome
        if len(ended) == count:
            return ended
    raise AssertionError("the server ended")


def test_that_a_job_and_its_cancel_that_are_written_together_end_cancelled(engine):
    for number in range(10):
        job = f"j{number}"
        os.write(engine._write, encode_command(run_until(engine, job)) + encode_command(Cancel(job=job)))
        assert outcomes(engine, 1) == {job: "cancelled"}


def test_that_a_cached_job_and_its_cancel_that_are_written_together_end_cancelled(engine):
    engine.send(run_until(engine, "first"))
    assert outcomes(engine, 1) == {"first": "done"}
    for number in range(10):
        job = f"j{number}"
        os.write(engine._write, encode_command(run_until(engine, job)) + encode_command(Cancel(job=job)))
        assert outcomes(engine, 1) == {job: "cancelled"}


def test_that_a_cancel_reaches_a_job_that_waits_and_leaves_the_running_one_alone(engine):
    write_together(engine, run_until(engine, "a"), run_until(engine, "b"), Cancel(job="b"))
    assert outcomes(engine, 2) == {"a": "done", "b": "cancelled"}
    assert {e.job for e in engine.events if isinstance(e, StageFinished)} == {"a"}


def test_that_a_cancel_for_a_job_that_is_over_does_nothing_to_the_next(engine):
    engine.send(run_until(engine, "a"))
    assert outcomes(engine, 1) == {"a": "done"}
    os.write(engine._write, encode_command(Cancel(job="a")) + encode_command(run_until(engine, "b")))
    assert outcomes(engine, 1) == {"b": "done"}


def test_that_shutdown_ends_the_jobs_that_wait(tmp_path):
    engine = Engine(tmp_path)
    write_together(engine, run_until(engine, "a"), run_until(engine, "b"), Shutdown())
    assert outcomes(engine, 2) == {"a": "cancelled", "b": "cancelled"}
    engine.close()
    assert not engine._thread.is_alive()


def test_that_a_command_over_the_limit_is_skipped_and_the_next_one_is_done(engine):
    data = b"x" * (MAX_COMMAND_BYTES + 1) + b"\n"
    while data:
        data = data[os.write(engine._write, data) :]
    engine.send(run_until(engine, "a"))
    assert outcomes(engine, 1) == {"a": "done"}
    logged = [e for e in engine.events if isinstance(e, LogLine)]
    assert str(MAX_COMMAND_BYTES + 1) in logged[0].text


@pytest.fixture
def plans(monkeypatch):
    """Count the plans that are made."""
    made, offered = [], plan_module._offered
    monkeypatch.setattr(plan_module, "_offered", lambda p: (made.append(p), offered(p))[1])
    return made


def test_that_a_job_makes_no_plan_beside_the_one_it_was_sent_with(engine, plans):
    command = run_until(engine, "a", "convert")
    planned = plan_module.plan(OpenProject(command.project, engine.folder), engine.cache)
    plans.clear()
    engine.send(command.model_copy(update={"plan": planned, "code": ""}))
    assert outcomes(engine, 1) == {"a": "done"}
    assert plans == []
    done = {e.stage: e.key for e in engine.events if isinstance(e, StageFinished)}
    assert done == {stage: planned.key(stage) for stage in stages_until("convert")}


def test_that_a_job_without_a_plan_makes_one(engine, plans):
    engine.send(run_until(engine, "a"))
    assert outcomes(engine, 1) == {"a": "done"}
    assert len(plans) == 1


def test_that_a_file_that_changed_since_the_plan_was_made_leads_to_a_new_plan(engine, plans):
    command = run_until(engine, "a")
    planned = plan_module.plan(OpenProject(command.project, engine.folder), engine.cache)
    network = engine.folder / "networks.py"
    network.write_text(network.read_text() + "# changed\n")
    plans.clear()
    engine.send(command.model_copy(update={"plan": planned, "code": ""}))
    assert outcomes(engine, 1) == {"a": "done"}
    assert len(plans) == 1
    keys = {e.key for e in engine.events if isinstance(e, StageFinished)}
    assert keys.isdisjoint(stage.key for stage in planned.stages)


def test_that_a_file_that_changes_while_a_stage_reads_it_fails_the_stage(engine):
    (engine.folder / "own.py").write_text(
        "from pathlib import Path\n"
        "from networks import small\n"
        "def net():\n"
        "    with Path(__file__).open('a') as file:\n"
        "        file.write('# again\\n')\n"
        "    return small()\n"
    )
    command = run_until(engine, "a")
    own = project("own.py:net")
    engine.send(command.model_copy(update={"project": own}))
    assert outcomes(engine, 1) == {"a": "failed"}
    assert engine.failure.code == "input-changed"
    assert engine.failure.where == Place(kind="file", id="own.py")
    assert not list((engine.cache.root / "results").glob("*/*"))


def replaced(line, old, new):
    """Return a command with one part replaced, which must be there."""
    assert old in line
    return line.replace(old, new, 1)


def malformed(line, folder):
    """Yield commands for the job "a" that no engine can do, by what is wrong."""
    place = str(folder).encode()
    yield "cut", line[: len(line) // 2] + b"\n"
    yield "cut in its last character", line[:-2] + b"\n"
    yield "not a number", replaced(line, b'"accelerate":true', b'"accelerate":NaN')
    yield "unknown field", replaced(line, b'"job":"a"', b'"job":"a","more":1')
    yield "unknown stage", replaced(line, b'"until":"export"', b'"until":"dance"')
    yield "stage of another type", replaced(line, b'"until":"export"', b'"until":[[]]')
    yield "no UTF-8", replaced(line, b'"name":"small"', b'"name":"\xff\xfe"')
    yield "half of a character", replaced(line, b'"name":"small"', b'"name":"\\ud800"')
    yield "nested", replaced(line, b'"name":"small"', b'"name":' + b"[" * 50_000 + b"]" * 50_000)
    yield ("a number without end", replaced(line, b'"accelerate":true', b'"accelerate":' + b"9" * 9999))
    yield "limit below 0", replaced(line, b'"cache_limit_bytes":null', b'"cache_limit_bytes":-1')
    yield ("limit of another kind", replaced(line, b'"cache_limit_bytes":null', b'"cache_limit_bytes":1e999'))
    yield "plan of another form", replaced(line, b'"plan":null', b'"plan":{"stages":3}')
    yield "plan without stages", replaced(line, b'"plan":null', b'"plan":{"stages":[]}')
    yield "no code", replaced(line, b'"code":"', b'"code":"0')
    yield "folder with NUL", replaced(line, b'"folder":"' + place, b'"folder":"/a\\u0000b')
    yield "no folder", replaced(line, b'"folder":"' + place, b'"folder":"/no/such')
    yield "folder of another type", replaced(line, b'"folder":"', b'"folder":3,"x":"')
    yield "cache with NUL", replaced(line, b'"cache_root":"', b'"cache_root":"/a\\u0000b')
    yield "cache that cannot be", replaced(line, b'"cache_root":"', b'"cache_root":"/dev/null')
    yield "cache of a long name", replaced(line, b'"cache_root":"', b'"cache_root":"' + b"x" * 5000)
    yield "another command", replaced(line, b'"command":"run_until"', b'"command":"dance"')
    yield "study of a stage", replaced(line, b'"command":"run_until"', b'"command":"run_study"')


def test_that_every_malformed_command_fails_its_job_and_the_engine_goes_on(engine):
    line = encode_command(run_until(engine, "a"))
    for what, bad in malformed(line, engine.folder):
        engine.events.clear()
        os.write(engine._write, bad)
        assert outcomes(engine, 1) == {"a": "failed"}, what
        failed = [e for e in engine.events if isinstance(e, StageFailed)]
        assert failed[0].infos[0].message, what
    engine.send(run_until(engine, "b"))
    assert outcomes(engine, 1) == {"b": "done"}


def test_that_a_job_ends_while_it_reads_a_large_file(engine, monkeypatch):
    reading = threading.Event()

    def endless(path, _limit=None):
        # As of a file that takes hours.
        while True:
            reading.set()
            files._digest_watch.get()(path, 1 << 30, 1 << 40)
            time.sleep(0.01)

    monkeypatch.setattr(keys, "file_digest", endless)
    engine.send(run_until(engine, "a").model_copy(update={"code": ""}))
    assert reading.wait(60)
    engine.send(Cancel(job="a"))
    assert outcomes(engine, 1) == {"a": "cancelled"}
    told = [e for e in engine.events if isinstance(e, StageProgress)]
    assert told[0].fraction == pytest.approx(1 / 1024)
