"""Two programs side by side: what is the same, what came, went or changed."""

from dataclasses import replace
from itertools import pairwise

from tests.for_each import for_each
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


@for_each("kind", ["parameter", "constant"])
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


F32 = TensorInfo((1, 4), "float32")


@for_each(
    ("one", "other", "words"),
    [
        (call("n"), call("n"), ""),
        (call("n", outputs=(F32,)), call("n", outputs=(F32, F32)), "1 outputs became 2"),
        (call("n", outputs=(F32,)), call("n", outputs=(TensorInfo((1, 8), "float32"),)),
         "1\u00d74 f32 became 1\u00d78 f32"),
        (call("n", attrs={"stride": "1"}), call("n", attrs={"stride": "2"}), "stride 1 became 2"),
        (call("n", attrs={"b": "1", "a": "x"}), call("n", attrs={"a": "y"}),
         "a x became y; b 1 became none"),
        (call("n", attrs={"origin": "1", "debug_handle": "1", "bytes": "7"}), call("n"), ""),
    ],
)  # fmt: skip
def test_that_the_differences_of_two_operators_are_told_one_by_one(one, other, words):
    before, after = (chain("quantized", *FLOAT.nodes[:1], n) for n in (one, other))
    pairing = Pairing(before, before, after)
    assert pairing.changed == ({"n": words} if words else {})
    assert pairing.changed_right == pairing.changed


def test_that_a_grid_with_several_scales_is_told_by_their_number_and_the_least():
    def scaled(*scales):
        q = QParams("int8", scales, (0,) * len(scales), -128, 127, 0)
        return Node("q", "quantize_per_channel", "quantize", outputs=(TensorInfo((1,), "int8", q),))

    before, after = (chain("quantized", FLOAT.nodes[0], n)
                     for n in (scaled(0.5, 0.25), scaled(0.5, 0.125, 1.0)))  # fmt: skip
    words = Pairing(before, before, after).changed["q"]
    assert "2 scales from 0.25" in words
    assert "3 scales from 0.125" in words


def test_that_operators_of_another_kind_are_no_counterpart():
    before = chain("quantized", FLOAT.nodes[0], call("n", "aten.relu.default"))
    after = chain("quantized", FLOAT.nodes[0], call("n", "aten.tanh.default"))
    pairing = Pairing(FLOAT, before, after)
    assert pairing.removed == pairing.added == {"n"}
    assert pairing.changed == {}
