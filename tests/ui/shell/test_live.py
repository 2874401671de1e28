"""Live mode over fake engines: figures follow the edits, the newest edit wins."""

from tests.fakes.engine import Play
from workbench.project import edits
from workbench.protocol import RunUntil


def is_planned(opened):
    """Return whether the present project is planned.

    A blocker of pytest-qt would be gone when the planner's thread emits once more.
    """
    planned = opened.runner.planned
    return planned is not None and planned.project is opened.document.project


def edit(opened, qtbot, config):
    opened.document.apply(config, lambda p: edits.assign(p, "module_name", "head", config))
    qtbot.waitUntil(lambda: is_planned(opened))


def is_measured(opened):
    return opened.session.stage("evaluate").state == "cached" and not opened.runner.running


def test_that_nothing_runs_by_itself_while_the_switch_is_off(opened, engines, qtbot):
    edit(opened, qtbot, "a16w8")
    assert not engines.commands


def test_that_an_edit_refreshes_quality_and_cost(opened, engines, qtbot):
    opened.runs.live.action.trigger()
    qtbot.waitUntil(lambda: is_measured(opened))
    edit(opened, qtbot, "a16w8")
    qtbot.waitUntil(lambda: is_measured(opened))
    jobs = [c for c in engines.commands if isinstance(c, RunUntil)]
    assert {job.until for job in jobs} == {"evaluate", "lower"}
    assert jobs[-1].project == opened.document.project


def test_that_the_newest_edit_wins(opened, engines, qtbot):
    engines.plays = [Play(hold="calibrate")]
    opened.runs.live.action.trigger()
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").state == "running")
    engines.made[0]._play = Play()
    edit(opened, qtbot, "float")
    qtbot.waitUntil(lambda: is_measured(opened))
    states = [opened.runner.job(c.job).state for c in engines.commands if isinstance(c, RunUntil)]
    assert states[0] == "cancelled"
    assert set(states[1:]) == {"done"}


def test_that_what_was_cancelled_waits_for_the_user(opened, engines, qtbot):
    engines.plays = [Play(hold="calibrate")]
    opened.runs.live.action.trigger()
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").state == "running")
    opened.runs.cancel()
    qtbot.waitUntil(lambda: not opened.runner.running)
    qtbot.waitUntil(lambda: is_planned(opened))
    assert len([c for c in engines.commands if isinstance(c, RunUntil)]) == 1


def test_that_the_switch_is_remembered(opened):
    opened.runs.live.action.trigger()
    assert opened.settings.live
