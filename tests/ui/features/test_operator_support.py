"""What each device takes, over fake engines: before anything is compiled."""

import pytest
from PySide6.QtWidgets import QLabel

from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.protocol import RunStudy


@pytest.fixture
def panel(opened):
    devices = opened.window.reveal("devices")
    devices.pages.setCurrentWidget(devices.operator_support)
    return devices.operator_support


def said(panel):
    return [label.text() for label in panel.cards.findChildren(QLabel)]


def test_that_devices_say_what_they_take_and_a_target_without_one_is_refused(
    panel, opened, engines, notices, qtbot
):
    # A target without a device is refused in a sentence.
    formats = TargetChoice(id="formats")
    opened.document.apply("Formats", lambda p: edits.set_target(p, formats))
    panel.start.click()
    notices.take("has no NPU")
    assert not [c for c in engines.commands if isinstance(c, RunStudy)]
    opened.document.undo_stack.undo()
    # Every kind of device says what it would take.
    assert "Takes seconds" in panel.note.text()
    panel.start.click()
    qtbot.waitUntil(lambda: panel.model.rowCount() == 1)
    row = [panel.model.index(0, column).data() for column in range(4)]
    assert row == ["Ethos-U55", "bmm", "head", "It has 16 bits."]
    assert {"Ethos-U55", "7 NPU, 1 CPU", "Ethos-U65", "7 NPU, 0 CPU"} <= set(said(panel))
    assert "not possible" in said(panel)
    qtbot.waitUntil(lambda: "Ethos-U85: No branches there." in panel.note.text())
    # Choosing a row chooses its module.
    panel.table.selectRow(0)
    assert opened.context.selection.value.modules == frozenset({"head"})
    # An edit marks what was foreseen as former.
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("Edit", lambda p: edits.assign(p, "module_name", "head", "a16w8"))
    qtbot.waitUntil(lambda: "Outdated" in panel.note.text())
