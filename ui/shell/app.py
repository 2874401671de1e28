"""The application: every long-lived object is built here once, wired, and ended in order."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from ui.features.program_viewer.program_windows import Programs
from ui.shared.appearance import Appearance
from ui.shared.job_table import JobTableModel
from ui.shared.log_lines import LogModel
from ui.shared.panel import PanelContext
from ui.shared.problem_list import ProblemListModel
from ui.shell.checking import Checker
from ui.shell.file_controller import FileVerbs
from ui.shell.main_window import LAST, NAME, MainWindow, Navigation, WindowVerbs
from ui.shell.mase_controller import MaseVerbs
from ui.shell.run_controller import BlameVerbs, DeliverVerbs, RunVerbs
from ui.shell.target_controller import TargetVerbs
from ui.state.assigner import Assigner
from ui.state.document import Document
from ui.state.jobs import Job
from ui.state.model_index import Outline
from ui.state.notices import Action, Notices
from ui.state.run_history import RunHistory
from ui.state.runner import EngineFactory, Runner, warm_engine
from ui.state.selection import Selection
from ui.state.session import Planned, Planner, Session
from ui.state.settings import Settings
from workbench.errors import failure
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.stages import STAGES
from workbench.project.model import Project
from workbench.project.trust import TrustStore
from workbench.protocol import Event, LogLine
from workbench.targets import why_unestimated

_WARM_UP_MS = 700
_OF_A_PROJECT = {
    "save", "save_as", "close", "target", "plugins", "take_mase", "write_mase", "blame", "deliver",
    "report", "inside",
}  # fmt: skip


class Workbench(QObject):
    """The window and everything behind it."""

    def __init__(self, application: QApplication, factory: EngineFactory = warm_engine) -> None:
        super().__init__(application)
        self.settings = Settings()
        self.cache = Cache(default_root())
        self.trust = TrustStore()
        self.notices = Notices(self)
        self.document = Document(self.settings.folder / "recovery", self)
        self.session = Session(self.cache, self)
        self.planner = Planner(self.cache, self)
        self.runner = Runner(factory, self._limited_cache, self.trust, self)
        self.history = RunHistory(self.cache, self)
        self.context = self._context(application)
        self.window = MainWindow(self.context)
        self.programs = Programs(self.context.appearance, self.notices, self.window)
        self.files = FileVerbs(
            self.document, self.notices, self.settings, self.programs, self.window
        )
        self.runs = RunVerbs(self.context, self.trust, self.window)
        self.deliveries = DeliverVerbs(
            self.context, self.window, self.runs.run_to, self.programs.open
        )
        self.blame = BlameVerbs(self.context, self)
        self.mase = MaseVerbs(self.context, self.window)
        self.targets = TargetVerbs(self.context, self.window)
        self.navigation = Navigation(self.context, self.window)
        self.checker = Checker(self.context, self)
        self.frame = WindowVerbs(self.context, self.trust, self.window, self.files.open_path)
        self._warm = QTimer(self, interval=_WARM_UP_MS, singleShot=True)
        self._warm.timeout.connect(self._on_idle)
        self._wire_state()
        self._wire_window()
        self._wire_actions()
        application.applicationStateChanged.connect(self._on_application_state)

    def start(self, project: Path | None) -> None:
        """Show the window, with a project perhaps."""
        self.window.restore_session(self.settings.layout(LAST))
        self._on_project_changed(None)
        self.frame.show_title()
        self.frame.show_recents()
        if project is not None:
            self.files.open_path(project)
        self.files.offer_left_behind()
        self.window.show()

    def stop(self) -> None:
        """End everything; returns when no thread and no engine is left."""
        self.settings.save_layout(LAST, self.window.session_parts())
        self.settings.sync()
        self.programs.stop()
        self.window.may_close = True
        self.window.close()
        self.document.close()
        self.context.outline.stop()
        self.planner.stop()
        self.runner.stop()
        self.history.stop()
        self.window.stop()

    def _limited_cache(self) -> Cache:
        return Cache(self.cache.root, self.settings.cache_limit_bytes)

    def _context(self, application: QApplication) -> PanelContext:
        selection = Selection(self)
        outline = Outline(self.document, self.session, self)
        return PanelContext(
            document=self.document,
            session=self.session,
            outline=outline,
            selection=selection,
            assigner=Assigner(self.document, outline, self.notices, self),
            runner=self.runner,
            history=self.history,
            notices=self.notices,
            settings=self.settings,
            appearance=Appearance(application, self.settings.theme),
            log=LogModel(self),
            jobs=JobTableModel(self),
            problems=ProblemListModel(self),
        )

    def _wire_state(self) -> None:
        self.document.opened.connect(self._on_opened)
        self.document.project_changed.connect(self._on_project_changed)
        self.document.edit_refused.connect(self.notices.error)
        self.planner.planned.connect(self._on_planned)
        self.runner.received.connect(self._on_event)
        self.runner.job_changed.connect(self._on_job_changed)
        self.frame.cache_cleared.connect(self._plan)
        self.session.machine_changed.connect(self._plan)
        self.history.follow(self.document, self.runner, self.planner)
        self.history.troubled.connect(self.notices.error)

    def _wire_window(self) -> None:
        window, bar = self.window, self.window.pipeline
        self.session.stage_changed.connect(
            lambda stage: bar.render_stage(self.session.stage(stage))
        )
        self._clock = QTimer(self, interval=250)
        self._clock.timeout.connect(self._show_stages)
        bar.run_asked.connect(self.runs.run_to)
        bar.result_asked.connect(self.runs.show_result)
        bar.cancel_asked.connect(self.runs.cancel)
        bar.target_chosen.connect(self.targets.choose)
        bar.board_chosen.connect(self.targets.choose_board)
        bar.options_asked.connect(self.targets.ask)
        window.close_asked.connect(self._on_close_asked)
        window.files_dropped.connect(self.files.take_dropped)
        self.programs.dropped.connect(self.files.take_dropped)
        window.welcome.new_asked.connect(self.files.ask_new)
        window.welcome.open_asked.connect(self.files.ask_open)
        window.welcome.recipe_asked.connect(self.files.ask_recipe)
        window.welcome.sample_asked.connect(self.files.open_sample)
        window.welcome.recent_asked.connect(self.files.open_path)
        self.context.appearance.changed.connect(window.set_theme)

    def _wire_actions(self) -> None:
        verbs: dict[str, Callable[[], object]] = {
            "new": self.files.ask_new,
            "recipe": self.files.ask_recipe,
            "open": self.files.ask_open,
            "sample": self.files.open_sample,
            "take_over": self.files.ask_take_over,
            "save": self.files.save,
            "save_as": self.files.ask_save_as,
            "close": self.files.close_project,
            "preferences": self.frame.show_preferences,
            "quit": self.window.close,
            "palette": self.navigation.ask,
            "target": self.targets.ask,
            "plugins": self.targets.ask_plugins,
            "take_mase": self.mase.ask_take,
            "write_mase": self.mase.ask_write,
            "run_all": lambda: self.runs.run_to(""),
            "run_evaluate": lambda: self.runs.run_to("evaluate"),
            "run_lower": lambda: self.runs.run_to("lower"),
            "cancel": self.runs.cancel,
            "blame": self.blame.find,
            "deliver": self.deliveries.ask_deliver,
            "report": self.deliveries.ask_report,
            "inside": self.deliveries.show_inside,
            "theme": self.frame.switch_theme,
            "default_layout": self.window.arrange_at_first,
            "save_layout": self.frame.ask_layout_name,
            "doctor": self.frame.show_doctor,
        }
        for stage in STAGES:
            verbs[f"run_to_{stage.id}"] = partial(self.runs.run_to, stage.id)
        for name, verb in verbs.items():
            self.window.actions_by_id[name].triggered.connect(lambda _=False, verb=verb: verb())

    def _on_opened(self) -> None:
        self.session.forget()
        self.context.selection.clear()
        self.context.problems.set_problems([])
        if self.document.project is None:
            self.window.show_welcome()
            self.frame.show_recents()
        else:
            self.window.show_panels()

    def _on_project_changed(self, project: Project | None) -> None:
        for name, action in self.window.actions_by_id.items():
            if name in _OF_A_PROJECT or name.startswith("run_"):
                action.setEnabled(project is not None)
        self.window.actions_by_id["cancel"].setEnabled(bool(self.runner.running))
        can_compile = project is not None and not why_unestimated(project.target.id)
        self.window.actions_by_id["blame"].setEnabled(can_compile)
        if project is not None:
            self.window.pipeline.render_project(project, self.document.folder)
            self._plan()

    def _plan(self) -> None:
        if self.document.project is not None:
            # The files or the simulators may be others than those of the last plan.
            self.runner.forget_plan()
            self.planner.request(self.document.project, self.document.folder)

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
        self.session.receive(event)
        if isinstance(event, LogLine):
            self.context.log.add(event.level, event.text, event.stage)

    def _on_job_changed(self, job: Job) -> None:
        self.context.jobs.update_job(job)
        self.session.set_queued(self.runner.queued_stages())
        working = bool(self.runner.running)
        self.window.pipeline.cancel.setEnabled(working)
        self.window.actions_by_id["cancel"].setEnabled(working)
        if working and not self._clock.isActive():
            self._clock.start()
        elif not working:
            self._clock.stop()
        if job.over:
            self._look_up()

    def _on_close_asked(self) -> None:
        running = self.runner.running
        if not running:
            self.files.leave(self._quit)
            return
        names = ", ".join(job.title for job in running[:3])
        self.notices.question(
            "Work is still running.", f"{names}. Finished results are kept.",
            [
                Action("Keep working", lambda: None),
                Action("Stop it and close", lambda: self.files.leave(self._quit),
                       destructive=True),
            ],
            blocking=True,
        )  # fmt: skip

    def _on_application_state(self, state: Qt.ApplicationState) -> None:
        if state == Qt.ApplicationState.ApplicationActive:
            self._plan()

    def _quit(self) -> None:
        self.stop()
        QApplication.quit()

    def _show_stages(self) -> None:
        working = bool(self.runner.running)
        self.window.pipeline.render_stages(self.session.stages(), working=working)


_SETTLED_MS = 1500
# How long a thread beside the window's may keep the interpreter to itself [s].
_SWITCH_S = 0.001


def run(project: str | None) -> int:
    """Open the window and stay until it is closed; return the exit code."""
    application = QApplication([NAME])
    application.setApplicationName("quantization-workbench")
    application.setApplicationDisplayName(NAME)
    application.setQuitOnLastWindowClosed(False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    workbench = Workbench(application)
    sys.excepthook = partial(_on_exception, workbench)
    workbench.start(Path(project) if project else None)
    QTimer.singleShot(_SETTLED_MS, workbench, settle)
    return application.exec()


def settle() -> None:
    """Make the interpreter serve the window first, once the start is over.

    Garbage, which nobody collected during the start, is collected again, without what is there to
    stay; and threads beside the window's get the interpreter for short turns only.
    """
    gc.freeze()
    gc.enable()
    sys.setswitchinterval(_SWITCH_S)


def _on_exception(
    workbench: Workbench,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Tell the user of a mistake in the program, once, with what a report needs."""
    details = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(details)
    problem = failure(
        "Something unexpected went wrong in the window.",
        "Your project is kept; save it, and please report this with the details.",
        details=details,
    )
    workbench.notices.error(problem)
