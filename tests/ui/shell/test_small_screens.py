"""What a person with a small screen, or with nothing run yet, still sees and reaches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QAbstractButton, QLabel, QTabBar, QTableView, QVBoxLayout, QWidget

from tests.fakes.engine import Play
from tests.for_each import for_each
from ui.features.project.new_project import FIRST_TARGET, NewProjectDialog
from ui.features.project.project_settings import ProjectSettingsDialog
from ui.shared.appearance import Appearance
from ui.shared.forms import FRAME_PX, TallForm, WrappedLabel
from ui.shared.module_tree import Column
from ui.shared.problem_list import on_the_cpu
from ui.shell import main_window
from ui.shell.panels import PANELS, WORKSPACE_IDS
from ui.shell.target_controller import TargetDialog
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.results import CpuNode


@pytest.fixture
def small(opened, qtbot):
    opened.window.resize(1280, 720)
    opened.window.reset_layout()
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.window.workspaces.current == "outcome")
    return opened


def sides_are_stacked_and_results_need_no_scrolling_in_a_small_window(small, qtbot):
    # Panels at the sides are stacked in a low and narrow window.
    docks = small.window.docks
    area = small.window.dockWidgetArea

    def stacked():
        return {dock.windowTitle() for dock in small.window.tabifiedDockWidgets(docks["modules"])}

    assert not stacked()
    # A screen of 1280 x 720 with a scale of 1.5.
    assert small.window.minimumSizeHint().width() <= 853
    small.window.resize(853, 480)
    small.window.reset_layout()
    assert stacked() == {"Rules", "Inspector", "Suggestions"}
    assert small.window.width() == 853
    assert docks["modules"].width() >= 270
    qtbot.waitUntil(lambda: not docks["modules"].visibleRegion().isEmpty())
    small.window.resize(1280, 720)
    small.window.reset_layout()
    assert not stacked()
    assert area(docks["inspector"]) == area(docks["suggestions"]) != area(docks["modules"])
    assert docks["suggestions"] in small.window.tabifiedDockWidgets(docks["inspector"])
    # Results need no scrolling in the smallest window.
    for name, stage in [("accuracy", "evaluate"), ("simulator", "run")]:
        small.window.resize(1066, 666)
        small.window.reset_layout()
        panel = small.window.reveal(name)
        qtbot.waitUntil(lambda: panel.has(stage))
        area = small.window.docks[name].widget()
        qtbot.waitUntil(panel.cards.isVisible)
        # With other fonts the panel is a few pixels higher.
        qtbot.waitUntil(lambda: 0 < panel.minimumSizeHint().height() < area.viewport().height() - 10)
        qtbot.waitUntil(lambda: not area.verticalScrollBar().isVisible())
    # No state of the stages makes a small window grow.
    small.window.resize(853, 480)
    small.window.reset_layout()
    bar, views = small.window.pipeline, small.session.stages()
    needed = bar.minimumSizeHint().width()
    for title in ("Run", "Export with a long word about what it does at this moment"):
        busy = [replace(view, state="running", title=title) for view in views]
        bar.render_stages(busy, working=True)
        qtbot.wait(1)
        assert bar.minimumSizeHint().width() == needed
        assert small.window.width() == 853


def test_that_a_window_that_began_small_has_panels_side_by_side_when_it_is_large(qtbot, qapp, monkeypatch):
    monkeypatch.setattr(main_window, "SIZE", (853, 480))
    window = main_window.MainWindow(Appearance(qapp, "dark"))
    qtbot.addWidget(window)
    window.may_close = True
    window.show()
    window.show_panels()
    docks, area = window.docks, window.dockWidgetArea
    assert docks["rules"] in window.tabifiedDockWidgets(docks["modules"])
    window.resize(1600, 1000)
    window.reset_layout()
    assert window.tabifiedDockWidgets(docks["modules"]) == []
    assert window.tabifiedDockWidgets(docks["inspector"]) == [docks["suggestions"]]
    assert area(docks["modules"]) == area(docks["rules"]) != area(docks["inspector"])


@pytest.mark.slow
def test_that_search_fits_a_low_panel(small, qtbot):
    panel = small.window.reveal("search")
    qtbot.waitUntil(panel.isVisible)
    assert panel.minimumSizeHint().height() <= 400


@pytest.mark.slow
def test_that_bars_of_the_cost_have_a_tab_where_the_panel_is_low(small, qtbot):
    cost = small.window.reveal("cost")
    qtbot.waitUntil(lambda: cost.has("lower"))
    below = ["Operations", "Modules", "CPU operators"]

    def titles():
        return [cost.tabs.tabText(n) for n in range(cost.tabs.count()) if cost.tabs.isTabVisible(n)]

    assert titles() == [*below, "Cycles by module"]
    cost.tabs.setCurrentIndex(cost.tabs.count() - 1)
    qtbot.waitUntil(lambda: cost.bars.height() >= 200)
    small.window.resize(1600, 1000)
    qtbot.waitUntil(lambda: titles() == below)
    cost.tabs.setCurrentIndex(0)
    assert cost.bars.isVisible()
    assert cost.operation_table.isVisible()


def panels_fit_and_are_named_in_full_in_every_size(small, qtbot):
    # Plots stay high enough to be read.
    numerics = small.window.reveal("accuracy")
    qtbot.waitUntil(lambda: numerics.has("evaluate"))
    qtbot.waitUntil(lambda: numerics.bars.height() >= 120)
    assert numerics.cards.height() >= numerics.cards.heightForWidth(numerics.cards.width())
    # Tabs of panels are named in full.
    for home in small.window.workspaces.homes.values():
        for bar in home.findChildren(QTabBar):
            assert bar.elideMode() == Qt.TextElideMode.ElideNone
            assert bar.usesScrollButtons()
    # No panel makes a window grow or scrolls where there is room.
    for row in PANELS:
        panel = small.window.reveal(row.id)
        panel.flush()
        qtbot.wait(1)
        assert (small.window.width(), small.window.height()) == (1280, 720), row.id
    small.window.resize(1600, 1000)
    small.window.reset_layout()
    for row in (row for row in PANELS if row.area in WORKSPACE_IDS):
        small.window.reveal(row.id).flush()
        qtbot.wait(1)
        area = small.window.docks[row.id].widget()
        bars = (area.verticalScrollBar(), area.horizontalScrollBar())
        assert not any(bar.isVisible() for bar in bars), row.id
    # A screen of 1600 x 1000 with a scale of 1.5.
    small.window.resize(1066, 666)
    small.window.reset_layout()
    for row in (row for row in PANELS if row.area in WORKSPACE_IDS):
        small.window.reveal(row.id).flush()
        area = small.window.docks[row.id].widget()
        qtbot.waitUntil(lambda area=area: not area.horizontalScrollBar().isVisible())
    tree = small.window.reveal("modules").tree
    qtbot.waitUntil(lambda: not tree.horizontalScrollBar().isVisible())
    # Names in the tree keep their room.
    tree = small.window.reveal("modules").tree
    tree.resize(260, 300)
    assert tree.columnWidth(Column.MODULE) >= 104


def unexplained(workbench):
    """Open every panel, and return its buttons that are off without saying why."""
    found = []
    for row in PANELS:
        panel = workbench.window.reveal(row.id)
        panel.flush()
        buttons = panel.findChildren(QAbstractButton)
        off = [b for b in buttons if b.isVisible() and not b.isEnabled() and not b.toolTip()]
        found += [(row.id, button.text()) for button in off]
    return found


def every_button_that_is_off_says_why_and_no_table_holds_the_tab_key(small, _qtbot):
    assert unexplained(small) == []
    tables = small.window.findChildren(QTableView)
    assert len(tables) >= 5
    assert not [table.accessibleName() for table in tables if table.tabKeyNavigation()]


@pytest.fixture
def looked_at(opened):
    """The window in which every panel was looked at before anything has run."""
    # Of a target without a program.
    choice = TargetChoice(id="nnpa")
    opened.document.apply("Set target", lambda p: edits.set_target(p, choice))
    assert unexplained(opened) == []
    opened.document.undo_stack.undo()


@pytest.mark.slow
@pytest.mark.usefixtures("looked_at")
@for_each(
    "promise",
    [
        panels_fit_and_are_named_in_full_in_every_size,
        every_button_that_is_off_says_why_and_no_table_holds_the_tab_key,
        sides_are_stacked_and_results_need_no_scrolling_in_a_small_window,
    ],
)
def test_that_a_small_window_shows_panels_in_full(promise, small, qtbot):
    small.window.resize(1280, 720)
    small.window.reset_layout()
    promise(small, qtbot)


def test_that_long_forms_and_a_busy_bar_fit_a_small_screen(opened, qtbot, tmp_path, engines):
    # The buttons of a long form are on the screen.
    parent = opened.window
    makers = (lambda: NewProjectDialog("", parent), lambda: TargetDialog(FIRST_TARGET, tmp_path, parent))
    for make in makers:
        dialog = make()
        dialog.show()
        qtbot.waitExposed(dialog)
        high = dialog.screen().availableSize().height()
        assert dialog.height() <= high
        assert dialog.buttons.geometry().bottom() <= high
        dialog.reject()
    # The bar fits a small screen while stages run.
    engines.plays = [Play(hold="calibrate")]
    opened.window.resize(853, 480)
    opened.window.reset_layout()
    opened.runs.run_to("")
    bar = opened.window.pipeline
    qtbot.waitUntil(bar.cancel.isVisible)
    qtbot.waitUntil(lambda: "Calibrat" in bar.status.toolTip())
    qtbot.wait(50)
    opened.window.resize(853, 480)
    assert opened.window.width() == 853
    assert bar.cancel.isVisible()
    opened.window.resize(1400, 800)
    qtbot.waitUntil(lambda: bar.cancel.text() == "Cancel")
    qtbot.waitUntil(lambda: "Calibrat" in bar.status.text())


def test_that_the_buttons_of_the_settings_are_on_a_low_screen(opened, qtbot, monkeypatch):
    low = SimpleNamespace(availableSize=lambda: QSize(1280, 720))
    for kind in (ProjectSettingsDialog, TallForm):
        monkeypatch.setattr(kind, "screen", lambda _widget: low)
    dialog = ProjectSettingsDialog(opened.document, opened.window)
    dialog.show()
    qtbot.waitExposed(dialog)
    assert dialog.height() <= 720 - FRAME_PX
    assert dialog.rect().contains(dialog.buttons.geometry())
    dialog.reject()


@pytest.mark.parametrize("name", ["graph", pytest.param("modules", marks=pytest.mark.slow)])
def test_that_an_empty_panel_has_the_button_that_fills_it(opened, qtbot, name):
    panel = opened.window.reveal(name)
    panel.flush()
    note = panel.pages.currentWidget()
    assert note.button.text() == "Load the model"
    note.button.click()
    qtbot.waitUntil(lambda: panel.pages.currentWidget() is not note)


def test_that_operators_alike_on_the_cpu_are_one_problem():
    nodes = [
        CpuNode(node=f"add_{i}", op="aten.add.Tensor", module="", reason="It is float.") for i in range(3)
    ]
    lone = CpuNode(node="sort", op="aten.sort.default", module="", reason="No kernel.")
    first, second = on_the_cpu([*nodes, lone])
    assert {first.code, second.code} == {"operator-on-cpu"}
    assert (first.where.id, second.where.id) == ("add_0", "sort")
    assert first.message.startswith("3 add")


def test_that_a_name_no_line_can_break_is_shortened_and_told_in_full(qtbot):
    name = "encoder.second_stage_with_residual_connections.inner_bottleneck"
    label = WrappedLabel(f"Most is taken by {name}.")
    qtbot.addWidget(label)
    assert name not in label.text()
    assert name in label.toolTip()
    label.setText("Most is taken by stem.")
    assert label.toolTip() == ""


def test_that_text_that_takes_more_lines_never_lies_over_what_is_below(qtbot):
    page = QWidget()
    label, below = WrappedLabel("One line.", page), QLabel("Below", page)
    column = QVBoxLayout(page)
    column.addWidget(label)
    column.addWidget(below)
    qtbot.addWidget(page)
    page.show()
    qtbot.waitExposed(page)
    label.setText("\n".join(["A line"] * 6))
    # Before any event, and so before the next paint.
    assert below.y() > label.geometry().bottom()
