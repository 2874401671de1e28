"""``workbench formats quantize`` with the engine's arithmetic."""

import json

import numpy as np
import pytest

from workbench.cli import main

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("arithmetic_in_process")]
INTEGER = '{"width": 4, "frac_width": 1}'


@pytest.fixture
def array(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([0.2, 0.3, -9.0, 3.3, np.inf], np.float32))
    return path


def quantize(*arguments):
    return main(["formats", "quantize", *map(str, arguments)])


def test_that_an_array_lands_on_the_grid_in_its_own_type(array, tmp_path, capsys):
    out = tmp_path / "y.npy"
    arguments = ("--scheme", "integer", "--params", INTEGER, "--in", array, "--out", out)
    assert quantize(*arguments, "--json") == 0
    assert np.load(out).tolist() == [0.0, 0.5, -4.0, 3.5, 3.5]
    assert json.loads(capsys.readouterr().out)["shape"] == [5]
    np.save(array, np.load(array).astype(np.float64))
    assert quantize(*arguments) == 0
    assert np.load(out).dtype == np.float64
    assert "SQNR" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scheme", "params", "code"),
    [
        ("intege", "{}", "format-unknown"),
        ("integer", '{"width": 99, "frac_width": 1}', "format-parameter-invalid"),
        ("integer", '{"width": 8}', "format-parameter-missing"),
        ("integer", '{"widht": 8, "frac_width": 1}', "format-parameter-unknown"),
        ("minifloat_ieee", '{"width": 4, "exponent_width": 5}', "format-width-too-small"),
        ("log", '{"width": 8, "exponent_bias": 900}', "format-exponent-out-of-range"),
        (
            "minifloat_mx",
            '{"exponent_width": 1, "frac_width": 3, "is_finite": false}',
            "format-exponent-too-small",
        ),
        ("block_fp", '{"width": 8, "exponent_width": 8, "block_size": [0]}', "block-size-zero"),
    ],
)
def test_that_a_bad_request_is_refused_in_a_sentence(array, tmp_path, codes, scheme, params, code):
    out = tmp_path / "y.npy"
    assert quantize("--scheme", scheme, "--params", params, "--in", array, "--out", out) == 2
    assert code in codes
    assert not out.exists()


def test_that_missing_options_are_named(capfd):
    assert quantize("--scheme", "integer") == 2
    said = capfd.readouterr().err
    assert "'in' is missing" in said
    assert "'out' is missing" in said


def test_that_a_batch_goes_on_after_a_refused_job(array, tmp_path, capsys):
    np.save(tmp_path / "whole.npy", np.arange(3))
    mine = {"in": str(array), "scheme": "integer", "params": json.loads(INTEGER)}
    jobs = [
        {**mine, "out": str(tmp_path / "0.npy")},
        {**mine, "out": str(tmp_path / "1.npy"), "scheme": "nothing"},
        {**mine, "out": str(tmp_path / "2.npy"), "in": str(tmp_path / "whole.npy")},
        {**mine, "out": str(tmp_path / "3.npy"), "colour": "red"},
        "job",
        {
            "in": str(array),
            "out": str(tmp_path / "5.npy"),
            "scheme": "minifloat_ieee",
            "role": "weight",
            "mase_compatible": True,
            "params": {
                "weight_width": 8,
                "weight_exponent_width": 4,
                "weight_exponent_bias": None,
                "data_in_width": 4,
            },
        },
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    assert quantize("--batch", tmp_path / "jobs.json", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["refused"] == 4
    assert [r["index"] for r in found["results"] if "error" in r] == [1, 2, 3, 4]
    assert "int64" in found["results"][2]["error"]
    assert np.load(tmp_path / "0.npy").tolist() == [0.0, 0.5, -4.0, 3.5, 3.5]
    made = np.load(tmp_path / "5.npy")
    assert made[:4].tolist() == [0.203125, 0.3125, -9.0, 3.25]
    assert np.isnan(made[4])
