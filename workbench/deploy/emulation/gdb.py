"""QEMU's two control sockets: the remote protocol of GDB, and qtest for interrupt lines.

Source: GDB's manual, appendix "Remote Protocol"; QEMU 7.2, ``docs/devel/qtest.rst``.
"""

from __future__ import annotations

import re
import socket
import time
from typing import TYPE_CHECKING

from workbench.operating_system import local_socket

if TYPE_CHECKING:
    from pathlib import Path

# Core registers by their number in QEMU's target description.
SP, LR, PC, XPSR = 13, 14, 15, 25
# Kinds of watchpoints of the protocol.
WRITES, READS, ACCESSES = 2, 3, 4
_REPLY_S, _CONNECT_S = 60.0, 5.0
_MOST_READ, _MOST_WRITTEN = 2032, 1024
# A called function: its instructions, and the bytes of stack that are put back. IT state of xPSR.
_MOST_STEPS, _STACK = 100, 256
_IT_BLOCK = 3 << 25 | 63 << 10
_PACKET = re.compile(rb"\$([^#]*)#..", re.DOTALL)


class Stopped(Exception):
    """The machine ended, or answered what was not expected."""


class Gdb:
    """A connection to QEMU's GDB stub; the machine waits while it is read."""

    def __init__(self, path: Path) -> None:
        self._socket, self._data, self._acknowledges = _connected(path), b"", True
        self.ask("qSupported:swbreak+;hwbreak+")
        self.ask("QStartNoAckMode")
        self._acknowledges = False
        # QEMU lets single registers be set only after this.
        self.ask("qXfer:features:read:target.xml:0,ffb")

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def ask(self, text: str) -> str:
        """Send a packet and return the answer."""
        self._send(text)
        return self.reply()

    def _send(self, text: str) -> None:
        body = text.encode()
        self._socket.sendall(b"$" + body + b"#%02x" % (sum(body) & 0xFF))

    def reply(self, timeout_s: float = _REPLY_S) -> str:
        """Return the next packet.

        Raises:
            TimeoutError: none came in time.
            Stopped: the machine has ended.
        """
        self._socket.settimeout(timeout_s)
        while True:
            if packet := _PACKET.search(self._data):
                self._data = self._data[packet.end() :]
                if self._acknowledges:
                    self._socket.sendall(b"+")
                return packet.group(1).decode("latin-1")
            more = self._socket.recv(1 << 16)
            if not more:
                raise Stopped("the machine has ended")
            self._data += more

    def resume(self) -> None:
        """Let the machine run; ``reply`` returns why it stops."""
        self._send("vCont;c:1")

    def step(self) -> str:
        """Carry out one instruction."""
        return self.ask("vCont;s:1")

    def interrupt(self) -> str:
        """Stop the machine, and return why it has stopped."""
        self._socket.sendall(b"\x03")
        return self.reply()

    def read(self, address: int, size: int) -> bytes:
        """Return memory as the processor reads it.

        Raises:
            Stopped: no memory answers.
        """
        parts = []
        while size:
            part = min(size, _MOST_READ)
            answer = self.ask(f"m{address:x},{part:x}")
            if answer.startswith("E"):
                raise Stopped(f"memory at {address:#x} cannot be read")
            parts.append(bytes.fromhex(answer))
            address, size = address + part, size - part
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Write memory.

        Raises:
            Stopped: no memory answers.
        """
        for at in range(0, len(data), _MOST_WRITTEN):
            part = data[at : at + _MOST_WRITTEN]
            if self.ask(f"M{address + at:x},{len(part):x}:{part.hex()}") != "OK":
                raise Stopped(f"memory at {address + at:#x} cannot be written")

    def word(self, address: int) -> int:
        """Return 32 bits of memory."""
        return int.from_bytes(self.read(address, 4), "little")

    def registers(self) -> list[int]:
        """Return r0 to r15."""
        values = bytes.fromhex(self.ask("g"))
        return [int.from_bytes(values[4 * i : 4 * i + 4], "little") for i in range(16)]

    def set_register(self, number: int, value: int) -> None:
        """Set a core register."""
        if self.ask(f"P{number:x}={value.to_bytes(4, 'little').hex()}") != "OK":
            raise Stopped(f"register {number} cannot be set")

    def status(self) -> int:
        """Return xPSR; its lowest nine bits are the exception that is handled."""
        return int.from_bytes(bytes.fromhex(self.ask(f"p{XPSR:x}")), "little")

    def skip(self, pc: int, length: int) -> None:
        """Go on behind the instruction at ``pc``, also inside an IT block (Armv8-M, EPSR.IT)."""
        status = self.status()
        block = status >> 25 & 3 | (status >> 10 & 63) << 2
        if block & 15:
            block = 0 if not block & 7 else block & 0xE0 | block << 1 & 0x1F
            rest = status & ~_IT_BLOCK
            self.set_register(XPSR, rest | (block & 3) << 25 | block >> 2 << 10)
        self.set_register(PC, pc + length)

    def special(self, number: int) -> int:
        """Return a special register (16: PRIMASK, 17: BASEPRI) by an instruction at the PC."""
        registers = self.registers()
        pc = registers[PC]
        kept = self.read(pc, 4)
        self.write(pc, bytes((0xEF, 0xF3, number, 0x80)))  # mrs r0, number
        self.step()
        value = self.registers()[0]
        self.write(pc, kept)
        self.set_register(0, registers[0])
        self.set_register(PC, pc)
        return value

    def filled_by(self, function: int, size: int) -> bytes | None:
        """Return what a function writes to the address in its only argument [``size`` bytes].

        The processor is stepped through it without interrupts; registers and stack are put back.
        None if the function does not return within ``_MOST_STEPS`` instructions, or if the machine
        is inside an IT block, where no function can be called.
        """
        registers, status = self.registers(), self.status()
        if status & _IT_BLOCK:
            return None
        top, pc = registers[SP] & ~7, registers[PC]
        stack = self.read(top - _STACK, _STACK)
        place = top - 16
        for number, value in ((0, place), (SP, place), (LR, pc | 1), (PC, function & ~1)):
            self.set_register(number, value)
        has_returned = False
        for _ in range(_MOST_STEPS):
            self.step()
            if has_returned := self.registers()[PC] == pc:
                break
        filled = self.read(place, size)
        self.write(top - _STACK, stack)
        for number, value in enumerate(registers):
            self.set_register(number, value)
        self.set_register(XPSR, status)
        return filled if has_returned else None

    def watch(self, address: int, size: int, kind: int = ACCESSES) -> None:
        """Stop before accesses to memory."""
        if self.ask(f"Z{kind},{address:x},{size:x}") != "OK":
            raise Stopped(f"{address:#x} cannot be watched")

    def unwatch(self, address: int, size: int, kind: int = ACCESSES) -> None:
        """Do not stop there any more."""
        self.ask(f"z{kind},{address:x},{size:x}")

    def break_at(self, address: int) -> None:
        """Stop before an instruction."""
        if self.ask(f"Z0,{address & ~1:x},2") != "OK":
            raise Stopped(f"no breakpoint can be set at {address:#x}")


class Qtest:
    """QEMU's qtest socket beside the emulation of code. Its memory accesses are not used."""

    def __init__(self, path: Path) -> None:
        self._socket = _connected(path)
        self._socket.settimeout(_REPLY_S)
        self._file = self._socket.makefile("rw")

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()

    def set_line(self, number: int, *, raised: bool) -> None:
        """Set the level of an interrupt line of the Corstone-300, 32 or higher."""
        self._file.write(f"set_irq_in /machine/iotkit EXP_IRQ {number - 32} {int(raised)}\n")
        self._file.flush()
        # Changes of other lines are told in between.
        while (answer := self._file.readline()).startswith("IRQ"):
            pass
        if not answer.startswith("OK"):
            raise Stopped(f"qtest: {answer.strip() or 'the machine has ended'}")


def _connected(path: Path) -> socket.socket:
    end = time.monotonic() + _CONNECT_S
    while True:
        one = local_socket()
        try:
            one.connect(str(path))
        except OSError as error:
            one.close()
            if time.monotonic() > end:
                raise Stopped(f"QEMU does not answer: {error}") from error
            time.sleep(0.02)
        else:
            return one
