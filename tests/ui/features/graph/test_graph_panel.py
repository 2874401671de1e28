"""The graph panel as a person uses it, over recorded results."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QToolButton

from tests.fakes.projects import make_project, write_project
from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from ui.features.graph.bookmarks import view_of
from ui.features.graph.graph_bar import GraphBar
from ui.features.graph.graph_panel import save_picture
from ui.features.graph.graph_results import LEVELS
from ui.features.graph.picture import LARGEST, SMALLEST
from ui.state.settings import Settings
from workbench.graph.snapshot import Edge, GraphSnapshot, Node
from workbench.project.configs import PRESETS
from workbench.project.model import Bookmark
from workbench.results import DEVICE_GRAPH_FILE, save_result

EDGE_OPS = {"conv2d": "convolution", "relu": "relu", "linear": "linear"}


def edge_level():
    """The float program with operators of the edge, without batch norm, and a grid in front."""
    from tests.fakes.projects import snapshot

    plain = snapshot("edge")
    nodes = [Node("q", "quantized_decomposed.quantize_per_tensor.default", "quantize")]
    names = {"x": "x", "output": "output"}
    for node in plain.nodes:
        if node.id in EDGE_OPS:
            names[node.id] = f"aten_{EDGE_OPS[node.id]}_default"
            op = f"aten.{EDGE_OPS[node.id]}.default"
            origin = {"origin": node.id}
            nodes.append(Node(names[node.id], op, "call", node.module, group=node.group, attrs=origin))
        elif node.id in names:
            nodes.insert(0 if node.id == "x" else len(nodes), node)
    edges = [Edge(a.id, b.id) for a, b in pairwise(nodes)]
    return GraphSnapshot("edge", tuple(nodes), tuple(edges), plain.modules)


def device_level():
    """What the delegate's convolution is in TOSA: the row of Vela's table bears a tensor's name."""
    plain = edge_level()
    nodes = [Node("delegate_0/x", "placeholder", "input")]
    for name, op in (("conv2d_acc", "CONV2D"), ("conv2d", "RESCALE")):
        origin = {"origin": "conv2d"}
        node_id = f"delegate_0/{name}"
        nodes.append(Node(node_id, f"tosa.{op}", "call", "stem.conv", attrs=origin))
    edges = [Edge(a.id, b.id) for a, b in pairwise(nodes)]
    return GraphSnapshot("tosa", tuple(nodes), tuple(edges), plain.modules)


def write(stage, folder):
    write_result(stage, folder)
    if stage == "lower":
        edge_level().save(folder / "graph.json")
        device_level().save(folder / DEVICE_GRAPH_FILE)
        result = result_of("lower")
        left = result.cpu_nodes[0].model_copy(update={"node": "aten_linear_default"})
        save_result(result.model_copy(update={"cpu_nodes": (left,)}), folder)


@pytest.fixture
def graph(opened, qtbot, monkeypatch):
    """The panel after a whole run, with every result told."""
    monkeypatch.setattr("tests.fakes.engine.write_result", write)
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("graph")
    qtbot.waitUntil(lambda: panel.view.surface.scene is not None)
    panel.annotate()
    qtbot.waitUntil(lambda: "On the CPU" in panel.annotations.data.reasons.get("linear", ""))
    return panel


def typed(qtbot, panel, text):
    panel.search.box.clear()
    qtbot.keyClicks(panel.search.box, text)
    return panel.search.count.text()


def to_level(qtbot, panel, number):
    level = LEVELS[number].id
    panel.tabs.setCurrentIndex(number)
    qtbot.waitUntil(lambda: panel.annotations.data.level == level)
    qtbot.waitUntil(lambda: panel.snapshots.snapshot(level) is not None)
    wanted = panel.snapshots.snapshot(level)
    qtbot.waitUntil(
        lambda: panel.view.surface.scene is not None and panel.view.surface.scene.hierarchy.snapshot is wanted
    )


