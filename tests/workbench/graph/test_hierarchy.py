"""The tree of groups: what is drawn, what is folded away and which edges each group draws."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from workbench.graph.hierarchy import ROOT, Hierarchy, Ports
from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node, TensorInfo


def graph(
    groups: dict[str, str], edges: list[tuple[str, str]], kinds: dict[str, str] | None = None
) -> GraphSnapshot:
    """Return operations with their group paths ("a/b"), joined by edges."""
    nodes = tuple(
        Node(
            name,
            "aten.relu.default",
            (kinds or {}).get(name, "call"),  # type: ignore[arg-type]
            path.replace("/", "."),
            0,
            tuple(path.split("/")) if path else (),
            (TensorInfo((1, 4), "float32"),),
        )
        for name, path in groups.items()
    )
    modules = (Module("layers.0", "net.EncoderLayer", "layers", 7),)
    return GraphSnapshot("float", nodes, tuple(Edge(a, b) for a, b in edges), modules)


TWO_LAYERS = graph(
    {"x": "", "a": "layers/0", "b": "layers/0", "c": "layers/1", "d": "layers/1", "y": ""},
    [("x", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "y"), ("x", "d")],
    {"x": "input", "y": "output"},
)


def test_that_edges_are_lifted_to_the_lowest_group_that_holds_both_ends() -> None:
    tree = Hierarchy(TWO_LAYERS)
    assert list(tree.groups[ROOT].links) == [("x", "layers/"), ("layers/", "y")]
    assert list(tree.groups["layers/"].links) == [("layers/0/", "layers/1/")]
    assert tree.groups[ROOT].links["x", "layers/"].tensors == [("x", 0)]


def test_that_repeated_blocks_are_recognised() -> None:
    tree = Hierarchy(TWO_LAYERS)
    assert tree.twins("layers/0/") == ("layers/0/", "layers/1/")
    assert tree.twins(ROOT) == (ROOT,)


def test_that_a_group_is_described_by_its_class_and_size() -> None:
    tree = Hierarchy(TWO_LAYERS)
    assert tree.subtitle("layers/0/") == "EncoderLayer, 2 operations"
    assert tree.groups["layers/0/"].module == "layers.0"
    assert tree.leaves("layers/") == ("a", "b", "c", "d")


def test_that_a_closed_group_stands_for_what_is_inside() -> None:
    tree = Hierarchy(TWO_LAYERS)
    assert tree.shown("c", ()) == "layers/"
    assert tree.shown("c", {"layers/"}) == "layers/1/"
    assert tree.shown("c", {"layers/", "layers/1/"}) == "c"
    assert tree.visible({"layers/"}) == ["x", "layers/", "layers/0/", "layers/1/", "y"]


def test_that_a_group_with_one_child_is_drawn_as_that_child() -> None:
    tree = Hierarchy(graph({"x": "", "a": "net/fc", "b": "net/deep/er/z", "c": "net/deep/er/z"}, []))
    assert tree.groups["net/"].children == ["a", "net/deep/er/z/"]
    assert tree.subtitle("a") == "fc"
    assert tree.title("net/deep/er/z/") == "deep.er.z"
    assert tree.resolve("net/fc") == "a"
    assert tree.resolve("net/deep/") == "net/deep/er/z/"
    assert tree.resolve("gone") is None


def test_that_parameters_and_their_grids_fold_into_their_user() -> None:
    snapshot = graph(
        {"x": "", "w": "", "dq": "", "conv": "", "unused": ""},
        [("x", "conv"), ("w", "dq"), ("dq", "conv")],
        {"w": "parameter", "dq": "dequantize", "unused": "constant", "x": "input"},
    )
    tree = Hierarchy(snapshot)
    assert tree.groups[ROOT].children == ["x", "conv"]
    assert tree.shown("w", ()) == "conv"
    assert tree.shown("unused", ()) is None


def test_that_thousands_of_siblings_are_cut_into_sections() -> None:
    names = {f"n{i}": "" for i in range(1732)}
    tree = Hierarchy(graph(names, [(f"n{i}", f"n{i + 1}") for i in range(1731)]))
    sections = tree.groups[ROOT].children
    assert len(sections) == 7
    assert tree.title(sections[0]) == "1 to 250 of 1,732"
    assert tree.subtitle(sections[0]) == "250 operations"
    assert sum(len(tree.groups[key].children) for key in sections) == 1732


def test_that_a_graph_opens_at_a_readable_depth() -> None:
    names = {f"n{i}": f"net/{i // 100}/{i // 10}" for i in range(1000)}
    tree = Hierarchy(graph(names, []))
    assert 10 <= len(tree.visible(tree.opening())) <= 60


@pytest.mark.parametrize(
    "snapshot",
    [
        GraphSnapshot("float", (), ()),
        graph({"x": ""}, []),
        graph({"a": "", "b": ""}, [("a", "b"), ("b", "a"), ("a", "a")]),
        graph({"w": "", "v": ""}, [("w", "v"), ("v", "w")], {"w": "parameter", "v": "parameter"}),
        graph({"a": "/".join(["g"] * 3000), "b": ""}, [("a", "b")]),
        graph({"名前" * 2000: "模型/Слой"}, []),
    ],
    ids=["empty", "one", "cycle", "operands in a cycle", "very deep", "long and foreign names"],
)
def test_that_odd_graphs_have_a_tree(snapshot: GraphSnapshot) -> None:
    tree = Hierarchy(snapshot)
    drawn = tree.leaves(ROOT)
    assert set(drawn) <= {node.id for node in snapshot.nodes}
    assert len(tree.visible(set(tree.groups))) == len(drawn) + len(tree.groups) - 1


def layers(count: int) -> GraphSnapshot:
    """Return an input, blocks of two operations each, and an output."""
    names = {f"{op}{k}": f"layers/{k}" for k in range(count) for op in "ab"}
    groups = {"x": "", **names, "head": "head", "tail": "head"}
    order = list(groups)
    return graph(groups, list(pairwise(order)), {"x": "input"})


def test_that_blocks_of_one_structure_fold_into_one_that_says_so() -> None:
    tree = Hierarchy(layers(24), "folded")
    assert tree.subtitle("layers/") == "24 alike, 48 operations"
    assert tree.twins("layers/") == tuple(f"layers/{k}/" for k in range(24))
    assert "layers/" not in tree.opening()


def test_that_a_run_between_others_becomes_a_group_of_its_own() -> None:
    plain = layers(6)
    odd = Node("odd", "aten.gelu.default", "call", "layers.2", 0, ("layers", "2"))
    nodes = sorted((*plain.nodes, odd), key=lambda n: n.group[:1] == ("layers",))
    tree = Hierarchy(GraphSnapshot("float", tuple(nodes), plain.edges), "folded")
    run = "layers/#3-5/"
    assert tree.groups["layers/"].children == ["layers/0/", "layers/1/", "layers/2/", run]
    assert tree.title(run) == "3 to 5 \u00d7 3"
    assert tree.groups["layers/"].links.keys() >= {("layers/2/", run)}
    assert tree.leaves(run) == ("a3", "b3", "a4", "b4", "a5", "b5")


def test_that_a_flat_drawing_has_no_groups() -> None:
    tree = Hierarchy(layers(24), "flat")
    assert list(tree.groups) == [ROOT]
    assert len(tree.groups[ROOT].children) == len(tree.snapshot.nodes)


def test_that_containers_whose_parts_run_between_each_other_are_drawn_part_by_part() -> None:
    # Three pairs of lists, each used in turn: up.0, mix.0, up.1, mix.1.
    nodes, edges = [Node("x", "placeholder", "input")], []
    for stage in range(3):
        for k in range(3):
            for name in ("up", "mix"):
                path = (f"stage{stage}", name, str(k))
                for op in ("conv2d", "relu"):
                    node = Node(f"{op}_{len(nodes)}", f"aten.{op}.default", "call", ".".join(path), 0, path)
                    edges.append(Edge(nodes[-1].id, node.id))
                    nodes.append(node)
    tree = Hierarchy(GraphSnapshot("float", tuple(nodes), tuple(edges)))
    for group in tree.groups.values():
        position = {child: index for index, child in enumerate(group.children)}
        assert all(position[source] < position[target] for source, target in group.links)
    parts = tree.groups["stage1/"].children
    assert [tree.title(part) for part in parts] == ["up.0", "mix.0", "up.1", "mix.1", "up.2", "mix.2"]
    assert tree.resolve("stage1/up") == "stage1/"


def test_that_a_title_names_the_size_of_a_constant_that_is_the_second_operand() -> None:
    def linear(*shapes: tuple[int, ...]) -> str:
        weight = tuple(TensorInfo(shape, "float32") for shape in shapes)
        nodes = (
            Node("x", "placeholder", "input", outputs=(TensorInfo((1, 4), "float32"),)),
            Node("w", "get_attr", "parameter", outputs=weight),
            Node("y", "aten.linear.default", "call"),
        )
        edges = (Edge("x", "y", 0, 0), Edge("w", "y", 0, 1))
        return Hierarchy(GraphSnapshot("float", nodes, edges)).title("y")

    assert linear((3, 4)) == "linear 4→3"
    assert linear() == "linear"
    assert linear((3,)) == "linear"


def test_that_words_are_elided_to_forty_letters() -> None:
    tree = Hierarchy(graph({"x": "", "a": "net/" + "f" * 90, "b": "net/c", "y": ""}, []))
    assert tree.subtitle("a") == "f" * 90
    _, subtitle = tree.words("a")
    assert len(subtitle) == 40
    assert subtitle[:20] == "f" * 20


def steps(**paths: str) -> GraphSnapshot:
    """Return operations in execution order, by names and the paths of their groups."""
    return graph(paths, [])


def test_that_parts_of_a_container_are_drawn_where_they_run() -> None:
    snapshot = steps(s="whole", a="up/0", b="up/0", e="mix", f="mix", c="up/1", d="up/1", t="whole")
    both = (Edge("b", "e"), Edge("f", "c"))
    tree = Hierarchy(replace(snapshot, edges=both))
    # The group with the first operator comes first, although its last one runs at the end.
    assert tree.groups[ROOT].children == ["whole/", "up/0/", "mix/", "up/1/"]
    # A link down is no reason, nor is a link up into a group with operators of its own.
    assert "up/" in Hierarchy(replace(snapshot, edges=both[:1])).groups
    own = replace(steps(a="up", e="mix", f="mix", c="up"), edges=(Edge("a", "e"), Edge("f", "c")))
    assert Hierarchy(own).groups[ROOT].children == ["up/", "mix/"]


def test_that_the_container_that_begins_first_is_taken_apart() -> None:
    snapshot = steps(a="up/0", b="up/0", e="mix/0", f="mix/0", c="up/1", d="up/1", g="mix/1", h="mix/1")
    tree = Hierarchy(replace(snapshot, edges=(Edge("b", "e"), Edge("f", "c"))))
    assert tree.groups[ROOT].children == ["up/0/", "mix/", "up/1/"]


def test_that_a_tensor_enters_a_child_once() -> None:
    ports = Ports()
    for child in ("a", "b", "a"):
        ports.enter(("x", 0), child)
    assert ports.entries == {("x", 0): ["a", "b"]}


def test_that_an_edge_into_an_unused_constant_is_not_drawn() -> None:
    snapshot = graph({"x": "", "k": ""}, [("x", "k")], {"k": "constant"})
    assert Hierarchy(snapshot).groups[ROOT].links == {}


def test_that_a_group_with_one_inner_module_keeps_its_own_name() -> None:
    nodes = tuple(
        Node(f"{name}{call}", "op", "call", "net.layers.0.fc", call, ("layers", f"0{path}"))
        for call, path in enumerate(("", "@2"))
        for name in "ab"
    )
    tree = Hierarchy(GraphSnapshot("float", nodes, ()))
    assert tree.groups["layers/0/"].module == "net.layers.0"
    assert tree.groups["layers/0@2/"].module == "net.layers.0"


def test_that_a_linear_of_two_results_has_no_size_in_its_title() -> None:
    weight = (TensorInfo((3, 4), "float32"),)
    nodes = (
        Node("x", "placeholder", "input", outputs=weight),
        Node("k", "get_attr", "parameter", outputs=weight),
        Node("y", "aten.linear.default", "call"),
        Node("z", "aten.linear.default", "call"),
    )
    edges = (Edge("x", "y", 0, 0), Edge("x", "y", 0, 1), Edge("k", "z", 0, 0), Edge("x", "z", 0, 1))
    tree = Hierarchy(GraphSnapshot("float", nodes, edges))
    assert tree.title("y") == tree.title("z") == "linear"


def test_that_only_the_group_of_a_module_has_the_name_of_its_class() -> None:
    modules = (Module("", "my.Net", "", 1), Module("m", "my.Block", "", 1))
    nodes = (
        *(Node(n, "op", "call", "", 0, ("free",)) for n in "ab"),
        *(Node(f"n{k}", "op", "call", "m", 0, ("m",)) for k in range(1001)),
    )
    tree = Hierarchy(GraphSnapshot("float", nodes, (), modules))
    assert tree.subtitle("free/") == "2 operations"
    assert tree.subtitle("m/") == "Block, 1,001 operations"
    assert tree.subtitle("m/#1/") == "250 operations"
    assert tree.groups["m/#1/"].module == "m"


def test_that_siblings_of_another_structure_are_no_twins() -> None:
    tree = Hierarchy(
        replace(
            steps(x="", a="l/0", b="l/0", c="l/1", d="l/1", e="l/2", f="l/2", g="l/2", y="l"),
            edges=(Edge("a", "b"), Edge("c", "d")),
        )
    )
    assert tree.twins("l/0/") == ("l/0/", "l/1/")
    assert tree.twins("l/2/") == ("l/2/",)


def test_that_groups_deeper_than_sixty_four_are_drawn_as_one() -> None:
    nodes = [
        Node(f"{name}{depth}", "op", "call", "", 0, tuple(f"g{k}" for k in range(depth)))
        for depth in range(1, 67)
        for name in "ab"
    ]
    tree = Hierarchy(GraphSnapshot("float", tuple(nodes), ()))
    assert len(tree.groups) == 1 + 64
    assert max(group.size for group in tree.groups.values()) == 132
    assert tree.groups["/".join(f"g{k}" for k in range(64)) + "/"].size == 6
