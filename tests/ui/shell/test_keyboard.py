"""The main tasks with the keyboard alone, over fake engines."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFileDialog

from tests.fakes.projects import write_project
from tests.fakes.results import result_of
from ui.features.project.new_project import NewProjectDialog
from ui.shared.tab_order import reading_order
from ui.shell.panels import PANELS
from ui.shell.toasts import Toast
from ui.state.notices import Action

MOST_TABS = 150
CTRL, ALT, NONE = (
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.AltModifier,
    Qt.KeyboardModifier.NoModifier,
)


@pytest.fixture
def keys(workbench, qtbot):
    """Press a key where the focus is."""
    workbench.window.activateWindow()
    qtbot.waitUntil(workbench.window.isActiveWindow)

    def press(key, modifiers=NONE):
        qtbot.keyClick(QApplication.focusWidget() or workbench.window, key, modifiers)

    return press


def tab_to(keys, qtbot, wanted):
    """Press Tab until a widget that fits has the focus."""
    for _ in range(MOST_TABS):
        widget = QApplication.focusWidget()
        if widget is not None and wanted(widget):
            return widget
        keys(Qt.Key.Key_Tab)
        # The order follows the layout as soon as what was shown has its place.
        qtbot.wait(1)
    raise AssertionError("the Tab key does not reach it")


def says(text):
    return lambda widget: getattr(widget, "text", str)().startswith(text)


def activate(window, qtbot):
    """Make the window active, as closing its dialogs does on a desktop."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)


def run_all(workbench, qtbot, keys):
    keys(Qt.Key.Key_F5)
    qtbot.waitUntil(lambda: workbench.session.stage("package").state == "cached")
    qtbot.waitUntil(lambda: not workbench.runner.running)
    qtbot.waitUntil(lambda: bool(workbench.context.model_index.modules))
    qtbot.waitUntil(lambda: workbench.window.workspaces.current == "outcome")
    keys(Qt.Key.Key_1, CTRL)
    assert workbench.window.workspaces.current == "model"


def test_that_a_project_is_made_and_run_with_keys(workbench, qtbot, keys, tmp_path):
    model = write_project(tmp_path / "mine").with_name("net.pt2")
    keys(Qt.Key.Key_N, CTRL)
    dialog = workbench.window.findChild(NewProjectDialog)
    qtbot.waitUntil(dialog.isActiveWindow)
    qtbot.keyClicks(QApplication.focusWidget(), str(model))
    qtbot.waitUntil(dialog.buttons.button(dialog.buttons.StandardButton.Ok).isEnabled)
    tab_to(keys, qtbot, lambda widget: widget is dialog.run)
    keys(Qt.Key.Key_Space)
    assert not dialog.run.isChecked()
    keys(Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: workbench.session.planned)
    activate(workbench.window, qtbot)
    run_all(workbench, qtbot, keys)


def test_that_a_module_is_changed_and_the_worst_layer_found_with_keys(opened, qtbot, keys):
    run_all(opened, qtbot, keys)
    qtbot.waitUntil(opened.window.docks["modules"].panel.tree.isVisible)
    keys(Qt.Key.Key_1, ALT)
    tab_to(keys, qtbot, lambda widget: widget.accessibleName() == "Modules")
    for _ in range(2):
        keys(Qt.Key.Key_Down)
    chosen = opened.context.selection.value.modules
    assert len(chosen) == 1
    keys(Qt.Key.Key_2)
    assert {opened.document.project.rules[-1].match} == chosen
    qtbot.waitUntil(lambda: opened.session.stage("package").state == "stale")
    run_all(opened, qtbot, keys)
    tab_to(keys, qtbot, lambda widget: widget.accessibleName().startswith("SQNR"))
    keys(Qt.Key.Key_Space)
    (worst,) = result_of("evaluate").tensors
    qtbot.waitUntil(lambda: opened.context.selection.value.nodes == {worst.origin})


def test_that_files_are_exported_with_keys(opened, qtbot, keys, tmp_path):
    run_all(opened, qtbot, keys)
    keys(Qt.Key.Key_5, CTRL)
    dock = opened.window.docks["deliverables"]
    qtbot.waitUntil(lambda: dock.panel is not None and dock.panel.has("package"))
    tab_to(keys, qtbot, says("Export deliverables"))
    keys(Qt.Key.Key_Space)
    (dialog,) = [d for d in opened.window.findChildren(QFileDialog) if d.isVisible()]
    folder = tmp_path / "dist"
    folder.mkdir()
    qtbot.waitUntil(dialog.isActiveWindow)
    qtbot.keyClicks(QApplication.focusWidget(), str(folder))
    keys(Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: list(folder.glob("*.pte")) != [])


