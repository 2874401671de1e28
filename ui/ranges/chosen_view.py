"""All that the project decides of ranges, in numbers or by method, to be taken back."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from ui.models.method_table import ChoiceOfRange, ChosenTableModel
from ui.theme import Theme
from ui.widgets.figure_view import FigureView
from workbench.project.model import Project

NOTHING = "Nothing is chosen: all ranges are those that calibration finds."


class ChosenView(QWidget):
    """A table of ranges given in numbers and of methods, the strongest first.

    Signals:
        tensor_chosen: a node.
        free_asked: ``ChoiceOfRange`` values.
    """

    tensor_chosen = Signal(str)
    free_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = ChosenTableModel(self)
        self.table = FigureView("Choices of ranges", self.model, self)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.empty = QLabel(NOTHING, self)
        self.empty.setObjectName("Hint")
        self.empty.setWordWrap(True)
        self.free = QPushButton("Free chosen", self)
        self.free.clicked.connect(lambda: self.free_asked.emit(self._picked()))
        self.free_all = QPushButton("Free all", self)
        self.free_all.clicked.connect(lambda: self.free_asked.emit(self._choices))
        self._choices: list[ChoiceOfRange] = []
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

    def render_project(self, project: Project | None) -> None:
        """Show what a project chooses."""
        methods = project.range_methods if project is not None else ()
        fixed = project.ranges if project is not None else ()
        ordered = sorted(methods, key=lambda m: m.strength, reverse=True)
        choices: list[ChoiceOfRange] = [*fixed, *ordered]
        if choices != self._choices:
            self._choices = choices
            self.model.set_rows(choices)
            self.free.setEnabled(False)
        self.empty.setVisible(not choices)
        for part in (self.table, self.free, self.free_all):
            part.setVisible(bool(choices))

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a theme."""
        self.table.set_look(theme, stale=False)

    def _picked(self) -> list[ChoiceOfRange]:
        return [self._choices[self.model.place_of(row)] for row in self.table.chosen_rows()]

    def _on_rows_chosen(self, _rows: Sequence[int]) -> None:
        picked = self._picked()
        self.free.setEnabled(bool(picked))
        if len(picked) == 1 and (tensor := self.model.tensor_of(picked[0])):
            self.tensor_chosen.emit(tensor)
