"""Two lanes of engines: order, trust, cancel, crash, restart."""

from __future__ import annotations

from threading import Event

import pytest

from tests.fakes.engine import FakeEngines, Play
from tests.fakes.projects import make_project, write_project
from ui.state.runner import Runner
from workbench.errors import ErrorInfo
from workbench.pipeline.cache import Cache
from workbench.project import edits
from workbench.project.model import ModelSource
from workbench.project.opened import OpenProject
from workbench.project.project_code import read_code
from workbench.project.trust import TrustStore
from workbench.protocol import EngineExit, JobFinished, Outgrown, RunUntil, Shutdown
from workbench.toolchains.versions import tool_versions


class Heard:
    """Collects what a runner says."""

    def __init__(self, runner):
        self.jobs, self.events, self.lost, self.trust = {}, [], [], []
        runner.job_changed.connect(self._on_job)
        runner.received.connect(self.events.append)
        runner.engine_ended.connect(self.lost.append)
        runner.trust_asked.connect(lambda error, run: self.trust.append((error, run)))

    def _on_job(self, job):
        self.jobs[job.id] = job

    def states(self):
        return {job.until: job.state for job in self.jobs.values()}


@pytest.fixture
def engines():
    return FakeEngines()


@pytest.fixture
def runner(qtbot, engines, tmp_path):
    made = Runner(engines, lambda: Cache(tmp_path / "cache"), TrustStore(tmp_path / "trust.json"))
    yield made
    made.stop()


@pytest.fixture
def heard(runner):
    return Heard(runner)


@pytest.fixture
def net(tmp_path):
    return OpenProject(make_project(), write_project(tmp_path / "mine").parent)


def run_commands(engines):
    return [c for c in engines.commands if isinstance(c, RunUntil)]


def test_that_background_stages_wait_for_the_interactive_ones(runner, heard, engines, net, qtbot):
    runner.run_until(net, ["evaluate", "verify", "package"], set())
    qtbot.waitUntil(lambda: not runner.running)
    assert heard.states() == {"evaluate": "done", "verify": "done", "package": "done"}
    assert len(engines.made) == 2
    assert [c.until for c in engines.made[0].commands] == ["evaluate"]
    assert [c.until for c in engines.made[1].commands] == ["verify", "package"]
    assert "evaluate" in engines.made[1].commands[0].skip


def test_that_compiling_starts_while_quality_is_still_measured(runner, heard, engines, net, qtbot):
    engines.plays = [Play(hold="evaluate"), Play()]
    runner.run_until(net, ["evaluate", "lower"], set())
    qtbot.waitUntil(lambda: heard.states().get("lower") == "done")
    assert heard.states()["evaluate"] == "running"


def test_that_finished_stages_are_not_asked_for_again(runner, engines, net, qtbot):
    done = {"import_model", "export", "prepare", "calibrate", "convert"}
    runner.run_until(net, ["lower"], done)
    qtbot.waitUntil(lambda: not runner.running)
    assert [c.until for c in run_commands(engines)] == ["lower"]


def test_that_code_is_asked_for_before_any_engine_starts(runner, heard, engines, tmp_path, qtbot):
    (tmp_path / "net.py").write_text("def net(): ...")
    project = make_project().model_copy(update={"model": ModelSource(spec="net.py:net")})
    runner.run_until(OpenProject(project, tmp_path), ["export"], set())
    assert engines.made == []
    ((error, run),) = heard.trust
    assert "net.py, function net" in error.infos[0].message
    TrustStore(tmp_path / "trust.json").grant(read_code(OpenProject(project, tmp_path)), "net")
    run()
    qtbot.waitUntil(lambda: heard.states() == {"export": "done"})


def test_that_a_crash_is_told_and_the_next_run_gets_a_fresh_engine(runner, heard, engines, net, qtbot):
    engines.plays = [Play(crash="calibrate"), Play()]
    runner.run_until(net, ["convert", "lower"], set())
    qtbot.waitUntil(lambda: bool(heard.lost))
    assert "signal 11" in heard.lost[0].sentence
    assert "calibrate" in heard.lost[0].sentence
    qtbot.waitUntil(lambda: not runner.running)
    assert heard.states() == {"convert": "crashed", "lower": "cancelled"}
    runner.run_until(net, ["convert"], set())
    qtbot.waitUntil(lambda: "done" in heard.states().values())


def test_that_cancel_ends_the_running_job_and_what_waits_for_it(runner, heard, engines, net, qtbot):
    engines.plays = [Play(hold="calibrate")]
    runner.run_until(net, ["convert", "lower"], set())
    qtbot.waitUntil(lambda: any(getattr(e, "stage", "") == "calibrate" for e in heard.events))
    runner.cancel()
    qtbot.waitUntil(lambda: not runner.running)
    assert set(heard.states().values()) == {"cancelled"}


def test_that_cancelling_a_job_that_waits_ends_what_waits_for_it(runner, heard, engines, net, qtbot):
    engines.plays = [Play(hold="calibrate")]
    runner.run_until(net, ["convert"], set())
    qtbot.waitUntil(lambda: any(getattr(e, "stage", "") == "calibrate" for e in heard.events))
    (holding,) = runner.running
    runner.run_until(net, ["convert", "lower"], set())
    first = next(job for job in runner.running if job.id != holding.id)
    assert first.state == "waiting"
    runner.cancel(first.id)
    assert [job.id for job in runner.running] == [holding.id]


