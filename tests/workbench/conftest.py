"""Verbs run in this process over engines that play their events."""

import shutil
from contextlib import closing

import pytest

from tests.fakes.engine import FakeEngines
from tests.fakes.projects import make_project, write_project
from tests.fakes.results import write_result
from workbench.history.runs import run_of
from workbench.history.store import History, history_path
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project import edits, store
from workbench.project.opened import OpenProject


@pytest.fixture
def played(monkeypatch):
    """The engines of all jobs of the test; each finishes every stage at once."""
    engines = FakeEngines()
    monkeypatch.setattr("workbench.api.jobs.EngineProcess", engines)
    return engines


@pytest.fixture(scope="session")
def measured_folder(tmp_path_factory):
    """The folder of ``measured``, with its results in a folder of their own."""
    folder = tmp_path_factory.mktemp("measured")
    project_file = write_project(folder / "mine")
    cache = Cache(folder / "cache")
    with closing(History(history_path(project_file))) as history:
        for config, cycles in (("a16w8", 2000), ("a8w8", None)):
            made = edits.assign(make_project(), "global", "", config)
            planned = plan(OpenProject(made, project_file.parent), cache)
            for stage in ("evaluate", "lower", "verify"):
                with cache.writing(planned.key(stage)) as written:
                    write_result(stage, written)
            run = run_of(made, planned, cache)
            if cycles:
                cost = run.cost.model_copy(update={"cycles": cycles})
                run = run.model_copy(update={"cost": cost})
            history.record(run)
    store.save(made, project_file)
    return folder


@pytest.fixture
def measured(measured_folder, tmp_path):
    """A project whose present settings were run, and one earlier run in 16 bits: 2,000 cycles."""
    shutil.copytree(measured_folder / "mine", tmp_path / "mine")
    shutil.copytree(measured_folder / "cache", default_root())
    return tmp_path / "mine" / "net.qwb"
