"""A project folder that containers share: equal process numbers are different processes."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.problems import refused
from ui.state.project_files import ProjectInUseError, ProjectLock
from workbench.history.store import History, history_path
from workbench.project import store
from workbench.project.project_code import Code
from workbench.project.trust import TrustStore

# A number of its own, so that two have the same one; the second has a name of its own too.
CONTAINERS = {
    "same-name": ["unshare", "-pf", "--mount-proc", "--kill-child"],
    "other-name": ["unshare", "-upf", "--mount-proc", "--kill-child", "sh", "-c",
                   'hostname elsewhere; exec "$@"', "sh"],
}  # fmt: skip
WINDOW = """
import os, sys, time
from pathlib import Path
from ui.state.project_files import ProjectInUseError, ProjectLock
lock = ProjectLock(Path(sys.argv[1]), Path(sys.argv[2]))
try:
    lock.take()
    print("taken", os.getpid(), flush=True)
    time.sleep(60 if sys.argv[3] == "hold" else 0)
    lock.release()
except ProjectInUseError as error:
    print(error.infos[0].code, os.getpid())
"""
HOLDER = """
import sys, time
from pathlib import Path
from workbench.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def _can_isolate():
    command = [*CONTAINERS["other-name"], "true"]
    return (
        shutil.which("unshare") and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


pytestmark = pytest.mark.skipif(not _can_isolate(), reason="no namespaces of processes for this user")


@contextmanager
def running(*command):
    """Yield the first line that a program says; kill it then."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTAINERS)
def test_that_a_window_in_another_container_keeps_its_project_until_it_ends(tmp_path, project_file, name):
    def window(then):
        return [*CONTAINERS[name], sys.executable, "-c", WINDOW, project_file, tmp_path / "recovery", then]

    def other():
        return subprocess.run(window("leave"), capture_output=True, text=True, check=True).stdout.strip()

    mine = ProjectLock(project_file, tmp_path / "recovery")
    with running(*window("hold")) as said:
        assert said == "taken 1"
        assert other() == "project-locked 1"
        with pytest.raises(ProjectInUseError):
            mine.take()
    assert other() == "taken 1"
    mine.take()
    assert other() == "project-locked 1"
    mine.release()


def test_that_files_that_a_program_in_another_container_keeps_locked_are_told(
    tmp_path, project_file, monkeypatch
):
    monkeypatch.setattr("workbench.files._LOCK_S", 0.2)
    code, saved = Code(places={"/b": "1"}), TrustStore(tmp_path / "trust.json")
    container = [*CONTAINERS["same-name"], sys.executable, "-c", HOLDER]
    with running(*container, project_file) as said, running(*container, tmp_path / "x") as also:
        assert (said, also) == ("held", "held")
        with refused("project-busy") as caught:
            store.edit(project_file, lambda project: project)
        assert "container" in caught.value.infos[0].hint
        with refused("trust-not-saved") as caught:
            saved.grant(code, "b.qwb")
        assert "container" in caught.value.infos[0].hint
        history = History(history_path(project_file))
        assert "container" in history.problem.hint
        history.close()
    assert store.edit(project_file, lambda project: project) == store.load(project_file)
    saved.grant(code, "b.qwb")
    assert saved.allows(code)
    assert os.path.exists(tmp_path / "trust.json")
