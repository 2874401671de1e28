"""Real stages in the test's process, which has imported the toolchain as an engine does."""

import json
import warnings
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import codes
from workbench.engine.runtime.imports import import_toolchain
from workbench.pipeline.cache import Cache

# A fixture of the verbs' own tests, which those that compute on arrays take too.
__all__ = ["codes"]


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


@pytest.fixture(scope="session")
def shared_results(tmp_path_factory):
    """What the tests marked ``shared_results`` have computed: one for each worker."""
    from tests.engine.in_process import Shared

    return Shared(Cache(tmp_path_factory.mktemp("shared")))


@pytest.fixture
def engine(tmp_path, request):
    """An engine; ``shared_results(False)`` takes a test of a marked file out.

    Stages of ``shared_results(own=...)`` are computed by the test itself.
    """
    from tests.engine.in_process import Engine

    marker = request.node.get_closest_marker("shared_results")
    shares = marker is not None and marker.args != (False,)
    own = frozenset(marker.kwargs.get("own", ())) if shares else frozenset()
    made = Engine(tmp_path, request.getfixturevalue("shared_results") if shares else None, own)
    yield made
    made.close()


@pytest.fixture
def arithmetic_in_process(tmp_path, monkeypatch):
    """Let the verbs that compute on arrays do it in this process, without a fresh torch."""
    from workbench.cli import arrays
    from workbench.engine.jobs import array_jobs

    work = {"formats": array_jobs.answer_formats, "nnpa": array_jobs.answer_nnpa}
    answer = tmp_path / "answer.json"

    def ask(name, arguments):
        work[name](arguments, answer)
        return json.loads(answer.read_text())

    monkeypatch.setattr(arrays, "ask", ask)


@pytest.fixture
def one_thread():
    """Let torch compute in one thread, as engines do: those of OpenMP do not survive a fork."""
    import torch

    from workbench.engine.runtime.forked import can_fork

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    if not can_fork():
        pytest.skip("needs Linux and two cores")
    yield
    torch.set_num_threads(before)
