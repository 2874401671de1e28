"""The pipeline in one strip: target, every stage with its state, Run to, Cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygon
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QVBoxLayout, QWidget

from ui.icons import icon
from ui.session import StageView
from ui.theme import Theme
from ui.widgets.board_box import BoardBox
from ui.widgets.stage_button import StageButton
from ui.widgets.target_form import TargetForm
from workbench.pipeline.stages import STAGES
from workbench.project.model import Project

_BOARD_PX = 230


class _Chevron(QWidget):
    """The mark between two stages."""

    def __init__(self, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setFixedSize(8, 40)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme().muted), 1.2))
        painter.drawPolyline(QPolygon([QPoint(2, 16), QPoint(6, 20), QPoint(2, 24)]))
        painter.end()


class PipelineBar(QWidget):
    """Shows the stages and the target; says what the user wants to run.

    Signals:
        run_asked: id of the stage to run to; "" runs everything.
        result_asked: id of a finished stage whose result is to be shown.
        cancel_asked: all running work is to stop.
        target_chosen: a complete ``TargetChoice``.
        board_chosen: id or path of a board; "" is none.
        options_asked: all options of the target are to be shown.
    """

    run_asked = Signal(str)
    result_asked = Signal(str)
    cancel_asked = Signal()
    target_chosen = Signal(object)
    board_chosen = Signal(str)
    options_asked = Signal()

    def __init__(self, theme: Callable[[], Theme], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._buttons: dict[str, StageButton] = {}
        self._build()

    def render_stages(self, stages: Sequence[StageView], *, working: bool) -> None:
        """Show all stages; Cancel is offered while something runs."""
        for view in stages:
            self.render_stage(view)
        self.cancel.setEnabled(working)

    def render_stage(self, view: StageView) -> None:
        """Show one stage."""
        button = self._buttons[view.id]
        if button.view != view:
            button.render_stage(view)
        self._run_actions[view.id].setEnabled(view.state != "unavailable")

    def render_project(self, project: Project, folder: Path) -> None:
        """Show target and board; ``folder`` is where the project's relative paths start."""
        self.target.render_choice(project.target, folder)
        self.board.render_board(project.board, folder)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a theme."""
        self.run.setIcon(icon("run", theme.accent_text))
        self.cancel.setIcon(icon("stop", theme.bad))
        self.update()

    def button(self, stage_id: str) -> StageButton:
        """Return the button of a stage."""
        return self._buttons[stage_id]

    def _build(self) -> None:
        self.target = TargetForm(self, compact=True)
        self.target.chosen.connect(self.target_chosen)
        self.board = BoardBox(self)
        self.board.setMaximumWidth(_BOARD_PX)
        self.board.chosen.connect(self.board_chosen)
        self.options = QPushButton("Options\u2026", self)
        self.options.setToolTip("All options of the target, and an own .ini for Vela")
        self.options.clicked.connect(self.options_asked)
        self._build_run()
        top = QHBoxLayout()
        top.setSpacing(6)
        top.addWidget(self.target)
        top.addWidget(self.board)
        top.addWidget(self.options)
        top.addStretch(1)
        top.addWidget(self.run)
        top.addWidget(self.cancel)
        strip = QHBoxLayout()
        strip.setSpacing(0)
        for number, stage in enumerate(STAGES):
            if number:
                strip.addWidget(_Chevron(self._theme, self))
            button = StageButton(StageView(stage.id, stage.title), self._theme, self)
            button.clicked.connect(partial(self._on_stage_clicked, stage.id))
            self._buttons[stage.id] = button
            strip.addWidget(button, 10)
        strip.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 0)
        layout.setSpacing(4)
        layout.addLayout(top)
        layout.addLayout(strip)

    def _build_run(self) -> None:
        self.run = QPushButton("Run to\u2026", self)
        self.run.setProperty("primary", True)
        self.run.setAccessibleName("Run to a stage")
        self.run.setToolTip("Run everything that a stage needs and that is not done yet")
        menu = QMenu(self.run)
        self._run_actions = {}
        for stage in STAGES:
            action = menu.addAction(f"Run to {stage.title}")
            action.triggered.connect(partial(self._on_run_triggered, stage.id))
            self._run_actions[stage.id] = action
        menu.addSeparator()
        menu.addAction("Run everything").triggered.connect(partial(self._on_run_triggered, ""))
        self.run.setMenu(menu)
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setToolTip("Stop all running work (Ctrl+.)")
        self.cancel.setEnabled(False)
        self.cancel.clicked.connect(self.cancel_asked)

    def _on_run_triggered(self, stage_id: str) -> None:
        self.run_asked.emit(stage_id)

    def _on_stage_clicked(self, stage_id: str) -> None:
        if self._buttons[stage_id].view.state == "cached":
            self.result_asked.emit(stage_id)
        else:
            self.run_asked.emit(stage_id)
