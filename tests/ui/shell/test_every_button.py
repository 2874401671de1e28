"""Every button, box, list and action of the window is used once; none ends in an unexpected error."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QApplication, QCheckBox, QComboBox, QDialog
from shiboken6 import isValid

from tests.ui.shell.test_window import run_to
from ui.shell.panels import PANELS

pytestmark = pytest.mark.slow


@pytest.fixture
def ended(opened, qtbot):
    """The window after a run. Popups and dialogs that wait for somebody are closed."""
    timer = QTimer(interval=30)

    def close():
        popup = QApplication.activePopupWidget() or QApplication.activeModalWidget()
        if popup is not None:
            popup.close()

    timer.timeout.connect(close)
    run_to(opened, qtbot, "")
    timer.start()
    yield opened
    timer.stop()


def settle(qtbot, notices):
    """Let what was asked for happen; close what it opened, and take what it said."""
    qtbot.wait(5)
    for widget in QApplication.topLevelWidgets():
        if isinstance(widget, QDialog) and widget.isVisible():
            widget.reject()
    notices.posted.clear()


def parts(widget, kind):
    """Yield the usable parts of a kind; using one may replace the others."""
    for number in range(len(widget.findChildren(kind))):
        found = widget.findChildren(kind) if isValid(widget) else []
        if number < len(found) and found[number].isEnabled() and found[number].isVisible():
            yield found[number]


def choose_all(box):
    for index in range(box.count()):
        if isValid(box):
            box.setCurrentIndex(index)
            box.activated.emit(index)


def test_that_no_control_of_a_panel_ends_in_an_error(ended, qtbot, notices):
    used = 0
    for row in PANELS:
        panel = ended.window.reveal(row.id)
        panel.flush()
        for button in parts(panel, QAbstractButton):
            button.click()
            settle(qtbot, notices)
            used += 1
        for box in parts(panel, QComboBox):
            choose_all(box)
            settle(qtbot, notices)
            used += 1
    assert used > len(PANELS)


def test_that_no_action_and_no_box_of_its_dialog_ends_in_an_error(ended, qtbot, notices):
    opened = set()
    for action in ended.window.findChildren(QAction):
        ends = isValid(action) and action.text().replace("&", "") in {"Quit", "Close project"}
        if not isValid(action) or ends or action.menu() is not None or not action.isEnabled():
            continue
        action.trigger()
        for dialog in ended.window.findChildren(QDialog):
            opened.add(dialog.windowTitle())
            for box in parts(dialog, QCheckBox):
                box.click()
            for box in parts(dialog, QComboBox):
                choose_all(box)
        settle(qtbot, notices)
    assert {"Preferences", "Project settings"} <= opened
