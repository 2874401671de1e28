"""The real window with real engines: from opening the sample to its deliverables."""

import json
import shutil

import pytest
from PySide6.QtWidgets import QApplication

from tests.e2e.conftest import SAMPLES, wait_gone
from ui.shell.app import Workbench
from ui.shell.start import show_frame
from workbench.project import edits
from workbench.protocol import Ready
from workbench.results import PackageResult, VerifyResult, load_result

pytestmark = pytest.mark.e2e

SAMPLE = SAMPLES / "digits"
STAGES = (
    "import_model",
    "export",
    "prepare",
    "calibrate",
    "convert",
    "evaluate",
    "lower",
    "verify",
    "package",
)
LONG_MS = 120_000


@pytest.fixture
def project(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "digits", ignore=shutil.ignore_patterns(".*"))
    return tmp_path / "digits" / "digits.qwb"


@pytest.fixture
def window(qtbot, project, notices):
    application = QApplication.instance()
    made = Workbench(application, show_frame(application, project))
    made.notices.posted.connect(notices.posted.append)
    made.start(project)
    qtbot.waitUntil(lambda: made.session.planned, timeout=10_000)
    yield made
    made.stop()
    made.window.deleteLater()
    made.deleteLater()


def states(window):
    return {stage: window.session.stage(stage).state for stage in STAGES}


def all_done(window):
    return set(states(window).values()) == {"cached"}


def run_everything(window, qtbot, notices):
    window.runs.run_to("")
    if notices.says("Python code"):
        question = notices.take("Python code")
        window.notices.choose(question.id, question.actions[0].title)
    qtbot.waitUntil(lambda: all_done(window) and not window.runner.running, timeout=LONG_MS)


# An own model of which a person makes a program with clicks is the quick one (test_tasks).
@pytest.mark.slow
def test_that_the_window_takes_the_sample_from_opening_to_its_deliverables(window, qtbot, notices, tmp_path):
    run_everything(window, qtbot, notices)
    verified = load_result(VerifyResult, window.session.result("verify"))
    assert verified.max_lsb <= 1
    window.deliveries.deliver(tmp_path / "dist")
    package = load_result(PackageResult, window.session.result("package"))
    manifest = json.loads((tmp_path / "dist" / "manifest.json").read_text())
    assert manifest["gate"]["verdict"] == "right"
    assert {file["name"] for file in manifest["files"]} < {file.name for file in package.files}
    for file in manifest["files"]:
        assert (tmp_path / "dist" / file["name"]).stat().st_size == file["bytes"]
    manifest = json.loads((tmp_path / "dist" / "manifest.json").read_text())
    assert manifest["target"]["id"] == "ethos-u55-128"

    # Otherwise the edit is evaluated at once.
    window.runs.live.action.setChecked(False)
    before = window.session.result("evaluate")
    assert window.document.apply(
        "Set body to a16w8", lambda p: edits.assign(p, "module_name", "body", "a16w8")
    )
    qtbot.waitUntil(lambda: states(window)["prepare"] == "stale", timeout=10_000)
    assert window.session.result("evaluate") is None
    window.document.undo_stack.undo()
    qtbot.waitUntil(lambda: all_done(window), timeout=10_000)
    assert window.session.result("evaluate") == before


@pytest.mark.slow
def test_that_a_cancelled_run_goes_on_where_it_stopped(window, qtbot, notices):
    window.runs.run_to("")
    if notices.says("Python code"):
        question = notices.take("Python code")
        window.notices.choose(question.id, question.actions[0].title)
    qtbot.waitUntil(lambda: states(window)["convert"] == "cached", timeout=LONG_MS)
    window.runs.cancel()
    qtbot.waitUntil(lambda: not window.runner.running, timeout=10_000)
    assert states(window)["convert"] == "cached"
    run_everything(window, qtbot, notices)


def test_that_closing_leaves_no_engine_behind(qtbot, project, notices):
    application = QApplication.instance()
    made = Workbench(application, show_frame(application, project))
    made.notices.posted.connect(notices.posted.append)
    made.start(project)
    heard = []
    made.runner.received.connect(heard.append)
    made.runner.warm_up()
    qtbot.waitUntil(lambda: made.runner.engine_state("interactive") == "ready", timeout=60_000)
    made.stop()
    pids = [event.pid for event in heard if isinstance(event, Ready)]
    assert pids
    assert all(wait_gone(pid, 5) for pid in pids)
    made.window.deleteLater()
    made.deleteLater()
