"""The NPU commands of one delegate, with search and a list of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QLineEdit, QSplitter, QVBoxLayout, QWidget

from ui.features.program_viewer.program_contents import NpuCode, npu_code
from ui.features.program_viewer.program_tables import (
    COMMAND_COLUMNS,
    NPU_TENSOR_COLUMNS,
    CommandRow,
    describe_command,
    describe_tensor,
)
from ui.shared.labels import Label
from ui.shared.number_format import count
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shared.theme import Theme
from ui.state.background import Background
from workbench.errors import WorkbenchError
from workbench.pte.npu_commands import NpuTensor
from workbench.pte.program import Delegate

NO_COMMANDS = "This method has no Ethos-U delegate."
_TYPING_MS = 120
_VALUE, _WIDEST_VALUE = 2, "0x000000000000"


class CommandsView(QWidget):
    """Shows NPU commands, which are decoded in a worker thread on first use."""

    def __init__(self, background: Background, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._delegates: tuple[Delegate, ...] = ()
        self._rows: tuple[CommandRow, ...] = ()
        self._uses: tuple[tuple[int, ...], int] = ((), 0)
        self._asked: tuple[int, Delegate] | None = None
        self._build()
        background.done.connect(self._on_done)
        self._typing = QTimer(self, interval=_TYPING_MS, singleShot=True)
        self._typing.timeout.connect(self._show_matches)

    def render_delegates(self, delegates: Sequence[Delegate]) -> None:
        """Set the delegates of a method."""
        self._delegates = tuple(delegates)
        self._asked = None
        self.which.clear()
        for number, delegate in enumerate(delegates):
            self.which.addItem(f"Delegate {number}: {delegate.backend}")
        self.which.setVisible(len(delegates) > 1)
        if self.isVisible():
            self._ask()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for table in (self.table, self.tensor_table):
            table.set_look(theme, stale=False)

    def show_code(self, code: NpuCode) -> None:
        """Show the commands and tensors of a delegate."""
        starting = {o.offset: o for o in code.stream.operations}
        self._rows = tuple(CommandRow(c, starting.get(c.offset)) for c in code.stream.commands)
        self.tensors.set_rows(code.tensors)
        stream = code.stream
        self._heading = (
            f"{stream.family or 'Ethos-U'}-{stream.macs}, {count(len(stream.commands))} commands, "
            f"{count(len(stream.operations))} operations"
        )
        self._show_matches()

    def _build(self) -> None:
        self.which = QComboBox(self)
        self.which.setAccessibleName("Delegate")
        self.which.activated.connect(lambda _index: self._ask())
        self.search = QLineEdit(self)
        self.search.setPlaceholderText("Search, e.g. conv, IFM_BASE0, 0x1c0")
        self.search.setAccessibleName("Search the commands")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(lambda _text: self._typing.start())
        self.only = QCheckBox("Operations only", self)
        self.only.toggled.connect(lambda _on: self._show_matches())
        self.note = Label("", self)
        self.note.setObjectName("Hint")
        self.commands = FigureTableModel(COMMAND_COLUMNS, describe_command, self)
        self.table = FigureView("NPU commands", self.commands, self, widest_px=700)
        self.tensors = FigureTableModel(NPU_TENSOR_COLUMNS, describe_tensor, self)
        self.tensor_table = FigureView("NPU tensors", self.tensors, self)
        self.tensor_table.rows_chosen.connect(self._on_tensors_chosen)
        self.tensor_table.activated.connect(lambda _index: self._jump())
        self.tensor_note = Label("Tensors: select one to go to the operations that access it", self)
        self.tensor_note.setObjectName("Hint")
        head = QHBoxLayout()
        for widget, stretch in ((self.which, 0), (self.search, 1), (self.only, 0)):
            head.addWidget(widget, stretch)
        split = QSplitter(self)
        for label, table in ((self.note, self.table), (self.tensor_note, self.tensor_table)):
            side = QWidget(split)
            layout = QVBoxLayout(side)
            layout.setContentsMargins(4, 0, 0, 0)
            layout.addWidget(label)
            layout.addWidget(table, 1)
            split.addWidget(side)
        split.setSizes([620, 440])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.addLayout(head)
        layout.addWidget(split, 1)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._asked is None:
            self._ask()

    def _ask(self) -> None:
        index = max(self.which.currentIndex(), 0)
        if index >= len(self._delegates):
            self._clear(NO_COMMANDS)
            return
        delegate = self._delegates[index]
        self._asked = (index, delegate)
        self._clear("Decoding commands\u2026")
        self._background.submit("commands", lambda _outdated: (delegate, npu_code(delegate)))

    def _on_done(self, topic: str, value: object) -> None:
        if topic != "commands" or not isinstance(value, tuple) or self._asked is None:
            return
        delegate, code = value
        if delegate is not self._asked[1]:
            return
        if isinstance(code, NpuCode):
            self.show_code(code)
        elif isinstance(code, WorkbenchError):
            self._clear(code.infos[0].message)
        else:
            self._clear(f"{delegate.backend} has no Ethos-U commands.")

    def _clear(self, note: str) -> None:
        self._rows, self._heading = (), note
        self.commands.set_rows(())
        self.tensors.set_rows(())
        self.note.setText(note)

    def _show_matches(self) -> None:
        self._typing.stop()
        wanted = self.search.text().strip().casefold()
        rows = self._rows
        if self.only.isChecked():
            rows = tuple(row for row in rows if row.operation is not None)
        if wanted:
            rows = tuple(row for row in rows if row.says(wanted))
        self.commands.set_rows(rows)
        widest = self.table.fontMetrics().horizontalAdvance(_WIDEST_VALUE)
        self.table.setColumnWidth(_VALUE, max(self.table.columnWidth(_VALUE), widest))
        is_all = len(rows) == len(self._rows)
        self.note.setText(
            self._heading if is_all else f"{count(len(rows))} of {count(len(self._rows))} commands"
        )

    def _on_tensors_chosen(self, shown: Sequence[int]) -> None:
        row = self.tensors.row_at(shown[0]) if shown else None
        if isinstance(row, NpuTensor):
            self._uses = (row.uses, 0)
            self._jump()

    def _jump(self) -> None:
        """Go to the next operation that accesses the selected tensor."""
        uses, turn = self._uses
        if not uses:
            return
        if self.search.text() and not any(
            row.command.offset == uses[turn % len(uses)] for row in self._shown()
        ):
            self.search.clear()
            self._show_matches()
        for index, row in enumerate(self._shown()):
            if row.command.offset == uses[turn % len(uses)]:
                self.table.choose_rows([index], reveal=True)
        self._uses = (uses, turn + 1)
        self.tensor_note.setText(
            f"Operation {turn % len(uses) + 1} of {len(uses)} that access it (Enter: next)"
        )

    def _shown(self) -> list[CommandRow]:
        rows = (self.commands.row_at(n) for n in range(self.commands.rowCount()))
        return [row for row in rows if row is not None]
