"""Runs that the window starts by itself: after every edit, and compiling ahead of the user."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox

from ui.shared.panel import PanelContext
from ui.shell.main_window import MainWindow
from ui.state.jobs import Job
from workbench.ids import StageId
from workbench.targets import has_stage

GOALS: tuple[StageId, ...] = ("evaluate", "lower")
# Time without jobs before lowering starts by itself [ms]: a user who goes on at once comes first.
QUIET_MS = 1000
_TIP = "Evaluate and compile after every edit, once the project was run"


class LiveMode(QObject):
    """Evaluates and compiles the open project after every edit.

    A configuration is run once. After a failure or a cancel the user starts it again. A project is
    followed after its first evaluation: opening one runs nothing, unless the user switches on.
    """

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._context = context
        self._jobs: list[str] = []
        self._tried = ""
        self._is_asked = False
        self.action: QAction = window.actions_by_id["live"]
        self.action.setCheckable(True)
        self.action.setToolTip(_TIP)
        self.action.setChecked(context.settings.live)
        self.action.toggled.connect(self._on_toggled)
        self.switch = QCheckBox("Evaluate automatically", window)
        self.switch.setToolTip(_TIP)
        self.switch.setChecked(self.action.isChecked())
        self.switch.clicked.connect(self._on_clicked)
        window.pipeline.add_switch(self.switch)
        context.session.planned_anew.connect(self._follow)

    def _on_clicked(self, on: bool) -> None:
        self.action.setChecked(on)

    def _on_toggled(self, on: bool) -> None:
        self.switch.setChecked(on)
        self._context.settings.live = on
        self._tried, self._is_asked = "", on
        if on:
            self._follow()
        else:
            self._stop()

    def _follow(self) -> None:
        """Run the present configuration unless it is finished, running or cannot run."""
        context = self._context
        opened = context.document.opened_project
        if not self.action.isChecked() or opened is None:
            return
        known = (context.session.result(g) or context.session.former(g) for g in GOALS)
        if not self._is_asked and not any(known):
            return
        views = [context.session.stage(g) for g in GOALS if has_stage(opened.project, g)]
        if any(job.project != opened.project for job in self._running()):
            self._stop()
        due = [view for view in views if view.state in {"stale", "queued", "running"}]
        keys = " ".join(context.session.planned_key(view.id) for view in views)
        if not due or not keys.strip() or keys == self._tried:
            return
        self._tried = keys
        goals, done = [view.id for view in due], context.finished_stages()
        self._jobs = context.runner.run_until(opened, goals, done)

    def _running(self) -> list[Job]:
        jobs = (self._context.runner.job(job) for job in self._jobs)
        return [job for job in jobs if job is not None and not job.over]

    def _stop(self) -> None:
        for job in self._running():
            self._context.runner.cancel(job.id)


class LowerAhead(QObject):
    """Lowers the open project in the background once the user has evaluated it.

    Starts when no job runs and ends with the next edit or when a job needs its engine for something
    else, so that a later run finds the stage done and nothing waits for it. A failure stays in the
    stage bar and in Problems, without a message: nobody asked for the run.
    """

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._own: set[str] = set()
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(QUIET_MS)
        self._quiet.timeout.connect(self._start)
        context.runner.job_changed.connect(self._on_job_changed)
        context.session.planned_anew.connect(self._on_planned)

    def is_own(self, job_id: str) -> bool:
        """Return whether this object started the job."""
        return job_id in self._own

    def _on_job_changed(self, job: Job) -> None:
        self._quiet.stop()
        if job.state == "waiting" and not self.is_own(job.id):
            self._make_way(job)
        if job.state == "done" and job.until == "evaluate" and not job.study:
            self._quiet.start()

    def _make_way(self, job: Job) -> None:
        """Cancel the own job if it delays another one that does not use its result."""
        for own in self._running():
            uses_result = not job.study and job.project == own.project
            if own.lane == job.lane and not uses_result:
                self._context.runner.cancel(own.id)

    def _on_planned(self) -> None:
        """Cancel what was lowered for another configuration."""
        for own in self._running():
            if own.project != self._context.document.project:
                self._context.runner.cancel(own.id)

    def _running(self) -> list[Job]:
        return [job for job in self._context.runner.running if self.is_own(job.id)]

    def _start(self) -> None:
        context, session = self._context, self._context.session
        opened = context.document.opened_project
        if opened is None or not context.settings.lower_ahead or context.runner.running:
            return
        done = context.finished_stages()
        if not has_stage(opened.project, "lower") or "evaluate" not in done:
            return
        if session.stage("lower").state != "stale":
            return
        jobs = context.runner.run_until(opened, ["lower"], done)
        self._own.update(jobs)
