"""Live mode over fake engines: figures follow the edits, the newest edit wins."""

from tests.fakes.engine import Play
from workbench.project import edits
from workbench.protocol import RunUntil


def edit(opened, qtbot, config):
    with qtbot.waitSignal(opened.planner.planned):
        opened.document.apply(config, lambda p: edits.assign(p, "module_name", "head", config))


def is_measured(opened):
    return opened.session.stage("evaluate").state == "cached" and not opened.runner.running


def test_that_nothing_runs_by_itself_while_the_switch_is_off(opened, engines, qtbot):
    edit(opened, qtbot, "a16w8")
    assert not engines.commands


def test_that_an_edit_refreshes_the_figures_up_to_quality(opened, engines, qtbot):
    opened.runs.live.action.trigger()
    qtbot.waitUntil(lambda: is_measured(opened))
    edit(opened, qtbot, "a16w8")
    qtbot.waitUntil(lambda: is_measured(opened))
    jobs = [c for c in engines.commands if isinstance(c, RunUntil)]
    assert {job.until for job in jobs} == {"evaluate"}
    assert jobs[-1].project == opened.document.project


def test_that_the_newest_edit_wins(opened, engines, qtbot):
    engines.plays = [Play(hold="calibrate")]
    opened.runs.live.action.trigger()
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").state == "running")
    engines.made[0]._play = Play()
    edit(opened, qtbot, "float")
    qtbot.waitUntil(lambda: is_measured(opened))
    states = [opened.runner.job(c.job).state for c in engines.commands if isinstance(c, RunUntil)]
    assert states == ["cancelled", "done"]


def test_that_what_was_cancelled_waits_for_the_user(opened, engines, qtbot):
    engines.plays = [Play(hold="calibrate")]
    opened.runs.live.action.trigger()
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").state == "running")
    with qtbot.waitSignal(opened.planner.planned):
        opened.runs.cancel()
    qtbot.waitUntil(lambda: not opened.runner.running)
    assert len([c for c in engines.commands if isinstance(c, RunUntil)]) == 1


def test_that_the_switch_is_remembered(opened):
    opened.runs.live.action.trigger()
    assert opened.settings.live
