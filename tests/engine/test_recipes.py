"""Every recipe makes a project that compiles and verifies at once."""

from __future__ import annotations

import pytest
import torch

from tests.engine.in_process import Engine
from tests.problems import refused
from workbench.cli import main
from workbench.engine.model_loading import load_model
from workbench.project import store
from workbench.project.recipes import begin, recipes

pytestmark = pytest.mark.engine


@pytest.fixture
def engine(tmp_path):
    made = Engine(tmp_path)
    yield made
    made.close()


# Decoders take longer: test_export_llm.py runs one beside ExecuTorch's own export.
@pytest.mark.parametrize(
    "name",
    [
        name if name == "anomaly_detection" else pytest.param(name, marks=pytest.mark.slow)
        for name, recipe in recipes().items()
        if not recipe.modes
    ],
)
def test_that_a_recipe_runs_as_it_is(engine, tmp_path, name):
    project = begun(tmp_path, name)
    assert engine.run(project, "calibrate") == "done", engine.failure


@pytest.mark.slow
def test_that_a_recipe_is_verified_as_it_is(engine, tmp_path):
    """One of them to its end: the others are lowered like any project."""
    project = begun(tmp_path, "anomaly_detection")
    assert engine.verified(project).max_lsb <= 2
    assert engine.result(project, "lower").delegates == 1


def begun(folder, name):
    path = folder / "mine.qwb"
    assert main(["new", str(path), "--recipe", name]) == 0
    return store.load(path)


def test_that_a_recipe_overwrites_nothing(tmp_path):
    recipe = recipes()["keyword_spotting"]
    (tmp_path / "mine_model.py").write_text("mine")
    with refused("file-exists"):
        begin(recipe, tmp_path / "mine.qwb")
    assert (tmp_path / "mine_model.py").read_text() == "mine"
    assert not (tmp_path / "mine.qwb").exists()


@pytest.mark.slow
def test_that_both_decoders_read_alike(tmp_path):
    made = []
    for name in ("llm_decoder", "llm_decoder_static"):
        path = tmp_path / f"{name}.qwb"
        assert main(["new", str(path), "--recipe", name]) == 0
        loaded = load_model(store.load(path).model, tmp_path)
        made.append((loaded.module, loaded.inputs[2:]))
    (kept, _), (handing, caches) = made
    with torch.no_grad():
        for place, token in enumerate(b"The with statement"):
            numbers = torch.tensor([[token]]), torch.tensor([place])
            logits, *caches = handing(*numbers, *caches)
            torch.testing.assert_close(logits, kept(*numbers), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("mode", "config"), [("", "a16w8"), ("ethosu_16a8w", "a16w8"), ("ethosu_8a8w", "a8w8")]
)
@pytest.mark.parametrize(
    ("scope", "kind", "match"),
    [
        ("", "global", ""),
        ("full", "global", ""),
        ("linear", "module_type", "torch.nn.modules.linear.Linear"),
    ],
)
def test_that_modes_and_scopes_of_export_llm_are_rules(tmp_path, mode, config, scope, kind, match):
    path = tmp_path / "mine.qwb"
    assert (
        main(["new", str(path), "--recipe", "llm_decoder", "--mode", mode, "--scope", scope]) == 0
    )
    rules = [(rule.kind, rule.match, rule.config) for rule in store.load(path).rules]
    assert rules == [(kind, match, config), ("node_target", "aten.index.Tensor", "cpu")]


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ("llm_decoder", ["--mode", "ethosu_4a4w"], "has no mode 'ethosu_4a4w'"),
        ("llm_decoder", ["--scope", "some"], "has no scope 'some'"),
        ("image_classifier", ["--mode", "ethosu_8a8w"], "It has none."),
    ],
)
def test_that_a_mode_that_a_recipe_lacks_writes_nothing(tmp_path, capsys, recipe, options, message):
    assert main(["new", str(tmp_path / "mine.qwb"), "--recipe", recipe, *options]) != 0
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
