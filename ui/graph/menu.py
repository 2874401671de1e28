"""What can be done with an item of the graph, as a menu at the mouse."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from workbench.graph.compare import alike_anywhere
from workbench.graph.hierarchy import ROOT
from workbench.graph.labels import elide

if TYPE_CHECKING:
    from ui.graph.view import GraphView
    from workbench.graph.hierarchy import Hierarchy

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
