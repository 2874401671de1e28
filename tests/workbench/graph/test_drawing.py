"""Where things stand in a drawing, and how good it is."""

import random
from itertools import pairwise

import pytest

from tests.fakes.drawings import drawn_group
from tests.for_each import for_each
from tests.workbench.graph.test_layout import nested
from workbench.graph.hierarchy import ROOT, Hierarchy, isolate
from workbench.graph.labels import text_width
from workbench.graph.layout import Layout, Route
from workbench.graph.ordering import assign_ranks, build_rows, count_crossings, order_rows, place_columns
from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node, QParams, TensorInfo


def test_that_a_chain_stands_in_one_column_with_equal_gaps():
    sizes = {"a": (100.0, 20.0), "b": (60.0, 40.0), "c": (80.0, 10.0)}
    drawn = drawn_group(["a", "b", "c"], [("a", "b"), ("b", "c")], sizes)
    # A header of 30, 8 above the first row, 34 between rows, 16 at the other sides.
    assert drawn.boxes == {
        "a": (16.0, 38.0, 100.0, 20.0),
        "b": (36.0, 92.0, 60.0, 40.0),
        "c": (26.0, 166.0, 80.0, 10.0),
    }
    assert (drawn.width, drawn.height) == (132.0, 192.0)
    assert drawn.routes == [
        Route("a", "b", ((66.0, 58.0), (66.0, 92.0))),
        Route("b", "c", ((66.0, 132.0), (66.0, 166.0))),
    ]
    assert drawn_group(["a"], [], sizes, 0.0).boxes == {"a": (16.0, 8.0, 100.0, 20.0)}
    empty = drawn_group([], [], {})
    assert (empty.width, empty.height) == (80.0, 46.0)


SIZES = {"a": (100.0, 20.0), "b": (50.0, 40.0), "c": (70.0, 10.0), "d": (40.0, 20.0)}


def test_that_children_of_one_row_stand_side_by_side_in_its_middle():
    drawn = drawn_group(["a", "b", "c"], [("a", "b"), ("a", "c")], SIZES)
    assert drawn.boxes == {
        "a": (33.0, 38.0, 100.0, 20.0),
        "b": (16.0, 92.0, 50.0, 40.0),
        "c": (90.0, 107.0, 70.0, 10.0),
    }
    assert (drawn.width, drawn.height) == (176.0, 148.0)
    assert [(r.source, r.target, r.is_stub, r.is_reversed) for r in drawn.routes] == [
        ("a", "b", False, False),
        ("a", "c", False, False),
    ]
    assert drawn.routes[0].points == ((83.0, 58.0), (41.0, 92.0))
    assert drawn.routes[1].points == ((83.0, 58.0), (125.0, 92.0), (125.0, 107.0))


def test_that_a_link_against_the_order_runs_upwards():
    drawn = drawn_group(["a", "b"], [("b", "a")], SIZES)
    (route,) = drawn.routes
    assert (route.source, route.target, route.is_reversed) == ("b", "a", True)
    assert route.points[0][1] > route.points[-1][1]
    both = drawn_group(["a", "b"], [("a", "b"), ("b", "a")], SIZES)
    assert [r.is_reversed for r in both.routes] == [False, True]
    assert both.routes[0].points == both.routes[1].points[::-1]


def test_that_a_long_link_goes_round_what_lies_between():
    drawn = drawn_group(["a", "b", "d"], [("a", "b"), ("b", "d"), ("a", "d")], SIZES)
    way = next(r for r in drawn.routes if (r.source, r.target) == ("a", "d")).points
    left, top, width, height = drawn.boxes["b"]
    beside = [x for x, y in way if top <= y <= top + height]
    assert len(beside) == 2
    # A bend needs 7, and the box half a gap of columns, 12.
    assert beside[0] == beside[1]
    assert min(abs(beside[0] - left), abs(beside[0] - left - width)) == pytest.approx(19.0)


def kinds(**given):
    return GraphSnapshot(
        "float",
        tuple(Node(name, "aten.relu.default", kind, name, 0, (), ()) for name, kind in given.items()),
        (),
    )


def test_that_operators_have_the_room_of_their_names():
    layout = Layout(Hierarchy(kinds(x="input", a_very_long_name_indeed="call", q="quantize")))
    assert layout.size("x") == (pytest.approx(text_width("x", 11.0) + 28), 22.0)
    assert layout.size("q") == (pytest.approx(text_width("relu", 11.0) + 28), 22.0)
    widest = max(text_width("relu") + 50, text_width("a_very_long_name_indeed", 11.0))
    assert layout.size("a_very_long_name_indeed") == (pytest.approx(widest + 24), 42.0)
    short = Layout(Hierarchy(kinds(r="call")))
    assert short.size("r") == (pytest.approx(text_width("relu") + 74), 42.0)
    tree = Hierarchy(nested(24))
    for key in tree.groups:
        if key != ROOT:
            width, height = Layout(tree).size(key)
            assert height == 50.0
            title, subtitle = tree.words(key)
            room = max(text_width(title) + 50, text_width(subtitle, 11.0)) + 44
            assert width == pytest.approx(min(room, 300.0))


