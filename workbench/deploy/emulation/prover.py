"""Runs firmware until it ends, answers the NPU's registers, and checks what it does.

Each access to the register block stops the machine before the instruction (a watchpoint of GDB);
the instruction is decoded, answered, and passed over. The firmware is not changed.
"""

from __future__ import annotations

import hashlib
import re
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.deploy.emulation.findings import Finding, Proof
from workbench.deploy.emulation.firmware_elf import FirmwareElf
from workbench.deploy.emulation.gdb import PC, READS, SP, WRITES, Stopped
from workbench.deploy.emulation.job_checks import CACHE_LINE, VTOR, JobChecks
from workbench.deploy.emulation.npu_device import READ_ONLY, Delegate, NpuDevice
from workbench.deploy.emulation.qemu import Qemu, qemu_version
from workbench.deploy.emulation.thumb import decoded
from workbench.errors import Place, failure
from workbench.npu.machine import Machine
from workbench.npu.memory import SCRATCH
from workbench.pte import vela_stream
from workbench.pte.description import program_bytes
from workbench.pte.npu_commands import stream_bytes
from workbench.pte.program import decode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.deploy.emulation.npu_device import Job
    from workbench.deploy.emulation.thumb import Access

BASE, IRQ = 0x48102000, 56
# The interrupts that QEMU's Corstone-300 takes from outside of its subsystem.
LINES = range(32, 128)
_MOST_S = 86_400
# Registers of the System Control Block, and of the interrupt controller (Armv8-M, chapter D1.2).
_CCR, _CFSR, _NVIC_ENABLED, _NVIC_PENDING, _NVIC_ACTIVE, _NVIC_PRIORITY = (
    0xE000ED14,
    0xE000ED28,
    0xE000E100,
    0xE000E200,
    0xE000E300,
    0xE000E400,
)
_DATA_CACHE = 1 << 16
# Cache maintenance: DCIMVAC to DCCISW; those by set and way concern the whole cache.
_MAINTENANCE, _MAINTENANCE_BYTES = 0xE000EF5C, 0x1C
_WHOLE_CACHE = {0xE000EF60, 0xE000EF6C, 0xE000EF74}
_FAULTS = {
    0: "IACCVIOL",
    1: "DACCVIOL",
    8: "IBUSERR",
    9: "PRECISERR",
    10: "IMPRECISERR",
    16: "UNDEFINSTR",
    17: "INVSTATE",
    18: "INVPC",
    19: "NOCP",
    20: "STKOF",
    24: "UNALIGNED",
    25: "DIVBYZERO",
}
_BFARVALID = 15
# Source: Arm's ethos-u-core-driver, ethosu_driver.h: it fills three bytes: major, minor, patch.
_VERSION_FUNCTION = "ethosu_get_driver_version"
_PRIMASK, _BASEPRI = 16, 17
# The driver's own messages of errors, and those of ExecuTorch.
_ERRORS = re.compile(r"^(?:E: |E \[|\[ERR|.*\bthe driver ends with an error)")
_QUIET_S, _INTERRUPT_LOST_S = 0.5, 1.5


@dataclass(frozen=True)
class Board:
    """What the firmware is built for, and how it is run.

    Attributes:
        target: The NPU, as ethos-u55-128; "" is that of the program.
        base: The address of its registers.
        irq: Its interrupt, one of ``LINES``.
        cached: Whether the maintenance of the data cache is checked.
        delay_s: How long the NPU runs while the processor goes on [s].
        limit_s: When the firmware is ended [s].
        arguments: Its command line by semihosting.
        folder: Where semihosting reads and writes files; without one, it reads those of the current
            folder, and writes none.
        is_trusted: Whether it may write elsewhere, and start programs.
    """

    target: str = ""
    base: int = BASE
    irq: int = IRQ
    cached: bool = False
    delay_s: float = 0.0
    limit_s: float = 60.0
    arguments: tuple[str, ...] = ()
    folder: Path | None = None
    is_trusted: bool = False


