"""The session: states from plan and events, and no former result in a present one's place."""

from __future__ import annotations

import pytest

from tests.conftest import SESSIONS
from tests.fakes.projects import make_project, write_project
from tests.fakes.results import write_result
from ui.state.session import Session
from workbench.errors import ErrorInfo
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project.model import Rule
from workbench.project.opened import OpenProject
from workbench.protocol import (
    EngineExit,
    JobFinished,
    StageFailed,
    StageFinished,
    StageProgress,
    StageStarted,
    decode_event,
)

FLOAT = Rule(id="r1", kind="global", config="float")


@pytest.fixture
def folder(tmp_path):
    return write_project(tmp_path / "mine").parent


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def session(qtbot, cache):
    return Session(cache)


def planned(session, folder, cache, *rules):
    made = plan(OpenProject(make_project(*rules), folder), cache)
    session.set_plan(made)
    return made


def store(cache, key, stage):
    with cache.writing(key) as out:
        write_result(stage, out)


def test_that_a_run_is_followed_from_start_to_result(session, folder, cache, qtbot):
    key = planned(session, folder, cache).key("export")
    assert session.stage("export").state == "stale"
    session.receive(StageStarted(job="j", stage="export", key=key))
    session.receive(StageProgress(job="j", stage="export", fraction=0.4, message="tracing"))
    view = session.stage("export")
    assert (view.state, view.fraction, view.message) == ("running", 0.4, "tracing")
    store(cache, key, "export")
    with qtbot.waitSignal(session.results_changed):
        session.receive(StageFinished(job="j", stage="export", key=key, cached=False, elapsed_s=1.5))
    view = session.stage("export")
    assert (view.state, view.elapsed_s) == ("cached", 1.5)
    assert session.result("export") == cache.folder(key)


def test_that_a_result_of_former_rules_is_never_current(session, folder, cache):
    first = planned(session, folder, cache).key("prepare")
    store(cache, first, "prepare")
    planned(session, folder, cache)
    assert session.result("prepare") == cache.folder(first)
    planned(session, folder, cache, FLOAT)
    assert session.result("prepare") is None
    assert session.former("prepare") == cache.folder(first)
    assert session.stage("prepare").state == "stale"
    planned(session, folder, cache)
    assert session.result("prepare") == cache.folder(first)


def test_that_a_plan_tells_of_the_stages_that_it_changes_only(session, folder, cache):
    planned(session, folder, cache)
    told = []
    session.stage_changed.connect(told.append)
    planned(session, folder, cache)
    assert told == []
    planned(session, folder, cache, FLOAT)
    assert "prepare" in told
    assert "export" not in told


def test_that_a_run_for_former_rules_does_not_finish_the_present_ones(session, folder, cache):
    old = planned(session, folder, cache).key("prepare")
    session.receive(StageStarted(job="j", stage="prepare", key=old))
    planned(session, folder, cache, FLOAT)
    assert session.stage("prepare").reason == "for the former rules"
    store(cache, old, "prepare")
    session.receive(StageFinished(job="j", stage="prepare", key=old, cached=False, elapsed_s=1))
    assert session.result("prepare") is None
    planned(session, folder, cache)
    assert session.stage("prepare").state == "cached"


def test_that_a_failure_belongs_to_the_rules_it_came_from(session, folder, cache):
    key = planned(session, folder, cache).key("prepare")
    info = ErrorInfo(message="softmax is too wide")
    session.receive(StageStarted(job="j", stage="prepare", key=key))
    session.receive(StageFailed(job="j", stage="prepare", key=key, elapsed_s=1, infos=(info,)))
    assert session.stage("prepare").infos == (info,)
    planned(session, folder, cache, FLOAT)
    assert session.stage("prepare").state == "stale"


def test_that_a_lost_engine_fails_the_stage_it_was_in(session, folder, cache):
    key = planned(session, folder, cache).key("export")
    session.receive(StageStarted(job="j", stage="export", key=key))
    session.receive(EngineExit(expected=False, sentence="Killed.", job="j", stage="export"))
    view = session.stage("export")
    assert view.state == "failed"
    assert view.infos[0].message == "Killed."


def test_that_a_cancelled_stage_is_to_do_again(session, folder, cache):
    key = planned(session, folder, cache).key("export")
    session.receive(StageStarted(job="j", stage="export", key=key))
    session.receive(JobFinished(job="j", outcome="cancelled", elapsed_s=1))
    assert session.stage("export").state == "stale"


def test_that_stages_of_a_missing_model_are_blocked_with_the_reason(session, folder, cache):
    (folder / "net.pt2").unlink()
    planned(session, folder, cache)
    assert session.stage("import_model").state == "blocked"
    assert "net.pt2" in session.stage("lower").reason


@pytest.mark.parametrize("path", SESSIONS, ids=lambda p: p.stem)
def test_that_no_stage_runs_on_after_a_recorded_session(session, folder, cache, path):
    planned(session, folder, cache)
    for line in path.read_bytes().splitlines():
        session.receive(decode_event(line))
    assert not [view for view in session.stages() if view.state == "running"]


def test_that_a_stage_names_the_earlier_failure_that_keeps_it_from_running(session, folder, cache, qtbot):
    key = planned(session, folder, cache).key("import_model")
    infos = (ErrorInfo(message="net.py could not be imported."),)
    session.receive(StageStarted(job="j", stage="import_model", key=key))
    changed = []
    session.stage_changed.connect(changed.append)
    session.receive(StageFailed(job="j", stage="import_model", key=key, elapsed_s=0.1, infos=infos))
    assert session.stage("export").state == "stale"
    view = session.with_cause("export")
    assert (view.id, view.title, view.state, view.infos) == ("export", "Load", "failed", infos)
    assert {"import_model", "export", "lower", "package"} <= set(changed)
    # The file is another one: what failed is not known of it.
    (folder / "net.pt2").write_bytes(b"other")
    planned(session, folder, cache)
    assert session.with_cause("export").state != "failed"
