"""``inspect`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.cli import main

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"


def test_that_inspect_lists_plan_and_found_commands_as_json(capsys):
    path = str(PROGRAMS / "u55.pte")
    assert main(["inspect", path, "--json", "--plan", "--find", "npu_op_conv"]) == 0
    said = json.loads(capsys.readouterr().out)
    (lines,) = said["commands"]
    assert len(lines) == 2
    assert all("NPU_OP_CONV" in line for line in lines)
    assert {row["role"] for row in said["plan"]} == {"input", "activation", "output"}
    assert said["calls"][1]["kind"] == "delegate"


def test_that_inspect_prints_plan_and_constants(capsys):
    assert main(["inspect", str(PROGRAMS / "no_delegate.pte"), "--plan"]) == 0
    said = capsys.readouterr().out
    assert "memory plan:" in said
    assert "aten::addmm.out" in said
    assert "float32 [4, 2, 3, 3]" in said


def test_that_inspect_says_what_is_wrong_in_one_sentence(codes, tmp_path):
    path = tmp_path / "cut.pte"
    path.write_bytes((PROGRAMS / "u55.pte").read_bytes()[:900])
    assert main(["inspect", str(path)]) == 2
    assert codes == ["program-damaged"]
    assert main(["inspect", str(PROGRAMS / "u55.pte"), "--method", "backward"]) == 2
    assert codes[1:] == ["program-method-unknown"]
