"""Which section goes into which memory, and how the NPU's regions are set for the memory mode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workbench.handover.sources import ALIGNMENT, SECTION, WEIGHTS_SECTION

if TYPE_CHECKING:
    from workbench.handover.facts import Facts
    from workbench.targets.ethos_u_memory import MemoryUse

# Sections of ExecuTorch's Arm runner, by what lies in them.
# Source: ExecuTorch 1.5.1, examples/arm/executor_runner/arm_executor_runner.cpp.
_SECTIONS = (
    ("program", SECTION),
    ("weights", WEIGHTS_SECTION),
    ("scratch pool", ".bss.tensor_arena"),
    ("NPU cache", ".bss.ethosu_scratch"),
    ("method pool", ".bss.method_allocator_sec"),
)


def linker(facts: Facts) -> str:
    """Return statements for a linker script of GNU ld, one for each part of the program."""
    homes = _homes(facts)
    return "\n".join(_statement(what, section, homes[what]) for what, section in _SECTIONS
                     if what in homes) + "\n"  # fmt: skip


def _statement(what: str, section: str, home: str) -> str:
    name = "." + section.removeprefix(".bss.").removesuffix("_sec").replace("network_", "")
    if what in {"program", "weights"}:
        held = f"{name} : {{ . = ALIGN({ALIGNMENT}); KEEP(*({section})) }}"
    else:
        held = f"{name} (NOLOAD) : {{ . = ALIGN({ALIGNMENT}); *({section}) }}"
    return f"/* {what} */\n{held} > {home}"


def _homes(facts: Facts) -> dict[str, str]:
    """Return the memory of each part; by kind where no board was chosen or nothing had room."""
    use = facts.use
    homes = {
        "program": "SRAM" if use.constants_in_sram else "FLASH_OR_DRAM",
        "method pool": "SRAM" if use.arena_in_sram else "DRAM",
    }
    if facts.weights is not None:
        homes["weights"] = homes["program"]
    if facts.delegates:
        homes["scratch pool"] = "SRAM" if use.arena_in_sram else "DRAM"
    if use.cache_bytes:
        homes["NPU cache"] = "SRAM"
    for filling in facts.fit.fillings if facts.fit else ():
        homes |= {d.what: re.sub(r"\W", "_", filling.name).upper() for d in filling.demands}
    return homes


def region_settings(use: MemoryUse) -> str:
    """Return how the NPU driver must be built for the memory mode.

    Source: ExecuTorch 1.5.1, backends/arm/scripts/corstone_utils.cmake.
    """
    if use.constants_in_sram and use.arena_in_sram:
        return (
            "Weights and tensors both lie in SRAM: build the NPU driver with "
            "NPU_QCONFIG=1, NPU_REGIONCFG_0=1 and all other regions 0."
        )
    if not use.arena_in_sram:
        return (
            "Tensors lie in DRAM and SRAM is a cache: build the NPU driver with "
            "NPU_QCONFIG=3, NPU_REGIONCFG_0=3, NPU_REGIONCFG_1=3 and all other regions 0."
        )
    return "Weights lie in flash or DRAM and tensors in SRAM: the NPU driver's default regions fit."
