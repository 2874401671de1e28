"""What a runner's ELF was built for, read from its header, its symbols and its strings.

Source: ExecuTorch, ``examples/arm/executor_runner/arm_executor_runner.cpp`` (names of pools and
texts) and ``arm_perf_monitor.cpp`` (the list of events, which differs by NPU); ELF-32 of the
System V ABI.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from workbench.errors import Place, WorkbenchError, failure

ARM = 40
_MACHINES = {3: "x86", 40: "Arm", 62: "x86-64", 183: "Arm of 64 bits", 243: "RISC-V"}
_SECTION, _SYMBOL, _SYMBOL_TABLE = struct.Struct("<10I"), struct.Struct("<IIIBBH"), 2
_POOLS = {
    "method_allocation_pool": "method",
    "temp_allocation_pool": "scratch",
    "input_file_allocation_pool": "files",
    "dedicated_sram": "fast scratch",
    "planned_fast_memory_pool": "planned fast memory",
}
Placement = Literal["semihosting", "embedded", "bare", "unknown"]
_MARKS: tuple[tuple[bytes, Placement], ...] = (
    (b"app -m model.pte -i input.bin", "semihosting"),
    (b"app -o output_basename -i input.bin", "embedded"),
    (b"Starting running %d inferences", "bare"),
)
_FAMILY_MARKS = (
    (b"ETHOSU_PMU_SRAM_RD_DATA_BEAT_RECEIVED", ("u85",)),
    (b"ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED", ("u55", "u65")),
)


@dataclass(frozen=True)
class RunnerElf:
    """A runner. ``pools`` are sizes by name [bytes], empty in a stripped file."""

    path: Path
    data: bytes
    pools: dict[str, int]

    @cached_property
    def placement(self) -> Placement:
        """Where the program comes from: a file, the ELF, or an address; unknown without logs."""
        return next((kind for mark, kind in _MARKS if mark in self.data), "unknown")

    @cached_property
    def families(self) -> tuple[str, ...]:
        """NPU generations it can be for; empty if nothing tells. U55 and U65 look alike."""
        return next((found for mark, found in _FAMILY_MARKS if mark in self.data), ())

    @cached_property
    def serves(self) -> bool:
        """Whether it computes several samples in one start."""
        return b"SERVER_INFERENCE_DONE" in self.data

    @cached_property
    def records(self) -> bool:
        """Whether it records events (ETDump), in a file or on the serial port."""
        return b"etdump.bin" in self.data

    @property
    def dedicated(self) -> bool | None:
        """Whether it gives the NPU an SRAM of its own; None if nothing tells."""
        return "fast scratch" in self.pools if self.pools else None

    def links(self, name: str) -> bool:
        """Return whether a kernel or backend of this name is in it."""
        return name.encode() + b"\0" in self.data


def read_runner(path: Path) -> RunnerElf:
    """Return what a runner is.

    Raises:
        WorkbenchError: it is missing, no ELF, damaged, or not for a Cortex-M.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _wrong(
            path, f"cannot be read: {error.strerror or error}", "Choose the runner's ELF."
        ) from error
    if data[:4] != b"\x7fELF" or len(data) < 52:
        raise _wrong(path, "is no ELF file", "Choose the file arm_executor_runner of a build.")
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine != ARM or data[4] != 1:
        built = _MACHINES.get(machine, f"machine {machine}")
        raise _wrong(
            path,
            f"is built for {built}, the simulators run Cortex-M (Arm of 32 bits)",
            "Build it with arm-none-eabi-gcc; a file with debug information alone will not do.",
        )
    try:
        return RunnerElf(path, data, _pools(data))
    except (struct.error, IndexError) as error:
        raise _wrong(path, "is cut short or damaged", "Build or copy it again.") from error


def _pools(data: bytes) -> dict[str, int]:
    offset, size, count = (
        struct.unpack_from("<I", data, 32)[0],
        *struct.unpack_from("<HH", data, 46),
    )
    if not offset or size != _SECTION.size:
        return {}
    sections = [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]
    found: dict[str, int] = {}
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        texts = sections[section[6]]
        names = data[texts[4] : texts[4] + texts[5]]
        table = data[section[4] : section[4] + section[5]]
        if len(table) != section[5] or len(names) != texts[5]:
            raise IndexError
        wanted = {names.find(b"\0" + name.encode() + b"\0") + 1: name for name in _POOLS}
        for at, _, length, *_ in _SYMBOL.iter_unpack(table):
            if at and at in wanted:
                found[_POOLS[wanted[at]]] = length
    return found


def _wrong(path: Path, what: str, hint: str) -> WorkbenchError:
    return failure(f"The runner {path.name} {what}.", hint, Place(kind="file", id=str(path)))
