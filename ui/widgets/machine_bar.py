"""What this machine runs programs with: the simulator, the runner, and how."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QWidget,
)


class MachineBar(QWidget):
    """Two lines with a path each, and a switch.

    Signals:
        simulator_chosen: path of a simulator.
        runner_chosen: path of a runner.
        fast_switched: whether cycles are given up for speed.
        build_asked: a runner is to be built.
        build_stopped: the build that runs is not wanted any more.
        trace_switched: whether the cycles of each operation are traced.
    """

    simulator_chosen = Signal(str)
    runner_chosen = Signal(str)
    fast_switched = Signal(bool)
    trace_switched = Signal(bool)
    build_asked = Signal()
    build_stopped = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        grid = QGridLayout(self)
        grid.setContentsMargins(8, 6, 8, 0)
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        self.simulator, self.choose_simulator = self._line(grid, 0, "Simulator")
        self.runner, self.choose_runner = self._line(grid, 1, "Runner")
        self.build = QPushButton("Build\u2026", self)
        self.build.setToolTip("Build one from an ExecuTorch checkout")
        self.build.clicked.connect(self._on_build_clicked)
        grid.addWidget(self.build, 1, 3)
        self._is_building = False
        self.choose_simulator.clicked.connect(
            lambda: self._ask("Simulator (FVP)", self.simulator_chosen.emit)
        )
        self.choose_runner.clicked.connect(
            lambda: self._ask("Runner (arm_executor_runner)", self.runner_chosen.emit)
        )
        self.fast = QCheckBox("Functional only: quicker, no cycles", self)
        self.fast.clicked.connect(self.fast_switched)
        self.trace = QCheckBox("Cycles of each operation (PMU trace)", self)
        self.trace.clicked.connect(self.trace_switched)
        switches = QHBoxLayout()
        switches.setSpacing(18)
        for switch in (self.fast, self.trace):
            switches.addWidget(switch)
        switches.addStretch(1)
        grid.addLayout(switches, 2, 1, 1, 3)
        self.hint = QLabel(self)
        self.hint.setObjectName("Hint")
        self.hint.setWordWrap(True)
        grid.addWidget(self.hint, 3, 0, 1, 4)
        self.progress = QProgressBar(self)
        self.progress.setAccessibleName("Building a runner")
        self.progress.setFormat("Building a runner: %p %")
        self.progress.hide()
        grid.addWidget(self.progress, 4, 0, 1, 4)

    def render_machine(
        self, simulator: Path | None, runner: Path | None, hint: str, *, fast: bool, trace: bool
    ) -> None:
        """Show what there is; None is what is missing."""
        self.simulator.setText(_short(simulator) or "not found")
        self.simulator.setToolTip(str(simulator or ""))
        self.runner.setText(_short(runner) or "none named for this target")
        self.runner.setToolTip(str(runner or ""))
        self.fast.setChecked(fast)
        self.trace.setChecked(trace and not fast)
        self.trace.setEnabled(not fast)
        self.trace.setToolTip("A functional run has no cycles to trace" if fast else "")
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))

    def render_build(self, share: float | None) -> None:
        """Show how far a build is, in [0, 1]; None when none runs."""
        self._is_building = share is not None
        self.build.setText("Stop" if self._is_building else "Build\u2026")
        self.build.setAccessibleName("Stop building" if self._is_building else "Build a runner")
        self.progress.setVisible(self._is_building)
        self.progress.setValue(round(100 * (share or 0.0)))

    def _on_build_clicked(self) -> None:
        (self.build_stopped if self._is_building else self.build_asked).emit()

    def _line(self, grid: QGridLayout, row: int, title: str) -> tuple[QLabel, QPushButton]:
        name, value = QLabel(title, self), QLabel(self)
        value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        value.setMinimumWidth(80)
        button = QPushButton("Choose\u2026", self)
        button.setAccessibleName(f"Choose {title.lower()}")
        for column, part in enumerate((name, value, button)):
            grid.addWidget(part, row, column)
        return value, button

    def _ask(self, title: str, chosen: object) -> None:
        dialog = QFileDialog(self, title, str(Path.home()))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(chosen)
        dialog.open()


def _short(path: Path | None) -> str:
    """Return the end of a path: runners all have the same name, their folders tell them apart."""
    if path is None:
        return ""
    return str(path) if len(path.parts) <= 3 else f"\u2026/{'/'.join(path.parts[-2:])}"
