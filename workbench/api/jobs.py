"""Runs one command on an engine process of its own and reports its events."""

from __future__ import annotations

import signal
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine_process import EngineProcess
from workbench.errors import Cancelled, WorkbenchError
from workbench.logs import log, log_event
from workbench.protocol import (
    EngineExit,
    Event,
    JobFinished,
    Ready,
    RunStudy,
    RunUntil,
    StageFailed,
    StageFinished,
    StageSkipped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_MAX_LINES = 40
# How long the last lines of an engine that has ended are waited for [s].
_OUTPUT_S = 1.0


class JobFailedError(WorkbenchError):
    """A stage or a study failed, with its problems."""


StageEvent = StageFinished | StageSkipped | StageFailed


@dataclass
class JobResult:
    """How a job ended, with the final event of every stage in order."""

    outcome: str = "failed"
    stages: list[StageEvent] = field(default_factory=list)

    @property
    def failures(self) -> list[StageFailed]:
        """The stages that failed, with their problems."""
        return [event for event in self.stages if isinstance(event, StageFailed)]


def run_job(
    command: RunUntil | RunStudy,
    on_event: Callable[[Event], None] | None = None,
    on_output: Callable[[str], None] | None = None,
) -> JobResult:
    """Run a command on a fresh engine process and wait for its end.

    Args:
        command: The job.
        on_event: Called with every event of the engine, in this thread.
        on_output: Called with every line that the toolchain prints, in another thread.

    Raises:
        WorkbenchError: The project's toolchain is not on this machine, or cannot be used.
        Cancelled: The user pressed Ctrl-C. The engine and all that it started have ended.
    """
    engine = EngineProcess(command.project.toolchain)
    tail: deque[str] = deque(maxlen=_MAX_LINES)

    def receive(line: str) -> None:
        tail.append(line)
        log.debug("%s", line)
        if on_output is not None:
            on_output(line)

    output = engine.run_log(receive)
    result = JobResult()
    with _stopped_by_interrupt(engine) as interrupted:
        try:
            for event in engine.events():
                if isinstance(event, Ready):
                    engine.send(command)
                elif isinstance(event, JobFinished):
                    result.outcome = event.outcome
                    engine.stop()
                elif isinstance(event, StageEvent):
                    result.stages.append(event)
                elif isinstance(event, EngineExit) and not event.expected:
                    result.stages.append(_crash(event, command, tail))
                log_event(event)
                if on_event is not None:
                    on_event(event)
        finally:
            engine.stop()
            output.join(_OUTPUT_S)
    if interrupted.is_set() or result.outcome == "cancelled":
        raise Cancelled
    return result


@contextmanager
def _stopped_by_interrupt(engine: EngineProcess) -> Iterator[threading.Event]:
    """Stop the engine on Ctrl-C; the event is set if it was pressed.

    Only the main thread can handle signals: elsewhere Ctrl-C keeps its meaning.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        interrupted.set()
        threading.Thread(target=engine.stop, daemon=True).start()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _crash(event: EngineExit, command: RunUntil | RunStudy, tail: deque[str]) -> StageFailed:
    asked = command.until if isinstance(command, RunUntil) else command.study
    stage = event.stage or asked
    info = event.problem(asked, "\n".join(tail))
    return StageFailed(job=command.job, stage=stage, key="", elapsed_s=0.0, infos=(info,))
