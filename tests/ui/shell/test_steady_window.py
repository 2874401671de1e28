"""What stays where it is while the window works, and what goes when it is settled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSize
from PySide6.QtWidgets import QFileDialog

from tests.fakes.engine import Play
from tests.ui.shell.test_window import run_to
from ui.shared.empty_states import StageNote
from ui.shared.problem_list import Problem
from ui.shell.app import Workbench
from ui.shell.main_window import LEAST, SIZE, MainWindow
from ui.shell.start import show_frame
from ui.state.notices import Action
from ui.state.settings import LAST, Settings
from workbench.deploy.firmware_files import file_stem
from workbench.errors import ErrorInfo, WorkbenchError

LONG = "The board has too little memory for the activations of the whole program, which needs more. " * 3


def place_of(widget, window):
    return widget.mapTo(window, QPoint(0, 0))


@pytest.mark.parametrize("width", [853, 1280, 1600, 2560])
def test_that_cancel_stays_where_it_is_whatever_a_stage_says(opened, qtbot, width):
    window, views = opened.window, opened.session.stages()
    window.resize(width, 720)
    places = set()
    for words in ("Loading", "Comparing the compiled program with the reference model, sample 12 of 16"):
        for running in range(len(views)):
            busy = [
                replace(view, state="running" if number == running else view.state, title=words)
                for number, view in enumerate(views)
            ]
            window.pipeline.render_stages(busy, working=True)
            qtbot.wait(1)
            assert window.pipeline.cancel.isVisible()
            places.add(place_of(window.pipeline.cancel, window).toTuple())
    assert len(places) == 1


def test_that_a_failure_leaves_the_sides_as_wide_as_they_were(opened, qtbot, engines, notices):
    window = opened.window
    window.resize(1600, 1000)
    window.reset_layout()
    qtbot.wait(50)
    sides = [window.docks[name] for name in ("modules", "inspector")]
    before = [side.width() for side in sides]
    engines.plays = [Play(fail="export", infos=[ErrorInfo(message=LONG, hint=LONG)])]
    run_to(opened, qtbot, "lower")
    notices.take(LONG)
    link = window.docks["modules"].panel.findChild(StageNote).link
    qtbot.waitUntil(link.isVisible)
    qtbot.wait(50)
    assert [side.width() for side in sides] == before


@pytest.mark.parametrize("size", [(1280, 720), (1600, 1000)])
def test_that_problems_leave_the_sides_as_wide_as_they_were(opened: Workbench, qtbot, size):
    window = opened.window
    window.resize(*size)
    window.reset_layout()
    qtbot.wait(50)
    sides = [window.docks[name] for name in ("modules", "inspector")]
    before = [side.width() for side in sides]
    for _ in range(2):
        opened.context.problems.set_problems([Problem("error", LONG)])
        assert window.docks["problems"].isVisible()
        qtbot.wait(50)
        assert [side.width() for side in sides] == before
        window.toggle_drawer("problems")
        opened.context.problems.set_problems([])
        qtbot.wait(50)
        assert [side.width() for side in sides] == before


@pytest.mark.parametrize("room", [(1272, 680), (1592, 960), (1059, 627), (2552, 1400), (600, 400)])
def test_that_the_first_window_is_no_larger_than_the_screen(qapp, monkeypatch, room):
    monkeypatch.setattr(MainWindow, "_room", lambda _window: QSize(*room))
    window = show_frame(qapp, None)
    try:
        size, least = (window.normalGeometry().size(), QSize(*room).expandedTo(LEAST))
        assert size.expandedTo(least) == least
        # It takes all of a screen that is smaller than it would be, but is not too small for it.
        is_small = QSize(*room) == least and size != QSize(*SIZE)
        assert window.isMaximized() == is_small
    finally:
        window.may_close = True
        window.close()
        window.deleteLater()


def test_that_a_window_comes_back_where_it_was_each_time(qapp):
    places = []
    for start in range(4):
        window = show_frame(qapp, None)
        if not start:
            window.setGeometry(20, 40, 760, 600)
        places.append(window.geometry().getRect())
        Settings().save_layout(LAST, window.session_parts())
        window.may_close = True
        window.close()
        window.deleteLater()
    assert set(places) == {(20, 40, 760, 600)}


def test_that_a_run_closes_the_errors_of_the_former_one(opened, qtbot, notices):
    error = ErrorInfo(message="The former run failed.", code="former-run")
    opened.notices.error(WorkbenchError((error,)))
    notices.take("The former run failed.")
    qtbot.waitUntil(lambda: len(opened.window.toasts.shown) == 1)
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: not any(t.notice.level == "error" for t in opened.window.toasts.shown))


def test_that_the_report_and_the_firmware_note_have_different_names(opened, qtbot):
    opened.deliveries.ask_report()
    dialog = opened.window.findChild(QFileDialog)
    (name,) = dialog.selectedFiles()
    dialog.reject()
    stem = file_stem(opened.document.project.name)
    assert Path(name).name not in {f"{stem}.html", f"{stem}.md"}
    assert Path(name).suffix == ".html"


def test_that_a_question_about_the_former_project_leaves_with_it(opened, qtbot, notices, project_file):
    asked = []
    opened.notices.question("Another program changed net.", "", [Action("Reload", lambda: asked.append(1))])
    notices.take("Another program changed net.")
    qtbot.waitUntil(lambda: len(opened.window.toasts.shown) == 1)
    other = project_file.with_name("other.qwb")
    other.write_bytes(project_file.read_bytes())
    opened.files.open_path(other)
    qtbot.waitUntil(lambda: opened.session.planned)
    assert not any(toast.notice.level == "question" for toast in opened.window.toasts.shown)
