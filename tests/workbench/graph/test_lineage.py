"""Which operation became which, where it is recorded, can be told, or cannot."""

from __future__ import annotations

from itertools import pairwise

from workbench.graph.hierarchy import isolate
from workbench.graph.lineage import Lineage, attribute
from workbench.graph.snapshot import Edge, GraphSnapshot, Node


def chain(level: str, *nodes: Node) -> GraphSnapshot:
    return GraphSnapshot(level, nodes, tuple(Edge(a.id, b.id) for a, b in pairwise(nodes)))


def call(name: str, op: str, module: str = "", origin: str = "") -> Node:
    attrs = {"origin": origin} if origin else {}
    return Node(name, f"aten.{op}.default", "call", module, attrs=attrs)


def grid(name: str, kind: str) -> Node:
    return Node(name, f"quantized_decomposed.{kind}_per_tensor.default", kind)


FLOAT = chain(
    "float",
    Node("x", "placeholder", "input"),
    call("conv2d", "conv2d", "stem.conv"),
    call("bn", "batch_norm", "stem.bn"),
    call("relu", "relu", "stem.act"),
    call("relu_1", "relu", "stem.act"),
    Node("output", "output", "output"),
)
EDGE = chain(
    "edge",
    Node("x", "placeholder", "input"),
    grid("q", "quantize"),
    grid("dq", "dequantize"),
    call("aten_conv", "convolution", "stem.conv", origin="conv2d"),
    call("aten_relu_7", "relu", "stem.act"),
    call("aten_relu_8", "relu", "stem.act", origin="conv2d"),
    Node("delegate", "executorch_call_delegate", "delegate"),
    Node("output", "output", "output"),
)


def test_that_a_recorded_origin_is_believed_only_within_its_module() -> None:
    lineage = Lineage({"float": FLOAT, "edge": EDGE})
    assert lineage.counterparts("float", "conv2d", "edge") == (("aten_conv",), "origin")
    assert lineage.counterparts("edge", "aten_conv", "float") == (("conv2d",), "origin")


def test_that_operations_without_an_origin_are_told_by_their_order_in_the_module() -> None:
    lineage = Lineage({"float": FLOAT, "edge": EDGE})
    assert lineage.counterparts("float", "relu", "edge") == (("aten_relu_7",), "order")
    assert lineage.counterparts("float", "relu_1", "edge") == (("aten_relu_8",), "order")


def test_that_what_cannot_be_told_is_not_guessed() -> None:
    fewer = chain("edge", call("other_relu", "relu", "stem.act"))
    lineage = Lineage({"float": FLOAT, "edge": fewer})
    assert lineage.counterparts("float", "relu", "edge") == ((), "")
    assert lineage.counterparts("float", "bn", "edge") == ((), "")
    assert lineage.counterparts("edge", "other_relu", "float") == ((), "")
    assert lineage.counterparts("edge", "nothing", "float") == ((), "")
    assert Lineage({}).counterparts("float", "relu", "edge") == ((), "")


def test_that_a_grid_belongs_to_the_tensor_it_stands_on() -> None:
    lineage = Lineage({"float": FLOAT, "edge": EDGE})
    assert lineage.counterparts("edge", "dq", "float") == (("x",), "owner")
    assert lineage.translate("edge", ["dq"], "float", with_owners=False) == frozenset()


def test_that_a_delegate_stands_for_what_is_inside() -> None:
    inner = call("delegate/NPU/aten_conv", "convolution", "stem.conv", origin="conv2d")
    edge = chain("edge", inner, Node("delegate", "executorch_call_delegate", "delegate"))
    lineage = Lineage({"float": FLOAT, "edge": edge})
    assert lineage.counterparts("edge", "delegate", "float") == (("conv2d",), "inside")


def test_that_a_number_goes_to_the_last_of_several_so_that_sums_stay() -> None:
    parts = chain(
        "prepared", call("slice", "slice", "pool", "pool"), call("avg", "avg_pool2d", "pool", "pool")
    )
    whole = chain("float", call("pool", "adaptive_avg_pool2d", "pool"))
    lineage = Lineage({"float": whole, "prepared": parts})
    assert lineage.carry({"pool": 3.0, "gone": 1.0}, "float", "prepared") == {"avg": 3.0}
    assert lineage.counterparts("float", "pool", "prepared").nodes == ("slice", "avg")


