"""The pipeline bar: target, board, every stage with its state, Run to and Cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygon,
    QPolygonF,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ui.shared.target_form import BoardBox, TargetForm
from ui.shared.theme import Theme, icon
from ui.state.jobs import duration
from ui.state.session import StageView
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES
from workbench.project.model import Project

STATE_WORDS = {
    "unknown": "\u2013",
    "stale": "not run",
    "cached": "done",
    "queued": "queued",
    "running": "running",
    "failed": "failed",
    "blocked": "blocked",
    "unavailable": "not available",
}


class StageButton(QAbstractButton):
    """A stage button with a state mark, a title and a second line."""

    def __init__(self, view: StageView, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._view = view
        self._theme = theme
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setMaximumWidth(132)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.render_stage(view)

    @property
    def view(self) -> StageView:
        """The stage view that is shown."""
        return self._view

    def render_stage(self, view: StageView) -> None:
        """Show the present state of a stage."""
        self._view = view
        self.setEnabled(view.state != "unavailable")
        self.setAccessibleName(f"{view.title}: {self.second_line()}")
        self.setToolTip(self._explanation())
        self.update()

    def second_line(self) -> str:
        """Return the text below the title."""
        view = self._view
        if view.differs:
            return "differs"
        match view.state:
            case "running":
                if view.fraction is not None:
                    return f"{view.fraction:.0%} \u00b7 {duration(view.elapsed_s)}"
                return f"{duration(view.elapsed_s)} \u2026"
            case "cached":
                return duration(view.elapsed_s) if view.elapsed_s is not None else "done"
            case _:
                return STATE_WORDS[view.state]

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(self._title_font())
        return QSize(max(92, round(metrics.horizontalAdvance(self._view.title)) + 44), 40)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        theme = self._theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_ground(painter, theme)
        self._paint_mark(painter, theme)
        left = 27.0
        width = self.width() - left - 8
        painter.setFont(self._title_font())
        off = self._view.state == "unavailable"
        painter.setPen(QColor(theme.muted if off else theme.text))
        top = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(left, 3, width, 18), top, self._view.title)
        small = QFont(self.font())
        small.setPixelSize(11)
        painter.setFont(small)
        failed = self._is_bad
        painter.setPen(QColor(theme.bad if failed else theme.muted))
        text = QFontMetricsF(small).elidedText(
            self.second_line(), Qt.TextElideMode.ElideRight, width
        )
        painter.drawText(QRectF(left, 20, width, 15), top, text)
        painter.end()

    @property
    def _is_bad(self) -> bool:
        """Whether the stage failed, or the program breaks a limit of the gate."""
        return self._view.state == "failed" or bool(self._view.differs)

    def _explanation(self) -> str:
        view = self._view
        lines = [f"{view.title}: {STATE_WORDS[view.state]}"]
        lines += [part for part in (view.differs, view.reason, view.message) if part]
        lines += [info.message for info in view.infos]
        if view.state in {"stale", "failed"}:
            lines.append(f"Click to run all stages up to {view.title}.")
        elif view.state == "cached":
            lines.append("Up to date. Click to show its result.")
        return "\n".join(lines)

    def _title_font(self) -> QFont:
        font = QFont(self.font())
        font.setPixelSize(13)
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def _paint_ground(self, painter: QPainter, theme: Theme) -> None:
        rect = QRectF(self.rect()).adjusted(0.5, 1.5, -0.5, -1.5)
        if self.isDown() or self.underMouse():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.raised))
            painter.drawRoundedRect(rect, 5, 5)
        if self._view.state == "running":
            bar = QRectF(27, self.height() - 5, self.width() - 36, 3)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.border))
            painter.drawRoundedRect(bar, 1.5, 1.5)
            share = self._view.fraction if self._view.fraction is not None else 0.3
            bar.setWidth(max(3.0, bar.width() * share))
            painter.setBrush(QColor(theme.accent))
            painter.drawRoundedRect(bar, 1.5, 1.5)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(theme.accent), 1.0))
            painter.drawRoundedRect(rect, 5, 5)

    def _paint_mark(self, painter: QPainter, theme: Theme) -> None:
        centre = QPointF(15.0, 12.0)
        state = "failed" if self._is_bad else self._view.state
        colour = QColor({
            "cached": theme.good, "running": theme.accent, "failed": theme.bad,
            "blocked": theme.warning, "queued": theme.accent,
        }.get(state, theme.muted))  # fmt: skip
        painter.setPen(QPen(colour, 1.6, c=Qt.PenCapStyle.RoundCap))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        match state:
            case "cached":
                painter.drawPolyline(_shape(centre, (-4.5, 0.5), (-1.5, 3.5), (4.5, -3.5)))
            case "failed":
                painter.drawLine(centre + QPointF(-3.5, -3.5), centre + QPointF(3.5, 3.5))
                painter.drawLine(centre + QPointF(-3.5, 3.5), centre + QPointF(3.5, -3.5))
            case "running":
                painter.setBrush(colour)
                painter.drawPolygon(_shape(centre, (-3.0, -4.0), (4.0, 0.0), (-3.0, 4.0)))
            case "blocked":
                painter.drawPolygon(_shape(centre, (0.0, -4.5), (4.8, 3.8), (-4.8, 3.8)))
            case "unavailable" | "unknown":
                painter.drawLine(centre + QPointF(-3.5, 0), centre + QPointF(3.5, 0))
            case "queued":
                painter.drawEllipse(centre, 4.2, 4.2)
                painter.drawPoint(centre)
            case _:
                painter.drawEllipse(centre, 4.2, 4.2)


def _shape(centre: QPointF, *points: tuple[float, float]) -> QPolygonF:
    return QPolygonF([centre + QPointF(x, y) for x, y in points])


_BOARD_PX = 230


class _Chevron(QWidget):
    """The chevron between two stages."""

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
    """Shows the stages and the target, and emits what the user starts.

    Signals:
        run_asked: id of the stage to run to; "" runs everything.
        result_asked: id of a finished stage whose result is to be shown.
        cancel_asked: all running jobs are to be cancelled.
        target_chosen: a complete ``TargetChoice``.
        board_chosen: id or path of a board; "" is none.
        options_asked: the dialog with all target options is to be opened.
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
        self._buttons: dict[StageId, StageButton] = {}
        self._build()

    def render_stages(self, stages: Sequence[StageView], *, working: bool) -> None:
        """Show all stages. Cancel is enabled while a job runs."""
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
        """Show target and board; relative paths of the project start at ``folder``."""
        self.target.render_choice(project.target, folder)
        self.board.render_board(project.board, folder)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.run.setIcon(icon("run", theme.accent_text))
        self.cancel.setIcon(icon("stop", theme.bad))
        self.update()

    def button(self, stage_id: StageId) -> StageButton:
        """Return the button of a stage."""
        return self._buttons[stage_id]

    def _build(self) -> None:
        self.target = TargetForm(self, compact=True)
        self.target.chosen.connect(self.target_chosen)
        self.board = BoardBox(self)
        self.board.setMaximumWidth(_BOARD_PX)
        self.board.chosen.connect(self.board_chosen)
        self.options = QPushButton("Options\u2026", self)
        self.options.setToolTip("All target options, including a custom Vela .ini file")
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
        self.run.setToolTip("Run a stage and all stages it needs that are not up to date")
        menu = QMenu(self.run)
        self._run_actions: dict[StageId, QAction] = {}
        for stage in STAGES:
            action = menu.addAction(f"Run to {stage.title}")
            action.triggered.connect(partial(self._on_run_triggered, stage.id))
            self._run_actions[stage.id] = action
        menu.addSeparator()
        menu.addAction("Run all").triggered.connect(partial(self._on_run_triggered, ""))
        self.run.setMenu(menu)
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setToolTip("Cancel all jobs (Ctrl+.)")
        self.cancel.setEnabled(False)
        self.cancel.clicked.connect(self.cancel_asked)

    def _on_run_triggered(self, stage_id: StageId | Literal[""]) -> None:
        self.run_asked.emit(stage_id)

    def _on_stage_clicked(self, stage_id: StageId) -> None:
        if self._buttons[stage_id].view.state == "cached":
            self.result_asked.emit(stage_id)
        else:
            self.run_asked.emit(stage_id)
