"""The engine's command loop: one job at a time, every outcome an event."""

from __future__ import annotations

import importlib
import logging
import os
import queue
import threading
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from workbench.engine.acceleration.imports import run_with_big_stack
from workbench.engine.acceleration.quiet_collector import quiet_collector
from workbench.engine.context import HotStore, StageContext
from workbench.engine.studies.study import run_study
from workbench.errors import Cancelled, ErrorInfo, Place, WorkbenchError
from workbench.pipeline.cache import DEFAULT_LIMIT_BYTES, Cache
from workbench.pipeline.plan import Plan, PlannedStage, plan
from workbench.pipeline.stages import STAGES_BY_ID, stages_until
from workbench.protocol import (
    Cancel,
    Command,
    Event,
    JobFinished,
    Level,
    LogLine,
    Ready,
    RunStudy,
    RunUntil,
    Shutdown,
    StageFailed,
    StageFinished,
    StageProgress,
    StageSkipped,
    StageStarted,
    decode_command,
    encode,
)
from workbench.studies import STUDIES_BY_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    Job = RunUntil | RunStudy

logger = logging.getLogger("workbench.engine")


class _Wire:
    """The descriptor events go out on; whole lines only."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, event: Event) -> None:
        line = encode(event)
        with self._lock:
            while line:
                line = line[os.write(self._descriptor, line) :]


class Server:
    """Serves commands from one descriptor and sends events on another until shut down."""

    def __init__(self, commands: int, events: int, started: float) -> None:
        self._commands = commands
        self._wire = _Wire(events)
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._cancelled = threading.Event()
        self._store = HotStore()
        self._started = started

    def serve(self) -> None:
        """Read commands in a thread, work in this one."""
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        ready = Ready(pid=os.getpid(), start_s=time.monotonic() - self._started)
        self._wire.send(ready)
        while (command := self._queue.get()) is not None:
            self._cancelled.clear()
            begun = time.monotonic()
            outcome = run_with_big_stack(self._answer, command)
            elapsed = time.monotonic() - begun
            self._wire.send(JobFinished(job=command.job, outcome=outcome, elapsed_s=elapsed))

    def _read(self) -> None:
        with os.fdopen(self._commands, "rb") as lines:
            for line in lines:
                try:
                    self._take(decode_command(line))
                except ValidationError as error:
                    self._log("error", f"Invalid command: {error}", "")
        self._cancelled.set()
        self._queue.put(None)

    def _take(self, command: Command) -> None:
        match command:
            case RunUntil() | RunStudy():
                self._queue.put(command)
            case Cancel():
                self._cancelled.set()
            case Shutdown():
                self._cancelled.set()
                self._queue.put(None)

    def _log(self, level: Level, text: str, stage: str) -> None:
        self._wire.send(LogLine(level=level, text=text[:8000], stage=stage))

    def _answer(self, command: Job) -> str:
        try:
            match command:
                case RunStudy():
                    return self._study(command)
                case RunUntil():
                    return self._run(command)
        finally:
            _cache_of(command).prune()

    def _study(self, command: RunStudy) -> str:
        """Run the stages that a study starts from, then the study."""
        study = STUDIES_BY_ID[command.study]
        first = RunUntil(
            job=command.job,
            project=command.project,
            folder=command.folder,
            until=study.needs,
            cache_root=command.cache_root,
            cache_limit_bytes=command.cache_limit_bytes,
            accelerate=command.accelerate,
        )
        if (outcome := self._run(first)) != "done":
            return outcome
        begun = time.monotonic()
        try:
            run_study(command, self._stage_context(first, study.id), self._wire.send)
        except Cancelled:
            return "cancelled"
        except WorkbenchError as error:
            self._fail(command.job, study.id, "", begun, error.infos)
            return "failed"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign library may raise it
            self._fail(command.job, study.id, "", begun, _said_of(error, command, study.id))
            return "failed"
        return "done"

    def _stage_context(self, command: RunUntil, name: str) -> StageContext:
        cache = _cache_of(command)
        planned = plan(command.project, Path(command.folder), cache)
        stage = PlannedStage(name, "", "stale")
        return self._context(command, planned, stage, cache, cache.root)

    def _run(self, command: RunUntil) -> str:
        cache = _cache_of(command)
        folder = Path(command.folder)
        for stage_id in stages_until(command.until):
            planned = plan(command.project, folder, cache)
            stage = planned.of(stage_id)
            if reason := _left_out(command, stage):
                self._wire.send(StageSkipped(job=command.job, stage=stage_id, reason=reason))
            elif not self._run_stage(command, planned, stage, cache):
                return "cancelled" if self._cancelled.is_set() else "failed"
        return "done"

    def _run_stage(
        self, command: RunUntil, planned: Plan, stage: PlannedStage, cache: Cache
    ) -> bool:
        begun = time.monotonic()
        if stage.state in {"blocked", "unavailable"}:
            info = ErrorInfo(
                message=stage.reason, where=Place(kind="stage", id=stage.id), code="stage-blocked"
            )
            self._fail(command.job, stage.id, stage.key, begun, (info,))
            return False
        if stage.state == "cached" and cache.verify(stage.key):
            self._finish(command.job, stage, begun, cached=True)
            return True
        self._wire.send(StageStarted(job=command.job, stage=stage.id, key=stage.key))
        try:
            with cache.writing(stage.key) as out:
                self._call(self._context(command, planned, stage, cache, out))
        except Cancelled:
            return False
        except WorkbenchError as error:
            self._fail(command.job, stage.id, stage.key, begun, error.infos)
            return False
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Vela raises SystemExit
            self._fail(command.job, stage.id, stage.key, begun, _said_of(error, command, stage.id))
            return False
        self._finish(command.job, stage, begun, cached=False)
        return True

    def _call(self, context: StageContext) -> None:
        module, function = STAGES_BY_ID[context.stage].entry.split(":")
        run: Callable[[StageContext], None] = getattr(importlib.import_module(module), function)
        context.check_cancelled()
        with quiet_collector() if context.accelerate else nullcontext():
            run(context)
        context.check_cancelled()

    def _context(
        self, command: RunUntil, planned: Plan, stage: PlannedStage, cache: Cache, out: Path
    ) -> StageContext:
        def report(stage_id: str, fraction: float | None, message: str) -> None:
            self._wire.send(
                StageProgress(job=command.job, stage=stage_id, fraction=fraction, message=message)
            )

        return StageContext(
            stage=stage.id,
            project=command.project,
            folder=Path(command.folder),
            plan=planned,
            cache=cache,
            store=self._store,
            out=out,
            accelerate=command.accelerate,
            report=report,
            write_log=self._log,
            cancelled=self._cancelled,
        )

    def _finish(self, job: str, stage: PlannedStage, begun: float, *, cached: bool) -> None:
        elapsed = time.monotonic() - begun
        self._wire.send(
            StageFinished(job=job, stage=stage.id, key=stage.key, cached=cached, elapsed_s=elapsed)
        )

    def _fail(
        self, job: str, stage: str, key: str, begun: float, infos: tuple[ErrorInfo, ...]
    ) -> None:
        elapsed = time.monotonic() - begun
        small = tuple(info.model_copy(update={"details": info.details[-20_000:]}) for info in infos)
        self._wire.send(
            StageFailed(job=job, stage=stage, key=key, elapsed_s=elapsed, infos=small[:20])
        )


def _cache_of(command: Job) -> Cache:
    limit = command.cache_limit_bytes
    return Cache(Path(command.cache_root), DEFAULT_LIMIT_BYTES if limit is None else limit)


def _left_out(command: RunUntil, stage: PlannedStage) -> str:
    if stage.id in command.skip:
        return "skipped as requested"
    if stage.state == "unavailable" and stage.id != command.until:
        return stage.reason
    return ""


def _said_of(error: BaseException, command: Job, stage: str) -> tuple[ErrorInfo, ...]:
    """Return the infos of an unexpected error: the plug-in's error, or a generic one."""
    if command.project.taken_from_plugins():
        from workbench.engine.plugins import error_in

        if found := error_in(command.project, Path(command.folder), error):
            return found.infos
    return (unexpected(error, stage),)


def unexpected(error: BaseException, stage: str) -> ErrorInfo:
    """Return the info of an unexpected error: a message, with the traceback as details."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__
    first = next((line for e in chain[::-1] for line in str(e).splitlines() if line.strip()), "")
    kind = type(chain[-1]).__name__
    message = f"{first.strip()} ({kind})" if first else f"The stage ended with {kind}."
    if isinstance(error, SystemExit):
        message = f"The compiler ended with exit code {error.code}. See the log for its output."
    details = "".join(traceback.format_exception(error))
    return ErrorInfo(
        message=message[:600],
        hint="See the details and the log for the location in the toolchain.",
        where=Place(kind="stage", id=stage),
        details=details,
        code="unexpected",
    )
