"""The Deliverables panel: verdict, files, pools, kernels, and what is exported."""

from __future__ import annotations

import hashlib

import pytest
from PySide6.QtCore import QRectF, QSizeF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QGuiApplication
from PySide6.QtWidgets import QFileDialog

from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from ui.features.deliver.treemap import shown_lines, squarified
from workbench.deploy.emulation.findings import Proof
from workbench.deploy.emulation.proofs import keep_proof
from workbench.files import file_digest
from workbench.results import Deliverable, FirmwareStep, ProgramPart

KERNELS = ("aten::linear.out", "aten::relu.out")


def test_that_files_and_the_verdict_are_awaited_shown_exported_and_marked_after_an_edit(
    opened, qtbot, monkeypatch
):
    # Deliverables wait for Package with a button.
    parts = (
        ProgramPart(kind="weights", name="stem.conv", bytes=700),
        ProgramPart(kind="commands", name="NPU commands", bytes=200),
        ProgramPart(kind="rest", name="plan and alignment", bytes=100),
    )
    steps = (
        FirmwareStep(title="Link the runtime", detail="ExecuTorch."),
        FirmwareStep(title="Place the program", detail="In flash."),
    )
    package = result_of("package").model_copy(update={"kernels": KERNELS, "parts": parts, "steps": steps})
    leave_results(monkeypatch, package=package)
    run_to(opened, qtbot, "lower")
    panel = opened.window.reveal("deliverables")
    note = panel.frames["package"].note
    qtbot.waitUntil(note.button.isVisible)
    assert note.button.text() == "Package"
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: opened.window.workspaces.current == "outcome")
    opened.window.reveal("deliverables")
    qtbot.waitUntil(lambda: panel.has("package") and panel.deliverables.isVisible())
    # Package shows files, pools and kernels to copy.
    assert panel.files.index(0, 0).data() == "net.pte"
    # What the program consists of is a picture, with weights that select their module.
    parts = panel.deliverables.parts
    assert [(area.name, area.size) for area in parts.areas] == [
        ("stem.conv", 700),
        ("NPU commands", 200),
        ("plan and alignment", 100),
    ]
    places = parts.rectangles()
    sizes = [place.width() * place.height() for place in places]
    assert sizes == pytest.approx([sum(sizes) * share for share in (0.7, 0.2, 0.1)])
    qtbot.mouseClick(parts, Qt.MouseButton.LeftButton, pos=places[0].center().toPoint())
    assert opened.context.selection.value.modules == {"stem.conv"}
    # What the firmware must do is checked off, and stays so.
    panel.pages.setCurrentIndex(1)
    view = panel.steps
    assert [box.text() for box in view.boxes] == ["1. Link the runtime", "2. Place the program"]
    view.boxes[1].click()
    opened.context.appearance.switch("light")
    qtbot.waitUntil(lambda: [box.isChecked() for box in view.boxes] == [False, True])
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


def test_that_the_note_says_what_was_proven_since_it_was_shown(opened, qtbot, monkeypatch, tmp_path):
    text = b"# net on ethos-u55-128\n\n## Program\n"
    note = Deliverable(
        name="net.md", bytes=len(text), sha256=hashlib.sha256(text).hexdigest(), purpose="note"
    )
    package = result_of("package")
    leave_results(monkeypatch, package=package.model_copy(update={"files": (*package.files, note)}))
    run_to(opened, qtbot, "")
    folder = opened.session.result("package")
    (folder / "net.md").write_bytes(text)
    panel = opened.window.reveal("deliverables")
    qtbot.waitUntil(lambda: panel.has("package") and "net on" in panel.note.toPlainText())
    assert "Emulated" not in panel.note.toPlainText()
    opened.window.reveal("simulator")
    elf, program = tmp_path / "app.elf", folder / "net.pte"
    elf.write_bytes(b"firmware")
    proof = Proof("ethos-u55-128", "7.2", file_digest(program), file_digest(elf), 1, driver="1.0.0")
    proof.exit_code = 0
    proof.jobs.append({"delegate": 0})
    keep_proof(elf, program, proof)
    opened.window.reveal("deliverables")
    words = "proven on an emulated Cortex-M55 with driver 1.0.0"
    qtbot.waitUntil(lambda: words in panel.note.toPlainText())


def test_that_an_area_shows_the_end_of_its_name_and_whole_figures_only(qtbot):
    metrics, lines = QFontMetricsF(QFont()), ["stage1.1.cv2.conv", "5.2 KiB, 6 %", "weights, encoded"]
    advance, high = metrics.horizontalAdvance, 10 * metrics.height()
    assert shown_lines(lines, QSizeF(advance(lines[0]) + 9, high), metrics) == lines
    ending, *figures = shown_lines(lines, QSizeF(advance(lines[1]) + 1, high), metrics)
    assert ending.endswith("cv2.conv")
    assert figures == ["5.2 KiB, 6 %"]
    assert shown_lines(lines, QSizeF(advance("5.2 K"), high), metrics) == []
    assert shown_lines(lines, QSizeF(500, metrics.height() * 1.5), metrics) == lines[:1]
    # Words are read from their beginning.
    (words,) = shown_lines(["NPU commands"], QSizeF(advance("NPU comma"), high), metrics)
    assert words.startswith("NPU")


@for_each("sizes", [[1.0], [6, 6, 4, 3, 2, 2, 1], [1000, 1, 1], [5.0] * 40])
def test_that_a_treemap_fills_its_room_without_overlap(sizes):
    room = QRectF(0, 0, 600, 400)
    places = squarified(sizes, room)
    areas = [place.width() * place.height() for place in places]
    assert areas == pytest.approx([600 * 400 * size / sum(sizes) for size in sizes])
    for number, place in enumerate(places):
        assert room.adjusted(-0.01, -0.01, 0.01, 0.01).contains(place)
        for other in places[number + 1 :]:
            shared = place.intersected(other)
            assert shared.width() * shared.height() < 0.01
