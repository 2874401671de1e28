"""The Simulator panel: simulator and runner of this machine, and the result of a simulation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from html import escape
from pathlib import Path

from pydantic import JsonValue
from PySide6.QtCore import QSortFilterProxyModel, Qt, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QListView,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.features.simulator.board_dialog import BoardDialog
from ui.features.simulator.firmware_dialog import FirmwareDialog
from ui.features.simulator.run_log import TextFileModel
from ui.features.simulator.run_view import SimulationView
from ui.features.simulator.runner_dialog import RunnerDialog
from ui.shared.chip import LineDelegate
from ui.shared.figure_cards import FigureCards
from ui.shared.file_dialogs import ask_to_open
from ui.shared.labels import Label, literal
from ui.shared.log_lines import Role
from ui.shared.result_panel import ResultPanel, StageFrame
from ui.shared.simulation_text import simulation_cards, simulation_text
from ui.shared.tabs import SplitOrTabs
from ui.shared.theme import Theme
from ui.shared.wrapping_row import FlowRow
from ui.state.jobs import Job
from ui.state.selection import Selected
from workbench.deploy.emulation.proofs import KeptProof, stored_proof
from workbench.deploy.simulators.compatibility import Setup, read_runner, runner_for
from workbench.deploy.simulators.discovery import (
    BoardLink,
    MachineSettings,
    adopt_runner,
    device_of,
    find,
    load_settings,
    save_settings,
    simulating_board,
)
from workbench.deploy.simulators.log_parser import level_of
from workbench.deploy.simulators.runner_build import known_checkouts
from workbench.errors import ErrorInfo, WorkbenchError
from workbench.pipeline.plan import simulator_setup
from workbench.project.model import Project
from workbench.results import SimulationResult, VerifyResult
from workbench.targets import target_of


class SimulatorFiles(QWidget):
    """Path fields for simulator and runner, the board, and the simulation switches.

    Signals:
        board_asked: the port and command of the board are to be set.
        board_switched: whether the board takes the place of the simulator.
        proof_asked: firmware is to be proved on the emulated board.
        simulator_chosen: path of a simulator.
        runner_chosen: path of a runner.
        fast_switched: whether to simulate without cycle counts.
        build_asked: a runner is to be built.
        build_stopped: the running build is to be cancelled.
        trace_switched: whether the cycles of each operation are traced.
    """

    simulator_chosen = Signal(str)
    runner_chosen = Signal(str)
    fast_switched = Signal(bool)
    trace_switched = Signal(bool)
    board_asked = Signal()
    board_switched = Signal(bool)
    proof_asked = Signal()
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
        self.build.setToolTip("Build a runner from an ExecuTorch checkout")
        self.build.clicked.connect(self._on_build_clicked)
        grid.addWidget(self.build, 1, 3)
        self._is_building = False
        self.choose_simulator.clicked.connect(
            lambda: self._ask("Simulator (FVP)", self.simulator_chosen.emit)
        )
        self.choose_runner.clicked.connect(
            lambda: self._ask("Runner (arm_executor_runner)", self.runner_chosen.emit)
        )
        self._add_board(grid, 2)
        self._add_emulated(grid, 3)
        self._add_switches(grid, 4)
        self.hint = Label(self)
        self.hint.setObjectName("Hint")
        self.hint.setWordWrap(True)
        self.hint.setTextFormat(Qt.TextFormat.RichText)
        self.hint.setOpenExternalLinks(True)
        grid.addWidget(self.hint, 5, 0, 1, 4)
        self.progress = QProgressBar(self)
        self.progress.setAccessibleName("Building a runner")
        self.progress.setFormat("Building a runner: %p %")
        self.progress.hide()
        grid.addWidget(self.progress, 6, 0, 1, 4)
        grid.setRowStretch(7, 1)

    def _add_switches(self, grid: QGridLayout, row: int) -> None:
        self.fast = QCheckBox("Functional only (faster, no cycles)", self)
        self.fast.clicked.connect(self.fast_switched)
        self.trace = QCheckBox("Cycles by operation (PMU trace)", self)
        self.trace.clicked.connect(self.trace_switched)
        switches = FlowRow(self)
        switches.add(self.fast, self.trace)
        grid.addWidget(switches, row, 1, 1, 3)

    def _add_board(self, grid: QGridLayout, row: int) -> None:
        self.board = Label(self)
        self.on_board = QCheckBox("Run on the board", self)
        self.on_board.clicked.connect(self.board_switched)
        self.set_board = QPushButton("Set up\u2026", self)
        self.set_board.setAccessibleName("Set up board")
        self.set_board.clicked.connect(self.board_asked)
        parts = (Label("Board", self), self.board, self.set_board, self.on_board)
        for column, part in enumerate(parts):
            grid.addWidget(part, row, column)

    def _add_emulated(self, grid: QGridLayout, row: int) -> None:
        self.firmware = Label(self)
        self.firmware.setWordWrap(True)
        self.prove = QPushButton("Prove\u2026", self)
        self.prove.setAccessibleName("Prove firmware")
        self.prove.clicked.connect(self.proof_asked)
        parts = (Label("Emulated board", self), self.firmware, self.prove)
        for column, part in enumerate(parts):
            grid.addWidget(part, row, column)

    def render_firmware(
        self, elf: str, proof: KeptProof | None, *, has_failed: bool, has_program: bool
    ) -> None:
        """Show the firmware that is proved on the emulated board, and its proof or last verdict."""
        state = f": {proof.short}" if proof is not None else ": not proven" if has_failed else ""
        self.firmware.setText(f"{_short(Path(elf))}{state}" if elf else "no firmware chosen")
        self.firmware.setToolTip(literal(f"{elf}\n{proof.sentence}" if proof is not None else elf))
        self.prove.setEnabled(has_program)
        self.prove.setToolTip(
            "Run your firmware with Arm's NPU driver under QEMU, and check what it does"
            if has_program
            else "Package the program first: firmware is proved with it"
        )

    def render_machine(
        self, simulator: Path | None, runner: Path | None, hint: str, *, fast: bool, trace: bool
    ) -> None:
        """Show the paths; None is not found."""
        self.simulator.setText(_short(simulator) or "not found")
        self.simulator.setToolTip(literal(str(simulator or "")))
        self.runner.setText(_short(runner) or "not set for this target")
        self.runner.setToolTip(literal(str(runner or "")))
        self.fast.setChecked(fast)
        self.trace.setChecked(trace and not fast)
        self.trace.setEnabled(not fast)
        self.trace.setToolTip("Not available in functional mode" if fast else "")
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))

    def render_board(self, link: BoardLink | None) -> None:
        """Show the board of this machine; None if there is none."""
        self.board.setText(link.port if link else "not set")
        self.board.setToolTip(literal(link.flash if link else ""))
        self.on_board.setEnabled(link is not None)
        self.on_board.setToolTip("" if link is not None else "Set up a board first")
        self.on_board.setChecked(link is not None and link.simulate)
        if link is not None and link.simulate:
            self.fast.setEnabled(False)
            self.trace.setEnabled(False)
        else:
            self.fast.setEnabled(True)

    def render_build(self, share: float | None) -> None:
        """Show the progress of a build in [0, 1]; None if no build is running."""
        self._is_building = share is not None
        self.build.setText("Stop" if self._is_building else "Build\u2026")
        self.build.setAccessibleName("Stop building" if self._is_building else "Build a runner")
        self.progress.setVisible(self._is_building)
        self.progress.setValue(round(100 * (share or 0.0)))

    def _on_build_clicked(self) -> None:
        (self.build_stopped if self._is_building else self.build_asked).emit()

    def _line(self, grid: QGridLayout, row: int, title: str) -> tuple[Label, QPushButton]:
        name, value = Label(title, self), Label(self)
        value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        value.setMinimumWidth(80)
        value.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        button = QPushButton("Choose\u2026", self)
        button.setAccessibleName(f"Choose {title.lower()}")
        for column, part in enumerate((name, value, button)):
            grid.addWidget(part, row, column)
        return value, button

    def _ask(self, title: str, chosen: Callable[[str], object]) -> None:
        ask_to_open(self, title, chosen)


def _short(path: Path | None) -> str:
    """Return the last parts of a path. Runners have equal names in different folders."""
    if path is None:
        return ""
    return str(path) if len(path.parts) <= 3 else f"\u2026/{'/'.join(path.parts[-2:])}"


NOTHING = (
    "Simulate to execute the compiled program. Without an FVP: every value of every operation, "
    "compared with TOSA and the quantized model, no cycles. An FVP or a board, set up beside, "
    "measures cycles as well."
)
WITHOUT_FVP = (
    "Without a simulator of Arm (FVP) the compiled program is executed functionally: every value "
    "of every operation, compared with TOSA and the quantized model, and step by step in the "
    "program viewer. No cycles. To measure cycles:"
)
LOG_FILE = "uart.log"
# Least width of result and setup side by side.
_WIDE_PX = 900


class SimulatorPanel(ResultPanel):
    """Shows results with the serial output below, and the setup of simulator, runner and board."""

    panel_id = "simulator"

    def build_frames(self) -> None:
        self.machine = SimulatorFiles(self)
        self.machine.simulator_chosen.connect(self._on_simulator_chosen)
        self.machine.runner_chosen.connect(self._on_runner_chosen)
        self.machine.fast_switched.connect(
            lambda on: self._change(lambda s: s.model_copy(update={"fast": on}))
        )
        self.machine.trace_switched.connect(
            lambda on: self._change(lambda s: s.model_copy(update={"trace": on}))
        )
        self.machine.build_asked.connect(self._on_build_asked)
        self.machine.board_asked.connect(self._on_board_asked)
        self.machine.board_switched.connect(self._on_board_switched)
        self.machine.proof_asked.connect(self._on_proof_asked)
        # The firmware and the program of the last try.
        self._tried: tuple[str, Path] | None = None
        self._build_job = self._running = ""
        self._shown_log: Path | None = None
        # What the shown result is made of; None to show it anew.
        self._key: tuple[Path, bool, Path | None] | None = None
        self.machine.build_stopped.connect(lambda: self.context.runner.cancel(self._build_job))
        self.context.runner.job_changed.connect(self._on_job_changed)
        self.frames["run"] = StageFrame("Measurements", NOTHING, self._make, self)
        split = QSplitter(Qt.Orientation.Vertical, self)
        split.addWidget(self.frames["run"])
        split.addWidget(self._make_log())
        split.setSizes([420, 160])
        split.setCollapsible(0, False)
        self.parts = SplitOrTabs((("Result", split), ("Setup", self.machine)), (3, 2), _WIDE_PX, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.parts)

    def refresh(self) -> None:
        super().refresh()
        self._show_machine()

    def set_theme(self, theme: Theme) -> None:
        self.log.viewport().update()
        self._key = None
        if self.has("run"):
            self.show_results()

    def show_results(self) -> None:
        shown = self.read(SimulationResult, "run")
        self.show_frame("run", shown)
        if shown is None:
            return
        key = (shown.folder, shown.current, self.context.session.result("verify"))
        if key == self._key:
            return
        self._key = key
        cards = simulation_cards(shown.value)
        self.cards.render_cards(cards, self.context.theme, stale=not shown.current)
        text = simulation_text(shown.value, self.context.load(VerifyResult, "verify"))
        if shown.value.kind != "functional":
            self._show_printed(shown.folder / LOG_FILE)
            text += f"\nFull output: {shown.folder / LOG_FILE}"
        self.view.render_result(shown.value, text, self.context.theme, stale=not shown.current)

    def _show_printed(self, log: Path) -> None:
        """Show the output of a finished simulation, or the live output."""
        if self._running or log == self._shown_log:
            return
        self._shown_log = log
        self._printed.open(log)
        self.log.setModel(self._printed)
        self._show_log_if_any()

    def _show_live(self) -> None:
        self._shown_log = None
        self.log.setModel(self._live)
        self._printed.close()
        self._show_log_if_any()

    def render_selection(self, selected: Selected) -> None:
        if not self.has("run") or selected.origin == self.panel_id:
            return
        modules = selected.modules or self.context.model_index.modules_of(selected.nodes)
        self.view.choose_modules(modules)

    def _make(self, content: QWidget) -> None:
        self.cards = FigureCards(content)
        self.view = SimulationView(content)
        self.view.modules_chosen.connect(
            lambda modules: self.context.selection.choose_modules(modules, self.panel_id)
        )
        layout = QVBoxLayout(content)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(8)
        layout.addWidget(self.cards)
        layout.addWidget(self.view, 1)

    def _make_log(self) -> QListView:
        self._live = QSortFilterProxyModel(self)
        self._live.setSourceModel(self.context.log)
        self._live.setFilterRole(Role.STAGE)
        self._live.setFilterRegularExpression("^run$")
        self._printed = TextFileModel(level_of, self)
        self.log = QListView(self)
        self.log.setModel(self._live)
        self.log.setAccessibleName("Serial output")
        self.log.setUniformItemSizes(True)
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        self.log.setFont(font)
        self.log.setItemDelegate(LineDelegate(lambda: self.context.theme, Role.LEVEL, self.log))
        self._live.rowsInserted.connect(self.log.scrollToBottom)
        for model in (self._live, self._printed):
            for changed in (model.modelReset, model.rowsInserted, model.rowsRemoved):
                changed.connect(self._show_log_if_any)
        self._show_log_if_any()
        return self.log

    def _show_log_if_any(self) -> None:
        """Hide the output of simulations that have none: those without a device."""
        self.log.setVisible(self.log.model().rowCount() > 0)

    def _show_machine(self) -> None:
        project = self.context.document.project
        if project is None:
            return
        try:
            is_simulated = "run" in target_of(project.target.id).stages
        except WorkbenchError:
            is_simulated = False
        self.parts.set_part_visible(1, is_simulated)
        if not is_simulated:
            return
        setup = simulator_setup(project)
        hint = (
            ""
            if isinstance(setup, Setup) or simulating_board() is not None
            else f"{WITHOUT_FVP} {_remedy(setup)}"
        )
        settings, installed, runner = MachineSettings(), None, None
        with contextlib.suppress(WorkbenchError):
            settings = load_settings()
            device = device_of(project.target.id)
            installed = find(device.simulator, settings)
            runner = runner_for(device, _memory_mode(project), settings)
        self.machine.render_machine(
            installed.path if installed else None,
            runner.path if runner else None,
            hint,
            fast=settings.fast,
            trace=settings.trace,
        )
        self.machine.render_board(settings.board)
        program = self._program()
        proof = stored_proof(Path(settings.firmware), program) if settings.firmware and program else None
        has_failed = proof is None and self._tried == (settings.firmware, program)
        self.machine.render_firmware(
            settings.firmware, proof, has_failed=has_failed, has_program=program is not None
        )

    def _program(self) -> Path | None:
        """Return the packed program; None if there is none."""
        folder = self.context.session.result("package")
        files = sorted(folder.glob("*.pte")) if folder is not None else []
        return files[0] if files else None

    def _on_proof_asked(self) -> None:
        program, project = self._program(), self.context.document.project
        if program is None or project is None:
            return
        dialog = FirmwareDialog(program, project.target.id, load_settings().firmware, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.proved.connect(lambda elf, _: self._on_proved(elf, program))
        dialog.open()

    def _on_proved(self, elf: str, program: Path) -> None:
        self._tried = (elf, program)
        self._change(lambda settings: settings.model_copy(update={"firmware": elf}))

    def _on_board_asked(self) -> None:
        link = None
        with contextlib.suppress(WorkbenchError):
            link = load_settings().board
        dialog = BoardDialog(link, self)
        dialog.board_chosen.connect(self._on_board_chosen)
        dialog.open()

    def _on_board_chosen(self, link: BoardLink) -> None:
        self._change(lambda settings: settings.model_copy(update={"board": link}))

    def _on_board_switched(self, on: bool) -> None:
        def switch(settings: MachineSettings) -> MachineSettings:
            if settings.board is None:
                return settings
            board = settings.board.model_copy(update={"simulate": on})
            return settings.model_copy(update={"board": board})

        self._change(switch)

    def _on_simulator_chosen(self, path: str) -> None:
        project = self.context.document.project
        if project is None:
            return

        def put(settings: MachineSettings) -> MachineSettings:
            family = device_of(project.target.id).family
            return settings.model_copy(update={"simulators": {**settings.simulators, family: path}})

        self._change(put)

    def _on_runner_chosen(self, path: str) -> None:
        try:
            adopt_runner(read_runner(Path(path)).path)
        except WorkbenchError as error:
            self.context.notices.error(error)
        self._machine_changed()

    def _on_build_asked(self) -> None:
        project = self.context.document.project
        if project is None:
            return
        named = load_settings().executorch
        (checkout,) = known_checkouts(named)
        dialog = RunnerDialog(
            project.target.id,
            _memory_mode(project),
            str(checkout) if named or os.path.isdir(checkout) else "",
            self,
        )
        dialog.build_asked.connect(self._start_build)
        dialog.open()

    def _start_build(self, options: dict[str, JsonValue]) -> None:
        checkout = str(options["checkout"])
        self._change(lambda s: s.model_copy(update={"executorch": checkout}))
        opened = self.context.document.opened_project
        if opened is not None:
            self.context.runner.run_study("runner", opened, options)

    def _on_job_changed(self, job: Job) -> None:
        is_run = not job.study and job.stage == "run"
        if is_run and not job.over and self._running != job.id:
            self._running = job.id
            self._show_live()
        elif job.over and self._running == job.id:
            self._running, self._key = "", None
            self.annotate()
        if job.study == "runner":
            self._build_job = job.id
            self.machine.render_build(None if job.over else job.progress or 0.0)
            if job.state == "done":
                self._machine_changed()

    def _change(self, edit: Callable[[MachineSettings], MachineSettings]) -> None:
        """Change the machine settings, and plan again."""
        try:
            save_settings(edit(load_settings()))
        except WorkbenchError as error:
            self.context.notices.error(error)
        self._machine_changed()

    def _machine_changed(self) -> None:
        self._show_machine()
        self.context.session.machine_changed.emit()


_FVPS = "https://developer.arm.com/Tools%20and%20Software/Fixed%20Virtual%20Platforms"
_GCC = "https://developer.arm.com/downloads/-/arm-gnu-toolchain-downloads"
_EXECUTORCH = "https://github.com/pytorch/executorch"


def _remedy(info: ErrorInfo) -> str:
    """Return what to do in this panel, with the downloads. The note below says what is missing."""
    simulators = f'<a href="{_FVPS}">Arm Ecosystem FVPs</a>'
    if info.code in {"runner-not-configured", "runner-for-target-missing"}:
        return (
            "<b>1.</b> Simulator: install one of the "
            f"{simulators} and choose its executable above, unless it was found. "
            "<b>2.</b> Runner: choose a built arm_executor_runner, or click <i>Build\u2026</i>, "
            f'which needs an <a href="{_EXECUTORCH}">ExecuTorch checkout</a> and the '
            f'<a href="{_GCC}">Arm GNU Toolchain</a>.'
        )
    return f"{escape(info.hint)} Downloads: {simulators}."


def _memory_mode(project: Project) -> str:
    choice = target_of(project.target.id).complete(project.target)
    return str(choice.options.get("memory_mode", ""))
