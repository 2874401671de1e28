"""Linked firmware is checked from *Deliver*, over the real command line."""

import pytest
from PySide6.QtCore import Qt

from tests.fakes import runner_elf
from tests.fakes.engine import leave_results
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from tests.workbench.cli.test_firmware_check import INTEGER
from ui.features.deliver.firmware_check_dialog import FirmwareCheckDialog
from ui.features.simulator.firmware_dialog import FirmwareDialog
from ui.shared.theme import DARK
from ui.shell.toolchains_dialog import ToolchainsDialog
from workbench.deploy.simulators.discovery import load_settings

LONG_MS = 60_000
WHOLE = runner_elf.runner()
SMALL = runner_elf.runner(pools={"scratch": 16}, backend=False)


@pytest.fixture
def dialog(qtbot, tmp_path):
    shown = FirmwareCheckDialog(INTEGER, "", DARK, None)
    qtbot.addWidget(shown)
    shown.show()
    return shown


def check(qtbot, dialog, path, contents):
    path.write_bytes(contents)
    dialog.elf.set_text(str(path))
    qtbot.mouseClick(dialog.check, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not dialog.is_running and bool(dialog.answer.toPlainText()), timeout=LONG_MS)
    return {row.name: row for row in map(dialog.model.row_at, range(dialog.model.rowCount()))}


def test_that_firmware_that_has_all_and_firmware_that_lacks_something_are_told_apart(qtbot, dialog, tmp_path):
    assert not dialog.check.isEnabled()
    rows = check(qtbot, dialog, tmp_path / "whole.elf", WHOLE)
    assert {row.held for row in rows.values()} == {True}
    assert rows["scratch"].available == "2,097,152 B"
    assert "has all that the program needs" in dialog.answer.toPlainText()
    assert "Output 0" in dialog.answer.toPlainText()
    dialog.answer.clear()
    rows = check(qtbot, dialog, tmp_path / "small.elf", SMALL)
    assert [row for row in rows if rows[row].held is False] == ["scratch", "EthosUBackend"]
    assert dialog.model.index(0, 0).data() == "\u2717"
    assert rows["scratch"].available == "16 B"
    assert "has all that" not in dialog.answer.toPlainText()
    assert dialog.answer.toPlainText().count("\u2717") == 2
    # What is to be copied is whole.
    assert "ET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE=" in dialog.answer.toPlainText()


@pytest.mark.slow
@for_each(
    ("contents", "pools", "words"),
    [(b"no firmware", "", "app.elf"), (WHOLE, "method=nothing", "nothing"), (WHOLE, "heap=a", "heap")],
)
def test_that_what_cannot_be_checked_is_one_message_and_leaves_no_rows(
    qtbot, dialog, tmp_path, contents, pools, words
):
    dialog.answer.clear()
    dialog.pools.setText(pools)
    assert check(qtbot, dialog, tmp_path / "app.elf", contents) == {}
    assert words in dialog.answer.toPlainText()
    assert not dialog.answer.toPlainText().startswith("error")
    assert "Log:" not in dialog.answer.toPlainText()


@pytest.mark.parametrize("closing", ["close", "reject", "accept"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: FirmwareCheckDialog(INTEGER, "/nowhere.elf", DARK, None),
        lambda: FirmwareDialog(INTEGER, "ethos-u55-128", "/nowhere.elf", None),
        lambda: ToolchainsDialog("", DARK, None),
    ],
    ids=["check", "prove", "toolchains"],
)
def test_that_closing_a_dialog_ends_its_process(qtbot, make, closing):
    shown = make()
    qtbot.addWidget(shown)
    shown.show()
    for button in ("check", "prove"):
        if hasattr(shown, button):
            qtbot.mouseClick(getattr(shown, button), Qt.MouseButton.LeftButton)
    assert shown.is_running
    getattr(shown, closing)()
    assert not shown.is_running


def test_that_deliver_checks_the_packed_program_and_knows_the_firmware_again(
    opened, qtbot, monkeypatch, tmp_path
):
    leave_results(monkeypatch)
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("deliverables")
    qtbot.waitUntil(lambda: panel.has("package"))
    monkeypatch.setattr(
        opened.context.session, "result", lambda stage: INTEGER.parent if stage == "package" else None
    )
    qtbot.mouseClick(panel.buttons["check"], Qt.MouseButton.LeftButton)
    (shown,) = panel.findChildren(FirmwareCheckDialog)
    check(qtbot, shown, tmp_path / "whole.elf", WHOLE)
    assert load_settings().firmware == str(tmp_path / "whole.elf")
    shown.reject()
    qtbot.mouseClick(panel.buttons["check"], Qt.MouseButton.LeftButton)
    again = panel.findChildren(FirmwareCheckDialog)[-1]
    assert again.elf.text() == str(tmp_path / "whole.elf")
    again.reject()
