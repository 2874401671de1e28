"""The program viewer: a read-only window for one ``.pte`` file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QVBoxLayout, QWidget

from ui.features.program_viewer.commands_view import CommandsView
from ui.features.program_viewer.execution_view import ExecutionView
from ui.features.program_viewer.parts_view import PartsView
from ui.features.program_viewer.plan_view import PlanView
from ui.features.program_viewer.program_contents import Contents
from ui.features.program_viewer.program_tables import (
    CONSTANT_COLUMNS,
    INSTRUCTION_COLUMNS,
    KERNEL_COLUMNS,
    KernelRow,
    shape_text,
)
from ui.shared.appearance import Appearance
from ui.shared.figure_cards import Card, FigureCards
from ui.shared.forms import resize_on_screen
from ui.shared.labels import ElidedLabel, Label, literal
from ui.shared.number_format import count, size
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from ui.state.background import Background
from workbench.pte import vela_stream
from workbench.pte.description import (
    Constant,
    Instruction,
    calls_of_kernels,
    constants,
    instructions,
    memory_of,
)
from workbench.pte.program import Delegate, Method

_SIZE = (1180, 780)
_OF_FILE = "from the program"
_COMPUTED = "computed from the program"
_ONLY_DELEGATES = "All constants of this program are in its delegates"
NO_KERNEL = "The program needs no kernel: nothing runs on the CPU."


class ProgramWindow(QWidget):
    """Shows one program: figures above, parts of the selected method in tabs.

    Signals:
        closed: the window was closed.
        dropped: paths that were dropped on the window.
    """

    closed = Signal()
    dropped = Signal(object)

    def __init__(self, contents: Contents, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("PanelBody")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAcceptDrops(True)
        self._appearance = appearance
        self._background = Background(self)
        self._build()
        appearance.changed.connect(self.set_theme)
        resize_on_screen(self, *_SIZE)
        self.render_contents(contents)
        self.set_theme(appearance.theme)

    def render_contents(self, contents: Contents) -> None:
        """Show a file and its first method."""
        self.contents = contents
        self.setWindowTitle(f"{contents.path.name} \u2013 Program viewer")
        self.path.setText(str(contents.path))
        self.path.setToolTip(literal(str(contents.path)))
        self.about.setText(
            f"SHA-256 {contents.sha256[:16]}\u2026   "
            f"{contents.form}, schema version {contents.program.version}"
        )
        self.about.setToolTip(literal(f"SHA-256 {contents.sha256}"))
        names = [method.name for method in contents.program.methods]
        self.methods.clear()
        self.methods.addItems(names)
        self.method_label.setVisible(len(names) > 1)
        self.methods.setVisible(len(names) > 1)
        self._show_method(0)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for table in (self.instruction_table, self.constant_table, self.kernel_table):
            table.set_look(theme, stale=False)
        self.commands.set_theme(theme)
        self.plan.set_theme(theme)
        self.execution.set_theme(theme)
        self._show_cards()

    def step_to(self, delegate: int, offset: int) -> None:
        """Execute the program, and choose the command at an offset [bytes]."""
        self.tabs.setCurrentWidget(self.execution)
        self.execution.step_to(delegate, offset)

    def stop(self) -> None:
        """Stop background work."""
        self._background.stop()

    def _build(self) -> None:
        self.path = ElidedLabel("", self)
        self.path.elide = Qt.TextElideMode.ElideMiddle
        self.about = Label("", self)
        for label in (self.path, self.about):
            label.setObjectName("Hint")
        self.method_label = Label("Method", self)
        self.methods = QComboBox(self)
        self.methods.setAccessibleName("Method")
        self.methods.activated.connect(self._show_method)
        self.cards = FigureCards(self)
        self.parts = PartsView(self)
        self.commands = CommandsView(self._background, self)
        self.plan = PlanView(self)
        self.execution = ExecutionView(self._background, self)
        self.instructions = FigureTableModel(INSTRUCTION_COLUMNS, _instruction_text, self)
        self.instruction_table = FigureView("Instructions", self.instructions, self, widest_px=620)
        self.constants = FigureTableModel(CONSTANT_COLUMNS, _constant_text, self)
        self.constant_table = FigureView("Constants", self.constants, self)
        self.kernels = FigureTableModel(KERNEL_COLUMNS, lambda row: row.name, self)
        self.kernel_table = FigureView("Kernels", self.kernels, self, widest_px=620, empty=NO_KERNEL)
        self.tabs = Tabs(self)
        for widget, title in (
            (self.parts, "Parts"),
            (self.commands, "NPU commands"),
            (self.execution, "Execute"),
            (self.instruction_table, "Instructions"),
            (self.plan, "Memory plan"),
            (self.constant_table, "Constants"),
            (self.kernel_table, "Kernels"),
        ):
            self.tabs.addTab(widget, title)
        self._lay_out()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.path, 1)
        head.addWidget(self.about)
        head.addWidget(self.method_label)
        head.addWidget(self.methods)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 6)
        layout.setSpacing(6)
        layout.addLayout(head)
        layout.addWidget(self.cards)
        layout.addWidget(self.tabs, 1)
        for keys, act in (
            (QKeySequence.StandardKey.Close, self.close),
            (QKeySequence.StandardKey.Find, self._find),
        ):
            QShortcut(QKeySequence(keys), self).activated.connect(act)

    def _show_method(self, index: int) -> None:
        self.method = self.contents.program.methods[index]
        method = self.method
        self.parts.render_method(self.contents, method)
        self.commands.render_delegates(method.delegates)
        self.plan.render_method(method)
        self.execution.render_method(
            self.contents.path, method.name, has_vectors=bool(self.contents.program.test_cases)
        )
        self.instructions.set_rows(instructions(method))
        self.constants.set_rows(constants(self.contents.program, method))
        self.kernels.set_rows(KernelRow(*kernel) for kernel in calls_of_kernels(method).items())
        has_npu = any(d.backend == vela_stream.ETHOS_U for d in method.delegates)
        self.tabs.setTabEnabled(self.tabs.indexOf(self.commands), has_npu)
        has_constants = bool(self.constants.rowCount())
        tab = self.tabs.indexOf(self.constant_table)
        self.tabs.setTabEnabled(tab, has_constants)
        self.tabs.setTabToolTip(tab, "" if has_constants else _ONLY_DELEGATES)
        self._show_cards()

    def _show_cards(self) -> None:
        program, needs = self.contents.program, memory_of(self.method)
        planned = " + ".join(size(max(n, 0)) for n in needs.planned_bytes) or size(0)
        constant_bytes = sum(program.constants) + sum(map(_constant_bytes, self.method.delegates))
        cases = program.test_cases
        self.cards.render_cards(
            [
                Card("File", size(self.contents.bytes), "measured: the file"),
                Card("Delegates", _backends(self.method), _OF_FILE),
                Card("Instructions", count(len(self.method.calls)), _OF_FILE),
                Card("Constants", size(constant_bytes), _OF_FILE, "Constant buffers, and the NPU's weights"),
                Card("Planned buffers", planned, _OF_FILE, "One figure per memory"),
                Card(
                    "Method pool",
                    size(needs.method_pool_bytes),
                    _COMPUTED,
                    "Planned buffers and runtime structures",
                ),
                Card("Scratch pool", size(needs.scratch_pool_bytes), _COMPUTED, "Scratch memory for the NPU"),
                *([Card("Test vectors", count(cases), _OF_FILE)] if cases else []),
            ],
            self._appearance.theme,
        )

    def _find(self) -> None:
        self.tabs.setCurrentWidget(self.commands)
        self.commands.search.setFocus()

    def closeEvent(self, event: QCloseEvent) -> None:
        super().closeEvent(event)
        self.stop()
        self.closed.emit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [Path(u.toLocalFile()) for u in event.mimeData().urls() if u.isLocalFile()]
        if paths:
            event.acceptProposedAction()
            self.dropped.emit(paths)


def _backends(method: Method) -> str:
    names = dict.fromkeys(delegate.backend for delegate in method.delegates)
    if not names:
        return "none"
    if len(names) == 1:
        name = next(iter(names)).removesuffix("Backend")
        return f"{len(method.delegates)} \u00d7 {name}"
    return f"{len(method.delegates)} of {len(names)} backends"


def _constant_bytes(delegate: Delegate) -> int:
    """Return the size of the weights in a delegate; of all its data if it is not decoded."""
    if delegate.backend != vela_stream.ETHOS_U:
        return len(delegate.data)
    weights = vela_stream.blocks(delegate.data).get("weight_data")
    return len(weights.data) if weights is not None else 0


def _instruction_text(row: Instruction) -> str:
    return "\n".join((f"{row.number}: {row.kind} {row.name}".rstrip(), *row.values))


def _constant_text(row: Constant) -> str:
    kind = f"{row.dtype} {shape_text(row.shape)}" if row.dtype else "not a tensor of this method"
    return f"buffer {row.index}, {size(row.bytes)}\n{kind}"
