"""The bar: Run with Cancel, target and board, and the stages in labelled groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
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
from ui.shared.target_form import BAR_OPTIONS, LABELS_PX, BoardBox, TargetForm, board_title
from ui.shared.theme import Theme, icon
from ui.shell.panels import RUN_BAR_PX
from ui.shell.stage_marks import GROUPS, StageButton, StageGroup, status_text
from ui.state.session import StageView
from workbench.deploy.boards import load
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.targets import target_of

# Least widths of the buttons of the target and of the state.
_GOAL_PX, _STATUS_PX, _TOOLCHAIN_PX = 130, 80, 60
# Below these widths of the bar, Cancel is its sign alone, and groups of stages have no label.
_NARROW_PX, _UNLABELLED_PX = 960, 1310
# Below these widths the switch of automatic runs has a short text, and is in the menu only.
_WHOLE_SWITCH_PX, _SWITCHED_PX = 1440, 1100
_SPACING_PX = 8
# How much widths of a whole and a cut text may differ by rounding.
_ROUNDING_PX = 2
_SHORT_SWITCH = "Auto"


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
    """The target, or the toolchain, in words."""

    def render_goal(self, goal: str, details: str = "") -> None:
        """Show a target or a toolchain."""
        self.setAccessibleDescription(goal)
        self.setToolTip(literal(f"{details or goal}\nClick to change it."))
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
        toolchains_asked: the dialog with all toolchains is to be opened.
    """

    run_asked = Signal(str)
    result_asked = Signal(str)
    cancel_asked = Signal()
    target_chosen = Signal(object)
    board_chosen = Signal(str)
    options_asked = Signal()
    toolchains_asked = Signal()

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

    def render_project(self, opened: OpenProject) -> None:
        """Show target and board of a project."""
        project, folder = opened.project, opened.folder
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
        # The program's own toolchain needs no words.
        self.toolchain.setVisible(bool(project.toolchain))
        self.toolchain.render_goal(project.toolchain, project.toolchain_versions)

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
        self.toolchain = _GoalButton(_TOOLCHAIN_PX, self)
        self.toolchain.setAccessibleName("Toolchain")
        self.toolchain.clicked.connect(self.toolchains_asked)
        self.toolchain.hide()
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
        layout.addWidget(self.toolchain)
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
        self._reading = ""
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

    def show_reading(self, text: str) -> None:
        """Show what is read to plan, in place of the state of the stages; "" for nothing."""
        if text != self._reading:
            self._reading = text
            self._show_status()

    def _show_status(self) -> None:
        views = [button.view for button in self._buttons.values()]
        self.status.render_status(self._reading or status_text(views))
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
    """Return board, device and memory mode in one line."""
    try:
        target = target_of(choice.id)
    except WorkbenchError:
        return choice.id
    titles = {variant.id: variant.title for variant in target.variants}
    complete = target.complete(choice, folder)
    mode = complete.options.get("memory_mode")
    title = board_title(board, folder) if board else ""
    parts = [title, titles[complete.id], str(mode) if mode else ""]
    return " \u00b7 ".join(part for part in parts if part)
