"""Running, cancelling, trusting, and saying how long work went."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from ui.jobs import Job, duration, goal
from ui.live import LiveMode
from ui.main_window import MainWindow
from ui.notices import Action
from ui.panel import PanelContext
from workbench.errors import ErrorInfo, TrustRequiredError, WorkbenchError, failure
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.project.trust import TrustStore, code_used
from workbench.protocol import EngineExit, Event, StageFailed
from workbench.targets import target_of

EVERYTHING = ("evaluate", "verify", "package")
NOTABLE_S = 10.0
RESULT_PANELS = {
    "export": "graph", "prepare": "graph", "convert": "graph", "import_model": "modules",
    "calibrate": "ranges", "evaluate": "numerics", "verify": "numerics", "lower": "cost",
    "run": "simulator", "package": "cost",
}  # fmt: skip


class RunVerbs(QObject):
    """What the Run menu and the pipeline bar do."""

    def __init__(self, context: PanelContext, trust: TrustStore, window: MainWindow) -> None:
        super().__init__(window)
        self._context, self._trust, self._window = context, trust, window
        self._asked: list[Callable[[], object]] = []
        self.live = LiveMode(context, window)
        runner = context.runner
        runner.trust_asked.connect(self._on_trust_asked)
        runner.engine_lost.connect(self._on_engine_lost)
        runner.job_changed.connect(self._on_job_changed)
        runner.received.connect(self._on_event)

    def run_to(self, stage_id: str) -> None:
        """Run everything up to a stage; "" runs everything there is."""
        document, session = self._context.document, self._context.session
        project = document.project
        if project is None:
            return
        try:
            offered = target_of(project.target.id).stages
        except WorkbenchError as error:
            self._context.notices.error(error)
            return
        stages = [stage_id] if stage_id else [s for s in EVERYTHING if s in offered]
        views = {view.id: view for view in session.stages()}
        blocked = [s for s in stages if views[s].state in {"blocked", "unavailable"}]
        if blocked:
            view = views[blocked[0]]
            self._context.notices.error(
                failure(f"{view.title} cannot run: {view.reason}", "See Problems for the place.")
            )
            return
        done = {view.id for view in session.stages() if view.state == "cached"}
        if all(stage in done for stage in stages):
            title = STAGES_BY_ID[stages[-1]].title
            self._context.notices.info(f"Everything up to {title} is up to date.")
            return
        self._context.runner.run_until(project, document.folder, stages, done)

    def cancel(self) -> None:
        """Stop all work."""
        self._context.runner.cancel()

    def show_result(self, stage_id: str) -> None:
        """Bring the panel to the front that shows what a stage has made."""
        panel = self._window.reveal(RESULT_PANELS[stage_id])
        if (show := getattr(panel, "show_level", None)) is not None:
            show(stage_id)

    def _show_work(self, job: Job) -> None:
        if job.study:
            self._window.reveal(job.study)
        else:
            self.show_result(job.until)

    def _forget_asked(self) -> None:
        self._asked = []

    def _on_trust_asked(self, error: TrustRequiredError, run: Callable[[], object]) -> None:
        lines = "\n".join(f"\u2022 {info.message}" for info in error.infos)

        # One question is for all that one action asks for.
        if not self._asked:
            QTimer.singleShot(0, self, self._forget_asked)
        self._asked.append(run)
        asked = self._asked

        def allow() -> None:
            document = self._context.document
            if document.project is not None:
                uses = code_used(document.project, document.folder)
                self._trust.grant(uses, document.title)
                for each in asked:
                    each()

        self._context.notices.question(
            "This project runs Python code.",
            f"{lines}\nAllow it if you know where it comes from. "
            "You will be asked again when the code changes.",
            [Action("Allow and run", allow), Action("Cancel", lambda: None)],
            blocking=True,
        )

    def _on_event(self, event: Event) -> None:
        if isinstance(event, StageFailed):
            self._context.notices.error(WorkbenchError(event.infos))

    def _on_engine_lost(self, event: EngineExit) -> None:
        info = ErrorInfo(
            message=event.sentence,
            hint="The project and all finished results are safe. Run again to go on.",
            details=self._context.log.last_lines(40),
        )
        self._context.notices.error(WorkbenchError([info]))

    def _on_job_changed(self, job: Job) -> None:
        if not job.over or job.elapsed_s < NOTABLE_S:
            return
        if job.state == "done":
            show = Action("Show", lambda: self._show_work(job))
            self._context.notices.success(
                f"{goal(job)} is done.", f"It took {duration(job.elapsed_s)}.", [show]
            )
