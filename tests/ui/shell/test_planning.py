"""How often the window plans: once an edit, and not again for the jobs that follow."""

import pytest

from workbench.pipeline import plan as plan_module
from workbench.project import edits


@pytest.fixture
def plans(monkeypatch):
    """Count the plans that are made, in whatever thread."""
    made, offered = [], plan_module._offered
    monkeypatch.setattr(plan_module, "_offered", lambda p: (made.append(p), offered(p))[1])
    return made


def settle(opened, qtbot):
    qtbot.waitUntil(lambda: not opened.runner.running)
    qtbot.wait(300)


def test_that_an_edit_is_planned_once_and_a_run_takes_the_plan(opened, qtbot, plans, engines):
    # A run takes the plan that is there.
    settle(opened, qtbot)
    plans.clear()
    planned = opened.runner.plan_of(opened.document.project, opened.document.folder)
    opened.runs.run_to("")
    settle(opened, qtbot)
    assert plans == []
    assert planned is not None
    assert {command.plan for command in engines.commands} == {planned}
    assert len(opened.history.runs) == 1
    assert opened.session.stage("package").state == "cached"
    # An edit is planned once.
    for panel in ("sensitivity", "search", "devices", "training", "memory"):
        opened.window.reveal(panel)
    settle(opened, qtbot)
    plans.clear()
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("Edit", lambda p: edits.assign(p, "module_name", "stem", "a16w8"))
    settle(opened, qtbot)
    assert len(plans) == 1


def test_that_a_file_that_changed_during_a_job_is_planned_anew(opened, qtbot, plans, project_file):
    settle(opened, qtbot)
    plans.clear()
    opened.runs.run_to("export")
    with project_file.with_name("net.pt2").open("ab") as file:
        file.write(b"more")
    settle(opened, qtbot)
    assert len(plans) == 1
    assert opened.session.stage("export").state == "stale"
