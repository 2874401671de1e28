"""Stage states, derived from the plan and the engines' events.

A result is current only if its key is the plan's key. Results of an earlier configuration are
kept separately and marked as outdated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QMutex, QObject, QThread, QWaitCondition, Signal

from ui.state.results import ResultCache
from workbench.errors import Cancelled, ErrorInfo, WorkbenchError
from workbench.files import watching_digests
from workbench.ids import StageId, is_stage
from workbench.pipeline.cache import Cache
from workbench.pipeline.keys import Digests
from workbench.pipeline.plan import Plan, PlannedStage, plan
from workbench.pipeline.stages import STAGES, STAGES_BY_ID, stages_needed
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.project.sources import missing
from workbench.protocol import (
    EngineExit,
    Event,
    JobFinished,
    StageFailed,
    StageFinished,
    StageProgress,
    StageSkipped,
    StageStarted,
)

ViewState = Literal["unknown", "stale", "cached", "queued", "running", "failed", "blocked", "unavailable"]


@dataclass(frozen=True)
class StageView:
    """The shown state of one stage. ``fraction`` is None while running if it is unknown.

    ``differs`` says which limits a finished program breaks, ``low`` why its accuracy is low; "" if
    nothing does.
    """

    id: StageId
    title: str
    state: ViewState = "unknown"
    key: str = ""
    reason: str = ""
    elapsed_s: float | None = None
    fraction: float | None = None
    message: str = ""
    infos: tuple[ErrorInfo, ...] = ()
    differs: str = ""
    low: str = ""


@dataclass(frozen=True)
class _Running:
    job: str
    key: str
    since: float
    fraction: float | None = None
    message: str = ""


class Session(QObject):
    """Tracks finished, running and missing stages.

    Signals:
        stage_changed: id of a stage whose view changed, including its progress.
        planned_anew: there is a new plan.
        results_changed: the set of current results changed.
        machine_changed: the simulators or runners of this machine changed; plans are outdated.
    """

    stage_changed = Signal(str)
    planned_anew = Signal()
    results_changed = Signal()
    machine_changed = Signal()

    def __init__(self, cache: Cache, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.cache = cache
        self.parsed = ResultCache()
        self._plan: dict[StageId, PlannedStage] = {}
        self._done: set[str] = set()
        self._elapsed: dict[str, float] = {}
        self._failed: dict[str, tuple[ErrorInfo, ...]] = {}
        self._running: dict[StageId, _Running] = {}
        self._queued: set[StageId] = set()
        self._former: dict[StageId, Path] = {}

    @property
    def planned(self) -> bool:
        """Whether there is a plan."""
        return bool(self._plan)

    def stages(self) -> list[StageView]:
        """Return every stage in order."""
        return [self.stage(stage.id) for stage in STAGES]

    def stage(self, stage_id: StageId) -> StageView:
        """Return the view of one stage."""
        planned = self._plan.get(stage_id)
        view = StageView(stage_id, STAGES_BY_ID[stage_id].title)
        running = self._running.get(stage_id)
        if running is not None:
            elapsed = time.monotonic() - running.since
            other = planned is not None and planned.key != running.key
            return replace(
                view,
                state="running",
                key=running.key,
                elapsed_s=elapsed,
                fraction=running.fraction,
                message=running.message,
                reason="for the former rules" if other else "",
            )
        if planned is None:
            return view
        view = replace(view, key=planned.key, reason=planned.reason)
        if planned.state in {"blocked", "unavailable"}:
            return replace(view, state=planned.state)
        if planned.key in self._done:
            return replace(view, state="cached", elapsed_s=self._elapsed.get(planned.key))
        if planned.key in self._failed:
            infos = self._failed[planned.key]
            elapsed_s = self._elapsed.get(planned.key)
            return replace(view, state="failed", infos=infos, elapsed_s=elapsed_s)
        return replace(view, state="queued" if stage_id in self._queued else "stale")

    def with_cause(self, stage_id: StageId) -> StageView:
        """Return the view of a stage; that of the earlier one whose failure keeps it from running."""
        view = self.stage(stage_id)
        if view.state != "stale":
            return view
        earlier = (self.stage(needed) for needed in stages_needed(stage_id))
        failed = next((other for other in earlier if other.state == "failed"), None)
        if failed is None:
            return view
        return replace(view, state="failed", title=failed.title, infos=failed.infos)

    def planned_key(self, stage_id: StageId) -> str:
        """Return the key that the plan gives a stage, whatever runs now; "" without one."""
        planned = self._plan.get(stage_id)
        return planned.key if planned is not None else ""

    def result(self, stage_id: StageId) -> Path | None:
        """Return the folder of the current result; None if there is none."""
        planned = self._plan.get(stage_id)
        if planned is None or not planned.key or planned.key not in self._done:
            return None
        return self.cache.folder(planned.key)

    def former(self, stage_id: StageId) -> Path | None:
        """Return the folder of the last result, current or outdated; None if there is none."""
        return self.result(stage_id) or self._former.get(stage_id)

    def set_plan(self, plan: Plan) -> None:
        """Set a new plan. Results that are no longer current become outdated."""
        before, views = self._current(), self._with_causes()
        for stage_id, planned in self._plan.items():
            if planned.key in self._done:
                self._former[stage_id] = self.cache.folder(planned.key)
        self._plan = {stage.id: stage for stage in plan.stages}
        for stage in plan.stages:
            if stage.state == "cached":
                self._done.add(stage.key)
            elif not any(stage.key == r.key for r in self._running.values()):
                self._done.discard(stage.key)
        self._tell_changed(before, views)
        self.planned_anew.emit()

    def forget(self) -> None:
        """Reset for another project."""
        before, views = self._current(), self._with_causes()
        self._plan, self._former = {}, {}
        self._failed.clear()
        self._queued.clear()
        self._tell_changed(before, views)

    def set_queued(self, stage_ids: set[StageId]) -> None:
        """Set the stages that wait for an engine."""
        changed = self._queued ^ stage_ids
        self._queued = set(stage_ids)
        for stage_id in changed:
            self.stage_changed.emit(stage_id)

    def receive(self, event: Event) -> None:
        """Handle one event of an engine."""
        match event:
            case StageStarted():
                started = _Running(event.job, event.key, time.monotonic())
                self._running[event.stage] = started
                self._failed.pop(event.key, None)
                self._queued.discard(event.stage)
            case StageProgress() if event.stage in self._running:
                self._running[event.stage] = replace(
                    self._running[event.stage], fraction=event.fraction, message=event.message
                )
            case StageFinished():
                self._finish(event)
                return
            case StageFailed() if is_stage(event.stage):
                self._running.pop(event.stage, None)
                self._elapsed[event.key] = event.elapsed_s
                self._failed[event.key] = event.infos
                for stage in STAGES:
                    if event.stage in stages_needed(stage.id)[:-1]:
                        self.stage_changed.emit(stage.id)
            case StageSkipped():
                self._queued.discard(event.stage)
            case JobFinished() | EngineExit():
                self._end_job(event)
                return
            case _:
                return
        self.stage_changed.emit(event.stage)

    def _finish(self, event: StageFinished) -> None:
        before = self._current()
        self._running.pop(event.stage, None)
        self._queued.discard(event.stage)
        self._done.add(event.key)
        self._failed.pop(event.key, None)
        if not event.cached:
            self._elapsed[event.key] = event.elapsed_s
        self.stage_changed.emit(event.stage)
        if self._current() != before:
            self.results_changed.emit()

    def _end_job(self, event: JobFinished | EngineExit) -> None:
        ended = {s: r for s, r in self._running.items() if r.job == event.job}
        for stage_id, running in ended.items():
            del self._running[stage_id]
            if isinstance(event, EngineExit) and not event.expected:
                self._failed[running.key] = (event.problem(),)
            self.stage_changed.emit(stage_id)

    def _with_causes(self) -> list[StageView]:
        return [self.with_cause(stage.id) for stage in STAGES]

    def _current(self) -> set[str]:
        return {stage.key for stage in self._plan.values() if stage.key in self._done}

    def _tell_changed(self, before: set[str], views: Sequence[StageView]) -> None:
        """Tell what is not as it was, from the keys of current results and the stages before."""
        for old, new in zip(views, self._with_causes(), strict=True):
            if new != old:
                self.stage_changed.emit(new.id)
        if self._current() != before:
            self.results_changed.emit()


@dataclass(frozen=True)
class Planned:
    """The plan of one value of the project, and its missing files."""

    opened: OpenProject
    plan: Plan
    missing: tuple[ErrorInfo, ...] = ()

    @property
    def project(self) -> Project:
        """The project that was planned."""
        return self.opened.project


class Planner(QThread):
    """Makes plans in a worker thread, newest request first. Owned by the application.

    Signals:
        planned: a ``Planned``.
        reading: what is read to plan, with its share; "" when it has been read.
    """

    planned = Signal(object)
    reading = Signal(str)

    def __init__(self, cache: Cache, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cache = cache
        self._mutex = QMutex()
        self._wake = QWaitCondition()
        self._request: tuple[OpenProject, Planned | None] | None = None
        self._stopping = False

    def request(self, opened: OpenProject) -> None:
        """Request a plan. Replaces a request that has not started yet."""
        self._ask(opened, None)

    def refresh(self, planned: Planned) -> None:
        """Look up again what is in the cache; plan anew only where files have changed.

        A request that has not begun yet goes first.
        """
        if self._request is None:
            self._ask(planned.opened, planned)

    def _ask(self, opened: OpenProject, known: Planned | None) -> None:
        self._mutex.lock()
        self._request = (opened, known)
        self._wake.wakeOne()
        self._mutex.unlock()
        if not self.isRunning() and not self._stopping:
            self.start()

    def stop(self) -> None:
        """Stop the thread. Returns when it has ended."""
        self._mutex.lock()
        self._stopping = True
        self._wake.wakeOne()
        self._mutex.unlock()
        self.wait()

    def run(self) -> None:
        digests = Digests(self._cache.root / "digests.json")
        while (request := self._next()) is not None:
            opened, known = request
            if known is not None and known.plan.is_valid:
                self.planned.emit(replace(known, plan=known.plan.looked_up(self._cache)))
                continue
            try:
                with watching_digests(partial(self._on_digest, opened.folder)):
                    plan_now = plan(opened, self._cache, digests)
            except Cancelled:
                continue
            finally:
                self.reading.emit("")
            error = missing(opened)
            infos = error.infos if isinstance(error, WorkbenchError) else ()
            self.planned.emit(Planned(opened, plan_now, infos))

    def _on_digest(self, folder: Path, path: Path, done: int, size: int) -> None:
        """Report the digest of a large file; end it when the window closes or opens another."""
        self.reading.emit(f"Reading {path.name} {100 * (done / max(size, 1)):.0f} %")
        request = self._request
        if self._stopping or (request is not None and request[0].folder != folder):
            raise Cancelled

    def _next(self) -> tuple[OpenProject, Planned | None] | None:
        self._mutex.lock()
        while self._request is None and not self._stopping:
            self._wake.wait(self._mutex)
        request, self._request = self._request, None
        stopping = self._stopping
        self._mutex.unlock()
        return None if stopping else request
