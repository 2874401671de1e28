"""The graph as the user handles it: mouse, keyboard, selection, tooltips, announcements."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QRubberBand, QToolTip, QWidget

from ui.features.graph.graph_canvas import GraphCanvas, History
from ui.features.graph.navigation import lines, tooltip, trace, walk
from ui.features.graph.paint_headers import hit_header
from ui.features.graph.paint_overlays import legend_bar, map_rect, map_to_scene
from ui.features.graph.picture import CLOSE
from workbench.graph.compare import alike_anywhere
from workbench.graph.hierarchy import ROOT, isolate
from workbench.graph.labels import elide

if TYPE_CHECKING:
    from collections.abc import Callable

    from ui.features.graph.scene import Part
    from ui.shared.theme import Theme
    from workbench.graph.hierarchy import Hierarchy, Shape
    from workbench.graph.snapshot import GraphSnapshot


class OpeningCanvas(GraphCanvas):
    """A canvas whose groups open and close."""

    def expand(self, group: str) -> None:
        """Open a group, and those around it."""
        key = self._resolve(group)
        if key is not None and self.scene is not None and key in self.scene.hierarchy.groups:
            around = self.scene.hierarchy.ancestors(key)
            self._open(self._expanded.union({key}, around), anchor=key)

    def collapse(self, group: str) -> None:
        """Close a group."""
        key = self._resolve(group)
        if key is not None:
            self._open(self._expanded - {key}, anchor=key)

    def expand_all(self) -> None:
        """Open every group, however long the drawing gets."""
        if self._snapshot is not None:
            self._submit(replace(self._new_order(None), everything=True))

    def collapse_all(self) -> None:
        """Close every group."""
        self._open(frozenset(), anchor=None)

    def expand_below(self, group: str) -> None:
        """Open a group and every group inside of it."""
        key = self._resolve(group)
        if key is not None and self.scene is not None:
            below = self.scene.hierarchy.groups_below(key)
            self._open(self._expanded.union(below) - {"/"}, anchor=key)

    def is_expanded(self, group: str) -> bool:
        """Tell whether a group is open, or about to be."""
        return self._resolve(group) in self._expanded

    def set_shape(self, shape: Shape) -> None:
        """Group by modules, fold repeated blocks into one as well, or show no groups at all."""
        if shape == self.shape:
            return
        if self._snapshot is None:
            self.shape = shape
            return
        self._history.leave(self.place())
        self.shape = shape
        self._anchor = None
        self._submit(self._new_order(None))
        if self.selected:
            self._awaited = self.selected

    def isolate_selection(self) -> None:
        """Show nothing but the selected operations and what they read from and write to."""
        if self._snapshot is not None and self.scene is not None and self.selected:
            owner = self.scene.hierarchy.owner
            inside = {n for n, item in owner.items() if item in self.selected}
            whole = self._whole or self._snapshot
            self._show_part(isolate(self._snapshot, inside | self.selected), whole)

    def show_all(self) -> None:
        """Show the whole graph again."""
        if self._whole is not None:
            self._show_part(self._whole, None)

    def _show_part(self, snapshot: GraphSnapshot, whole: GraphSnapshot | None) -> None:
        self._snapshot, self._anchor, self.scene = snapshot, None, None
        self._set_whole(whole)
        self._history = History()
        self._submit(self._new_order(None))
        self.update()


class ChoosingCanvas(OpeningCanvas):
    """A canvas with a selection.

    Signals:
        selection_changed: the operations the user selected, as a frozenset.
        groups_selected: the modules of the groups the user selected, as a frozenset.
    """

    selection_changed = Signal(object)
    groups_selected = Signal(object)

    def select(self, node_ids: frozenset[str], reveal: bool = False) -> None:
        """Select operations on somebody's behalf; no signal is sent.

        With ``reveal`` the groups around them open and the drawing moves to them.
        """
        self._choose(frozenset(node_ids))
        self._announce(next(iter(sorted(node_ids)), None))
        if reveal:
            self._bring(frozenset(node_ids))

    def trace(self, *, forwards: bool) -> None:
        """Extend the selection to all that is made from it, or to all it is made from."""
        if self.scene is not None and self.selected:
            self._pick(trace(self.scene, self.selected, forwards=forwards))

    def choose_items(self, items: tuple[str, ...]) -> None:
        """Select all operations of several items on the user's own action.

        Where all of them are groups, their modules are told too, to be configured together.
        """
        self._pick(frozenset().union(*map(self._leaves, items)))
        groups = self.scene.hierarchy.groups if self.scene else {}
        modules = {groups[item].module for item in items if item in groups}
        if items and all(item in groups for item in items):
            self.groups_selected.emit(frozenset(modules))

    def jump(self, item: str) -> None:
        """Go to an operation wherever it is, and select it, on the user's own action."""
        self.current = item
        leaves = self._leaves(item)
        self._pick(leaves)
        self._announce(item)
        self._bring(leaves)

    def _pick(self, node_ids: frozenset[str]) -> None:
        """Select on the user's own action."""
        if node_ids != self.selected:
            self._choose(node_ids)
            self.selection_changed.emit(node_ids)

    def _choose_item(self, item: str, *, adds: bool) -> None:
        if self.scene is None:
            return
        self.current = item
        leaves = self._leaves(item)
        if adds:
            leaves = self.selected - leaves if leaves <= self.selected else self.selected | leaves
        self._pick(leaves)
        self._announce(item)
        group = self.scene.hierarchy.groups.get(item)
        if group is not None:
            self.groups_selected.emit(frozenset((group.module,)))
        self.update()

    def _leaves(self, item: str) -> frozenset[str]:
        return frozenset(self.scene.hierarchy.leaves(item)) if self.scene else frozenset()

    def _toggle(self, item: str | None) -> None:
        if self.scene is None or item not in self.scene.hierarchy.groups or item is None:
            return
        if item in self._expanded:
            self.collapse(item)
        else:
            self.expand(item)

    def _clear(self) -> None:
        self.current = None
        self.brush(None)
        self._pick(frozenset())
        self._announce(None)
        self.update()

    def _announce(self, item: str | None) -> None:
        """Let a screen reader say what is selected."""
        text = "Nothing is selected"
        if item is not None and self.scene is not None:
            is_known = item in self.scene.hierarchy.groups or item in self.scene.hierarchy.parent
            text = ", ".join(lines(item, self.scene.hierarchy, self.marks)) if is_known else item
        self.setAccessibleDescription(text)
        event = QAccessibleEvent(self, QAccessible.Event.DescriptionChanged)
        QAccessible.updateAccessibility(event)


