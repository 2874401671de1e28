"""The engine's command loop: one job at a time, in the order in which they were sent."""

from __future__ import annotations

import os
import queue
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, assert_never, cast

from workbench.engine.jobs.job import EngineJob, Outcome, unexpected
from workbench.engine.runtime.context import LiveObjectCache
from workbench.engine.runtime.interpreter import run_with_big_stack
from workbench.engine.runtime.process_memory import ProcessMemory
from workbench.errors import ErrorInfo, WorkbenchError
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.protocol import (
    MAX_COMMAND_BYTES,
    Cancel,
    Command,
    Event,
    JobFinished,
    LogLine,
    Outgrown,
    OversizedLine,
    Ready,
    RunStudy,
    RunUntil,
    Shutdown,
    StageFailed,
    decode_command,
    encode_event,
    read_lines,
    refused_job,
)
from workbench.studies import STUDIES_BY_ID
from workbench.toolchain_versions import status
from workbench.toolchains.versions import own_name, tool_versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.ids import WorkId


# The time that a job gets to end after the command pipe was closed [s].
_ORPHAN_S = 4.0
# A command line shuts its engine down within this time after the job; then memory is not freed [s].
_SHUTDOWN_S = 0.05


class _Wire:
    """The descriptor events go out on; whole lines only."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, event: Event) -> None:
        line = encode_event(event)
        with self._lock:
            while line:
                line = line[os.write(self._descriptor, line) :]


class Server:
    """Serves commands from one descriptor and sends events on another until shut down."""

    def __init__(self, commands: int, events: int, started: float) -> None:
        self._commands = commands
        self._wire = _Wire(events)
        self._queue: queue.Queue[EngineJob | None] = queue.Queue()
        self._lock = threading.Lock()
        self._unfinished: list[EngineJob] = []
        self._store = LiveObjectCache()
        self._started = started
        self._ended = threading.Event()

    def serve(self) -> None:
        """Read commands in a thread, work in this one."""
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        ready = Ready(
            pid=os.getpid(),
            start_s=time.monotonic() - self._started,
            toolchain=own_name(),
            tools=tool_versions(),
            acceleration=status(),
        )
        self._wire.send(ready)
        if not ready.acceleration.active:
            self._wire.send(LogLine(level="warning", text=ready.acceleration.reason))
        memory = ProcessMemory(self._store)
        job = self._queue.get()
        while job is not None:
            begun = time.monotonic()
            outcome = self._run(job)
            with self._lock:
                self._unfinished.remove(job)
            elapsed = time.monotonic() - begun
            self._wire.send(JobFinished(job=job.command.job, outcome=outcome, elapsed_s=elapsed))
            job = self._next_job(memory)
        self._ended.set()

    def _run(self, job: EngineJob) -> Outcome:
        try:
            return run_with_big_stack(job.run)
        except WorkbenchError as error:
            self._fail(job.command.job, job.work, *error.infos)
        except Exception as error:  # noqa: BLE001 - outside of a stage, e.g. a name with NUL
            self._fail(job.command.job, job.work, unexpected(error, job.work))
        return "failed"

    def _next_job(self, memory: ProcessMemory) -> EngineJob | None:
        """Free the memory of the last job and return the next one; None at once to shut down."""
        with suppress(queue.Empty):
            job = self._queue.get(timeout=_SHUTDOWN_S)
            if job is not None:
                self._free(memory)
            return job
        self._free(memory)
        return self._queue.get()

    def _free(self, memory: ProcessMemory) -> None:
        if growth := memory.after_job():
            self._wire.send(Outgrown(growth=growth))

    def _read(self) -> None:
        for lines in read_lines(self._commands, MAX_COMMAND_BYTES):
            self._accept(self._decoded(lines))
        os.close(self._commands)
        # The program that sent the commands has died: nobody waits for a job that goes on.
        self._accept([Shutdown()])
        if not self._ended.wait(_ORPHAN_S):
            os._exit(1)

    def _decoded(self, lines: Iterable[bytes | OversizedLine]) -> list[Command]:
        commands: list[Command] = []
        for line in lines:
            if isinstance(line, OversizedLine):
                self._complain(f"A command of {line.size} bytes is too long and was skipped.")
                continue
            try:
                commands.append(decode_command(line))
            except Exception as error:  # noqa: BLE001 - a validator may raise any, and jobs wait
                self._complain(f"A command was not understood: {error}"[:8000])
                self._answer_refused(line, error)
        return commands

    def _answer_refused(self, line: bytes, error: Exception) -> None:
        """End the job of a command that was not understood, so that nobody waits for it."""
        if (refused := refused_job(line)) is None:
            return
        job, work = refused
        known = work in STAGES_BY_ID or work in STUDIES_BY_ID
        self._fail(job, cast("WorkId", work if known else "import_model"), _not_understood(error))
        self._wire.send(JobFinished(job=job, outcome="failed", elapsed_s=0.0))

    def _fail(self, job: str, work: WorkId, *infos: ErrorInfo) -> None:
        self._wire.send(StageFailed(job=job, stage=work, key="", elapsed_s=0.0, infos=infos))

    def _complain(self, text: str) -> None:
        self._wire.send(LogLine(level="error", text=text))

    def _accept(self, commands: list[Command]) -> None:
        """Take commands that were read together.

        Jobs start only when all the commands are taken, so that a Cancel that was written
        together with its job finds it before it has begun.
        """
        starting: list[EngineJob | None] = []
        for command in commands:
            match command:
                case RunUntil() | RunStudy():
                    job = EngineJob(command, self._store, self._wire.send)
                    starting.append(job)
                    with self._lock:
                        self._unfinished.append(job)
                case Cancel():
                    self._cancel(command.job)
                case Shutdown():
                    self._cancel()
                    starting.append(None)
                case _:
                    assert_never(command)
        for process in starting:
            self._queue.put(process)

    def _cancel(self, job_id: str | None = None) -> None:
        """Cancel the unfinished job of this id, or all of them; others are left alone."""
        with self._lock:
            for job in self._unfinished:
                if job_id in {None, job.command.job}:
                    job.cancelled.set()


def _not_understood(error: Exception) -> ErrorInfo:
    return ErrorInfo(
        message="The engine does not understand the command for this job.",
        hint="Check the project. If it is valid, install the workbench again.",
        details=str(error)[:8000],
        code="command-invalid",
    )
