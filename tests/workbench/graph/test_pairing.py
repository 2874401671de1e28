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


FLOAT = chain(
    "float",
    Node("x", "placeholder", "input"),
    call("conv", "aten.conv2d.default"),
    call("relu"),
    Node("output", "output", "output"),
)


def grid(scale):
    q = QParams("int8", (scale,), (0,), -128, 127, None)
    return Node("q", "quantize_per_tensor", "quantize", outputs=(TensorInfo((1,), "int8", q),))


def test_that_another_level_has_what_was_added_and_lacks_what_was_fused():
    edge = chain(
        "edge",
        FLOAT.nodes[0],
        grid(0.1),
        call("aten_conv", "aten.convolution.default", attrs={"origin": "conv"}),
        FLOAT.nodes[3],
    )
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
        (
            call("n", outputs=(F32,)),
            call("n", outputs=(TensorInfo((1, 8), "float32"),)),
            "1\u00d74 f32 became 1\u00d78 f32",
        ),
        (call("n", attrs={"stride": "1"}), call("n", attrs={"stride": "2"}), "stride 1 became 2"),
        (call("n", attrs={"b": "1", "a": "x"}), call("n", attrs={"a": "y"}), "a x became y; b 1 became none"),
        (call("n", attrs={"origin": "1", "debug_handle": "1", "bytes": "7"}), call("n"), ""),
    ],
)
def test_that_the_differences_of_two_operators_are_told_one_by_one(one, other, words):
    before, after = (chain("quantized", *FLOAT.nodes[:1], n) for n in (one, other))
    pairing = Pairing(before, before, after)
    assert pairing.changed == ({"n": words} if words else {})
    assert pairing.changed_right == pairing.changed


def test_that_a_grid_with_several_scales_is_told_by_their_number_and_the_least():
    def scaled(*scales):
        q = QParams("int8", scales, (0,) * len(scales), -128, 127, 0)
        return Node("q", "quantize_per_channel", "quantize", outputs=(TensorInfo((1,), "int8", q),))

    before, after = (
        chain("quantized", FLOAT.nodes[0], n) for n in (scaled(0.5, 0.25), scaled(0.5, 0.125, 1.0))
    )
    words = Pairing(before, before, after).changed["q"]
    assert "2 scales from 0.25" in words
    assert "3 scales from 0.125" in words


def test_that_operators_of_another_kind_are_no_counterpart():
    before = chain("quantized", FLOAT.nodes[0], call("n", "aten.relu.default"))
    after = chain("quantized", FLOAT.nodes[0], call("n", "aten.tanh.default"))
    pairing = Pairing(FLOAT, before, after)
    assert pairing.removed == pairing.added == {"n"}
    assert pairing.changed == {}


def test_that_operators_of_unknown_origin_are_equal_by_name_and_operator():
    added = call("extra", "aten.mul.Tensor", module="")
    before = chain("quantized", FLOAT.nodes[0], added)
    after = chain("quantized", FLOAT.nodes[0], replace(added, attrs={"k": "1"}))
    pairing = Pairing(FLOAT, before, after)
    assert pairing.to_right(["extra"]) == {"extra"}
    assert pairing.removed == pairing.added == frozenset()
    assert pairing.changed == {"extra": "k none became 1"}
    other = chain("quantized", FLOAT.nodes[0], replace(added, op="aten.sub.Tensor"))
    assert Pairing(FLOAT, before, other).removed == {"extra"}
    assert Pairing(FLOAT, before, chain("quantized", FLOAT.nodes[0])).removed == {"extra"}
    # One of the two is known to come from another operator.
    known = chain("quantized", FLOAT.nodes[0], replace(added, attrs={"origin": "conv"}))
    for left, right in ((before, known), (known, before)):
        pairing = Pairing(FLOAT, left, right)
        assert pairing.removed == pairing.added == {"extra"}
        assert pairing.changed == {}


def test_that_a_grid_without_a_counterpart_stands_on_the_operator_it_belongs_to():
    edges = (Edge("x", "q"),)
    left = GraphSnapshot("edge", (FLOAT.nodes[0], grid(0.1)), edges)
    pairing = Pairing(FLOAT, left, FLOAT)
    assert pairing.removed == {"q"}
    assert pairing.to_right(["q"]) == {"x"}
    assert pairing.to_left(["q", "nobody"]) == frozenset()


def test_that_several_grids_of_a_tensor_are_paired_by_kind_and_order():
    def level(*names):
        kinds = {"q": "quantize", "d": "dequantize"}
        grids = [Node(name, "op", kinds[name[0]]) for name in names]
        return GraphSnapshot("q", (FLOAT.nodes[0], *grids), tuple(Edge("x", n) for n in names))

    pairing = Pairing(FLOAT, level("d1", "q1", "q2", "q3"), level("d5", "q5", "q6", "q7"))
    for left, right in (("d1", "d5"), ("q1", "q5"), ("q2", "q6"), ("q3", "q7")):
        assert pairing.to_right([left]) == {right}
        assert pairing.to_left([right]) == {left}
    # Without one of the same kind, all of the tensor.
    pairing = Pairing(FLOAT, level("q1", "q2"), level("d5", "d6"))
    assert pairing.to_right(["q1"]) == {"d5", "d6"}
    # An operation that became two is paired with both.
    parts = [call(name, module="", attrs={"origin": "relu"}) for name in ("a", "b")]
    pairing = Pairing(FLOAT, FLOAT, chain("edge", *parts))
    assert pairing.to_right(["relu"]) == {"a", "b"}