def test_that_an_open_group_holds_its_children_below_a_header():
    tree = Hierarchy(nested(24))
    placement = Layout(tree).arrange(frozenset(tree.groups))
    assert placement.width == placement.insides[ROOT].width
    assert placement.height == placement.insides[ROOT].height
    for key, inside in placement.insides.items():
        if key == ROOT:
            continue
        x, y, width, height = placement.boxes[key]
        assert (width, height) == (inside.width, inside.height)
        for child, (left, top, *size) in inside.boxes.items():
            assert placement.boxes[child] == (x + left, y + top, *size)
            assert top >= 38.0
            assert placement.shows(child)
    assert min(top for _, top, _, _ in placement.insides[ROOT].boxes.values()) == 8.0
    closed = Layout(tree).arrange(frozenset())
    assert not any(closed.shows(child) for child in tree.groups["stage0/"].children)


def quality():
    """Return crossings, width, length of all lines and height of forty random graphs."""
    crossings = width = length = rows_used = 0.0
    for seed in range(40):
        rng = random.Random(seed)
        count = rng.randint(8, 30)
        edges = sorted({tuple(sorted(rng.sample(range(count), 2))) for _ in range(2 * count)})
        ranks = assign_ranks(count, edges)
        length += sum(ranks[b] - ranks[a] for a, b in edges)
        rows = build_rows(count, edges)
        order_rows(rows)
        half = [10.0 + v % 4 * 5 for v in range(len(rows.up))]
        xs = place_columns(rows, half)
        crossings += count_crossings(rows)
        width += max(x + room for x, room in zip(xs, half, strict=True))
        length += sum(abs(xs[a] - xs[b]) for a in range(len(rows.up)) for b in rows.down[a]) / 100
        rows_used += len(rows.layers)
    return crossings, width, length, rows_used


@pytest.mark.slow
def test_that_drawings_are_no_worse_than_those_recorded():
    crossings, width, length, rows_used = quality()
    assert crossings <= RECORDED["crossings"]
    assert width <= RECORDED["width"]
    assert length <= RECORDED["length"]
    assert rows_used <= RECORDED["rows"]


RECORDED = {"crossings": 1294, "width": 19040.0, "length": 3886.05, "rows": 237}


def chain(*names, group=(), kinds=None, op="aten.relu.default", outputs=()):
    nodes = tuple(
        Node(n, op, (kinds or {}).get(n, "call"), ".".join(group), 0, group, outputs) for n in names
    )
    return GraphSnapshot("float", nodes, tuple(Edge(a, b) for a, b in pairwise(names)))


def test_that_a_thousand_siblings_are_not_cut_and_one_more_is():
    names = [f"n{i}" for i in range(1001)]
    assert list(Hierarchy(chain(*names[:1000])).groups) == [ROOT]
    tree = Hierarchy(chain(*names))
    assert list(tree.groups) == [ROOT, "#1/", "#2/", "#3/", "#4/", "#5/"]
    assert tree.title("#5/") == "1,001 to 1,001 of 1,001"
    assert list(tree.groups[ROOT].links) == [("#1/", "#2/"), ("#2/", "#3/"), ("#3/", "#4/"), ("#4/", "#5/")]
    inside = Hierarchy(chain(*names, "tail", group=("net",)))
    many = GraphSnapshot("float", (*inside.snapshot.nodes, Node("z", "op", "call")), ())
    assert "net/#1/" in Hierarchy(many).groups


def test_that_three_blocks_make_a_run_and_two_do_not():
    def blocks(count):
        names = {f"{op}{k}": ("layers", str(k)) for k in range(count) for op in "ab"}
        nodes = [Node(n, f"aten.{n[0]}.default", "call", ".".join(g), 0, g) for n, g in names.items()]
        nodes.append(Node("odd", "aten.odd.default", "call", "layers.odd", 0, ("layers", "odd")))
        return GraphSnapshot("float", tuple(nodes), tuple(Edge(a.id, b.id) for a, b in pairwise(nodes)))

    assert not any("#" in key for key in Hierarchy(blocks(2), "folded").groups)
    tree = Hierarchy(blocks(3), "folded")
    assert tree.groups["layers/#0-2/"].is_run
    assert tree.groups["layers/"].size == 7
    assert tree.twins("layers/#0-2/") == ("layers/0/", "layers/1/", "layers/2/")
    assert not any("#" in key for key in Hierarchy(blocks(3)).groups)


