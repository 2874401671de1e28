"""Base classes of panels that show stage results, current or outdated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.shared.labels import Label
from ui.shared.panel import Panel
from ui.state.selection import Selected
from ui.state.session import Session, StageView
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from ui.state.model_index import ModelIndex
    from workbench.results import LowerResult


_RUNNABLE = {"stale", "failed"}
LOADING = "Loading the result\u2026"


def sentence(view: StageView, empty: str) -> str:
    """Return the text for a stage without a result."""
    match view.state:
        case "running":
            verb = STAGES_BY_ID[view.id].verb
            share = f" {view.fraction:.0%}" if view.fraction is not None else ""
            return f"{verb}\u2026{share} {view.message}".strip()
        case "queued":
            return f"{view.title} is queued."
        case "failed" if view.infos:
            info = view.infos[0]
            return f"{view.title} failed: {info.message}\n{info.hint}".strip()
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
    return f"Run {view.title} again" if view.state == "failed" else f"Run {view.title}"


class StageNote(QWidget):
    """The empty state of a panel: a sentence and a run button.

    Signals:
        run_asked: id of the stage that is to run.
    """

    run_asked = Signal(str)

    def __init__(self, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._empty = empty
        self._absent = ""
        self._stage: StageId | Literal[""] = ""
        self._session: Session | None = None
        self.label = Label(empty, self)
        self.label.setObjectName("Hint")
        self.label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(lambda: self.run_asked.emit(self._stage))
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.button)
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
        self.render_stage(session.stage(stage))

    def _on_stage_changed(self, stage: StageId) -> None:
        if self._session is not None and stage == self._stage:
            self.render_stage(self._session.stage(stage))

    def render_stage(self, view: StageView) -> None:
        """Show the state of a stage."""
        self._stage = view.id
        is_absent = bool(self._absent) and view.state == "cached"
        self.label.setText(self._absent if is_absent else sentence(view, self._empty))
        text = "" if is_absent else button_text(view)
        self.button.setText(text)
        self.button.setVisible(bool(text))

    def set_absent(self, sentence: str) -> None:
        """Set why the result of a finished stage has nothing to show here; "" if it has."""
        self._absent = sentence


class StaleBanner(QWidget):
    """A banner over outdated figures.

    Signals:
        run_asked: id of the stage that is to run.
    """

    run_asked = Signal(str)

    def __init__(self, what: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Banner")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._what = what
        self._stage = ""
        self.label = Label(self)
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(lambda: self.run_asked.emit(self._stage))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 3, 10, 3)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)

    def render_stage(self, view: StageView) -> None:
        """Show the state of the stage that updates the figures."""
        self._stage = view.id
        former = f"{self._what}: outdated."
        self.label.setText(f"{former} {sentence(view, '')}".strip())
        text = button_text(view)
        self.button.setText(text)
        self.button.setVisible(bool(text))


COMPILED_ELSEWHERE = (
    "No estimates: this target's compiler runs on another system and reports neither cycles nor "
    "memory. See Cost for the exported model and the compiler commands."
)

Result = TypeVar("Result", bound=Frozen)


class Shown(Generic[Result]):
    """A shown result: its value, its folder, and whether it is current."""

    def __init__(self, value: Result, folder: Path, *, current: bool) -> None:
        self.value, self.folder, self.current = value, folder, current


class StageFrame(QWidget):
    """The view of one stage's result. Shows a note until there is a first result."""

    def __init__(
        self, what: str, empty: str, make: Callable[[QWidget], None], parent: QWidget
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self.note = StageNote(empty, self)
        self.banner = StaleBanner(what, self)
        self.content = QWidget(self)
        self.is_made = False
        self._make = make
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banner)
        layout.addWidget(self.note, 1)
        layout.addWidget(self.content, 1)
        self.banner.hide()
        self.content.hide()

    def make(self) -> None:
        """Create the content."""
        self.is_made = True
        self._make(self.content)

    def show_parts(self, *, has_result: bool, is_current: bool) -> None:
        """Show the content if there is any, and the banner if it is outdated."""
        self.note.setVisible(not has_result)
        self.content.setVisible(has_result)
        self.banner.setVisible(has_result and not is_current)


class ResultPanel(Panel):
    """A panel with one frame per stage result.

    Results are read and plots are created only while the panel is visible.
    """

    frames: dict[StageId, StageFrame]

    def build(self) -> None:
        self.frames = {}
        self.build_frames()
        for frame in self.frames.values():
            frame.note.run_asked.connect(self.context.run_to)
            frame.banner.run_asked.connect(self.context.run_to)
        self.context.session.stage_changed.connect(self._on_stage_changed)

    def build_frames(self) -> None:
        """Create and arrange the frames."""

    def has(self, stage: StageId) -> bool:
        """Return whether the content of a frame exists."""
        return self.frames[stage].is_made

    def show_frame(self, stage: StageId, shown: Shown[Result] | None) -> None:
        """Create and show a frame's content, or its note."""
        frame = self.frames[stage]
        if shown is not None and not frame.is_made:
            frame.make()
            self.set_theme(self.context.theme)
        frame.show_parts(has_result=shown is not None, is_current=bool(shown and shown.current))

    def refresh(self) -> None:
        for stage in self.frames:
            self._show_stage(stage)

    def show_results(self) -> None:
        """Show the results."""

    def annotate(self) -> None:
        if not self.isVisible():
            self._mark("state")
            return
        self.show_results()
        self.render_selection(self.context.selection.value)

    def read(self, kind: type[Result], stage: StageId) -> Shown[Result] | None:
        """Return a stage's current result, else the outdated one, else None."""
        current = self.context.session.result(stage)
        folder = current or self.context.session.former(stage)
        if folder is None:
            return None
        try:
            value = self.context.session.parsed.load(kind, folder)
        except WorkbenchError as error:
            if current is not None:
                self.context.notices.error(error)
                if (frame := self.frames.get(stage)) is not None:
                    frame.note.set_absent(error.infos[0].message)
                    self._show_stage(stage)
            return None
        return Shown(value, folder, current=current is not None)

    def read_program(self) -> Shown[LowerResult] | None:
        """Return the compiled program; None, with a note, if an external compiler makes it."""
        from workbench.results import LowerResult

        shown = self.read(LowerResult, "lower")
        is_elsewhere = shown is not None and shown.value.exported is not None
        self.frames["lower"].note.set_absent(COMPILED_ELSEWHERE if is_elsewhere else "")
        self._show_stage("lower")
        return None if is_elsewhere else shown

    def _show_stage(self, stage: StageId) -> None:
        view = self.context.session.stage(stage)
        self.frames[stage].note.render_stage(view)
        self.frames[stage].banner.render_stage(view)

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage in self.frames and self.isVisible():
            self._show_stage(stage)


def chosen_nodes(selected: Selected, model_index: ModelIndex) -> frozenset[str]:
    """Return the nodes of a selection, including those in its modules."""
    return selected.nodes | model_index.nodes_of(selected.modules)
