"""The memory plan of a method: tensors in planned buffers by instruction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from ui.features.program_viewer.program_tables import PLAN_COLUMNS, shape_text
from ui.shared.labels import Label
from ui.shared.memory_plot import MemoryPlot
from ui.shared.number_format import size
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shared.theme import Theme
from workbench.analysis.memory import fullest_step
from workbench.pte.description import Planned, planned
from workbench.pte.program import Method
from workbench.results import LiveRange

NO_PLAN = "This method has no planned tensors."


class PlanView(QWidget):
    """Shows an allocation plot and a tensor table of one memory."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._all: tuple[Planned, ...] = ()
        self._shown: tuple[Planned, ...] = ()
        self._buffers: tuple[int, ...] = ()
        self.memory = QComboBox(self)
        self.memory.setAccessibleName("Method memory")
        self.memory.activated.connect(lambda _index: self._show())
        self.note = Label("", self)
        self.note.setObjectName("Hint")
        self.plot = MemoryPlot(
            lambda n: _describe(self._shown[n]), self, step="instruction", origin="from the program"
        )
        self.plot.tensor_chosen.connect(lambda index, _adds: self._choose([index]))
        self.model = FigureTableModel(PLAN_COLUMNS, _describe, self)
        self.table = FigureView("Planned tensors", self.model, self)
        self.table.rows_chosen.connect(
            lambda rows: self.plot.choose(self.model.source_row(row) for row in rows)
        )
        head = QHBoxLayout()
        head.addWidget(self.memory)
        head.addWidget(self.note, 1)
        split = QSplitter(Qt.Orientation.Vertical, self)
        split.addWidget(self.plot)
        split.addWidget(self.table)
        split.setSizes([320, 260])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.addLayout(head)
        layout.addWidget(split, 1)

    def render_method(self, method: Method) -> None:
        """Show the plan of a method."""
        self._all, self._buffers = tuple(planned(method)), method.planned
        self.memory.clear()
        for number in sorted({tensor.memory for tensor in self._all}):
            self.memory.addItem(f"Memory {number}", number)
        self.memory.setVisible(self.memory.count() > 1)
        self._show()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.plot.set_theme(theme)
        self.table.set_look(theme, stale=False)

    def _show(self) -> None:
        number = self.memory.currentData()
        self._shown = tuple(tensor for tensor in self._all if tensor.memory == number)
        ranges = [_live(tensor) for tensor in self._shown]
        fullest = fullest_step(ranges)
        self.plot.setVisible(bool(ranges))
        self.plot.render_tensors(ranges, fullest)
        self.model.set_rows(self._shown)
        self.note.setText(self._sentence(number, fullest) if ranges else NO_PLAN)

    def _sentence(self, number: int, fullest: int) -> str:
        index = number - 1
        given = self._buffers[index] if 0 <= index < len(self._buffers) else 0
        return (
            f"Planned buffer: {size(max(given, 0))}, peak at instruction {fullest}. Inputs are "
            f"live from the start, outputs until the end."
        )

    def _choose(self, indices: Sequence[int]) -> None:
        self.plot.choose(indices)
        self.table.choose_rows(_places(self.model, indices), reveal=True)


def _places(model: FigureTableModel[Planned], indices: Iterable[int]) -> list[int]:
    return [model.shown_at(index) for index in indices]


def _live(value: Planned) -> LiveRange:
    return LiveRange(
        name=f"value {value.index}",
        module="",
        memory=str(value.memory),
        usage=value.role,
        start=value.first,
        end=value.last,
        address=value.address,
        bytes=value.bytes,
    )


def _describe(value: Planned) -> str:
    return "\n".join(
        (
            f"value {value.index}, {value.role}",
            f"{value.dtype} {shape_text(value.shape)}",
            f"{size(value.bytes)} at {value.address:#x} in memory {value.memory}",
            f"instructions {value.first} to {value.last}",
        )
    )
