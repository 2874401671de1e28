"""The start of the window: a frame first, then its contents, without a jump."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from tests.for_each import for_each
from ui.__main__ import main
from ui.shell.app import Workbench
from ui.shell.start import show_frame

SCRIPT = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from ui.shell.start import Start, new_application
application = new_application()
start = Start(application, Path(sys.argv[1]))
{then}
sys.exit(application.exec())
"""


def started(project: Path, then: str) -> subprocess.CompletedProcess[str]:
    """Start the window in a process of its own, with a reaction to its signals."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(then=then), str(project)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_that_the_window_can_be_closed_before_its_contents_are_there(project_file):
    done = started(
        project_file,
        """
start.ready.connect(lambda: print("ready"))
start.window.painted.connect(lambda: QTimer.singleShot(0, start.window.close))
""",
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_that_the_frame_is_painted_first_and_clicks_wait_until_the_contents_are_there(project_file):
    done = started(
        project_file,
        """
heavy = {"pydantic", "numpy", "workbench.errors", "ui.shell.app", "ui.shared.panel"}
start.window.painted.connect(lambda: print("painted", sorted(heavy & set(sys.modules))))
flags = set()
handle = application.processEvents
def note(flag):
    flags.add(flag.name)
    handle(flag)
application.processEvents = note
def ready():
    print("ready", start.workbench.document.title)
    print(sorted(flags))
    start.workbench.stop()
    application.quit()
start.ready.connect(ready)
""",
    )
    assert done.stdout.splitlines() == ["painted []", "ready net.qwb", "['ExcludeUserInputEvents']"]


def test_that_a_floated_panel_is_shown_after_its_window(project_file):
    """Some window managers leave it behind the window that was there later."""
    done = started(
        project_file,
        """
dock = start.window.docks["modules"]
dock.setFloating(True)
dock.show()
shown = []
dock.visibilityChanged.connect(shown.append)
def ready():
    print(shown, dock.isFloating(), dock.isVisible())
    start.workbench.stop()
    application.quit()
start.ready.connect(ready)
""",
    )
    assert done.stdout.splitlines() == ["[False, True] True True"]


@pytest.mark.slow
def test_that_a_program_that_cannot_be_imported_ends_with_the_reason(project_file):
    done = started(project_file, "sys.modules['workbench.protocol'] = None")
    assert done.returncode == 1
    assert "workbench.protocol" in done.stderr


@pytest.fixture
def frame(qapp, qtbot):
    made = show_frame(qapp, None)
    # The screen has 800 x 800.
    made.resize(1280, 720)
    made.show_panels()
    qtbot.waitExposed(made)
    yield made
    made.deleteLater()


def places(window) -> dict[str, object]:
    """Return where the visible docks and the bars lie."""
    parts = {**window.docks, "middle": window.pages}
    parts |= {bar.objectName(): bar for bar in window.bars}
    return {name: part.geometry() for name, part in parts.items() if part.isVisible()}


def test_that_no_part_of_the_window_moves_when_its_contents_come(frame, qapp, qtbot, engines, project_file):
    before = places(frame)
    assert {"modules", "graph", "inspector", "bar-run", "bar-scores"} <= set(before)
    assert not any(action.isEnabled() for action in frame.actions_by_id.values())
    made = Workbench(qapp, frame, engines)
    made.settings.warm_engines = False
    made.start(project_file)
    qtbot.waitUntil(lambda: made.session.planned and frame.docks["graph"].panel is not None)
    qapp.processEvents()
    after = places(frame)
    made.stop()
    made.deleteLater()
    assert after == before


def test_that_a_project_that_cannot_be_opened_leaves_the_welcome_page(
    frame, qapp, engines, notices, tmp_path
):
    made = Workbench(qapp, frame, engines)
    made.notices.posted.connect(notices.posted.append)
    made.start(tmp_path / "gone.qwb")
    notices.take("gone.qwb cannot be opened.")
    assert frame.welcome.isVisible()
    made.stop()
    made.deleteLater()


def test_that_a_window_that_is_ended_leaves_no_lock_and_keeps_what_is_unsaved(project_file):
    done = started(
        project_file,
        """
import os, signal
from ui.shell.start import EndSignals
from workbench.project import edits
ended = EndSignals(application)
ended.came.connect(start.end)
def change():
    document = start.workbench.document
    document.apply("Set", lambda p: edits.assign(p, "module_name", "head", "float"))
    os.kill(os.getpid(), signal.SIGTERM)
start.ready.connect(change)
""",
    )
    assert done.returncode == 0, done.stderr
    left = {path.name for path in project_file.parent.iterdir() if path.name.startswith(".")}
    assert not any(name.endswith(".lock") for name in left), left
    assert any("autosave" in name for name in left), left


@for_each("low", ("", "Raise the limits of this shell: memory 390 MiB (ulimit -v)."))
def test_that_low_limits_are_told_before_they_end_the_window(low, monkeypatch, capsys):
    monkeypatch.setattr("workbench.system_limits.remedy", lambda: low)
    monkeypatch.setattr("ui.shell.start.run", lambda _: 0)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    try:
        assert main([]) == 0
    finally:
        gc.enable()
    assert capsys.readouterr().err == (f"note: The window may end at any time. {low}\n" if low else "")