def test_that_every_level_of_groups_has_its_depth():
    tree = Hierarchy(nested(24))
    for item, group in tree.parent.items():
        assert tree.depth[item] == tree.depth[group] + 1
        assert tree.ancestors(item) == [*tree.ancestors(group), group]
    assert tree.depth[ROOT] == 0


def test_that_the_border_of_a_group_is_what_it_reads_and_who_reads_it():
    nodes = (
        Node("x", "placeholder", "input"),
        Node("w", "", "parameter"),
        Node("free", "", "parameter"),
        Node("a", "aten.a.default", "call", "g", 0, ("g",)),
        Node("b", "aten.b.default", "call", "g", 0, ("g",)),
        Node("y", "aten.c.default", "call"),
        Node("z", "output", "output"),
    )
    edges = (
        Edge("x", "a"),
        Edge("w", "a"),
        Edge("a", "b"),
        Edge("x", "b"),
        Edge("b", "y"),
        Edge("a", "y"),
        Edge("y", "z"),
    )
    tree = Hierarchy(GraphSnapshot("float", nodes, edges))
    assert tree.border("g/") == (("x",), ("y",))
    assert tree.border("a") == (("x",), ("b", "y"))
    assert tree.owner["w"] == "a"
    assert "free" not in tree.owner
    assert tree.node("g/") is None
    assert tree.node("a").id == "a"


def test_that_only_the_preparation_of_operands_is_folded_away():
    kinds = {
        "x": "input",
        "q": "quantize",
        "w": "parameter",
        "o": "observer",
        "k": "constant",
        "alone": "observer",
    }
    nodes = tuple(
        Node(n, "op", kinds.get(n, "call")) for n in ("x", "q", "w", "o", "k", "alone", "conv", "end")
    )
    edges = (
        Edge("x", "q"),
        Edge("q", "conv"),
        Edge("w", "o"),
        Edge("o", "conv"),
        Edge("k", "end"),
        Edge("conv", "end"),
        Edge("alone", "end"),
    )
    tree = Hierarchy(GraphSnapshot("float", nodes, edges))
    assert tree.groups[ROOT].children == ["x", "q", "alone", "conv", "end"]
    assert (tree.owner["w"], tree.owner["o"], tree.owner["k"]) == ("conv", "conv", "end")


def test_that_the_module_of_a_group_is_what_its_operators_share():
    nodes = (
        Node("a", "op", "call", "net.layers.0.fc", 0, ("layers", "0")),
        Node("b", "op", "call", "net.layers.0.act", 0, ("layers", "0")),
        Node("c", "op", "call", "net.layers.1", 0, ("layers", "1@2")),
        Node("d", "op", "call", "net.layers.1", 0, ("layers", "1@2")),
    )
    tree = Hierarchy(GraphSnapshot("float", nodes, (), (Module("net.layers.0", "my.Block", "", 1),)))
    assert tree.groups["layers/0/"].module == "net.layers.0"
    assert tree.groups["layers/1@2/"].module == "net.layers.1"
    assert tree.groups["layers/"].module == "net.layers"
    assert tree.subtitle("layers/0/") == "Block, 2 operations"
    assert tree.subtitle("layers/1@2/") == "2 operations"
    assert tree.groups["layers/"].size == 4


@for_each(
    ("groups", "inside", "opened"),
    [
        (4, 10, True),
        (9, 10, True),
        (10, 10, False),
        (10, 9, False),
        (9, 11, False),
        (4, 75, False),
        (4, 74, True),
        (5, 19, True),
        (5, 20, False),
    ],
)
def test_that_groups_open_at_first_while_few_enough_are_shown(groups, inside, opened):
    # Ten are enough; below, up to 100 are shown, or 300 where fewer than five would be.
    nodes = tuple(
        Node(f"n{g}_{i}", f"aten.op{g}_{i}.default", "call", f"g{g}", 0, (f"g{g}",))
        for g in range(groups)
        for i in range(inside)
    )
    tree = Hierarchy(GraphSnapshot("float", nodes, ()))
    assert (tree.opening() != frozenset()) == opened


@for_each(("more", "opened"), [(0, True), (1, False)])
def test_that_groups_of_one_size_or_several_open_up_to_a_hundred(more, opened):
    sizes = [19, 19, 19, 19, 19 + more]
    nodes = tuple(
        Node(f"n{g}_{i}", f"aten.op{g}_{i}.default", "call", f"g{g}", 0, (f"g{g}",))
        for g, size in enumerate(sizes)
        for i in range(size)
    )
    assert bool(Hierarchy(GraphSnapshot("float", nodes, ())).opening()) == opened


