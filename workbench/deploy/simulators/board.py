"""A board with an Ethos-U: flashed by the user's command, read over a serial port.

The firmware is ExecuTorch's Arm runner, or one that prints the same lines, built with bundled input
and output (``ET_BUNDLE_IO``) and, to compare outputs, with ``ET_LOG_DUMP_OUTPUT``. It computes the
first test vector of the ``.bpte``.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workbench.deploy.simulators.counters import printed_events
from workbench.deploy.simulators.discovery import BoardLink
from workbench.deploy.simulators.log_parser import UartReader
from workbench.deploy.simulators.process import Hooks, Log, execute
from workbench.deploy.simulators.run import as_standing
from workbench.errors import Place, failure
from workbench.files import open_log
from workbench.pte.description import describe
from workbench.results.simulation import SimulationReport
from workbench.text import plural

if TYPE_CHECKING:
    from serial import Serial

Array = np.ndarray[Any, Any]
_CHUNK, _WAIT_S = 4096, 0.05
_MOST_RESETS = 5
# Lines with values of outputs that are taken between two starts.
_MOST_VALUES = 1_000_000
_WHERE = Place(kind="tool", id="board")
# Source: ExecuTorch, examples/arm/executor_runner/arm_executor_runner.cpp, print_outputs().
_OUTPUT = re.compile(
    r"Output\[(\d+)\]\[(\d+)\]: \((?:int|float|char|bool)\) (-?[0-9.]+|true|false|nan|-?inf)\b"
)
_RUNNER_LINE = re.compile(r"[DIEF]\s*\[executorch:|Output\[\d")
_LONGEST = 4000
# The runner's first words after a start of the board.
_START = re.compile(r"\bPTE (?:@|in|size)|Model in |executor_runner.*(?:start|Start)")


@dataclass(frozen=True)
class BoardProgram:
    """What is written to the board: files by the names that the flash command may use.

    ``outputs`` describe the program's outputs: ``dtype``, ``shape`` and ``dim_order``; ``stem`` is
    the project's name as in the names of the deliverables.
    """

    files: Mapping[str, Path]
    outputs: Sequence[Mapping[str, Any]]
    target: str
    stem: str


def program_of(folder: Path, stem: str, link: BoardLink, target: str) -> BoardProgram:
    """Return the program in a folder with ``STEM.pte``, ``STEM.bpte`` and ``STEM.h``.

    Args:
        folder: The folder; files that it lacks have no name for the flash command.
        stem: The project's name as in the names of the files.
        link: The board, for its firmware.
        target: The device that the program is for.

    Raises:
        WorkbenchError: There is no program for an Ethos-U in the folder.
    """
    named = {"pte": f"{stem}.pte", "bpte": f"{stem}.bpte", "header": f"{stem}.h"}
    files = {key: folder / name for key, name in named.items() if os.path.isfile(folder / name)}
    if "pte" not in files:
        raise failure(
            f"There is no {stem}.pte to run on a board.",
            "Boards run programs for an Ethos-U: choose such a target.",
            _WHERE,
            code="board-program-missing",
        )
    firmware = link.firmware(stem)
    if firmware is not None:
        files["elf"] = firmware
    outputs = describe(files["pte"].read_bytes())["outputs"]
    return BoardProgram({"folder": folder, **files}, outputs, target, stem)


@dataclass(frozen=True)
class BoardOutcome:
    """The report of a run, and what the board printed.

    ``outputs`` has None for an output that is incomplete; ``events`` are the ETDump data, empty if
    the firmware prints none.
    """

    report: SimulationReport
    outputs: tuple[Array | None, ...]
    events: bytes = b""


def flash_command(link: BoardLink, program: BoardProgram) -> list[str]:
    """Return the words of the flash command, with the names of files in braces replaced.

    Raises:
        WorkbenchError: It cannot be split into words, or names a file that there is not.
    """
    try:
        words = shlex.split(link.flash)
        values = {"name": program.stem, **{k: str(v) for k, v in program.files.items()}}
        return [word.format_map(values) for word in words]
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        known = ", ".join(f"{{{name}}}" for name in ("name", *program.files))
        raise failure(
            f"The flash command cannot be used: {error}.",
            f"Known names: {known}. Example: probe-rs download --chip CHIP {{elf}}",
            Place(kind="option", id="flash"),
            code="flash-command-invalid",
        ) from error


def run(
    link: BoardLink,
    program: BoardProgram,
    log: Path,
    cancelled: Callable[[], bool] = lambda: False,
    live: Callable[[list[str]], object] = lambda _: None,
) -> BoardOutcome:
    """Flash a board, and read what its firmware prints until the program has ended.

    The port is opened before the flash command runs, so that nothing printed after the reset is
    lost. A reset in between begins anew; bytes that are no text are kept in the log only.

    Args:
        link: The board's port and flash command.
        program: What is written.
        log: Path of the log; that of the flash command is beside it.
        cancelled: Polled many times a second.
        live: Receives the lines as they are printed.

    Raises:
        WorkbenchError: The port cannot be opened, or the flash command is wrong or fails.
    """
    begun = time.monotonic()
    words = flash_command(link, program) if link.flash.strip() else []
    with _opened(link) as port, open_log(log) as file:
        if words:
            _flash(words, log.with_name("flash.log"), link, cancelled)
        reading = _Reading(live)
        ended = reading.follow(port, Log(file).write, begun + link.timeout_s, cancelled)
    report = _report(link, program, reading, ended)
    outputs = reading.arrays(program.outputs)
    notes = list(report.notes)
    if reading.values and any(output is None for output in outputs):
        notes.append("Not every value of the outputs was read: the line is disturbed.")
    elif not reading.values:
        notes.append("The firmware prints no outputs: build it with ET_LOG_DUMP_OUTPUT.")
    update = {"elapsed_s": round(time.monotonic() - begun, 3), "notes": tuple(notes)}
    return BoardOutcome(report.model_copy(update=update), outputs, printed_events(log))


def serial_ports() -> list[str]:
    """Return the serial ports of this machine that a device is behind."""
    from serial.tools.list_ports import comports

    return sorted(port.device for port in comports() if port.hwid != "n/a")


# Ports of another machine, by pyserial's URL handlers.
_REMOTE = ("rfc2217://", "socket://")


@contextlib.contextmanager
def _opened(link: BoardLink) -> Iterator[Serial]:
    import serial

    is_remote = link.port.startswith(_REMOTE)
    make = serial.serial_for_url if is_remote else serial.Serial
    try:
        port = make(link.port, link.baud, timeout=_WAIT_S)
    except (serial.SerialException, ValueError, OSError) as error:
        number = getattr(error, "errno", None)
        raise failure(
            f"The serial port {link.port} cannot be opened: {os.strerror(number) if number else error}.",
            "Check that the board is connected, that no other program reads the port, and that you "
            "may use it (on Linux the group dialout).",
            _WHERE,
            code="serial-port-unusable",
        ) from error
    try:
        yield port
    finally:
        with contextlib.suppress(OSError):
            port.close()


def _flash(words: list[str], log: Path, link: BoardLink, cancelled: Callable[[], bool]) -> None:
    import os

    lines: list[str] = []
    ending = execute(words, Path.cwd(), os.environ, log, link.timeout_s, Hooks(lines.append, cancelled))
    if ending.by == "itself" and ending.code == 0:
        return
    reasons = {
        "not started": f"it could not be started: {ending.error}",
        "timeout": f"it did not end within {link.timeout_s:g} s",
        "cancelled": "it was cancelled",
    }
    why = reasons.get(ending.by, f"it ended with exit code {ending.code}")
    raise failure(
        f"The board was not flashed by {words[0]}: {why}.",
        "Run the command in a terminal; its output is in the details.",
        _WHERE,
        details="".join(lines)[-4000:],
        code="flash-failed",
    )


_Ended = Literal["completed", "timeout", "cancelled", "resets", "unplugged"]


@dataclass
class _Reading:
    """What was read from a board since its last start."""

    live: Callable[[list[str]], object]
    uart: UartReader = field(default_factory=UartReader)
    values: dict[int, dict[int, float]] = field(default_factory=dict)
    resets: int = 0
    begun: bool = False
    taken: int = 0
    rest: str = ""

    def follow(
        self, port: Serial, keep: Callable[[bytes], object], deadline: float, cancelled: Callable[[], bool]
    ) -> _Ended:
        """Read until the program has ended, the time is over, or the board is gone."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            if cancelled():
                return "cancelled"
            if time.monotonic() > deadline:
                return "timeout"
            try:
                data = port.read(max(1, min(port.in_waiting, _CHUNK)))
            except OSError:
                # Boards that reset take their USB port with them.
                return "unplugged"
            if not data:
                continue
            keep(data)
            *lines, self.rest = (self.rest[-_LONGEST:] + decoder.decode(data)).split("\n")
            lines = [_without_noise(line) for line in lines]
            self.live(lines)
            for line in lines:
                self._line(line)
            if self.uart.completed or self.uart.model_ok is not None:
                return "completed"
            if self.resets > _MOST_RESETS:
                return "resets"

    def _line(self, line: str) -> None:
        if _START.search(line):
            if self.begun:
                self.resets += 1
                self.uart, self.values, self.taken = UartReader(), {}, 0
            self.begun = True
        self.uart.feed(f"{line}\n")
        match = _OUTPUT.search(line)
        if match is not None and self.taken < _MOST_VALUES:
            self.taken += 1
            words = {"true": 1.0, "false": 0.0}
            text = match[3]
            with contextlib.suppress(ValueError):
                value = words[text] if text in words else float(text)
                self.values.setdefault(int(match[1]), {})[int(match[2])] = value

    def arrays(self, specs: Sequence[Mapping[str, Any]]) -> tuple[Array | None, ...]:
        """Return the outputs in the program's types and shapes; None for an incomplete one."""
        values: list[Array | None] = []
        for index, spec in enumerate(specs):
            known = self.values.get(index, {})
            count = int(np.prod(spec.get("shape", ())))
            array = None
            if set(known) == set(range(count)):
                flat = np.asarray([known[position] for position in range(count)])
                limits = _limits(spec["dtype"])
                if limits is None or ((flat >= limits[0]) & (flat <= limits[1])).all():
                    array = as_standing(flat.astype(spec["dtype"]), dict(spec))
            values.append(array)
        return tuple(values)


