"""What Vela refuses as a whole is told before anything is compiled, and nothing else is."""

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.resolution import problems
from workbench.project import edits
from workbench.results import GRAPH_FILE

pytestmark = pytest.mark.engine
RESIDUAL = "wide_networks.py:residual"


def foreseen(engine, made):
    if engine.run(made, "export") != "done":
        raise AssertionError(engine.failure)
    graph = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)
    told = [p.info for p in problems(made, engine.folder, graph)]
    return [info.where.id for info in told if "Vela refuses" in info.message]


@pytest.mark.parametrize(("model", "node"), [(RESIDUAL, "conv2d_2"), ("softmax", "conv2d")])
def test_that_what_is_foreseen_comes_true_and_what_helps_is_right(engine, model, node):
    made = project(model, "a16w8", "ethos-u65-256", **CALIBRATED)
    assert foreseen(engine, made) == [node]
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert "could not run on NPU" in engine.failure.message
    reader = {RESIDUAL: "add_1", "softmax": "softmax"}[model]
    for helped in (
        edits.assign(made, "node_name", reader, "cpu"),
        edits.assign(made, "module_name", {RESIDUAL: "b", "softmax": "conv"}[model], "a8w8"),
    ):
        assert foreseen(engine, helped) == []
        assert engine.run(helped, "lower", "evaluate") == "done", engine.failure


def test_that_eight_bits_and_u85_are_not_warned_of(engine):
    assert foreseen(engine, project(RESIDUAL, "a8w8")) == []
    assert foreseen(engine, project(RESIDUAL, "a16w8", "ethos-u85-256")) == []
    assert foreseen(engine, project("attending", "a16w8")) == []


def test_that_products_that_read_a_value_twice_are_foreseen(engine):
    made = project("masked", "a16w8")
    assert foreseen(engine, made) == ["matmul_1"]
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert "TOSA FB Reader error" in engine.failure.message
    assert foreseen(engine, project("masked")) == []