def test_that_isolated_operators_keep_their_operands_and_border():
    kinds = {"x": "input", "w": "parameter", "dq": "dequantize", "other": "parameter"}
    names = ("x", "w", "dq", "a", "b", "c", "other")
    nodes = tuple(Node(n, "op", kinds.get(n, "call")) for n in names)
    edges = (
        Edge("x", "a"),
        Edge("w", "dq"),
        Edge("dq", "b"),
        Edge("a", "b"),
        Edge("b", "c"),
        Edge("other", "c"),
    )
    cut = isolate(GraphSnapshot("float", nodes, edges), {"b"})
    assert [n.id for n in cut.nodes] == ["w", "dq", "a", "b", "c"]
    assert [(e.source, e.target) for e in cut.edges] == [("w", "dq"), ("dq", "b"), ("a", "b"), ("b", "c")]


def test_that_a_grid_has_its_bits_and_a_tensor_its_shape():
    assert QParams("int8", (1.0,), (0,), -127, 127, None).bits == 8
    assert QParams("int8", (1.0,), (0,), -7, 7, None).bits == 4
    assert QParams("int8", (1.0,), (0,), 0, 0, None).bits == 1
    assert TensorInfo((1, "n", 3), "float32").shape_text == "\u00d7".join("1n3")
    assert TensorInfo((), "float32").shape_text == "scalar"


def test_that_columns_are_joined_by_lanes_below_between_and_above_them():
    """Four tall boxes wrapped into four columns; figures from the constants of the layout."""
    names = ["a", "b", "c", "d"]
    drawn = drawn_group(names, [*pairwise(names)], dict.fromkeys(names, (100.0, 400.0)), 0.0, "wrapped")
    # 16 at the left, 12 on either side of a box, and 12 for the lane with 12 behind it.
    assert drawn.boxes == {
        "a": (16.0, 8.0, 100.0, 400.0),
        "b": (164.0, 32.0, 100.0, 400.0),
        "c": (312.0, 32.0, 100.0, 400.0),
        "d": (460.0, 32.0, 100.0, 400.0),
    }
    # Down by 20, right to the lane, up to 8, across, and down past the lane and 20 to the box.
    assert drawn.routes[0].points == (
        (66.0, 408.0),
        (66.0, 428.0),
        (128.0, 428.0),
        (128.0, 8.0),
        (214.0, 8.0),
        (214.0, 20.0),
        (214.0, 32.0),
    )
    assert drawn.routes[1].points[:3] == ((214.0, 432.0), (214.0, 452.0), (276.0, 452.0))
    assert (drawn.width, drawn.height) == (576.0, 480.0)
    headed = drawn_group(names, [*pairwise(names)], dict.fromkeys(names, (100.0, 400.0)), 30.0, "wrapped")
    assert {name: box[1] - drawn.boxes[name][1] for name, box in headed.boxes.items()} == (
        dict.fromkeys(names, 30.0)
    )
    assert headed.height == drawn.height + 30.0


def test_that_lanes_of_several_lines_stand_apart_and_cross_nowhere():
    """Two chains side by side: the left line takes the outer lane below and the inner one above."""
    names = [f"{chain}{step}" for step in range(4) for chain in "ab"]
    links = [(f"{chain}{step}", f"{chain}{step + 1}") for chain in "ab" for step in range(3)]
    drawn = drawn_group(names, links, dict.fromkeys(names, (100.0, 400.0)), 0.0, "wrapped")
    assert len({box[1] for name, box in drawn.boxes.items() if name[1] != "0"}) == 1
    ways = {route.source: route.points for route in drawn.routes}
    turning = {name: way for name, way in ways.items() if len(way) > 3}
    assert set(turning) == {f"{chain}{step}" for chain in "ab" for step in range(3)}
    for step in range(3):
        left, right = turning[f"a{step}"], turning[f"b{step}"]
        if left[0][0] > right[0][0]:
            left, right = right, left
        lanes = [next(p for p in way if p[0] != way[0][0]) for way in (left, right)]
        # Below, the left line is the lower one and takes the right lane.
        assert lanes[0][0] - lanes[1][0] == 12.0
        assert lanes[0][1] - lanes[1][1] == 12.0
    bottoms = [y for way in ways.values() for _, y in way]
    assert max(bottoms) <= drawn.height - 16.0
    tops = [box[1] for name, box in drawn.boxes.items() if name[1] != "0"]
    # Two lanes of 12 above the boxes, and 20 to the boxes.
    assert set(tops) == {44.0}


def test_that_a_group_wraps_from_its_height_on():
    def columns(count, height):
        names = [str(n) for n in range(count)]
        drawn = drawn_group(names, [*pairwise(names)], dict.fromkeys(names, (100.0, height)), 0.0, "wrapped")
        return len({box[0] for box in drawn.boxes.values()})

    # Every row takes its height and a gap of 34: four of 141 are 700 px.
    assert columns(4, 141.0) > 1
    assert columns(4, 140.9) == 1
    assert columns(1, 5000.0) == 1
