"""Firmware is proved from the window, in a process of its own."""

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from tests.firmware.faulty import CONTROLS, FAULTS
from tests.firmware.matrix import built
from ui.features.simulator.firmware_dialog import FirmwareDialog
from workbench.deploy.emulation.firmware_project import sources

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "data" / "programs" / "integer" / "u55" / "program.pte"
OWN = ROOT / "firmware" / "own_driver"


def opened(qtbot, elf):
    dialog = FirmwareDialog(PROGRAM, "ethos-u55-128", str(elf), None)
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def test_that_what_is_no_firmware_is_told_in_a_sentence(qtbot, tmp_path):
    (tmp_path / "other.elf").write_text("no firmware")
    dialog = opened(qtbot, tmp_path / "other.elf")
    qtbot.mouseClick(dialog.prove, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not dialog.is_running, timeout=30_000)
    assert "other.elf" in dialog.text.toPlainText()
    assert "Traceback" not in dialog.text.toPlainText()


def test_that_closing_ends_the_process(qtbot, tmp_path):
    dialog = opened(qtbot, tmp_path / "other.elf")
    qtbot.mouseClick(dialog.prove, Qt.MouseButton.LeftButton)
    dialog.close()
    assert not dialog.is_running


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc")),
    reason="needs QEMU and the Arm GNU toolchain",
)
@pytest.mark.parametrize("fault", [CONTROLS[0], FAULTS[0]], ids=lambda fault: fault.name)
def test_that_firmware_is_proven_and_a_fault_is_named_with_its_remedy(qtbot, tmp_path, fault):
    elf = built(PROGRAM, fault, sources(OWN, OWN / "cmsis"), tmp_path)
    dialog = opened(qtbot, elf)
    with qtbot.waitSignal(dialog.proved, timeout=60_000) as told:
        qtbot.mouseClick(dialog.prove, Qt.MouseButton.LeftButton)
    assert told.args == [str(elf), not fault.checks]
    assert ("failed" in dialog.text.toPlainText()) == bool(fault.checks)
