"""What a panel says while it has no current result: not run, running, failed or outdated.

A failure that names a field, a module or another place has a button that leads there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ui.shared.labels import Label, literal
from ui.shared.setting_names import in_window
from ui.state.jobs import duration
from ui.state.session import Session, StageView
from workbench.errors import ErrorInfo, Place
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES_BY_ID

if TYPE_CHECKING:
    from ui.shared.study_controller import StudyController
    from ui.state.jobs import Job

_RUNNABLE = {"stale", "failed"}
LOADING = "Loading the result\u2026"
_BAR_PX = 220
# Texts of the button that leads to a place, by the kind of place.
_LINKS = {"option": "Show setting", "rule": "Show rule", "sample": "Show sample", "line": "Show line"}


def failure_text(title: str, info: ErrorInfo) -> str:
    """Return what failed, why, and what to do."""
    return f"{title} failed: {info.message}\n{in_window(info.hint)}".strip()


def sentence(view: StageView, empty: str) -> str:
    """Return the text for a stage without a result; a notice and the list of problems say why it failed."""
    match view.state:
        case "running":
            verb = STAGES_BY_ID[view.id].verb
            share = f" {100 * view.fraction:.0f} %" if view.fraction is not None else ""
            return f"{verb}\u2026{share} {view.message}".strip()
        case "queued":
            return f"{view.title} is queued."
        case "failed":
            return f"{view.title} failed."
        case "blocked" | "unavailable":
            return f"{view.title} cannot run. {view.reason}".strip()
        case "cached":
            return LOADING
        case _:
            return empty


def button_text(view: StageView) -> str:
    """Return the text of the run button; "" if the stage cannot be started."""
    if view.state not in _RUNNABLE:
        return ""
    # A person loads a model; that this takes two stages is no matter here.
    action = "Load the model" if view.id == "export" else view.title
    return f"{action} again" if view.state == "failed" else action


def failed_place(view: StageView) -> Place | None:
    """Return the place that the failure of a stage names; None without one, or if it is the stage."""
    place = view.infos[0].where if view.state == "failed" and view.infos else None
    return None if place is not None and place.kind == "stage" else place


class PlaceButton(QPushButton):
    """Leads to the place that a message names, or to the list of problems.

    Signals:
        place_asked: the ``Place``; None for the list of problems.
    """

    place_asked = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._place: Place | None = None
        self.clicked.connect(lambda: self.place_asked.emit(self._place))
        self.hide()

    def render_place(self, place: Place | None, *, is_problem: bool = False) -> None:
        """Set the place. Without one, only a message that leaves out a problem has a button."""
        self._place = place
        self.setText(_LINKS.get(place.kind, "Show") if place is not None else "Show problem")
        self.setToolTip(literal(str(place) if place is not None else ""))
        self.setVisible(place is not None or is_problem)


class StageNote(QWidget):
    """The state of a stage without a result: a sentence, its progress and buttons.

    The reason of a failure is in a notice and in the list of problems.

    Signals:
        run_asked: id of the stage that is to run.
        place_asked: the ``Place`` that the failure names; None for the list of problems.
    """

    run_asked = Signal(str)
    place_asked = Signal(object)

    def __init__(self, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._empty = empty
        self._absent = self._outdated = ""
        self._stage: StageId | Literal[""] = ""
        self._session: Session | None = None
        self.label = Label(empty, self)
        self.label.setObjectName("Hint")
        self.label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.label.setWordWrap(True)
        self.progress = QProgressBar(self)
        self.progress.setTextVisible(False)
        self.progress.setFixedWidth(_BAR_PX)
        self.progress.setAccessibleName("Progress")
        self.progress.hide()
        self.button = QPushButton(self)
        self.button.clicked.connect(lambda: self.run_asked.emit(self._stage))
        self.button.hide()
        self.link = PlaceButton(self)
        self.link.place_asked.connect(self.place_asked)
        row = QHBoxLayout()
        row.addStretch(1)
        for part in (self.progress, self.button, self.link):
            row.addWidget(part)
        row.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 16, 16, 16)
        layout.setSpacing(10)
        layout.addStretch(1)
        layout.addWidget(self.label)
        layout.addLayout(row)
        layout.addStretch(1)

    def follow(self, session: Session, stage: StageId) -> None:
        """Show the state of a stage, and update it."""
        self._session, self._stage = session, stage
        session.stage_changed.connect(self._on_stage_changed)
        self.render_stage(session.with_cause(stage))

    def _on_stage_changed(self, stage: StageId) -> None:
        if self._session is not None and stage == self._stage:
            self.render_stage(self._session.with_cause(stage))

    def render_stage(self, view: StageView) -> None:
        """Show the state of a stage."""
        self._stage = view.id
        is_absent = bool(self._absent) and view.state == "cached"
        text = sentence(view, self._outdated or self._empty)
        self.label.setText(self._absent if is_absent else text)
        mark(self.label, is_bad=view.state == "failed")
        text = "" if is_absent else button_text(view)
        if view.state != "running":
            # First: beside the buttons it would widen the panel, which stays wide.
            self.progress.hide()
        self.button.setText(text)
        self.button.setVisible(bool(text))
        self.link.render_place(failed_place(view), is_problem=view.state == "failed")
        self.progress.setVisible(view.state == "running")
        self.progress.setRange(0, 0 if view.fraction is None else 100)
        self.progress.setValue(round(100 * (view.fraction or 0.0)))

    def set_absent(self, sentence: str, outdated: str = "") -> None:
        """Set why the result of a finished stage has nothing to show here; "" if it has.

        ``outdated`` is what to say of that while the result is outdated.
        """
        self._absent, self._outdated = sentence, outdated


# Below this width a text beside buttons is a column of single words.
_BANNER_PX = 200


class StaleBanner(QWidget):
    """A banner over outdated figures; ``text`` says so.

    Signals:
        run_asked: id of the stage that is to run.
        place_asked: the ``Place`` that the failure names; None for the list of problems.
    """

    run_asked = Signal(str)
    place_asked = Signal(object)

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Banner")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._text = text
        self._stage = ""
        self.label = Label(self)
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(lambda: self.run_asked.emit(self._stage))
        self.link = PlaceButton(self)
        self.link.place_asked.connect(self.place_asked)
        self._buttons = QHBoxLayout()
        self._buttons.addWidget(self.button)
        self._buttons.addWidget(self.link)
        self._parts = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._parts.setContentsMargins(10, 3, 10, 3)
        self._parts.addWidget(self.label, 1)
        self._parts.addLayout(self._buttons)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Put the buttons below the text where they leave too little room for it."""
        margins = self._parts.contentsMargins()
        rest = self.width() - margins.left() - margins.right() - self._buttons.sizeHint().width()
        is_cut = self.fontMetrics().horizontalAdvance(self.label.text()) > rest
        ways = QBoxLayout.Direction
        self._parts.setDirection(ways.TopToBottom if is_cut and rest < _BANNER_PX else ways.LeftToRight)

    def set_text(self, text: str) -> None:
        """Set what is outdated."""
        self._text = text

    def render_stage(self, view: StageView) -> None:
        """Show the state of the stage that updates the figures."""
        self._stage = view.id
        self.label.setText(f"{self._text} {sentence(view, '')}".strip())
        text = button_text(view)
        self.button.setText(text)
        self.button.setVisible(bool(text))
        self.link.render_place(failed_place(view), is_problem=view.state == "failed")
        self._arrange()


