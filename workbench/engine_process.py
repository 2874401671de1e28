"""Control of an engine process: start, send, stop, kill. No Qt, no torch.

On Linux, a warm engine is forked from a server that has finished the heavy imports; elsewhere, and
for the command line, it is a fresh interpreter. The engine leads its own process group, so that
killing it also ends the programs it started.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import threading
from itertools import chain
from multiprocessing import get_context, reduction
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from workbench import engine_start, interpreter, system_limits
from workbench.ids import STAGE_IDS, is_stage
from workbench.operating_system import CAN_FORK, become_engine, end_group, is_bus_error, is_kill
from workbench.process_guard import SERVER_OF_VARIABLE, ProcessGuard
from workbench.protocol import (
    MAX_EVENT_BYTES,
    PROTOCOL_VERSION,
    Cancel,
    Command,
    EngineExit,
    Event,
    JobFinished,
    LogLine,
    OversizedLine,
    RunStudy,
    RunUntil,
    Shutdown,
    StageStarted,
    decode_event,
    encode_command,
    protocol_of,
    read_lines,
)
from workbench.toolchains.packages import folder_for
from workbench.toolchains.probe import variables_for
from workbench.toolchains.registry import toolchain_of
from workbench.toolchains.versions import NAME_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# With few cores, the window must keep priority over its engines.
_NICENESS = 5
# Signals that native code gets for its own faults; others come from outside.
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})
_LOG_CHUNK, _MAX_LOG_LINE = 65_536, 8_000
CANCEL_GRACE_S = 2.0
# An engine of another toolchain is given up if it has not imported its packages by then [s].
START_LIMIT_S = 300.0
_FOR_MEMORY = (
    "If memory ran out: close other programs, give a smaller example input or fewer samples, or use a "
    "machine with more memory. The project and all finished results are kept; run again to continue."
)
_ENGINE = "workbench.engine.__main__"


class _Handle(Protocol):
    """The operating system's handle of an engine."""

    pid: int

    def wait(self, timeout_s: float | None) -> int | None:
        """Return the exit code (negative: a signal), or None while it runs."""
        ...


class _Spawned:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self, timeout_s: float | None) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None


class _Forked:
    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid = int(process.pid)

    def wait(self, timeout_s: float | None) -> int | None:
        self._process.join(timeout_s)
        code = self._process.exitcode
        return None if code is None else int(code)


def _serve_forked(commands: Any, events: Any, log: Any) -> None:
    """Run the engine in the child of the fork server, with a lower priority than the window."""
    interpreter.leave_current_folder()
    become_engine(_NICENESS)
    log_fd = log.detach()
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    importlib.import_module(_ENGINE).serve(commands.detach(), events.detach())


