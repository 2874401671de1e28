"""Base classes of panels that show stage results, current or outdated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.shared.empty_states import StageNote, StaleBanner
from ui.shared.panel import Panel
from ui.state.selection import Selected
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from ui.state.model_index import ModelIndex
    from workbench.results import LowerResult


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

    def __init__(self, what: str, empty: str, make: Callable[[QWidget], None], parent: QWidget) -> None:
        super().__init__(parent)
        self.note = StageNote(empty, self)
        self.banner = StaleBanner(f"{what}: outdated.", self)
        self.content = QWidget(self)
        self.is_created = False
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
        self.is_created = True
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
            for part in (frame.note, frame.banner):
                part.run_asked.connect(self.context.run_to)
                part.place_asked.connect(self.context.notices.place_asked)
        self.context.session.stage_changed.connect(self._on_stage_changed)

    def build_frames(self) -> None:
        """Create and arrange the frames."""

    def has(self, stage: StageId) -> bool:
        """Return whether the content of a frame exists."""
        return self.frames[stage].is_created

    def show_frame(self, stage: StageId, shown: Shown[Result] | None) -> None:
        """Create and show a frame's content, or its note."""
        frame = self.frames[stage]
        if shown is not None and not frame.is_created:
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
        view = self.context.session.with_cause(stage)
        self.frames[stage].note.render_stage(view)
        self.frames[stage].banner.render_stage(view)

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage in self.frames and self.isVisible():
            self._show_stage(stage)


def chosen_nodes(selected: Selected, model_index: ModelIndex) -> frozenset[str]:
    """Return the nodes of a selection, including those in its modules."""
    return selected.nodes | model_index.nodes_of(selected.modules)
