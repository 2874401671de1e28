"""Hostile graphs: tiny, huge, wide, cyclic, oddly named and of older versions."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, QPointF, QSizeF, Qt

from ui.features.graph.navigation import lines
from ui.features.graph.paint_headers import header_rects
from ui.features.graph.picture import Camera
from workbench.errors import WorkbenchError
from workbench.graph.hierarchy import ROOT, Hierarchy
from workbench.graph.layout import Layout
from workbench.graph.snapshot import VERSION, Edge, GraphSnapshot, Node, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from ui.features.graph.graph_view import GraphView

    Show = Callable[[GraphSnapshot | None], GraphView]

TENSOR = (TensorInfo((1, 4), "float32"),)


def call(name: str, group: tuple[str, ...] = (), op: str = "aten.relu.default") -> Node:
    return Node(name, op, "call", ".".join(group), 0, group, TENSOR)


def graph(nodes: list[Node], edges: list[tuple[str, str]]) -> GraphSnapshot:
    return GraphSnapshot("float", tuple(nodes), tuple(Edge(a, b) for a, b in edges))


def test_that_a_single_operation_is_drawn_walked_and_exported(
    qtbot: QtBot, show: Show, tmp_path: Path
) -> None:
    view = show(graph([call("only")], []))
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Right, Qt.Key.Key_F):
        qtbot.keyClick(view, key)
    assert view.surface.selected == {"only"}
    view.surface.export_svg(tmp_path / "one.svg")
    assert "relu" in (tmp_path / "one.svg").read_text()


@pytest.mark.slow
def test_that_a_hundred_thousand_operations_open_as_sections(qtbot: QtBot, show: Show) -> None:
    nodes = [call(f"n{k}") for k in range(100_000)]
    snapshot = graph(nodes, [(f"n{k}", f"n{k + 1}") for k in range(99_999)])
    view = show(None)
    with qtbot.waitSignal(view.groups.laid_out, timeout=30_000):
        view.groups.render_snapshot(snapshot)
    assert view.surface.scene is not None
    assert len(view.surface.scene.hierarchy.groups["/"].children) < 400
    view.selection.select(frozenset({"n54321"}), reveal=True)
    qtbot.waitUntil(lambda: view.surface.scene is not None and view.surface.scene.has("n54321"))


@pytest.mark.parametrize("ways", [1, -1])
def test_that_two_thousand_users_of_one_tensor_are_laid_out(qtbot: QtBot, show: Show, ways: int) -> None:
    users = [call(f"u{k}") for k in range(2000)]
    nodes = [call("hub"), *users][::ways]
    view = show(graph(nodes, [("hub", u.id) for u in users]))
    view.groups.expand_all()
    qtbot.waitUntil(lambda: view.surface.scene is not None and view.surface.scene.has("u1999"))
    assert len(view.surface.scene.hierarchy.border("hub")[1]) == 2000  # type: ignore[union-attr]
    view.repaint()


def test_that_cycles_of_a_hand_made_file_are_drawn_upwards(qtbot: QtBot, show: Show) -> None:
    nodes = [call("a", ("m",)), call("b", ("m",)), call("c", ("n",)), call("d", ("n",))]
    edges = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "c")]
    view = show(graph(nodes, edges))
    view.groups.expand_all()
    qtbot.waitUntil(lambda: view.surface.scene is not None and view.surface.scene.has("d"))
    view.selection.select(frozenset({"a"}))
    view.selection.trace(forwards=True)
    assert view.surface.selected == {"a", "b", "c", "d"}
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Up) * 6:
        qtbot.keyClick(view, key)


@pytest.mark.parametrize(
    "name",
    [
        "n" * 4000,
        "\u5c42" * 4000,
        "\u0645\u0631\u062d\u0628\u0627",
        "\U0001f9e0 \u0301\u0301",
        "a\nb\t<b>c</b>",
        "\u202eevil",
    ],
    ids=["long", "wide", "arabic", "combining", "markup", "override"],
)
def test_that_any_name_is_drawn_within_its_box(qtbot: QtBot, show: Show, tmp_path: Path, name: str) -> None:
    snapshot = graph([call(name, (name,)), call("b", (name,)), call("c")], [(name, "b")])
    path = tmp_path / "graph.json"
    snapshot.save(path)
    view = show(GraphSnapshot.load(path))
    view.groups.expand_all()
    qtbot.waitUntil(lambda: view.surface.scene is not None and view.surface.scene.has(name))
    assert view.surface.scene is not None
    assert view.surface.scene.rect(name).width() <= 300
    view.repaint()
    assert all(len(line) < 300 for line in lines(name, view.surface.scene.hierarchy, view.surface.marks))


@pytest.mark.parametrize("version", [0, VERSION + 1, "1", None])
def test_that_a_snapshot_of_another_version_is_refused_in_words(tmp_path: Path, version: object) -> None:
    path = tmp_path / "graph.json"
    graph([call("a")], []).save(path)
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "version": version}))
    with pytest.raises(WorkbenchError) as told:
        GraphSnapshot.load(path)
    (code,) = told.value.codes
    known = {0: "graph-version-older", VERSION + 1: "graph-version-newer"}
    assert code == known.get(version, "graph-damaged")
    assert "\n" not in told.value.infos[0].message


def tall(show: Show, qtbot: QtBot) -> GraphView:
    nodes = [call(f"n{k}", ("outer", "inner")) for k in range(80)] + [call("last", ("outer",))]
    pairs = [(f"n{k}", f"n{k + 1}") for k in range(79)] + [("n0", "n79"), ("n79", "last")]
    view = show(graph(nodes, pairs))
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    view.surface.look(Camera(1.0))
    return view


def press(qtbot: QtBot, view: GraphView, place: QPointF) -> None:
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=view.surface.camera.to_window(place).toPoint())


def test_that_headers_stay_in_view_and_still_close_their_group(qtbot: QtBot, show: Show) -> None:
    view = tall(show, qtbot)
    view.surface.look(Camera(1.0, 0.0, 900.0))
    scene, area = view.surface.scene, view.surface.camera.shown(view.size().toSizeF())
    assert scene is not None
    strips = header_rects(scene, area, scene.frames_in(area))
    outer, inner = strips["outer/"], strips["outer/inner/"]
    assert (outer.top(), inner.top()) == (900.0, 930.0)
    with qtbot.waitSignal(view.groups.laid_out):
        press(qtbot, view, QPointF(inner.left() + 13, inner.center().y()))
    assert not view.groups.is_expanded("outer/inner")


def test_that_the_loose_end_of_a_long_line_leads_to_the_other(qtbot: QtBot, show: Show) -> None:
    view = tall(show, qtbot)
    assert view.surface.scene is not None
    end = view.surface.scene.rect("n79")
    view.surface.look(Camera(1.0, end.center().x() - 300, end.top() - 300))
    press(qtbot, view, QPointF(end.center().x() - 60, end.top() - 20))
    assert view.surface.selected == {"n0"}
    assert view.surface.camera.shown(view.size().toSizeF()).intersects(view.surface.scene.rect("n0"))
    view.places.back()
    assert not view.surface.camera.shown(view.size().toSizeF()).intersects(view.surface.scene.rect("n0"))


def test_that_a_group_says_what_crosses_its_border_and_leads_there(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    tree = Hierarchy(layers)
    assert tree.border("layers/1/") == (("add_0",), ("conv2d_2",))
    assert tree.border("relu_1") == (("conv2d_1",), ("add_1",))
    view = show(layers)
    view.groups.expand_all()
    qtbot.waitUntil(lambda: view.groups.is_expanded("layers/1"))
    view.selection.jump("conv2d_2")
    assert view.surface.selected == {"conv2d_2"}
    assert "conv2d" in view.accessibleDescription()


def test_that_a_flat_drawing_keeps_the_selection_in_view(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    view.selection.select(frozenset({"relu_2"}))
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.set_shape("flat")
    assert view.surface.scene is not None
    assert list(view.surface.scene.hierarchy.groups) == ["/"]
    assert view.surface.camera.shown(view.size().toSizeF()).contains(view.surface.scene.rect("relu_2"))
    with qtbot.waitSignal(view.groups.laid_out):
        view.places.back()
    assert view.groups.shape == "folded"


def test_that_a_layout_of_a_wide_graph_has_no_overlap() -> None:
    nodes = [call("hub"), *(call(f"u{k}") for k in range(300))]
    layout = Layout(Hierarchy(graph(nodes, [("hub", n.id) for n in nodes[1:]])))
    boxes = sorted(layout.arrange(frozenset()).boxes.values())
    rows: dict[float, float] = {}
    for x, y, width, _ in boxes:
        assert x >= rows.get(y, -1.0)
        rows[y] = x + width


def test_that_the_legend_is_brushed_with_the_mouse(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    from ui.features.graph.marks import Overlay
    from ui.features.graph.paint_overlays import legend_bar

    view = show(layers)
    view.surface.set_overlay(Overlay({"conv2d_0": 0.0, "relu_0": 5.0, "add_0": 10.0}, "error"))
    bar = legend_bar(view.size().toSizeF())
    left = QPoint(round(bar.left() + 0.4 * bar.width()), round(bar.center().y()))
    right = QPoint(round(bar.right()), left.y())
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=left)
    qtbot.mouseMove(view, right)
    with qtbot.waitSignal(view.selection.changed) as told:
        qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=right)
    assert told.args == [frozenset({"relu_0", "add_0"})]
    assert view.surface.scene is not None
    assert view.surface.marks.colour("conv2d_0", view.surface.scene.hierarchy) is None
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.surface.marks.colour("conv2d_0", view.surface.scene.hierarchy) is not None


def test_that_what_is_revealed_lies_below_the_headers_held_over_it(qtbot: QtBot, show: Show) -> None:
    names = [f"relu_{k}" for k in range(30)]
    nodes = [call(name, ("outer", "inner")) for name in names]
    view = show(graph(nodes, list(pairwise(names))))
    view.groups.expand_all()
    qtbot.waitUntil(lambda: view.surface.scene is not None and view.surface.scene.has("relu_9"))
    assert view.surface.scene is not None
    rect = view.surface.scene.rect("relu_9")
    view.surface.look(Camera(1.0, rect.left(), rect.top() - 4))
    view.selection.select(frozenset({"relu_9"}), reveal=True)
    area = view.surface.camera.shown(QSizeF(view.width(), view.height()))
    open_groups = [key for key in view.surface.scene.hierarchy.groups if view.groups.is_expanded(key)]
    headers = header_rects(view.surface.scene, area, [key for key in open_groups if key != ROOT])
    assert headers
    assert not any(header.intersects(rect) for header in headers.values())
