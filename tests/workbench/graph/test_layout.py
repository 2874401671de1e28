"""What a drawing may be relied on for: nothing overlaps, and data flows downwards."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.benchmarks.crossings import crossings, route_segments
from tests.fakes.drawings import drawn_group, struck_boxes
from tests.for_each import for_each
from tests.workbench.graph.test_ordering import uncrossed
from workbench.errors import Cancelled
from workbench.graph.hierarchy import Hierarchy, Ports
from workbench.graph.labels import text_width
from workbench.graph.layout import COLUMN_GAP, Contents, Flow, GroupLayout, Layout, Placement, Route, lay_out
from workbench.graph.ordering import build_rows, count_crossings, order_rows
from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node

FLOWS: tuple[Flow, ...] = ("down", "right", "wrapped")


def seeds(quick: int, count: int) -> list[object]:
    """Return numbers for random graphs; those beyond the first few are slow."""
    slow = (pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count))
    return [*range(quick), *slow]


def nested(count: int, seed: int = 1) -> GraphSnapshot:
    """Return a random graph in three levels of groups, with skip edges."""
    rng = random.Random(seed)
    nodes, edges = [], []
    for i in range(count):
        path = (f"stage{i // 60}", f"block{i // 12}", f"part{i // 4 % 3}")
        nodes.append(Node(f"n{i}", "aten.add.Tensor", "call", ".".join(path), 0, path))
        if i:
            edges.append(Edge(f"n{i - 1}", f"n{i}"))
            edges.append(Edge(f"n{rng.randrange(max(0, i - 40), i)}", f"n{i}", 0, 1))
    return GraphSnapshot("float", tuple(nodes), tuple(edges))


def overlaps(boxes: list[tuple[float, float, float, float]]) -> int:
    found = 0
    for i, (x, y, w, h) in enumerate(boxes):
        for a, b, c, d in boxes[i + 1 :]:
            found += x < a + c and a < x + w and y < b + d and b < y + h
    return found


@pytest.mark.parametrize("seed", seeds(6, 80))
def test_that_random_groups_overlap_nowhere_and_flow_downwards(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 40)
    names = [str(i) for i in range(count)]
    links = list(
        {(names[rng.randrange(count)], names[rng.randrange(count)]) for _ in range(rng.randint(0, 2 * count))}
    )
    links = [(a, b) for a, b in links if a != b]
    sizes = {name: (rng.choice((40.0, 200.0, 900.0)), rng.choice((20.0, 500.0))) for name in names}
    layout = drawn_group(names, links, sizes)
    boxes = list(layout.boxes.values())
    assert overlaps(boxes) == 0
    assert all(x >= 0 and y >= 0 for x, y, _, _ in boxes)
    assert all(x + w <= layout.width and y + h <= layout.height for x, y, w, h in boxes)
    assert len(layout.routes) == len(links)
    for route in layout.routes:
        ups = [below[1] < above[1] - 1e-6 for above, below in pairwise(route.points)]
        assert all(ups) if route.is_reversed else not any(ups)


def test_that_a_straight_chain_is_drawn_straight() -> None:
    names = ["a", "b", "c"]
    layout = drawn_group(names, [("a", "b"), ("b", "c")], {n: (50.0 + len(names), 20.0) for n in names})
    assert len({point[0] for route in layout.routes for point in route.points}) == 1


def test_that_two_chains_stand_beside_each_other() -> None:
    names = ["a", "b", "c", "d"]
    layout = drawn_group(names, [("a", "b"), ("c", "d")], dict.fromkeys(names, (50.0, 20.0)))
    assert layout.boxes["a"][1] == layout.boxes["c"][1] < layout.boxes["b"][1]


def test_that_long_edges_of_one_tensor_share_their_way() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]
    rows = build_rows(4, sorted(edges))
    assert len(rows.up) - rows.count == 2
    assert rows.chains[0, 2] == rows.chains[0, 3][:1]


def test_that_a_very_long_edge_becomes_a_stub() -> None:
    names = [str(i) for i in range(100)]
    links = [*pairwise(names), ("0", "99")]
    layout = drawn_group(names, links, dict.fromkeys(names, (50.0, 20.0)))
    assert layout.routes[-1].is_stub
    assert layout.width < 50.0 + 4 * COLUMN_GAP


def test_that_ordering_takes_needless_crossings_away() -> None:
    rows = build_rows(6, [(0, 5), (1, 4), (2, 3)])
    order_rows(rows)
    assert count_crossings(rows) == 0


def contents(placement: Placement) -> object:
    return placement.boxes, placement.insides, placement.width, placement.height


def test_that_opening_step_by_step_gives_the_same_drawing_as_at_once() -> None:
    tree = Hierarchy(nested(72))
    groups = list(tree.groups)
    random.Random(3).shuffle(groups)
    layout, opened = Layout(tree), set[str]()
    for key in groups:
        opened.symmetric_difference_update({key, groups[0]} if key != groups[0] else {key})
        last = layout.arrange(frozenset(opened))
    fresh = Layout(tree).arrange(frozenset(opened))
    assert contents(last) == contents(fresh)
    layout.arrange(frozenset())
    assert contents(layout.arrange(frozenset(opened))) == contents(fresh)


@for_each("flow", FLOWS)
def test_that_children_lie_inside_of_their_group(flow: Flow) -> None:
    tree = Hierarchy(nested(72))
    placement = Layout(tree, flow=flow).arrange(frozenset(tree.groups))
    assert overlaps([placement.boxes[node.id] for node in tree.snapshot.nodes]) == 0
    for item, (x, y, width, height) in placement.boxes.items():
        holder = placement.boxes.get(tree.parent[item])
        if holder:
            assert holder[0] <= x
            assert x + width <= holder[0] + holder[2]
            assert holder[1] < y
            assert y + height <= holder[1] + holder[3]


def test_that_data_flows_to_the_right_on_demand() -> None:
    tree = Hierarchy(nested(60))
    placement = Layout(tree, flow="right").arrange(frozenset(tree.groups))
    for inside in placement.insides.values():
        for route in inside.routes:
            back = [after[0] < before[0] - 1e-6 for before, after in pairwise(route.points)]
            assert all(back) if route.is_reversed else not any(back)


def test_that_a_long_chain_is_wrapped_into_columns_as_wide_as_a_window() -> None:
    names = [str(number) for number in range(200)]
    links = [*pairwise(names)]
    layout = drawn_group(names, links, dict.fromkeys(names, (120.0, 42.0)), flow="wrapped")
    assert 1.2 <= layout.width / layout.height <= 2.0
    tops = [layout.boxes[name][:2] for name in names]
    assert all(x > a or y > b for (a, b), (x, y) in pairwise(tops))
    assert drawn_group(names, links, dict.fromkeys(names, (120.0, 42.0))).width < 200


def test_that_wrapping_adds_no_crossing() -> None:
    # Five chains side by side: no line ever has to cross another.
    names = [f"{chain}.{step}" for step in range(80) for chain in range(5)]
    links = [(f"{c}.{k}", f"{c}.{k + 1}") for c in range(5) for k in range(79)]
    layout = drawn_group(names, links, dict.fromkeys(names, (90.0, 42.0)), flow="wrapped")
    assert layout.width > layout.height
    assert crossings(route_segments(layout.routes)) == 0


def test_that_a_group_that_flows_to_the_right_has_its_header_above() -> None:
    sizes = {"a": (100.0, 20.0), "b": (60.0, 40.0)}
    drawn = drawn_group(["a", "b"], [("a", "b")], sizes, 30.0, "right")
    # 8 at the left, 124 between columns, 16 at the other sides.
    assert drawn.boxes == {"a": (8.0, 56.0, 100.0, 20.0), "b": (232.0, 46.0, 60.0, 40.0)}
    assert (drawn.width, drawn.height) == (308.0, 102.0)
    empty = drawn_group([], [], {}, 30.0, "right")
    assert (empty.width, empty.height) == (80.0, 46.0)
    alone = lay_out(Contents(["a"], {}, sizes))
    assert alone.boxes == drawn_group(["a"], [], sizes).boxes


def test_that_children_that_only_skip_rows_stand_in_two_rows() -> None:
    drawn = drawn_group(
        ["a", "b", "c", "d"], [("a", "c"), ("a", "d"), ("b", "d")], dict.fromkeys("abcd", (50.0, 20.0))
    )
    tops = [drawn.boxes[name][1] for name in "abcd"]
    assert tops[0] == tops[1] < tops[2] == tops[3]


def test_that_a_group_is_ordered_thoroughly_unless_it_is_asked_otherwise() -> None:
    # Two orders do not find that this graph can be drawn without a crossing.
    count, edges = uncrossed(11)
    names = [str(n) for n in range(count)]
    links = {(str(a), str(b)): () for a, b in edges}
    sizes = dict.fromkeys(names, (50.0, 20.0))
    thorough = lay_out(Contents(names, links, sizes))
    assert crossings(route_segments(thorough.routes)) == 0
    quick = lay_out(Contents(names, links, sizes, thorough=False))
    assert crossings(route_segments(quick.routes)) > 0


def test_that_a_stub_has_only_its_ends() -> None:
    # Beside the first and the last box of the chain is a taller one.
    names = ["small", "tall", *(f"n{n}" for n in range(61)), "high", "end"]
    links = [
        ("small", "n0"),
        ("tall", "n0"),
        *pairwise(names[2:63]),
        ("n60", "high"),
        ("n60", "end"),
        ("small", "end"),
    ]
    sizes = {name: (50.0, 80.0 if name in {"tall", "high"} else 20.0) for name in names}
    drawn = drawn_group(names, links, sizes)
    (stub,) = (route for route in drawn.routes if route.is_stub)
    x, y, width, height = drawn.boxes["small"]
    to_x, to_y, to_width, _ = drawn.boxes["end"]
    assert stub.points == ((x + width / 2, y + height), (to_x + to_width / 2, to_y))
    assert not stub.is_reversed


def test_that_every_tensor_of_an_open_group_has_a_line_from_port_to_port() -> None:
    t, u, v = ("t", 0), ("u", 0), ("v", 0)
    inner = {
        "a": GroupLayout(100.0, 20.0, entries={t: 30.0}, exits={u: 10.0, v: 80.0}),
        "b": GroupLayout(100.0, 20.0, entries={u: 20.0}),
    }
    sizes = dict.fromkeys(["a", "b", "c"], (100.0, 20.0))
    ports = Ports({t: ["a"], u: ["c"]}, {v: "c", u: "b"})
    links = {("a", "b"): (u, v), ("b", "a"): (t,), ("b", "c"): (v,), ("a", "c"): (u,)}
    drawn = lay_out(Contents(["a", "b", "c"], links, sizes, "g/", ports, True, inner))
    boxes = {name: (box[0], box[1], box[1] + box[3]) for name, box in drawn.boxes.items()}

    def ends(route: Route) -> tuple[float, float, float, float]:
        return (*route.points[0], *route.points[-1])

    found = {(r.source, r.target, r.port, r.tensor): ends(r) for r in drawn.routes}
    assert len(found) == len(drawn.routes) == 9
    (a, top_a, bottom_a), (b, top_b, bottom_b), (c, top_c, _) = boxes.values()
    # A tensor without a port meets the group in its middle, and so does a line that runs up.
    assert found["a", "b", "", u] == (a + 10.0, bottom_a, b + 20.0, top_b)
    assert found["a", "b", "", v] == (a + 80.0, bottom_a, b + 50.0, top_b)
    assert found["b", "a", "", None] == (b + 50.0, top_b, a + 50.0, bottom_a)
    assert found["b", "c", "", v] == (b + 50.0, bottom_b, c + 50.0, top_c)
    assert found["a", "c", "", u] == (a + 10.0, bottom_a, c + 50.0, top_c)
    # From the border to the child, and from the child to the border.
    assert found["g/", "a", "entry", t] == (drawn.entries[t], 30.0, a + 30.0, top_a)
    assert found["g/", "c", "entry", u] == (drawn.entries[u], 30.0, c + 50.0, top_c)
    assert found["c", "g/", "exit", v][2:] == (drawn.exits[v], drawn.height)
    assert found["b", "g/", "exit", u][2:] == (drawn.exits[u], drawn.height)
    assert len({*drawn.exits.values()}) == len({*drawn.entries.values()}) == 2
    assert all(7.0 <= x <= drawn.width for x in drawn.exits.values())
    # Two closed children have one line for all tensors.
    closed = lay_out(Contents(["a", "b"], {("a", "b"): (u, v)}, sizes))
    assert [route.tensor for route in closed.routes] == [None]


def test_that_what_is_no_group_is_not_opened() -> None:
    layout = Layout(Hierarchy(nested(24)))
    closed = layout.arrange(frozenset())
    assert contents(layout.arrange(frozenset({"n0", "nobody"}))) == contents(closed)
    groups = frozenset(layout.hierarchy.groups)
    opened = layout.arrange(groups)
    assert contents(layout.arrange(groups | {"n0"})) == contents(opened)


def test_that_a_group_has_the_room_of_its_smaller_second_line() -> None:
    nodes = (*(Node(n, "op", "call", "g", 0, ("g",)) for n in "ab"), Node("c", "op", "call"))
    tree = Hierarchy(GraphSnapshot("float", nodes, (), (Module("g", "a" * 20, "", 1),)))
    _, subtitle = tree.words("g/")
    width = text_width(subtitle, 11.0) + 44.0
    assert width < 300.0
    assert Layout(tree).size("g/") == (pytest.approx(width), 50.0)


def test_that_a_node_with_two_thousand_users_is_laid_out() -> None:
    nodes = tuple(Node(f"n{i}", "aten.relu.default", "call") for i in range(2001))
    edges = tuple(Edge("n0", f"n{i}") for i in range(1, 2001))
    tree = Hierarchy(GraphSnapshot("float", nodes, edges))
    placement = Layout(tree).arrange(frozenset(tree.groups))
    assert len(placement.boxes) == 2001 + len(tree.groups) - 1


def test_that_layout_stops_when_asked() -> None:
    with pytest.raises(Cancelled):
        Layout(Hierarchy(nested(50)), lambda: True).arrange(frozenset())


def test_that_long_and_foreign_names_get_a_sane_width() -> None:
    nodes = (Node("n" * 4000, "op" * 2000, "call"), Node("層" * 400, "слой", "call"))
    layout = Layout(Hierarchy(GraphSnapshot("float", nodes, ())))
    assert all(layout.size(node.id)[0] <= 300 for node in nodes)


def branching(seed: int) -> GraphSnapshot:
    """Return a network of nested modules with skips into and out of them, in execution order."""
    rng = random.Random(seed)
    paths: list[tuple[str, ...]] = [()]
    for _ in range(rng.randint(2, 6)):
        paths.append((*rng.choice(paths)[:3], f"m{len(paths)}"))
    paths.sort()
    nodes, edges = [], []
    for number in range(rng.randint(5, 50)):
        group = paths[number * len(paths) // 50]
        nodes.append(Node(f"n{number}", "aten.add.Tensor", "call", ".".join(group), 0, group))
        for source in rng.sample(range(number), min(number, rng.choice((1, 1, 2, 3)))):
            edges.append(Edge(f"n{source}", f"n{number}"))
    return GraphSnapshot("float", tuple(nodes), tuple(edges))


@for_each("flow", FLOWS)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_that_no_line_runs_through_a_box_that_it_does_not_join(seed: int, flow: Flow) -> None:
    tree = Hierarchy(branching(seed))
    layout, rng = Layout(tree, flow=flow), random.Random(seed)
    for opened in (frozenset(tree.groups), frozenset(rng.sample([*tree.groups], 1)), frozenset()):
        assert struck_boxes(layout.arrange(opened)) == []


@for_each("flow", FLOWS)
def test_that_lines_meet_at_the_borders_of_open_groups(flow: Flow) -> None:
    tree = Hierarchy(nested(72))
    placement = Layout(tree, flow=flow).arrange(frozenset(tree.groups))
    boxes, met, axis = placement.boxes, 0, int(flow == "right")
    for key, inside in placement.insides.items():
        corner = boxes[key][axis] if key in boxes else 0.0
        for route in inside.routes:
            child = placement.insides.get(route.target)
            if route.port == "exit" or child is None or route.is_reversed:
                continue
            assert corner + route.points[-1][axis] - boxes[route.target][axis] in [
                pytest.approx(x) for x in child.entries.values()
            ]
            met += 1
    assert met