def prove(elf: Path, program: Path, board: Board, cancelled: Callable[[], bool] = lambda: False) -> Proof:
    """Run firmware on an emulated Cortex-M55, and return what was seen.

    Args:
        elf: The linked firmware, with symbols.
        program: The program that it runs.
        board: What it is built for.
        cancelled: Asked many times a second.

    Raises:
        WorkbenchError: a file cannot be read, a value of the board is out of its range, the program
            is for another NPU, or QEMU is missing.
    """
    _check(board)
    data = _bytes_of(program)
    delegates = _delegates_in(data, program, board.target)
    board = replace(board, target=delegates[0].target)
    symbols, version = FirmwareElf(elf), qemu_version()
    digest = hashlib.sha256(data).hexdigest()
    kernels = len(set(decode(data).method("").kernels))
    proof = Proof(board.target, version, digest, symbols.sha256, len(delegates), kernels)
    with Qemu(
        elf.absolute(), arguments=board.arguments, folder=board.folder, is_trusted=board.is_trusted
    ) as qemu:
        return _Session(qemu, symbols, delegates, board, proof).run(cancelled)


def _check(board: Board) -> None:
    rows = (
        ("--irq", board.irq, board.irq in LINES, f"from {LINES[0]} to {LINES[-1]}"),
        ("--base", board.base, board.base in range(0, 1 << 32, 4), "a multiple of 4 in 32 bits"),
        ("--delay", board.delay_s, 0 <= board.delay_s <= _MOST_S, f"from 0 to {_MOST_S} s"),
        ("--limit", board.limit_s, 0 < board.limit_s <= _MOST_S, f"above 0, to {_MOST_S} s"),
    )
    for option, value, is_valid, valid in rows:
        if not is_valid:
            place = Place(kind="option", id=option)
            raise failure(f"{value} is not {valid}.", "", place, code="board-value-invalid")


def delegates_of(program: Path, target: str = "") -> list[Delegate]:
    """Return the delegates of a program for Ethos-U.

    Raises:
        WorkbenchError: it cannot be read, it has none, or they are for another NPU than ``target``
            ("" takes any).
    """
    return _delegates_in(_bytes_of(program), program, target)


def _bytes_of(program: Path) -> bytes:
    try:
        return program_bytes(program)
    except OSError as error:
        text = f"{program} cannot be read: {error.strerror or error}."
        raise failure(text, "", Place(kind="file", id=str(program)), code="program-unreadable") from error


def _delegates_in(data: bytes, program: Path, target: str) -> list[Delegate]:
    place = Place(kind="file", id=str(program))
    parts = [d for d in decode(data).method("").delegates if d.backend == vela_stream.ETHOS_U]
    if not parts:
        raise failure(
            f"{program.name} uses no Ethos-U.",
            "Give a program that was compiled for one.",
            place,
            code="program-without-npu",
        )
    delegates = [_delegate(index, bytes(part.data)) for index, part in enumerate(parts)]
    for delegate in delegates:
        if target and delegate.target != target:
            raise failure(
                f"{program.name} is for {delegate.target}, not for {target}.",
                "Give the device that it was compiled for: --target.",
                place,
                code="program-for-other-npu",
            )
    return delegates


def _delegate(index: int, blob: bytes) -> Delegate:
    machine, blocks = Machine(blob, index=index), vela_stream.blocks(blob)
    payload = bytes(blocks["cmd_data"].data)
    weights = bytes(blocks["weight_data"].data) if "weight_data" in blocks else b""
    return Delegate(
        index, blob, payload, stream_bytes(payload), weights, machine, machine.fast_scratch_bytes()
    )