class StudyNote(QWidget):
    """The state of a study above its result: what it does, its progress, failure or summary.

    Signals:
        place_asked: the ``Place`` that the failure names.
    """

    place_asked = Signal(object)

    def __init__(self, empty: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._empty = empty
        self.label = Label(self)
        self.label.setObjectName("Hint")
        self.label.setWordWrap(True)
        self.link = PlaceButton(self)
        self.link.place_asked.connect(self.place_asked)
        self.button = QPushButton(self)
        self.button.setProperty("primary", True)
        self.button.clicked.connect(self._on_clicked)
        self.button.hide()
        self._start: QPushButton | None = None
        row = QHBoxLayout()
        row.addWidget(self.label, 1)
        row.addWidget(self.link)
        layout = self._column = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addStretch(0)
        layout.addLayout(row)
        layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(0)

    def _on_clicked(self) -> None:
        if self._start is not None:
            self._start.click()

    def text(self) -> str:
        """Return the shown text."""
        return self.label.text()

    def set_alone(self, *, alone: bool, start: QPushButton | None = None) -> None:
        """Centre the text while there is nothing below it.

        Args:
            alone: Whether there is nothing below it.
            start: The button that starts the study, which is offered below the text instead.
        """
        if self._start is not None:
            self._start.show()
        self._start = start
        is_offered = alone and start is not None and start.isEnabled()
        self.button.setVisible(is_offered)
        if start is not None:
            self.button.setText(start.text())
            start.setVisible(not is_offered)
        for end in (0, self._column.count() - 1):
            self._column.setStretch(end, int(alone))
        flags = Qt.AlignmentFlag
        self.label.setAlignment(flags.AlignCenter if alone else flags.AlignLeft | flags.AlignTop)
        if alone:
            self.label.setMinimumHeight(0)
        policy = QSizePolicy.Policy
        self.setSizePolicy(policy.Preferred, policy.Expanding if alone else policy.Preferred)

    def render_study(self, study: StudyController[Any], summary: str, empty: str = "") -> None:
        """Show the state of a study.

        Args:
            study: The study.
            summary: Its result in words; "" without one.
            empty: What to say without a result; default: what the study measures.
        """
        job = study.job
        failure = study.failure if job is None else None
        parts = [job_text(job)] if job is not None else []
        parts += [failure_text(study.title, failure)] if failure is not None else []
        if summary:
            parts.append(summary if study.is_current else f"Outdated: {summary}")
        self.label.setText("\n".join(parts) or empty or self._empty)
        if job is not None and summary:
            # Its line stays when the job ends: what is below would move under the pointer.
            self.label.setMinimumHeight(self.label.heightForWidth(self.label.width()))
        mark(self.label, is_bad=failure is not None)
        self.link.render_place(failure.where if failure is not None else None)

    def show_text(self, text: str) -> None:
        """Show why there is no study."""
        self.label.setText(text)
        mark(self.label, is_bad=False)
        self.link.render_place(None)


def job_text(job: Job) -> str:
    """Return what a job does now, how far it is, its message, and how long it will take."""
    share = f" {100 * job.progress:.0f} %" if job.progress is not None else ""
    rest = f" \u00b7 about {duration(job.remaining_s)} left" if job.remaining_s is not None else ""
    return f"{job.stage_title or 'Preparing'}\u2026{share} {job.message}".strip() + rest


def mark(label: Label, *, is_bad: bool) -> None:
    """Colour the hint of a failure."""
    state = "bad" if is_bad else ""
    if label.property("state") != state:
        label.setProperty("state", state)
        label.style().unpolish(label)
        label.style().polish(label)
