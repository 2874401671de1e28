"""The bar: Run with Cancel, target and board, and the stages in labelled groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.labels import Label, literal
from ui.shared.target_form import BAR_OPTIONS, LABELS_PX, BoardBox, TargetForm
from ui.shared.theme import Theme, icon
from ui.shell.panels import RUN_BAR_PX
from ui.state.jobs import duration
from ui.state.session import StageView
from workbench.deploy.boards import load
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES, STAGES_BY_ID
from workbench.project.model import Project, TargetChoice
from workbench.targets import target_of

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
_DOT_PX = 16
# What a person calls the stages. Those of a group share a label with their time or progress.
GROUPS: tuple[tuple[str, tuple[StageId, ...]], ...] = (
    ("Load", ("import_model", "export")),
    ("Calibrate", ("prepare", "calibrate")),
    ("Quantize", ("convert", "evaluate")),
    ("Compile", ("lower",)),
    ("Verify", ("verify", "run")),
    ("Pack", ("package",)),
)
# Least widths of the buttons of the target and of the state.
_GOAL_PX, _STATUS_PX = 130, 80
# Below these widths of the bar, Cancel is its sign alone, and groups of stages have no label.
_NARROW_PX, _UNLABELLED_PX = 960, 1310
# Below these widths the switch of automatic runs has a short text, and is in the menu only.
_WHOLE_SWITCH_PX, _SWITCHED_PX = 1440, 1100
_SPACING_PX = 8
# How much widths of a whole and a cut text may differ by rounding.
_ROUNDING_PX = 2
_SHORT_SWITCH = "Auto"
# Width of the label of a group of stages.
_GROUP_PX = 58


class StageButton(QAbstractButton):
    """A dot with the state of a stage. Its name and state are in the tooltip."""

    def __init__(self, view: StageView, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._view = view
        self._theme = theme
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedSize(_DOT_PX, 28)
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
        self.setToolTip(literal(self._explanation()))
        self.update()

    def second_line(self) -> str:
        """Return the state as text, with progress and time."""
        view = self._view
        if view.differs:
            return _REFUSED.get(view.id, "differs")
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
        return QSize(_DOT_PX, 28)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        theme = self._theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(self.rect()).adjusted(0.5, 1.5, -0.5, -1.5)
        if self.isDown() or self.underMouse():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.raised))
            painter.drawRoundedRect(rect, 4, 4)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(theme.accent), 1.0))
            painter.drawRoundedRect(rect, 4, 4)
        paint_state(painter, rect.center(), self._view, theme)
        painter.end()

    def _explanation(self) -> str:
        view = self._view
        state = self.second_line() if view.state == "running" else STATE_WORDS[view.state]
        lines = [f"{view.title}: {state}"]
        if view.state == "cached" and view.elapsed_s is not None:
            lines[0] += f" in {duration(view.elapsed_s)}"
        lines += [part for part in (view.differs, view.low, view.reason, view.message) if part]
        lines += [info.message for info in view.infos]
        if view.state in {"stale", "failed"}:
            lines.append(f"Click to run all stages up to {view.title}.")
        elif view.state == "cached":
            lines.append("Up to date. Click to show its result.")
        return "\n".join(lines)


# What a stage is called whose program breaks a limit; others differ.
_REFUSED: dict[str, str] = {"evaluate": "not accurate enough"}


def is_bad(view: StageView) -> bool:
    """Return whether a stage failed, or its program breaks a limit."""
    return view.state == "failed" or bool(view.differs)


def paint_state(painter: QPainter, centre: QPointF, view: StageView, theme: Theme) -> None:
    """Paint the mark of a stage's state, which has its own shape and colour."""
    state = "failed" if is_bad(view) else view.state
    colour = QColor({
        "cached": theme.warning if view.low else theme.good, "running": theme.accent,
        "failed": theme.bad, "blocked": theme.warning, "queued": theme.accent,
    }.get(state, theme.muted))  # fmt: skip
    painter.setPen(QPen(colour, 1.6, c=Qt.PenCapStyle.RoundCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    match state:
        case "cached":
            painter.setBrush(colour)
            painter.drawEllipse(centre, 5.0, 5.0)
            painter.setPen(QPen(QColor(theme.background), 1.5, c=Qt.PenCapStyle.RoundCap))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawPolyline(_shape(centre, (-2.4, 0.2), (-0.6, 2.0), (2.6, -1.8)))
        case "failed":
            painter.drawLine(centre + QPointF(-3.5, -3.5), centre + QPointF(3.5, 3.5))
            painter.drawLine(centre + QPointF(-3.5, 3.5), centre + QPointF(3.5, -3.5))
        case "running":
            ring = QRectF(centre.x() - 5.0, centre.y() - 5.0, 10.0, 10.0)
            painter.setPen(QPen(QColor(theme.border), 2.4))
            painter.drawEllipse(ring)
            painter.setPen(QPen(colour, 2.4, c=Qt.PenCapStyle.FlatCap))
            share = view.fraction if view.fraction is not None else 0.3
            painter.drawArc(ring, 90 * 16, -round(360 * 16 * share))
        case "blocked":
            painter.drawPolygon(_shape(centre, (0.0, -4.5), (4.8, 3.8), (-4.8, 3.8)))
        case "unavailable" | "unknown":
            painter.drawLine(centre + QPointF(-3.5, 0), centre + QPointF(3.5, 0))
        case "queued":
            painter.drawEllipse(centre, 4.6, 4.6)
            painter.drawPoint(centre)
        case _:
            painter.drawEllipse(centre, 4.6, 4.6)


def _shape(centre: QPointF, *points: tuple[float, float]) -> QPolygonF:
    return QPolygonF([centre + QPointF(x, y) for x, y in points])


class StageGroup(QWidget):
    """The dots of some stages, with what they do together below a label of two lines."""

    def __init__(
        self, title: str, buttons: Sequence[StageButton], theme: Callable[[], Theme],
        parent: QWidget,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self._title, self._buttons, self._theme = title, tuple(buttons), theme
        self.label, self.state = Label(title, self), Label("", self)
        # Room for the widest text: the bar does not move under the pointer.
        self.state.setFixedWidth(_GROUP_PX)
        for label in (self.label, self.state):
            label.setObjectName("StageLabel")
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        texts = QVBoxLayout()
        texts.setSpacing(0)
        texts.addWidget(self.label)
        texts.addWidget(self.state)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for button in buttons:
            layout.addWidget(button)
        layout.addLayout(texts)
        self.set_labelled(on=False)
        self.render_state()

    def render_state(self) -> None:
        """Show the time of the stages, or the progress of the one that runs."""
        views = [button.view for button in self._buttons if button.view.state != "unavailable"]
        self.setVisible(bool(views))
        self.state.setText(group_text(views))
        theme = self._theme()
        worst = next((v for v in views if is_bad(v)), None)
        running = any(v.state == "running" for v in views)
        colour = theme.bad if worst else theme.accent if running else theme.muted
        look = f"color: {colour};"
        if self.state.styleSheet() != look:
            self.state.setStyleSheet(look)

    @property
    def label_px(self) -> int:
        """The width that the label takes; 0 without one."""
        return self.minimumSizeHint().width() - len(self._buttons) * _DOT_PX

    def set_labelled(self, *, on: bool) -> None:
        """Show the label, or the dots alone."""
        self.label.setVisible(on)
        self.state.setVisible(on)


def group_text(views: Sequence[StageView]) -> str:
    """Return the state of a group of stages in a word: progress, failure, or their time."""
    for view in views:
        if view.state == "running":
            return f"{view.fraction:.0%}" if view.fraction is not None else duration(view.elapsed_s)
    if any(is_bad(view) for view in views):
        return "failed" if any(view.state == "failed" for view in views) else "not met"
    for state in ("queued", "blocked"):
        if any(view.state == state for view in views):
            return STATE_WORDS[state]
    if views and all(view.state == "cached" for view in views):
        times = [view.elapsed_s for view in views if view.elapsed_s is not None]
        return duration(sum(times)) if times else "done"
    return "\u2013"


class _CutButton(QPushButton):
    """A button whose text is cut where the bar is narrow."""

    def __init__(self, least_px: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._whole, self._least_px = "", least_px
        # By default, a layout keeps a button from being narrower than its text.
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def render_text(self, text: str) -> None:
        """Show a text."""
        if text != self._whole:
            self._whole = text
            self.updateGeometry()
            above = self.parentWidget()
            if above is not None and (layout := above.layout()) is not None:
                # A text is cut to the width that it gets, not to that of the former one.
                layout.activate()
            self._cut()

    def sizeHint(self) -> QSize:
        advance, hint = self.fontMetrics().horizontalAdvance, super().sizeHint()
        return QSize(hint.width() + advance(self._whole) - advance(self.text()), hint.height())

    def minimumSizeHint(self) -> QSize:
        hint = self.sizeHint()
        return QSize(min(hint.width(), self._least_px), hint.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._cut()

    def _cut(self) -> None:
        metrics, missing = self.fontMetrics(), max(self.sizeHint().width() - self.width(), 0)
        room = metrics.horizontalAdvance(self._whole) - missing
        elided = metrics.elidedText(self._whole, Qt.TextElideMode.ElideRight, room)
        text = elided if missing > _ROUNDING_PX else self._whole
        if text != self.text():
            self.setText(text)


class _GoalButton(_CutButton):
    """The target in words."""

    def render_goal(self, goal: str) -> None:
        """Show a target."""
        self.setAccessibleDescription(goal)
        self.setToolTip(literal(f"{goal}\nClick to change it."))
        self.render_text(goal)


class _StatusButton(_CutButton):
    """The present state in words, with the progress as a line below."""

    def __init__(self, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(_STATUS_PX, parent)
        self._theme = theme
        self.share: float | None = None
        self.setProperty("flat", True)
        self.setAccessibleName("Stages")
        self.setToolTip("All stages with their states")

    def render_status(self, status: str) -> None:
        """Show a state."""
        if status != self._whole:
            self.setAccessibleDescription(status)
            self.setToolTip(literal(f"{status}\nClick for all stages with their states."))
            self.render_text(status)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.share is None:
            return
        theme = self._theme()
        painter = QPainter(self)
        painter.setPen(Qt.PenStyle.NoPen)
        bar = QRectF(8, self.height() - 4, self.width() - 28, 2.5)
        painter.setBrush(QColor(theme.border))
        painter.drawRoundedRect(bar, 1, 1)
        bar.setWidth(max(3.0, bar.width() * self.share))
        painter.setBrush(QColor(theme.accent))
        painter.drawRoundedRect(bar, 1, 1)
        painter.end()


class TargetPopup(QFrame):
    """The form of target and board below the bar's target button."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("TargetPopup")
        self.target = TargetForm(self, only=BAR_OPTIONS)
        self.board = BoardBox(self)
        self.options = QPushButton("All options\u2026", self)
        self.options.setToolTip("All target options, including a custom Vela .ini file")
        form = QFormLayout()
        form.setHorizontalSpacing(10)
        form.setContentsMargins(0, 0, 0, 0)
        label = Label("Board", self)
        label.setMinimumWidth(LABELS_PX)
        form.addRow(label, self.board)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 12, 14, 12)
        layout.setSpacing(8)
        layout.addLayout(form)
        layout.addWidget(self.target)
        layout.addWidget(self.options, 0, Qt.AlignmentFlag.AlignRight)


class PipelineBar(QWidget):
    """Shows the target and the stages, and emits what the user starts.

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
        self._is_working = False
        self._switch_texts: dict[QCheckBox, str] = {}
        # The devices of the project's board.
        self._devices: tuple[tuple[str, Path], frozenset[str] | None] = (("", Path()), None)
        self._build()

    def render_stages(self, stages: Sequence[StageView], *, working: bool) -> None:
        """Show all stages. Cancel is visible while a job runs."""
        self.set_working(working)
        for view in stages:
            self.render_stage(view)

    def render_stage(self, view: StageView) -> None:
        """Show one stage."""
        button = self._buttons[view.id]
        if button.view != view:
            button.render_stage(view)
        self._run_actions[view.id].setEnabled(view.state != "unavailable")
        self._show_status()

    def set_working(self, working: bool) -> None:
        """Set whether a job runs."""
        self._is_working = working
        self.cancel.setEnabled(working)
        self.cancel.setVisible(working)
        self._show_status()

    def render_project(self, project: Project, folder: Path) -> None:
        """Show target and board; relative paths of the project start at ``folder``."""
        self.target.render_choice(project.target, folder)
        self.board.render_board(project.board, folder)
        key = (project.board, folder)
        if self._devices[0] != key:
            self._devices = (key, board_devices(project.board, folder))
        devices = self._devices[1]
        self.target.offer_devices(Path(project.board).stem, devices)
        text = target_text(project.target, project.board, folder)
        lacks = devices is not None and project.target.id not in devices
        self.goal.render_goal(f"{text} (no such NPU)" if lacks else text)
        self.goal.setProperty("invalid", lacks)
        self.goal.style().polish(self.goal)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.run.setIcon(icon("run", theme.accent_text))
        self.cancel.setIcon(icon("stop", theme.bad))
        self.goal.setIcon(icon("chip", theme.muted))
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.cancel.setText("Cancel" if event.size().width() >= _NARROW_PX else "")
        self._show_parts(event.size().width())

    def minimumSizeHint(self) -> QSize:
        """Return the size without what the bar leaves out where it is narrow."""
        hint = super().minimumSizeHint()
        spare = sum(group.label_px for group in self.groups)
        shown = (switch for switch in self._switch_texts if not switch.isHidden())
        spare += sum(switch.minimumSizeHint().width() + _SPACING_PX for switch in shown)
        hint.setWidth(hint.width() - spare)
        return hint

    def _show_parts(self, width: int) -> None:
        """Show the labels and switches that a width has room for."""
        for group in self.groups:
            group.set_labelled(on=width >= _UNLABELLED_PX)
        for switch, whole in self._switch_texts.items():
            switch.setText(whole if width >= _WHOLE_SWITCH_PX else _SHORT_SWITCH)
            switch.setVisible(width >= _SWITCHED_PX)

    def add_tool(self, action: QAction) -> None:
        """Add a button for an action at the right end."""
        button = QToolButton(self)
        button.setDefaultAction(action)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        button.setFixedSize(30, 30)
        keys = action.shortcut().toString()
        words = action.text().replace("&", "").rstrip("\u2026")
        button.setToolTip(literal(f"{words} ({keys})" if keys else words))
        button.setAccessibleName(words)
        self._tools.addWidget(button)

    def add_switch(self, switch: QCheckBox) -> None:
        """Add a switch of the runs, beside Run; its text is short where the bar is narrow."""
        self._switch_texts[switch] = switch.text()
        switch.setAccessibleName(switch.text())
        self._switches.addWidget(switch)
        self._show_parts(self.width())

    def button(self, stage_id: StageId) -> StageButton:
        """Return the dot of a stage."""
        return self._buttons[stage_id]

    def _build(self) -> None:
        self.popup = TargetPopup(self)
        self.target, self.board = self.popup.target, self.popup.board
        self.options = self.popup.options
        self.target.chosen.connect(self.target_chosen)
        self.board.chosen.connect(self.board_chosen)
        self.options.clicked.connect(self._on_options_clicked)
        self.goal = _GoalButton(_GOAL_PX, self)
        self.goal.setProperty("menu", True)
        self.goal.setAccessibleName("Target and board")
        self.goal.clicked.connect(self.show_target)
        self._build_run()
        self.status = _StatusButton(self._theme, self)
        self._stages = QMenu(self.status)
        self._stages.aboutToShow.connect(self._fill_stages)
        self.status.setMenu(self._stages)
        self._switches = QHBoxLayout()
        self._tools = QHBoxLayout()
        self._tools.setSpacing(2)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2, 0, 2, 0)
        layout.setSpacing(_SPACING_PX)
        layout.addWidget(self.run)
        layout.addWidget(self.cancel)
        layout.addLayout(self._switches)
        layout.addWidget(self.goal)
        layout.addSpacing(4)
        layout.addLayout(self._build_stages())
        layout.addWidget(self.status)
        layout.addStretch(1)
        layout.addLayout(self._tools)
        self.setFixedHeight(RUN_BAR_PX)

    def _build_stages(self) -> QHBoxLayout:
        """Create the dots of all stages in their groups."""
        dots = QHBoxLayout()
        dots.setSpacing(0)
        for stage in STAGES:
            button = StageButton(StageView(stage.id, stage.title), self._theme, self)
            button.clicked.connect(partial(self._on_stage_clicked, stage.id))
            self._buttons[stage.id] = button
        self.groups = [
            StageGroup(title, [self._buttons[stage] for stage in stages], self._theme, self)
            for title, stages in GROUPS
        ]
        for group in self.groups:
            dots.addWidget(group)
        return dots

    def _build_run(self) -> None:
        self.run = QToolButton(self)
        self.run.setObjectName("RunButton")
        self.run.setText("Run")
        self.run.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.run.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self.run.setAccessibleName("Run all stages, or up to one")
        self.run.setToolTip("Run all stages that are not up to date (F5)")
        self.run.clicked.connect(partial(self._on_run_triggered, ""))
        menu = QMenu(self.run)
        self._run_actions: dict[StageId, QAction] = {}
        menu.addAction("Run all").triggered.connect(partial(self._on_run_triggered, ""))
        menu.addSeparator()
        for stage in STAGES:
            action = menu.addAction(f"Run to {stage.title}")
            action.triggered.connect(partial(self._on_run_triggered, stage.id))
            self._run_actions[stage.id] = action
        self.run.setMenu(menu)
        # ``resizeEvent`` gives it a text where there is room.
        self.cancel = QPushButton(self)
        self.cancel.setAccessibleName("Cancel")
        self.cancel.setToolTip("Cancel all jobs (Ctrl+.)")
        self.cancel.setEnabled(False)
        # The bar needs the same width with and without a job.
        keeps = self.cancel.sizePolicy()
        keeps.setRetainSizeWhenHidden(True)
        self.cancel.setSizePolicy(keeps)
        self.cancel.hide()
        self.cancel.clicked.connect(self.cancel_asked)

    def show_target(self) -> None:
        """Open the form of target and board below its button."""
        self.popup.adjustSize()
        self.popup.move(self.goal.mapToGlobal(QPoint(0, self.goal.height() + 2)))
        self.popup.show()
        self.target.device.setFocus(Qt.FocusReason.PopupFocusReason)

    def _show_status(self) -> None:
        views = [button.view for button in self._buttons.values()]
        self.status.render_status(status_text(views))
        for group in self.groups:
            group.render_state()
        running = [v for v in views if v.state == "running"]
        self.status.share = running[-1].fraction if running else None
        self.status.update()

    def _fill_stages(self) -> None:
        self._stages.clear()
        for stage_id, button in self._buttons.items():
            view = button.view
            text = f"{view.title}\t{button.second_line()}"
            action = self._stages.addAction(text)
            action.setToolTip(literal(button.toolTip()))
            action.setEnabled(view.state != "unavailable")
            action.triggered.connect(partial(self._on_stage_clicked, stage_id))
        self._stages.setToolTipsVisible(True)

    def _on_options_clicked(self) -> None:
        self.popup.hide()
        self.options_asked.emit()

    def _on_run_triggered(self, stage_id: StageId | Literal[""]) -> None:
        self.run_asked.emit(stage_id)

    def _on_stage_clicked(self, stage_id: StageId) -> None:
        if self._buttons[stage_id].view.state == "cached":
            self.result_asked.emit(stage_id)
        else:
            self.run_asked.emit(stage_id)


def board_devices(board: str, folder: Path) -> frozenset[str] | None:
    """Return the ids of a board's devices; None without a board, or if it cannot be read."""
    if not board:
        return None
    try:
        npus = load(board, folder).npu
    except (OSError, WorkbenchError):
        return None
    return frozenset(device for npu in npus for device in npu.devices)


def target_text(choice: TargetChoice, board: str, folder: Path) -> str:
    """Return device, memory mode and board in one line."""
    try:
        target = target_of(choice.id)
    except WorkbenchError:
        return choice.id
    titles = {variant.id: variant.title for variant in target.variants}
    complete = target.complete(choice, folder)
    mode = complete.options.get("memory_mode")
    parts = [titles[complete.id], str(mode) if mode else "", Path(board).stem if board else ""]
    return " \u00b7 ".join(part for part in parts if part)


def status_text(views: Sequence[StageView]) -> str:
    """Return what runs, else what failed, else how far the results are up to date."""
    for view in views:
        if view.state == "running":
            share = f" {view.fraction:.0%}" if view.fraction is not None else "\u2026"
            return f"{STAGES_BY_ID[view.id].verb}{share}"
    for view in views:
        if is_bad(view):
            words = _REFUSED.get(view.id, "differs") if view.differs else "failed"
            return f"{view.title}: {words}" if view.id in _REFUSED else f"{view.title} {words}"
    for view in views:
        if view.state == "blocked":
            return f"{view.title} cannot run"
    if any(view.state == "queued" for view in views):
        return "Waiting for the engine"
    offered = [view for view in views if view.state != "unavailable"]
    done = [view for view in offered if view.state == "cached"]
    if len(done) == len(offered):
        return "Up to date"
    return f"{len(done)} of {len(offered)} stages done" if done else "Not run"
