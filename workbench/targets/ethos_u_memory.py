"""Which memory holds what on an Ethos-U system, by system configuration and memory mode."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.targets.ethos_u_devices import clock_hz
from workbench.targets.vela_ini import IniMode, ini_of

if TYPE_CHECKING:
    from workbench.project.model import TargetChoice

# Source: the memory modes of ethosu/config_files/Arm/vela.ini, Vela 5.1.0. The cache of the plain
# Dedicated_Sram is what ExecuTorch's runner gives: 0x60000 bytes.
_ARM_MODES = {
    mode.name: mode
    for mode in (
        IniMode("Sram_Only", 0, 0, 0, None),
        IniMode("Shared_Sram", 1, 0, 0, None),
        IniMode("Dedicated_Sram", 1, 1, 0, 0x60000),
        IniMode("Dedicated_Sram_256KB", 1, 1, 0, 262144),
        IniMode("Dedicated_Sram_384KB", 1, 1, 0, 393216),
        IniMode("Dedicated_Sram_512KB", 1, 1, 0, 524288),
    )
}


@dataclass(frozen=True)
class MemoryUse:
    """Whether constants and arena lie in SRAM, and the SRAM that is a cache [bytes], 0 for none."""

    constants_in_sram: bool
    arena_in_sram: bool
    cache_bytes: int


def memory_use(choice: TargetChoice, folder: Path) -> MemoryUse:
    """Return which memory holds what for a complete choice.

    Raises:
        WorkbenchError: its own .ini is missing or broken.
    """
    name, system = (str(choice.options.get(k)) for k in ("memory_mode", "system_config"))
    ini = ini_of(choice, folder)
    if ini is None:
        mode, in_sram = _ARM_MODES[name], (True, False)
    else:
        mode, ports = ini.modes[name], ini.systems[system].ports
        in_sram = (ports[0] == "Sram", ports[1] == "Sram")
    limit = choice.options.get("arena_cache_bytes")
    cache = limit if isinstance(limit, int) else mode.cache_bytes
    spills = mode.arena != mode.cache
    return MemoryUse(in_sram[mode.const], in_sram[mode.arena], (cache or 0) if spills else 0)


def clock_of(choice: TargetChoice, folder: Path) -> int:
    """Return the NPU clock [Hz] that the choice's system configuration assumes.

    Raises:
        WorkbenchError: its own .ini is missing or broken.
    """
    name = str(choice.options["system_config"])
    ini = ini_of(choice, folder)
    return clock_hz(name) if ini is None else ini.systems[name].clock_hz