ENDS_SHOWN = 24


def context_menu(view: GraphView, item: str | None) -> QMenu:
    """Return the menu of an item, or of the ground if there is none."""
    menu = QMenu(view)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    scene = view.scene
    if scene is not None and item is not None:
        if item in scene.hierarchy.groups:
            _add_group(menu, view, item)
        elif (parent := scene.hierarchy.parent.get(item, ROOT)) != ROOT:
            name = scene.hierarchy.groups[parent].label
            menu.addAction(f"Close the group {name}", partial(view.collapse, parent))
            menu.addAction(f"Select all of {name}", partial(view.choose_items, (parent,)))
        add_jumps(menu, view, item)
        menu.addSeparator()
        menu.addAction("Trace to the inputs\tAlt+Up", partial(view.trace, forwards=False))
        menu.addAction("Trace to the outputs\tAlt+Down", partial(view.trace, forwards=True))
        menu.addSeparator()
    if view.selected:
        menu.addAction("Show only the selection\tI", view.isolate_selection)
    if view.isolated:
        menu.addAction("Show the whole graph again", view.show_all)
    menu.addAction("Open all groups", view.expand_all)
    menu.addAction("Close all groups", view.collapse_all)
    menu.addAction("Show everything\tF", view.fit)
    return menu


def add_jumps(menu: QMenu, view: GraphView, item: str) -> None:
    """Offer to go to what an operation or a whole group reads, and to what reads from it."""
    if view.scene is None:
        return
    reads, written = view.scene.hierarchy.border(item)
    for words, ends in (("Go to what it reads", reads), ("Go to what reads it", written)):
        if ends:
            below = menu.addMenu(f"{words} ({len(ends)})")
            add_ends(below, view, ends)


