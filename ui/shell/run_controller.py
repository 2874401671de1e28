"""Runs and cancels stages, asks for trust, and reports finished jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, QTimer, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QLineEdit, QPlainTextEdit, QTextEdit

from ui.features.trust_dialog import TrustDialog, question_text
from ui.shared.file_dialogs import ask_for_output_folder, ask_to_save
from ui.shared.panel import PanelContext, PanelId
from ui.shared.study_controller import StudyController
from ui.shell.auto_evaluate import LiveMode, LowerAhead
from ui.shell.main_window import MainWindow
from ui.state.jobs import Job, duration, goal
from ui.state.notices import Action
from workbench.errors import TrustRequiredError, WorkbenchError, failure, not_written
from workbench.ids import StageId, StudyId
from workbench.pipeline.stages import STAGES_BY_ID, stages_needed
from workbench.project import edits
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.project.trust import TrustStore
from workbench.protocol import EngineExit, Event, StageFailed
from workbench.studies.documents import Blame, Culprit
from workbench.targets import has_stage, target_of

if TYPE_CHECKING:
    from workbench.analysis.answers import Answers

EVERYTHING: tuple[StageId, ...] = ("evaluate", "verify", "run", "package")
NOTABLE_S = 10.0
RESULT_PANELS: dict[StageId, PanelId] = {
    "export": "graph",
    "prepare": "graph",
    "convert": "graph",
    "import_model": "modules",
    "calibrate": "ranges",
    "evaluate": "accuracy",
    "verify": "accuracy",
    "lower": "cost",
    "run": "simulator",
    "package": "deliverables",
}
STUDY_PANELS: dict[StudyId, PanelId] = {
    "sensitivity": "sensitivity",
    "search": "search",
    "sweep": "devices",
    "matrix": "devices",
    "placement": "devices",
    "budget": "memory",
    "tflite": "tflite",
    "sample": "sample",
    "training": "training",
    "runner": "simulator",
    "blame": "problems",
}


class RunController(QObject):
    """Implements the Run menu and the pipeline bar."""

    def __init__(self, context: PanelContext, trust: TrustStore, window: MainWindow) -> None:
        super().__init__(window)
        self._context, self._trust, self._window = context, trust, window
        self._asked: list[Callable[[], object]] = []
        self.live = LiveMode(context, window)
        self.ahead = LowerAhead(context, self)
        # Where the user was when all was run, until the outcome is shown; None without such a run.
        self._shown_from: tuple[object, ...] | None = None
        self._began = 0.0
        # The notices of stages that failed.
        self._failures: dict[str, int] = {}
        context.session.stage_changed.connect(self._on_stage_changed)
        runner = context.runner
        runner.trust_asked.connect(self._on_trust_asked)
        runner.refused.connect(context.notices.error)
        runner.engine_ended.connect(self._on_engine_ended)
        runner.job_changed.connect(self._on_job_changed)
        runner.received.connect(self._on_event)

    def run_to(self, stage_id: StageId | Literal[""]) -> None:
        """Run all stages up to ``stage_id``; "" runs all stages."""
        opened, session = self._context.document.opened_project, self._context.session
        if opened is None:
            return
        try:
            offered = target_of(opened.project.target.id).stages
        except WorkbenchError as error:
            self._context.notices.error(error)
            return
        stages = [stage_id] if stage_id else [s for s in EVERYTHING if s in offered]
        views = {view.id: view for view in session.stages()}
        blocked = [s for s in stages if views[s].state in {"blocked", "unavailable"}]
        # An edit that is not planned yet may have removed the reason; if not, the engine tells it.
        if blocked and self._context.is_planned():
            view = views[blocked[0]]
            self._context.notices.error(
                failure(
                    f"{view.title} cannot run: {view.reason}",
                    "See Problems for details.",
                    code="stage-blocked",
                )
            )
            return
        done = self._context.finished_stages()
        if all(stage in done for stage in stages):
            title = STAGES_BY_ID[stages[-1]].title
            self._context.notices.info(f"All stages up to {title} are up to date.")
            return
        under_way = self._under_way(opened)
        stages = [stage for stage in stages if stage not in under_way]
        if not set(stages) - set(done):
            self._context.notices.info("Already running or queued. The panel Jobs shows how far it is.")
            return
        self._shown_from = self._place() if not stage_id else None
        self._began = time.monotonic()
        # Errors of the former run are solved, or come again.
        self._context.notices.close_errors()
        self._context.runner.run_until(opened, stages, done)

    def _under_way(self, opened: OpenProject) -> set[StageId]:
        """Return the stages that somebody asked for, of exactly this project, and that are not over."""
        jobs = [
            job
            for job in self._context.runner.running
            if job.opened == opened and not (job.study or job.purpose or job.cancelled)
        ]
        return {stage for job in jobs if not self.is_unasked(job) for stage in stages_needed(job.until)}

    def cancel(self) -> None:
        """Cancel all jobs."""
        self._context.runner.cancel()

    def show_result(self, stage_id: StageId) -> None:
        """Show the panel with the result of a stage."""
        panel = self._window.reveal(RESULT_PANELS[stage_id])
        if (show := getattr(panel, "show_level", None)) is not None:
            show(stage_id)

    def _show_work(self, job: Job, *, is_of_whole: bool) -> None:
        if is_of_whole:
            self._window.reveal("outcome")
        elif job.study:
            self._window.reveal(STUDY_PANELS[job.study])
        else:
            self.show_result(job.until)

    def _forget_asked(self) -> None:
        self._asked = []

    def _on_trust_asked(self, error: TrustRequiredError, run: Callable[[], object]) -> None:
        # One question covers all trust requests of one action.
        if not self._asked:
            QTimer.singleShot(0, self, self._forget_asked)
        self._asked.append(run)
        asked, code = self._asked, error.code
        changes = self._trust.changes(code)

        def allow() -> None:
            # What was shown is allowed; a file that has changed since is asked for again.
            try:
                self._trust.grant(code, self._context.document.title)
            except WorkbenchError as refused:
                self._context.notices.error(refused)
                return
            for request in asked:
                request()

        self._context.notices.question(
            "This project runs Python code.",
            f"{question_text(code, changes)}\nAllow it only if you trust its source. The question is asked "
            "again when the code changes.",
            [
                Action("Allow and run", allow),
                Action(
                    "View code\u2026",
                    lambda: TrustDialog(code, changes, allow, self._window).open(),
                    is_default=True,
                ),
                Action("Cancel", lambda: None),
            ],
            blocking=True,
        )

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, StageFailed):
            return
        job = self._context.runner.job(event.job)
        # The dialog of a new project shows its problems itself.
        if job is None or not (self.is_unasked(job) or job.purpose == "check of a new project"):
            self._failures[event.stage] = self._context.notices.error(WorkbenchError(event.infos))

    def _on_stage_changed(self, stage: StageId) -> None:
        """Close the notice of a failure that no longer is: its cause was changed, or it runs again."""
        if stage in self._failures and self._context.session.stage(stage).state != "failed":
            self._context.notices.close(self._failures.pop(stage))

    def is_unasked(self, job: Job) -> bool:
        """Return whether the window started a job that nobody asked for."""
        return self.ahead.is_own(job.id) or job.purpose == "trial of a suggestion"

    def _on_engine_ended(self, event: EngineExit) -> None:
        problem = event.problem(details=self._context.log.last_lines(40))
        self._context.notices.error(WorkbenchError([problem]))

    def _place(self) -> tuple[object, ...]:
        """Return what changes when the user goes elsewhere: panels in view, selection, edits."""
        shown = frozenset(name for name, dock in self._window.docks.items() if dock.is_in_front)
        return shown, self._context.selection.value, self._context.document.undo_stack.index()

    def _show_outcome(self, job: Job) -> None:
        """Show the outcome after a run of all stages, unless the user went elsewhere or types."""
        if self._shown_from is None or job.study or not job.over or self.is_unasked(job):
            return
        if job.state != "done":
            self._shown_from = None
        elif all(self.is_unasked(other) for other in self._context.runner.running):
            if self._place() == self._shown_from and not is_typing():
                self._window.reveal("outcome")
            self._shown_from = None

    def _on_job_changed(self, job: Job) -> None:
        is_of_whole = self._shown_from is not None and not job.study and not job.purpose
        self._show_outcome(job)
        if job.state != "done" or self.is_unasked(job):
            return
        title, seconds = _work(job), job.elapsed_s
        if is_of_whole:
            # One notice for a run of all stages, after its last job.
            title, seconds = "Run", time.monotonic() - self._began
        if seconds >= NOTABLE_S and not (is_of_whole and self._shown_from is not None):
            self._context.notices.success(
                f"{title} finished.",
                f"Duration: {duration(seconds)}.",
                [Action("Show", partial(self._show_work, job, is_of_whole=is_of_whole))],
            )


def _work(job: Job) -> str:
    return f"Preview: {goal(job)}" if job.purpose == "preview" else goal(job)


class DeliverablesController(QObject):
    """Exports deliverables and the report of a run.

    ``run_to`` runs up to a stage; ``show_program`` shows a .pte.
    """

    def __init__(
        self,
        context: PanelContext,
        window: MainWindow,
        run_to: Callable[[StageId], None],
        show_program: Callable[[Path], None],
    ) -> None:
        super().__init__(window)
        self._context, self._window, self._run_to = context, window, run_to
        self._show_program = show_program

    def ask_deliver(self, *, allow_differences: bool = False) -> None:
        """Ask for a folder and copy the deliverables into it; ask first what ``deliver`` would ask."""
        project = self._context.document.project
        if self._context.result("package") is None or project is None:
            self._say_none()
            return
        if not allow_differences and self._asks(project, partial(self.ask_deliver, allow_differences=True)):
            return
        ask_for_output_folder(
            self._window,
            "Export deliverables to",
            lambda name: self.deliver(Path(name), allow_differences=allow_differences),
            f"{project.name}-deliverables",
            start=self._context.document.folder,
        )

    def deliver(self, target: Path, *, allow_differences: bool = False) -> None:
        """Copy the deliverables of the present configuration into a folder.

        A program that differs, is not accurate enough or was not verified is copied only with
        ``allow_differences``, which a notice offers.
        """
        from workbench.analysis.answers import answers_of
        from workbench.deploy.delivery import deliver

        folder, project = self._context.result("package"), self._context.document.project
        if folder is None or project is None:
            return
        again = partial(self.deliver, target, allow_differences=True)
        if not allow_differences and self._asks(project, again):
            return
        try:
            files = deliver(folder, target, answers_of(project, self._context.load))
        except WorkbenchError as error:
            self._context.notices.error(error)
            return
        show = Action("Open folder", lambda: open_externally(target))
        self._context.notices.success(f"Exported {len(files)} files to {target}.", "", [show])

    def _asks(self, project: Project, again: Callable[[], None]) -> bool:
        """Ask whether a program that lacks something is copied all the same; return whether it does."""
        from workbench.analysis.answers import answers_of

        asked = self._question(project, answers_of(project, self._context.load))
        if asked is None:
            return False
        reason, remedy, first, anyway = asked
        actions = [*first, Action(anyway, again, destructive=True)]
        self._context.notices.question(f"Not exported: {reason}", remedy, actions)
        return True

    def _question(self, project: Project, answers: Answers) -> tuple[str, str, list[Action], str] | None:
        """Return why a program is not copied, the remedy, its action, and the one that copies it anyway."""
        if lacking := self._why_not_on_board():
            return lacking, "Choose a device of the board, or another board.", [], "Export all the same"
        if answers.refused:
            show = Action("Show", partial(self._show_panel, "accuracy"))
            remedy = "The panel Accuracy shows the limits."
            return f"{answers.refusal}.", remedy, [show], "Export with a remark"
        if has_stage(project, "verify") and self._context.gate() is None:
            verify = Action("Verify", partial(self._run_to, "verify"))
            remedy = "Verify compares it with the quantized model. Then export again."
            return "the program is not verified.", remedy, [verify], "Export all the same"
        return None

    def _why_not_on_board(self) -> str:
        """Return why the program does not run on the project's board; "" if it does."""
        from workbench.deploy import fitting

        opened, results = self._context.document.opened_project, self._context.result("lower")
        if opened is None or results is None or not opened.project.board:
            return ""
        try:
            fit = fitting.of_results(opened, results)
        except (OSError, WorkbenchError):
            return ""
        return fitting.sentence(fit) if fit is not None and fit.absent else ""

    def _show_panel(self, panel_id: PanelId) -> None:
        self._window.reveal(panel_id)

    def show_inside(self) -> None:
        """Show the contents of the program of the present configuration."""
        from workbench.results import PackageResult

        folder = self._context.result("package")
        result = self._context.load(PackageResult, "package")
        names = [f.name for f in result.files if f.name.endswith(".pte")] if result else []
        if folder is None or not names:
            self._say_none()
            return
        self._show_program(folder / names[0])

    def _say_none(self) -> None:
        self._context.notices.info(
            "No files to export yet.",
            "Package the program first.",
            [Action("Package", lambda: self._run_to("package"))],
        )

    def ask_report(self) -> None:
        """Ask for a file and write the report into it."""
        project = self._context.document.project
        ask_to_save(
            self._window,
            "Export report to",
            lambda name: self.report(Path(name)),
            f"{project.name if project else 'untitled'}-report.html",
            start=self._context.document.folder,
            filters=["Web page (*.html)"],
        )

    def ask_overlays(self) -> None:
        """Ask for a folder and write the graph, its figures and the timeline into it."""
        project = self._context.document.project
        ask_for_output_folder(
            self._window,
            "Export for Model Explorer and Perfetto to",
            lambda name: self.overlays(Path(name)),
            f"{project.name if project else 'untitled'}-overlays",
            start=self._context.document.folder,
        )

    def overlays(self, target: Path) -> None:
        """Write the present graph and its figures for other programs."""
        from workbench.api import overlays
        from workbench.files import make_output_folder, write_together

        opened = self._context.document.opened_project
        if opened is None:
            return
        try:
            files = overlays(opened, self._context.session.cache)
            make_output_folder(target)
            write_together({target / name: data for name, data in files.items()})
        except OSError as error:
            self._context.notices.error(not_written(target, error))
            return
        except WorkbenchError as error:
            self._context.notices.error(error)
            return
        show = Action("Open folder", lambda: open_externally(target))
        self._context.notices.success(f"Exported {len(files)} files to {target}.", "", [show])

    def report(self, target: Path) -> None:
        """Write the report: one page about the present configuration and the run history."""
        from workbench.files import write_file
        from workbench.report import page

        document = self._context.document
        if document.opened_project is None:
            return
        try:
            text = page(document.opened_project, self._context.session.cache)
            write_file(target, text.encode())
        except OSError as error:
            self._context.notices.error(not_written(target, error))
            return
        except WorkbenchError as error:
            self._context.notices.error(error)
            return
        self._context.notices.success(
            f"Report written to {target}.",
            "",
            [
                Action("Open", lambda: open_externally(target)),
                Action("Open folder", lambda: open_externally(target.parent)),
            ],
        )


