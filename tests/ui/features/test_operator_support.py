"""What each device takes, over fake engines: before anything is compiled."""

import pytest
from PySide6.QtWidgets import QLabel

from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.protocol import RunStudy


@pytest.fixture
def panel(opened):
    devices = opened.window.reveal("devices")
    devices.pages.setCurrentWidget(devices.foreseen)
    return devices.foreseen


def said(panel):
    return [label.text() for label in panel.cards.findChildren(QLabel)]


def test_that_every_kind_of_device_says_what_it_would_take(panel, qtbot):
    assert "Takes seconds" in panel.note.text()
    panel.start.click()
    qtbot.waitUntil(lambda: panel.model.rowCount() == 1)
    row = [panel.model.index(0, column).data() for column in range(4)]
    assert row == ["Ethos-U55", "bmm", "head", "It has 16 bits."]
    assert {"Ethos-U55", "7 NPU, 1 CPU", "Ethos-U65", "7 NPU, 0 CPU"} <= set(said(panel))
    assert "not possible" in said(panel)
    qtbot.waitUntil(lambda: "Ethos-U85: No branches there." in panel.note.text())


def test_that_choosing_a_row_chooses_its_module(panel, opened, qtbot):
    panel.start.click()
    qtbot.waitUntil(lambda: panel.model.rowCount() == 1)
    panel.table.selectRow(0)
    assert opened.context.selection.value.modules == frozenset({"head"})


def test_that_an_edit_marks_what_was_foreseen_as_former(panel, opened, qtbot):
    panel.start.click()
    qtbot.waitUntil(lambda: panel.model.rowCount() == 1)
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("Edit", lambda p: edits.assign(p, "module_name", "head", "a16w8"))
    qtbot.waitUntil(lambda: "Outdated" in panel.note.text())


def test_that_a_target_without_a_device_is_refused_in_a_sentence(panel, opened, engines, notices):
    formats = TargetChoice(id="formats")
    opened.document.apply("Formats", lambda p: edits.set_target(p, formats))
    panel.start.click()
    notices.take("has no NPU")
    assert not [c for c in engines.commands if isinstance(c, RunStudy)]
