import json

import numpy as np
import pytest

from tests.for_each import for_each
from workbench.cli import main
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits, store
from workbench.project.model import DataSource
from workbench.project.opened import OpenProject
from workbench.results import CalibrateResult, TensorRange, save_result

TAILS = np.random.default_rng(2).laplace(size=100_000)


def row(index, node, module, **changes):
    return TensorRange(
        **{
            "id": f"observer_{index}",
            "node": node,
            "op": f"aten.{node}.default",
            "module": module,
            "kind": "activation",
            "index": index,
            "minimum": float(TAILS.min()),
            "maximum": float(TAILS.max()),
            "p_low": -6.0,
            "p_high": 6.0,
            "dtype": "int8",
            "qmin": -128,
            "qmax": 127,
            "scale": 0.08,
            "zero_point": 0,
            "observer": "Histogram",
            "mean_square": 2.0,
            **changes,
        }
    )


@pytest.fixture
def calibrated(project, tmp_path):
    """Leave ranges in the cache, as calibration does."""
    cache = Cache(tmp_path / "cache")
    rows = (
        row(0, "conv2d", "stem.conv"),
        row(1, "linear", "head"),
        row(2, "add", "head", scale=0.0, problem="no calibration sample reached this tensor"),
        row(3, "weight", "head", kind="weight"),
    )
    with cache.writing(plan(OpenProject(store.load(project), tmp_path), cache).key("calibrate")) as folder:
        counts, edges = np.histogram(TAILS, 2048)
        histogram = np.stack([counts, counts, np.zeros(2048), counts])
        ends = [[edges[0], edges[-1]]] * 2 + [[0.0, 0.0], [edges[0], edges[-1]]]
        np.savez(folder / "arrays.npz", histogram=histogram, edges=np.asarray(ends))
        save_result(CalibrateResult(samples=4, calibrated_on="data.npz", ranges=rows), folder)
    return project