class _Session:
    """One machine, one NPU, one program."""

    def __init__(
        self, qemu: Qemu, elf: FirmwareElf, delegates: list[Delegate], board: Board, proof: Proof
    ) -> None:
        self._qemu, self._gdb, self._elf, self._board = qemu, qemu.gdb, elf, board
        self.proof = proof
        self._size = 0x2000 if "u85" in board.target else 0x1000
        self._npu = NpuDevice(
            board.target, qemu.read, qemu.write, lambda level: qemu.set_line(board.irq, raised=level)
        )
        self._checks = JobChecks(proof, qemu, elf, delegates, board.irq)
        self._job: Job | None = None
        self._handlers: set[int] = set()
        # Memory that the processor must not touch, or must invalidate before it reads it.
        self._guarded: tuple[int, int] | None = None
        self._unread: list[tuple[int, int]] = []
        self._caches_on, self._whole, self._lines = False, False, set[int]()

    def run(self, cancelled: Callable[[], bool]) -> Proof:
        """Let the firmware run to its end."""
        gdb, board, proof = self._gdb, self._board, self.proof
        gdb.watch(board.base, self._size)
        if board.cached:
            gdb.watch(_CCR, 4, WRITES)
            gdb.watch(_MAINTENANCE, _MAINTENANCE_BYTES, WRITES)
        begun = time.perf_counter()
        try:
            while (answer := self._next(begun + board.limit_s, cancelled)) is not None:
                if answer[0] in "WX":
                    proof.exit_code = int(answer[1:3], 16)
                    break
                self._stopped(answer)
        except (Stopped, ConnectionError, TimeoutError):
            # The connection ends with the machine, whose exit code says why.
            pass
        proof.elapsed_s = time.perf_counter() - begun
        code = self._qemu.exit_code()
        proof.exit_code = code if proof.exit_code is None else proof.exit_code
        proof.output = self._qemu.output()
        self._conclude()
        return proof

    def _conclude(self) -> None:
        proof = self.proof
        proof.checked |= {"started", "exceptions", "ends"}
        for line in proof.output.splitlines():
            if _ERRORS.match(line):
                proof.add(Finding("accepted", f"The firmware says: {line.strip()}"))
        for offset in self._npu.wrong_writes:
            message = f"The register at {offset:#x} is written; it can only be read."
            proof.add(Finding("registers", message))
        if not proof.jobs:
            reads = sum(self._npu.counts.values())
            seen = f"after {reads} accesses to its registers" if reads else "nor accessed"
            proof.add(Finding("started", f"The NPU was not started {seen}."))
        if proof.exit_code and not any(f.check == "ends" for f in proof.findings):
            proof.add(Finding("ends", f"The firmware ends with exit code {proof.exit_code}."))

    def _next(self, end: float, cancelled: Callable[[], bool]) -> str | None:
        """Let the machine run until it stops; return why, or None if it was ended."""
        gdb, since = self._gdb, time.perf_counter()
        gdb.resume()
        while True:
            try:
                return gdb.reply(self._board.delay_s if self._npu.waiting else _QUIET_S)
            except TimeoutError:
                pass
            if cancelled():
                raise KeyboardInterrupt
            if self._npu.waiting:
                answer = gdb.interrupt()
                if "watch" in answer:
                    return answer
                self._finish()
                gdb.resume()
                since = time.perf_counter()
            elif self._npu.raised and time.perf_counter() - since > _INTERRUPT_LOST_S:
                self._report_unhandled_interrupt()
                return None
            elif time.perf_counter() > end:
                gdb.interrupt()
                place = gdb.registers()[PC]
                self._report("ends", f"It did not end within {self._board.limit_s:g} s", place)
                return None

    def _report(self, check: str, message: str, address: int) -> None:
        text, source = self._elf.text(address), self._elf.source(address)
        at = f"{text}, {source}" if source else text
        self.proof.add(Finding(check, f"{message}, at {at}.", address, text, source))

    # --- stops of the machine

    def _stopped(self, answer: str) -> None:
        registers = self._gdb.registers()
        if "watch" not in answer:
            if registers[PC] in self._handlers:
                self._faulted(registers)
            raise Stopped(answer)
        self._first_access()
        address = int(answer.partition("watch:")[2].split(";")[0], 16)
        if self._guarded and self._guarded[0] <= address < sum(self._guarded):
            self._report("untouched", "Scratch is touched while the NPU runs", registers[PC])
            self._unguard()
        elif "rwatch:" in answer and self._unread:
            self._outputs_read(registers[PC])
        else:
            self._answered(registers)

    def _answered(self, registers: list[int]) -> None:
        pc = registers[PC]
        access = decoded(self._gdb.read(pc, 4), registers)
        if access is None or not self._is_watched(access.address):
            self._report("registers", "The instruction accesses the NPU in an unknown form", pc)
            raise Stopped("unknown instruction")
        self.proof.accesses += 1
        for number, register in enumerate(access.registers):
            at = access.address + access.size * number
            if access.load:
                self._gdb.set_register(register, self._loaded(access, at))
            else:
                self._store(at, registers[register], access.size, pc)
        if access.address == _CCR:
            # The processor has bits of its own there.
            self._gdb.unwatch(_CCR, 4, WRITES)
            self._gdb.step()
            self._gdb.watch(_CCR, 4, WRITES)
            return
        if access.written_back and not (access.load and access.written_back[0] in access.registers):
            self._gdb.set_register(*access.written_back)
        self._gdb.skip(pc, access.length)

    def _is_watched(self, address: int) -> bool:
        spans = [(self._board.base, self._size)]
        if self._board.cached:
            spans += [(_CCR, 4), (_MAINTENANCE, _MAINTENANCE_BYTES)]
        return any(first <= address < first + size for first, size in spans)

    def _loaded(self, access: Access, address: int) -> int:
        offset = address - self._board.base
        bits = 8 * access.size
        value = self._npu.read(offset & ~3) >> 8 * (offset & 3) & (1 << bits) - 1
        if access.signed and value >> bits - 1:
            value |= 0xFFFFFFFF << bits & 0xFFFFFFFF
        return value

    def _store(self, address: int, value: int, size: int, pc: int) -> None:
        offset = address - self._board.base
        if not 0 <= offset < self._size:
            self._maintained(address, value)
            return
        if size != 4 or offset & 3:
            self._report("registers", f"The register at {offset:#x} is written by {size} bytes", pc)
        if offset in READ_ONLY:
            self._report("registers", f"The register at {offset:#x} can only be read", pc)
        begun = time.perf_counter()
        job = self._npu.write(offset, value)
        if job is not None:
            self._start(job)
        self.proof.npu_s += time.perf_counter() - begun

    # --- jobs

    def _start(self, job: Job) -> None:
        self._job = job
        self._checks.before(job, cached=self._caches_on)
        self.proof.jobs.append(
            {
                "delegate": job.delegate.index if job.delegate else None,
                "qbase": job.qbase,
                "qsize": job.qsize,
                "bases": list(job.bases[:3]),
                "regioncfg": job.regioncfg,
                "secure": job.secure,
                "privileged": job.privileged,
                "operations": 0,
            }
        )
        if self._caches_on and job.delegate is not None and not job.fault:
            spans = [(job.bases[p.region] + p.offset, p.bytes) for p in job.delegate.machine.inputs]
            self._check_lines("cleaned", "inputs were not cleaned before the NPU starts", spans)
        if not self._board.delay_s:
            self._finish()
        elif job.delegate is not None and not job.fault and job.delegate.scratch_bytes:
            self.proof.checked.add("untouched")
            self._guarded = (job.bases[SCRATCH], job.delegate.scratch_bytes)
            self._gdb.watch(*self._guarded)

    def _finish(self) -> None:
        job, begun = self._job, time.perf_counter()
        self._unguard()
        self._npu.finish()
        assert job is not None
        self.proof.jobs[-1] |= {"operations": job.operations, "fault": job.fault}
        if job.fault and job.delegate is not None:
            self.proof.add(Finding("executed", f"The NPU stops: {job.fault}"))
        self._lines, self._whole = set(), False
        if self._caches_on and job.delegate is not None and not job.fault:
            for port in job.delegate.machine.outputs:
                span = (job.bases[port.region] + port.offset, port.bytes)
                self._gdb.watch(*span, READS)
                self._unread.append(span)
        self.proof.npu_s += time.perf_counter() - begun

    def _unguard(self) -> None:
        if self._guarded:
            self._gdb.unwatch(*self._guarded)
            self._guarded = None

    # --- the data cache

    def _maintained(self, address: int, value: int) -> None:
        if address == _CCR:
            self._caches_on = bool(value & _DATA_CACHE)
        elif address in _WHOLE_CACHE:
            self._whole = True
        else:
            self._lines.add(value & -CACHE_LINE)

    def _check_lines(
        self, check: str, what: str, spans: list[tuple[int, int]], pc: int | None = None
    ) -> None:
        lines = {line for at, n in spans for line in range(at & -CACHE_LINE, at + n, CACHE_LINE)}
        missing = 0 if self._whole else len(lines - self._lines)
        if not missing:
            return
        message = f"{missing} of {len(lines)} cache lines with {what}"
        if pc is None:
            self.proof.add(Finding(check, f"{message}."))
        else:
            self._report(check, message, pc)

    def _outputs_read(self, pc: int) -> None:
        for span in self._unread:
            self._gdb.unwatch(*span, READS)
        self._check_lines("invalidated", "outputs were not invalidated", self._unread, pc)
        self._unread = []

    # --- faults and lost interrupts

    def _first_access(self) -> None:
        """Stop at faults, and ask for the driver's version, once the NPU is accessed."""
        if not self._handlers:
            self._watch_faults()
        function = self._elf.named(_VERSION_FUNCTION)
        if function is not None and function.size and not self.proof.accesses:
            version = self._gdb.filled_by(function.start, 3)
            self.proof.driver = ".".join(map(str, version or ()))

    def _watch_faults(self) -> None:
        """Stop in the handlers of HardFault to UsageFault, once the vector table is set."""
        table = self._gdb.word(VTOR)
        words = struct.unpack("<4I", self._gdb.read(table + 12, 16))
        self._handlers = {word & ~1 for word in words if word}
        for handler in self._handlers:
            self._gdb.break_at(handler)

    def _faulted(self, registers: list[int]) -> None:
        status, _, _, _, address = struct.unpack("<5I", self._gdb.read(_CFSR, 20))
        names = [name for bit, name in _FAULTS.items() if status >> bit & 1]
        where = f" at address {address:#010x}" if status >> _BFARVALID & 1 else ""
        # The processor has put r0-r3, r12, lr and the address of the instruction on the stack.
        place = self._gdb.word(registers[SP] + 24)
        number = self._gdb.status() & 0x1FF
        kind = ", ".join(names) or "no cause in CFSR"
        self._report("exceptions", f"The processor faults (exception {number}, {kind}){where}", place)

    def _report_unhandled_interrupt(self) -> None:
        gdb, irq = self._gdb, self._board.irq
        gdb.interrupt()
        bit, word = 1 << irq % 32, 4 * (irq // 32)
        active = gdb.word(_NVIC_ACTIVE + word) & bit
        priority = gdb.read(_NVIC_PRIORITY + irq, 1)[0]
        number, basepri = gdb.status() & 0x1FF, gdb.special(_BASEPRI)
        causes = []
        if not gdb.word(_NVIC_ENABLED + word) & bit:
            causes.append("it is not enabled in the NVIC")
        if gdb.special(_PRIMASK) & 1:
            causes.append("PRIMASK is set")
        if basepri and priority >= basepri:
            causes.append(f"BASEPRI {basepri:#04x} masks its priority {priority:#04x}")
        if active or number == 16 + irq:
            causes.append("its handler runs and never clears it")
        elif number and not causes:
            causes.append(f"exception {number} runs, whose priority is as high")
        pending = "pending" if gdb.word(_NVIC_PENDING + word) & bit else "not pending"
        text = "; ".join(causes) or f"it is {pending}"
        place = gdb.registers()[PC]
        self._report("handled", f"Interrupt {irq} of the NPU is not handled: {text}", place)