def is_typing() -> bool:
    """Return whether a field for text has the focus: what is typed next belongs there."""
    return isinstance(QApplication.focusWidget(), QLineEdit | QPlainTextEdit | QTextEdit | QAbstractSpinBox)


def open_externally(path: Path) -> None:
    """Open a file or folder in the program that the system has for it."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))


_SHOWN = 5


class RejectedController(QObject):
    """Searches for rejected operators and offers the fix as one undo step."""

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._desk = StudyController(
            "blame", Blame, context.document, context.runner, context.session.cache, self
        )
        context.runner.job_changed.connect(self._on_job_changed)

    def find(self) -> None:
        """Search for operators that the compiler rejects in the present configuration."""
        self._desk.start()

    def _on_job_changed(self, job: Job) -> None:
        result = self._desk.result
        if job.study != "blame" or job.state != "done" or result is None:
            return
        if not result.reason:
            self._context.notices.info("The compiler accepts the program.")
            return
        names = ", ".join(culprit.match for culprit in result.culprits[:_SHOWN])
        more = len(result.culprits) - _SHOWN
        names += f" and {more} more" if more > 0 else ""
        self._context.notices.question(
            f"The compiler rejects {names}.",
            result.reason,
            [Action("Keep on CPU", partial(self._keep_off, result.culprits)), Action("Ignore", lambda: None)],
        )

    def _keep_off(self, culprits: tuple[Culprit, ...]) -> None:
        def edit(project: Project) -> Project:
            for culprit in culprits:
                project = edits.assign(project, culprit.kind, culprit.match, "cpu")
            return project

        names = ", ".join(culprit.match for culprit in culprits[:_SHOWN])
        self._context.document.apply(f"Keep {names} on the CPU", edit)
