"""Projects run as a user runs them: in the window or through the command line, with real engines.

A verb runs in the test's process, which does not import torch: its engine is a fork of a server
that has imported the toolchain once. One run is a process of its own with a fresh engine: the
first of ``digits``.
"""

import contextlib
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import pytest
from filelock import FileLock

from tests.engine.in_process import CALIBRATED, NETWORKS, project
from tests.workbench.cli.conftest import codes
from workbench.api import jobs
from workbench.cli import main
from workbench.engine_process import EngineProcess
from workbench.pipeline.cache import Cache
from workbench.project import store
from workbench.project.opened import OpenProject
from workbench.project.trust import named_code
from workbench.protocol import EngineExit, JobFinished, Ready, RunUntil

# A fixture of the verbs' own tests.
__all__ = ["codes"]
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "resources" / "samples"


def wait_gone(pid, timeout_s):
    """Return whether a process has disappeared within the time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)

    def error(self, stage):
        return next(s for s in self.document["stages"] if s["id"] == stage)["error"]


class Workbench:
    """The command line in a folder and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "QUANTIZATION_WORKBENCH_CACHE": str(folder / "cache"),
            "QUANTIZATION_WORKBENCH_CONFIG": str(folder / "config"),
        }

    def __call__(self, *arguments: object) -> Outcome:
        """Run a verb in this process, with a warm engine."""
        out, err = io.StringIO(), io.StringIO()
        warm = functools.partial(EngineProcess, warm=True)
        with (
            mock.patch.dict(os.environ, self.environment),
            mock.patch.object(jobs, "EngineProcess", warm),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = main([str(word) for word in arguments])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Outcome(code, out.getvalue(), err.getvalue())

    def process(self, *arguments: object) -> Outcome:
        """Run a verb in a process of its own, with a fresh engine."""
        command = [sys.executable, "-m", "workbench", *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def project(self, model: str, *options: object, target: str = "ethos-u55-128") -> Path:
        """Write a project for a network of ``networks.py``."""
        shutil.copy(NETWORKS, self.folder)
        path = self.folder / f"{model}.qwb"
        done = self("new", path, "--force", "--model", f"networks.py:{model}", "--target", target, *options)
        assert done.code == 0, done.err
        return path


@pytest.fixture
def workbench(tmp_path):
    return Workbench(tmp_path)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The sample project, run once to its package, with everything it printed.

    The first worker that asks runs it; each has a copy of the folder with project and cache.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    first, answer = shared / "digits-of-all", shared / "digits-of-all.json"
    with FileLock(shared / "digits-of-all.lock"):
        if not answer.exists():
            shutil.copytree(SAMPLES / "digits", first / "digits")
            project, out = first / "digits" / "digits.qwb", first / "dist"
            outcome = Workbench(first).process("run", project, "--out", out, "--trust", "--json")
            assert outcome.code == 0, outcome.err
            answer.write_text(json.dumps(asdict(outcome)))
    folder = tmp_path_factory.mktemp("digits")
    shutil.copytree(first, folder, dirs_exist_ok=True)
    outcome = Outcome(**json.loads(answer.read_text()))
    return Workbench(folder), folder / "digits" / "digits.qwb", outcome


class Lane:
    """Starts engines on one project and keeps what the last one said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.project = store.load(path)
        self.cache = Cache(path.parent / "cache")
        self.events: list = []
        self.log: list[str] = []

    def run(self, until: str, on_event=lambda engine, event: None) -> EngineExit:
        """Run one job on a fresh engine; ``on_event`` may disturb it."""
        engine = EngineProcess(warm=True)
        reader = engine.run_log(self.log.append)
        self.events = []
        command = RunUntil(
            job="e2e",
            project=self.project,
            folder=str(self.path.parent),
            until=until,
            cache_root=str(self.cache.root),
            code=named_code(OpenProject(self.project, self.path.parent)).digest,
        )
        for event in engine.events():
            self.events.append(event)
            if isinstance(event, Ready):
                engine.send(command)
            elif isinstance(event, JobFinished):
                engine.stop()
            on_event(engine, event)
        reader.join(5)
        self.pid = engine.pid
        return self.events[-1]

    def kinds(self, kind) -> list:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def lane(tmp_path):
    """Engines on the smallest network."""
    shutil.copy(NETWORKS, tmp_path)
    store.save(project("small", **CALIBRATED), tmp_path / "small.qwb")
    return Lane(tmp_path / "small.qwb")


@pytest.fixture
def digits_lane(tmp_path):
    """Engines on the sample, of which each stage takes a while."""
    shutil.copytree(SAMPLES / "digits", tmp_path / "digits")
    return Lane(tmp_path / "digits" / "digits.qwb")


@pytest.fixture
def warm_engines(monkeypatch):
    """Fork engines of the API from a server that has imported the toolchain once."""
    monkeypatch.setattr(jobs, "EngineProcess", functools.partial(EngineProcess, warm=True))
