"""Projects run as a user runs them: through the command line, with a real engine.

A verb runs in the test's process, and its engine is a fork of a server that has imported the
toolchain once. One run is a process of its own with a fresh engine: the first of ``digits``.
"""

import contextlib
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import pytest
from filelock import FileLock

from tests.workbench.cli.conftest import codes
from workbench.api import jobs
from workbench.cli import main
from workbench.engine.toolchain_patches.imports import import_toolchain
from workbench.engine_process import EngineProcess
from workbench.pipeline.cache import Cache

# A fixture of the verbs' own tests, which those that compute on arrays take too.
__all__ = ["codes"]
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "resources" / "samples"


def pytest_collection(session):
    """Import the toolchain as engines do, in a third of the time that the imports of tests take.

    The process that hands out tests to others (``dsession``) needs none of it.
    """
    if not session.config.pluginmanager.has_plugin("dsession"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_toolchain()


def pytest_collection_modifyitems(items):
    """Let torch, executorch and Vela warn unheard; only our own warnings are errors.

    Else the process that hands out tests imports their classes, where warnings are errors.
    """
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.filterwarnings(r"error:::(workbench|tests)\."))


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
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: object) -> subprocess.Popen:
        command = [sys.executable, "-m", "workbench", *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def project(self, model: str, *options: object, target: str = "ethos-u55-128") -> Path:
        """Write a project for a network of ``networks.py``."""
        shutil.copy(Path(__file__).parent / "networks.py", self.folder / "networks.py")
        path = self.folder / f"{model}.qwb"
        done = self(
            "new", path, "--force", "--model", f"networks.py:{model}", "--target", target, *options
        )
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


@pytest.fixture(scope="session")
def shared_results(tmp_path_factory):
    """What the tests marked ``shared_results`` have computed: one for each worker."""
    from tests.engine.in_process import Shared

    return Shared(Cache(tmp_path_factory.mktemp("shared")))


@pytest.fixture
def engine(tmp_path, request):
    """An engine; ``shared_results(False)`` takes a test of a marked file out."""
    from tests.engine.in_process import Engine

    marker = request.node.get_closest_marker("shared_results")
    shares = marker is not None and marker.args != (False,)
    made = Engine(tmp_path, request.getfixturevalue("shared_results") if shares else None)
    yield made
    made.close()


@pytest.fixture
def arithmetic_in_process(tmp_path, monkeypatch):
    """Let the verbs that compute on arrays do it in this process, without a fresh torch."""
    from workbench.cli import formats, nnpa
    from workbench.engine import array_jobs

    work = {"formats": array_jobs.answer_formats, "nnpa": array_jobs.answer_nnpa}
    answer = tmp_path / "answer.json"

    def ask(name, arguments):
        work[name](arguments, answer)
        return json.loads(answer.read_text())

    monkeypatch.setattr(formats, "ask", ask)
    monkeypatch.setattr(nnpa, "ask", ask)
