"""``workbench fvp`` and what ``doctor`` says of simulators, on the double."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.fakes import checkout
from tests.for_each import for_each
from tests.workbench.deploy.simulators.conftest import Bench, samples
from workbench.cli import main
from workbench.deploy.simulators.discovery import load_settings


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return Bench(tmp_path, monkeypatch)


def arguments(bench, *more, target="ethos-u55-128", **options):
    given = [bench.program(), "--elf", bench.runner(**options), "--target", target]
    return [str(word) for word in ("fvp", "run", *given, "--fvp", bench.simulator(), *more)]


def test_that_a_run_is_one_document_with_outputs_beside(bench, capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.concatenate([a for (a,) in samples(2)]))
    inputs = ["--inputs", tmp_path / "x.npy", "--out", tmp_path / "out", "--json"]
    assert main(arguments(bench, *inputs, serves=True)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["succeeded"]
    assert document["samples"] == 2
    assert document["measurements"][1]["npu_cycles"] > 0
    assert [o["sample"] for o in document["outputs"]] == [0, 1]
    first, second = (np.load(o["path"]) for o in document["outputs"])
    assert first.shape == (1, 3, 6, 6)
    assert not np.array_equal(first, second)
    assert "SERVER_INFERENCE_DONE" in (tmp_path / "out" / "uart.log").read_text()


def test_that_a_person_reads_what_was_measured_and_what_was_assumed(bench, capsys):
    assert main(arguments(bench)) == 0
    out = capsys.readouterr().out
    assert "The program ran to its end." in out
    assert "measured (FVP_Corstone_SSE-300_Ethos-U55 11.27.42)" in out
    assert "all ones" in out


def test_that_a_failed_run_is_exit_code_1_with_cause_and_remedy(bench, capsys):
    bench.fails("kernel")
    assert main(arguments(bench)) == 1
    out = capsys.readouterr().out
    assert out.startswith("Failed")
    assert "not linked into the runner" in out
    assert "--select_ops_list" in out


@for_each(
    ("more", "code"),
    [
        (["--target", "ethos-u85-256"], "runner-program-target-mismatch"),
        (["--target", "tpu"], "simulator-device-unknown"),
        (["--timeout", "0"], "timeout-invalid"),
        (["--timeout", "nan"], "timeout-invalid"),
        (["--timeout", "inf"], "timeout-invalid"),
        (["--inputs", "none.npy"], "simulator-input-unreadable"),
        (["--fvp", "/none"], "simulator-missing"),
        (["--fvp", "/none", "--timeout", "1"], "simulator-missing"),
        (["--elf", "/none"], "runner-unreadable"),
    ],
)
def test_that_what_cannot_be_run_is_exit_code_2(bench, codes, more, code):
    codes.clear()
    assert main([*arguments(bench), *more]) == 2
    assert codes[:1] == [code]


def test_that_a_program_cut_short_is_refused(bench, codes, tmp_path):
    words = arguments(bench)
    words[2] = str(tmp_path / "cut.pte")
    Path(words[2]).write_bytes(bench.program().read_bytes()[:900])
    assert main(words) == 2
    assert codes == ["program-damaged"]


def test_that_a_machine_without_a_simulator_says_how_to_get_one(bench, capsys):
    words = arguments(bench)
    del words[words.index("--fvp") : words.index("--fvp") + 2]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "FVP_Corstone_SSE-300_Ethos-U55 was not found" in err
    assert "accept its licence" in err


@pytest.fixture
def heard_interrupts():
    """Let children hear Ctrl-C, which what a shell runs in the background does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_that_an_interrupted_run_leaves_no_simulator(bench, monkeypatch, tmp_path, number):
    monkeypatch.setenv("FVP_DOUBLE_CHILD", str(tmp_path / "child"))
    bench.fails("child")
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", *arguments(bench)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not ((tmp_path / "child").exists() and (tmp_path / "child").read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(number)
    said = process.communicate(timeout=30)[1]
    killed = number == signal.SIGKILL
    assert (process.returncode, said) == ((-9, "") if killed else (130, "Cancelled.\n"))
    child = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() < until
        time.sleep(0.02)


