"""The firmware engineer is told how integers at the border stand for real numbers."""

from __future__ import annotations

import json

import pytest
import torch
from torch import fx

from tests.engine.in_process import CALIBRATED, project
from workbench.escaping import in_markdown
from workbench.project import edits
from workbench.project.model import TargetChoice

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
DEVICE = "ethos-u55-128"


def packed(engine, **options):
    made = edits.set_target(project("small", **CALIBRATED), TargetChoice(id=DEVICE, options=options))
    made = edits.assign(made, "module_name", "fc", "cpu") if options.get("integer_io") else made
    assert engine.run(made, "package", "evaluate", "verify", "run") == "done", engine.failure
    folder = engine.path(made, "package")
    manifest = json.loads((folder / "manifest.json").read_text())
    return made, manifest, (folder / "small.md").read_text()


@pytest.mark.slow
def test_that_integers_are_handed_on_with_scale_and_zero_point_and_as_test_cases(engine):
    from executorch.devtools.bundled_program.serialize import deserialize_from_flatbuffer_to_bundled_program

    made, manifest, note = packed(engine, integer_io=True)
    (into,), (out_of,) = manifest["inputs"], manifest["outputs"]
    assert (into["dtype"], out_of["dtype"]) == ("int8", "int8")
    (tolerance,) = manifest["test_vectors"]["tolerance"]
    assert out_of["scale"] == pytest.approx(tolerance["atol"] / 1.01)
    ranges = {r.node: r for r in engine.result(made, "calibrate").ranges if r.kind == "activation"}
    assert into["scale"] == pytest.approx(ranges["x"].scale)
    assert into["zero_point"] == ranges["x"].zero_point
    zero = into["zero_point"]
    conversion = f"(code {'-' if zero >= 0 else '+'} {abs(zero)}) * {into['scale']:.9g}"
    assert in_markdown(conversion) in note
    assert manifest["off_the_npu"] == [{"kind": "module_name", "match": "fc"}]
    folder = engine.path(made, "package")
    bundle = (folder / "small.bpte").read_bytes()
    decoded = deserialize_from_flatbuffer_to_bundled_program(bundle)
    assert decoded.program == (folder / "small.pte").read_bytes()
    (suite,) = decoded.method_test_suites
    assert len(suite.test_cases) == 4
    assert suite.test_cases[0].inputs[0].val.scalar_type.name == "CHAR"


@pytest.mark.slow
def test_that_only_quantized_borders_become_integers(engine):
    options = {"integer_io": True}
    made = edits.set_target(project("wide_networks.py:indexed"), TargetChoice(id=DEVICE, options=options))
    assert engine.run(made, "package", "evaluate", "run") == "done", engine.failure
    manifest = json.loads((engine.path(made, "package") / "manifest.json").read_text())
    assert [each["dtype"] for each in manifest["inputs"]] == ["int64", "int8"]
    assert [each["dtype"] for each in manifest["outputs"]] == ["int8", "int64"]
    assert ["scale" in each for each in manifest["inputs"]] == [False, True]
    assert ["scale" in each for each in manifest["outputs"]] == [True, False]
    verified = engine.result(made, "verify")
    assert verified.max_lsb <= 1
    lowered = engine.result(made, "lower")
    assert not any("EdgeOpOverload" in node.reason for node in lowered.cpu_nodes)


def test_that_an_input_that_is_read_as_it_comes_too_stays_as_it_is():
    from workbench.engine.ethos_u.integer_io import is_quantized

    graph = fx.Graph()
    given = graph.placeholder("given")
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    graph.call_function(quantize, (given, 0.5, 0, -128, 127, torch.int8))
    assert is_quantized(given)
    graph.call_function(torch.ops.aten.abs.default, (given,))
    assert not is_quantized(given)


@pytest.mark.slow
def test_that_real_numbers_need_no_scale(engine):
    _, manifest, note = packed(engine)
    assert "scale" not in manifest["inputs"][0]
    assert manifest["inputs"][0]["dtype"] == "float32"
    assert "none (float)" in note
    assert manifest["off_the_npu"] == []
