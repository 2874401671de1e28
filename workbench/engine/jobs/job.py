"""One job of the engine: its stages or its study, every outcome an event."""

from __future__ import annotations

import importlib
import threading
import time
import traceback
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

from workbench import interpreter, system_limits
from workbench.engine.jobs.forked_stage import ForkedStage
from workbench.engine.runtime.accelerated import acceleration
from workbench.engine.runtime.context import LiveObjectCache, StageContext
from workbench.engine.runtime.forked import can_fork
from workbench.engine.runtime.memory_check import check_memory, described, is_memory_missing
from workbench.engine.studies.study import run_study
from workbench.engine.user_code import code_import
from workbench.errors import Cancelled, ErrorInfo, Place, WorkbenchError, failure, refused_by_system
from workbench.files import watching_digests
from workbench.ids import StageId, WorkId
from workbench.pipeline.cache import DEFAULT_LIMIT_BYTES, Cache
from workbench.pipeline.plan import Plan, PlannedStage, plan
from workbench.pipeline.stages import STAGES_BY_ID, stages_until
from workbench.project.opened import OpenProject
from workbench.protocol import (
    Event,
    Level,
    LogLine,
    RunStudy,
    RunUntil,
    StageFailed,
    StageFinished,
    StageProgress,
    StageSkipped,
    StageStarted,
)
from workbench.results import ExportResult, TensorMemory
from workbench.studies import STUDIES_BY_ID
from workbench.targets.ethos_u.corrections import with_switches
from workbench.toolchains.versions import own_name, tool_versions

if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = Literal["done", "failed", "cancelled"]
# A stage, and the one that it runs beside: neither needs the other.
_BESIDE: tuple[StageId, StageId] = ("evaluate", "lower")


