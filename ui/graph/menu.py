"""What can be done with an item of the graph, as a menu at the mouse."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from workbench.graph.groups import ROOT

if TYPE_CHECKING:
    from ui.graph.view import GraphView


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


def _add_group(menu: QMenu, view: GraphView, item: str) -> None:
    if view.is_expanded(item):
        menu.addAction("Close the group\tEnter", partial(view.collapse, item))
    else:
        menu.addAction("Open the group\tEnter", partial(view.expand, item))
    menu.addAction("Open everything in it", partial(view.expand_below, item))
    if view.scene is None:
        return
    twins = view.scene.hierarchy.twins(item)
    if len(twins) > 1:
        text = f"Select the {len(twins)} blocks of the same structure"
        menu.addAction(text, partial(view.choose_items, twins))
