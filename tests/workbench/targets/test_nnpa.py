"""NNPA's row of the target table, and its options from the command line."""

import json
import re

import pytest

from tests.fakes.projects import snapshot
from tests.for_each import for_each
from workbench.cli import main
from workbench.pipeline.resolution import problems
from workbench.project import store
from workbench.project.configs import A8W8, PRESETS_BY_ID
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.targets import target_of
from workbench.targets.nnpa.command import command, container_command, exclusions
from workbench.targets.nnpa.products import SPLIT, TOO_LARGE, Product

NNPA = target_of("nnpa")
CHOICE = TargetChoice(id="nnpa")
DYNAMIC = PRESETS_BY_ID["int8-dyn"].config


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "net.qwb"
    (tmp_path / "net.pt2").write_bytes(b"x")
    assert (
        main(["new", str(made), "--model", "net.pt2", "--target", "nnpa", "--option", "activations=sym"]) == 0
    )
    return made


def test_that_a_new_project_has_all_options_and_the_first_config(path):
    project = store.load(path)
    assert project.target.options == {
        "activations": "sym",
        "weights": "sym",
        "op_types": "MatMul",
        "rewrite_gemm": True,
        "reading": "nnpa",
    }
    assert [rule.config for rule in project.rules] == ["int8-dyn"]


def test_that_the_command_line_shows_and_sets_options(path, capsys):
    assert main(["target", str(path), "rewrite_gemm=false", "op_types=Conv,MatMul"]) == 0
    assert "Rewrite Gemm" in capsys.readouterr().out
    assert main(["target", str(path), "--json"]) == 0
    options = json.loads(capsys.readouterr().out)["options"]
    assert (options["rewrite_gemm"], options["op_types"]) == (False, "Conv,MatMul")


@for_each(
    ("text", "code"),
    [
        ("weights=float", "nnpa-option-invalid"),
        ("rewrite_gemm=perhaps", "nnpa-option-invalid"),
        ("activation=sym", "target-option-invalid"),
        ("activations", "target-option-invalid"),
    ],
)
def test_that_options_which_there_are_not_change_nothing(path, capsys, text, code):
    before = path.read_bytes()
    assert main(["target", str(path), text, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
    assert path.read_bytes() == before


def test_that_options_of_other_targets_are_left_behind():
    made = NNPA.complete(TargetChoice(id="nnpa", options={"memory_mode": "Sram_Only"}))
    assert "memory_mode" not in made.options
    assert NNPA.check(made) == []


def test_that_only_its_own_config_and_float_are_taken():
    assert NNPA.refusal(CHOICE, DYNAMIC, "module_name") == ""
    assert NNPA.refusal(CHOICE, None, "pattern") == ""
    assert "int8-dyn" in NNPA.refusal(CHOICE, A8W8, "global")
    assert "inputs and outputs" in NNPA.refusal(CHOICE, DYNAMIC, "io")
    assert "Ethos-U" in target_of("ethos-u55-128").refusal(
        TargetChoice(id="ethos-u55-128"), DYNAMIC, "global"
    )


def test_that_a_check_tells_of_the_what_if_and_where_to_change_it(path, capsys):
    assert main(["target", str(path), "weights=asym"]) == 0
    project = store.load(path)
    found = problems(OpenProject(project, path.parent), snapshot())
    warnings = [p for p in found if p.info.code == "rule-warning"]
    assert [p.level for p in warnings] == ["warning"]
    assert "workbench target" in warnings[0].info.hint


def test_that_options_which_turn_quantization_off_are_told_at_the_rule():
    def told(**options):
        return NNPA.warnings(TargetChoice(id="nnpa", options=options), DYNAMIC, [])

    assert told() == []
    assert "for comparison only" in told(weights="asym")[0]
    assert "MatMul" in told(op_types="Conv")[0]


@for_each(
    ("left", "right", "why"),
    [
        ((4, 2**20 + 1), (2**20 + 1, 4), TOO_LARGE),
        ((40000, 2, 8), (8, 4), TOO_LARGE),
        ((200, 200, 2, 8), (8, 4), TOO_LARGE),
        ((4, 8), (8, 4), None),
    ],
)
def test_that_products_too_large_for_the_accelerator_are_not_quantized(left, right, why):
    assert Product(left, right, True).why_float == why


def test_that_the_commands_are_those_the_compiler_takes():
    options = NNPA.complete(CHOICE).options
    assert command("net.onnx", options) == (
        "onnx-mlir -O3 --EmitLib -march=z17 -maccel=NNPA --mtriple=s390x-ibm-loz "
        "--nnpa-quant-dynamic=asymActivation,symWeight --nnpa-quant-op-types=MatMul -o net net.onnx"
    )
    assert "--config-file=x.json" in command("net.onnx", options, "x.json")
    container = container_command("net.onnx", options)
    assert container.startswith('docker run --rm -v "$PWD":/workdir:z icr.io/ibmz/zdlc:5.0.1 ')
    assert "config-file" not in container
    odd = command("net.onnx", {**options, "op_types": "MatMul; rm -rf x"})
    assert "'--nnpa-quant-op-types=MatMul;rm-rfx'" in odd


def test_that_exclusions_name_one_operation_and_no_other():
    entries = json.loads(exclusions(["/a.b/linear/"], ["/c/"]))["nnpa_ops_config"]
    on_cpu, plain = (entry["pattern"] for entry in entries)
    assert (on_cpu["match"]["node_type"], on_cpu["rewrite"]) == (
        "onnx.*",
        {"device": "cpu", "quantize": False},
    )
    assert plain["rewrite"] == {"quantize": False}
    name = plain["match"]["onnx_node_name"]
    assert re.fullmatch(name, "/a.b/linear/add/-/a.b/linear/MatMul/_2")
    assert not re.fullmatch(name, "/a.b/linear_1/")
    assert not re.fullmatch(name, "/axb/linear/")
    assert exclusions([], []) == ""


def test_that_a_product_in_parts_is_told():
    assert Product((4, 8), (8, 2**21 + 1), True).splits == SPLIT
