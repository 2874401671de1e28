"""The base class of panels, and the context they get."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QPaintEvent, QShowEvent
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from ui.shared.appearance import Appearance
from ui.shared.job_table import JobTableModel
from ui.shared.log_lines import LogModel
from ui.shared.problem_list import ProblemListModel
from ui.shared.tab_order import reading_order
from ui.shared.theme import Theme
from ui.state.assigner import Assigner
from ui.state.document import Document
from ui.state.model_index import ModelIndex
from ui.state.notices import Notices
from ui.state.run_history import RunHistory
from ui.state.runner import Runner
from ui.state.scores import Pin
from ui.state.selection import Selected, Selection
from ui.state.session import Session
from ui.state.settings import Settings
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.project.frozen import Frozen
from workbench.targets import has_stage

if TYPE_CHECKING:
    from workbench.analysis.answers import Answers
    from workbench.analysis.gate import GateResult

PanelId = Literal[
    "outcome",
    "modules",
    "rules",
    "graph",
    "ranges",
    "formats",
    "accuracy",
    "pictures",
    "sample",
    "cost",
    "timeline",
    "memory",
    "tflite",
    "devices",
    "simulator",
    "sensitivity",
    "search",
    "weight_transforms",
    "training",
    "runs",
    "deliverables",
    "inspector",
    "suggestions",
    "jobs",
    "log",
    "problems",
]
Result = TypeVar("Result", bound=Frozen)
NOTES_MS = 60
# Time after a panel for its paint and for other events, before the next panel renders results.
_TURN_MS = 20


class Commands(QObject):
    """Starts actions of the window from its panels.

    Signals:
        asked: id of an action of the menus.
    """

    asked = Signal(str)


class ProgramSteps(QObject):
    """Where panels ask for a command of the compiled program, to see what it reads and writes.

    Signals:
        asked: the ``.pte``, index of the delegate, offset of the command [bytes].
    """

    asked = Signal(object, int, int)


class RenderQueue(QObject):
    """Lets panels render results one after another, because all at once would delay a frame."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting: list[Panel] = []
        self._next = QTimer(self, interval=_TURN_MS, singleShot=True)
        self._next.timeout.connect(self._on_next)

    def add(self, panel: Panel) -> None:
        """Let a panel render when those before it have."""
        if panel not in self._waiting:
            self._waiting.append(panel)
        if not self._next.isActive():
            self._next.start()

    def _on_next(self) -> None:
        panel = self._waiting.pop(0)
        if isValid(panel) and panel.isVisible():
            panel.flush()
        if self._waiting:
            self._next.start()


@dataclass(frozen=True)
class PanelContext:
    """The long-lived objects of the window that panels use."""

    document: Document
    session: Session
    model_index: ModelIndex
    selection: Selection
    assigner: Assigner
    runner: Runner
    history: RunHistory
    pin: Pin
    notices: Notices
    settings: Settings
    appearance: Appearance
    log: LogModel
    jobs: JobTableModel
    problems: ProblemListModel
    commands: Commands
    steps: ProgramSteps
    turns: RenderQueue

    @property
    def theme(self) -> Theme:
        """The present theme."""
        return self.appearance.theme

    def result(self, stage_id: StageId) -> Path | None:
        """Return the folder of a stage's current result; None if there is none."""
        return self.session.result(stage_id)

    def answers(self) -> Answers | None:
        """Return whether the present program is compiled correctly and accurate enough.

        None before it was verified or evaluated.
        """
        from workbench.analysis.answers import answers_of
        from workbench.results import EvaluateResult, VerifyResult

        project = self.document.project
        known = (self.load(EvaluateResult, "evaluate"), self.load(VerifyResult, "verify"))
        if project is None or known == (None, None) or not has_stage(project, "verify"):
            return None
        return answers_of(project, self.load)

    def gate(self) -> GateResult | None:
        """Return whether the present program is compiled correctly; None before it was verified."""
        from workbench.results import VerifyResult

        answers = self.answers() if self.load(VerifyResult, "verify") is not None else None
        return answers.gate if answers is not None else None

    def run_to(self, stage_id: StageId) -> None:
        """Run all stages up to a stage."""
        opened = self.document.opened_project
        if opened is not None:
            self.runner.run_until(opened, [stage_id], self.finished_stages())

    def finished_stages(self) -> set[StageId]:
        """Return the stages with a current result.

        None until the project is planned, and where a file has changed since: the session has the states of
        its former value.
        """
        if not self.is_planned():
            return set()
        return {view.id for view in self.session.stages() if view.state == "cached"}

    def is_planned(self) -> bool:
        """Return whether the states of the stages are those of the project and its files as they are now."""
        opened = self.document.opened_project
        plan = self.runner.plan_of(opened) if opened is not None else None
        return plan is not None and plan.is_valid

    def load(self, kind: type[Result], stage_id: StageId) -> Result | None:
        """Return a stage's current result; None if there is none or it cannot be read."""
        folder = self.session.result(stage_id)
        if folder is None:
            return None
        try:
            return self.session.parsed.load(kind, folder)
        except WorkbenchError:
            return None


