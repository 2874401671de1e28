"""``workbench nnpa`` with the engine's arithmetic."""

import json

import numpy as np
import pytest

from workbench.cli import main

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("arithmetic_in_process")]


@pytest.fixture
def arrays(tmp_path):
    rng = np.random.default_rng(3)
    made = {
        "a": rng.normal(size=(5, 16)),
        "b": rng.normal(size=(16, 4)),
        "bias": rng.normal(size=4),
        "zeros": np.zeros((5, 16)),
    }
    for name, array in made.items():
        np.save(tmp_path / f"{name}.npy", array.astype(np.float32))
    return made


def nnpa(folder, verb, **options):
    words = [f"--{key}={value}" for key, value in options.items()]
    return main(["nnpa", verb, *[word.replace("@", f"{folder}/") for word in words], "--json"])


def test_that_codes_give_the_array_back_within_a_step(arrays, tmp_path, capsys):
    assert nnpa(tmp_path, "quantize", mode="asym", **{"in": "@a.npy"}, out="@q.npz") == 0
    made = np.load(tmp_path / "q.npz")
    assert made["q"].dtype == np.int8
    back = (made["q"].astype(float) - made["zero_point"]) * made["scale"]
    assert np.abs(back - arrays["a"]).max() <= 0.51 * made["scale"]
    assert json.loads(capsys.readouterr().out)["warnings"] == []


def test_that_zeros_get_scale_one_and_a_warning(arrays, tmp_path, capsys):
    assert nnpa(tmp_path, "quantize", mode="asym", **{"in": "@zeros.npy"}, out="@q.npz") == 0
    made = np.load(tmp_path / "q.npz")
    assert (float(made["scale"]), int(made["zero_point"]), int(made["q"].any())) == (1.0, 0, 0)
    assert "no range" in capsys.readouterr().err


@pytest.mark.parametrize("numerics", ["document", "nnpa"])
@pytest.mark.parametrize("mode", ["asym", "sym"])
def test_that_a_product_is_near_the_float_one(arrays, tmp_path, capsys, mode, numerics):
    options = {"a": "@a.npy", "b": "@b.npy", "bias": "@bias.npy", "out": "@y.npy"}
    assert nnpa(tmp_path, "matmul", mode=mode, numerics=numerics, **options) == 0
    exact = arrays["a"] @ arrays["b"] + arrays["bias"]
    assert np.abs(np.load(tmp_path / "y.npy") - exact).max() < 0.3
    assert json.loads(capsys.readouterr().out)["sqnr_db"] > 30


def test_that_a_product_of_zeros_is_the_bias(arrays, tmp_path, capsys):
    options = {"a": "@zeros.npy", "b": "@b.npy", "bias": "@bias.npy", "out": "@y.npy"}
    assert nnpa(tmp_path, "matmul", mode="asym", numerics="document", **options) == 0
    bias = np.broadcast_to(arrays["bias"].astype(np.float32), (5, 4))
    assert np.array_equal(np.load(tmp_path / "y.npy"), bias)
    assert "zero" in capsys.readouterr().err


def test_that_shapes_that_do_not_fit_are_refused(arrays, tmp_path, codes):
    options = {"a": "@b.npy", "b": "@a.npy", "out": "@y.npy"}
    assert nnpa(tmp_path, "matmul", mode="asym", numerics="nnpa", **options) == 2
    assert codes == ["nnpa-shapes-mismatch"]
    assert not (tmp_path / "y.npy").exists()


def test_that_nan_is_refused(arrays, tmp_path, codes):
    arrays["a"][0, 0] = np.nan
    np.save(tmp_path / "a.npy", arrays["a"])
    assert nnpa(tmp_path, "quantize", mode="sym", **{"in": "@a.npy"}, out="@q.npz") == 2
    assert codes == ["array-not-finite"]


@pytest.mark.parametrize(
    ("name", "value", "code"), [("a", 1e39, "array-beyond-float32"), ("bias", np.nan, "bias-not-finite")]
)
def test_that_what_float32_cannot_hold_is_refused(arrays, tmp_path, codes, name, value, code):
    np.save(tmp_path / f"{name}.npy", np.full(arrays[name].shape, value))
    options = {"a": "@a.npy", "b": "@b.npy", "bias": "@bias.npy", "out": "@y.npy"}
    assert nnpa(tmp_path, "matmul", mode="asym", numerics="document", **options) == 2
    assert codes == [code]
    assert not (tmp_path / "y.npy").exists()


def test_that_a_batch_reports_the_refused_job(arrays, tmp_path, capsys):
    job = {key: str(tmp_path / f"{key}.npy") for key in ("a", "b")} | {"mode": "asym"}
    jobs = [
        {**job, "numerics": "nnpa", "out": str(tmp_path / "0.npy")},
        {**job, "numerics": "guess", "out": str(tmp_path / "1.npy")},
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    assert main(["nnpa", "matmul", "--batch", str(tmp_path / "jobs.json"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["results"]
    assert (tmp_path / "0.npy").exists()
    assert "guess" in found[1]["error"]
