"""What a run on a simulator told, in tabs: sentences, outputs, operations, events."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QScrollArea, QSplitter, QTabWidget, QVBoxLayout, QWidget

from ui.models.simulation_tables import (
    EventTableModel,
    SampleTableModel,
    TracedTableModel,
    sample_rows,
)
from ui.outline import inside
from ui.plots.bar_plot import DifferencePlot
from ui.theme import Theme
from ui.widgets.figure_view import FigureView
from workbench.results import SimulationResult

_DIFFERENCE, _DELEGATE = 4, 6
TOLD, OUTPUTS, OPERATIONS, EVENTS = range(4)


class SimulationView(QTabWidget):
    """Four tabs; those with nothing in them are hidden.

    Signals:
        modules_chosen: the modules of the operations that were chosen.
    """

    modules_chosen = Signal(list)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setDocumentMode(True)
        self.text = QLabel()
        self.traced = TracedTableModel(self)
        self.traced_table = FigureView("Cycles of each operation", self.traced, self)
        self.traced_table.rows_chosen.connect(self._on_operations_chosen)
        self.traced_table.sortByColumn(_DIFFERENCE, Qt.SortOrder.DescendingOrder)
        self.events = EventTableModel(self)
        self.event_table = FigureView("Recorded events", self.events, self)
        self.addTab(self._told(), "What it told")
        self.addTab(self._outputs(), "Outputs")
        self.addTab(self.traced_table, "Estimated and measured")
        self.addTab(self.event_table, "Recorded events")

    def render_result(
        self, value: SimulationResult, text: str, theme: Theme, *, stale: bool
    ) -> None:
        """Show a run; ``text`` are its sentences."""
        self.text.setText(text)
        self.traced.set_rows(value.traced)
        self.events.set_rows(value.events)
        self.samples.set_rows(sample_rows(value))
        for table in (self.traced_table, self.event_table, self.sample_table):
            table.set_look(theme, stale=stale)
        for plot, found in (
            (self.to_reference, value.against_reference),
            (self.to_quantized, value.against_quantized),
        ):
            plot.set_theme(theme)
            plot.render_counts(found.histogram)
            plot.set_stale(stale)
        self.setTabVisible(OUTPUTS, bool(value.against_reference.elements))
        self.setTabVisible(OPERATIONS, bool(value.traced))
        self.setTabVisible(EVENTS, bool(value.events))
        several = len({row.delegate for row in value.traced}) > 1
        self.traced_table.setColumnHidden(_DELEGATE, not several)

    def choose_modules(self, modules: frozenset[str]) -> None:
        """Mark the operations of modules."""
        rows = [
            shown for shown in range(self.traced.rowCount())
            if (row := self.traced.row_at(shown)) and row.module and inside(row.module, modules)
        ]  # fmt: skip
        self.traced_table.choose_rows(rows, reveal=True)

    def _told(self) -> QScrollArea:
        self.text.setWordWrap(True)
        self.text.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        scroll = QScrollArea(self)
        scroll.setWidget(self.text)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.viewport().setAutoFillBackground(False)
        self.text.setAutoFillBackground(False)
        return scroll

    def _outputs(self) -> QSplitter:
        self.to_reference = DifferencePlot("TOSA reference model", self)
        self.to_quantized = DifferencePlot("quantized model", self)
        self.samples = SampleTableModel(self)
        self.sample_table = FigureView("Samples", self.samples, self)
        split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(self.sample_table)
        for title, plot in (
            ("Differences to the TOSA reference model", self.to_reference),
            ("Differences to the quantized model", self.to_quantized),
        ):
            page = QWidget(split)
            layout = QVBoxLayout(page)
            layout.setContentsMargins(6, 6, 0, 0)
            layout.addWidget(QLabel(title, page))
            layout.addWidget(plot, 1)
        split.setSizes([430, 270, 270])
        return split

    def _on_operations_chosen(self, shown: Sequence[int]) -> None:
        rows = [self.traced.row_at(number) for number in shown]
        self.modules_chosen.emit([row.module for row in rows if row is not None and row.module])
