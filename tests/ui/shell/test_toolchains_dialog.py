"""Toolchains in the window, over the real command line."""

import sys

from PySide6.QtCore import Qt

from ui.shared.theme import DARK
from ui.shell.toolchains_dialog import ToolchainsDialog
from workbench.project import edits

LONG_MS = 60_000


def opened_dialog(qtbot, used=""):
    dialog = ToolchainsDialog(used, DARK, None)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: dialog.model.rowCount() > 0, timeout=LONG_MS)
    qtbot.waitUntil(lambda: not dialog.is_running, timeout=LONG_MS)
    return dialog


def names(dialog):
    return [dialog.model.row_at(row)["name"] for row in range(dialog.model.rowCount())]


def press(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_that_a_toolchain_is_added_chosen_and_removed(qtbot):
    dialog = opened_dialog(qtbot)
    assert names(dialog) == [""]
    assert not dialog.use.isEnabled()
    dialog.name.setText("same")
    assert not dialog.add.isEnabled()
    dialog.python.set_text(sys.executable)
    press(qtbot, dialog.add)
    qtbot.waitUntil(lambda: names(dialog) == ["", "same"], timeout=LONG_MS)
    qtbot.waitUntil(lambda: not dialog.is_running, timeout=LONG_MS)
    dialog.table.choose_rows([1], reveal=True)
    dialog.table.rows_chosen.emit([1])
    with qtbot.waitSignal(dialog.chosen) as told:
        press(qtbot, dialog.use)
    assert told.args == ["same"]
    press(qtbot, dialog.remove)
    qtbot.waitUntil(lambda: names(dialog) == [""], timeout=LONG_MS)


def test_that_what_is_no_interpreter_is_told_and_nothing_is_added(qtbot):
    dialog = opened_dialog(qtbot)
    dialog.name.setText("none")
    dialog.python.set_text("/nowhere/python")
    press(qtbot, dialog.add)
    qtbot.waitUntil(lambda: "/nowhere/python" in dialog.note.text(), timeout=LONG_MS)
    assert names(dialog) == [""]


def test_that_the_bar_names_the_toolchain_of_a_project(opened):
    pill = opened.window.pipeline.toolchain
    assert not pill.isVisible()
    opened.document.apply("Set toolchain", lambda p: edits.set_toolchain(p, "sdk", "ExecuTorch 1.4.1"))
    assert pill.isVisible()
    assert pill.accessibleDescription() == "sdk"
    assert "1.4.1" in pill.toolTip()