class Panel(QWidget):
    """One view of the project. Renders values, and changes them only on user input.

    Subclasses implement ``build``, and as needed ``refresh``, ``render_selection``
    and ``set_theme``. Renders are coalesced, and skipped while the panel is hidden.
    """

    panel_id: ClassVar[PanelId | Literal[""]] = ""

    def __init__(self, context: PanelContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("PanelBody")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        # Without a control, the panel itself shows that it has the focus.
        self.setProperty("framed", True)
        self.context = context
        self._due = {"theme", "state", "selection"}
        self._soon = QTimer(self, interval=0, singleShot=True)
        self._soon.timeout.connect(self.flush)
        self._notes = QTimer(self, interval=NOTES_MS, singleShot=True)
        self._notes.timeout.connect(self._on_notes)
        self._unsaid = False
        self.build()
        context.document.project_changed.connect(partial(self._mark, "state"))
        context.model_index.resolved.connect(partial(self._mark, "state"))
        context.model_index.model_changed.connect(self._await_turn)
        context.session.results_changed.connect(self._await_turn)
        context.selection.changed.connect(partial(self._mark, "selection"))
        context.appearance.changed.connect(partial(self._mark, "theme"))

    def build(self) -> None:
        """Create children, layout and connections. Called once."""

    def refresh(self) -> None:
        """Show the present state. May be called at any time."""

    def annotate(self) -> None:
        """Add details from results. Called after ``refresh`` and a paint."""

    def render_selection(self, selected: Selected) -> None:
        """Show the selection."""

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""

    def stop(self) -> None:
        """Stop background work. Called before the panel is destroyed."""

    def take_focus(self) -> None:
        """Give the focus to the first control; without one, keep it until there is one."""
        first = next((w for w in reading_order(self) if w.isVisible() and w.isEnabled()), self)
        first.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def take_keys(self) -> None:
        """Give the focus to what shows the selection, so that keys apply to it."""
        self.take_focus()

    def flush(self) -> None:
        """Run all pending renders now."""
        self._soon.stop()
        due, self._due = self._due, set()
        if "theme" in due:
            self.set_theme(self.context.theme)
        if "state" in due:
            self.refresh()
            self._unsaid = True
            # One pixel of the margin calls ``paintEvent``; more would paint the children again.
            self.update(0, 0, 1, 1)
        if due:
            self.render_selection(self.context.selection.value)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.flush()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._unsaid:
            self._unsaid = False
            self._notes.start()

    def _on_notes(self) -> None:
        self.annotate()
        if self.hasFocus():
            self.take_focus()

    def _mark(self, what: str, *_values: object) -> None:
        self._due.add(what)
        if self.isVisible() and not self._soon.isActive():
            self._soon.start()

    def _await_turn(self) -> None:
        """Show the present state when the panels before it have."""
        self._due.add("state")
        if self.isVisible():
            self.context.turns.add(self)
