"""One simulator process: started without a shell, read incrementally, ended with its children."""

from __future__ import annotations

import codecs
import contextlib
import io
import selectors
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from workbench.errors import Place, failure
from workbench.files import open_log
from workbench.operating_system import end_group, has_group
from workbench.process_guard import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from workbench.deploy.simulators.compatibility import Placement
    from workbench.deploy.simulators.discovery import Device


Ended = Literal["itself", "served", "timeout", "cancelled", "not started"]
_CHUNK, _TICK_S = 1 << 18, 0.05
# Time limits after a request to end, and after the work is complete.
_TERMINATE_S, _LEAVE_S = 1.0, 1.0
# How long processes that were killed are waited for, and how often they are looked for.
_GONE_S, _PAUSE_S = 1.0, 0.01
LOG_LIMIT_BYTES = 256 << 20


@dataclass(frozen=True)
class Hooks:
    """Callbacks of a run.

    ``text`` receives the output; ``cancelled`` is polled many times a second; ``step`` returns the
    next input after each piece of text, or None when done. Without ``step`` the process gets no
    input.
    """

    text: Callable[[str], object]
    cancelled: Callable[[], bool] = lambda: False
    step: Callable[[], bytes | None] | None = None


@dataclass(frozen=True)
class Ending:
    """The end of a process. ``error`` is the system's message if it could not be started."""

    by: Ended
    code: int | None = None
    elapsed_s: float = 0.0
    error: str = ""
    log_cut: bool = False


@dataclass
class Log:
    """Writes the output to disk up to a limit; write errors are ignored."""

    file: io.FileIO
    left: int = LOG_LIMIT_BYTES
    cut: bool = field(default=False)

    def write(self, data: bytes) -> None:
        """Write a piece, or what there is room for."""
        if self.cut:
            return
        try:
            self.file.write(data[: self.left])
        except OSError:
            self.cut = True
        self.left -= len(data)
        self.cut = self.cut or self.left < 0


def execute(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    timeout_s: float,
    hooks: Hooks,
) -> Ending:
    """Run a simulator until it ends; all its child processes are ended."""
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=dict(environment),
            bufsize=0,
            stdin=subprocess.PIPE if hooks.step else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return Ending("not started", error=error.strerror or str(error))
    try:
        with guarded(process.pid), open_log(log) as file:
            kept = Log(file)
            by = _follow(process, kept, begun + timeout_s, hooks)
    finally:
        _end(process)
    elapsed = time.monotonic() - begun
    return Ending(by, process.returncode, elapsed, log_cut=kept.cut)


def _follow(process: subprocess.Popen[bytes], log: Log, deadline: float, hooks: Hooks) -> Ended:
    """Read output and send input until the process ends or must be ended."""
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    leaving = False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            ready = bool(selector.select(_TICK_S))
            data = process.stdout.read(_CHUNK) if ready else None
            if data:
                log.write(data)
                hooks.text(decoder.decode(data))
            if hooks.cancelled():
                return "cancelled"
            if data == b"" or (not data and process.poll() is not None):
                return _last_words(process, deadline, served=leaving)
            if time.monotonic() > deadline:
                return "served" if leaving else "timeout"
            if not leaving and hooks.step is not None:
                leaving = _type(process, hooks.step())
                if leaving:
                    deadline = min(deadline, time.monotonic() + _LEAVE_S)


def _type(process: subprocess.Popen[bytes], words: bytes | None) -> bool:
    """Send input to the process; return whether there is no more input."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        if words:
            process.stdin.write(words)
        elif words is None:
            process.stdin.close()
    return words is None


def _last_words(process: subprocess.Popen[bytes], deadline: float, *, served: bool) -> Ended:
    """Wait for a process that has closed its output."""
    try:
        process.wait(max(0.0, min(deadline - time.monotonic(), _LEAVE_S)))
    except subprocess.TimeoutExpired:
        return "served" if served else "timeout"
    return "itself"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process group: terminate, then kill; wait until it has ended."""
    running = process.poll() is None
    end_group(process.pid, ask=running)
    if running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TERMINATE_S)
        end_group(process.pid)
        process.wait()
    # What it started was killed too, and may still be about to end.
    deadline = time.monotonic() + _GONE_S
    while has_group(process.pid) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


PROGRAM_FILE, RUNNER_FILE, OUTPUT_STEM = "program.pte", "runner.elf", "out"
TRACE_FILE = "trace.gz"
LONGEST_COMMAND_LINE = 256


@dataclass(frozen=True)
class Run:
    """The parameters of a run. ``address`` is where the program is loaded, if the runner needs it.

    ``trace`` records when the NPU read which command, in cycles.
    """

    device: Device
    placement: Placement
    inputs: int
    fast: bool = False
    trace: bool = False
    timelimit_s: int = 600
    serve: bool = False
    address: int | None = None


def input_file(index: int) -> str:
    """Return the file name of an input in the working folder."""
    return f"i{index}.bin"


def output_file(index: int) -> str:
    """Return the runner's file name of an output."""
    return f"{OUTPUT_STEM}-{index}.bin"


def command(binary: Path, folder: Path, run: Run) -> list[str]:
    """Return the arguments of the process; no shell is involved.

    Raises:
        WorkbenchError: the program's own command line exceeds the limit.
    """
    simulator = run.device.simulator
    settings = [f"{simulator.npu}.num_macs={run.device.macs}", *simulator.settings]
    extra = ["--fast"] if run.fast else []
    if run.trace:
        extra.append(f"--pmu-trace {TRACE_FILE}")
    if extra:
        settings.append(f"{simulator.npu}.extra_args='{' '.join(extra)}'")
    if run.placement in {"semihosting", "embedded", "unknown"} and run.address is None:
        settings += [
            f"{simulator.cpu}.semihosting-enable=1",
            f"{simulator.cpu}.semihosting-stack_base=0",
            f"{simulator.cpu}.semihosting-heap_limit=0",
            f"{simulator.cpu}.semihosting-cwd={folder}",
            f"{simulator.cpu}.semihosting-cmd_line='{_program_arguments(run)}'",
        ]
    arguments = [str(binary)]
    for setting in settings:
        arguments += ["-C", setting]
    arguments += ["-a", RUNNER_FILE]
    if run.address is not None:
        arguments += ["--data", f"{PROGRAM_FILE}@{run.address:#x}"]
    return [*arguments, "--timelimit", str(run.timelimit_s)]


def _program_arguments(run: Run) -> str:
    words = ["executor_runner"]
    if run.placement != "embedded":
        words += ["-m", PROGRAM_FILE]
    words += ["-o", OUTPUT_STEM]
    for index in range(run.inputs):
        words += ["-i", input_file(index)]
    if run.serve:
        words += ["--server_mode", "true"]
    line = " ".join(words)
    if len(line) > LONGEST_COMMAND_LINE:
        raise failure(
            f"The program has {run.inputs} inputs; their names exceed the simulator's "
            f"limit of {LONGEST_COMMAND_LINE} characters.",
            "Use a runner with the program and its inputs built in.",
            Place(kind="tool", id="FVP"),
            code="simulator-command-too-long",
        )
    return line
