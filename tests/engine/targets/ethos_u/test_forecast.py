"""What Vela refuses as a whole is told before anything is compiled, and nothing else is."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import CALIBRATED, project, without
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.resolution import problems
from workbench.project import edits
from workbench.project.configs import QuantConfig, Weight
from workbench.project.model import TargetChoice
from workbench.results import GRAPH_FILE
from workbench.targets.ethos_u.correction import (
    RELEASED,
    ROUNDED,
    SUMS,
    TRANSPOSED,
)

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
RESIDUAL = "wide_networks.py:residual"


# What Vela and ExecuTorch refuse without the corrections that let it go.
ALONE = {ROUNDED: False, TRANSPOSED: False, SUMS: False, RELEASED: False}


def uncorrected(model, config, device="ethos-u55-128", **fields):
    made = project(model, config, device, **fields)
    return edits.set_target(made, TargetChoice(id=device, options=ALONE))


def exported(engine, made):
    if engine.run(made, "export") != "done":
        raise AssertionError(engine.failure)
    return GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)


def foreseen(engine, made):
    told = [p.info for p in problems(made, engine.folder, exported(engine, made))]
    codes = ("operator-not-supported", "int16-convolution-shared", "int16-value-read-again")
    return [info.where.id for info in told if info.code in codes]


@pytest.mark.parametrize(("model", "node"), [(RESIDUAL, "conv2d_2"), ("softmax", "conv2d")])
def test_that_what_is_foreseen_comes_true_and_what_helps_is_right(engine, model, node):
    made = uncorrected(model, "a16w8", "ethos-u65-256", **CALIBRATED)
    assert foreseen(engine, made) == [node]
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert engine.failure.where.id == node
    assert "could not run on NPU" in engine.failures[-1].message
    reader = {RESIDUAL: "add_1", "softmax": "softmax"}[model]
    for helped in (
        edits.assign(made, "node_name", reader, "cpu"),
        edits.assign(made, "module_name", {RESIDUAL: "b", "softmax": "conv"}[model], "a8w8"),
    ):
        assert foreseen(engine, helped) == []
        assert engine.run(helped, "lower", "evaluate") == "done", engine.failure


@pytest.mark.parametrize(
    ("model", "target", "node", "words"),
    [
        ("growing", "ethos-u65-256", "conv_transpose2d", "could not run on NPU"),
        ("summing", "ethos-u85-256", "cumsum", "only supports torch.int8 weights"),
    ],
)
def test_that_operators_no_device_has_in_16_bits_are_foreseen(engine, model, target, node, words):
    made = uncorrected(f"wide_networks.py:{model}", "a16w8", target)
    assert foreseen(engine, made) == [node]
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert engine.failure.where.id == node
    assert words in engine.failures[-1].message
    for helped in (
        edits.assign(made, "node_name", node, "cpu"),
        edits.assign(made, "node_name", node, "a8w8"),
    ):
        assert foreseen(engine, helped) == []
        assert engine.run(helped, "lower", "evaluate") == "done", engine.failure


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_that_4_bits_a_channel_are_warned_of_where_executorch_takes_the_wrong_axis(engine, target):
    made = uncorrected("wide_networks.py:growing", "a8w4", target)
    assert foreseen(engine, made) == ["conv_transpose2d"]
    assert engine.run(made, "convert") == "failed"
    per_tensor = QuantConfig(weight=Weight(bits=4, per_channel=False))
    for helped in (
        edits.assign(made, "node_target", "aten.conv_transpose2d.input", "a8w8"),
        edits.assign(made, "node_target", "aten.conv_transpose2d.input", per_tensor),
    ):
        assert foreseen(engine, helped) == []
        assert engine.run(helped, "verify", "evaluate") == "done", engine.failure
        assert engine.result(helped, "verify").max_lsb <= 1


def test_that_nothing_is_foreseen_where_a_correction_lets_it_go(engine):
    for model in (RESIDUAL, "softmax", "wide_networks.py:growing", "wide_networks.py:summing"):
        made = project(model, "a16w8", **CALIBRATED if model == RESIDUAL else {})
        assert foreseen(engine, made) == []
        assert engine.run(made, "lower", "evaluate") == "done", engine.failure


def test_that_eight_bits_and_u85_are_not_warned_of(engine):
    assert foreseen(engine, project(RESIDUAL, "a8w8")) == []
    assert foreseen(engine, project(RESIDUAL, "a16w8", "ethos-u85-256")) == []
    assert foreseen(engine, project("attending", "a16w8")) == []


def test_that_products_that_read_a_value_twice_are_foreseen(engine):
    made = uncorrected("masked", "a16w8")
    assert foreseen(engine, made) == ["matmul_1"]
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert engine.failure.code == "passthrough-partition"
    assert engine.failure.where.id == "matmul_1"
    helped = edits.assign(made, "node_name", "matmul_1", "cpu")
    assert foreseen(engine, helped) == []
    assert engine.run(helped, "lower", "evaluate") == "done", engine.failure
    assert foreseen(engine, project("masked")) == []


def test_that_a_lost_clamp_is_foretold_and_the_remedy_brings_it_back(engine):
    shutil.copy(Path(__file__).parents[2] / "corrected_networks.py", engine.folder)
    corrected = project("corrected_networks.py:joined")
    plain = without(corrected, "keep_relu_clamps")
    assert engine.run(plain, "verify") == "done", engine.failure
    (warning,) = engine.result(plain, "lower").warnings
    assert "lets negative values pass" in warning
    assert "keep_relu_clamps=true" in warning
    assert engine.result(plain, "verify").max_lsb > 3
    assert engine.run(corrected, "verify") == "done", engine.failure
    assert engine.result(corrected, "lower").warnings == ()
    assert engine.result(corrected, "verify").max_lsb <= 1
