"""Two programs side by side: what is the same, what came, went or changed."""

from dataclasses import replace
from itertools import pairwise

import pytest

from workbench.graph.compare import Pairing
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, QParams, TensorInfo


def chain(level, *nodes):
    edges = tuple(Edge(a.id, b.id) for a, b in pairwise(nodes))
    return GraphSnapshot(level, nodes, edges)


def call(name, op="aten.relu.default", **fields):
    return Node(name, op, "call", fields.pop("module", "body"), **fields)


FLOAT = chain("float", Node("x", "placeholder", "input"), call("conv", "aten.conv2d.default"),
              call("relu"), Node("output", "output", "output"))  # fmt: skip


def grid(scale):
    q = QParams("int8", (scale,), (0,), -128, 127, None)
    return Node("q", "quantize_per_tensor", "quantize", outputs=(TensorInfo((1,), "int8", q),))


def test_that_another_level_has_what_was_added_and_lacks_what_was_fused():
    edge = chain("edge", FLOAT.nodes[0], grid(0.1),
                 call("aten_conv", "aten.convolution.default", attrs={"origin": "conv"}),
                 FLOAT.nodes[3])  # fmt: skip
    pairing = Pairing(FLOAT, FLOAT, edge)
    assert pairing.added == {"q"}
    assert pairing.removed == {"relu"}
    assert pairing.to_right(["conv"]) == {"aten_conv"}
    assert pairing.to_left(["aten_conv"]) == {"conv"}
    assert pairing.changed == {}


def test_that_two_runs_differ_in_words():
    before = chain("quantized", *FLOAT.nodes[:2], grid(0.1), *FLOAT.nodes[2:])
    after = chain("quantized", *FLOAT.nodes[:2], grid(0.25), *FLOAT.nodes[2:])
    pairing = Pairing(FLOAT, before, after)
    assert not pairing.added
    assert not pairing.removed
    assert set(pairing.changed) == set(pairing.changed_right) == {"q"}
    assert "scale 0.1 " in pairing.changed["q"]
    assert "scale 0.25" in pairing.changed["q"]


def test_that_a_program_is_the_same_as_itself():
    pairing = Pairing(FLOAT, FLOAT, replace(FLOAT))
    assert not pairing.added
    assert not pairing.removed
    assert not pairing.changed
    assert pairing.to_right(["relu", "nobody"]) == {"relu"}


@pytest.mark.parametrize("kind", ["parameter", "constant"])
def test_that_operands_count_with_their_operation(kind):
    other = replace(FLOAT, nodes=(*FLOAT.nodes, Node("w", "get_attr", kind)))
    assert Pairing(FLOAT, FLOAT, other).added == frozenset()


def test_that_a_grid_that_was_renumbered_is_not_taken_for_another():
    def on(source, name, scale):
        tensor = TensorInfo((1,), "int8", QParams("int8", (scale,), (0,), -128, 127, None))
        return Node(name, "quantize_per_tensor", "quantize", outputs=(tensor,)), Edge(source, name)

    def run(*grids):
        nodes = [*FLOAT.nodes, *(node for node, _ in grids)]
        edges = [*FLOAT.edges, *(edge for _, edge in grids)]
        return GraphSnapshot("quantized", tuple(nodes), tuple(edges))

    before = run(on("relu", "q", 0.1))
    after = run(on("conv", "q", 0.5), on("relu", "q_1", 0.1))
    pairing = Pairing(FLOAT, before, after)
    assert pairing.added == {"q"}
    assert pairing.to_right(["q"]) == {"q_1"}
    assert not pairing.removed
    assert not pairing.changed
