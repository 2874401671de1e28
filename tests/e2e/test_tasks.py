"""Five tasks in the real window with real engines, clicked as a person does; clicks are counted.

``.ci/watch`` plays them slowly on the screen, or without one keeps a picture after every step.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QFileDialog, QPushButton

from tests.e2e.conftest import SAMPLES
from ui.features.project.new_project import NewProjectDialog
from ui.shell.app import Workbench
from ui.shell.start import show_frame
from ui.shell.toasts import Toast
from workbench.project.opened import OpenProject
from workbench.project.trust import named_code

pytestmark = pytest.mark.e2e

SAMPLE = SAMPLES / "digits"
LONG_MS = 240_000
SWEEP_MS = 900_000
# Rest after every step [ms], and the folder of its picture; both are set by .ci/watch.
PAUSE_MS, PICTURES = int(os.environ.get("WATCH_PAUSE_MS", "0")), os.environ.get("WATCH_PICTURES")


class Person:
    """Clicks and drops in a window, and counts both."""

    def __init__(self, workbench, qtbot, task=""):
        self.workbench, self.qtbot, self._task = workbench, qtbot, task
        self.clicks = self.drops = self._steps = 0

    def _rest(self):
        """Let somebody watch: pause, and keep a picture of the window."""
        if PAUSE_MS:
            self.qtbot.wait(PAUSE_MS)
        if PICTURES:
            self._steps += 1
            path = Path(PICTURES) / f"{self._task}-{self._steps:02}.png"
            self.workbench.window.grab().save(str(path))

    def click(self, widget, place=None):
        assert widget.isVisible()
        assert widget.isEnabled()
        self.clicks += 1
        self.qtbot.mouseClick(widget, Qt.MouseButton.LeftButton, pos=place or widget.rect().center())
        self._rest()

    def click_row(self, table, row):
        place = table.visualRect(table.model().index(row, 0)).center()
        self.click(table.viewport(), place)

    def press(self, widget, key):
        self.clicks += 1
        QTest.keyClick(widget, key)
        self._rest()

    def drop(self, widget, path, over):
        """Drop a file on a window, over one of its widgets."""
        self.drops += 1
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path))])
        place = QPointF(over.mapTo(widget, over.rect().center()))
        none, kind = Qt.KeyboardModifier.NoModifier, Qt.DropAction.CopyAction
        event = QDropEvent(place, kind, data, Qt.MouseButton.LeftButton, none)
        event.setAccepted(False)
        widget.dropEvent(event)
        self._rest()

    def choose_folder(self, folder):
        """Accept the folder dialog as a click on its button does."""
        self.clicks += 1
        (dialog,) = [d for d in self.workbench.window.findChildren(QFileDialog) if d.isVisible()]
        dialog.fileSelected.emit(str(folder))
        dialog.reject()

    def answer(self, title):
        """Click a button of the question in the window."""
        (button,) = [
            b
            for toast in self.workbench.window.findChildren(Toast)
            if toast.isVisible()
            for b in toast.findChildren(QPushButton)
            if b.text() == title
        ]
        self.click(button)

    def wait(self, holds, timeout_ms=LONG_MS):
        self.qtbot.waitUntil(holds, timeout=timeout_ms)
        self._rest()

    def start(self):
        self.clicks = self.drops = 0


@pytest.fixture(scope="module")
def kept_results(tmp_path_factory):
    """One cache for all tasks, as a person has one."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def person(qtbot, notices, monkeypatch, kept_results, request):
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CACHE", str(kept_results))
    application = QApplication.instance()
    made = Workbench(application, show_frame(application, None))
    made.notices.posted.connect(notices.posted.append)
    made.start(None)
    # A task that wants it switches it on.
    made.window.actions_by_id["live"].setChecked(False)
    made.window.resize(1280, 720)
    qtbot.waitExposed(made.window)
    yield Person(made, qtbot, request.node.name.removeprefix("test_that_"))
    made.stop()
    notices.posted.clear()
    made.window.deleteLater()
    made.deleteLater()


@pytest.fixture
def own_model(tmp_path):
    """A model, its weights and its data, as a person has them, without a project."""
    folder = tmp_path / "mine"
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns(".*", "*.qwb", "__pycache__"))
    return folder


def evaluated_and_compiled(workbench):
    states = {view.id: view.state for view in workbench.session.stages()}
    return states["evaluate"] == states["lower"] == "cached" and not workbench.runner.running


def open_sample(person, tmp_path):
    person.workbench.files.copy_sample(_digits(), tmp_path)
    person.wait(lambda: person.workbench.session.planned)
    allow_and_run(person)


def _digits():
    from ui.features.project.gallery import SAMPLES

    return SAMPLES[0]