def test_that_a_weight_is_found_by_its_user_and_its_place() -> None:
    def level(name: str, weight: str, between: bool) -> GraphSnapshot:
        nodes = [Node("x", "placeholder", "input"), Node(weight, "get_attr", "parameter")]
        edges = [Edge("x", "conv2d")]
        if between:
            nodes.append(grid("dqw", "dequantize"))
            edges += [Edge(weight, "dqw"), Edge("dqw", "conv2d", 0, 1)]
        else:
            edges.append(Edge(weight, "conv2d", 0, 1))
        nodes.append(call("conv2d", "conv2d", "stem.conv", "conv2d"))
        return GraphSnapshot(name, tuple(nodes), tuple(edges))

    lineage = Lineage({"float": level("float", "p_w", False), "q": level("q", "frozen", True)})
    assert lineage.counterparts("float", "p_w", "q").nodes == ("frozen", "dqw")
    assert lineage.counterparts("q", "dqw", "float").nodes == ("p_w",)


def test_that_a_weight_is_found_behind_its_observer_and_both_ends_of_its_grid() -> None:
    weight, conv = Node("w", "get_attr", "parameter"), call("conv2d", "conv2d", "stem", "conv2d")
    steps = (Node("obs", "observer", "observer"), grid("q", "quantize"), grid("dq", "dequantize"))
    plain = chain("float", Node("p_w", "get_attr", "parameter"), conv)
    lineage = Lineage({"float": plain, "q": chain("q", weight, *steps, conv)})
    assert lineage.counterparts("float", "p_w", "q").nodes == ("w", "obs", "q", "dq")


def test_that_rows_of_a_module_with_one_operation_belong_to_it() -> None:
    rows = [("stem.conv", "Transpose"), ("stem.conv", "Conv2D"), ("", "Rescale")]
    assert attribute(rows, FLOAT) == ("conv2d", "conv2d", None)


def test_that_rows_of_the_same_sort_are_told_by_order_only_if_none_is_missing() -> None:
    assert attribute([("stem.act", "Relu"), ("stem.act", "Relu")], FLOAT) == ("relu", "relu_1")
    assert attribute([("stem.act", "Relu")], FLOAT) == (None,)
    assert attribute([("stem.act", "")], FLOAT) == (None,)


def test_that_a_part_keeps_its_neighbours_and_no_more() -> None:
    part = isolate(FLOAT, {"bn"})
    assert [node.id for node in part.nodes] == ["conv2d", "bn", "relu"]
    assert [(edge.source, edge.target) for edge in part.edges] == [("conv2d", "bn"), ("bn", "relu")]


def test_that_a_grid_has_its_operation_for_an_owner_where_the_level_has_no_grid() -> None:
    lineage = Lineage({"float": FLOAT, "edge": EDGE})
    assert lineage.counterparts("edge", "q", "float").how == "owner"
    assert lineage.counterparts("edge", "q", "float").nodes == ("x",)
    assert lineage.translate("edge", ["q", "aten_conv"], "float") == {"x", "conv2d"}
    without = lineage.translate("edge", ["q", "aten_conv"], "float", with_owners=False)
    assert without == {"conv2d"}
    assert lineage.translate("edge", ["nobody"], "float") == frozenset()


def test_that_numbers_of_owners_are_not_carried_and_those_of_one_level_stay() -> None:
    lineage = Lineage({"float": FLOAT, "edge": EDGE})
    numbers = {"q": 1.0, "aten_conv": 2.0}
    assert lineage.carry(numbers, "edge", "float") == {"conv2d": 2.0}
    same = lineage.carry(numbers, "edge", "edge")
    assert same == numbers
    assert same is not numbers
    assert lineage.counterparts("edge", "q", "edge") == (("q",), "same")


def test_that_nodes_are_looked_for_in_the_preferred_level_first() -> None:
    lineage = Lineage({"float": FLOAT, "edge": EDGE})
    assert lineage.level_of(["x"], "edge") == "edge"
    assert lineage.level_of(["x"], "float") == "float"
    assert lineage.level_of(["bn", "q"], "edge") == "edge"
    assert lineage.level_of(["bn"], "edge") == "float"
    assert lineage.level_of(["q"], "quantized") == "edge"
    assert lineage.level_of(["nobody"], "edge") is None
    assert lineage.level_of([], "edge") is None