@dataclass(eq=False)
class EngineJob:
    """A command that was accepted: ``cancelled`` is its own and is never cleared."""

    command: RunUntil | RunStudy
    store: LiveObjectCache
    send: Callable[[Event], None]
    cancelled: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        limit = self.command.cache_limit_bytes
        root = Path(self.command.cache_root)
        self._cache = Cache(root, DEFAULT_LIMIT_BYTES if limit is None else limit)
        self._opened = OpenProject(self.command.project, Path(self.command.folder))
        self._plan = Plan(())
        self._beside: ForkedStage | None = None

    @property
    def work(self) -> WorkId:
        """The stage or study that the command asks for."""
        return self.command.until if isinstance(self.command, RunUntil) else self.command.study

    def run(self) -> Outcome:
        """Do what the command asks for; return how it ended.

        The plan is the command's. Where files have changed since it was made, or none was sent,
        it is made here, once for the whole job.
        """
        try:
            with watching_digests(self._on_digest):
                return self._run()
        except Cancelled:
            return "cancelled"

    def _on_digest(self, path: Path, done: int, size: int) -> None:
        """Report how far a large file is read for its digest; end that when cancelled."""
        if self.cancelled.is_set():
            raise Cancelled
        job, message = self.command.job, f"reading {path.name}"
        share = min(1.0, done / size) if size else None
        self.send(StageProgress(job=job, stage=self.work, fraction=share, message=message))

    def _run(self) -> Outcome:
        if not self._install_code():
            return "failed"
        try:
            _check_toolchain(self.command)
            sent = self.command.plan
            if sent is not None and sent.is_valid:
                self._plan = sent
            else:
                self._plan = plan(self._opened, self._cache)
            match self.command:
                case RunStudy():
                    return self._study(self.command)
                case RunUntil():
                    return self._stages(self.command.until, self.command.skip)
                case _:
                    assert_never(self.command)
        finally:
            if self._beside is not None:
                self._beside.end()
            code_import.uninstall()
            self._cache.prune()

    def _install_code(self) -> bool:
        """Let the job import the code that the command allows; return False if it is another."""
        try:
            code_import.install_allowed(self._opened, self.command.code)
        except WorkbenchError as error:
            self.send(self._failed(self.work, "", time.monotonic(), error.infos))
            return False
        return True

    def _study(self, command: RunStudy) -> Outcome:
        """Run the stages that a study starts from, then the study."""
        study = STUDIES_BY_ID[command.study]
        if (outcome := self._stages(study.needs, ())) != "done":
            return outcome
        begun = time.monotonic()
        try:
            run_study(command, self._context(study.id, self._cache.root), self.send)
        except Cancelled:
            return "cancelled"
        except WorkbenchError as error:
            self.send(self._failed(study.id, "", begun, error.infos))
            return "failed"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign library may raise it
            infos = self._error_infos(error, study.id)
            self.send(self._failed(study.id, "", begun, infos))
            return "failed"
        return "done"

    def _stages(self, until: StageId, skip: tuple[StageId, ...]) -> Outcome:
        for stage_id in stages_until(until):
            if self.cancelled.is_set():
                return "cancelled"
            stage = self._plan.of(stage_id)
            if reason := _left_out(stage, until, skip):
                self.send(StageSkipped(job=self.command.job, stage=stage_id, reason=reason))
            elif self._runs_beside(stage_id, until, skip):
                self._fork(stage)
            elif not self._run_stage(stage):
                return "cancelled" if self.cancelled.is_set() else "failed"
        return "done"

    def _runs_beside(self, stage_id: StageId, until: StageId, skip: tuple[StageId, ...]) -> bool:
        """Return whether a stage is to run in a copy of the engine, beside the next one."""
        first, second = _BESIDE
        if stage_id != first or second not in stages_until(until) or second in skip:
            return False
        stages = [self._plan.of(one) for one in _BESIDE]
        computed = all(
            stage.state not in {"blocked", "unavailable"} and not self._cache.has(stage.key)
            for stage in stages
        )
        return computed and self.command.accelerate and can_fork()

    def _fork(self, stage: PlannedStage) -> None:
        def work(send: Callable[[Event], None], cancelled: threading.Event) -> None:
            self.send, self.cancelled = send, cancelled
            self._run_stage(stage)

        self._beside = ForkedStage(work, self.send)

    def _run_stage(self, stage: PlannedStage) -> bool:
        """Run a stage, or take it from the cache; return whether the job goes on.

        A stage that runs beside it ends first.
        """
        begun = time.monotonic()
        ending = self._ending(stage, begun)
        try:
            if not self._join():
                return False
        except Cancelled:
            return False
        if ending is not None:
            self.send(ending)
        return isinstance(ending, StageFinished)

    def _join(self) -> bool:
        """Wait for a stage that runs beside this one; return False if it failed.

        One whose process was killed, for want of memory for example, runs here.

        Raises:
            Cancelled: The user has cancelled the job.
        """
        beside, self._beside = self._beside, None
        if beside is None:
            return True
        try:
            ending = beside.ending(self.cancelled)
        finally:
            beside.end()
        if ending is None:
            return self._run_stage(self._plan.of(_BESIDE[0]))
        return isinstance(ending, StageFinished)

    def _ending(self, stage: PlannedStage, begun: float) -> StageFinished | StageFailed | None:
        """Run a stage and return its last event; None if it was cancelled."""
        if stage.state in {"blocked", "unavailable"}:
            info = ErrorInfo(
                message=stage.reason, where=Place(kind="stage", id=stage.id), code="stage-blocked"
            )
            return self._failed(stage.id, stage.key, begun, (info,))
        if self._cache.has(stage.key) and self._cache.verify(stage.key):
            return self._finished(stage, begun, cached=True)
        memory = self._memory_for(stage)
        largest = described(memory)
        self.send(StageStarted(job=self.command.job, stage=stage.id, key=stage.key, largest=largest))
        try:
            check_memory(stage.id, memory)
            with self._cache.writing(stage.key) as out:
                self._call(stage, self._context(stage.id, out))
                self._plan.check_files(stage.id)
        except Cancelled:
            return None
        except WorkbenchError as error:
            return self._failed(stage.id, stage.key, begun, self._with_switches(error.infos))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Vela raises SystemExit
            return self._failed(stage.id, stage.key, begun, self._error_infos(error, stage.id))
        return self._finished(stage, begun, cached=False)

    def _memory_for(self, stage: PlannedStage) -> TensorMemory:
        """Return the memory of the program's tensors, which are known once it is exported."""
        if "export" not in stages_until(stage.id)[:-1]:
            return TensorMemory()
        return self._context(stage.id, self._cache.root).result("export", ExportResult).memory

    def _call(self, stage: PlannedStage, context: StageContext) -> None:
        module, function = STAGES_BY_ID[stage.id].entry.split(":")
        run: Callable[[StageContext], None] = getattr(importlib.import_module(module), function)
        context.check_cancelled()
        with acceleration("quiet-collector") if context.accelerate else nullcontext():
            run(context)
        context.check_cancelled()

    def _context(self, work: WorkId, out: Path) -> StageContext:
        def report(stage_id: WorkId, fraction: float | None, message: str) -> None:
            if self._beside is not None and self._beside.failed:
                raise Cancelled
            job = self.command.job
            self.send(StageProgress(job=job, stage=stage_id, fraction=fraction, message=message))

        return StageContext(
            stage=work,
            project=self.command.project,
            folder=self._opened.folder,
            plan=self._plan,
            cache=self._cache,
            store=self.store,
            out=out,
            accelerate=self.command.accelerate,
            report=report,
            write_log=self._log,
            cancelled=self.cancelled,
        )

    def _log(self, level: Level, text: str, stage: WorkId | Literal[""]) -> None:
        self.send(LogLine(level=level, text=text[:8000], stage=stage))

    def _finished(self, stage: PlannedStage, begun: float, *, cached: bool) -> StageFinished:
        elapsed = time.monotonic() - begun
        job = self.command.job
        return StageFinished(job=job, stage=stage.id, key=stage.key, cached=cached, elapsed_s=elapsed)

    def _failed(self, stage: WorkId, key: str, begun: float, infos: tuple[ErrorInfo, ...]) -> StageFailed:
        elapsed = time.monotonic() - begun
        job = self.command.job
        return StageFailed(job=job, stage=stage, key=key, elapsed_s=elapsed, infos=infos)

    def _error_infos(self, error: BaseException, stage: WorkId) -> tuple[ErrorInfo, ...]:
        """Return the message for an unexpected exception, with the line of a plug-in."""
        if self.command.project.taken_from_plugins():
            from workbench.engine.quantization.plugins import error_in

            if error_info := error_in(self._opened, error):
                return error_info.infos
        return self._with_switches((unexpected(error, stage),))

    def _with_switches(self, infos: tuple[ErrorInfo, ...]) -> tuple[ErrorInfo, ...]:
        return with_switches(infos, self.command.project.target.options)


