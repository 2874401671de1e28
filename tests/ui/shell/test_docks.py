"""Docks are floated, closed and opened again by what a person sees of them."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu, QTabBar

from ui.shell.dock import tab_bars


def tab(home, title):
    """Return a tab's bar and number."""
    bar = tab_bars(home)[title]
    return bar, next(n for n in range(bar.count()) if bar.tabText(n) == title)


def tab_menu(home, title):
    """Return the menu of a tab, as a right click opens it, by the texts of its actions."""
    bar, number = tab(home, title)
    bar.customContextMenuRequested.emit(bar.tabRect(number).center())
    menu = bar.findChildren(QMenu)[-1]
    return {action.text(): action for action in menu.actions()}


def has_handler(home, title):
    bar = tab_bars(home).get(title)
    return bar is not None and bar.contextMenuPolicy() == Qt.ContextMenuPolicy.CustomContextMenu


def test_that_a_dock_closed_in_another_workspace_is_back_beside_the_model(opened):
    window = opened.window
    modules = window.docks["modules"]
    window.show_workspace("outcome")
    window.go_to("modules")
    assert not modules.isHidden()
    modules.titleBarWidget().closing.click()
    assert modules.isHidden()
    window.show_workspace("model")
    assert not modules.isHidden()
    # One that is closed beside the model stays closed.
    modules.titleBarWidget().closing.click()
    window.show_workspace("outcome")
    window.show_workspace("model")
    assert modules.isHidden()


def test_that_docks_in_tabs_are_floated_and_closed_by_their_tabs(opened, qtbot):
    window = opened.window
    modules, rules = window.docks["modules"], window.docks["rules"]
    window.tabifyDockWidget(modules, rules)
    qtbot.waitUntil(lambda: has_handler(window, "Rules"))
    tab_menu(window, "Rules")["Float"].trigger()
    assert rules.isFloating()
    assert not rules.titleBarWidget().closing.isHidden()
    rules.titleBarWidget().floating.click()
    assert not rules.isFloating()
    qtbot.waitUntil(lambda: has_handler(window, "Rules"))
    tab_menu(window, "Rules")["Close"].trigger()
    assert rules.isHidden()
    assert not modules.isHidden()


def test_that_the_tabs_of_a_workspace_float_too(opened, qtbot):
    window = opened.window
    window.show_workspace("performance")
    home = window.workspaces.homes["performance"]
    qtbot.waitUntil(lambda: has_handler(home, "Memory"))
    bar, number = tab(home, "Memory")
    bar.tabBarDoubleClicked.emit(number)
    assert window.docks["memory"].isFloating()


def test_that_a_dock_that_begins_to_float_is_seen_to_float(opened):
    modules = opened.window.docks["modules"]
    place = modules.mapToGlobal(modules.rect().topLeft())
    modules.titleBarWidget().floating.click()
    assert modules.isFloating()
    assert modules.mapToGlobal(modules.rect().topLeft()) != place


def test_that_the_button_of_a_tab_closes_its_dock(opened, qtbot):
    window, right = opened.window, QTabBar.ButtonPosition.RightSide
    window.resize(1600, 1000)
    window.reset_layout()
    window.show_workspace("model")
    qtbot.waitUntil(lambda: has_handler(window, "Suggestions"))
    bar, number = tab(window, "Suggestions")
    bar.tabButton(number, right).click()
    assert window.docks["suggestions"].isHidden()
    window.reveal("suggestions")
    assert "Suggestions" in tab_bars(window)


def test_that_a_dock_that_floats_stays_within_the_window(opened, qtbot):
    opened.window.reveal("ranges")
    dock = opened.window.docks["ranges"]
    qtbot.waitUntil(dock.isVisible)
    dock.set_afloat()
    inside = opened.window.geometry()
    assert inside.contains(dock.geometry())


def test_that_a_double_click_floats_a_panel_beside_its_place(opened, qtbot):
    opened.window.resize(1600, 1000)
    opened.window.reset_layout()
    opened.window.show_workspace("model")
    dock = opened.window.docks["modules"]
    qtbot.waitUntil(dock.isVisible)
    place = dock.mapToGlobal(QPoint(0, 0))
    qtbot.mouseDClick(dock.titleBarWidget(), Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    assert dock.isFloating()
    assert dock.pos() != place
    qtbot.mouseDClick(dock.titleBarWidget(), Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    assert not dock.isFloating()