def test_that_a_delegate_stands_for_nothing_outside_of_it() -> None:
    nodes = (
        grid("q", "quantize"),
        Node("delegate/x", "placeholder", "input", attrs={"origin": "relu"}),
        call("delegate/conv", "convolution", "stem.conv", origin="conv2d"),
        Node("delegate", "executorch_call_delegate", "delegate"),
        Node("getitem", "_operator.getitem", "call"),
        call("relu", "relu", "stem.act", origin="relu"),
        grid("delegate/dq", "dequantize"),
    )
    edges = (
        Edge("q", "delegate/x"),
        Edge("delegate/x", "delegate/conv"),
        Edge("delegate", "getitem"),
        Edge("getitem", "relu"),
        Edge("relu", "delegate/dq"),
        Edge("q", "delegate"),
    )
    first = (*FLOAT.nodes, Node("getitem", "_operator.getitem", "call"))
    edge = GraphSnapshot("edge", nodes, edges)
    lineage = Lineage({"float": GraphSnapshot("float", first, FLOAT.edges), "edge": edge})
    assert lineage.counterparts("edge", "delegate", "float") == (("conv2d",), "inside")
    # What unpacks its results is no operation, whatever its name.
    assert lineage.key("edge", "getitem") is None
    # An input of a delegate is the tensor that comes in, by its source or by its origin.
    assert lineage.key("edge", "delegate/x") == ("grid", "relu", 0)
    assert lineage.key("edge", "delegate/conv") == ("operation", "conv2d", 0)
    assert lineage.counterparts("float", "conv2d", "edge") == (("delegate/conv",), "origin")


def test_that_an_input_of_a_delegate_has_the_key_of_its_source() -> None:
    nodes = (
        call("conv", "conv2d", origin="conv2d"),
        Node("delegate/x", "placeholder", "input", attrs={"origin": "x"}),
    )
    edge = GraphSnapshot("edge", nodes, (Edge("conv", "delegate/x"),))
    lineage = Lineage({"float": FLOAT, "edge": edge})
    assert lineage.key("edge", "delegate/x") == ("grid", "conv2d", 0)


def test_that_the_second_result_of_an_operation_is_found_by_its_name() -> None:
    def level(name: str) -> GraphSnapshot:
        return chain(name, call("split", "split"), Node("getitem", "_operator.getitem", "call"))

    lineage = Lineage({"float": level("float"), "edge": level("edge")})
    assert lineage.counterparts("edge", "getitem", "float") == (("getitem",), "name")


def test_that_a_recorded_origin_is_believed_where_no_module_is_known() -> None:
    edge = chain("edge", call("conv", "convolution", "", "conv2d"), call("act", "relu", "other.act", "relu"))
    lineage = Lineage({"float": FLOAT, "edge": edge})
    assert lineage.counterparts("edge", "conv", "float") == (("conv2d",), "origin")
    assert lineage.key("edge", "act") is None


def test_that_only_calls_with_a_module_are_told_by_their_order() -> None:
    first = chain("float", call("relu", "relu"), Node("cond", "cond", "control", "net"))
    edge = chain("edge", call("other", "relu"), Node("cond_1", "cond", "control", "net"))
    lineage = Lineage({"float": first, "edge": edge})
    assert lineage.key("edge", "other") is None
    assert lineage.key("edge", "cond_1") is None


def test_that_an_operand_is_known_by_a_known_operation_alone() -> None:
    nodes = (
        Node("unused", "get_attr", "parameter"),
        Node("w", "get_attr", "parameter"),
        Node("scale", "get_attr", "constant"),
        Node("x", "placeholder", "input"),
        call("view", "view"),
        grid("q", "quantize"),
        call("conv2d", "conv2d", "stem", "conv2d"),
    )
    edges = (
        Edge("w", "view"),
        Edge("view", "conv2d", 0, 1),
        Edge("x", "q"),
        Edge("scale", "q", 0, 1),
        Edge("q", "conv2d"),
    )
    first = chain(
        "float",
        Node("x", "placeholder", "input"),
        call("conv2d", "conv2d", "stem"),
        Node("unused", "get_attr", "parameter"),
    )
    lineage = Lineage({"float": first, "q": GraphSnapshot("q", nodes, edges)})
    assert lineage.key("q", "conv2d") == ("operation", "conv2d", 0)
    for name in ("unused", "w", "view", "scale"):
        assert lineage.key("q", name) is None
    assert lineage.key("float", "unused") is None
