"""A command line becomes a project, or a sentence that says why not."""

from __future__ import annotations

import pytest

from tests.problems import refused
from workbench.cli import main
from workbench.errors import WorkbenchError
from workbench.project import store
from workbench.script.aot_arm_compiler import take_command
from workbench.targets import target_of

TOOL = "python3 -m executorch.backends.arm.scripts.aot_arm_compiler"


def taken(tmp_path, words):
    return take_command(f"{TOOL} {words}", tmp_path, "mine")


def test_that_a_full_command_becomes_a_project(tmp_path):
    made = taken(
        tmp_path,
        "--model_name=net.py --delegate --quantize -t ethos-u85-256 \\\n --direct_drive "
        "--system_config Ethos_U85_SYS_DRAM_Mid --memory_mode Dedicated_Sram_384KB "
        "--non_strict_export --calibration_data data --model_input in.pt --bundleio",
    )
    project = made.project
    assert project.model.spec == "mine_model.py:model"
    assert not project.model.strict_export
    assert project.calibration.spec == "mine_model.py:calibration"
    assert [(r.kind, r.config) for r in project.rules] == [("global", "a8w8")]
    assert project.target.options["memory_mode"] == "Dedicated_Sram_384KB"
    assert project.target.options["cop_format"] == "COP2"
    assert target_of(project.target.id).check(project.target) == []
    code = made.files["mine_model.py"]
    compile(code, "mine_model.py", "exec")
    assert "from net import ModelUnderTest" in code
    assert "'in.pt'" in code
    assert any("bundled program" in note for note in made.notes)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-512"])
def test_that_what_the_command_leaves_open_is_what_executorch_takes(tmp_path, target):
    project = taken(tmp_path, f"-m mv2 -t {target}").project
    assert target_of(target).check(project.target) == []
    modes = {"u55": "Shared_Sram", "u65": "Dedicated_Sram_384KB", "u85": "Sram_Only"}
    assert project.target.options["memory_mode"] == modes[target.split("-")[1]]
    assert project.model.strict_export


def test_that_what_is_missing_is_said(tmp_path):
    notes = taken(tmp_path, "-m mv2").notes
    assert any("nothing is quantized" in note for note in notes)
    assert any("Without --delegate" in note for note in notes)
    assert taken(tmp_path, "-m mv2").project.rules == ()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("-m mv2 -t vgf", "aot-option-not-supported"),
        ("-m mv2 -t cortex-m55", "aot-option-not-supported"),
        ("-m mv2 -s ops.so", "aot-option-not-supported"),
        ("-m mv2 --calibration_data x", "aot-option-not-supported"),
        ("-m net.pt -q", "aot-option-not-supported"),
        ("-m other/net.py -q", "aot-model-not-beside-project"),
        ("-m net-1.py -q", "aot-model-not-beside-project"),
        ("-q", "aot-command-invalid"),
        ("-m mv2 --fast", "aot-command-invalid"),
        ("-m 'mv2", "aot-command-unreadable"),
        ("-m mv2 -t ethos-u55-99", "target-unknown"),
    ],
)
def test_that_what_cannot_be_taken_over_is_a_sentence(tmp_path, words, code):
    with pytest.raises(WorkbenchError) as caught:
        taken(tmp_path, words)
    assert caught.value.infos[0].code == code


def test_that_another_command_is_no_such_command(tmp_path):
    with refused("aot-command-other-tool"):
        take_command("vela net.tflite", tmp_path, "mine")


def test_that_the_command_line_writes_it_and_overwrites_nothing(tmp_path, capsys):
    path = tmp_path / "mine.qwb"
    assert main(["new", str(path), "--aot", f"{TOOL} -m mv2 -d -q"]) == 0
    assert store.load(path).name == "mine"
    assert "mine_model.py" in capsys.readouterr().out
    assert main(["new", str(path), "--aot", f"{TOOL} -m mv2 -d -q"]) == 2
    assert "mine.qwb" in capsys.readouterr().err
    assert main(["new", str(tmp_path / "x.qwb"), "--target", "ethos-u55-128"]) == 2