def overlay(panel, name):
    index = panel.overlay.combo.findData(name)
    panel.overlay.combo.setCurrentIndex(index)
    panel.overlay.combo.activated.emit(index)


def what_a_search_finds_is_stepped_through_and_configured(graph, qtbot, opened, notices, _):
    # A search counts and steps in both directions.
    assert typed(qtbot, graph, "module:stem.*") == "3 found"
    qtbot.keyClick(graph.search.box, Qt.Key.Key_Return)
    assert graph.search.count.text() == "1 of 3"
    assert opened.context.selection.value.nodes == {"conv2d"}
    qtbot.keyClick(graph.search.box, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert graph.search.count.text() == "3 of 3"
    assert graph.view.surface.selected == {"relu"}
    # The slash key goes to the search, and Escape goes back.
    graph.view.setFocus()
    qtbot.keyClick(graph.view, Qt.Key.Key_Slash)
    qtbot.waitUntil(graph.search.box.hasFocus)
    qtbot.keyClick(graph.search.box, Qt.Key.Key_Escape)
    qtbot.waitUntil(graph.view.hasFocus)
    # Blocks alike are configured in one step.
    graph.view.selection.choose_items(("stem/",))
    qtbot.keyClick(graph.view, Qt.Key.Key_2)
    rule = opened.document.project.rules[-1]
    assert (rule.kind, rule.match, rule.config) == ("module_name", "stem", PRESETS[1].id)
    # Everything found gets a config with one key.
    typed(qtbot, graph, "op:conv2d")
    graph.search.choose_all()
    qtbot.keyClick(graph.view, Qt.Key.Key_2)
    rule = opened.document.project.rules[-1]
    assert (rule.kind, rule.match) == ("node_name", "conv2d")
    # An operation of a fused group offers the group.
    graph.view.selection.jump("relu")
    qtbot.keyClick(graph.view, Qt.Key.Key_2)
    notices.take("stem.relu is fused with stem.conv, stem.bn")


@pytest.mark.slow
def test_that_numbers_of_the_results_can_be_searched(graph, qtbot):
    assert typed(qtbot, graph, "sqnr<40") == "1 found"
    assert typed(qtbot, graph, "cycles>800") == "1 found"
    assert "'sram'" in typed(qtbot, graph, "sram>3")
    assert "sqnr" in graph.search.box.toolTip()
    assert typed(qtbot, graph, "no such thing") == "no hits"


def overlays_say_how_they_came_about_and_pictures_are_saved(graph, qtbot, opened, notices, tmp_path):
    # An overlay says how its number came about.
    # The run on the simulator is told last.
    qtbot.waitUntil(lambda: graph.overlay.combo.count() == 10)
    titles = [graph.overlay.combo.itemText(i) for i in range(graph.overlay.combo.count())]
    assert titles == [
        "No overlay",
        "SQNR [dB] (measured)",
        "Max error (measured)",
        "Cycles (estimated)",
        "MACs (computed)",
        "SRAM [bytes] (estimated)",
        "Cycles outside SRAM (estimated)",
        "Utilisation [%] (estimated)",
        "FVP cycles (measured)",
        "FVP cycles above the estimate (measured)",
    ]
    overlay(graph, "sqnr")
    assert graph.view.surface.marks.overlay.title == "SQNR [dB], measured"
    assert not graph.overlay.log.isVisible()
    overlay(graph, "cycles")
    assert graph.view.surface.marks.overlay.values == {"conv2d": 900.0}
    graph.overlay.log.click()
    assert graph.view.surface.marks.overlay.is_log
    overlay(graph, "")
    assert graph.view.surface.marks.overlay is None
    # Pictures are saved and a failure is told.
    overlay(graph, "cycles")
    for name in ("graph.png", "graph.svg"):
        save_picture(graph.view, tmp_path / name, opened.context.notices.error)
        assert (tmp_path / name).stat().st_size > 1000
    assert "Cycles, estimated" in (tmp_path / "graph.svg").read_text()
    save_picture(graph.view, tmp_path / "nowhere" / "graph.png", opened.context.notices.error)
    notices.take("cannot be written")
    # A dropped file becomes an overlay.
    overlay(graph, "")
    path = tmp_path / "power.csv"
    path.write_text("node,Milli Watt\nconv2d,-3\nlinear,1.5\nnobody,2\n")
    graph.drop.take(path)
    qtbot.waitUntil(lambda: graph.view.surface.marks.overlay is not None)
    assert graph.view.surface.marks.overlay.middle == 0.0
    assert graph.overlay.combo.currentText() == "Milli Watt (from power.csv)"
    assert typed(qtbot, graph, "milli_watt<0") == "1 found"
    notices.take("1 of 3 names in 'power.csv' are not operations")
    (tmp_path / "bad.json").write_text("{")
    graph.drop.take(tmp_path / "bad.json")
    notices.take("is not JSON")


@pytest.mark.slow
def test_that_utilisation_is_the_share_of_what_the_device_can_do(graph):
    overlay(graph, "use")
    # 9,216 multiply-accumulates in 900 cycles of 128 each.
    assert graph.view.surface.marks.overlay.values == {"conv2d": pytest.approx(8.0)}


@pytest.mark.slow
def test_that_an_overlay_follows_to_other_levels(graph, qtbot):
    overlay(graph, "cycles")
    to_level(qtbot, graph, 3)
    assert graph.view.surface.marks.overlay.values == {"aten_convolution_default": 900.0}


def chosen_operations_and_reasons_are_the_same_at_every_level(graph, qtbot, opened, *_):
    # What was chosen stays chosen at every level.
    opened.context.selection.choose_nodes(["conv2d"])
    to_level(qtbot, graph, 3)
    assert graph.view.surface.selected == {"aten_convolution_default"}
    to_level(qtbot, graph, 0)
    assert graph.view.surface.selected == {"conv2d"}
    # A reason is hatched at every level.
    told = graph.view.surface.marks.reasons["linear"]
    assert "Not quantized: no pattern takes it" in told
    assert "On the CPU: float32 is not taken" in told
    to_level(qtbot, graph, 3)
    assert graph.view.surface.marks.reasons["aten_linear_default"] == told
    # An operation of the device is told by its float name.
    to_level(qtbot, graph, 3)
    graph.view.selection.changed.emit(frozenset({"aten_convolution_default"}))
    assert opened.context.selection.value.nodes == {"conv2d"}
    # The TOSA level has the cycles at the very operator.
    overlay(graph, "cycles")
    to_level(qtbot, graph, 4)
    assert graph.view.surface.marks.overlay.values == {"delegate_0/conv2d": 900.0}
    graph.view.selection.changed.emit(frozenset({"delegate_0/conv2d_acc"}))
    assert opened.context.selection.value.nodes == {"conv2d"}


def the_rail_shows_a_chain_and_a_part_shows_alone(graph, qtbot, opened, *_):
    # The rail shows the chain and moves along it.
    opened.context.selection.choose_nodes(["conv2d"])
    qtbot.waitUntil(lambda: bool(graph.rail.texts()))
    assert graph.rail.texts() == [
        "Float conv2d",
        "Prepared conv2d",
        "Quantized conv2d",
        "Edge aten_conv…n_default",
        "TOSA conv2d_acc, conv2d",
        "Vela Conv2D, 900 cycles",
    ]
    stops = graph.rail.findChildren(QToolButton)
    qtbot.mouseClick(stops[3], Qt.MouseButton.LeftButton)
    assert graph.level == "lower"
    # The rail says what has no counterpart.
    to_level(qtbot, graph, 0)
    opened.context.selection.clear()
    qtbot.waitUntil(lambda: not graph.rail.texts())
    opened.context.selection.choose_nodes(["batch_norm"])
    qtbot.waitUntil(lambda: bool(graph.rail.texts()))
    assert graph.rail.texts()[3:] == ["Edge none", "TOSA none", "Vela none"]
    opened.context.selection.clear()
    qtbot.waitUntil(lambda: not graph.rail.texts())
    assert not graph.rail.isVisible()
    # A part shows alone until all is asked for.
    opened.context.selection.choose_nodes(["relu"])
    qtbot.waitUntil(lambda: graph.view.surface.selected == {"relu"})
    with qtbot.waitSignal(graph.view.groups.laid_out):
        qtbot.keyClick(graph.view, Qt.Key.Key_I)
    assert graph.note.isVisible()
    shown = graph.view.surface.scene.hierarchy.snapshot.nodes_by_id
    assert set(shown) == {"batch_norm", "relu", "linear"}
    with qtbot.waitSignal(graph.view.groups.laid_out):
        qtbot.mouseClick(graph.note.show_all, Qt.MouseButton.LeftButton)
    assert not graph.note.isVisible()
    assert len(graph.view.surface.scene.hierarchy.snapshot.nodes) == 6


@pytest.mark.slow
def test_that_a_line_of_python_is_copied(graph, notices):
    graph.rail.asked.emit("source:net.py:7")
    assert QGuiApplication.clipboard().text() == "net.py:7"
    notices.take("Copied net.py:7")


def test_that_an_empty_graph_is_read_and_pictures_are_asked_for_by_kind(opened):
    panel = opened.window.reveal("graph")
    for suffix in ("png", "svg"):
        panel.bar.picture_asked.emit(suffix)
        (dialog,) = [d for d in opened.window.findChildren(QFileDialog) if d.isVisible()]
        (shown,) = dialog.nameFilters()
        assert f"(*.{suffix})" in shown
        assert dialog.defaultSuffix() == suffix
        dialog.reject()
    panel.annotate()
    assert panel.overlay.combo.count() == 1
    assert panel.rail.texts() == []
    assert not panel.note.isVisible()


@pytest.mark.slow
def test_that_a_delegate_is_not_taken_for_the_whole_model(graph, opened):
    graph.view.selection.changed.emit(frozenset({"conv2d", "linear"}))
    graph.view.selection.groups_chosen.emit(frozenset({""}))
    assert opened.context.selection.value.modules == frozenset()
    assert opened.context.selection.value.nodes == {"conv2d", "linear"}


def beside(qtbot, panel, title):
    panel.bar.menus["beside"].aboutToShow.emit()
    (action,) = [a for a in panel.bar.menus["beside"].actions() if a.text() == title]
    action.trigger()
    qtbot.waitUntil(lambda: panel.comparison.pairing is not None)
    qtbot.waitUntil(lambda: panel.comparison.pane.view.surface.scene is not None)
    return panel.comparison.pane


@pytest.mark.slow
def test_that_groups_of_two_graphs_open_and_close_together(graph, qtbot):
    pane = beside(qtbot, graph, "Edge level")
    left, right = graph.view.groups, pane.view.groups
    both = right.hierarchy.groups.keys() & left.hierarchy.groups.keys()
    group = min(both - {"/"})
    qtbot.waitUntil(lambda: (group in left.expanded) == (group in right.expanded))
    was = group in left.expanded
    right.toggle(group)
    qtbot.waitUntil(lambda: (group in left.expanded) is not was)
    left.toggle(group)
    qtbot.waitUntil(lambda: (group in right.expanded) is was)
    left.set_shape("flat")
    qtbot.waitUntil(lambda: pane.view.surface.scene.hierarchy.shape == "flat")
    graph.bar.flow_asked.emit("wrapped")
    qtbot.waitUntil(lambda: pane.view.surface.scene.flow == "wrapped")


@pytest.mark.slow
def test_that_the_direction_of_the_drawing_is_remembered(graph, qtbot, opened):
    (action,) = [a for a in graph.bar.menus["flow"].actions() if a.text() == "Left to right"]
    action.trigger()
    qtbot.waitUntil(lambda: graph.view.surface.scene.flow == "right")
    assert action.isChecked()
    assert Settings().graph_flow == "right"


@pytest.mark.slow
def test_that_an_earlier_run_of_a_level_can_stand_beside_it(graph, qtbot, opened):
    to_level(qtbot, graph, 2)
    opened.context.assigner.modules(["stem"], "a16w8")
    qtbot.waitUntil(lambda: opened.session.result("convert") is None)
    run_to(opened, qtbot, "")
    qtbot.waitUntil(
        lambda: (
            [o.title.startswith("Quantized of run 1") for o in graph.graph_files.past("convert")] == [True]
        )
    )
    pane = beside(qtbot, graph, graph.graph_files.past("convert")[0].title)
    assert pane.counts.text() == "no differences"
    qtbot.waitUntil(lambda: "sqnr_more" in graph.annotations.data.measures)
    overlay(graph, "sqnr_more")
    assert graph.view.surface.marks.overlay.middle == 0.0
    assert set(graph.view.surface.marks.overlay.values.values()) == {0.0}


def two_levels_stand_side_by_side_and_places_are_bookmarked(graph, qtbot, opened, *_):
    # Two levels stand side by side with one selection.
    pane = beside(qtbot, graph, "Edge level")
    assert pane.counts.text() == "+ 1 only right   \u2212 1 only left"
    assert graph.view.surface.marks.differences == {"batch_norm": "removed"}
    assert pane.view.surface.marks.differences == {"q": "added"}
    opened.context.selection.choose_nodes(["linear"])
    qtbot.waitUntil(lambda: pane.view.surface.selected == {"aten_linear_default"})
    pane.view.selection.changed.emit(frozenset({"aten_relu_default"}))
    assert opened.context.selection.value.nodes == {"relu"}
    assert graph.view.surface.selected == {"relu"}
    # Differences are stepped through, and the pane closes.
    pane.step_asked.emit(1)
    assert graph.view.surface.selected == {"batch_norm"}
    pane.step_asked.emit(1)
    assert pane.view.surface.selected == {"q"}
    pane.close_asked.emit()
    assert graph.comparison.pane is None
    assert graph.view.surface.marks.differences == {}
    # Places are bookmarked undone and found again.
    graph.view.groups.expand_all()
    qtbot.waitUntil(lambda: graph.view.groups.is_expanded("stem") and not graph.view.surface.is_waiting)
    graph.view.surface.look(graph.view.surface.camera.zoomed(2.0, QPointF(100, 100)))
    middle = graph.view.surface.middle()
    graph.bookmarks.bookmark("stem, large", graph.level)
    assert opened.document.undo_stack.undoText() == "Add bookmark stem, large"
    graph.view.groups.collapse_all()
    qtbot.waitUntil(lambda: not graph.view.groups.is_expanded("stem") and not graph.view.surface.is_waiting)
    to_level(qtbot, graph, 3)
    graph.bar.menus["bookmark"].aboutToShow.emit()
    (go,) = [a for a in graph.bar.menus["bookmark"].actions() if a.text() == "stem, large"]
    go.trigger()
    qtbot.waitUntil(lambda: graph.level == "export" and graph.view.groups.is_expanded("stem"))
    qtbot.waitUntil(lambda: (graph.view.surface.middle() - middle).manhattanLength() < 3)
    opened.document.undo_stack.undo()
    assert opened.document.project.graph.bookmarks == ()


@for_each(
    "promise",
    [
        the_rail_shows_a_chain_and_a_part_shows_alone,
        what_a_search_finds_is_stepped_through_and_configured,
        chosen_operations_and_reasons_are_the_same_at_every_level,
        two_levels_stand_side_by_side_and_places_are_bookmarked,
        overlays_say_how_they_came_about_and_pictures_are_saved,
    ],
)
def test_that_the_graph_tells_results_and_follows_what_is_chosen(
    promise, graph, qtbot, opened, notices, tmp_path
):
    opened.document.undo_stack.setIndex(0)
    opened.context.selection.clear()
    graph.search.box.clear()
    overlay(graph, "")
    to_level(qtbot, graph, 0)
    promise(graph, qtbot, opened, notices, tmp_path)


def test_that_a_bookmark_of_any_numbers_is_gone_to(graph, qtbot, opened):
    """A project of somebody else may name a place that no window can show."""
    to_level(qtbot, graph, 0)
    for scale, far, anchor in (
        (5e-324, 0.0, ""),
        (1e-9, 1e308, ""),
        (1e308, -1e308, ""),
        (1e308, 1e308, "conv2d"),
        (5e-324, -1e308, "conv2d"),
    ):
        bookmark = Bookmark(name="far", level=graph.level, scale=scale, anchor=anchor, dx=far, dy=far)
        graph.view.places.go_to(view_of(bookmark))
        qtbot.wait(50)
        assert not graph.grab().isNull()
        camera = graph.view.surface.camera
        assert SMALLEST <= camera.scale <= LARGEST
        assert math.isfinite(camera.x)
        assert math.isfinite(camera.y)
        assert graph.view.surface.area().intersects(graph.view.surface.scene.bounds)


def test_that_the_graph_of_another_project_begins_at_its_input(graph, qtbot, opened, tmp_path):
    to_level(qtbot, graph, 0)
    surface = graph.view.surface
    former = surface.scene
    surface.look(surface.centring(former.rect("output"), 4.0))
    assert not surface.area().intersects(former.rect("x"))
    # The panel is not visible when the other project is opened and run.
    opened.window.show_workspace("deliver")
    opened.document.open(write_project(tmp_path / "other", make_project()))
    assert surface.scene is None
    run_to(opened, qtbot, "evaluate")
    opened.window.reveal("graph")
    qtbot.waitUntil(lambda: surface.scene is not None and surface.scene is not former)
    assert surface.area().intersects(surface.scene.rect("x"))


@pytest.mark.slow
def test_that_a_kept_search_colours_what_it_finds(graph, qtbot, opened):
    typed(qtbot, graph, "op:conv2d")
    graph.search.keep_asked.emit("op:conv2d")
    graph.search.keep_asked.emit("sram>3")
    qtbot.waitUntil(lambda: graph.view.surface.marks.search_hits == {"conv2d": (0,)})
    assert [b.text() for b in graph.bar.saved.buttons] == ["op:conv2d  1", "sram>3  unknown number"]
    graph.bar.saved.buttons[0].click()
    qtbot.waitUntil(lambda: graph.view.surface.marks.search_hits == {})
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: graph.view.surface.marks.search_hits == {"conv2d": (0,)})


