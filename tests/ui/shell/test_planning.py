"""How often the window plans: once an edit, and not again for the jobs that follow."""

import threading
import time

import pytest

from tests.fakes.projects import write_project
from ui.state.session import Planner
from workbench import files
from workbench.pipeline import keys
from workbench.pipeline import plan as plan_module
from workbench.pipeline.cache import Cache
from workbench.project import edits, store
from workbench.project.model import DataSource
from workbench.project.opened import OpenProject


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
    planned = opened.runner.plan_of(opened.document.opened_project)
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


def test_that_a_run_right_after_an_edit_is_of_the_edited_project(opened, qtbot, engines, notices):
    opened.runs.run_to("")
    settle(opened, qtbot)
    # Nothing is planned between the two: a user may press Run before the plan is there.
    opened.document.apply("Edit", lambda p: edits.assign(p, "module_name", "stem", "a16w8"))
    opened.window.actions_by_id["run_all"].trigger()
    settle(opened, qtbot)
    jobs = [command for command in engines.commands if command.project == opened.document.project]
    assert {job.until for job in jobs} == {"evaluate", "verify", "run", "package"}
    assert all(opened.session.stage(stage).state == "cached" for stage in ("evaluate", "package"))
    assert not [notice for notice in notices.posted if "up to date" in notice.text]
    # The same edit taken back is up to date, and Run tells so once it is planned.
    opened.document.undo_stack.undo()
    settle(opened, qtbot)
    opened.window.actions_by_id["run_all"].trigger()
    assert [notice for notice in notices.posted if "up to date" in notice.text]


def test_that_run_notices_a_file_that_was_edited_while_the_window_was_active(opened, qtbot, engines, notices):
    data = opened.document.folder / "data.npz"
    data.write_bytes(b"data")
    opened.document.apply("Data", lambda p: edits.revise(p, calibration=DataSource(spec=data.name)))
    settle(opened, qtbot)
    opened.runs.run_to("")
    settle(opened, qtbot)
    commands = len(engines.commands)
    data.write_bytes(b"other data")
    opened.window.actions_by_id["run_all"].trigger()
    settle(opened, qtbot)
    assert not [notice for notice in notices.posted if "up to date" in notice.text]
    assert len(engines.commands) > commands


def test_that_an_edit_that_unblocks_a_stage_can_be_run_at_once(opened, qtbot):
    opened.document.apply("Edit", lambda p: p.model_copy(update={"toolchain": "none-such"}))
    settle(opened, qtbot)
    assert opened.session.stage("evaluate").state == "blocked"
    opened.document.undo_stack.undo()
    opened.window.actions_by_id["run_all"].trigger()
    settle(opened, qtbot)
    assert opened.session.stage("evaluate").state == "cached"


def test_that_a_file_that_changed_during_a_job_is_planned_anew(opened, qtbot, plans, project_file):
    settle(opened, qtbot)
    plans.clear()
    opened.runs.run_to("export")
    with project_file.with_name("net.pt2").open("ab") as file:
        file.write(b"more")
    settle(opened, qtbot)
    assert len(plans) == 1
    assert opened.session.stage("export").state == "stale"


def test_that_a_window_closes_while_a_large_file_is_read(qtbot, tmp_path, monkeypatch):
    reading = threading.Event()

    def endless(path, _limit=None):
        # As of a file that takes hours.
        while True:
            reading.set()
            files._digest_watch.get()(path, 1 << 30, 1 << 40)
            time.sleep(0.01)

    monkeypatch.setattr(keys, "file_digest", endless)
    path = write_project(tmp_path / "mine")
    planner = Planner(Cache(tmp_path / "cache"))
    with qtbot.waitSignal(planner.reading) as told:
        planner.request(OpenProject(store.load(path), path.parent))
    # What is read and how much of it is said.
    assert told.args[0].startswith("Reading ")
    assert told.args[0].endswith(" 0 %")
    assert reading.wait(20)
    # Another project is planned at once, and closing waits for neither.
    monkeypatch.setattr(keys, "file_digest", files.file_digest)
    other = write_project(tmp_path / "other")
    with qtbot.waitSignal(planner.planned) as planned:
        planner.request(OpenProject(store.load(other), other.parent))
    assert planned.args[0].opened.folder == other.parent
    monkeypatch.setattr(keys, "file_digest", endless)
    reading.clear()
    planner.request(OpenProject(store.load(path), path.parent))
    assert reading.wait(20)
    planner.stop()
    assert planner.isFinished()


def test_that_the_bar_says_what_is_read_to_plan(opened, qtbot):
    settle(opened, qtbot)
    before = opened.window.pipeline.status.accessibleDescription()
    opened.planner.reading.emit("Reading data.npz 40 %")
    assert opened.window.pipeline.status.accessibleDescription() == "Reading data.npz 40 %"
    opened.planner.reading.emit("")
    assert opened.window.pipeline.status.accessibleDescription() == before
