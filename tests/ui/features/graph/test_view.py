"""A graph under mouse and keyboard: what gets selected, opened, closed and told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from tests.for_each import for_each
from tests.problems import refused
from ui.features.graph.paint_overlays import has_map, map_rect, map_strip
from workbench.graph.snapshot import Edge, GraphSnapshot, Node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from ui.features.graph.graph_view import GraphView
    from workbench.graph.layout import Flow

    Show = Callable[[GraphSnapshot | None], GraphView]

LAYER_0 = frozenset({"conv2d_0", "relu_0", "add_0"})


def place(view: GraphView, item: str, dx: float = 40.0, dy: float = 12.0) -> QPoint:
    """Return where to point in the window to mean an item."""
    assert view.surface.scene is not None
    rect = view.surface.scene.rect(item)
    inside = QPointF(min(dx, rect.width() / 2), min(dy, rect.height() / 2))
    return view.surface.camera.to_window(rect.topLeft() + inside).toPoint()


def click(
    qtbot: QtBot, view: GraphView, item: str, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, modifier, place(view, item))


def open_layers(qtbot: QtBot, view: GraphView) -> None:
    """Close all, then open the list of layers and the first layer."""
    if view.groups.expanded:
        with qtbot.waitSignal(view.groups.laid_out):
            view.groups.collapse_all()
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand("layers/0")
    view.places.fit()


def test_that_clicking_an_operation_selects_it(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    with qtbot.waitSignal(view.selection.changed) as told:
        click(qtbot, view, "relu_0")
    assert told.args == [frozenset({"relu_0"})]
    assert "aten.relu.default" in view.accessibleDescription()
    assert "module layers.0" in view.accessibleDescription()
    assert "1\u00d78\u00d74\u00d74 float32" in view.accessibleDescription()


def test_that_ctrl_adds_and_takes_away(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    click(qtbot, view, "relu_0")
    click(qtbot, view, "add_0", Qt.KeyboardModifier.ControlModifier)
    assert view.surface.selected == {"relu_0", "add_0"}
    click(qtbot, view, "relu_0", Qt.KeyboardModifier.ControlModifier)
    assert view.surface.selected == {"add_0"}


def with_closed_layers(qtbot: QtBot, view: GraphView) -> GraphView:
    """Open the list of layers, all of which stay closed."""
    open_layers(qtbot, view)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.collapse("layers/0")
    return view


def test_that_clicking_a_closed_group_selects_all_in_it(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = with_closed_layers(qtbot, show(layers))
    with qtbot.waitSignal(view.selection.groups_chosen) as told:
        click(qtbot, view, "layers/0/")
    assert told.args == [frozenset({"layers.0"})]
    assert view.surface.selected == LAYER_0


def test_that_ctrl_adds_closed_groups_and_takes_them_away(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = with_closed_layers(qtbot, show(layers))
    control = Qt.KeyboardModifier.ControlModifier
    click(qtbot, view, "layers/0/")
    with qtbot.waitSignal(view.selection.groups_chosen) as told:
        click(qtbot, view, "layers/1/", control)
    assert told.args == [frozenset({"layers.0", "layers.1"})]
    with qtbot.waitSignal(view.selection.groups_chosen) as told:
        click(qtbot, view, "layers/0/", control)
    assert told.args == [frozenset({"layers.1"})]


def test_that_clicking_empty_ground_and_escape_clear(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    click(qtbot, view, "relu_0")
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
    assert view.surface.selected == frozenset()
    click(qtbot, view, "relu_0")
    with qtbot.waitSignal(view.selection.changed) as told:
        qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert told.args == [frozenset()]
    assert view.accessibleDescription() == "No selection"


def test_that_a_rubber_band_selects_what_it_touches(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    shift = Qt.KeyboardModifier.ShiftModifier
    start, end = place(view, "conv2d_0", -20, -8), place(view, "relu_0", 30, 20)
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, shift, start)
    qtbot.mouseMove(view, end)
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, shift, end)
    assert view.surface.selected == {"conv2d_0", "relu_0"}


def test_that_dragging_pans_and_selects_nothing(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    before = view.surface.camera
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(10, 10))
    qtbot.mouseMove(view, QPoint(60, 40))
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(60, 40))
    assert (view.surface.camera.x, view.surface.camera.y) != (before.x, before.y)
    assert view.surface.selected == frozenset()


def turn_wheel(view: GraphView, mouse: QPointF, angle: int) -> None:
    QApplication.sendEvent(
        view,
        QWheelEvent(
            mouse,
            mouse,
            QPoint(),
            QPoint(0, angle),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        ),
    )


@for_each(("x", "y"), [(5.0, 5.0), (590.0, 390.0)])
def test_that_a_graph_that_is_zoomed_out_is_in_the_middle(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, x: float, y: float
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    for _ in range(12):
        turn_wheel(view, QPointF(x, y), -240)
    assert view.surface.scene is not None
    at = view.surface.camera.to_window(view.surface.scene.bounds.center())
    middle = QRectF(QPointF(), view.surface.size()).center()
    assert (at.x(), at.y()) == pytest.approx((middle.x(), middle.y()), abs=1)
    # It is no smaller than all of it needs.
    whole = view.surface.fitting(view.surface.scene.bounds).scale
    assert view.surface.camera.scale == pytest.approx(min(whole, 1.0))


def test_that_zooming_leaves_what_is_under_the_mouse_in_place(show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    mouse = QPointF(200, 150)
    before = view.surface.camera.to_scene(mouse)
    turn_wheel(view, mouse, 240)
    after = view.surface.camera.to_scene(mouse)
    assert (after.x(), after.y()) == pytest.approx((before.x(), before.y()))


@pytest.mark.parametrize("way", ["double-click", "sign", "enter"])
def test_that_a_group_opens_and_its_header_stays_under_the_mouse(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, way: str
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    before = place(view, "layers/1/")
    with qtbot.waitSignal(view.groups.laid_out):
        if way == "double-click":
            qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=before)
        elif way == "sign":
            sign = place(view, "layers/1/", 8, 10)
            qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=sign)
        else:
            click(qtbot, view, "layers/1/")
            qtbot.keyClick(view, Qt.Key.Key_Return)
    assert view.groups.is_expanded("layers/1")
    assert (place(view, "layers/1/") - before).manhattanLength() <= 2
    view.grab()
    with qtbot.waitSignal(view.groups.laid_out):
        qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=place(view, "layers/1/"))
    assert not view.groups.is_expanded("layers/1")
    assert (place(view, "layers/1/") - before).manhattanLength() <= 2


def test_that_arrows_walk_along_edges_and_into_groups(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    click(qtbot, view, "x")
    walked = []
    for _ in range(6):
        qtbot.keyClick(view, Qt.Key.Key_Down)
        walked.append(view.surface.current)
    assert walked == ["layers/", "layers/0/", "conv2d_0", "relu_0", "add_0", "layers/1/"]
    qtbot.keyClick(view, Qt.Key.Key_Up)
    assert view.surface.current == "layers/0/"


def test_that_keys_ask_for_presets_search_and_all(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    with qtbot.waitSignal(view.preset_key_pressed) as told:
        qtbot.keyClick(view, Qt.Key.Key_3)
    assert told.args == [3]
    with qtbot.waitSignal(view.search_requested):
        qtbot.keyClick(view, Qt.Key.Key_Slash)
    view.surface.look(view.surface.camera.panned(5000, 5000))
    qtbot.keyClick(view, Qt.Key.Key_F)
    picture = view.surface.picture()
    assert picture is not None
    assert picture.area.contains(picture.scene.bounds)


def test_that_selecting_from_elsewhere_opens_the_way_and_tells_nobody(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    if view.groups.expanded:
        with qtbot.waitSignal(view.groups.laid_out):
            view.groups.collapse_all()
    with qtbot.assertNotEmitted(view.selection.changed), qtbot.waitSignal(view.groups.laid_out):
        view.selection.select(frozenset({"relu_2"}), reveal=True)
    picture = view.surface.picture()
    assert picture is not None
    assert picture.area.contains(picture.scene.rect("relu_2"))
    assert "aten.relu.default" in view.accessibleDescription()


def test_that_tracing_reaches_all_ancestors_and_descendants(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    view.selection.select(frozenset({"conv2d_1"}))
    qtbot.keyClick(view, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert view.surface.selected == {"x", "conv2d_1"} | LAYER_0


def test_that_going_back_shows_the_former_place_and_forward_the_later(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    before = view.places.here()
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.collapse("layers")
    after = view.places.here()
    alt = Qt.KeyboardModifier.AltModifier
    with qtbot.waitSignal(view.groups.laid_out):
        qtbot.keyClick(view, Qt.Key.Key_Left, alt)
    assert view.places.here() == before
    with qtbot.waitSignal(view.groups.laid_out):
        qtbot.keyClick(view, Qt.Key.Key_Right, alt)
    assert view.places.here() == after
    with qtbot.waitSignal(view.groups.laid_out):
        view.places.go_to(before)
    assert view.places.here() == before


def test_that_closing_all_from_far_below_leaves_something_to_see(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    view.surface.look(view.surface.camera.panned(0, -20_000))
    if view.groups.expanded:
        with qtbot.waitSignal(view.groups.laid_out):
            view.groups.collapse_all()
    picture = view.surface.picture()
    assert picture is not None
    assert picture.area.intersects(picture.scene.bounds)


def test_that_everything_opens_and_closes(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    assert all(view.groups.is_expanded(f"layers/{k}") for k in range(3))
    if view.groups.expanded:
        with qtbot.waitSignal(view.groups.laid_out):
            view.groups.collapse_all()
    assert not view.groups.is_expanded("layers")


def test_that_open_groups_stay_open_in_another_level_of_the_program(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    other = GraphSnapshot("converted", layers.nodes, layers.edges, layers.modules)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.render_snapshot(other)
    assert view.groups.is_expanded("layers/0")
    view.groups.render_snapshot(None)
    assert view.surface.scene is None
    view.grab()


def test_that_the_view_is_written_as_image_and_as_vectors(
    show: Show, layers: GraphSnapshot, tmp_path: Path
) -> None:
    view = show(layers)
    view.surface.export_png(tmp_path / "graph.png")
    view.surface.export_svg(tmp_path / "graph.svg")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert "layers" in (tmp_path / "graph.svg").read_text(encoding="utf-8")
    for write in (view.surface.export_png, view.surface.export_svg):
        with refused("picture-not-writable"):
            write(tmp_path / "nowhere" / "graph.file")


@pytest.mark.parametrize(
    "snapshot",
    [
        GraphSnapshot("float", (), ()),
        GraphSnapshot("float", (Node("n", "op", "call"),), ()),
        GraphSnapshot("float", (Node("n" * 4000, "层" * 4000, "call"),), ()),
        GraphSnapshot(
            "float",
            (Node("a", "op", "call"), Node("b", "op", "call")),
            (Edge("a", "b"), Edge("b", "a"), Edge("a", "a")),
        ),
        pytest.param(
            GraphSnapshot(
                "float",
                tuple(Node(f"n{k}", "aten.relu.default", "call") for k in range(2001)),
                tuple(Edge("n0", f"n{k}") for k in range(1, 2001)),
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["empty", "one", "long names", "cycle", "two thousand users"],
)
def test_that_odd_graphs_are_drawn(qtbot: QtBot, show: Show, snapshot: GraphSnapshot) -> None:
    view = show(snapshot)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    view.places.fit()
    assert not view.grab().isNull()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Return, Qt.Key.Key_Up):
        qtbot.keyClick(view, key)
    assert not view.grab().isNull()


def test_that_a_view_closes_while_it_is_laying_out(show: Show, layers: GraphSnapshot) -> None:
    view = show(None)
    view.groups.render_snapshot(layers)
    view.groups.expand_all()
    view.groups.stop()
    view.groups.expand_all()
    assert view.surface.scene is None


@pytest.mark.parametrize("is_shown", [True, False])
def test_that_a_narrower_view_keeps_the_drawing_in_its_middle(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, is_shown: bool
) -> None:
    view = show(layers)
    view.places.fit()
    view.setVisible(is_shown)
    view.resize(500, 700)
    view.show()
    qtbot.waitExposed(view)
    qtbot.waitUntil(lambda: view.width() == 500)
    middle = view.surface.camera.to_window(view.surface.scene.bounds.center())
    assert abs(middle.x() - 250) < 2


def test_that_the_middle_is_that_of_the_drawing_beside_the_minimap(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    zoom_in(view, "down")
    qtbot.waitUntil(lambda: not view.surface.strip.isEmpty())
    before = view.surface.middle().x()
    view.resize(600, 300)
    assert abs(view.surface.middle().x() - before) < 1


def test_that_buttons_zoom_and_say_the_scale(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    before = view.surface.camera.scale
    qtbot.mouseClick(view.zoom_buttons.larger, Qt.MouseButton.LeftButton)
    assert view.surface.camera.scale == pytest.approx(1.25 * before)
    assert view.zoom_buttons.scale.text() == f"{100 * view.surface.camera.scale:.0f} %"
    qtbot.mouseClick(view.zoom_buttons.smaller, Qt.MouseButton.LeftButton)
    assert view.surface.camera.scale == pytest.approx(before)
    qtbot.mouseClick(view.zoom_buttons.scale, Qt.MouseButton.LeftButton)
    assert view.zoom_buttons.scale.text() == "100 %"


def test_that_a_graph_opens_with_legible_titles(show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    # Titles have 12 px at scale 1.
    assert 12 * view.surface.camera.scale >= 10


@pytest.mark.parametrize("flow", ["right", "wrapped"])
def test_that_another_direction_keeps_open_groups_and_back_returns(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, flow: Flow
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    opened = view.groups.expanded
    assert opened
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.set_flow(flow)
    assert view.surface.scene is not None
    assert (view.surface.scene.flow, view.groups.expanded) == (flow, opened)
    with qtbot.waitSignal(view.groups.laid_out):
        qtbot.keyClick(view, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert view.surface.scene.flow == "down"
    view.grab()


def test_that_arrow_keys_follow_edges_to_the_right(qtbot: QtBot, show: Show, layers: GraphSnapshot) -> None:
    view = show(layers)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.set_flow("right")
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert view.surface.current == "x"
    assert view.surface.scene is not None
    first = view.surface.scene.rect("x")
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert view.surface.current not in ("x", None)
    assert view.surface.scene.rect(str(view.surface.current)).left() > first.right()
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert view.surface.current == "x"


def test_that_a_long_drawing_to_the_right_starts_at_its_left_side(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    view.groups.set_flow("right")
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.expand_all()
    qtbot.waitUntil(lambda: bool(view.surface.scene and view.surface.scene.expanded))
    view.resize(400, 300)
    view.places.fit()
    assert view.surface.area().left() <= 0


def zoom_in(view: GraphView, flow: Flow) -> None:
    """Draw in a flow at four times the size."""
    view.groups.set_flow(flow)
    view.surface.look(view.surface.camera.zoomed(4.0, QPointF(0, 0)))


def test_that_a_graph_of_which_most_is_visible_has_no_minimap(show: Show, layers: GraphSnapshot) -> None:
    scene = show(layers).surface.scene
    assert scene is not None
    wide, high = 4 * scene.bounds.width(), 4 * scene.bounds.height()
    assert not has_map(scene, QSizeF(wide, high), 4.0)
    assert not has_map(scene, QSizeF(wide, 0.8 * high), 4.0)
    assert has_map(scene, QSizeF(wide, 0.5 * high), 4.0)
    assert has_map(scene, QSizeF(wide, high), 8.0)
    assert map_strip(scene, QSizeF(400, 300)).width() <= 80


def test_that_the_minimap_has_a_place_beside_the_drawing(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    assert view.surface.strip.isEmpty()
    assert view.surface.size() == view.size().toSizeF()
    zoom_in(view, "down")
    strip, drawing = view.surface.strip, QRectF(QPointF(), view.surface.size())
    assert drawing.width() + strip.width() == view.width()
    assert not strip.intersects(view.zoom_buttons.geometry().toRectF())
    for item in LAYER_0:
        view.selection.jump(item)
        corner = view.surface.camera.to_window(view.surface.scene.rect(item).bottomRight())
        assert drawing.contains(corner), item


@pytest.mark.parametrize("width", [150, 220, 900])
def test_that_the_zoom_buttons_cover_no_item_of_a_fitted_graph(
    qtbot: QtBot, show: Show, layers: GraphSnapshot, width: int
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    view.resize(width, 500)
    view.places.fit()
    scene, camera = view.surface.scene, view.surface.camera
    assert scene is not None
    buttons = view.zoom_buttons.geometry().toRectF()
    for item in scene.items_in(scene.bounds):
        rect = scene.rect(item)
        shown = QRectF(camera.to_window(rect.topLeft()), camera.to_window(rect.bottomRight()))
        assert not shown.intersects(buttons), item
        assert view.rect().toRectF().contains(shown), item


def test_that_the_minimap_of_a_drawing_to_the_right_is_below_it(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    with qtbot.waitSignal(view.groups.laid_out):
        view.groups.set_flow("right")
    zoom_in(view, "right")
    assert view.surface.size().width() == view.width()
    assert view.surface.size().height() + view.surface.strip.height() == view.height()


def test_that_pressing_in_the_minimap_shows_that_part_of_the_graph(
    qtbot: QtBot, show: Show, layers: GraphSnapshot
) -> None:
    view = show(layers)
    open_layers(qtbot, view)
    zoom_in(view, "down")
    scene, strip = view.surface.scene, view.surface.strip
    assert scene is not None
    bottom = map_rect(scene, strip).bottomLeft().toPoint() + QPoint(2, -2)
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=bottom)
    assert abs(view.surface.middle().y() - scene.bounds.height()) < 20
    # Beside the minimap in its strip nothing is selected, and the end of the graph is shown.
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=strip.bottomLeft().toPoint())
    assert view.surface.middle().y() == pytest.approx(scene.bounds.height(), abs=1)
    assert not view.surface.selected
