"""The compiled program in verify, and the verdict that a run ends in."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine


def test_that_every_sample_of_digits_is_equal_on_the_compiled_program(digits):
    found = digits[2].document["verify"]["compiled"]
    assert found["samples"] == 16
    assert found["equal"] == found["elements"] == 160
    assert found["first_difference"] is None
    assert found["findings"] == []
    assert found["refused"] == ""


def test_that_digits_is_right_in_the_summary_the_manifest_and_the_history(digits):
    workbench, path, outcome = digits
    gate = outcome.document["gate"]
    assert gate["verdict"] == "right"
    assert {limit["name"] for limit in gate["limits"]} >= {"lsb", "argmax", "loss", "compiled"}
    assert all(limit["held"] for limit in gate["limits"])
    files = {Path(f["path"]).name: Path(f["path"]) for f in outcome.document["package"]["files"]}
    assert json.loads(files["manifest.json"].read_text())["gate"] == gate
    runs = json.loads(workbench("runs", path, "--json").out)["runs"]
    assert runs[-1]["gate"] == gate


def test_that_digits_is_accurate_enough_on_data_that_calibration_did_not_see(digits):
    workbench, path, outcome = digits
    accuracy = outcome.document["accuracy"]
    assert accuracy["verdict"] == "accurate enough"
    assert accuracy["data"] == {"name": "held_out.npz", "samples": 450, "held_out": True}
    assert {limit["name"]: limit["held"] for limit in accuracy["limits"]} == {
        "top1_loss": True,
        "inputs": True,
    }
    assert accuracy["parts"][0]["sqnr_db"] > 30
    files = {Path(f["path"]).name: Path(f["path"]) for f in outcome.document["package"]["files"]}
    assert json.loads(files["manifest.json"].read_text())["accuracy"] == accuracy
    runs = json.loads(workbench("runs", path, "--json").out)["runs"]
    assert runs[-1]["accuracy_result"] == accuracy


def test_that_a_program_that_is_not_accurate_enough_is_not_written(workbench):
    path = workbench.project("offset", "--calibration", "networks.py:many_samples")
    out = workbench.folder / "out"
    done = workbench("run", path, "--trust", "--out", out, "--json")
    assert done.code == 4
    assert done.document["gate"]["verdict"] == "right"
    accuracy = done.document["accuracy"]
    assert accuracy["verdict"] == "not accurate enough"
    assert accuracy["data"]["held_out"] is True
    assert [part["held"] for part in accuracy["parts"]] == [False]
    assert not out.exists()
    again = ["run", path, "--trust", "--out", out, "--json"]
    done = workbench(*again, "--fail-if", "float_sqnr<-40", "--fail-if", "lsb>99")
    assert done.code == 0
    assert json.loads((out / "manifest.json").read_text())["accuracy"]["verdict"] != ("not accurate enough")


def test_that_a_model_in_half_precision_is_refused_before_it_is_compiled(workbench):
    path = workbench.project("half")
    done = workbench("run", path, "--trust", "--json")
    assert done.code == 1
    failed = next(stage for stage in done.document["stages"] if stage["state"] == "failed")
    assert failed["id"] == "import_model"
    assert failed["error"]["code"] == "model-half-precision"


def test_that_a_broken_limit_ends_with_4_and_writes_nothing(digits):
    workbench, path, _ = digits
    out = workbench.folder / "refused"
    done = workbench("run", path, "--trust", "--out", out, "--fail-if", "lsb>-1", "--json")
    assert done.code == 4
    assert done.document["gate"]["verdict"] == "differs"
    assert done.document["package"]["withheld"] is True
    assert not out.exists()


def test_that_differences_that_are_allowed_are_written_and_named_first(digits):
    workbench, path, _ = digits
    out = workbench.folder / "allowed"
    done = workbench("run", path, "--trust", "--out", out, "--fail-if", "lsb>-1", "--allow-differences")
    assert done.code == 4
    assert "differs" in (out / "digits.md").read_text().splitlines()[0]
    assert next(iter(json.loads((out / "manifest.json").read_text()))) == "gate"


def test_that_a_run_without_verify_is_not_verified_and_ends_with_0(digits):
    workbench, path, _ = digits
    done = workbench("run", path, "--trust", "--skip", "verify", "--json")
    assert done.code == 0
    assert done.document["gate"]["verdict"] == "not verified"


def test_that_a_condition_that_cannot_be_read_is_a_usage_error(digits):
    workbench, path, _ = digits
    assert workbench("run", path, "--trust", "--fail-if", "speed>2").code == 2


@pytest.mark.slow
def test_that_a_wrong_instruction_is_found_with_its_line_and_command(workbench):
    """Vela 5.1.0 reads an operand of ``amin`` with a wrong shape on the U55."""
    path = workbench.project("least", "--option", "minima_from_maxima=false")
    done = workbench("run", path, "--trust", "--until", "verify", "--json")
    found = done.document["verify"]
    assert found["max_lsb"] == 0
    assert done.code == 4
    first = found["compiled"]["first_difference"]
    assert "amin" in first["source_line"]
    assert first["command"].startswith("NPU_OP_")
    assert first["offset"] > 0