def test_that_doctor_tells_simulators_and_runners_it_was_told_of(bench, capsys, monkeypatch):
    monkeypatch.setenv("ARMLMD_LICENSE_FILE", "8224@licences")
    simulator = bench.simulator()
    named = ["--simulator", f"u55={simulator.parent}", "--runner", str(bench.runner(serves=True))]
    assert main(["fvp", "set", *named]) == 0
    capsys.readouterr()
    main(["doctor", "--json"])
    found = {f["name"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert found["FVP_Corstone_SSE-300_Ethos-U55"]["state"] == "ok"
    assert found["FVP_Corstone_SSE-300_Ethos-U55"]["version"].startswith("11.27.42, ")
    assert found["runner runner.elf"]["version"] == (
        "Ethos-U55 or Ethos-U65, shared SRAM, semihosting, several samples per start"
    )
    assert found["Arm licence"]["version"] == "ARMLMD_LICENSE_FILE=8224@licences"
    assert found["FVP_Corstone_SSE-320"]["state"] == "optional"
    assert "accept its licence" in found["FVP_Corstone_SSE-320"]["remedy"]
    assert found["ExecuTorch checkout"]["state"] == "optional"
    assert main(arguments(bench, "--fvp", "")) == 0


def test_that_a_named_simulator_that_is_gone_is_told(bench, capsys):
    assert main(["fvp", "set", "--simulator", "u85=/none/FVP"]) == 0
    capsys.readouterr()
    main(["doctor", "--json"])
    found = {f["name"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert found["FVP_Corstone_SSE-320"]["state"] == "different"
    assert "/none/FVP does not exist" in found["FVP_Corstone_SSE-320"]["why"]
    assert main(["fvp", "set", "--simulator", "u99=/x"]) == 2


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A checkout, and a CMake that the double of its script never starts."""
    monkeypatch.setenv("PATH", f"{checkout.tools(tmp_path / 'tools')}:/usr/bin:/bin")
    return checkout.make(tmp_path / "executorch")


def test_that_a_runner_is_built_remembered_and_runs(bench, capsys, sources):
    words = ["fvp", "build", str(bench.program()), "--checkout", str(sources), "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["target"] == "ethos-u55-128"
    assert document["pools"]["method"] == 60 << 20
    assert load_settings().runners == (document["runner"],)
    runs = ["fvp", "run", str(bench.program()), "--elf", document["runner"], "--target"]
    assert main([*runs, "ethos-u55-128", "--fvp", str(bench.simulator())]) == 0


@for_each(
    ("more", "code"),
    [(["--placement", "flash"], "placement-invalid"), (["--checkout", "/nowhere"], "checkout-invalid")],
)
def test_that_a_build_that_cannot_begin_is_exit_code_2(bench, codes, sources, more, code):
    codes.clear()
    words = ["fvp", "build", str(bench.program()), "--checkout", str(sources), *more]
    assert main(words) == 2
    assert codes == [code]


def test_that_a_built_runner_is_described_for_people(bench, capsys, sources, tmp_path):
    words = ["fvp", "build", str(bench.program()), "--checkout", str(sources)]
    assert main([*words, "--out", str(tmp_path / "mine"), "--verbose"]) == 0
    printed = capsys.readouterr()
    lines = [" ".join(line.split()) for line in printed.out.splitlines()]
    assert lines[0].startswith(f"Runner {tmp_path / 'mine'}")
    assert lines[1] == "For ethos-u55-128, Shared_Sram, semihosting"
    assert "Pool method: 62,914,560 bytes" in lines
    assert printed.err
    assert load_settings().addresses == {}


def test_that_a_runner_for_an_address_is_remembered_with_it(bench, capsys, sources):
    words = ["fvp", "build", str(bench.program()), "--checkout", str(sources), "--json"]
    assert main([*words, "--placement", "0x62000000", "--target", "ethos-u55-128"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["placement"] == "bare"
    assert load_settings().addresses == {document["runner"]: 0x62000000}
    assert main([*words, "--placement", "embedded"]) == 0
    embedded = json.loads(capsys.readouterr().out)
    assert embedded["placement"] == "embedded"
    assert load_settings().addresses == {document["runner"]: 0x62000000}
    assert load_settings().runners[0] == embedded["runner"]


def test_that_settings_of_simulators_are_kept_until_they_are_set_again(bench, capsys, tmp_path):
    first, second = str(bench.runner()), str(bench.runner(name="other.elf"))
    assert main(["fvp", "set", "--runner", first, "--fast", "--timeout", "7", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["runners"], document["fast"], document["trace"]) == ([first], True, False)
    assert document["timeout_s"] == 7.0
    assert main(["fvp", "set", "--executorch", str(tmp_path), "--trace", "--timeout", "0"]) == 0
    assert capsys.readouterr().out.startswith("Written to ")
    kept = load_settings()
    assert (kept.runners, kept.fast, kept.trace) == ((first,), True, True)
    assert (kept.timeout_s, kept.executorch) == (7.0, str(tmp_path))
    assert main(["fvp", "set", "--runner", second, "--no-fast", "--simulator", "u65=sim"]) == 0
    kept = load_settings()
    assert (kept.runners, kept.fast, kept.trace) == ((second,), False, True)
    assert kept.simulators == {"u65": str(Path("sim").absolute())}
    assert main(["fvp", "set", "--timeout", "0.5"]) == 0
    assert load_settings().timeout_s == 0.5
    assert main(["fvp", "set", "--fast"]) == 0
    assert load_settings().timeout_s == 0.5


@for_each("text", ["nan", "inf", "-inf", "1e999"])
def test_that_a_time_limit_that_is_no_number_loses_no_settings(codes, text):
    """It was written as null, and the file was damaged from then on."""
    assert main(["fvp", "set", "--timeout", "7"]) == 0
    codes.clear()
    assert main(["fvp", "set", f"--timeout={text}"]) == 2
    assert codes == ["timeout-invalid"]
    assert load_settings().timeout_s == 7.0


@for_each("text", ["u55", "u55=", "u99=/x", "=x"])
def test_that_a_simulator_is_named_with_its_family(codes, text):
    codes.clear()
    assert main(["fvp", "set", "--simulator", text]) == 2
    assert codes == ["simulator-argument-invalid"]


def test_that_a_run_shows_its_log_and_keeps_its_outputs(bench, capsys, tmp_path):
    out = tmp_path / "deep" / "out"
    assert main(arguments(bench, "--out", out, "--verbose")) == 0
    printed = capsys.readouterr()
    assert "Program complete" in printed.err
    assert f"Output       {out / 'sample0-output0.npy'}" in printed.out
    assert (out / "uart.log").is_file()
    (tmp_path / "file").write_text("")
    assert main(arguments(bench, "--out", tmp_path / "file" / "below")) == 2


def test_that_recorded_events_are_kept_beside_the_outputs_or_told(bench, capsys, tmp_path):
    assert main(arguments(bench, "--json", etdump=True)) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("Use --out" in note for note in notes)
    (tmp_path / "out").mkdir()
    assert main(arguments(bench, "--json", "--out", tmp_path / "out", etdump=True)) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("inspector_cli" in note for note in notes)
    assert not any("Use --out" in note for note in notes)
