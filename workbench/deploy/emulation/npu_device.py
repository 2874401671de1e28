"""The register block of an Ethos-U, and its execution by the functional simulator.

Source: offsets, bits and reset values are those of the register headers of Vela 5.1.0
(``ethos_u55_regs``, ``ethos_u85_regs``) and of Arm's core driver 1.0.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from workbench.errors import WorkbenchError
from workbench.npu.machine import Machine
from workbench.npu.memory import FAST_SCRATCH, SCRATCH
from workbench.npu.state import Options, State, WeightCache
from workbench.pte import vela_stream

ID, STATUS, CMD, RESET, QBASE, QREAD, QSIZE, PROT, CONFIG = (
    0x00,
    0x04,
    0x08,
    0x0C,
    0x10,
    0x18,
    0x20,
    0x24,
    0x28,
)
REGIONCFG, BASES = 0x3C, 0x80
READ_ONLY = (ID, STATUS, QREAD, PROT, CONFIG)
# Bits of CMD and STATUS.
_RUN, _CLEAR, _CLOCK_AND_POWER = 1, 2, 0xC
_RUNNING, _IRQ, _BUS_ERROR, _PARSE_ERROR, _ENDED = 1, 2, 4, 16, 32
_USER, _NON_SECURE = 1, 2
REGIONS = 8
# PMCR by family, and its field with the number of event counters.
_PMCR = {"ethos-u55": (0x180, 4), "ethos-u65": (0x180, 4), "ethos-u85": (0x1180, 8)}
_COUNTERS = 31 << 11
# ID, and CONFIG of each device, as Vela 5.1.0 writes them into the header of a command stream.
_IDS = {"ethos-u55": 0x10066001, "ethos-u65": 0x10066001, "ethos-u85": 0x20007000}
CONFIGURATIONS = {
    "ethos-u55-32": 0x1005,
    "ethos-u55-64": 0x1006,
    "ethos-u55-128": 0x1807,
    "ethos-u55-256": 0x3008,
    "ethos-u65-256": 0x10003008,
    "ethos-u65-512": 0x10006009,
    "ethos-u85-128": 0x20000117,
    "ethos-u85-256": 0x20000118,
    "ethos-u85-512": 0x20001119,
    "ethos-u85-1024": 0x2000251A,
    "ethos-u85-2048": 0x2000261B,
}
Read = Callable[[int, int], bytes]
Write = Callable[[int, bytes], None]


@dataclass(frozen=True)
class Bank:
    """A memory that the NPU reaches, from ``start`` on [bytes]."""

    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.start + self.size


# The Corstone-300 of the AN547 (Arm DAI 0547, memory map). ITCM and DTCM are the processor's own.
CORSTONE_300 = (
    Bank("SRAM (FPGA)", 0x01000000, 2 << 20),
    Bank("SRAM (FPGA, secure)", 0x11000000, 2 << 20),
    Bank("SRAM", 0x21000000, 4 << 20),
    Bank("SRAM (secure)", 0x31000000, 4 << 20),
    Bank("QSPI", 0x28000000, 8 << 20),
    Bank("QSPI (secure)", 0x38000000, 8 << 20),
    Bank("DDR", 0x60000000, 2 << 30),
)


def bank_at(address: int, banks: tuple[Bank, ...] = CORSTONE_300) -> Bank | None:
    """Return the memory at an address that the NPU reaches; None if it reaches none."""
    return next((bank for bank in banks if bank.start <= address < bank.end), None)


@dataclass
class Delegate:
    """A delegate of the program, as the compiler wrote it.

    ``payload`` is what the driver gets, ``stream`` the part of it that the NPU reads.
    """

    index: int
    blob: bytes
    payload: bytes
    stream: bytes
    weights: bytes
    machine: Machine
    fast_bytes: int = 0

    @property
    def target(self) -> str:
        """The NPU that it is for, as ethos-u55-128."""
        return f"{self.machine.device.family}-{self.machine.device.macs}"

    @property
    def scratch_bytes(self) -> int:
        """What it needs as scratch [bytes]."""
        return self.machine.scratch_bytes


@dataclass
class Job:
    """One start of the NPU: registers as they were, and what became of it.

    ``bases`` are the addresses of the memory regions. ``fault`` says why the NPU stopped with an
    error; "" if it did not. ``delegate`` is None if the commands are none of the program's.
    """

    qbase: int
    qsize: int
    bases: tuple[int, ...]
    regioncfg: int
    secure: bool
    privileged: bool
    delegate: Delegate | None = None
    stream: bytes = b""
    fault: str = ""
    operations: int = 0
    written: dict[int, int] = field(default_factory=dict)


class NpuDevice:
    """The registers. ``load`` and ``store`` reach the machine's memory, ``line`` its interrupt."""

    def __init__(self, target: str, load: Read, store: Write, line: Callable[[bool], None]) -> None:
        self.family = target.rpartition("-")[0]
        self._load, self._store, self._line = load, store, line
        self._identity, self._configuration = _IDS[self.family], CONFIGURATIONS[target]
        self._weights = WeightCache()
        self.counts: Counter[tuple[bool, int]] = Counter()
        self.wrong_writes: list[int] = []
        self.raised = False
        self.waiting: Job | None = None
        self._registers: dict[int, int] = {}
        self._reset(0)

    def _reset(self, word: int) -> None:
        self._registers = {PROT: word & 3, CMD: _CLOCK_AND_POWER}
        self._status, self.waiting = 0, None
        self._lower()

    def _lower(self) -> None:
        self._status &= ~_IRQ
        if self.raised:
            self.raised = False
            self._line(False)

    def read(self, offset: int) -> int:
        """Return a register of 32 bits."""
        self.counts[False, offset] += 1
        known = {ID: self._identity, CONFIG: self._configuration, STATUS: self._status}
        if offset in known:
            return known[offset]
        value = self._registers.get(offset, 0)
        register, counters = _PMCR[self.family]
        return value & ~_COUNTERS | counters << 11 if offset == register else value

    def write(self, offset: int, value: int) -> Job | None:
        """Set a register of 32 bits; return the job if that starts the NPU."""
        self.counts[True, offset] += 1
        if offset == RESET:
            self._reset(value)
        elif offset == CMD:
            self._registers[CMD] = value & _CLOCK_AND_POWER
            if value & _CLEAR:
                self._lower()
            if value & _RUN:
                return self._started()
        elif offset in READ_ONLY:
            self.wrong_writes.append(offset)
        else:
            self._registers[offset] = value
        return None

    def _wide(self, offset: int) -> int:
        # Addresses have 40 bits on the NPU.
        high = self._registers.get(offset + 4, 0) & 0xFF
        return self._registers.get(offset, 0) | high << 32

    def _started(self) -> Job:
        rights = self._registers[PROT]
        self._status = self._status & ~(_BUS_ERROR | _PARSE_ERROR | _ENDED) | _RUNNING
        self.waiting = Job(
            qbase=self._wide(QBASE),
            qsize=self._registers.get(QSIZE, 0),
            bases=tuple(self._wide(BASES + 8 * region) for region in range(REGIONS)),
            regioncfg=self._registers.get(REGIONCFG, 0),
            secure=not rights & _NON_SECURE,
            privileged=bool(rights & _USER),
        )
        return self.waiting

    def finish(self) -> None:
        """Carry out the job that waits, and raise the interrupt."""
        job, self.waiting = self.waiting, None
        if job is None:
            return
        self._registers[QREAD] = job.qsize
        if not job.fault and job.delegate is not None:
            self._execute(job, job.delegate)
        self._status &= ~_RUNNING
        self._status |= _IRQ | (_BUS_ERROR if job.fault else _ENDED)
        self.raised = True
        self._line(True)

    def _execute(self, job: Job, delegate: Delegate) -> None:
        """Run a delegate over the machine's memory, and write what it wrote."""
        constants, scratch, fast = job.bases[:3]
        sizes = {SCRATCH: delegate.scratch_bytes, FAST_SCRATCH: delegate.fast_bytes}
        regions = {
            region: self._load(base, sizes[region])
            for region, base in ((SCRATCH, scratch), (FAST_SCRATCH, fast))
            if sizes[region]
        }
        live = self._load(constants, len(delegate.weights)) if delegate.weights else b""
        machine = _LiveMachine(_with_weights(delegate, live), regions, self._weights)
        inputs = [
            np.frombuffer(self._load(job.bases[port.region] + port.offset, port.bytes), np.uint8)
            for port in machine.inputs
        ]
        try:
            result = machine.run(inputs, Options())
        except WorkbenchError as error:
            job.fault = "; ".join(info.message for info in error.infos)
            return
        job.operations = len(result.counters)
        for region, size in sizes.items():
            if size:
                self._store(job.bases[region], machine.memory_of(region, size))
                job.written[region] = size


class _LiveMachine(Machine):
    """A delegate whose run begins with what is in the machine's memory."""

    def __init__(self, blob: bytes, regions: dict[int, bytes], weights: WeightCache) -> None:
        super().__init__(blob, weights=weights)
        self._regions = regions
        self._last: State | None = None

    def state(self, options: Options, samples: int = 1) -> State:
        """Return a state with the contents of scratch and fast memory."""
        state = super().state(options, samples)
        for region, data in self._regions.items():
            state.memory.regions[region] = np.frombuffer(data, np.uint8)[None].copy()
        self._last = state
        return state

    def memory_of(self, region: int, size: int) -> bytes:
        """Return a region after the last run."""
        assert self._last is not None
        return self._last.memory.regions[region][0, :size].tobytes()


def _with_weights(delegate: Delegate, weights: bytes) -> bytes:
    """Return a delegate with the constants that are in the machine's memory."""
    if weights == delegate.weights:
        return delegate.blob
    parts = {name: bytes(block.data) for name, block in vela_stream.blocks(delegate.blob).items()}
    return vela_stream.packed({**parts, "weight_data": weights})