def _check_toolchain(command: RunUntil | RunStudy) -> None:
    """Check that a command is for this engine's packages: its keys hold their versions.

    Raises:
        WorkbenchError: The project is for another toolchain, or the plan for other versions.
    """
    wanted, own = command.project.toolchain, own_name()
    if wanted != own:
        message = f"This engine runs in the toolchain {own!r}; the project is for {wanted!r}."
    elif command.plan is not None and dict(command.plan.tools) != tool_versions():
        changed = sorted(dict(command.plan.tools).items() ^ tool_versions().items())
        names = ", ".join(dict.fromkeys(name for name, _ in changed))
        message = f"The plan is for other versions of {names} than this engine has."
    else:
        return
    raise failure(
        message,
        "Run again: packages were changed since the program or its engine started.",
        Place(kind="option", id="toolchain"),
        code="plan-foreign",
    )


def _left_out(stage: PlannedStage, until: StageId, skip: tuple[StageId, ...]) -> str:
    if stage.id in skip:
        return "left out as asked"
    if stage.state == "unavailable" and stage.id != until:
        return stage.reason
    return ""


# Packages that few projects need and ExecuTorch does not bring, by the names of their modules.
_OPTIONAL = {
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "onnxscript": "onnxscript",
    "ai_edge_litert": "ai-edge-litert",
    "distributed": "distributed",
}


def unexpected(error: BaseException, stage: WorkId) -> ErrorInfo:
    """Return the message for an unexpected exception: a sentence, and the rest as details."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__
    first = next((line for e in chain[::-1] for line in str(e).splitlines() if line.strip()), "")
    kind = type(chain[-1]).__name__
    message = f"{first.strip()} ({kind})" if first else f"It ended with {kind}."
    if isinstance(error, SystemExit):
        message = f"The compiler left with exit code {error.code}; its last words are in the log."
    hint, code = "The details and the log name the place in the toolchain.", "unexpected"
    if any(map(is_memory_missing, chain)):
        message, code = "There is not enough memory.", "memory-missing"
        hint = system_limits.remedy("Close other programs, or give fewer or smaller samples.")
    if refused := refused_by_system(chain[-1]):
        message, code, hint = refused.message, refused.code, system_limits.remedy(refused.hint)
    if isinstance(chain[-1], ModuleNotFoundError) and (package := _OPTIONAL.get(str(chain[-1].name))):
        message, code = f"The toolchain does not have {package}, which this project needs.", "package-missing"
        hint = f"Install it there: {interpreter.command('pip')[0]} -m pip install {package}."
    return ErrorInfo(
        message=message[:600],
        hint=hint,
        where=Place(kind="stage", id=stage),
        details="".join(traceback.format_exception(error)),
        code=code,
    )
