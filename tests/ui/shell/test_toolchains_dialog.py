"""Toolchains in the window, over the real command line."""

import sys

import pytest
from PySide6.QtCore import Qt

from tests.workbench.project.builders import make_project
from ui.shared.theme import DARK
from ui.shell.toolchain_comparison_dialog import ToolchainComparisonDialog, rows_of
from ui.shell.toolchains_dialog import ToolchainsDialog
from workbench.project import edits, store
from workbench.project.model import ModelSource

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


@pytest.mark.slow
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


DOCUMENT = {
    "names": ["", "sdk"],
    "titles": ["ExecuTorch 1.5.1, torch 2.13.0, Vela 5.1.0", "ExecuTorch 1.5.1, torch 2.13.0, Vela 5.2.0"],
    "errors": ["", ""],
    "figures": [
        {"name": "verdict", "values": ["right", "right"], "comparable": True, "note": "equal"},
        {"name": "sqnr_db", "values": [38.25, None], "comparable": True, "note": ""},
        {"name": "cycles", "values": [1200, 900], "comparable": False, "note": "the estimate alone"},
    ],
    "same_program": True,
    "outputs": [4000, 3],
    "corrections": {"slices_computed": [2, 0]},
    "remarks": ["What the NPU gets is equal byte for byte."],
}


def test_that_a_comparison_has_a_row_for_each_figure_and_correction():
    assert rows_of(DOCUMENT) == [
        ("Verdict", "right", "right", "equal"),
        ("SQNR [dB]", "38.25", "-", ""),
        ("Cycles, corrected", "1,200", "900", "the estimate alone"),
        ("Outputs that differ", "", "3 of 4,000", "elements of the test vectors"),
        ("Correction slices_computed", "2", "-", "places"),
    ]


def test_that_a_comparison_of_a_toolchain_that_is_not_there_says_so(qtbot, tmp_path):
    path = tmp_path / "net.qwb"
    store.save(make_project(model=ModelSource(spec="net.pt2")), path)
    dialog = ToolchainComparisonDialog(path, ("", "none"), DARK, None)
    qtbot.addWidget(dialog)
    dialog.show()
    press(qtbot, dialog.start)
    assert dialog.stop.isVisible()
    qtbot.waitUntil(lambda: not dialog.is_running, timeout=LONG_MS)
    assert "'none'" in dialog.note.text()
    assert dialog.model.rowCount() == 0


def test_that_code_that_is_not_allowed_is_not_run_by_a_comparison(qtbot, tmp_path):
    (tmp_path / "model.py").write_text("raise SystemExit\n")
    path = tmp_path / "net.qwb"
    store.save(make_project(), path)
    dialog = ToolchainComparisonDialog(path, ("", "sdk"), DARK, None)
    qtbot.addWidget(dialog)
    dialog.show()
    press(qtbot, dialog.start)
    assert "not allowed yet" in dialog.note.text()
    assert not dialog.is_running


def test_that_a_project_is_saved_before_it_is_compared(qtbot):
    dialog = opened_dialog(qtbot, used="sdk")
    dialog.table.choose_rows([0], reveal=True)
    dialog.table.rows_chosen.emit([0])
    press(qtbot, dialog.compare)
    assert "Save the project first" in dialog.note.text()