class EngineProcess:
    """One engine process; ``events()`` yields its events until it has ended.

    ``send``, ``cancel`` and ``stop`` are thread-safe.
    """

    def __init__(self, toolchain: str = "", *, warm: bool = False) -> None:
        """Start an engine.

        Args:
            toolchain: The name of the toolchain that it runs in; "" for the program's own.
            warm: Whether it may be forked from a warm server, where there is one.

        Raises:
            WorkbenchError: The toolchain is not on this machine, or cannot be used.
            OSError: It cannot be started.
        """
        surroundings = surroundings_of(toolchain)
        self._lock = threading.Lock()
        self._jobs: list[str] = []
        self._stage = ""
        self._largest = ""
        self._is_known = False
        self._expected = False
        self._sending = threading.Lock()
        self._timer: threading.Timer | None = None
        self._handle: _Handle
        if warm and can_fork() and not toolchain:
            with engine_start.engine_pipes() as (pipes, children):
                self._handle = _fork(*children)
            self._guard = ProcessGuard(self.pid, engine_start.ORPHAN_GRACE_S)
        else:
            started = engine_start.take(*surroundings)
            self._handle, self._guard, pipes = _Spawned(started.process), started.guard, started.pipes
        self._commands, self._events, self._log = pipes
        self._is_late = False
        self._start_limit = threading.Timer(START_LIMIT_S, self._give_up)
        self._start_limit.daemon = True
        if toolchain:
            self._start_limit.start()

    def _give_up(self) -> None:
        """Kill an engine that has not started."""
        self._is_late = True
        self.kill()

    @property
    def pid(self) -> int:
        """The engine's process id, which is also its process group."""
        return self._handle.pid

    def send(self, command: Command) -> None:
        """Send a command; an engine that has ended already is no error, its exit is reported.

        Raises:
            WorkbenchError: the command is too large.
        """
        line = encode_command(command)
        with self._sending, contextlib.suppress(OSError):
            if isinstance(command, RunUntil | RunStudy):
                self._jobs.append(command.job)
            while line:
                line = line[os.write(self._commands, line) :]

    def cancel(self, job: str, grace_s: float = CANCEL_GRACE_S) -> None:
        """Ask a job to stop; if it runs and has not stopped after the grace, kill the group."""
        self.send(Cancel(job=job))
        if self._running != job:
            return

        def enforce() -> None:
            if self._running == job:
                self._expected = True
                self.kill()

        self._timer = threading.Timer(grace_s, enforce)
        self._timer.daemon = True
        self._timer.start()

    @property
    def _running(self) -> str:
        """The first job that was sent and is not over; "" for none."""
        return next(iter(self._jobs), "")

    def stop(self, grace_s: float = CANCEL_GRACE_S) -> None:
        """Stop the engine: request, wait, kill. Returns when the process has ended."""
        self._expected = True
        self.send(Shutdown())
        with self._lock:
            if self._handle.wait(grace_s) is None:
                self.kill()
                self._handle.wait(None)
        self._end_group()

    def kill(self) -> None:
        """Kill the engine and all processes it started."""
        end_group(self.pid)

    def _end_group(self) -> None:
        """Kill what an engine that has ended left running."""
        self.kill()
        self._guard.release()

    def run_log(self, receive: Callable[[str], None]) -> threading.Thread:
        """Read the output of the engine's tools line by line, in a thread; long lines are cut."""

        def read() -> None:
            with os.fdopen(self._log, "rb", buffering=0) as output:
                for line in _log_lines(output.fileno()):
                    receive(line)

        thread = threading.Thread(target=read, name="engine log", daemon=True)
        thread.start()
        return thread

    def events(self) -> Iterator[Event]:
        """Yield events as they come; the last one is always an EngineExit."""
        refusal = ""
        with os.fdopen(self._events, "rb", buffering=0) as wire:
            for line in chain.from_iterable(read_lines(wire.fileno(), MAX_EVENT_BYTES)):
                refusal = self._refusal(line)
                if refusal:
                    self.kill()
                    break
                event = _decoded(line)
                self._follow(event)
                yield event
        yield self._outcome(refusal)

    def _refusal(self, line: bytes | OversizedLine) -> str:
        """Return why an engine cannot be used, read from its first words; "" where it can."""
        if self._is_known or isinstance(line, OversizedLine):
            return ""
        version = protocol_of(line)
        self._is_known = version == PROTOCOL_VERSION
        if self._is_known:
            self._start_limit.cancel()
        if version in {None, PROTOCOL_VERSION}:
            return ""
        return (
            f"The engine has protocol version {version} and this program {PROTOCOL_VERSION}: "
            "install the workbench again, so that both are of one version."
        )

    def _follow(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            # Of two at a time, the earlier one is in a copy of the engine.
            self._stage = max(self._stage, event.stage, key=_position)
            self._largest = event.largest
        elif isinstance(event, JobFinished):
            self._stage = ""
            with self._sending, contextlib.suppress(ValueError):
                self._jobs.remove(event.job)
            if self._timer is not None:
                self._timer.cancel()

    def _outcome(self, refusal: str) -> EngineExit:
        with self._lock:
            code = self._handle.wait(5.0)
            if code is None:
                self.kill()
                code = self._handle.wait(None)
        self._end_group()
        self._start_limit.cancel()
        with contextlib.suppress(OSError):
            os.close(self._commands)
        doing = f" while running {self._stage}" if self._stage else ""
        if refusal:
            sentence = refusal
        elif self._is_late:
            sentence = f"The engine did not start within {START_LIMIT_S:g} s."
        elif self._expected or code == 0:
            sentence = "The engine was stopped."
        elif code is not None and is_bus_error(code):
            sentence = f"A file was cut or removed, or its disk failed, while it was read{doing}."
        elif code is not None and code < 0:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else "?"
            sentence = f"The engine was killed by signal {-code} ({name}){doing}{self._shortage(code)}."
        else:
            start = "ended" if self._is_known else "could not start: it ended"
            sentence = f"The engine {start} with exit code {code}{doing}."
        expected = not refusal and (self._expected or code == 0)
        crashed = not expected and code is not None and -code in _CRASHES
        return EngineExit(
            expected=expected,
            sentence=sentence,
            job=self._running,
            stage=self._stage,
            crashed=crashed,
            remedy="" if expected else system_limits.remedy(_FOR_MEMORY if self._shortage(code) else ""),
        )

    def _shortage(self, code: int | None) -> str:
        """Return that memory was perhaps missing, with the largest tensor; "" for other endings."""
        if code is None or not is_kill(code) or not self._stage:
            return ""
        tensor = f" (largest tensor: {self._largest})" if self._largest else ""
        return f", perhaps for want of memory{tensor}"


def _position(stage: str) -> int:
    """Return the place of a stage in the order of a run; -1 for none."""
    return STAGE_IDS.index(stage) if is_stage(stage) else -1


def _decoded(line: bytes | OversizedLine) -> Event:
    """Return the event of a line, or a warning in its place."""
    if isinstance(line, OversizedLine):
        text = f"An event of {line.size} bytes is too long and was skipped."
        return LogLine(level="warning", text=text)
    try:
        return decode_event(line)
    except ValidationError:
        text = line.decode(errors="replace").strip()
        return LogLine(level="warning", text=f"not understood: {text[:500]}")


def _log_lines(descriptor: int) -> Iterator[str]:
    """Yield the lines of a tool's output; of a line only ``_MAX_LOG_LINE`` bytes are kept."""
    rest, is_cut = bytearray(), False
    while chunk := os.read(descriptor, _LOG_CHUNK):
        *ended, tail = chunk.split(b"\n")
        for part in ended:
            if not is_cut:
                yield bytes(rest + part)[:_MAX_LOG_LINE].decode(errors="replace")
            rest, is_cut = bytearray(), False
        if is_cut:
            continue
        rest += tail
        if len(rest) > _MAX_LOG_LINE:
            yield bytes(rest[:_MAX_LOG_LINE]).decode(errors="replace")
            rest, is_cut = bytearray(), True
    if rest:
        yield rest.decode(errors="replace")


def can_fork() -> bool:
    """Return whether this system can fork engines from a warm server."""
    return CAN_FORK


def _fork(commands: int, events: int, log: int) -> _Forked:
    # The fork server and the resource tracker take the environment, and no flags, from here.
    os.environ.update({**interpreter.environment(), SERVER_OF_VARIABLE: str(os.getpid())})
    context: Any = get_context("forkserver")
    context.set_forkserver_preload(["workbench.engine.jobs.preload"])
    arguments = tuple(_LazyDup(descriptor) for descriptor in (commands, events, log))
    process = context.Process(target=_serve_forked, args=arguments, daemon=True)
    process.start()
    return _Forked(process)


class _LazyDup:
    """A file descriptor that is sent to the fork server's child when the process starts."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        duplicate: Any = reduction
        return _same, (duplicate.DupFd(self._descriptor),)


def _same(value: Any) -> Any:
    return value


def surroundings_of(toolchain: str) -> tuple[str, dict[str, str]]:
    """Return the interpreter of a toolchain and the environment of its engines."""
    if not toolchain:
        variables = interpreter.environment()
        variables.pop(NAME_VARIABLE, None)
        return "", variables
    known = toolchain_of(toolchain)
    return known.python, variables_for(folder_for(known), (NAME_VARIABLE, toolchain))
