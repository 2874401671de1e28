"""Files beside a foreign project in the place of those that a window keeps there."""

import os
import subprocess
import sys

import pytest

OPENING = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from ui.state.document import Document
from workbench.errors import WorkbenchError
application = QCoreApplication([])
document = Document(Path(sys.argv[2]))
for _ in range(2):
    try:
        document.open(Path(sys.argv[1]))
        print("opened", flush=True)
    except WorkbenchError as error:
        print(*error.codes, flush=True)
document.close()
"""


def opened(project_file, tmp_path):
    """Return what two attempts to open a project end with, in a process that may not wait."""
    command = [sys.executable, "-c", OPENING, project_file, tmp_path / "recovery"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def link(path):
    (path.parent / "victim").write_text("kept")
    path.symlink_to("victim")


def sparse(path):
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.slow
@pytest.mark.parametrize("make", [pipe, device, link, sparse, os.mkdir])
def test_that_what_is_no_lock_of_a_window_is_refused_and_left(project_file, tmp_path, make):
    lock = project_file.parent / f".{project_file.name}.lock"
    make(lock)
    assert opened(project_file, tmp_path) == ["project-lock-foreign"] * 2
    assert os.path.lexists(lock)
    # What the message says to do helps.
    os.rmdir(lock) if lock.is_dir() else lock.unlink()
    assert opened(project_file, tmp_path) == ["opened"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("make", [pipe, device, link, sparse, os.mkdir])
def test_that_what_is_no_autosave_of_a_window_holds_nothing_up(project_file, tmp_path, make):
    make(project_file.parent / f".{project_file.name}.autosave")
    assert opened(project_file, tmp_path) == ["opened"] * 2
    if make is link:
        assert (project_file.parent / "victim").read_text() == "kept"