@pytest.mark.slow
def test_that_a_damaged_graph_beside_is_told(graph, qtbot, notices):
    graph.graph_files.files["prepare"].write_text("{")
    graph.bar.menus["beside"].aboutToShow.emit()
    (action,) = [a for a in graph.bar.menus["beside"].actions() if a.text() == "Prepared level"]
    action.trigger()
    qtbot.waitUntil(lambda: graph.comparison.pane is None)
    notices.take("damaged")


def test_that_tools_without_space_move_into_a_menu(qtbot):
    bar = GraphBar()
    qtbot.addWidget(bar)
    bar.resize(1200, 80)
    bar.show()
    qtbot.waitExposed(bar)
    assert not bar.tool_row.more.isVisible()
    bar.resize(bar.minimumSizeHint())
    hidden = [tool for tool in bar.tools.values() if not tool.isVisible()]
    assert bar.tool_row.more.isVisible()
    assert hidden
    assert bar.tabs.width() >= bar.tabs.sizeHint().width()
    menu = bar.tool_row.more.menu()
    menu.aboutToShow.emit()
    assert [a.text() for a in menu.actions()] == [tool.toolTip() for tool in hidden]
    with qtbot.waitSignal(bar.tools["fit"].clicked):
        next(a for a in menu.actions() if a.text() == bar.tools["fit"].toolTip()).trigger()
