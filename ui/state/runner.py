"""Runs stages on lanes of engine processes, so that a long compilation blocks nothing else.

The interactive lane does import to evaluate, the background lane the rest, the machine lane what
takes minutes and no model: building runners. All lanes share the cache. A background job
starts as soon as the interactive lane has computed what it needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

from pydantic import JsonValue
from PySide6.QtCore import QObject, QThread, Signal

from ui.state.jobs import BACKGROUND, Job, Purpose, command_of, interactive_part, lane_of
from ui.state.session import Planned
from workbench.errors import TrustRequiredError, WorkbenchError, reason_of
from workbench.ids import STAGE_IDS, StageId, StudyId
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import Plan
from workbench.pipeline.stages import STAGES_BY_ID, stages_needed
from workbench.project.opened import OpenProject
from workbench.project.trust import TrustStore, demand
from workbench.protocol import (
    Cancel,
    Command,
    EngineExit,
    Event,
    JobFinished,
    Lane,
    LogLine,
    Outgrown,
    Ready,
    Shutdown,
    StageFailed,
    StageFinished,
    StageProgress,
    StageStarted,
    StudyProgress,
    encode_command,
)
from workbench.studies import STUDIES_BY_ID


class Engine(Protocol):
    """Interface of an engine process, see ``EngineProcess``."""

    def send(self, command: Command) -> None:
        """Send a command."""
        ...

    def cancel(self, job: str) -> None:
        """Ask a job to stop; kill the engine if it runs and does not."""
        ...

    def stop(self) -> None:
        """End the engine; returns when it has ended."""
        ...

    def run_log(self, receive: Callable[[str], None]) -> Any:
        """Pass every printed line to ``receive``, in a thread."""
        ...

    def events(self) -> Iterator[Event]:
        """Yield events; the last one is an EngineExit."""
        ...


# Makes an engine of a toolchain; "" is the program's own.
EngineFactory = Callable[[str], Engine]


def warm_engine(toolchain: str) -> Engine:
    """Return a new engine of a toolchain, forked from a warm server where there is one for it."""
    from workbench.engine_process import EngineProcess

    return EngineProcess(toolchain, warm=True)


class EngineLink(QThread):
    """Supervisor of one engine. Owned by the application, never by a widget.

    Signals:
        received: an event of the protocol; the last one is an EngineExit.
    """

    received = Signal(object)

    def __init__(self, factory: EngineFactory, toolchain: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._factory = factory
        self.toolchain = toolchain
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._waiting: list[Command] = []
        self._stopping = False

    def send(self, command: Command) -> None:
        """Send a command, or queue it until the engine has started."""
        with self._lock:
            if self._engine is None:
                self._waiting.append(command)
                return
            engine = self._engine
        engine.send(command)

    def cancel(self, job: str) -> bool:
        """Ask a job to stop; return False when it was not sent to an engine yet."""
        with self._lock:
            if self._engine is None:
                kept = [c for c in self._waiting if getattr(c, "job", "") != job]
                if len(kept) < len(self._waiting):
                    self._waiting = kept
                    return False
                self._waiting.append(Cancel(job=job))
                return True
            engine = self._engine
        engine.cancel(job)
        return True

    def stop(self) -> None:
        """Stop the engine and the thread. Returns when both have ended."""
        with self._lock:
            self._stopping = True
            engine = self._engine
        if engine is not None:
            engine.stop()
        self.wait()

    def run(self) -> None:
        try:
            engine = self._factory(self.toolchain)
        except (OSError, EOFError, WorkbenchError) as error:
            self.received.emit(
                EngineExit(expected=False, sentence=f"The engine could not be started: {reason_of(error)}.")
            )
            return
        log = engine.run_log(self._on_line)
        while (command := self._next_waiting(engine)) is not None:
            if isinstance(command, Cancel):
                engine.cancel(command.job)
            else:
                engine.send(command)
        if self._stopping:
            engine.stop()
        for event in engine.events():
            self.received.emit(event)
        if isinstance(log, threading.Thread):
            log.join(1.0)

    def _next_waiting(self, engine: Engine) -> Command | None:
        """Return the next command that waited for the engine; after the last one it is in use."""
        with self._lock:
            if self._waiting:
                return self._waiting.pop(0)
            self._engine = engine
            return None

    def _on_line(self, text: str) -> None:
        if not self._stopping:
            self.received.emit(LogLine(level="debug", text=text))


LANES: tuple[Lane, ...] = ("interactive", "background", "machine")


class Runner(QObject):
    """Queues jobs, feeds the lanes, and starts a new engine after a crash or a kill.

    Signals:
        received: every event of every engine.
        job_changed: a ``Job`` in its new state.
        trust_asked: the ``TrustRequiredError`` and a function that runs the job after all.
        refused: the ``WorkbenchError`` of a project whose code cannot be asked about.
        engine_ended: the ``EngineExit`` of an engine that ended unexpectedly.
        engines_changed: an engine started, became ready or ended.
        plan_changed: there is a plan of the open project that jobs take with them.
    """

    received = Signal(object)
    job_changed = Signal(object)
    trust_asked = Signal(object, object)
    refused = Signal(object)
    engine_ended = Signal(object)
    engines_changed = Signal()
    plan_changed = Signal()

    def __init__(
        self,
        factory: EngineFactory,
        cache: Callable[[], Cache],
        trust: TrustStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._factory = factory
        self._cache = cache
        self._trust = trust
        self._ids = count(1)
        self._jobs: dict[str, Job] = {}
        self._links: dict[Lane, EngineLink] = {}
        self._ready: dict[Lane, bool] = {}
        self._leaving: list[EngineLink] = []
        self._outgrown: set[Lane] = set()
        self._finished: set[tuple[str, StageId]] = set()
        self._stopping = False
        self._planned: Planned | None = None

    def take_plan(self, planned: Planned) -> None:
        """Give this plan to the jobs of its project."""
        self._planned = planned
        self.plan_changed.emit()

    def forget_plan(self) -> None:
        """Let engines plan for jobs until the next plan is there: the last one may be outdated."""
        self._planned = None

    @property
    def planned(self) -> Planned | None:
        """The newest plan."""
        return self._planned

    def plan_of(self, opened: OpenProject) -> Plan | None:
        """Return the plan of a project; None when it is not made yet."""
        planned = self._planned
        return planned.plan if planned is not None and planned.opened == opened else None

    @property
    def running(self) -> list[Job]:
        """Running and queued jobs."""
        return [job for job in self._jobs.values() if not job.over]

    def job(self, job_id: str) -> Job | None:
        """Return a job of this session."""
        return self._jobs.get(job_id)

    def engine_state(self, lane: Lane) -> str:
        """Return "off", "starting" or "ready"."""
        if lane not in self._links:
            return "off"
        return "ready" if self._ready.get(lane) else "starting"

    def queued_stages(self) -> set[StageId]:
        """Return the stages that running and queued jobs of the open project still have to run."""
        return {
            stage
            for job in self.running
            for stage in stages_needed(job.until)
            if not job.study and not job.purpose
            if (job.id, stage) not in self._finished and stage != job.stage
        }

    def is_allowed(self, opened: OpenProject) -> bool:
        """Return whether the code of a project may run without a question."""
        try:
            demand(opened, self._trust)
        except WorkbenchError:
            return False
        return True

    def run_until(
        self, opened: OpenProject, stages: Sequence[StageId], done: Collection[StageId], purpose: Purpose = ""
    ) -> list[str]:
        """Run ``stages`` and all stages they need that are not in ``done``.

        ``purpose`` is given for another project than the open one. Trust is asked for once, before
        anything runs. Returns the ids of the new jobs.
        """
        try:
            code = demand(opened, self._trust).digest
        except TrustRequiredError as error:
            self.trust_asked.emit(error, lambda: self.run_until(opened, stages, done, purpose))
            return []
        except WorkbenchError as error:
            self.refused.emit(error)
            return []
        wanted = [stage for stage in stages if stage not in done]
        heads = {interactive_part(s) for s in wanted}
        first = _furthest([h for h in heads if h not in done])
        commands: list[str] = []
        if first:
            commands.append(self._add(first, opened, code, None, purpose))
        for stage in wanted:
            if stage in BACKGROUND:
                base = interactive_part(stage)
                after = (commands[0], base) if first and base not in done else None
                commands.append(self._add(stage, opened, code, after, purpose))
        self._feed()
        return commands

    def run_study(self, study: StudyId, opened: OpenProject, options: dict[str, JsonValue]) -> str:
        """Start or continue a study on its lane; return the id of its job.

        Returns "" if trust must be asked for first.
        """
        try:
            code = demand(opened, self._trust).digest
        except TrustRequiredError as error:
            self.trust_asked.emit(error, lambda: self.run_study(study, opened, options))
            return ""
        except WorkbenchError as error:
            self.refused.emit(error)
            return ""
        title = f"{opened.project.name}: {STUDIES_BY_ID[study].title.lower()}"
        until, lane = STUDIES_BY_ID[study].needs, STUDIES_BY_ID[study].lane
        job_id = f"j{next(self._ids)}"
        job = Job(
            job_id,
            title,
            lane,
            until,
            opened,
            study=study,
            options=options,
            plan=self.plan_of(opened),
            code=code,
        )
        self._jobs[job_id] = job
        self.job_changed.emit(job)
        self._feed()
        return job_id

    def cancel(self, job_id: str = "") -> None:
        """Cancel one job, or all of them."""
        for job in self.running:
            if job_id not in {"", job.id}:
                continue
            self._set(job, cancelled=True)
            if job.state == "waiting" or not self._links[job.lane].cancel(job.id):
                self._end_job(job.id, "cancelled")
        self._feed()

    def pause(self, job_id: str) -> None:
        """Cancel a study that is continued later."""
        job = self._jobs[job_id]
        if not job.over:
            self._set(job, paused=True)
            self.cancel(job_id)

    def warm_up(self, lane: Lane = "interactive") -> None:
        """Start an engine in advance."""
        if lane not in self._links and not self._stopping:
            self._start(lane)

    def stop(self) -> None:
        """Stop all engines and their threads. Returns when they have ended."""
        self._stopping = True
        links, self._links = list(self._links.values()), {}
        for link in links:
            link.received.disconnect()
        for link in [*links, *self._leaving]:
            link.stop()

    def _add(
        self,
        until: StageId,
        opened: OpenProject,
        code: str,
        after: tuple[str, StageId] | None,
        purpose: Purpose,
    ) -> str:
        job_id = f"j{next(self._ids)}"
        goal = STAGES_BY_ID[until].title
        title = f"{opened.project.name}: {f'{purpose}, {goal}' if purpose else f'run to {goal}'}"
        planned = self.plan_of(opened)
        job = Job(job_id, title, lane_of(until), until, opened, after, planned, code, purpose=purpose)
        self._jobs[job_id] = job
        self.job_changed.emit(job)
        return job_id

    def _feed(self) -> None:
        """Give every free lane its next job."""
        for lane in LANES:
            jobs = [job for job in self._jobs.values() if job.lane == lane]
            if any(job.state == "running" for job in jobs):
                continue
            if lane in self._outgrown:
                self._renew(lane, self._links[lane].toolchain)
            ready = (job for job in jobs if job.state == "waiting" and self._may_start(job))
            if (job := next(ready, None)) is not None:
                self._send(job)

    def _may_start(self, job: Job) -> bool:
        return job.after is None or job.after in self._finished

    def _send(self, job: Job) -> None:
        command = command_of(job, self._cache())
        try:
            encode_command(command)
        except WorkbenchError as error:
            self.received.emit(
                StageFailed(job=job.id, stage=job.until, key="", elapsed_s=0.0, infos=error.infos)
            )
            self._end_job(job.id, "failed")
            self._feed()
            return
        toolchain = job.project.toolchain
        if job.lane not in self._links:
            self._start(job.lane, toolchain)
        elif self._links[job.lane].toolchain != toolchain:
            self._renew(job.lane, toolchain)
        self._set(job, state="running", began=time.monotonic())
        self._links[job.lane].send(command)

    def _start(self, lane: Lane, toolchain: str = "") -> None:
        link = EngineLink(self._factory, toolchain, self)
        link.received.connect(lambda event: self._on_event(lane, link, event))
        self._links[lane] = link
        self._ready[lane] = False
        link.start()
        self.engines_changed.emit()

    def _renew(self, lane: Lane, toolchain: str) -> None:
        """Let a new engine of a toolchain take the place of an idle one, which ends."""
        link = self._links[lane]
        self._part_with(lane, link)
        link.send(Shutdown())
        self._start(lane, toolchain)

    def _part_with(self, lane: Lane, link: EngineLink) -> None:
        """Take an engine off its lane; its thread stays until it has ended."""
        del self._links[lane]
        self._outgrown.discard(lane)
        self._leaving.append(link)
        link.finished.connect(lambda: self._leaving.remove(link))
        link.finished.connect(link.deleteLater)

    def _on_event(self, lane: Lane, link: EngineLink, event: Event) -> None:
        if self._links.get(lane) is not link:
            return
        match event:
            case Ready():
                self._ready[lane] = True
                self.engines_changed.emit()
            case StageFinished():
                self._finished.add((event.job, event.stage))
            case Outgrown():
                self._outgrown.add(lane)
            case EngineExit():
                event = self._end_engine(lane, link, event)
            case _:
                self._follow(event)
        self.received.emit(event)
        if isinstance(event, JobFinished):
            self._end_job(event.job, event.outcome)
        if isinstance(event, StageFinished | JobFinished | Outgrown | EngineExit):
            self._feed()

    def _follow(self, event: Event) -> None:
        """Update the progress of a job, and why it failed."""
        match event:
            case StageStarted():
                self._update(event.job, stage=event.stage, progress=None, message="")
            case StageProgress():
                self._update(event.job, progress=event.fraction, message=event.message)
            case StudyProgress():
                share = event.done / event.total if event.total else None
                self._update(event.job, stage=event.study, progress=share, message=event.message)
            case StageFailed():
                self._update(event.job, message=event.infos[0].message if event.infos else "")
            case _:
                pass

    def _end_engine(self, lane: Lane, link: EngineLink, event: EngineExit) -> EngineExit:
        self._part_with(lane, link)
        running = [j for j in self._jobs.values() if j.lane == lane and j.state == "running"]
        for job in running:
            event = event.model_copy(update={"job": job.id})
            self._end_job(job.id, "cancelled" if event.expected else "crashed", event.sentence)
        if not event.expected:
            self.engine_ended.emit(event)
        if self._ready.pop(lane, False):
            self.warm_up(lane)
        self.engines_changed.emit()
        return event

    def _end_job(self, job_id: str, outcome: Any, message: str = "") -> None:
        job = self._jobs.get(job_id)
        if job is None or job.over:
            return
        why = message or (job.message if outcome == "failed" else "")
        self._set(job, state=outcome, ended=time.monotonic(), message=why, progress=None)
        for other in self.running:
            if other.after and other.after[0] == job_id and other.after not in self._finished:
                self._end_job(other.id, "cancelled", f"{job.title} was {outcome}")

    def _update(self, job_id: str, **changes: Any) -> None:
        if (job := self._jobs.get(job_id)) is not None and job.state == "running":
            self._set(job, **changes)

    def _set(self, job: Job, **changes: Any) -> None:
        changed = replace(job, **changes)
        self._jobs[job.id] = changed
        self.job_changed.emit(changed)


def _furthest(stages: list[StageId]) -> StageId | None:
    """Return the stage that comes last in the pipeline; None for none."""
    return max(stages, key=STAGE_IDS.index, default=None)