def test_that_going_to_a_panel_shows_the_focus_as_soon_as_its_results_are_there(opened, qtbot):
    # Going to a panel gives it the focus.
    for number in range(1, 10):
        opened.window.activateWindow()
        qtbot.waitUntil(opened.window.isActiveWindow)
        name = PANELS[number - 1].id
        qtbot.keyClick(opened.window, str(number), ALT)
        panel = opened.window.docks[name].panel
        if opened.window.docks[name].isVisible():
            qtbot.waitUntil(lambda: panel.isAncestorOf(QApplication.focusWidget()))
    # A panel has the focus visibly as soon as its results are there.
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: not opened.runner.running)
    window = opened.window
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.actions_by_id["go_memory"].trigger()
    panel = window.docks["memory"].panel
    qtbot.waitUntil(lambda: panel.has("lower"))
    inside = panel.frames["lower"].content
    qtbot.waitUntil(lambda: inside.isAncestorOf(QApplication.focusWidget()))
    stops = [w for w in (*reading_order(panel), window.reveal("modules").tree) if w.isVisible()]
    for widget in (w for w in stops if w.isEnabled()):
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        focused = widget.grab().toImage()
        window.pipeline.run.setFocus(Qt.FocusReason.TabFocusReason)
        assert widget.grab().toImage() != focused


def test_that_the_tab_key_goes_through_what_is_seen_and_all_of_it(opened, qtbot, keys):
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: not opened.runner.running)
    window = opened.window
    window.resize(960, 720)
    # Each of them stays where it is, behind the next one.
    for name in ("accuracy", "ranges", "cost", "simulator"):
        panel = window.reveal(name)
        qtbot.waitUntil(lambda panel=panel: any(panel.has(stage) for stage in panel.frames))
    qtbot.waitUntil(lambda: not panel.parts.is_split)
    window.pipeline.run.setFocus()
    seen = [QApplication.focusWidget()]
    for _ in range(MOST_TABS):
        keys(Qt.Key.Key_Tab)
        widget = QApplication.focusWidget()
        assert not widget.visibleRegion().isEmpty()
        if widget is seen[0]:
            break
        seen += [] if widget is seen[-1] else [widget]
    assert widget is seen[0]
    assert len(seen) == len(set(seen))
    assert {panel.parts.tabs.tabBar(), panel.view.tabBar()} <= set(seen)
    before = seen[-1]
    keys(Qt.Key.Key_Backtab)
    assert QApplication.focusWidget() is before


def test_that_panels_show_the_focus_keep_it_and_leave_it_to_a_question(opened, qtbot, keys, notices):
    # Going to a narrow panel shows its first part.
    opened.window.resize(860, 700)
    opened.window.actions_by_id["go_simulator"].trigger()
    parts = opened.window.docks["simulator"].panel.parts
    qtbot.waitUntil(lambda: not parts.is_split)
    assert parts.tabs.currentIndex() == 0
    assert opened.window.docks["simulator"].isAncestorOf(QApplication.focusWidget())
    # Parts that move into tabs keep the focus.
    window = opened.window
    window.resize(860, 700)
    panel = window.reveal("simulator")
    qtbot.waitUntil(lambda: not panel.parts.is_split)
    panel.parts.tabs.setCurrentIndex(1)
    field = panel.machine.choose_runner
    field.setFocus()
    for width, is_split in ((2200, True), (860, False)):
        window.resize(width, 700)
        qtbot.waitUntil(lambda is_split=is_split: panel.parts.is_split is is_split)
        assert field.hasFocus()
        qtbot.waitUntil(lambda: not field.visibleRegion().isEmpty())
    # A panel without controls shows the focus.
    window = opened.window
    window.actions_by_id["go_jobs"].trigger()
    panel = window.docks["jobs"].panel
    qtbot.waitUntil(panel.hasFocus)
    focused = panel.grab().toImage()
    keys(Qt.Key.Key_Tab)
    assert window.docks["jobs"].isAncestorOf(QApplication.focusWidget())
    assert panel.grab().toImage() != focused
    # Only the question takes the tab key.
    opened.notices.question("Sure?", "", [Action("Yes", print), Action("No", print)], blocking=True)
    (toast,) = [t for t in opened.window.findChildren(Toast) if t.isVisible()]
    for _ in range(5):
        keys(Qt.Key.Key_Tab)
        assert toast.isAncestorOf(QApplication.focusWidget())
    notices.take("Sure?")


def test_that_the_first_button_has_the_focus_before_and_after_a_project_is_opened(
    workbench, qtbot, keys, project_file
):
    stops = [stop for stop in workbench.window.tab_stops() if stop.isVisible()]
    qtbot.waitUntil(stops[0].hasFocus)
    assert workbench.window.welcome.isAncestorOf(stops[0])
    workbench.files.open_path(project_file)
    qtbot.waitUntil(workbench.window.pipeline.run.hasFocus)


def test_that_find_reaches_the_graph_from_any_field_of_its_window(workbench, qtbot, keys, tmp_path):
    workbench.files.open_path(write_project(tmp_path / "mine"))
    qtbot.waitUntil(lambda: workbench.session.planned)
    graph = workbench.window.reveal("graph")
    field = workbench.window.reveal("modules").filter
    activate(workbench.window, qtbot)
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    keys(Qt.Key.Key_F, CTRL)
    assert graph.isAncestorOf(QApplication.focusWidget())
