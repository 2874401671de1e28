"""The Outcome panel: is the program accurate, correct, does it fit, is it fast; what is next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from ui.shared.bar_picture import BarPicture
from ui.shared.board_fit import BoardFitReader
from ui.shared.empty_states import sentence
from ui.shared.forms import WrappedLabel
from ui.shared.labels import Label, literal
from ui.shared.panel import Result
from ui.shared.result_panel import ResultPanel, StageFrame
from ui.shared.suggestion_cards import shared_suggestions
from ui.shared.theme import Theme
from workbench.errors import Place, WorkbenchError
from workbench.outcome_page import Answer, AnswerId, AnswerState, outcome_page
from workbench.results import EvaluateResult, LowerResult
from workbench.suggestions import Suggestion
from workbench.targets import has_stage

if TYPE_CHECKING:
    from ui.state.session import StageView
    from workbench.ids import StageId

_MOST_STEPS = 4
_NARROW_PX = 760
# What the state of an answer is called, and the panel that shows its details.
_STATES: dict[AnswerState, str] = {"met": "\u2713", "missed": "\u2717", "doubtful": "!", "open": ""}
_DETAILS: dict[AnswerId, str] = {
    "accurate": "accuracy",
    "correct": "accuracy",
    "fits": "memory",
    "fast": "cost",
}
NOTHING = "Run the project to see whether it is accurate, correct, fits the board and is fast."
_DELIVER_TIP = "The program and the files for the firmware"
_NOT_PACKED = "The present configuration is not packaged: run all stages first"
OTHER_FORMATS = (
    "The panel Formats predicts what every preset and every format of your own gives on a tensor. A rule "
    "sets a wider format for the modules that lose most; the panel Ranges lists them."
)
_SUGGESTIONS = "go_suggestions"
NO_STEP = "Nothing to suggest: no change is known that would help."


class AnswerCard(QFrame):
    """One answer: its title, figure and goal, a picture, and what it follows from."""

    def __init__(
        self, details: Callable[[AnswerId], None], theme: Callable[[], Theme], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setObjectName("Card")
        self._details = details
        self.answer: Answer | None = None
        self.is_outdated = False
        self.mark, self.title = Label(self), Label(self)
        self.title.setObjectName("CardTitle")
        self.figure = WrappedLabel(parent=self)
        self.figure.setObjectName("OutcomeFigure")
        self.goal = WrappedLabel(parent=self)
        self.goal.setObjectName("Hint")
        self.picture_title = Label(self)
        self.picture_title.setObjectName("Hint")
        self.picture = BarPicture(theme, self)
        self.lines = WrappedLabel(parent=self)
        self.lines.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.more = QPushButton("Details", self)
        self.more.setProperty("link", True)
        self.more.clicked.connect(self._on_details)
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self.title)
        head.addWidget(self.mark)
        head.addStretch(1)
        head.addWidget(self.more)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 12)
        column.setSpacing(6)
        column.addLayout(head)
        for part in (self.figure, self.goal, self.picture_title, self.picture, self.lines):
            column.addWidget(part)
        column.addStretch(1)

    def render_answer(self, answer: Answer, theme: Theme, *, is_outdated: bool) -> None:
        """Show an answer. One that is outdated has no colour."""
        self.answer, self.is_outdated = answer, is_outdated
        colours = {"met": theme.good, "missed": theme.bad, "doubtful": theme.warning}
        colour = theme.muted if is_outdated else colours.get(answer.state, theme.text)
        self.title.setText(answer.title)
        self.mark.setText("outdated" if is_outdated else _STATES[answer.state])
        for label in (self.mark, self.figure):
            label.setStyleSheet(f"color: {colour};")
        self.figure.setText(answer.figure)
        self.goal.setText(f"Limit: {answer.goal}" if answer.goal else "")
        self.goal.setVisible(bool(answer.goal))
        self.picture_title.setText(answer.picture)
        self.picture_title.setVisible(bool(answer.bars))
        self.picture.render_bars(answer.picture, answer.bars)
        self.lines.setText("\n".join(answer.lines))
        self.lines.setVisible(bool(answer.lines))
        self.more.setText("Run" if self.is_open or is_outdated else "Details")
        self.more.setAccessibleName(f"{self.more.text()}: {answer.title}")
        states = {"met": "limit met", "missed": "limit missed", "doubtful": "in doubt", "open": ""}
        self.setAccessibleName(f"{answer.title}: {answer.figure} {states[answer.state]}".strip())

    @property
    def is_open(self) -> bool:
        """Whether the answer is not known yet."""
        return self.answer is not None and self.answer.state == "open" and not self.answer.bars

    def render_progress(self, view: StageView) -> None:
        """Show how far the stage of an open answer is, instead of that it did not run."""
        if self.answer is None or not self.is_open:
            self.more.show()
            return
        is_busy = view.state in {"running", "queued"}
        self.figure.setText(sentence(replace(view, message=""), "") if is_busy else self.answer.figure)
        self.more.setHidden(is_busy)

    def _on_details(self) -> None:
        if self.answer is not None:
            self._details(self.answer.id)


class NextStep(QWidget):
    """One suggestion in a line: what to do, what it is expected to give, and Apply."""

    def __init__(
        self, number: int, suggestion: Suggestion, apply: Callable[[Suggestion], None], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setAccessibleName(f"{suggestion.title}. {suggestion.expected}")
        title = WrappedLabel(f"{number}. {suggestion.title}", self)
        expected = WrappedLabel(suggestion.expected, self)
        expected.setObjectName("Hint")
        expected.setToolTip(literal(suggestion.evidence))
        texts = QVBoxLayout()
        texts.setSpacing(0)
        texts.addWidget(title)
        texts.addWidget(expected)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 2, 0, 2)
        layout.addLayout(texts, 1)
        if suggestion.edit is not None:
            button = QPushButton("Apply", self)
            button.setAccessibleName(f"Apply: {suggestion.title}")
            button.setToolTip("One undo step")
            button.clicked.connect(lambda: apply(suggestion))
            layout.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)


class OutcomePanel(ResultPanel):
    """Shows the four answers, what to do next, and the buttons that hand the result on."""

    panel_id = "outcome"

    def build_frames(self) -> None:
        self._fits = BoardFitReader(self.context)
        self._steps_key: tuple[str, ...] | None = None
        self.cards: list[AnswerCard] = []
        self.suggesting = shared_suggestions(self.context)
        self.suggesting.changed.connect(lambda: self._mark("state"))
        self.context.session.stage_changed.connect(self._show_progress)
        # Suggestions take as long as the answers, which are painted first.
        self._steps_soon = QTimer(self, singleShot=True, interval=0)
        self._steps_soon.timeout.connect(self._show_steps)
        self.frames["evaluate"] = StageFrame("Outcome", NOTHING, self._make, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames["evaluate"])

    def show_results(self) -> None:
        project = self.context.document.project
        shown = self.read(EvaluateResult, "evaluate")
        self.show_frame("evaluate", shown)
        if shown is None or project is None:
            return
        outdated: set[str] = set()
        try:
            answers = outcome_page(project, partial(self._load, outdated), self._fits.read())
        except WorkbenchError as error:
            self.context.notices.error(error)
            return
        theme = self.context.theme
        for _ in range(len(self.cards), len(answers)):
            self.cards.append(AnswerCard(self._on_details, lambda: self.context.theme, self.page))
        for card, answer in zip(self.cards, answers, strict=False):
            card.render_answer(answer, theme, is_outdated=answer.stage in outdated)
            self._show_progress(answer.stage)
        for card in self.cards[len(answers) :]:
            card.hide()
        self._arrange(len(answers))
        self._steps_soon.start()
        is_packed = self.context.result("package") is not None
        self.buttons["deliver"].setVisible(has_stage(project, "package"))
        self.buttons["deliver"].setEnabled(is_packed)
        self.buttons["deliver"].setToolTip(literal(_DELIVER_TIP if is_packed else _NOT_PACKED))

    def set_theme(self, theme: Theme) -> None:
        del theme
        self._steps_key = None
        if self.has("evaluate"):
            self.show_results()

    def _show_progress(self, stage: str) -> None:
        if not self.isVisible():
            return
        view = self.context.session.stage(stage)  # type: ignore[arg-type]  # an id of a stage
        for card in self.cards:
            if card.answer is not None and card.answer.stage == stage:
                card.render_progress(view)

    def _load(self, outdated: set[str], kind: type[Result], stage: StageId, /) -> Result | None:
        """Return the present result of a stage, else the former one, and note that it is."""
        shown = self.read(kind, stage)
        if shown is not None and not shown.current:
            outdated.add(stage)
        return shown.value if shown is not None else None

    def _make(self, content: QWidget) -> None:
        self.page = QWidget(content)
        self._grid = QGridLayout()
        self._grid.setSpacing(10)
        self.heading = Label("What to do next", self.page)
        self.heading.setObjectName("Subheading")
        self.steps = QVBoxLayout()
        self.all_steps = QPushButton("All suggestions", self.page)
        self.all_steps.setProperty("link", True)
        self._all_action = _SUGGESTIONS
        self.all_steps.clicked.connect(lambda: self.context.commands.asked.emit(self._all_action))
        next_row = QHBoxLayout()
        next_row.addWidget(self.heading)
        next_row.addStretch(1)
        next_row.addWidget(self.all_steps)
        body = QVBoxLayout(self.page)
        body.setContentsMargins(16, 4, 16, 16)
        body.setSpacing(10)
        for part in (self._grid, next_row, self.steps):
            body.addLayout(part)
        body.addStretch(1)
        scroll = QScrollArea(content)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(self.page)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(self._head())
        layout.addWidget(scroll, 1)

    def _head(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(16, 10, 16, 4)
        self.buttons: dict[str, QPushButton] = {}
        for title, action, tip in (
            ("Export report\u2026", "report", "One page with these answers, for a colleague"),
            ("Export deliverables\u2026", "deliver", _DELIVER_TIP),
        ):
            button = QPushButton(title, self)
            button.setToolTip(literal(tip))
            button.clicked.connect(partial(self.context.commands.asked.emit, action))
            self.buttons[action] = button
            row.addWidget(button)
        limits = QPushButton("Limits\u2026", self)
        limits.setToolTip("The limits that the answers are compared with, in the project settings")
        limits.clicked.connect(self._on_limits)
        row.addWidget(limits)
        row.addStretch(1)
        return row

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.has("evaluate"):
            self._arrange(sum(not card.isHidden() for card in self.cards))

    def _arrange(self, count: int) -> None:
        """Put the cards in two columns, or in one where the panel is narrow."""
        columns = 1 if self.width() < _NARROW_PX else 2
        for index, card in enumerate(self.cards[:count]):
            self._grid.addWidget(card, index // columns, index % columns)
            card.show()
        for column in range(2):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def _show_steps(self) -> None:
        project = self.context.document.project
        lowered, folder = self.context.load(LowerResult, "lower"), self.context.result("lower")
        ranked: tuple[Suggestion, ...] = ()
        if lowered is not None and folder is not None and lowered.exported is None:
            ranked = self.suggesting.look_at(lowered, folder)[:_MOST_STEPS]
        has_formats = project is not None and not has_stage(project, "lower")
        is_known = lowered is not None or has_formats
        key = (f"{is_known} {has_formats}", *(f"{s.id} {s.expected}" for s in ranked))
        if key == self._steps_key:
            return
        self._steps_key = key
        while (item := self.steps.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for number, suggestion in enumerate(ranked, 1):
            self.steps.addWidget(NextStep(number, suggestion, self.suggesting.apply, self.page))
        if is_known and not ranked:
            hint = WrappedLabel(OTHER_FORMATS if has_formats else NO_STEP, self.page)
            hint.setObjectName("Hint")
            self.steps.addWidget(hint)
        self.heading.setVisible(is_known)
        self.all_steps.setVisible(bool(ranked) or has_formats)
        self.all_steps.setText("Formats" if has_formats else "All suggestions")
        self._all_action = "go_formats" if has_formats else _SUGGESTIONS

    def _on_details(self, answer: AnswerId) -> None:
        card = next(card for card in self.cards if card.answer and card.answer.id == answer)
        if card.answer is not None and (card.is_open or card.is_outdated):
            stage: StageId = card.answer.stage  # type: ignore[assignment]  # an id of a stage
            self.context.run_to(stage)
        else:
            self._show_panel(_DETAILS[answer])

    def _show_panel(self, panel_id: str) -> None:
        self.context.commands.asked.emit(f"go_{panel_id}")

    def _on_limits(self) -> None:
        self.context.notices.place_asked.emit(Place(kind="option", id="accuracy"))
