"""Finding what the compiler refuses, and keeping it off the NPU."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject

from ui.jobs import Job
from ui.notices import Action
from ui.panel import PanelContext
from ui.study_desk import StudyDesk
from workbench.project import edits
from workbench.project.model import Project
from workbench.studies.documents import Blame, Culprit

_SHOWN = 5


class BlameVerbs(QObject):
    """Starts the search, and offers what it has found as one undoable edit."""

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._desk = StudyDesk(
            "blame", Blame, context.document, context.runner, context.session.cache, self
        )
        context.runner.job_changed.connect(self._on_job_changed)

    def find(self) -> None:
        """Look for what the compiler refuses in the present configuration."""
        self._desk.start()

    def _on_job_changed(self, job: Job) -> None:
        found = self._desk.found
        if job.study != "blame" or job.state != "done" or found is None:
            return
        if not found.reason:
            self._context.notices.info("The compiler takes the program as it is.")
            return
        names = ", ".join(culprit.match for culprit in found.culprits[:_SHOWN])
        more = len(found.culprits) - _SHOWN
        names += f" and {more} more" if more > 0 else ""
        self._context.notices.question(
            f"The compiler refuses {names}.", found.reason,
            [
                Action("Keep it off the NPU", partial(self._keep_off, found.culprits)),
                Action("Leave it", lambda: None),
            ],
        )  # fmt: skip

    def _keep_off(self, culprits: tuple[Culprit, ...]) -> None:
        def edit(project: Project) -> Project:
            for culprit in culprits:
                project = edits.assign(project, culprit.kind, culprit.match, "cpu")
            return project

        names = ", ".join(culprit.match for culprit in culprits[:_SHOWN])
        self._context.document.apply(f"Keep {names} off the NPU", edit)
