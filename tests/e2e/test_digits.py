"""The sample from end to end, with every tool for real."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine


def test_that_every_stage_is_done_and_simulate_needs_no_device(digits):
    states = {s["id"]: s["state"] for s in digits[2].document["stages"]}
    assert set(states.values()) == {"done"}


def test_that_the_quantized_digits_keep_their_accuracy(digits):
    found = digits[2].document["evaluate"]
    assert found["samples"] == 450
    assert found["top1_float"] >= 0.97
    assert found["top1_quantized"] >= found["top1_float"] - 0.01
    assert found["sqnr_db"] > 30
    assert found["calibrated_on"] == "calibration.npz"


def test_that_all_but_the_border_runs_on_the_npu_and_reasons_are_given(digits):
    found = digits[2].document["lower"]
    assert found["delegates"] == 1
    assert {"quantize", "dequantize"} == {
        re.search(r"\.(\w*quantize)_per", n["op"])[1] for n in found["cpu_nodes"]
    }
    assert all(node["reason"] for node in found["cpu_nodes"])
    (vela,) = found["vela"]
    assert vela["cycles_total"] > 0
    assert vela["macs"] > 600_000
    assert sum(o["cycles"] for o in vela["operations"]) > 0
    assert {o["module"].split(".")[0] for o in vela["operations"]} >= {"stem", "body", "classifier"}


def test_that_the_integer_program_is_within_a_step_of_the_quantized_model(digits):
    found = digits[2].document["verify"]
    assert found["samples"] == 16
    assert found["elements"] == 160
    assert found["max_lsb"] <= 1
    assert found["exact"] == found["histogram"]["0"]
    assert found["argmax_equal"] == 16


def test_that_the_compiled_program_is_executed_functionally(digits):
    simulated = digits[2].document["run"]
    assert simulated["kind"] == "functional"
    assert simulated["cycles"] is None
    assert simulated["against_reference"]["exact"] == simulated["against_reference"]["elements"]
    assert simulated["against_reference"]["elements"] == 160
    operations = simulated["functional"]["operations"]
    (vela,) = digits[2].document["lower"]["vela"]
    assert sum(o["macs"] for o in operations) == vela["macs"]
    assert {o["module"].split(".")[0] for o in operations} >= {"stem", "body", "classifier"}


def test_that_the_deliverables_are_there_with_their_digests(digits):
    package = digits[2].document["package"]
    names = {Path(f["path"]).suffix for f in package["files"]}
    assert names == {
        ".pte",
        ".h",
        ".S",
        ".bpte",
        ".cmake",
        ".conf",
        ".yml",
        ".txt",
        ".md",
        ".html",
        ".json",
        ".etrecord",
    }
    for file in package["files"]:
        data = Path(file["path"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == file["sha256"]
    assert package["kernels"] == [
        "quantized_decomposed::dequantize_per_tensor.out",
        "quantized_decomposed::quantize_per_tensor.out",
    ]
    assert package["scratch_pool_bytes"] >= 2048


def test_that_the_c_header_holds_exactly_the_program(digits):
    package = digits[2].document["package"]
    header = next(Path(f["path"]) for f in package["files"] if f["name"].endswith(".h"))
    text = header.read_text()
    assert 'section("network_model_sec"), aligned(16)' in text
    values = bytes(int(v, 16) for v in re.findall(r"0x([0-9a-f]{2})", text))
    assert values == Path(package["pte"]["path"]).read_bytes()


def test_that_no_path_or_user_of_this_machine_is_inside(digits):
    import getpass

    workbench, _, outcome = digits
    marks = {str(workbench.folder).encode(), str(Path.home()).encode() + b"/", b"site-packages"}
    if len(getpass.getuser()) > 4:
        marks.add(getpass.getuser().encode())
    for file in outcome.document["package"]["files"]:
        data = Path(file["path"]).read_bytes()
        assert not [m for m in marks if m in data], file["name"]


def test_that_a_second_run_computes_nothing_and_tells_the_same(digits):
    workbench, path, first = digits
    again = workbench("run", path, "--json")
    assert {s["state"] for s in again.document["stages"]} == {"cached"}
    for part in ("evaluate", "lower", "verify"):
        assert again.document[part] == first.document[part]


@pytest.mark.slow
def test_that_the_script_makes_the_same_bytes_on_the_plain_api(digits, tmp_path):
    workbench, path, outcome = digits
    script = workbench.folder / "plain.py"
    assert workbench("script", path, "--out", script).code == 0
    program = tmp_path / "plain.pte"
    subprocess.run([sys.executable, script, program], check=True, capture_output=True, timeout=300)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    assert digest == outcome.document["package"]["pte"]["sha256"]


@pytest.mark.slow
def test_that_a_run_without_cache_and_acceleration_gives_the_same_bytes(digits, tmp_path):
    workbench, path, outcome = digits
    arguments = ("--no-cache", "--no-acceleration", "--skip", "verify", "--skip", "evaluate")
    again = workbench.process("run", path, *arguments, "--out", tmp_path, "--trust", "--json")
    assert again.code == 0, again.err
    first, second = (
        {f["name"]: f["sha256"] for f in done.document["package"]["files"]} for done in (outcome, again)
    )
    assert first.keys() == second.keys()
    # The firmware note, the report and the manifest tell what was verified.
    assert {n for n in first if first[n] != second[n]} == {"digits.md", "digits.html", "manifest.json"}


def test_that_inspect_shows_the_delegate_and_its_blocks(digits):
    workbench, _, outcome = digits
    shown = workbench("inspect", outcome.document["package"]["pte"]["path"], "--json").document
    (delegate,) = shown["delegates"]
    assert delegate["backend"] == "EthosUBackend"
    assert {"cmd_data", "weight_data", "scratch_size"} <= set(delegate["vela_blocks"])
    assert shown["inputs"][0]["shape"] == [1, 1, 8, 8]
    assert shown["kernels"] == outcome.document["package"]["kernels"]


@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "other"])
def test_that_inspect_says_in_a_sentence_what_is_no_program(digits, tmp_path, damage):
    workbench, _, outcome = digits
    data = Path(outcome.document["package"]["pte"]["path"]).read_bytes()
    path = tmp_path / "bad.pte"
    path.write_bytes(
        {"empty": b"", "cut": data[:400], "noise": data[:64] + bytes(400), "other": b"PK" * 99}[damage]
    )
    done = workbench("inspect", path)
    assert done.code == 2
    assert "error:" in done.err
    assert "Traceback" not in done.err


def test_that_the_rules_resolve_to_what_the_quantizer_reports(digits):
    workbench, path, _ = digits
    resolved = workbench("rules", path, "--resolve", "--json").document
    modules = {m["module"]: (m["config"], m["rule"]) for m in resolved["modules"]}
    assert modules["classifier"] == ("a16w8", "r2")
    assert modules["stem.conv"] == ("a8w8", "r1")
    keys = {s["id"]: s["key"] for s in workbench("plan", path, "--json").document["stages"]}
    key = keys["prepare"]
    folder = workbench.folder / "cache" / "results" / key[:2] / key
    report = json.loads((folder / "result.json").read_text())["annotations"]
    for entry in report:
        if entry["quantized"] and entry["module"] and entry["config"] != "shared":
            assert entry["config"] == modules[entry["module"]][0], entry


def test_that_no_result_on_disk_holds_a_pickle(digits):
    import zipfile

    archives = [
        file
        for file in (digits[0].folder / "cache" / "results").rglob("*")
        if file.suffix in {".npz", ".pt2"}
    ]
    assert {file.suffix for file in archives} == {".npz", ".pt2"}
    for file in archives:
        with zipfile.ZipFile(file) as archive:
            pickles = [
                info.filename
                for info in archive.infolist()
                if info.filename.endswith((".pt", ".pkl")) and info.file_size
            ]
        assert not pickles, file


def test_that_tensors_in_memory_reach_up_to_the_peak_that_vela_reports(digits):
    (report,) = digits[2].document["lower"]["vela"]
    ends = [t["address"] + t["bytes"] for t in report["tensors"] if t["memory"] == "Sram"]
    assert max(ends) == report["sram_bytes"]
    assert {t["module"] for t in report["tensors"]} >= {"stem.conv", "body.2.first.conv"}
