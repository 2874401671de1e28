"""No process of the program imports a file from the current folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import interpreter

ROOT = Path(__file__).parents[2]
# Modules that processes of the program, of multiprocessing and of the toolchain import by name.
NAMES = (
    "selectors",
    "tqdm",
    "signal",
    "json",
    "platformdirs",
    "pydantic",
    "numpy",
    "torch",
    "triton",
    "pandas",
    "sitecustomize",
    "usercustomize",
    "multiprocessing",
    "workbench_plugin",
    "socket",
)


@pytest.fixture
def hostile(tmp_path):
    """A folder whose modules leave a file when they are imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + chr(10))\n"
        )
    return folder


def ran(folder):
    path = folder.parent / "ran"
    return path.read_text().split() if path.exists() else []


def start(folder, *command, **environment):
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


WARM = """
import sys
sys.path.insert(0, {root!r})
from workbench.engine_process import EngineProcess
from workbench.protocol import Ready
if __name__ == "__main__":
    engine = EngineProcess(warm={warm})
    for event in engine.events():
        print(event.event)
        engine.stop()
"""


@pytest.mark.slow
@pytest.mark.parametrize("warm", [False, True])
def test_that_an_engine_imports_nothing_from_the_current_folder(hostile, tmp_path, warm):
    script = tmp_path / "start.py"
    script.write_text(WARM.format(root=str(ROOT), warm=warm))
    done = start(hostile, sys.executable, script)
    assert "ready" in done.stdout, done.stderr
    assert ran(hostile) == []


FORK = """
import sys
sys.path.insert(0, {root!r})
import multiprocessing, os
from unittest import mock
from workbench import engine_process
if __name__ == "__main__":
    context = type(multiprocessing.get_context("forkserver"))
    with (
        mock.patch.object(context, "set_forkserver_preload"),
        mock.patch.object(engine_process, "_serve_forked", print),
    ):
        print(engine_process._fork(*os.pipe(), os.dup(1)).wait(60))
"""


def test_that_fork_server_and_resource_tracker_import_nothing_from_the_current_folder(hostile, tmp_path):
    script = tmp_path / "start.py"
    script.write_text(FORK.format(root=str(ROOT)))
    done = start(hostile, sys.executable, script)
    assert done.stdout.strip().endswith("0"), done.stderr
    assert ran(hostile) == []


@pytest.mark.parametrize("path", ["", ".", ":", "sub:", ":."])
def test_that_relative_entries_of_the_search_path_reach_no_new_process(hostile, monkeypatch, path):
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.chdir(hostile)
    command = [*interpreter.command("workbench.engine.jobs.array_jobs")[:2], "-c", "import selectors"]
    subprocess.run(command, env=interpreter.environment(), check=True, timeout=60)
    assert ran(hostile) == []


def test_that_a_verb_is_imported_when_the_current_folder_is_left(hostile):
    code = (
        f"import sys, types; sys.path.insert(1, {str(ROOT)!r})\n"
        "import workbench.__main__ as entry\n"
        "verbs = sys.modules['workbench.cli'] = types.ModuleType('workbench.cli')\n"
        f"verbs.__path__ = [{str(ROOT / 'workbench' / 'cli')!r}]\n"
        "verbs.main = lambda: print(__import__('selectors').__file__)\n"
        "entry.main()"
    )
    # As ``python -m workbench``: the current folder comes first on the search path.
    done = start(hostile, sys.executable, "-c", code)
    assert Path(done.stdout.strip()).is_absolute(), done.stderr
    assert ran(hostile) == []


@pytest.mark.slow
def test_that_a_verb_imports_nothing_from_the_current_folder(hostile):
    code = (
        f"import sys; sys.path.insert(1, {str(ROOT)!r}); import workbench.__main__ as entry\n"
        f"sys.argv = ['workbench', '--version']\nentry.main()"
    )
    # As ``python -m workbench``: the current folder comes first on the search path.
    done = start(hostile, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert ran(hostile) == []


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A function that sets the search path, leaves the current folder, and returns the path."""
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.chdir(tmp_path)

    def left(*entries, given="", checkout=False, root="/own"):
        monkeypatch.setattr(interpreter, "_IS_CHECKOUT", checkout)
        monkeypatch.setattr(interpreter, "_ROOT", str(root))
        monkeypatch.setattr(sys, "path", list(map(str, entries)))
        os.environ["PYTHONPATH"] = str(given)
        interpreter.leave_current_folder()
        return sys.path

    return left


def test_that_the_current_folder_and_relative_ones_leave_the_search_path(path, tmp_path):
    assert path("", ".", "sub", tmp_path, "/usr") == ["/usr"]
    # Where it was given by name, or is the checkout itself, it stays.
    assert path("", tmp_path, "/usr", given=tmp_path) == [str(tmp_path), "/usr"]
    assert path("", tmp_path, checkout=True, root=tmp_path) == [str(tmp_path)]
    assert path("", tmp_path, checkout=False, root=tmp_path) == []
    assert path("/usr", given=tmp_path) == ["/usr"]


def test_that_a_current_folder_that_was_deleted_is_no_obstacle(path, tmp_path, monkeypatch):
    def deleted():
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", deleted)
    assert path("", tmp_path) == [str(tmp_path)]


@pytest.mark.parametrize(
    ("given", "checkout", "entries"),
    [
        ("", False, None),
        ("", True, ["/own"]),
        ("/a:rel:/b", False, ["/a", "/b"]),
        ("/a", True, ["/a", "/own"]),
        ("/own:/a", True, ["/own", "/a"]),
    ],
)
def test_that_a_new_interpreter_finds_what_was_given_and_a_checkout(path, given, checkout, entries):
    path(given=given, checkout=checkout)
    assert os.environ["PYTHONSAFEPATH"] == "1"
    found = interpreter.environment()
    if entries is None:
        assert "PYTHONPATH" not in found
    else:
        assert found["PYTHONPATH"].split(os.pathsep) == entries


def test_that_an_absolute_entry_of_the_search_path_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{tmp_path}{os.pathsep}relative")
    entries = interpreter.environment()["PYTHONPATH"].split(os.pathsep)
    assert str(tmp_path) in entries
    assert all(os.path.isabs(entry) for entry in entries)


@pytest.mark.slow
def test_that_a_checkout_that_is_the_current_folder_stays_importable(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "workbench", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_that_every_python_process_is_started_by_one_function():
    """Other starts would put the current folder on the search path."""
    allowed = {"workbench/interpreter.py", "workbench/deploy/simulators/runner_build.py"}
    files = [*ROOT.glob("workbench/**/*.py"), *ROOT.glob("ui/**/*.py")]
    own = {f.relative_to(ROOT).as_posix() for f in files if "sys.executable" in f.read_text()}
    assert own <= allowed