def test_that_a_range_is_set_listed_and_freed(calibrated, capsys):
    assert main(["ranges", str(calibrated), "set", "conv2d", "-1.5", "2"]) == 0
    listed = [line.split() for line in capsys.readouterr().out.splitlines()]
    # The header, and the calibrated tensors in their order.
    assert [line[0] for line in listed] == ["tensor", "conv2d", "linear", "add", "head"]
    assert listed[1][-3:] == ["-1.5", "to", "2"]
    fixed = store.load(calibrated).ranges[0]
    assert (fixed.tensor, fixed.minimum, fixed.maximum) == ("conv2d", -1.5, 2.0)
    assert main(["ranges", str(calibrated), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["calibrated"]
    assert document["fixed"][0]["tensor"] == "conv2d"
    assert len(document["tensors"]) == 4
    assert main(["ranges", str(calibrated)]) == 0
    assert "head weight" in capsys.readouterr().out
    assert main(["ranges", str(calibrated), "free"]) == 0
    assert store.load(calibrated).ranges == ()


@for_each(
    ("arguments", "code"),
    [
        (["set", "conv2d", "2", "-1"], "fixed-range-invalid"),
        (["set", "conv2d", "1", "2"], "fixed-range-invalid"),
        (["set", "conv2d", "0", "inf"], "fixed-range-invalid"),
        (["free", "conv2d"], "range-method-unknown"),
        (["set", "weight", "-1", "1"], "range-of-weight"),
        (["compare", "weight"], "range-of-weight"),
        (["compare", "conv3d"], "activation-unknown"),
        (["choose", "--method", "kl", "--module", "gone"], "activation-unknown"),
        (["choose", "--method", "kl", "--module", ""], "activation-unknown"),
        (["choose", "--method", "kl", "--tensor", "weight"], "range-of-weight"),
        (["drop", "3"], "calibration-absent"),
    ],
)
def test_that_what_cannot_be_done_is_refused_with_a_reason(calibrated, codes, arguments, code):
    codes.clear()
    before = calibrated.read_bytes()
    assert main(["ranges", str(calibrated), *arguments]) == 2
    assert codes == [code]
    assert calibrated.read_bytes() == before


def test_that_methods_are_compared_by_predicted_sqnr(calibrated, capsys):
    assert main(["ranges", str(calibrated), "--json", "compare", "conv2d"]) == 0
    found = {c["method"]: c for c in json.loads(capsys.readouterr().out)["choices"]}
    assert list(found) == ["histogram", "minmax", "percentile", "mse", "kl"]
    assert found["mse"]["sqnr_db"] >= max(c["sqnr_db"] for c in found.values()) - 0.05
    assert found["minmax"]["clipped"] == 0.0
    assert found["percentile"]["maximum"] < found["minmax"]["maximum"]
    assert main(["ranges", str(calibrated), "compare", "conv2d"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    lines = {row[0]: row for row in rows if row and row[0] in found}
    assert lines.keys() == found.keys()
    for method, choice in found.items():
        assert lines[method][1:3] == [f"{choice['minimum']:.6g}", f"{choice['maximum']:.6g}"]
        assert lines[method][4:6] == [f"{100 * choice['clipped']:.3g}", "%"]
        assert lines[method][6:] == [f"{choice['sqnr_db']:.2f}", "dB"]


def chosen_numbers(path, capsys):
    capsys.readouterr()
    assert main(["ranges", str(path), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["chosen"]


def test_that_a_method_is_chosen_for_a_module_and_taken_back_by_the_search(calibrated, capsys):
    assert main(["ranges", str(calibrated), "choose", "--method", "mse", "--module", "stem"]) == 0
    assert chosen_numbers(calibrated, capsys).keys() == {"conv2d"}
    assert main(["ranges", str(calibrated)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [" to " in line for line in listed] == [False, True, False, False, False, False]
    assert main(["ranges", str(calibrated), "choose", "--method", "percentile", "--all"]) == 0
    both = chosen_numbers(calibrated, capsys)
    assert both.keys() == {"conv2d", "linear"}
    assert both["conv2d"] != both["linear"]
    assert main(["ranges", str(calibrated), "choose", "--method", "histogram", "--all"]) == 0
    assert chosen_numbers(calibrated, capsys).keys() == {"conv2d"}
    assert main(["ranges", str(calibrated), "free", "--module", "stem"]) == 0
    assert chosen_numbers(calibrated, capsys) == {}
    assert main(["ranges", str(calibrated), "free", "--module", "stem"]) == 2
    assert "all activations" in capsys.readouterr().err
    assert main(["ranges", str(calibrated), "free", "--all"]) == 0
    assert store.load(calibrated).range_methods == ()


def test_that_comparing_needs_a_calibration(project, codes):
    assert main(["ranges", str(project), "compare", "conv2d"]) == 2
    assert codes == ["calibration-outdated"]


def test_that_samples_are_dropped_and_restored(project, tmp_path, capsys):
    np.savez(tmp_path / "data.npz", x=np.zeros((4, 3)))
    made = edits.set_calibration(store.load(project), DataSource(spec="data.npz"))
    store.save(made, project)
    assert main(["ranges", str(project), "drop", "3", "1"]) == 0
    assert store.load(project).calibration.dropped == (1, 3)
    assert main(["ranges", str(project), "restore", "3"]) == 0
    assert store.load(project).calibration.dropped == (1,)
    capsys.readouterr()


def test_that_the_script_says_that_it_needs_numbers_for_a_method(calibrated, tmp_path, capsys):
    assert main(["ranges", str(calibrated), "choose", "--method", "mse", "--tensor", "conv2d"]) == 0
    out = tmp_path / "make.py"
    assert main(["script", str(calibrated), "--out", str(out)]) == 0
    assert "have the workbench write the script again" in out.read_text()
    (low, high), *_ = chosen_numbers(calibrated, capsys).values()
    assert f"RANGES = {{'conv2d': ({low!r}, {high!r})}}" in out.read_text()
    np.savez(tmp_path / "data.npz", x=np.zeros((4, 3)))
    other = edits.set_calibration(store.load(calibrated), DataSource(spec="data.npz"))
    store.save(other, calibrated)
    assert main(["script", str(calibrated), "--out", str(out)]) == 2
    assert "--until calibrate" in capsys.readouterr().err