def add_ends(menu: QMenu, view: GraphView, ends: tuple[str, ...]) -> None:
    """Add an entry for each of some operations, to go there."""
    if view.scene is None:
        return
    hierarchy = view.scene.hierarchy
    for end in ends[:ENDS_SHOWN]:
        node = hierarchy.node(end)
        where = f"  ({elide(node.module)})" if node is not None and node.module else ""
        menu.addAction(f"{elide(hierarchy.title(end))}{where}", partial(view.jump, end))
    if len(ends) > ENDS_SHOWN:
        menu.addAction(f"and {len(ends) - ENDS_SHOWN:,} more").setEnabled(False)


def _add_group(menu: QMenu, view: GraphView, item: str) -> None:
    if view.is_expanded(item):
        menu.addAction("Close the group\tEnter", partial(view.collapse, item))
    else:
        menu.addAction("Open the group\tEnter", partial(view.expand, item))
    menu.addAction("Open everything in it", partial(view.expand_below, item))
    if view.scene is None:
        return
    _add_alike(menu, view, view.scene.hierarchy, item)


def _add_alike(menu: QMenu, view: GraphView, hierarchy: Hierarchy, item: str) -> None:
    """Offer to select blocks of the same structure: beside it, anywhere, and of any shape."""
    known = 1
    for words, blocks in (
        ("Select the {} blocks alike beside each other", hierarchy.twins(item)),
        ("Select the {} blocks alike everywhere", alike_anywhere(hierarchy, item)),
        (
            "Select the {} blocks alike but for their shapes",
            alike_anywhere(hierarchy, item, any_shape=True),
        ),
    ):
        if len(blocks) > known:
            menu.addAction(words.format(len(blocks)), partial(view.choose_items, blocks))
            known = len(blocks)


DRAG_FROM = 4
LEAST_BRUSH = 0.02
ZOOM_STEP = 1.0015
ARROWS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Right)