def test_that_an_engine_killed_by_cancel_is_no_crash(runner, heard, engines, net, qtbot):
    engines.plays = [Play(hold="calibrate"), Play()]
    runner.run_until(net, ["convert"], set())
    qtbot.waitUntil(lambda: any(getattr(e, "stage", "") == "calibrate" for e in heard.events))
    engine = engines.made[0]
    engine.cancel = lambda job: engine._events.put(EngineExit(expected=True, sentence="stopped"))
    runner.cancel()
    qtbot.waitUntil(lambda: not runner.running)
    assert heard.states() == {"convert": "cancelled"}
    assert heard.lost == []
    qtbot.waitUntil(lambda: len(engines.made) == 2)


def test_that_a_cancel_while_the_engine_starts_reaches_the_job(qtbot, tmp_path, net, engines):
    """The engine is busy taking the job at the moment of the cancel."""
    engines.plays = [Play(hold="import_model")]
    taking, go_on = Event(), Event()

    def factory(toolchain):
        del toolchain
        engine = engines()
        send = engine.send

        def slow(command):
            taking.set()
            go_on.wait(5)
            send(command)

        engine.send = slow
        return engine

    runner = Runner(factory, lambda: Cache(tmp_path / "cache"), TrustStore(tmp_path / "t.json"))
    heard = Heard(runner)
    runner.run_until(net, ["export"], set())
    assert taking.wait(5)
    runner.cancel()
    go_on.set()
    qtbot.waitUntil(lambda: not runner.running)
    assert heard.states() == {"export": "cancelled"}
    runner.stop()


def test_that_an_engine_that_cannot_start_is_one_sentence(qtbot, tmp_path, net):
    def refuse(toolchain):
        del toolchain
        raise OSError("no such program")

    runner = Runner(refuse, lambda: Cache(tmp_path / "cache"), TrustStore(tmp_path / "trust.json"))
    heard = Heard(runner)
    runner.run_until(net, ["export"], set())
    qtbot.waitUntil(lambda: bool(heard.lost))
    assert "could not be started: no such program" in heard.lost[0].sentence
    assert heard.states() == {"export": "crashed"}
    runner.stop()


def test_that_a_failed_stage_stops_what_needs_it(runner, heard, engines, net, qtbot):
    engines.plays = [Play(fail="prepare", infos=[ErrorInfo(message="No.")])]
    runner.run_until(net, ["convert", "lower"], set())
    qtbot.waitUntil(lambda: not runner.running)
    assert heard.states() == {"convert": "failed", "lower": "cancelled"}


def test_that_stopping_ends_every_engine(runner, engines, net, qtbot):
    engines.plays = [Play(hold="calibrate")]
    runner.run_until(net, ["convert"], set())
    qtbot.waitUntil(lambda: bool(run_commands(engines)))
    runner.stop()
    assert all(engine.stopped for engine in engines.made)


def test_that_engines_keep_to_the_room_that_the_preferences_give_now(opened, qtbot, engines):
    opened.settings.cache_limit_bytes = 3 << 30
    opened.runs.run_to("evaluate")
    opened.runner.run_study("search", opened.document.opened_project, {"trials": 1, "accuracy": None})
    qtbot.waitUntil(lambda: not opened.runner.running)
    assert {command.cache_limit_bytes for command in engines.commands} == {3 << 30}


def test_that_an_engine_that_has_grown_is_renewed_between_two_jobs(runner, heard, engines, net, qtbot):
    runner.run_until(net, ["convert"], set())
    qtbot.waitUntil(lambda: not runner.running)
    old = engines.made[0]
    old.say(Outgrown(growth=300_000_000))
    qtbot.waitUntil(lambda: len(engines.made) == 2)
    assert isinstance(old.commands[-1], Shutdown)
    qtbot.waitUntil(lambda: runner.engine_state("interactive") == "ready")
    runner.run_until(net, ["evaluate"], set())
    qtbot.waitUntil(lambda: not runner.running)
    assert heard.states() == {"convert": "done", "evaluate": "done"}
    assert [c.until for c in run_commands(engines)] == ["convert", "evaluate"]
    assert not heard.lost


def test_that_the_job_of_an_engine_that_has_grown_ends_on_it(runner, heard, engines, net, qtbot):
    engines.plays = [Play(hold="calibrate"), Play()]
    runner.run_until(net, ["convert"], set())
    qtbot.waitUntil(lambda: any(getattr(e, "stage", "") == "calibrate" for e in heard.events))
    old = engines.made[0]
    old.say(Outgrown(growth=300_000_000))
    qtbot.waitUntil(lambda: any(isinstance(e, Outgrown) for e in heard.events))
    assert len(engines.made) == 1
    (job,) = runner.running
    old.say(JobFinished(job=job.id, outcome="done", elapsed_s=0.1))
    qtbot.waitUntil(lambda: len(engines.made) == 2)
    assert heard.states() == {"convert": "done"}


def test_that_a_project_of_another_toolchain_gets_an_engine_of_it(qtbot, tmp_path, net, engines, monkeypatch):
    monkeypatch.setattr("workbench.pipeline.plan.tools_of", lambda name: tool_versions())
    runner = Runner(engines, lambda: Cache(tmp_path / "cache"), TrustStore(tmp_path / "t.json"))
    heard = Heard(runner)
    for toolchain in ("", "sdk", "sdk", ""):
        project = edits.set_toolchain(make_project(), toolchain, "")
        (job,) = runner.run_until(net.edited(lambda _: project), ["export"], set())
        qtbot.waitUntil(lambda: runner.job(job).over)
    assert engines.toolchains == ["", "sdk", ""]
    assert heard.lost == []
    runner.stop()
