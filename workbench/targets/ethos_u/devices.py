"""Ethos-U devices: generations, their system configurations and memory modes.

Source: ethosu/config_files/Arm/vela.ini of Vela 5.1.0. Vela accepts any configuration on any
accelerator, so the family is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.targets.ethos_u.vela_ini import IniMode, ini_of

if TYPE_CHECKING:
    from workbench.project.model import TargetChoice


@dataclass(frozen=True)
class Family:
    """One NPU generation: device sizes [MACs], configurations and defaults."""

    name: str
    macs: tuple[int, ...]
    system_config: str
    memory_mode: str
    tosa_spec: str


@dataclass(frozen=True)
class SystemConfig:
    """Clock [Hz] and the memory on the second AXI port."""

    name: str
    clock_hz: int
    external: str


FAMILIES: tuple[Family, ...] = (
    Family(
        "u55", (32, 64, 128, 256), "Ethos_U55_High_End_Embedded", "Shared_Sram", "TOSA-1.0+INT+int16+int4+u55"
    ),
    Family("u65", (256, 512), "Ethos_U65_High_End", "Dedicated_Sram_384KB", "TOSA-1.0+INT+int16+int4+u55"),
    Family(
        "u85",
        (128, 256, 512, 1024, 2048),
        "Ethos_U85_SYS_DRAM_Mid",
        "Dedicated_Sram_384KB",
        "TOSA-1.0+INT+int16+int4+cf",
    ),
)

SYSTEM_CONFIGS: tuple[SystemConfig, ...] = (
    SystemConfig("Ethos_U55_High_End_Embedded", 500_000_000, "flash"),
    SystemConfig("Ethos_U55_Deep_Embedded", 200_000_000, "flash"),
    SystemConfig("Ethos_U65_Embedded", 500_000_000, "flash"),
    SystemConfig("Ethos_U65_Mid_End", 500_000_000, "dram"),
    SystemConfig("Ethos_U65_High_End", 1_000_000_000, "dram"),
    SystemConfig("Ethos_U65_Client_Server", 1_000_000_000, "dram"),
    SystemConfig("Ethos_U85_SYS_Flash_Low", 200_000_000, "flash"),
    SystemConfig("Ethos_U85_SYS_Flash_High", 500_000_000, "flash"),
    SystemConfig("Ethos_U85_SYS_DRAM_Low", 500_000_000, "dram"),
    SystemConfig("Ethos_U85_SYS_DRAM_Mid", 1_000_000_000, "dram"),
    SystemConfig("Ethos_U85_SYS_DRAM_High", 1_000_000_000, "dram"),
)

MEMORY_MODES: Mapping[str, str] = {
    "Sram_Only": "everything in SRAM",
    "Shared_Sram": "weights external, tensors in SRAM shared with the CPU",
    "Dedicated_Sram": "weights and tensors external, SRAM as the NPU's cache",
    "Dedicated_Sram_256KB": "weights and tensors external, 256 KiB of SRAM as cache",
    "Dedicated_Sram_384KB": "weights and tensors external, 384 KiB of SRAM as cache",
    "Dedicated_Sram_512KB": "weights and tensors external, 512 KiB of SRAM as cache",
}

# Flags that Vela 5.1.0 accepts but ignores, and flags that the workbench sets.
# The option that stores the weights in a separate file beside the program.
EXTERNAL_WEIGHTS = "external_weights"
# The option that writes what the Inspector of ExecuTorch needs beside the program.
ETRECORD = "etrecord"
DEPRECATED_FLAGS = frozenset(
    {
        "--debug-force-regor",
        "--disable-chaining",
        "--disable-fwd",
        "--disable-cascading",
        "--disable-buffering",
        "--disable-ifm-reuse",
        "--verbose-operators",
        "--verbose-packing",
        "--verbose-tensor-purpose",
        "--verbose-progress",
        "--max-block-dependency",
        "--recursion-limit",
        "--timing",
        "--hillclimb-max-iterations",
    }
)
RESERVED_FLAGS = frozenset(
    {
        "--accelerator-config",
        "--output-format",
        "--config",
        "--system-config",
        "--memory-mode",
        "--output-dir",
        "--optimise",
        "--arena-cache-size",
    }
)

# Flags with which Vela prints or writes a list and compiles nothing. Source: Vela 5.1.0, ``vela.py``;
# the report of supported operators is written into the current folder.
LISTING_FLAGS = frozenset(
    {
        "-h",
        "--help",
        "--version",
        "--api-version",
        "--supported-ops-report",
        "--list-config-files",
        "--list-configs",
    }
)

FAMILIES_BY_NAME = {family.name: family for family in FAMILIES}
CONFIGS_BY_NAME = {config.name: config for config in SYSTEM_CONFIGS}


def family_of(target_id: str) -> Family:
    """Return the NPU generation of a device id such as ``ethos-u55-128``."""
    return FAMILIES_BY_NAME[target_id.split("-")[1]]


def system_configs(family: Family) -> list[SystemConfig]:
    """Return the system configurations of a generation."""
    prefix = f"Ethos_{family.name.upper()}_"
    return [config for config in SYSTEM_CONFIGS if config.name.startswith(prefix)]


def memory_modes(family: Family, system_config: str) -> list[str]:
    """Return the memory modes that compile: a dedicated SRAM needs DRAM."""
    config = CONFIGS_BY_NAME.get(system_config)
    if family.name == "u55" or (config is not None and config.external == "flash"):
        return ["Sram_Only", "Shared_Sram"]
    return list(MEMORY_MODES)


def clock_hz(system_config: str) -> int:
    """Return the NPU clock [Hz] that a system configuration assumes."""
    return CONFIGS_BY_NAME[system_config].clock_hz


def has_control_flow(target_id: str) -> bool:
    """Return whether a device supports conditions and loops: TOSA's control flow extension."""
    return "+cf" in family_of(target_id).tosa_spec


# Source: the memory modes of ethosu/config_files/Arm/vela.ini, Vela 5.1.0. The cache of the plain
# Dedicated_Sram is the size in ExecuTorch's runner: 0x60000 bytes.
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
    """Whether constants and arena are in SRAM, and the SRAM cache size [bytes], 0 for none."""

    constants_in_sram: bool
    arena_in_sram: bool
    cache_bytes: int


def memory_use(choice: TargetChoice, folder: Path) -> MemoryUse:
    """Return the memory use of a complete choice.

    Raises:
        WorkbenchError: its own .ini is missing or invalid.
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
    """Return the NPU clock [Hz] of the choice's system configuration.

    Raises:
        WorkbenchError: its own .ini is missing or invalid.
    """
    name = str(choice.options["system_config"])
    ini = ini_of(choice, folder)
    return clock_hz(name) if ini is None else ini.systems[name].clock_hz
