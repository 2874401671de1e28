"""Firmware as a kind of foreign input for ``tests.fuzz``."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from tests.fuzz_kinds import Reader
from workbench.errors import WorkbenchError


def firmwares() -> tuple[list[bytes], Reader]:
    """Return firmware with and without debug information, and its two readers."""
    from tests.workbench.deploy.emulation.test_firmware_elf import SYMBOLS, elf, line_table
    from workbench.deploy.emulation.firmware_elf import FirmwareElf
    from workbench.deploy.simulators.compatibility import read_runner

    loaded = (".text", 1, 2, b"aten::add.out\0EthosUBackend\0", 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.elf")
        seeds = [
            elf(path, sections).read_bytes()
            for sections in ([*SYMBOLS, loaded], [*SYMBOLS, loaded, *line_table(9)])
        ]

    def read(data: bytes, folder: Path) -> None:
        path = folder / "a.elf"
        path.write_bytes(data)
        with contextlib.suppress(WorkbenchError):
            runner = read_runner(path, {"main": "method"})
            for name in ("aten::add.out", "EthosUBackend"):
                runner.links(name)
            _ = (runner.placement, runner.families, runner.serves)
        firmware = FirmwareElf(path)
        for address in (0x20000000, 0x20000003, 0):
            firmware.text(address)
            firmware.source(address)
        firmware.over(0, 1 << 32)

    return seeds, read
