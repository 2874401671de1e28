"""Each fault of firmware is noticed by its check, with a driver of ours."""

import shutil
from pathlib import Path

import pytest

from tests.firmware.faulty import CONTROLS, FAULTS, fast_fault
from tests.firmware.matrix import proof_of, row
from workbench.deploy.emulation.firmware_project import sources

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "data" / "programs" / "integer"
OWN = HERE / "own_driver"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc")),
        reason="needs QEMU and the Arm GNU toolchain",
    ),
]
# Only Arm's driver is built for one family.
ROWS = [fault for fault in (*CONTROLS, *FAULTS) if "another family" not in fault.name]


@pytest.mark.parametrize("fault", ROWS, ids=lambda fault: fault.name)
def test_that_a_fault_is_noticed(fault, tmp_path):
    found = sources(OWN, OWN / "cmsis")
    held, text = row(fault, proof_of(PROGRAMS / "u55" / "program.pte", fault, found, tmp_path))
    assert held, text


@pytest.mark.parametrize("fault", [CONTROLS[0], fast_fault()], ids=lambda fault: fault.name)
def test_that_fast_memory_is_checked(fault, tmp_path):
    found = sources(OWN, OWN / "cmsis")
    held, text = row(fault, proof_of(PROGRAMS / "u65" / "program.pte", fault, found, tmp_path))
    assert held, text
