"""What is checked while firmware runs, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Group = Literal["memory", "cache", "interrupt", "driver", "runtime"]
Verdict = Literal["proven", "not proven"]
# What an emulation cannot show.
NOT_PROVEN = (
    "time and performance counters (they read 0)",
    "real caches (only the calls that maintain them are checked)",
    "arbitration on the bus",
    "TrustZone beyond the aliases of addresses",
    "memory maps of other boards than the AN547",
)


@dataclass(frozen=True)
class Check:
    """One check: its group, what holds if it is held, and what to do if it is not."""

    group: Group
    title: str
    remedy: str


CHECKS: dict[str, Check] = {
    "commands": Check(
        "memory",
        "The NPU gets the commands of the program",
        "Link the delivered program, keep it aligned to 16 bytes, and do not write to it.",
    ),
    "constants": Check(
        "memory",
        "Base address 0 has the constants of the program",
        "Pass the constants as base 0, and scratch as base 1.",
    ),
    "reached": Check(
        "memory",
        "The NPU reaches all memories of the job",
        "Place commands, constants and scratch in SRAM, flash or DDR, not in ITCM or DTCM.",
    ),
    "scratch": Check(
        "memory", "Scratch is large enough", "Make the pool as large as the firmware note says."
    ),
    "fast": Check(
        "memory", "Fast memory is large enough", "Make the fast pool as large as the firmware note says."
    ),
    "overlap": Check(
        "memory",
        "Memories of the job do not overlap",
        "Give each of commands, constants, scratch and stack a place of its own.",
    ),
    "security": Check(
        "memory",
        "Addresses fit the security state of the NPU",
        "Start the NPU secure (ethosu_init), or link to non-secure addresses.",
    ),
    "port": Check(
        "memory",
        "The NPU writes through a port that can write",
        "On an Ethos-U55 let scratch use AXI port 0 (REGIONCFG 0 or 1).",
    ),
    "cleaned": Check(
        "cache",
        "Inputs are cleaned from the data cache before the NPU starts",
        "Clean all of scratch in ethosu_flush_dcache, or place it in memory that is not cached.",
    ),
    "invalidated": Check(
        "cache",
        "Outputs are invalidated in the data cache before they are read",
        "Invalidate all of scratch in ethosu_invalidate_dcache.",
    ),
    "lines": Check("cache", "Scratch begins with a cache line", "Align it to 32 bytes."),
    "handler": Check(
        "interrupt",
        "The vector table has a handler for the NPU",
        "Set the vector of the NPU's interrupt to a function that calls ethosu_irq_handler.",
    ),
    "handled": Check(
        "interrupt",
        "The interrupt of the NPU is handled",
        "Enable it in the NVIC, with a priority that nothing masks, and clear it in the handler.",
    ),
    "registers": Check(
        "driver",
        "The driver accesses the registers as they can be accessed",
        "Use Arm's driver for the family of the NPU.",
    ),
    "accepted": Check(
        "driver", "The driver reports no error", "See its message; the build must name the device."
    ),
    "started": Check(
        "driver", "The NPU is started", "Check the base address (--base), and that the code runs."
    ),
    "executed": Check("driver", "The NPU executes the commands", "Compile the program again."),
    "exceptions": Check("runtime", "The processor has no fault", "See the address and the line."),
    "untouched": Check(
        "runtime",
        "Nothing touches scratch while the NPU runs",
        "Wait for the NPU (ethosu_wait, or the interrupt) before inputs or outputs are used.",
    ),
    "ends": Check(
        "runtime",
        "The firmware ends with exit code 0",
        "End it by semihosting (_exit) with 0 if its outputs are right.",
    ),
}


@dataclass(frozen=True)
class Finding:
    """A check that is not held.

    ``address`` is where it shows (None if nowhere), ``symbol`` the address with its symbol, and
    ``source`` the line of the code.
    """

    check: str
    message: str
    address: int | None = None
    symbol: str = ""
    source: str = ""

    @property
    def remedy(self) -> str:
        """What to do."""
        return CHECKS[self.check].remedy


@dataclass
class Proof:
    """What was seen of firmware on the emulated processor.

    ``checked`` are the checks that were made. ``exit_code`` is None if the firmware was ended.
    ``driver`` is the version of Arm's driver, "" if the firmware does not tell it; ``delegates`` and
    ``cpu_kernels`` are the numbers of the program's.
    """

    target: str
    qemu: str
    program_sha256: str = ""
    firmware_sha256: str = ""
    delegates: int = 0
    cpu_kernels: int = 0
    driver: str = ""
    findings: list[Finding] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    jobs: list[dict[str, object]] = field(default_factory=list)
    accesses: int = 0
    exit_code: int | None = None
    output: str = ""
    elapsed_s: float = 0.0
    npu_s: float = 0.0

    def add(self, finding: Finding) -> None:
        """Add a finding that is not known yet."""
        self.checked.add(finding.check)
        if finding not in self.findings:
            self.findings.append(finding)

    @property
    def verdict(self) -> Verdict:
        """Whether the firmware is proven."""
        is_proven = not self.findings and self.exit_code == 0 and bool(self.jobs)
        return "proven" if is_proven else "not proven"

    def held(self, check: str) -> bool | None:
        """Return whether a check is held; None if it was not made."""
        if any(finding.check == check for finding in self.findings):
            return False
        return True if check in self.checked else None
