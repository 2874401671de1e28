"""The Deliverables panel: verdict, files, pools, kernels, and what is exported."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.ui.shell.test_window import run_to

KERNELS = ("aten::linear.out", "aten::relu.out")


def test_that_files_and_the_verdict_are_awaited_shown_exported_and_marked_after_an_edit(
    opened, qtbot, monkeypatch
):
    # Deliverables wait for Package with a button.
    package = result_of("package").model_copy(update={"kernels": KERNELS})
    leave_results(monkeypatch, package=package)
    run_to(opened, qtbot, "lower")
    panel = opened.window.reveal("deliverables")
    note = panel.frames["package"].note
    qtbot.waitUntil(note.button.isVisible)
    assert note.button.text() == "Run Package"
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: opened.window.workspaces.current == "outcome")
    opened.window.reveal("deliverables")
    qtbot.waitUntil(lambda: panel.has("package") and panel.deliverables.isVisible())
    # Package shows files, pools and kernels to copy.
    assert panel.files.index(0, 0).data() == "net.pte"
    view = panel.deliverables
    assert "Scratch pool: 4.0 KiB, computed from the program" in view.cards.texts()
    qtbot.mouseClick(view.copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "\n".join(KERNELS)
    # The verdict is told.
    answers = opened.context.answers()
    assert panel.verdict.text() == f"Compiled program {answers.gate.sentence}."
    assert panel.accuracy.text() == f"Accuracy: {answers.accuracy.sentence}."
    # Export asks for a folder.
    qtbot.mouseClick(panel.buttons["deliver"], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(opened.window.findChildren(QFileDialog)))
    opened.window.findChildren(QFileDialog)[0].reject()
    # Former deliverables are marked and not exported.
    opened.context.assigner.modules(["stem"], "a16w8")
    qtbot.waitUntil(panel.frames["package"].banner.isVisible)
    qtbot.waitUntil(lambda: not panel.buttons["deliver"].isEnabled())