def _without_noise(line: str) -> str:
    """Return a line from the first word of the runner on; other lines whole."""
    known = _RUNNER_LINE.search(line)
    return (line[known.start() :] if known else line).strip("\r\0\ufffd")


def _limits(dtype: str) -> tuple[float, float] | None:
    kind = np.dtype(dtype)
    return (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else None


def _report(link: BoardLink, program: BoardProgram, reading: _Reading, ended: _Ended) -> SimulationReport:
    uart = reading.uart
    good = ended == "completed" and uart.model_ok is not False
    resets = f" after {plural(reading.resets, 'reset')}" if reading.resets else ""
    reasons: dict[_Ended, str] = {
        "completed": f"The program ran to its end{resets}.",
        "timeout": f"The program did not end within {link.timeout_s:g} s{resets}.",
        "cancelled": "The run was cancelled.",
        "resets": f"The board started {reading.resets + 1} times without ending the program.",
        "unplugged": "The serial port disappeared.",
    }
    reason = reasons[ended]
    if ended == "completed" and not good:
        reason = "The program ran to its end, but the firmware reported wrong outputs."
    if ended == "timeout" and not uart.lines:
        reason = f"The board printed nothing within {link.timeout_s:g} s."
    return SimulationReport(
        simulator=f"board at {link.port}",
        version="",
        target=program.target,
        fast=False,
        succeeded=good,
        exit_reason=reason,
        samples=1,
        measurements=uart.measurements,
        pools=tuple(uart.pools.values()),
        bundle=tuple(uart.bundle),
        diagnoses=tuple(uart.diagnoses),
        lines=uart.lines,
        last_lines=tuple(uart.last_lines),
    )


def require(outcome: BoardOutcome) -> None:
    """Return if a run succeeded.

    Raises:
        WorkbenchError: It did not; the reason, and the first recognised failure.
    """
    report = outcome.report
    if report.succeeded:
        return
    cause = next((f"{d.cause} {d.remedy}" for d in report.diagnoses), "See the lines of the log.")
    raise failure(
        report.exit_reason, cause, _WHERE, details="\n".join(report.last_lines), code="board-run-failed"
    )
