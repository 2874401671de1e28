"""Context menus of the graph widget."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from workbench.graph.compare import alike_anywhere
from workbench.graph.hierarchy import ROOT
from workbench.graph.labels import elide

if TYPE_CHECKING:
    from ui.features.graph.graph_view import GraphView
    from workbench.graph.hierarchy import Hierarchy


ENDS_SHOWN = 24


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
        menu.addAction(
            "Select all ancestors\tAlt+Up", partial(view.selection.trace, forwards=False)
        )
        menu.addAction(
            "Select all descendants\tAlt+Down", partial(view.selection.trace, forwards=True)
        )
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
        (
            "Select {} equal blocks with any shapes",
            alike_anywhere(hierarchy, item, any_shape=True),
        ),
    ):
        if len(blocks) > known:
            menu.addAction(words.format(len(blocks)), partial(view.selection.choose_items, blocks))
            known = len(blocks)