def allow_and_run(person):
    """Allow the code and run all; nothing runs where another task has left the results."""
    workbench = person.workbench
    code = named_code(OpenProject(workbench.document.project, workbench.document.folder))
    workbench.trust.grant(code, workbench.document.title)
    workbench.runs.run_to("")
    person.wait(lambda: person.workbench.session.stage("package").state == "cached")
    person.wait(lambda: not person.workbench.runner.running)


@pytest.mark.slow
def test_that_an_own_model_becomes_a_program_with_six_clicks(person, own_model, tmp_path):
    workbench, window = person.workbench, person.workbench.window
    new = next(b for b in window.welcome.findChildren(QPushButton) if b.text().startswith("New pr"))
    person.click(new)
    dialog = window.findChild(NewProjectDialog)
    person.drop(dialog, own_model / "model.py", dialog.model)
    person.drop(dialog, own_model / "calibration.npz", dialog.data)
    person.drop(dialog, own_model / "held_out.npz", dialog.evaluation)
    person.click(dialog.buttons.button(QDialogButtonBox.StandardButton.Ok))
    person.answer("Allow and run")
    person.wait(lambda: workbench.session.stage("package").state == "cached")
    person.wait(lambda: not workbench.runner.running)
    person.click(window.rail.buttons["deliver"])
    panel = window.docks["deliverables"].panel
    person.wait(lambda: panel is not None or window.docks["deliverables"].panel is not None)
    panel = window.docks["deliverables"].panel
    person.wait(lambda: panel.has("package") and panel.buttons["deliver"].isVisible())
    person.click(panel.buttons["deliver"])
    person.choose_folder(tmp_path / "dist")
    assert list((tmp_path / "dist").glob("*.pte"))
    assert (person.clicks, person.drops) == (6, 3)


@pytest.mark.slow
def test_that_one_module_is_changed_with_two_clicks_and_the_figures_move(person, tmp_path):
    workbench, window = person.workbench, person.workbench.window
    open_sample(person, tmp_path)
    workbench.window.actions_by_id["live"].trigger()
    board = window.scoreboard
    person.wait(lambda: board.tiles["cycles"].score.delta == "\u00b10")
    tree = window.reveal("modules").tree
    person.wait(lambda: tree.model().rowCount() == 1)
    tree.expandAll()
    whole = tree.model().index(0, 0)
    rows = [tree.model().index(row, 0, whole) for row in range(tree.model().rowCount(whole))]
    body = next(index for index in rows if index.data() == "body")
    person.start()
    person.click(tree.viewport(), tree.visualRect(body).center())
    person.press(tree, Qt.Key.Key_2)
    person.wait(lambda: evaluated_and_compiled(workbench))
    person.wait(lambda: board.tiles["cycles"].score.delta not in {"", "\u00b10"})
    assert not board.tiles["quality"].score.is_stale
    assert board.tiles["sqnr"].score.delta
    assert person.clicks == 2


@pytest.mark.slow
def test_that_the_worst_layer_is_found_with_one_click(person, tmp_path):
    workbench = person.workbench
    open_sample(person, tmp_path)
    board = workbench.window.scoreboard
    person.wait(lambda: "sqnr" in board.tiles and board.tiles["sqnr"].isVisible())
    person.start()
    person.click(workbench.window.scoreboard.tiles["sqnr"])
    person.wait(lambda: bool(workbench.context.selection.value.nodes))
    from workbench.results import EvaluateResult

    tensors = workbench.context.load(EvaluateResult, "evaluate").tensors
    worst = max(tensors, key=lambda t: t.added_share or 0.0)
    assert workbench.context.selection.value.nodes == {worst.origin}
    assert person.clicks == 1


@pytest.mark.slow
def test_that_the_fastest_device_that_fits_is_taken_with_three_clicks(person, tmp_path):
    workbench, window = person.workbench, person.workbench.window
    open_sample(person, tmp_path)
    workbench.window.pipeline.board.chosen.emit("renesas-ra8p1")
    person.wait(lambda: workbench.document.project.board == "renesas-ra8p1")
    person.start()
    person.click(window.rail.buttons["explore"])
    person.wait(lambda: window.docks["devices"].panel is not None)
    devices = window.docks["devices"].panel
    person.click(devices.start)
    person.wait(lambda: not workbench.runner.running and devices.model.rowCount() > 1, SWEEP_MS)
    person.wait(lambda: len(devices.table.chosen_rows()) == 1)
    (row,) = devices.table.chosen_rows()
    assert devices.model.row_at(row).on_board == "fits"
    if devices.take.isEnabled():
        person.click(devices.take)
    assert workbench.document.project.target.id == "ethos-u55-256"
    assert person.clicks <= 3


@pytest.mark.slow
def test_that_files_are_exported_with_two_clicks_from_the_menu(person, tmp_path):
    open_sample(person, tmp_path)
    person.start()
    person.clicks += 1
    person.workbench.window.actions_by_id["deliver"].trigger()
    person.choose_folder(tmp_path / "dist")
    assert list((tmp_path / "dist").glob("*.pte"))
    assert person.clicks == 2
