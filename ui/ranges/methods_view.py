"""What other methods would give a tensor; one of them can be taken for more than one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from ui.models.method_table import MethodTableModel
from ui.theme import Theme
from ui.widgets.figure_view import FigureView
from workbench.analysis.ranges import Choice

USE = (
    "Have this method take the ranges, now and whenever data, weights or precision change. "
    "Narrower choices and ranges fixed by hand stay."
)


class MethodsView(QWidget):
    """A table of methods, and for what to take the chosen one.

    Signals:
        previewed: the ``Choice`` that was picked.
        method_asked: its method, and "tensor", "module" or "all".
    """

    previewed = Signal(object)
    method_asked = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = MethodTableModel(self)
        self.table = FigureView("Ranges by method", self.model, self)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.scope = QComboBox(self)
        self.scope.setAccessibleName("Where to use the method")
        self.use = QPushButton("Use", self)
        self.use.setToolTip(USE)
        self.use.clicked.connect(self._on_use)
        self.why = QLabel(self)
        self.why.setObjectName("Hint")
        self.why.setWordWrap(True)
        self.why.hide()
        self._offer = QWidget(self)
        row = QHBoxLayout(self._offer)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(QLabel("Use for", self))
        row.addWidget(self.scope, 1)
        row.addWidget(self.use)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.why)
        layout.addWidget(self.table, 1)
        layout.addWidget(self._offer)
        layout.addStretch(0)

    def render_choices(self, offered: Sequence[Choice], module: str, why: str = "") -> None:
        """Show what the methods give another tensor, and the module it stands in.

        Args:
            offered: A choice for each method.
            module: Where the tensor stands.
            why: Why there is nothing to choose from, in words.
        """
        self.why.setText(why)
        self.why.setVisible(bool(why))
        self.table.setVisible(not why)
        self._offer.setVisible(not why)
        self.model.set_rows(offered)
        kept = self.scope.currentData()
        self.scope.clear()
        self.scope.addItem("this tensor", "tensor")
        if module:
            self.scope.addItem(f"all of {module}", "module")
        self.scope.addItem("all activations", "all")
        self.scope.setCurrentIndex(max(0, self.scope.findData(kept)))
        self.use.setEnabled(False)

    def set_theme(self, theme: Theme, *, stale: bool) -> None:
        """Take on the colours of a theme."""
        self.table.set_look(theme, stale=stale)

    def _chosen(self) -> Choice | None:
        rows = self.table.chosen_rows()
        return self.model.row_at(rows[0]) if rows else None

    def _on_rows_chosen(self) -> None:
        choice = self._chosen()
        self.use.setEnabled(choice is not None)
        if choice is not None:
            self.previewed.emit(choice)

    def _on_use(self) -> None:
        choice = self._chosen()
        if choice is not None:
            self.method_asked.emit(choice.method, str(self.scope.currentData()))
