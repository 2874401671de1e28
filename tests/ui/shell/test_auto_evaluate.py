"""Runs that the window starts by itself, over fake engines: live figures, lowering ahead."""

import pytest

from tests.fakes.engine import Play
from tests.for_each import for_each
from ui.shell.auto_evaluate import QUIET_MS
from workbench.errors import ErrorInfo
from workbench.project import edits
from workbench.protocol import JobFinished, RunStudy, RunUntil


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


def test_that_an_edit_runs_quality_and_cost_when_the_switch_is_on_and_nothing_else(opened, engines, qtbot):
    # Nothing runs by itself while the switch is off.
    edit(opened, qtbot, "a16w8")
    assert not engines.commands
    # The switch is remembered, and an edit refreshes quality and cost.
    opened.runs.live.action.trigger()
    assert opened.settings.live
    qtbot.waitUntil(lambda: is_measured(opened))
    edit(opened, qtbot, "float")
    qtbot.waitUntil(lambda: is_measured(opened))
    jobs = [c for c in engines.commands if isinstance(c, RunUntil)]
    assert {job.until for job in jobs} == {"evaluate", "lower"}
    assert jobs[-1].project == opened.document.project


def test_that_what_was_cancelled_waits_for_the_user_and_the_newest_edit_wins(opened, engines, qtbot):
    # What was cancelled waits for the user.
    engines.plays = [Play(hold="calibrate")]
    opened.runs.live.action.trigger()
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").state == "running")
    opened.runs.cancel()
    qtbot.waitUntil(lambda: not opened.runner.running)
    qtbot.waitUntil(lambda: is_planned(opened))
    assert len([c for c in engines.commands if isinstance(c, RunUntil)]) == 1
    # The newest edit wins.
    edit(opened, qtbot, "a16w8")
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").state == "running")
    engines.play(Play())
    edit(opened, qtbot, "float")
    qtbot.waitUntil(lambda: is_measured(opened))
    states = [opened.runner.job(c.job).state for c in engines.commands if isinstance(c, RunUntil)]
    assert states[:2] == ["cancelled", "cancelled"]
    assert set(states[2:]) == {"done"}


@pytest.fixture
def ahead(opened):
    """The window with lowering ahead of the user switched on, as it is at first."""
    opened.settings.lower_ahead = True
    return opened


def evaluate(window, qtbot):
    window.runs.run_to("evaluate")
    qtbot.waitUntil(lambda: window.session.stage("evaluate").state == "cached")


def stages_asked(engines):
    return [command.until for command in engines.commands if isinstance(command, RunUntil)]


def test_that_an_evaluated_project_is_lowered_before_anybody_asks(ahead, engines, qtbot):
    evaluate(ahead, qtbot)
    qtbot.waitUntil(lambda: ahead.session.stage("lower").state == "cached")
    assert stages_asked(engines) == ["evaluate", "lower"]
    ahead.runs.run_to("lower")
    assert stages_asked(engines) == ["evaluate", "lower"]


@pytest.mark.slow
def test_that_nothing_is_lowered_ahead_where_it_is_switched_off(opened, engines, qtbot):
    evaluate(opened, qtbot)
    qtbot.wait(QUIET_MS + 200)
    assert stages_asked(engines) == ["evaluate"]


def test_that_an_edit_ends_lowering_ahead_and_closing_asks_nothing(ahead, engines, qtbot, notices):
    # An edit ends lowering ahead without a message.
    engines.plays = [Play(), Play(hold="lower")]
    evaluate(ahead, qtbot)
    qtbot.waitUntil(lambda: ahead.session.stage("lower").state == "running")
    edit(ahead, qtbot, "float")
    qtbot.waitUntil(lambda: not ahead.runner.running)
    jobs = [c for c in engines.commands if isinstance(c, RunUntil)]
    assert [(c.until, ahead.runner.job(c.job).state) for c in jobs] == [
        ("evaluate", "done"),
        ("lower", "cancelled"),
    ]
    # A window closes without a question while it lowers ahead.
    ahead.document.save()
    evaluate(ahead, qtbot)
    qtbot.waitUntil(lambda: ahead.session.stage("lower").state == "running")
    ahead.window.close()
    assert all(engine.stopped for engine in engines.made)


@pytest.mark.slow
def test_that_a_failure_of_lowering_ahead_is_shown_in_the_stage_alone(ahead, engines, qtbot, notices):
    refused = ErrorInfo(message="Vela refuses", hint="Choose", code="vela-refused")
    engines.plays = [Play(), Play(fail="lower", infos=[refused])]
    evaluate(ahead, qtbot)
    qtbot.waitUntil(lambda: ahead.session.stage("lower").state == "failed")
    assert not notices.posted


