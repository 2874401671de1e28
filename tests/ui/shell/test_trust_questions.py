"""How often the tutorial asks for trust: the window once a folder, and again after new code."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from ui.shell.toasts import Toast
from workbench.cli import main
from workbench.guide import GUIDE
from workbench.project import edits
from workbench.project.model import TargetChoice

SAMPLES = Path(__file__).parents[3] / "resources" / "samples"
QUESTION = "This project runs Python code."
NEW = (
    "new",
    "digits.qwb",
    "--model",
    "model.py:digits",
    "--weights",
    "weights.safetensors",
    "--calibration",
    "calibration.npz",
    "--evaluation",
    "held_out.npz",
    "--target",
    "ethos-u55-128",
)
FILES = ("model.py", "weights.safetensors", "calibration.npz", "held_out.npz")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the tutorial, with its project."""
    made = tmp_path / "my-model"
    made.mkdir()
    for name in FILES:
        shutil.copyfile(SAMPLES / "digits" / name, made / name)
    monkeypatch.chdir(made)
    assert main(list(NEW)) == 0
    return made


class User:
    """Follows the tutorial in the window; allows code where it is asked for."""

    def __init__(self, workbench, notices, qtbot):
        self.workbench, self.notices, self.qtbot = workbench, notices, qtbot
        self.questions = 0

    def open(self, path):
        """Open a project."""
        self.workbench.files.open_path(path)
        self.qtbot.waitUntil(lambda: self.workbench.session.planned)

    def do(self, action):
        """Do something that may ask; wait until no job runs."""
        action()
        runner = self.workbench.runner
        while self.notices.says(QUESTION):
            self._allow()
        self.qtbot.waitUntil(lambda: not runner.running)

    def edit(self, change):
        """Change the project."""
        assert self.workbench.document.apply("Set", change)
        self.qtbot.waitUntil(lambda: self.workbench.session.planned)

    def run(self, until=""):
        """Press Run, or run to a stage."""
        self.do(lambda: self.workbench.runs.run_to(until))

    def study(self, name, **options):
        """Start a study."""
        document = self.workbench.document
        self.do(lambda: self.workbench.runner.run_study(name, document.opened_project, options))

    def _allow(self):
        self.notices.take(QUESTION)
        self.questions += 1
        toasts = [t for t in self.workbench.window.findChildren(Toast) if t.isVisible()]
        (allow,) = [
            button
            for toast in toasts
            for button in toast.findChildren(QPushButton)
            if button.text() == "Allow and run"
        ]
        self.qtbot.mouseClick(allow, Qt.MouseButton.LeftButton)


@pytest.fixture
def user(workbench, notices, qtbot):
    return User(workbench, notices, qtbot)


def test_that_the_window_asks_once_a_folder_and_again_for_new_code(user, folder, tmp_path):
    user.open(folder / "digits.qwb")
    assert user.questions == 0
    user.run()
    user.study("sensitivity", samples=2)
    user.edit(lambda p: edits.assign(p, "global", "", "a16w8"))
    user.run("evaluate")
    choice = TargetChoice(id="ethos-u55-128", options={"integer_io": True})
    user.edit(lambda p: edits.set_target(p, choice))
    user.run()
    user.study("placement")
    # Deliverables and data beside the code are no code.
    (folder / "dist").mkdir()
    (folder / "dist" / "digits.h").write_text("")
    user.edit(lambda p: edits.assign(p, "global", "", "uint8"))
    user.run("evaluate")
    assert user.questions == 1
    # The script of step 10 is code beside the project.
    (folder / "make_digits.py").write_text("print()\n")
    user.edit(lambda p: edits.assign(p, "global", "", "a8w8-per-tensor"))
    user.run("evaluate")
    user.run()
    assert user.questions == 2
    user.workbench.files.save()
    # A project of another folder.
    other = tmp_path / "shop"
    other.mkdir()
    for name in (*FILES, "digits.qwb"):
        shutil.copyfile(folder / name, other / name)
    user.open(other / "digits.qwb")
    user.edit(lambda p: edits.assign(p, "global", "", "a8w4"))
    user.run()
    assert user.questions == 3


def _commands():
    """Return the commands of the tutorial's first project, as lists of words."""
    text = (GUIDE / "tutorial.md").read_text("utf-8").replace("\\\n", " ")
    lines = re.findall(r"^\$? ?workbench (.*digits.*)$", text, re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_that_the_command_line_asks_for_what_the_tutorial_says(folder, capsys, monkeypatch):
    def engine(*_arguments, **_options):
        raise AssertionError("an engine was started")

    monkeypatch.setattr("workbench.api.jobs.EngineProcess", engine)
    asked = told = 0
    for words in _commands():
        if words[0] in {"new", "fvp"}:
            continue
        told += "--trust" in words
        # Without the permission, nothing starts.
        code = main([word for word in words if word != "--trust"])
        asked += code == 3
        assert ("--trust" in words) <= (code == 3), words
    capsys.readouterr()
    # The tutorial shows the question once, and then answers it with each command.
    assert (asked, told) == (6, 5)
