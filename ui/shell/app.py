"""The application: creates, connects and stops every long-lived object behind the window."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from ui.features.program_viewer.program_windows import Programs
from ui.shared.job_table import JobTableModel
from ui.shared.log_lines import LogModel
from ui.shared.panel import Commands, PanelContext, PanelId, ProgramSteps, RenderQueue
from ui.shared.problem_list import ProblemListModel
from ui.shared.tab_order import reading_order
from ui.shell.checking import Checker
from ui.shell.file_controller import FileController
from ui.shell.help_controller import HelpController
from ui.shell.main_window import MainWindow
from ui.shell.mase_controller import MaseController
from ui.shell.run_controller import DeliverablesController, RejectedController, RunController
from ui.shell.target_controller import TargetController
from ui.shell.window_controller import Navigation, WindowController
from ui.state.assigner import Assigner
from ui.state.document import Document
from ui.state.export_check import ExportCheck
from ui.state.jobs import Job
from ui.state.model_index import ModelIndex
from ui.state.notices import Action, Notice, Notices
from ui.state.run_history import RunHistory
from ui.state.runner import EngineFactory, Runner, warm_engine
from ui.state.scores import Pin, Score, ScoreId, Scores
from ui.state.selection import Selection
from ui.state.session import Planned, Planner, Session, StageView
from ui.state.settings import LAST, Settings
from workbench.errors import Place, failure
from workbench.files import remove_parts
from workbench.installation import config_folder
from workbench.logs import configure, log, log_event, log_file
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.stages import STAGES
from workbench.project.model import Project
from workbench.project.trust import TrustStore
from workbench.protocol import Event, Level, LogLine, StageStarted
from workbench.targets import why_unestimated

if TYPE_CHECKING:
    from ui.features.project.new_project import NewProjectDialog

_WARM_UP_MS = 700
# The panel with the details of each figure of the scoreboard, and its method that shows them.
DETAILS: dict[ScoreId, tuple[PanelId, str]] = {
    "quality": ("accuracy", ""),
    "sqnr": ("accuracy", "show_worst"),
    "cycles": ("cost", ""),
    "sram": ("memory", ""),
    "cpu": ("cost", "show_cpu"),
    "equal": ("accuracy", ""),
    "products": ("cost", ""),
    "bits": ("accuracy", ""),
}
_OF_A_PROJECT = {
    "save",
    "save_as",
    "close",
    "settings",
    "target",
    "plugins",
    "import_mase",
    "export_mase",
    "blame",
    "deliver",
    "report",
    "overlays",
    "inside",
}


class Workbench(QObject):
    """Furnishes the window, and owns all services behind it."""

    def __init__(
        self, application: QApplication, window: MainWindow, factory: EngineFactory = warm_engine
    ) -> None:
        super().__init__(application)
        self.window = window
        self.settings = Settings()
        self.cache = Cache(default_root())
        for folder in (default_root(), config_folder()):
            remove_parts(folder)
        self.trust = TrustStore()
        self.notices = Notices(self)
        self.document = Document(self.settings.folder / "recovery", self)
        self.session = Session(self.cache, self)
        self.planner = Planner(self.cache, self)
        self.runner = Runner(factory, self._limited_cache, self.trust, self)
        self.history = RunHistory(self.cache, self)
        context = self.context = self._context()
        self.scores = Scores(self.document, self.session, context.pin, context.answers, self)
        window.populate(self.context, self.scores)
        self.programs = Programs(self.context.appearance, self.notices, self.window)
        self.files = FileController(self.document, self.notices, self.settings, self.programs, self.window)
        self.runs = RunController(self.context, self.trust, self.window)
        self.deliveries = DeliverablesController(
            self.context, self.window, self.runs.run_to, self.programs.open
        )
        self.blame = RejectedController(self.context, self)
        self.mase = MaseController(self.context, self.window)
        self.targets = TargetController(self.context, self.window)
        self.export_check = ExportCheck(self.runner, self.trust, self)
        self.navigation = Navigation(self.context, self.window)
        self.checker = Checker(self.context, self)
        self.frame = WindowController(self.context, self.trust, self.window, self.files.open_path)
        self.help = HelpController(self.context, self.window)
        self.notices.help_asked.connect(self.help.show_place)
        self._warm = QTimer(self, interval=_WARM_UP_MS, singleShot=True)
        self._warm.timeout.connect(self._on_idle)
        self._wire_state()
        self._wire_window()
        self._wire_actions()
        application.applicationStateChanged.connect(self._on_application_state)

    def start(self, project: Path | None) -> None:
        """Open a project if one is given, else show the welcome page."""
        self._on_project_changed(None)
        self.frame.show_title()
        if project is not None:
            self.files.open_path(project)
        if self.document.project is None:
            self._on_opened()
        self.files.offer_left_behind()
        self.window.fill_panels()

    def stop(self) -> None:
        """Stop all threads and engines. Returns when they have ended."""
        self.settings.save_layout(LAST, self.window.session_parts())
        self._clock.stop()
        self.programs.stop()
        self.window.may_close = True
        self.window.close()
        self.document.close()
        self.context.model_index.stop()
        self.planner.stop()
        self.runner.stop()
        self.history.stop()
        self.window.stop()

    def _limited_cache(self) -> Cache:
        return Cache(self.cache.root, self.settings.cache_limit_bytes)

    def _context(self) -> PanelContext:
        selection = Selection(self)
        model_index = ModelIndex(self.document, self.session, self)
        return PanelContext(
            document=self.document,
            session=self.session,
            model_index=model_index,
            selection=selection,
            assigner=Assigner(self.document, model_index, self.notices, self),
            runner=self.runner,
            history=self.history,
            pin=Pin(self.session, self.history, self.settings, self.document),
            notices=self.notices,
            settings=self.settings,
            appearance=self.window.appearance,
            log=LogModel(self),
            jobs=JobTableModel(self),
            problems=ProblemListModel(self),
            commands=Commands(self),
            steps=ProgramSteps(self),
            turns=RenderQueue(self),
        )

    def _wire_state(self) -> None:
        self.document.opened.connect(self.notices.close_former)
        self.document.opened.connect(self._on_opened)
        self.document.project_changed.connect(self._on_project_changed)
        self.document.edit_refused.connect(self.notices.error)
        self.document.autosave_refused.connect(self.notices.error)
        self.notices.posted.connect(self._on_notice)
        self.planner.planned.connect(self._on_planned)
        self.planner.reading.connect(self.window.pipeline.show_reading)
        self.runner.received.connect(self._on_event)
        self.runner.job_changed.connect(self._on_job_changed)
        self.frame.cache_cleared.connect(self._plan)
        self.session.machine_changed.connect(self._plan)
        self.history.follow(self.document, self.runner, self.planner)
        self.history.troubled.connect(self.notices.error)

    def _wire_window(self) -> None:
        window, bar = self.window, self.window.pipeline
        self.session.stage_changed.connect(
            lambda stage: bar.render_stage(self._judged(self.session.stage(stage)))
        )
        # The limits of the gate are no part of a stage; a change of them comes with a plan.
        self.session.planned_anew.connect(self._show_answers)
        self._clock = QTimer(self, interval=250)
        self._clock.timeout.connect(self._show_stages)
        bar.run_asked.connect(self.runs.run_to)
        bar.result_asked.connect(self.runs.show_result)
        bar.cancel_asked.connect(self.runs.cancel)
        bar.target_chosen.connect(self.targets.choose)
        bar.board_chosen.connect(self.targets.choose_board)
        bar.options_asked.connect(self.targets.ask)
        bar.toolchains_asked.connect(self.targets.ask_toolchains)
        self.navigation.setting_asked.connect(self.targets.ask_settings)
        self.navigation.plugins_asked.connect(self.targets.ask_plugins)
        window.scoreboard.details_asked.connect(self._on_details_asked)
        window.close_asked.connect(self._on_close_asked)
        self.files.created.connect(lambda: window.show_workspace("model"))
        self.files.run_asked.connect(lambda: self.runs.run_to(""))
        self.files.draft_asked.connect(self._on_draft_asked)
        window.files_dropped.connect(self.files.take_dropped)
        self.programs.dropped.connect(self.files.take_dropped)
        self.context.steps.asked.connect(self.programs.step_through)
        window.welcome.new_asked.connect(self.files.ask_new)
        window.welcome.open_asked.connect(self.files.ask_open)
        window.welcome.recipe_asked.connect(self.files.ask_recipe)
        window.welcome.sample_asked.connect(self.files.ask_copy)
        window.welcome.recent_asked.connect(self.files.open_path)

    def _wire_actions(self) -> None:
        verbs: dict[str, Callable[[], object]] = {
            "new": self.files.ask_new,
            "recipe": self.files.ask_recipe,
            "open": self.files.ask_open,
            "sample": self.files.ask_sample,
            "import_command": self.files.ask_import_command,
            "save": self.files.save,
            "save_as": self.files.ask_save_as,
            "close": self.files.close_project,
            "preferences": self.frame.show_preferences,
            "toolchains": self.targets.ask_toolchains,
            "quit": self.window.close,
            "palette": self.navigation.ask,
            "settings": self.targets.ask_settings,
            "target": self.targets.ask,
            "plugins": self.targets.ask_plugins,
            "import_mase": self.mase.ask_import,
            "export_mase": self.mase.ask_export,
            "run_all": lambda: self.runs.run_to(""),
            "run_evaluate": lambda: self.runs.run_to("evaluate"),
            "run_lower": lambda: self.runs.run_to("lower"),
            "cancel": self.runs.cancel,
            "blame": self.blame.find,
            "deliver": self.deliveries.ask_deliver,
            "report": self.deliveries.ask_report,
            "overlays": self.deliveries.ask_overlays,
            "inside": self.deliveries.show_inside,
            "theme": self.frame.switch_theme,
            "default_layout": self.window.reset_layout,
            "save_layout": self.frame.ask_layout_name,
            "doctor": self.frame.show_doctor,
            **self.help.verbs(),
        }
        verbs |= {f"run_to_{stage.id}": partial(self.runs.run_to, stage.id) for stage in STAGES}
        self.context.commands.asked.connect(lambda name: self.window.actions_by_id[name].trigger())
        for name, verb in verbs.items():
            self.window.actions_by_id[name].triggered.connect(lambda _=False, verb=verb: verb())

    def _on_opened(self) -> None:
        self.session.forget()
        self.context.selection.clear()
        self.context.problems.set_problems([])
        if self.document.project is None:
            self.window.show_welcome()
            self.frame.show_recents()
            first: QWidget = reading_order(self.window.welcome)[0]
        else:
            self.window.show_panels()
            first = self.window.pipeline.run
        # What had the focus may be hidden now.
        first.setFocus(Qt.FocusReason.OtherFocusReason)

    def _on_project_changed(self, project: Project | None) -> None:
        opened = self.document.opened_project
        for name, action in self.window.actions_by_id.items():
            if name in _OF_A_PROJECT or name.startswith("run_"):
                action.setEnabled(project is not None)
        self.window.actions_by_id["cancel"].setEnabled(bool(self.runner.running))
        can_compile = project is not None and not why_unestimated(project.target.id)
        self.window.actions_by_id["blame"].setEnabled(can_compile)
        if opened is not None:
            self.window.pipeline.render_project(opened)
            self.window.offer_panels()
            self._plan()

    def _plan(self) -> None:
        opened = self.document.opened_project
        if opened is not None:
            # The files or the simulators may be others than those of the last plan.
            self.runner.forget_plan()
            self.planner.request(opened)

    def _look_up(self) -> None:
        """Show what a job has left in the cache; its plan stays unless files have changed."""
        planned = self.runner.planned
        if planned is not None and planned.project is self.document.project:
            self.planner.refresh(planned)
        else:
            self._plan()

    def _on_planned(self, planned: Planned) -> None:
        if planned.project is not self.document.project:
            return
        self.runner.take_plan(planned)
        self.session.set_plan(planned.plan)
        self.checker.take_planned(planned)
        if self.settings.warm_engines and self.runner.engine_state("interactive") == "off":
            self._warm.start()

    def _on_idle(self) -> None:
        if self.document.project is not None and self.settings.warm_engines:
            self.runner.warm_up()

    def _on_event(self, event: Event) -> None:
        job = self.runner.job(event.job) if isinstance(event, StageStarted) else None
        # The bar shows the stages of the open project, not those of its variants.
        if job is None or not job.purpose:
            self.session.receive(event)
        log_event(event)
        if isinstance(event, LogLine):
            self.context.log.add(event.level, event.text, event.stage)

    def _on_notice(self, notice: Notice) -> None:
        """Keep what toasts say in the log, because they leave; of failures also what helps."""
        level: Level = "info"
        if notice.level in {"error", "warning"}:
            level = notice.level
        self.context.log.add(level, notice.text)
        if notice.hint and level != "info":
            self.context.log.add(level, notice.hint)

    def _on_job_changed(self, job: Job) -> None:
        self.context.jobs.update_job(job)
        self.session.set_queued(self.runner.queued_stages())
        working = bool(self.runner.running)
        self.window.pipeline.set_working(working)
        self.window.actions_by_id["cancel"].setEnabled(working)
        if working and not self._clock.isActive():
            self._clock.start()
        elif not working:
            self._clock.stop()
        if job.over:
            self._look_up()

    def _on_draft_asked(self, dialog: NewProjectDialog) -> None:
        """Check the export of a new project while its form is filled in."""
        check = self.export_check
        dialog.drafted.connect(check.check)
        check.told.connect(dialog.show_export)
        dialog.check()
        dialog.finished.connect(lambda _result: check.stop())

    def _on_details_asked(self, score: Score) -> None:
        """Show where a figure of the scoreboard comes from."""
        if score.field:
            self.notices.place_asked.emit(Place(kind="option", id=score.field))
            return
        panel_id, method = DETAILS[score.id]
        panel = self.window.reveal(panel_id)
        if (show := getattr(panel, method, None)) is not None:
            show()

    def _on_close_asked(self) -> None:
        running = [job for job in self.runner.running if not self.runs.is_unasked(job)]
        if not running:
            self.files.leave(self._quit)
            return
        names = ", ".join(job.title for job in running[:3])
        self.notices.question(
            "Jobs are still running.",
            f"{names}. Finished results stay in the cache.",
            [
                Action("Cancel", lambda: None),
                Action("Stop jobs and close", lambda: self.files.leave(self._quit), destructive=True),
            ],
            blocking=True,
        )

    def _on_application_state(self, state: Qt.ApplicationState) -> None:
        if state == Qt.ApplicationState.ApplicationActive:
            self._plan()

    def _quit(self) -> None:
        self.stop()
        QApplication.quit()

    def _show_answers(self) -> None:
        for stage_id in _ANSWERING:
            self.window.pipeline.render_stage(self._judged(self.session.stage(stage_id)))

    def _show_stages(self) -> None:
        working = bool(self.runner.running)
        views = [self._judged(view) for view in self.session.stages()]
        self.window.pipeline.render_stages(views, working=working)

    def _judged(self, view: StageView) -> StageView:
        """Return the view of a stage, with the limits that its answer breaks."""
        if view.id not in _ANSWERING or view.state != "cached":
            return view
        answers = self.context.answers()
        if answers is None:
            return view
        if view.id == "evaluate":
            accuracy = answers.accuracy
            low = accuracy.sentence if accuracy.verdict == "low accuracy" else ""
            return replace(view, differs=accuracy.sentence if accuracy.refused else "", low=low)
        is_other = answers.gate.verdict == "differs"
        return replace(view, differs=answers.gate.sentence if is_other else "")


# The stages whose result may break a limit of one of both answers.
_ANSWERING: tuple[Literal["evaluate", "verify"], ...] = ("evaluate", "verify")
_SETTLED_MS = 1500
# Longest time that a worker thread holds the interpreter lock [s].
_SWITCH_S = 0.001


def begin(application: QApplication, window: MainWindow) -> Workbench:
    """Furnish the window, and report exceptions in it from now on."""
    configure()
    workbench = Workbench(application, window)
    sys.excepthook = partial(_on_exception, workbench)
    QTimer.singleShot(_SETTLED_MS, workbench, settle)
    return workbench


def settle() -> None:
    """Tune the interpreter for responsiveness once the window has started.

    Garbage collection, which is off during the start, is switched on again and ignores all objects
    that exist now. Worker threads hold the interpreter lock for short turns only.
    """
    gc.freeze()
    gc.enable()
    sys.setswitchinterval(_SWITCH_S)


def _on_exception(
    workbench: Workbench, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Report an unhandled exception to the user once, with the details for a bug report."""
    details = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(details)
    log.critical("Unexpected error in the window.\n%s", details)
    problem = failure(
        "Unexpected error in the window.",
        f"The project is unchanged. Save it, and report this error with the log: {log_file()}",
        details=details,
        code="window-failed",
    )
    workbench.notices.error(problem)
