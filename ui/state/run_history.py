"""The project's run history, read and written in a worker thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal

from ui.state.document import Document
from ui.state.runner import Runner
from ui.state.session import Planned, Planner
from workbench.errors import ErrorInfo, WorkbenchError
from workbench.ids import StageId
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import Plan, plan
from workbench.project.opened import OpenProject
from workbench.protocol import Event, StageFinished

if TYPE_CHECKING:
    from workbench.history.runs import Run
    from workbench.history.store import History

_RECORDED_STAGES: tuple[StageId, ...] = ("evaluate", "lower", "verify", "run")
_Task = Callable[["History"], "History"]


class RunHistory(QThread):
    """Records every evaluated configuration. Owned by the application.

    Signals:
        changed: ``runs`` changed.
        troubled: the ``WorkbenchError`` of a history that cannot be read or written.
    """

    changed = Signal()
    troubled = Signal(object)
    _read = Signal(object)

    def __init__(self, cache: Cache, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cache = cache
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._stopping = False
        self._runner: Runner | None = None
        self._recorded: set[tuple[str, ...]] = set()
        self._foreign: set[str] = set()
        self._path: Path | None = None
        self._reported: ErrorInfo | None = None
        self.runs: tuple[Run, ...] = ()
        self._read.connect(self._take)

    def follow(self, document: Document, runner: Runner, planner: Planner) -> None:
        """Record what the engines evaluate, beside the file of the open project."""
        self._runner = runner
        document.opened.connect(partial(self._on_opened, document))
        document.state_changed.connect(lambda: self.open(document.path, is_same=True))
        runner.received.connect(self._on_event)
        planner.planned.connect(partial(self._on_planned, document))

    def open(self, project: Path | None, *, is_same: bool = False) -> None:
        """Open the history of another project file; None has no history on disk yet.

        Args:
            project: The project file; nothing happens if it is the present one.
            is_same: Whether it is the same project under a new name; its runs are kept.
        """
        if project == self._path and is_same:
            return
        self._path = project
        self._recorded.clear()

        def task(before: History) -> History:
            from workbench.history.store import History, history_path

            history = History(history_path(project) if project is not None else None)
            if is_same:
                history.adopt(before.runs())
            before.close()
            return history

        self._do(task)

    def keep(self, projects: Sequence[OpenProject], origin: str = "", planned: Plan | None = None) -> None:
        """Record the cached evaluations and simulations of some configurations.

        ``planned`` is the plan of all of them; None makes a plan for each.
        """

        def task(history: History) -> History:
            from workbench.history.runs import run_of

            for opened in projects:
                own = planned or plan(opened, self._cache)
                run = run_of(opened.project, own, self._cache, origin)
                if run is not None:
                    history.record(run)
            return history

        self._do(task)

    def stop(self) -> None:
        """Stop the thread after it has written all queued runs. Returns when it has ended."""
        self._stopping = True
        self._tasks.put(None)
        self.wait()

    def run(self) -> None:
        # Imported here, because the first paint of the window needs no history.
        from workbench.history.store import History

        history = History()
        while (task := self._tasks.get()) is not None:
            try:
                history = task(history)
                runs = tuple(history.runs())
            except WorkbenchError as error:
                self.troubled.emit(error)
                continue
            if history.problem is not None and history.problem != self._reported:
                self.troubled.emit(WorkbenchError([history.problem]))
            self._reported = history.problem
            self._read.emit(runs)
        history.close()

    def _on_planned(self, document: Document, planned: Planned) -> None:
        """Record once what was evaluated or simulated before, e.g. by the command line."""
        states = [planned.plan.of(stage) for stage in _RECORDED_STAGES]
        keys = tuple(stage.key for stage in states if stage.state == "cached")
        is_told = any(s.state == "cached" for s in states if s.id in {"evaluate", "run"})
        is_new = is_told and keys not in self._recorded
        if is_new and planned.project is document.project:
            self._recorded.add(keys)
            self.keep([planned.opened], planned=planned.plan)

    def _on_opened(self, document: Document) -> None:
        """Switch to another project. Running jobs of the former project are not recorded for it."""
        if self._runner is not None:
            self._foreign.update(job.id for job in self._runner.running)
        self.open(document.path)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, StageFinished) and event.stage in _RECORDED_STAGES and self._runner:
            job = self._runner.job(event.job)
            # Trials that the window makes by itself are no runs of the user.
            is_asked = job is not None and job.purpose != "trial of a suggestion"
            if job is not None and is_asked and job.id not in self._foreign:
                self.keep([job.opened], planned=job.plan)

    def _do(self, task: _Task) -> None:
        if self._stopping:
            return
        self._tasks.put(task)
        if not self.isRunning():
            self.start()

    def _take(self, runs: tuple[Run, ...]) -> None:
        if runs != self.runs:
            self.runs = runs
            self.changed.emit()
