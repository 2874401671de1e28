"""Every recipe makes a project that compiles and verifies at once."""

from __future__ import annotations

import pytest

from tests.engine.in_process import Engine
from workbench.cli import main
from workbench.errors import WorkbenchError
from workbench.project import store
from workbench.project.recipes import begin, recipes

pytestmark = pytest.mark.engine


@pytest.fixture
def engine(tmp_path):
    made = Engine(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("name", recipes())
def test_that_a_recipe_runs_as_it_is(engine, tmp_path, name):
    path = tmp_path / "mine.qwb"
    assert main(["new", str(path), "--recipe", name]) == 0
    project = store.load(path)
    # One of them to its end: the others are lowered like any project.
    until = "verify" if name == "anomaly_detection" else "calibrate"
    assert engine.run(project, until, "evaluate") == "done", engine.failure
    if until == "verify":
        assert engine.result(project, "lower").delegates == 1
        assert engine.result(project, "verify").max_lsb <= 2


def test_that_a_recipe_overwrites_nothing(tmp_path):
    recipe = recipes()["keyword_spotting"]
    (tmp_path / "mine_model.py").write_text("mine")
    with pytest.raises(WorkbenchError, match="exists already"):
        begin(recipe, tmp_path / "mine.qwb")
    assert (tmp_path / "mine_model.py").read_text() == "mine"
    assert not (tmp_path / "mine.qwb").exists()
