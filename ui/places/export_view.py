"""A model for a compiler elsewhere: which products it quantizes, and how to call it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.figures import DASH, count, size
from ui.models.export_table import ProductTableModel
from ui.theme import Theme
from ui.widgets.figure_cards import Card
from ui.widgets.figure_view import FigureView
from workbench.results import ExportedModel

_REASON_PX = 420


class ExportView(QWidget):
    """A table of products above, command lines below.

    Signals:
        nodes_chosen: operations of the exported graph.
    """

    nodes_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.products = ProductTableModel(self)
        self.table = FigureView("Matrix products", self.products, self, widest_px=_REASON_PX)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.commands = QPlainTextEdit(self)
        self.commands.setReadOnly(True)
        self.commands.setAccessibleName("Command lines of the compiler")
        self.commands.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.copy = QPushButton("Copy command", self)
        self.copy.clicked.connect(self._on_copy)
        self._command = ""
        below = QWidget(self)
        layout = QVBoxLayout(below)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.addWidget(QLabel("How to compile it", below))
        layout.addWidget(self.commands, 1)
        layout.addWidget(self.copy, 0, Qt.AlignmentFlag.AlignLeft)
        split = QSplitter(Qt.Orientation.Vertical, self)
        for part in (self.table, below):
            split.addWidget(part)
            split.setCollapsible(split.count() - 1, False)
        split.setSizes([280, 220])
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 8, 0, 4)
        whole.addWidget(split)

    def render_export(self, value: ExportedModel, theme: Theme, *, stale: bool) -> None:
        """Show another exported model."""
        self.products.set_rows(value.products)
        self.table.set_look(theme, stale=stale)
        self._command = value.commands[0][1] if value.commands else ""
        parts = [f"# {title}\n{command}" for title, command in value.commands]
        self.commands.setPlainText("\n\n".join([*parts, *(f"# {note}" for note in value.notes)]))

    def choose(self, nodes: frozenset[str], *, ours: bool) -> None:
        """Mark the rows of some operations; ``ours`` if the choice was made here."""
        rows = [
            row for row in range(self.products.rowCount())
            if (product := self.products.row_at(row)) and product.origin in nodes
        ]  # fmt: skip
        if not ours or set(rows) != set(self.table.chosen_rows()):
            self.table.choose_rows(rows, reveal=not ours)

    def _on_rows_chosen(self, rows: Sequence[int]) -> None:
        found = [self.products.row_at(row) for row in rows]
        self.nodes_chosen.emit([p.origin for p in found if p is not None and p.origin])

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._command)


def export_cards(value: ExportedModel) -> list[Card]:
    """Return the cards of an exported model."""
    check, total = value.check, len(value.products)
    asked = DASH if check.quantized is None else str(check.quantized)
    by = check.compiler or "not asked"
    return [
        Card("int8 products", f"{value.quantized} of {total}", "predicted",
             "Matrix products that the compiler quantizes, by its sources"),
        Card("By the compiler", asked, by, check.sentence),
        Card("Rewritten", count(value.rewritten), "counted",
             "Gemms whose weight stands transposed in the file now"),
        Card("Model", size(value.bytes), "measured: the file",
             f"ONNX opset {value.opset}, IR {value.ir_version}, {value.nodes} operations"),
    ]  # fmt: skip
