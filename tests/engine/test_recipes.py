"""Every recipe makes a project that compiles and verifies at once."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.engine.in_process import Engine
from tests.problems import refused
from workbench.cli import main
from workbench.engine.loading.models import load_model
from workbench.project import edits, store
from workbench.project.recipes import begin, recipes
from workbench.pte.program import decode
from workbench.results import PROGRAM_FILE

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


@pytest.mark.parametrize("caches", ["float", "int8"])
def test_that_a_decoder_may_have_another_context_than_its_weights(tmp_path, caches):
    path = tmp_path / "net.qwb"
    assert main(["new", str(path), "--recipe", "llm_decoder", "--caches", caches]) == 0
    code = tmp_path / "net_model.py"
    code.write_text(code.read_text().replace("CONTEXT = 64", "CONTEXT = 128"))
    loaded = load_model(store.load(path).model, tmp_path).module
    found = {name: value for name, value in loaded.named_buffers() if name.endswith("k_cache")}
    assert len(found) == 2
    for value in found.values():
        assert 128 in value.shape
        assert value.dtype == (torch.int8 if caches == "int8" else torch.float32)
        assert not value.any()


_IN_FLOAT = """
import sys, numpy, torch
from safetensors.torch import load_file
import net_model
decoder, (_, _, *caches) = net_model.model()
decoder.load_state_dict(load_file("net_weights.safetensors"), strict=False)
rows = []
with torch.no_grad():
    for place, token in enumerate(sys.argv[1].encode()):
        numbers = torch.tensor([[token]]), torch.tensor([place])
        logits, *caches = decoder(*numbers, *caches)
        rows.append(logits.numpy())
numpy.save("float.npy", numpy.concatenate(rows))
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ethosu_16a8w", "ethosu_8a8w"])
def test_that_int8_caches_are_handed_on_as_they_are(engine, mode):
    """Sixteen tokens on the simulator against plain torch in another process."""
    path, text = engine.folder / "net.qwb", "The with stateme"
    options = ["--recipe", "llm_decoder_static", "--mode", mode, "--caches", "int8"]
    assert main(["new", str(path), *options]) == 0
    made = store.load(path)
    few = made.calibration.model_copy(update={"limit": 128})
    made = edits.revise(made, calibration=few)
    engine.lowered(made)
    program = engine.path(made, "lower") / PROGRAM_FILE
    grids = {
        m.name: m.values[m.outputs[0]].content
        for m in decode(program.read_bytes()).methods
        if m.name.endswith(("_scale", "_zp"))
    }
    for cache in range(4):
        for field in ("scale", "zp"):
            assert grids[f"input{cache + 2}_{field}"] == grids[f"output{cache + 1}_{field}"]
    tokens = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
    caches = [np.full((1, 2, 63, 16), grids[f"input{n}_zp"], np.int8) for n in range(2, 6)]
    inputs = [tokens.reshape(-1, 1, 1), np.arange(len(tokens), dtype=np.int32)[:, None], *caches]
    np.savez(engine.folder / "in.npz", **{f"in{n}": array for n, array in enumerate(inputs)})
    command = ["--inputs", str(engine.folder / "in.npz"), "--out", str(engine.folder / "out.npz")]
    assert main(["simulate", str(program), "--sequence", *command]) == 0
    subprocess.run([sys.executable, "-c", _IN_FLOAT, text], cwd=engine.folder, check=True)
    exact = np.load(engine.folder / "float.npy")
    integers = np.load(engine.folder / "out.npz")["out0"].reshape(exact.shape).astype(float)
    logits = (integers - grids["output0_zp"]) * grids["output0_scale"]
    error = np.square(exact - logits).sum(1) / np.square(exact).sum(1)
    # As small in the second half as in the first: nothing adds up.
    assert error[:8].mean() < 0.01
    assert error[8:].mean() < 0.01
    assert (exact.argmax(1) == logits.argmax(1)).mean() > 0.85


@pytest.mark.parametrize(
    ("mode", "config"), [("", "a16w8"), ("ethosu_16a8w", "a16w8"), ("ethosu_8a8w", "a8w8")]
)
@pytest.mark.parametrize(
    ("scope", "kind", "match"),
    [("", "global", ""), ("full", "global", ""), ("linear", "module_type", "torch.nn.modules.linear.Linear")],
)
def test_that_modes_and_scopes_of_export_llm_are_rules(tmp_path, mode, config, scope, kind, match):
    path = tmp_path / "mine.qwb"
    assert main(["new", str(path), "--recipe", "llm_decoder", "--mode", mode, "--scope", scope]) == 0
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


@pytest.mark.slow
def test_that_a_program_for_prompts_computes_what_tokens_one_by_one_give(tmp_path):
    size, text = 4, b"The with statement i"
    made = []
    for name, tokens in (("one", "1"), ("several", str(size))):
        path = tmp_path / f"{name}.qwb"
        command = ["new", str(path), "--recipe", "llm_decoder_static", "--prompt-tokens", tokens]
        assert main(command) == 0
        made.append(load_model(store.load(path).model, tmp_path))
    results = []
    with torch.no_grad():
        for loaded in made:
            count = loaded.inputs[0].numel()
            caches = loaded.inputs[2:]
            for place in range(0, len(text), count):
                tokens = torch.tensor([list(text[place : place + count])])
                logits, *caches = loaded.module(tokens, torch.arange(place, place + count), *caches)
            results.append((logits, *caches))
    assert made[1].inputs[0].numel() == size
    for one, several in zip(*results, strict=True):
        assert torch.allclose(one, several, atol=1e-4)