class GraphView(ChoosingCanvas):
    """A graph to read, walk and choose in. Signals tell what the user did, nothing else does.

    Dragging pans; with Shift it draws a rubber band; with Ctrl clicks and bands add. The wheel
    zooms at the mouse. Double-click and Enter open and close groups, F fits, ``/`` asks for a
    search, digits for a preset, I shows the selection alone, Esc clears. Arrows walk along edges;
    with Alt, up and down trace to all ancestors and descendants, left and right go back and
    forward. Whoever hears ``menu_asked`` may add to the menu of an item before it opens.
    """

    preset_key_pressed = Signal(int)
    menu_asked = Signal(object)
    search_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._pressed: QPoint | None = None
        self._dragged_from: QPoint | None = None
        self._on_map = False
        self._is_brushing = False
        self._band = QRubberBand(QRubberBand.Shape.Rectangle, self)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAccessibleName("Graph")
        self.setAccessibleDescription("Nothing is selected")

    def _hit(self, position: QPointF) -> tuple[str, Part] | None:
        if self.scene is None:
            return None
        point = self.camera.to_scene(position)
        header = hit_header(self.scene, self._area(), point, self.camera.scale)
        return header or self.scene.hit(point)

    def _brush_to(self, position: QPointF) -> None:
        """Brush the legend from where the mouse went down to where it is."""
        bar = legend_bar(self._size())
        ends = sorted(
            min(max((p.x() - bar.x()) / bar.width(), 0.0), 1.0)
            for p in (QPointF(self._pressed or QPoint()), position)
        )
        self.brush((ends[0], ends[1]) if ends[1] - ends[0] > LEAST_BRUSH else None)

    def _is_over_legend(self, position: QPointF) -> bool:
        if self.marks.overlay is None:
            return False
        return legend_bar(self._size()).adjusted(-4, -8, 4, 8).contains(position)

    def _choose_brushed(self) -> None:
        overlay = self.marks.overlay
        if overlay is not None and overlay.brush is not None and self.scene is not None:
            known = self.scene.hierarchy.snapshot.nodes_by_id.keys()
            self._pick(overlay.brushed_operations() & known)

    def _ask_end(self, ends: tuple[str, ...], position: QPointF) -> None:
        """Go to the other end of a line; ask which one if there are several."""
        if len(ends) == 1:
            self.jump(ends[0])
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
        if self.scene is None or self.camera.shown(self._size()).contains(self.scene.bounds):
            return False
        return map_rect(self.scene, self._size()).contains(position)

    def _look_by_map(self, position: QPointF) -> None:
        if self.scene is not None:
            place = map_to_scene(self.scene, self._size(), position)
            self.look(self.camera.centred(QRectF(place, place), self._size()))

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
            if hovered != self.hovered:
                self.hovered = hovered
                self.update()
        elif self._band.isVisible():
            self._band.setGeometry(QRect(self._pressed, position).normalized())
        elif (position - self._pressed).manhattanLength() >= DRAG_FROM or self._is_dragging():
            delta = position - self._dragged_from
            self._dragged_from = position
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.look(self.camera.panned(delta.x(), delta.y()))

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
        point = self.camera.to_scene(position)
        stub = self.scene.stub_at(point) if self.scene is not None and hit is None else None
        if stub is not None and self.camera.scale >= CLOSE:
            self._ask_end(stub[1], position)
        elif hit is None and not adds:
            self._clear()
        elif hit is not None and hit[1] == "toggle":
            self._toggle(hit[0])
        elif hit is not None and hit[1] == "ports":
            self._ask_port(hit[0], position)
        elif hit is not None:
            self._choose_item(hit[0], adds=adds)

    def _choose_band(self, band: QRectF, *, adds: bool) -> None:
        if self.scene is None:
            return
        corners = self.camera.to_scene(band.topLeft()), self.camera.to_scene(band.bottomRight())
        items = self.scene.items_in(QRectF(*corners))
        leaves = frozenset(leaf for item in items for leaf in self.scene.hierarchy.leaves(item))
        self._pick(self.selected | leaves if adds else leaves)
        self._announce(items[0] if items else None)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        hit = self._hit(event.position())
        if hit is not None and hit[1] in ("group", "header"):
            self._toggle(hit[0])

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        hit = self._hit(QPointF(event.pos()))
        if hit is not None and not (self.scene and self._leaves(hit[0]) <= self.selected):
            self._choose_item(hit[0], adds=False)
        menu = context_menu(self, hit[0] if hit else None)
        if hit is not None:
            self.menu_asked.emit(menu)
        menu.popup(event.globalPos())

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered = None
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.look(self.camera.panned(event.angleDelta().y() + event.angleDelta().x(), 0))
        else:
            factor = ZOOM_STEP ** event.angleDelta().y()
            self.look(self.camera.zoomed(factor, event.position()))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        actions: dict[Qt.Key, Callable[[], None]] = {
            Qt.Key.Key_F: self.fit,
            Qt.Key.Key_I: self.isolate_selection,
            Qt.Key.Key_Slash: self.search_requested.emit,
            Qt.Key.Key_Escape: self._clear,
            Qt.Key.Key_Return: lambda: self._toggle(self.current),
            Qt.Key.Key_Enter: lambda: self._toggle(self.current),
            Qt.Key.Key_Plus: lambda: self._zoom_middle(1.25),
            Qt.Key.Key_Minus: lambda: self._zoom_middle(0.8),
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
        self.look(self.camera.zoomed(factor, QPointF(self.width() / 2, self.height() / 2)))

    def _walk(self, key: Qt.Key, modifiers: Qt.KeyboardModifier) -> None:
        if self.scene is None:
            return
        is_vertical = key in (Qt.Key.Key_Up, Qt.Key.Key_Down)
        if modifiers & Qt.KeyboardModifier.AltModifier:
            if is_vertical:
                self.trace(forwards=key == Qt.Key.Key_Down)
            elif key == Qt.Key.Key_Left:
                self.go_back()
            else:
                self.go_forward()
            return
        item = walk(self.scene, self.current, key)
        if item is not None:
            adds = bool(modifiers & Qt.KeyboardModifier.ShiftModifier)
            self._choose_item(item, adds=adds)
            self._show_items(frozenset({item}))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            hit = self._hit(QPointF(event.pos()))
            if hit is not None and self.scene is not None:
                text = tooltip(hit[0], self.scene.hierarchy, self.marks)
                QToolTip.showText(event.globalPos(), text, self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hasFocus():
            painter = QPainter(self)
            painter.setPen(self._painter.palette.accent.color())
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            painter.end()
