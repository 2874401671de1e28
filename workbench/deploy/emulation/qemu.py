"""A Corstone-300 in QEMU that waits at its reset vector, with its memory and its control sockets.

Source: QEMU 7.2, ``hw/arm/mps2-tz.c`` (mps3-an547) and ``docs/system/gdb.rst``.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elftools.elf.elffile import ELFFile

from workbench.deploy.emulation.gdb import Gdb, Qtest, Stopped
from workbench.errors import Place, failure, reason_of
from workbench.operating_system import confined, limit_file_sizes
from workbench.process_guard import guarded
from workbench.tool_output import tool_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PROGRAM, MACHINE = "qemu-system-arm", "mps3-an547"
_DDR, _DDR_BYTES = 0x60000000, 2 << 30
_LEAST_VERSION = (7, 2)
_ENDS_S, _VERSION_S = 0.5, 10
_MOST_OUTPUT = 1 << 20
# What the firmware may print, or write into a file: both may be in memory.
_MOST_FILE_BYTES = 256 << 20


def qemu_version() -> str:
    """Return the version of the QEMU on the PATH.

    Raises:
        WorkbenchError: there is none, or it is too old.
    """
    hint = "Install it: apt-get install qemu-system-arm."
    program = shutil.which(PROGRAM)
    if program is None:
        raise failure(f"{PROGRAM} was not found.", hint, code="qemu-missing")
    try:
        text = tool_output([program, "--version"], _VERSION_S).text
    except OSError as error:
        message = f"{program} cannot be started: {reason_of(error)}"
        raise failure(message, hint, code="qemu-missing") from error
    version = re.search(r"version (\d+)\.(\d+)(\.\d+)?", text)
    if version is None or (int(version[1]), int(version[2])) < _LEAST_VERSION:
        least = ".".join(map(str, _LEAST_VERSION))
        raise failure(f"{program} is not QEMU {least} or newer.", hint, code="qemu-too-old")
    return version[0].removeprefix("version ")


def _roomy_folder() -> str:
    """Return a folder with room for all that the firmware may write into the machine's memory.

    Raises:
        WorkbenchError: there is none; QEMU would be killed by the first write without room.
    """
    folders = [folder for folder in ("/dev/shm", tempfile.gettempdir()) if os.path.isdir(folder)]
    for folder in folders:
        if shutil.disk_usage(folder).free >= _DDR_BYTES:
            return folder
    raise failure(
        f"The memory of the emulated machine needs 2 GiB in {' or '.join(folders)}.",
        "Free some space there, or set TMPDIR to another folder.",
        code="emulation-without-room",
    )


def _confined(start: Callable[[], subprocess.Popen[bytes]], written: list[Path]) -> subprocess.Popen[bytes]:
    """Return QEMU, which may change nothing but these folders, and start nothing.

    Semihosting gives the firmware the files of this machine, and its shell (SYS_REMOVE, SYS_SYSTEM).

    Raises:
        WorkbenchError: This system cannot confine it.
    """
    program = Path(shutil.which(PROGRAM) or PROGRAM).resolve()
    with program.open("rb") as file:
        segments: Iterator[Any] = ELFFile(file).iter_segments("PT_INTERP")
        loaders = [segment.get_interp_name() for segment in segments]
    try:
        return confined(start, [*written, Path(os.devnull)], [program, *map(Path, loaders)])
    except OSError as error:
        raise failure(
            f"QEMU cannot be kept from files and programs of this machine: {reason_of(error)}.",
            "Semihosting gives them to the firmware. Prove it on Linux with Landlock (5.13 or newer); "
            "--trust proves firmware that you trust without.",
            Place(kind="tool", id=PROGRAM),
            code="emulation-not-confined",
        ) from error


class Qemu:
    """A machine with firmware; use it as a context. It is ended with its context and with us."""

    def __init__(
        self, elf: Path, *, arguments: Sequence[str] = (), folder: Path | None, is_trusted: bool = False
    ) -> None:
        """Start a machine.

        Args:
            elf: The firmware.
            arguments: What it gets as its command line by semihosting.
            folder: Where semihosting reads and writes files.
            is_trusted: Whether the firmware may change files elsewhere, and start programs.

        Raises:
            WorkbenchError: QEMU cannot be started, or does not take the firmware.
        """
        qemu_version()
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            temporary = tempfile.TemporaryDirectory(prefix="emulated-", dir=_roomy_folder())
            self._folder = Path(stack.enter_context(temporary))
            self.process = self._started(elf, arguments, folder, is_trusted=is_trusted)
            # It waits for its first instruction.
            limit_file_sizes(self.process.pid, _MOST_FILE_BYTES)
            stack.callback(self.process.wait)
            stack.callback(self.process.kill)
            stack.enter_context(guarded(self.process.pid))
            try:
                self.gdb = stack.enter_context(contextlib.closing(Gdb(self._folder / "gdb")))
                self._qtest = Qtest(self._folder / "qtest")
            except (Stopped, OSError) as error:
                raise failure(
                    f"QEMU does not start with {elf.name}: {self.output() or error}",
                    f"The firmware must be for {MACHINE}, linked to the memories of the AN547.",
                    Place(kind="file", id=str(elf)),
                    code="emulation-not-started",
                ) from error
            stack.callback(self._qtest.close)
            with (self._folder / "ddr").open("r+b") as file:
                self._ddr = stack.enter_context(mmap.mmap(file.fileno(), _DDR_BYTES))
            # Both have it open: its memory is freed however they end.
            (self._folder / "ddr").unlink()
            self._stack = stack.pop_all()

    def _started(
        self, elf: Path, arguments: Sequence[str], folder: Path | None, *, is_trusted: bool
    ) -> subprocess.Popen[bytes]:
        here = self._folder
        # The machine's DDR is a file, so that large memories are read and written at once.
        with (here / "ddr").open("wb") as file:
            file.truncate(_DDR_BYTES)
        words = "".join(f",arg={word.replace(',', ',,')}" for word in arguments)
        command = [
            PROGRAM, "-M", f"{MACHINE},memory-backend=ddr", "-object",
            f"memory-backend-file,id=ddr,size=2G,mem-path={here / 'ddr'},share=on",
            "-display", "none", "-monitor", "none", "-serial", "stdio",
            "-semihosting-config", f"enable=on,target=native{words}", "-S",
            "-chardev", f"socket,id=gdb,path={here / 'gdb'},server=on,wait=off",
            "-gdb", "chardev:gdb", "-qtest", f"unix:{here / 'qtest'},server=on,wait=off",
            "-qtest-log", "none", "-kernel", str(elf),
        ]  # fmt: skip
        with (here / "output").open("wb") as output:

            def start() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    cwd=folder, start_new_session=True,
                )  # fmt: skip

            return start() if is_trusted else _confined(start, [here, *([folder] if folder else [])])

    def __enter__(self) -> Qemu:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def read(self, address: int, size: int) -> bytes:
        """Return memory as the processor reads it."""
        if address >= _DDR and address + size <= _DDR + _DDR_BYTES:
            return self._ddr[address - _DDR : address - _DDR + size]
        return self.gdb.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Write memory."""
        if address >= _DDR and address + len(data) <= _DDR + _DDR_BYTES:
            self._ddr[address - _DDR : address - _DDR + len(data)] = data
        else:
            self.gdb.write(address, data)

    def set_line(self, number: int, *, raised: bool) -> None:
        """Set the level of an interrupt line, 32 or higher."""
        self._qtest.set_line(number, raised=raised)

    def output(self) -> str:
        """What the firmware has printed so far."""
        with (self._folder / "output").open("rb") as file:
            return file.read(_MOST_OUTPUT).decode("utf-8", "replace")

    def exit_code(self) -> int | None:
        """Wait a moment for the end; return the exit code, or None if the machine still runs.

        Raises:
            WorkbenchError: a signal has ended QEMU, as where memory or the space for it is missing.
        """
        try:
            code = self.process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            return None
        if code < 0:
            raise failure(
                f"QEMU was ended by signal {-code}.",
                f"Close other programs, and free space in {self._folder.parent}; then try again.",
                code="emulation-ended",
            )
        return code
