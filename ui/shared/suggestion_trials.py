"""Tries suggestions in the engines before they are offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ui.shared.panel import PanelContext
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.pipeline.plan import plan
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.protocol import Event, StageFailed
from workbench.results import EvaluateResult, LowerResult, load_result
from workbench.suggestions import Figures, Suggestion, candidates, enough_db, further, is_better, tried

if TYPE_CHECKING:
    from workbench.pipeline.cache import Cache

_STAGES: list[StageId] = ["evaluate", "lower"]


class SuggestionTrials(QObject):
    """Compiles the project with each suggestion that is to be tried, one after the other.

    Nothing is tried while the project's code is not allowed to run: opening a project asks nothing.

    Signals:
        changed: a trial ended.
    """

    changed = Signal()

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._started: list[Project] = []
        self._failed: list[Project] = []
        self._pending: list[Project] = []
        context.runner.received.connect(self._on_event)
        context.runner.job_changed.connect(lambda _job: self._on_job_changed())
        context.document.opened.connect(self._forget)

    @property
    def is_trying(self) -> bool:
        """Whether a trial is running."""
        return bool(self._pending)

    def offered(
        self, suggestions: Sequence[Suggestion], opened: OpenProject, before: Figures | None
    ) -> tuple[Suggestion, ...]:
        """Return the suggestions, those to be tried with their figures; without the others.

        Args:
            suggestions: What is suggested.
            opened: The compiled project.
            before: Its figures; None if they are not known.
        """
        self._pending = []
        shown = (self._tried(one, opened, before) if one.improves else [one] for one in suggestions)
        return tuple(one for several in shown for one in several)

    def _tried(self, suggestion: Suggestion, opened: OpenProject, before: Figures | None) -> list[Suggestion]:
        """Return a suggestion with its figures, and those that its trial gives.

        None while it is tried, or if it gains nothing; without figures where the project's code
        must not run.
        """
        best: Suggestion | None = None
        more: list[Suggestion] = []
        limit = enough_db(opened.project)
        for candidate in candidates(suggestion) if before is not None else ():
            assert candidate.edit is not None
            assert before is not None
            after = opened.edited(candidate.edit)
            figures = self._figures(after)
            if figures is None:
                if after.project in self._failed:
                    continue
                if not self._context.runner.is_allowed(after):
                    return [suggestion]
                self._start(after)
                return []
            measured = tried(candidate, before, figures)
            if measured is not None and (best is None or is_better(measured, best)):
                best = measured
            if (another := further(candidate, before, figures)) is not None:
                more += self._tried(another, opened, before)
            if figures.worst_db(suggestion.output) >= limit:
                break
        return [best, *more] if best is not None else more

    def _figures(self, opened: OpenProject) -> Figures | None:
        """Return the figures of a project from the cache; None if it was not compiled."""
        cache: Cache = self._context.session.cache
        try:
            planned = plan(opened, cache)
            stages = [planned.of(stage) for stage in _STAGES]
            if any(stage.state != "cached" for stage in stages):
                return None
            evaluated, lowered = (cache.folder(stage.key) for stage in stages)
            return Figures(load_result(EvaluateResult, evaluated), load_result(LowerResult, lowered))
        except (OSError, WorkbenchError):
            return None

    def _start(self, opened: OpenProject) -> None:
        """Compile a project in the background, once."""
        self._pending.append(opened.project)
        if opened.project not in self._started:
            self._started.append(opened.project)
            self._context.runner.run_until(opened, _STAGES, set(), "trial of a suggestion")

    def _on_event(self, event: Event) -> None:
        if isinstance(event, StageFailed):
            job = self._context.runner.job(event.job)
            if job is not None and job.project in self._pending:
                self._failed.append(job.project)

    def _on_job_changed(self) -> None:
        running = [job.project for job in self._context.runner.running]
        if self._pending and not any(project in running for project in self._pending):
            self._pending = []
            self.changed.emit()

    def _forget(self) -> None:
        self._started, self._failed, self._pending = [], [], []
