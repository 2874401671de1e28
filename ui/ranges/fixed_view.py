"""All ranges that the project fixes, to be freed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from ui.models.method_table import FixedTableModel
from ui.theme import Theme
from ui.widgets.figure_view import FigureView
from workbench.project.fixed_range import FixedRange

NOTHING = "No range is fixed: all are those that calibration finds."


class FixedView(QWidget):
    """A table of fixed ranges.

    Signals:
        tensor_chosen: a node.
        free_asked: nodes.
    """

    tensor_chosen = Signal(str)
    free_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = FixedTableModel(self)
        self.table = FigureView("Fixed ranges", self.model, self)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.empty = QLabel(NOTHING, self)
        self.empty.setObjectName("Hint")
        self.empty.setWordWrap(True)
        self.free = QPushButton("Free chosen", self)
        self.free.clicked.connect(lambda: self.free_asked.emit(self._chosen()))
        self.free_all = QPushButton("Free all", self)
        self.free_all.clicked.connect(lambda: self.free_asked.emit(self._tensors))
        self._tensors: list[str] = []
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.free)
        row.addWidget(self.free_all)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.empty)
        layout.addWidget(self.table, 1)
        layout.addLayout(row)

    def render_fixed(self, fixed: Sequence[FixedRange]) -> None:
        """Show what the project fixes."""
        self._tensors = [each.tensor for each in fixed]
        self.model.set_rows(fixed)
        self.empty.setVisible(not fixed)
        self.table.setVisible(bool(fixed))
        self.free.setEnabled(False)
        self.free.setVisible(bool(fixed))
        self.free_all.setVisible(bool(fixed))

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a theme."""
        self.table.set_look(theme, stale=False)

    def _chosen(self) -> list[str]:
        return [self._tensors[self.model.place_of(row)] for row in self.table.chosen_rows()]

    def _on_rows_chosen(self) -> None:
        chosen = self._chosen()
        self.free.setEnabled(bool(chosen))
        if len(chosen) == 1:
            self.tensor_chosen.emit(chosen[0])
