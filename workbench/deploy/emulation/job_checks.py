"""The checks of one start of the NPU: its memories, ports, caches and vectors."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from workbench.deploy.emulation.findings import Finding
from workbench.deploy.emulation.gdb import SP, Stopped
from workbench.deploy.emulation.npu_device import bank_at
from workbench.npu.memory import CONSTANTS, FAST_SCRATCH, SCRATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.deploy.emulation.findings import Proof
    from workbench.deploy.emulation.firmware_elf import FirmwareElf
    from workbench.deploy.emulation.npu_device import Delegate, Job
    from workbench.deploy.emulation.qemu import Qemu

# Bytes of a line of the data cache (Cortex-M55 Technical Reference Manual).
CACHE_LINE = 32
VTOR = 0xE000ED08
_NAMES = {CONSTANTS: "Constants", SCRATCH: "Scratch", FAST_SCRATCH: "Fast memory"}
# The second bit of a region's field in REGIONCFG chooses AXI port 1.
_PORT_1 = 2
_SECURE_ALIAS = 1 << 28


class JobChecks:
    """Checks the jobs of one machine against the program and the firmware's symbols."""

    def __init__(
        self, proof: Proof, qemu: Qemu, elf: FirmwareElf, delegates: Sequence[Delegate], irq: int
    ) -> None:
        self._proof, self._qemu, self._elf = proof, qemu, elf
        self._delegates, self._irq = delegates, irq

    def before(self, job: Job, *, cached: bool) -> None:
        """Find the delegate of a job, and check its memories; set its fault if it cannot run."""
        self._proof.checked |= {
            "commands",
            "reached",
            "constants",
            "scratch",
            "overlap",
            "security",
            "handler",
            "started",
            "executed",
            "registers",
            "handled",
            "accepted",
        }
        self._match(job)
        self._vector()
        if job.delegate is None:
            return
        spans = self._spans(job, job.delegate)
        if not self._reached(job, spans):
            return
        self._constants(job, job.delegate)
        self._rooms(job, job.delegate)
        self._overlaps(spans)
        self._security(job, spans)
        self._ports(job, job.delegate)
        if cached:
            self._proof.checked |= {"cleaned", "lines", "invalidated"}
            if job.bases[SCRATCH] % CACHE_LINE:
                self._report("lines", "Scratch does not begin with a cache line", job.bases[SCRATCH])

    def _report(self, check: str, message: str, address: int | None = None) -> None:
        text = self._elf.text(address) if address is not None else ""
        message = f"{message}: {text}." if text else f"{message}."
        self._proof.add(Finding(check, message, address, text))

    def _match(self, job: Job) -> None:
        bank = bank_at(job.qbase)
        if bank is None or job.qbase + job.qsize > bank.end:
            job.fault = "The NPU cannot read its commands."
            self._report("reached", "The NPU reaches no memory at the commands", job.qbase)
            return
        job.stream = self._qemu.read(job.qbase, job.qsize)
        job.delegate = next((d for d in self._delegates if d.stream == job.stream), None)
        if job.delegate is None:
            job.fault = "The commands are none of the program's."
            nearest = max(self._delegates, key=lambda d: _equal_bytes(d.stream, job.stream))
            same = _equal_bytes(nearest.stream, job.stream)
            self._report(
                "commands",
                f"The commands differ from those of delegate {nearest.index} from byte "
                f"{same:,} of {len(nearest.stream):,} on",
                job.qbase,
            )

    def _spans(self, job: Job, delegate: Delegate) -> dict[str, tuple[int, int]]:
        sizes = {
            CONSTANTS: len(delegate.weights),
            SCRATCH: delegate.scratch_bytes,
            FAST_SCRATCH: delegate.fast_bytes,
        }
        spans = {
            _NAMES[region]: (job.bases[region], job.bases[region] + size)
            for region, size in sizes.items()
            if size
        }
        return {**spans, "Commands": (job.qbase, job.qbase + len(job.stream))}

    def _reached(self, job: Job, spans: dict[str, tuple[int, int]]) -> bool:
        for name, (start, end) in spans.items():
            bank = bank_at(start)
            if bank is None:
                job.fault = f"{name}: no memory that the NPU reaches."
                self._report("reached", f"{name}: the NPU reaches no memory there", start)
            elif end > bank.end:
                job.fault = f"{name}: beyond the end of the memory."
                self._report("reached", f"{name}: {end - start:,} bytes leave {bank.name}", start)
        return not job.fault

    def _constants(self, job: Job, delegate: Delegate) -> None:
        address = job.bases[CONSTANTS]
        if not delegate.weights:
            return
        held = self._qemu.read(address, len(delegate.weights))
        if held != delegate.weights:
            same = _equal_bytes(held, delegate.weights)
            self._report(
                "constants",
                f"Base address 0 does not have the constants of delegate "
                f"{delegate.index}: byte {same:,} differs",
                address,
            )

    def _rooms(self, job: Job, delegate: Delegate) -> None:
        """Check that the firmware's objects hold what the NPU uses from the base addresses on."""
        rows = (("scratch", SCRATCH, delegate.scratch_bytes), ("fast", FAST_SCRATCH, delegate.fast_bytes))
        for check, region, needed in rows:
            if not needed:
                continue
            self._proof.checked.add(check)
            start = job.bases[region]
            held = self._elf.at(start)
            if held is None or start + needed <= held.end:
                continue
            over = [s.name for s in self._elf.over(held.end, start + needed)][:3]
            beyond = f", over {', '.join(over)}" if over else ""
            self._report(
                check,
                f"{_NAMES[region]} has {held.end - start:,} bytes, the NPU uses {needed:,}{beyond}",
                start,
            )

    def _overlaps(self, spans: dict[str, tuple[int, int]]) -> None:
        for (name, span), (other, second) in combinations(spans.items(), 2):
            if span[0] < second[1] and second[0] < span[1]:
                self._report("overlap", f"{name} and {other.lower()} overlap", max(span[0], second[0]))
        stack = self._qemu.gdb.registers()[SP]
        start, end = spans.get("Scratch", (0, 0))
        if start < stack < end:
            self._report("overlap", "The stack is inside scratch", stack)

    def _security(self, job: Job, spans: dict[str, tuple[int, int]]) -> None:
        for name, (start, _) in spans.items():
            if not job.secure and start & _SECURE_ALIAS:
                text = f"The NPU runs non-secure; {name} has a secure address"
                self._report("security", text, start)

    def _ports(self, job: Job, delegate: Delegate) -> None:
        if not delegate.machine.device.family.endswith("u55"):
            return
        self._proof.checked.add("port")
        for region in (SCRATCH, FAST_SCRATCH):
            uses = region == SCRATCH or delegate.fast_bytes
            if uses and job.regioncfg >> 2 * region & _PORT_1:
                text = f"{_NAMES[region]} (region {region}) uses AXI port 1, which only reads"
                self._report("port", text, job.bases[region])

    def _vector(self) -> None:
        table = self._qemu.gdb.word(VTOR)
        try:
            handler = self._qemu.gdb.word(table + 4 * (16 + self._irq))
        except Stopped:
            handler = 0
        # The lowest bit says Thumb; without it the processor faults.
        if not handler & 1:
            message = f"The vector of interrupt {self._irq} is {handler:#x}, no function"
            self._report("handler", message, table + 4 * (16 + self._irq))


def _equal_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes are equal from the start on."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