@pytest.mark.slow
def test_that_a_study_does_not_wait_for_lowering_ahead(ahead, engines, qtbot):
    engines.plays = [Play(), Play(hold="lower"), Play()]
    evaluate(ahead, qtbot)
    qtbot.waitUntil(lambda: ahead.session.stage("lower").state == "running")
    ahead.runner.run_study("sweep", ahead.document.opened_project, {"targets": ["ethos-u55-128"], "axes": {}})
    qtbot.waitUntil(lambda: ahead.session.stage("lower").state != "running")
    assert any(isinstance(command, RunStudy) for command in engines.commands)


def test_that_a_trial_of_a_suggestion_changes_nothing_of_the_open_project(opened, engines, qtbot, notices):
    evaluate(opened, qtbot)
    variant = opened.document.opened_project.edited(lambda p: edits.assign(p, "module_name", "head", "a16w8"))
    before = [view.state for view in opened.session.stages()]
    engines.play(Play(hold="convert"))
    first, _second = opened.runner.run_until(variant, ["evaluate", "lower"], set(), "trial of a suggestion")
    qtbot.waitUntil(lambda: opened.runner.job(first).stage == "convert")
    assert [view.state for view in opened.session.stages()] == before
    assert opened.context.jobs.row_at(0).title.endswith(": trial of a suggestion, Compile")
    # Nobody asked for it: its failure and its end are no message, and closing asks nothing.
    posted = len(notices.posted)
    infos = (ErrorInfo(message="No."),)
    engines.play(Play(fail="convert", infos=infos))
    opened.runner.cancel(first)
    qtbot.waitUntil(lambda: not opened.runner.running)
    third, *_ = opened.runner.run_until(variant, ["evaluate"], set(), "trial of a suggestion")
    qtbot.waitUntil(lambda: opened.runner.job(third).state == "failed")
    assert notices.posted[posted:] == []


def test_that_a_run_that_ends_takes_nothing_from_somebody_who_types(opened, engines, qtbot):
    field = opened.window.reveal("modules").filter
    engines.play(Play(hold="verify"))
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage("verify").state == "running")
    opened.window.activateWindow()
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    finish(opened, engines, qtbot)
    qtbot.keyClicks(field, "he")
    assert opened.window.workspaces.current == "model"
    assert field.hasFocus()
    assert field.text() == "he"
    # Without anybody who types, the outcome is what a run shows at its end.
    opened.document.apply("edit", lambda p: edits.assign(p, "module_name", "head", "float"))
    qtbot.waitUntil(lambda: is_planned(opened))
    opened.window.pipeline.run.setFocus()
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.window.workspaces.current == "outcome")


@for_each(
    "act",
    [
        lambda window: window.window.reveal("sample"),
        lambda window: window.context.selection.choose_modules(["head"]),
    ],
)
def test_that_a_run_that_ends_takes_nobody_from_what_they_look_at(opened, engines, qtbot, act):
    opened.window.reveal("ranges")
    engines.play(Play(hold="verify"))
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage("verify").state == "running")
    opened.window.pipeline.run.setFocus()
    act(opened)
    finish(opened, engines, qtbot)
    assert opened.window.workspaces.current == "accuracy"


def test_that_a_run_that_is_under_way_is_not_queued_again(opened, engines, qtbot):
    engines.play(Play(hold="calibrate"))
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").state == "running")
    jobs = opened.runner.running
    opened.runs.run_to("")
    opened.runs.run_to("evaluate")
    assert opened.runner.running == jobs
    # One that is being cancelled may be started again.
    opened.runs.cancel()
    opened.runs.run_to("evaluate")
    assert any(not job.cancelled for job in opened.runner.running)


def test_that_a_run_of_all_stages_has_one_notice(opened, engines, qtbot, notices, monkeypatch):
    monkeypatch.setattr("ui.shell.run_controller.NOTABLE_S", 0.0)
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage("package").state == "cached" and not opened.runner.running)
    ended = [notice.text for notice in notices.posted if "finished" in notice.text]
    assert ended == ["Run finished."]


def finish(window, engines, qtbot):
    """End a held run of all stages as if its last job were done."""
    engines.play(Play())
    for job in window.runner.running:
        if job.state == "running":
            engines.made[-1].say(JobFinished(job=job.id, outcome="done", elapsed_s=0.1))
    qtbot.waitUntil(lambda: not window.runner.running)
