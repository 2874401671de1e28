"""The graph widget: mouse, keyboard, tooltips and context menus."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QNativeGestureEvent,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QRubberBand, QToolButton, QToolTip, QWidget

from ui.features.graph.graph_groups import GraphGroups
from ui.features.graph.graph_places import GraphPlaces
from ui.features.graph.graph_selection import GraphSelection
from ui.features.graph.graph_surface import GraphSurface
from ui.features.graph.navigation import tooltip, walk
from ui.features.graph.paint_headers import hit_header
from ui.features.graph.paint_overlays import legend_bar, map_to_scene
from ui.features.graph.picture import CLOSE
from ui.state.background import window_first
from workbench.graph.compare import alike_anywhere
from workbench.graph.hierarchy import ROOT
from workbench.graph.labels import elide

if TYPE_CHECKING:
    from collections.abc import Callable

    from ui.features.graph.scene import Part
    from ui.shared.theme import Theme
    from workbench.graph.hierarchy import Hierarchy


ENDS_SHOWN = 24
ZOOM_FACTOR = 1.25


def context_menu(view: GraphView, item: str | None) -> QMenu:
    """Return the context menu of an item; None is the background."""
    menu = QMenu(view)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    scene = view.surface.scene
    if scene is not None and item is not None:
        if item in scene.hierarchy.groups:
            _add_group(menu, view, item)
        elif (parent := scene.hierarchy.parent.get(item, ROOT)) != ROOT:
            name = scene.hierarchy.groups[parent].label
            menu.addAction(f"Close group {name}", partial(view.groups.collapse, parent))
            menu.addAction(f"Select all in {name}", partial(view.selection.choose_items, (parent,)))
        add_jumps(menu, view, item)
        menu.addSeparator()
        menu.addAction("Select all ancestors\tAlt+Up", partial(view.selection.trace, forwards=False))
        menu.addAction("Select all descendants\tAlt+Down", partial(view.selection.trace, forwards=True))
        menu.addSeparator()
    if view.surface.selected:
        menu.addAction("Isolate selection\tI", view.groups.isolate_selection)
    if view.groups.isolated:
        menu.addAction("Show whole graph", view.groups.show_all)
    menu.addAction("Open all groups", view.groups.expand_all)
    menu.addAction("Close all groups", view.groups.collapse_all)
    menu.addAction("Fit\tF", view.places.fit)
    return menu


def add_jumps(menu: QMenu, view: GraphView, item: str) -> None:
    """Add submenus with the inputs and the consumers of an operation or a group."""
    if view.surface.scene is None:
        return
    reads, written = view.surface.scene.hierarchy.border(item)
    for words, ends in (("Go to input", reads), ("Go to consumer", written)):
        if ends:
            below = menu.addMenu(f"{words} ({len(ends)})")
            add_ends(below, view, ends)


def add_ends(menu: QMenu, view: GraphView, ends: tuple[str, ...]) -> None:
    """Add an entry per operation that goes to it."""
    if view.surface.scene is None:
        return
    hierarchy = view.surface.scene.hierarchy
    for end in ends[:ENDS_SHOWN]:
        node = hierarchy.node(end)
        where = f"  ({elide(node.module)})" if node is not None and node.module else ""
        menu.addAction(f"{elide(hierarchy.title(end))}{where}", partial(view.selection.jump, end))
    if len(ends) > ENDS_SHOWN:
        menu.addAction(f"and {len(ends) - ENDS_SHOWN:,} more").setEnabled(False)


def _add_group(menu: QMenu, view: GraphView, item: str) -> None:
    if view.groups.is_expanded(item):
        menu.addAction("Close group\tEnter", partial(view.groups.collapse, item))
    else:
        menu.addAction("Open group\tEnter", partial(view.groups.expand, item))
    menu.addAction("Open all groups inside", partial(view.groups.expand_below, item))
    if view.surface.scene is None:
        return
    _add_equal_blocks(menu, view, view.surface.scene.hierarchy, item)


def _add_equal_blocks(menu: QMenu, view: GraphView, hierarchy: Hierarchy, item: str) -> None:
    """Add entries that select blocks of the same structure."""
    known = 1
    for words, blocks in (
        ("Select {} equal blocks in this group", hierarchy.twins(item)),
        ("Select {} equal blocks in the graph", alike_anywhere(hierarchy, item)),
        ("Select {} equal blocks with any shapes", alike_anywhere(hierarchy, item, any_shape=True)),
    ):
        if len(blocks) > known:
            menu.addAction(words.format(len(blocks)), partial(view.selection.choose_items, blocks))
            known = len(blocks)


DRAG_FROM = 4
LEAST_BRUSH = 0.02
ZOOM_STEP = 1.0015
# The space around the zoom buttons in their corner.
_BUTTONS_PX = 8
ARROWS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Right)


class ZoomButtons(QFrame):
    """The scale of the drawing, with buttons to change it.

    Signals:
        zoomed: the factor to zoom by, around the middle.
        reset_asked: full size is asked for.
    """

    zoomed = Signal(float)
    reset_asked = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("zoomButtons")
        self.setAutoFillBackground(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 2, 2, 2)
        row.setSpacing(0)
        self.smaller, self.scale, self.larger = (self._button(text) for text in ("\u2212", "100 %", "+"))
        self.smaller.setToolTip("Zoom out (\u2212)")
        self.scale.setToolTip("Zoom to full size")
        self.larger.setToolTip("Zoom in (+)")
        self.smaller.clicked.connect(lambda: self.zoomed.emit(1 / ZOOM_FACTOR))
        self.scale.clicked.connect(self.reset_asked)
        self.larger.clicked.connect(lambda: self.zoomed.emit(ZOOM_FACTOR))
        self.scale.setFixedWidth(self.scale.fontMetrics().horizontalAdvance("1000 %") + 12)
        for button in (self.smaller, self.scale, self.larger):
            row.addWidget(button)
        self.adjustSize()

    def _button(self, text: str) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setAutoRaise(True)
        # The graph keeps the keyboard; it has keys for all of them.
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        return button

    def render_scale(self, scale: float) -> None:
        """Show a scale; 1 is full size."""
        self.scale.setText(f"{100 * scale:.3g} %" if scale < 0.1 else f"{100 * scale:.0f} %")


class GraphView(QWidget):
    """The graph widget. Handles input and passes it to its collaborators.

    Dragging pans; Shift+drag selects with a rubber band; Ctrl extends the selection. The wheel
    and pinching zoom at the mouse. Double-click and Enter toggle groups, F fits, ``/`` focuses the
    search,
    digits assign a preset, I isolates the selection, Esc clears it. Arrow keys follow edges;
    Alt+Up and Alt+Down select all ancestors or descendants, Alt+Left and Alt+Right go back and
    forward.

    Attributes:
        surface: The painted state: scene, camera, marks and selection.
        groups: The layout controller: open groups, grouping and isolation.
        places: The navigation: camera moves and history.
        selection: The selection controller.

    Signals:
        preset_key_pressed: a number from 1 to 9.
        menu_asked: the context menu of an item before it opens; receivers may add entries.
        search_requested: the search box is to get the focus.
    """

    preset_key_pressed = Signal(int)
    menu_asked = Signal(object)
    search_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.surface = GraphSurface(theme, self)
        self.groups = GraphGroups(self.surface, self)
        self.places = GraphPlaces(self.surface, self.groups, self)
        self.selection = GraphSelection(self.surface, self.places, self)
        self._pressed: QPoint | None = None
        self._dragged_from: QPoint | None = None
        self._on_map = False
        self._is_brushing = False
        self._laid_out = QSize()
        self._band = QRubberBand(QRubberBand.Shape.Rectangle, self)
        self.zoom_buttons = ZoomButtons(self)
        self.zoom_buttons.zoomed.connect(self._zoom_middle)
        self.zoom_buttons.reset_asked.connect(lambda: self._zoom_middle(1.0 / self.surface.camera.scale))
        around = QSizeF(2 * _BUTTONS_PX, 2 * _BUTTONS_PX)
        self.surface.corner = self.zoom_buttons.size().toSizeF() + around
        self.surface.scale_changed.connect(self.zoom_buttons.render_scale)
        self.surface.room_changed.connect(self._place_buttons)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAccessibleName("Graph")

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        with window_first():
            self.surface.paint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the horizontal middle of the view, so that a pane beside it hides nothing."""
        super().resizeEvent(event)
        # The event does not know the former size of a widget that was hidden.
        if not self._laid_out.isEmpty():
            self.surface.keep_middle(self._laid_out)
        self._laid_out = self.size()
        self.surface.share_room()
        self._place_buttons()
        self.update()

    def _place_buttons(self) -> None:
        right = int(self.surface.size().width())
        self.zoom_buttons.move(right - self.zoom_buttons.width() - _BUTTONS_PX, _BUTTONS_PX)

    def _hit(self, position: QPointF) -> tuple[str, Part] | None:
        if self.surface.scene is None or self._is_over_map(position):
            return None
        point = self.surface.camera.to_scene(position)
        header = hit_header(self.surface.scene, self.surface.area(), point, self.surface.camera.scale)
        return header or self.surface.scene.hit(point)

    def _brush_to(self, position: QPointF) -> None:
        """Brush the legend from the pressed position to ``position``."""
        bar = legend_bar(self.surface.size())
        ends = sorted(
            min(max((p.x() - bar.x()) / bar.width(), 0.0), 1.0)
            for p in (QPointF(self._pressed or QPoint()), position)
        )
        self.surface.brush((ends[0], ends[1]) if ends[1] - ends[0] > LEAST_BRUSH else None)

    def _is_over_legend(self, position: QPointF) -> bool:
        if self.surface.marks.overlay is None:
            return False
        return legend_bar(self.surface.size()).adjusted(-4, -8, 4, 8).contains(position)

    def _choose_brushed(self) -> None:
        overlay = self.surface.marks.overlay
        if overlay is not None and overlay.brush is not None and self.surface.scene is not None:
            known = self.surface.scene.hierarchy.snapshot.nodes_by_id.keys()
            self.selection.pick(overlay.brushed_operations() & known)

    def _ask_end(self, ends: tuple[str, ...], position: QPointF) -> None:
        """Go to the other end of a line; with several ends, show a menu of them."""
        if len(ends) == 1:
            self.selection.jump(ends[0])
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        add_ends(menu, self, ends)
        menu.popup(self.mapToGlobal(position.toPoint()))

    def _ask_port(self, item: str, position: QPointF) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        add_jumps(menu, self, item)
        menu.popup(self.mapToGlobal(position.toPoint()))

    def _is_over_map(self, position: QPointF) -> bool:
        return self.surface.strip.contains(position)

    def _look_by_map(self, position: QPointF) -> None:
        if self.surface.scene is not None:
            point = map_to_scene(self.surface.scene, self.surface.strip, position)
            scale = self.surface.camera.scale
            self.surface.look(self.surface.centring(QRectF(point, point), scale))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            return
        self._pressed = self._dragged_from = event.position().toPoint()
        is_left = event.button() == Qt.MouseButton.LeftButton
        if is_left and self._is_over_legend(event.position()):
            self._is_brushing = True
        elif is_left and self._is_over_map(event.position()):
            self._on_map = True
            self._look_by_map(event.position())
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._band.setGeometry(QRect(self._pressed, self._pressed))
            self._band.show()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        position = event.position().toPoint()
        if self._on_map:
            self._look_by_map(event.position())
        elif self._is_brushing:
            self._brush_to(event.position())
        elif self._pressed is None or self._dragged_from is None:
            hit = self._hit(event.position())
            hovered = hit[0] if hit else None
            if hovered != self.surface.hovered:
                self.surface.hovered = hovered
                self.update()
        elif self._band.isVisible():
            self._band.setGeometry(QRect(self._pressed, position).normalized())
        elif (position - self._pressed).manhattanLength() >= DRAG_FROM or self._is_dragging():
            delta = position - self._dragged_from
            self._dragged_from = position
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.surface.look(self.surface.camera.panned(delta.x(), delta.y()))

    def _is_dragging(self) -> bool:
        return self._dragged_from != self._pressed

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        adds = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        was_elsewhere = self._is_dragging() or self._on_map
        if self._is_brushing:
            self._brush_to(event.position())
            self._choose_brushed()
        self._pressed, self._dragged_from, self._on_map = None, None, False
        was_elsewhere, self._is_brushing = was_elsewhere or self._is_brushing, False
        self.unsetCursor()
        if self._band.isVisible():
            self._band.hide()
            self._choose_band(QRectF(self._band.geometry()), adds=adds)
        elif not was_elsewhere and event.button() == Qt.MouseButton.LeftButton:
            self._click(event.position(), adds=adds)

    def _click(self, position: QPointF, *, adds: bool) -> None:
        hit = self._hit(position)
        point = self.surface.camera.to_scene(position)
        stub = self.surface.scene.stub_at(point) if self.surface.scene is not None and hit is None else None
        if stub is not None and self.surface.camera.scale >= CLOSE:
            self._ask_end(stub[1], position)
        elif hit is None and not adds:
            self.selection.clear()
        elif hit is not None and hit[1] == "toggle":
            self.groups.toggle(hit[0])
        elif hit is not None and hit[1] == "ports":
            self._ask_port(hit[0], position)
        elif hit is not None:
            self.selection.choose_item(hit[0], adds=adds)

    def _choose_band(self, band: QRectF, *, adds: bool) -> None:
        if self.surface.scene is None:
            return
        corners = (
            self.surface.camera.to_scene(band.topLeft()),
            self.surface.camera.to_scene(band.bottomRight()),
        )
        self.selection.choose_band(self.surface.scene.items_in(QRectF(*corners)), adds=adds)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        hit = self._hit(event.position())
        if hit is not None and hit[1] in ("group", "header"):
            self.groups.toggle(hit[0])

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        hit = self._hit(QPointF(event.pos()))
        if hit is not None and not (
            self.surface.scene and self.selection.leaves(hit[0]) <= self.surface.selected
        ):
            self.selection.choose_item(hit[0], adds=False)
        menu = context_menu(self, hit[0] if hit else None)
        if hit is not None:
            self.menu_asked.emit(menu)
        menu.popup(event.globalPos())

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.surface.hovered = None
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.surface.look(self.surface.camera.panned(event.angleDelta().y() + event.angleDelta().x(), 0))
        else:
            factor = ZOOM_STEP ** event.angleDelta().y()
            position = event.position()
            anchor = self._middle() if self._is_over_map(position) else position
            self.surface.look(self.surface.zoomed(factor, anchor))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        actions: dict[Qt.Key, Callable[[], None]] = {
            Qt.Key.Key_F: self.places.fit,
            Qt.Key.Key_I: self.groups.isolate_selection,
            Qt.Key.Key_Slash: self.search_requested.emit,
            Qt.Key.Key_Escape: self.selection.clear,
            Qt.Key.Key_Return: lambda: self.groups.toggle(self.surface.current),
            Qt.Key.Key_Enter: lambda: self.groups.toggle(self.surface.current),
            Qt.Key.Key_Plus: lambda: self._zoom_middle(ZOOM_FACTOR),
            Qt.Key.Key_Minus: lambda: self._zoom_middle(1 / ZOOM_FACTOR),
        }
        is_plain = not event.modifiers() & ~(
            Qt.KeyboardModifier.KeypadModifier | Qt.KeyboardModifier.ShiftModifier
        )
        if key in ARROWS:
            self._walk(key, event.modifiers())
        elif is_plain and Qt.Key.Key_1 <= key <= Qt.Key.Key_9:
            self.preset_key_pressed.emit(int(key) - int(Qt.Key.Key_0))
        elif is_plain and key in actions:
            actions[key]()
        else:
            super().keyPressEvent(event)

    def _zoom_middle(self, factor: float) -> None:
        self.surface.look(self.surface.zoomed(factor, self._middle()))

    def _middle(self) -> QPointF:
        return QRectF(QPointF(), self.surface.size()).center()

    def _walk(self, key: Qt.Key, modifiers: Qt.KeyboardModifier) -> None:
        if self.surface.scene is None:
            return
        is_vertical = key in (Qt.Key.Key_Up, Qt.Key.Key_Down)
        if modifiers & Qt.KeyboardModifier.AltModifier:
            if is_vertical:
                self.selection.trace(forwards=key == Qt.Key.Key_Down)
            elif key == Qt.Key.Key_Left:
                self.places.back()
            else:
                self.places.forward()
            return
        item = walk(self.surface.scene, self.surface.current, key)
        if item is not None:
            adds = bool(modifiers & Qt.KeyboardModifier.ShiftModifier)
            self.selection.choose_item(item, adds=adds)
            self.places.show_items(frozenset({item}))

    def event(self, event: QEvent) -> bool:
        if (
            isinstance(event, QNativeGestureEvent)
            and event.gestureType() == Qt.NativeGestureType.ZoomNativeGesture
        ):
            factor = 1.0 + event.value()
            self.surface.look(self.surface.zoomed(factor, event.position()))
            return True
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            hit = self._hit(QPointF(event.pos()))
            if hit is not None and self.surface.scene is not None:
                text = tooltip(hit[0], self.surface.scene.hierarchy, self.surface.marks)
                QToolTip.showText(event.globalPos(), text, self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)
