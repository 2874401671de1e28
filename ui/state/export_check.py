"""Tries whether the model of a project that does not exist yet can be exported."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from ui.state.runner import Runner
from workbench.errors import TrustRequiredError, WorkbenchError
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.project.trust import TrustStore, demand
from workbench.protocol import Event, JobFinished, StageFailed

_SETTLE_MS = 600
ASKS = "The export is checked when the project runs, after you have allowed the model's code."


class ExportCheck(QObject):
    """Exports a draft in the engine shortly after its last change.

    Code that is not trusted is not run.

    Signals:
        told: a sentence, and whether the export succeeded; None while it runs or is not tried.
    """

    told = Signal(str, object)

    def __init__(self, runner: Runner, trust: TrustStore, parent: QObject) -> None:
        super().__init__(parent)
        self._runner, self._trust = runner, trust
        self._draft: OpenProject | None = None
        self._tried: Project | None = None
        self._jobs: list[str] = []
        self._soon = QTimer(self, interval=_SETTLE_MS, singleShot=True)
        self._soon.timeout.connect(self._start)
        runner.received.connect(self._on_event)

    def check(self, draft: OpenProject | None) -> None:
        """Check a draft; None is a draft that is not complete."""
        self._draft = draft
        if draft is None:
            self._tried = None
            self.told.emit("", None)
        elif self._tried is None or _decisive(self._tried) != _decisive(draft.project):
            self._soon.start()

    def stop(self) -> None:
        """Stop the running check."""
        self._soon.stop()
        self._draft = self._tried = None
        for job_id in self._jobs:
            job = self._runner.job(job_id)
            if job is not None and not job.over:
                self._runner.cancel(job_id)

    def _start(self) -> None:
        draft = self._draft
        if draft is None:
            return
        self._tried = draft.project
        try:
            demand(draft, self._trust)
        except TrustRequiredError:
            self.told.emit(ASKS, None)
            return
        except WorkbenchError as error:
            self.told.emit(error.infos[0].message, False)
            return
        self.told.emit("Checking the export\u2026", None)
        self._jobs += self._runner.run_until(draft, ["export"], set(), "check of a new project")

    def _on_event(self, event: Event) -> None:
        if self._tried is None or not self._jobs:
            return
        match event:
            case StageFailed() if event.job == self._jobs[-1] and event.infos:
                info = event.infos[0]
                self.told.emit(f"{info.message} {info.hint}".strip(), False)
            case JobFinished() if event.job == self._jobs[-1] and event.outcome == "done":
                self.told.emit("The model exports.", True)
            case _:
                pass


def _decisive(project: Project) -> object:
    """Return what the export depends on."""
    return project.model
