"""Controls one study: start, pause, continue, and its result."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import JsonValue
from PySide6.QtCore import QObject, Signal

from ui.state.document import Document
from ui.state.jobs import Job
from ui.state.runner import Runner
from workbench.errors import ErrorInfo, WorkbenchError
from workbench.ids import StudyId
from workbench.pipeline.cache import Cache
from workbench.project.frozen import Frozen
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.protocol import Event, StageFailed, StudyProgress
from workbench.studies import STUDIES_BY_ID
from workbench.studies.documents import load_study, study_folder, study_key

StudyResult = TypeVar("StudyResult", bound=Frozen)


class StudyController(QObject, Generic[StudyResult]):
    """Tracks one kind of study of the open project.

    ``result`` is the result for the present configuration. If there is none, it is the result of
    an earlier configuration, and ``is_current`` is False.

    Signals:
        changed: the result changed, or the study started or ended.
    """

    changed = Signal()

    def __init__(
        self,
        study: StudyId,
        kind: type[StudyResult],
        document: Document,
        runner: Runner,
        cache: Cache,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._study, self._kind, self._document = study, kind, document
        self._runner, self._cache = runner, cache
        self._job = ""
        self._key = ""
        self._foreign: set[str] = set()
        self._failure: tuple[Project, ErrorInfo] | None = None
        self.options: dict[str, JsonValue] = {}
        self.result: StudyResult | None = None
        self.studied: OpenProject | None = None
        self.is_current = False
        runner.received.connect(self._on_event)
        runner.job_changed.connect(self._on_job_changed)
        runner.plan_changed.connect(self.changed)
        document.opened.connect(self._forget)

    @property
    def title(self) -> str:
        """The title of the study."""
        return STUDIES_BY_ID[self._study].title

    @property
    def job(self) -> Job | None:
        """The running or queued job, if any."""
        job = self._runner.job(self._job)
        return job if job is not None and not job.over else None

    @property
    def failure(self) -> ErrorInfo | None:
        """Why the last job failed; None after another edit of the project or a new job."""
        failure = self._failure
        return failure[1] if failure is not None and failure[0] == self._document.project else None

    @property
    def key(self) -> str:
        """The cache key of the result."""
        return self._key

    def look(self) -> None:
        """Read the result for the present configuration."""
        opened = self._document.opened_project
        if opened is None:
            return
        planned = self._runner.plan_of(opened)
        if planned is None:
            self.is_current = False
            return
        try:
            key = study_key(self._study, opened, self._cache, self.options, planned)
        except WorkbenchError:
            self.is_current = False
            return
        result = load_study(self._kind, study_folder(self._cache, key))
        self.is_current = result is not None
        if result is not None:
            self._key, self.result, self.studied = key, result, opened

    def start(self) -> None:
        """Start the study, or continue from its last result."""
        opened = self._document.opened_project
        if opened is not None and self.job is None:
            self._failure = None
            self._job = self._runner.run_study(self._study, opened, dict(self.options))
            self.changed.emit()

    def pause(self) -> None:
        """Stop the study and keep its result."""
        if self.job is not None:
            self._runner.pause(self._job)

    def _forget(self) -> None:
        """Reset for another project. Jobs of the former project are not shown."""
        self._foreign.update(job.id for job in self._runner.running)
        self._job, self._failure = "", None
        self.result, self.studied, self.is_current, self._key = None, None, False, ""
        self.changed.emit()

    def _on_event(self, event: Event) -> None:
        job = self._runner.job(event.job) if isinstance(event, StageFailed) else None
        if job is not None and job.study == self._study and isinstance(event, StageFailed):
            self._failure = (job.project, event.infos[0]) if event.infos else None
        if not isinstance(event, StudyProgress) or event.study != self._study:
            return
        if event.job in self._foreign:
            return
        job = self._runner.job(event.job)
        result = load_study(self._kind, study_folder(self._cache, event.key))
        if job is None or result is None:
            return
        self._job = event.job
        self.result, self.studied, self._key = result, job.opened, event.key
        self.is_current = job.project == self._document.project
        self.changed.emit()

    def _on_job_changed(self, job: Job) -> None:
        if job.study == self._study and job.id not in self._foreign:
            # A job that waited for trust is not one that ``start`` knows.
            is_new, self._job = job.id != self._job, job.id
            if job.state == "crashed":
                self._failure = job.project, ErrorInfo(message=job.message, code="engine-ended")
            if is_new or job.over:
                self.changed.emit()
