"""The tab CPU operators: a table of operators on the CPU, and suggestions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QSplitter, QVBoxLayout, QWidget

from ui.features.cost.suggestion_cards import SuggestionCards, SuggestionController
from ui.shared.cost_table import CpuTableModel
from ui.shared.figure_table import FigureView
from ui.shared.panel import PanelContext
from ui.shared.result_panel import Shown
from workbench.results import LowerResult
from workbench.suggestions import Suggestion

NO_SUGGESTION = "No suggestions for running more operators on the NPU."
STALE = "Run Lower to get suggestions for the present configuration."
_REASON_PX = 900


class CpuFallbackView(QWidget):
    """A table above, suggestions below. Suggestions are computed only while it is visible.

    Signals:
        nodes_chosen: the selected operators.
    """

    nodes_chosen = Signal(object)

    def __init__(self, context: PanelContext, parent: QWidget) -> None:
        super().__init__(parent)
        self._context = context
        self._shown: Shown[LowerResult] | None = None
        self._nodes: list[str] = []
        self._due = False
        self.suggesting = SuggestionController(context, self)
        self.note = QLabel(self)
        self.note.setWordWrap(True)
        self.cpu = CpuTableModel(self)
        self.table = FigureView("CPU operators", self.cpu, self, widest_px=_REASON_PX)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.cards = SuggestionCards(self)
        self.cards.apply_asked.connect(self.suggesting.apply)
        self.cards.show_asked.connect(self._on_show_asked)
        split = QSplitter(Qt.Orientation.Vertical, self)
        for part in (self.table, self.cards):
            split.addWidget(part)
            split.setCollapsible(split.count() - 1, False)
        split.setSizes([170, 290])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 8, 0, 4)
        layout.addWidget(self.note)
        layout.addWidget(split, 1)

    def render_lowered(self, shown: Shown[LowerResult]) -> None:
        """Show a compiled program."""
        self._shown = shown
        self._nodes = [node.node for node in shown.value.cpu_nodes]
        self.cpu.set_rows(shown.value.cpu_nodes)
        self.table.set_look(self._context.theme, stale=not shown.current)
        self.note.setText(_summary(shown.value))
        self._due = True
        if self.isVisible():
            self._suggest()

    def choose(self, nodes: Collection[str], *, ours: bool) -> None:
        """Select the rows of operators. ``ours`` is whether this view selected them."""
        places = [i for i, node in enumerate(self._nodes) if node in nodes]
        rows = [self.cpu.shown_at(place) for place in places]
        if not ours or set(rows) != set(self.table.chosen_rows()):
            self.table.choose_rows(rows, reveal=not ours)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._due:
            self._suggest()

    def _suggest(self) -> None:
        self._due = False
        shown = self._shown
        if shown is None:
            return
        found: tuple[Suggestion, ...] = ()
        if shown.current:
            found = self.suggesting.look_at(shown.value, shown.folder)
        empty = (NO_SUGGESTION if self._nodes else "") if shown.current else STALE
        self.cards.render_cards(found, self.suggesting.gains(), empty)

    def _on_rows_chosen(self, rows: Sequence[int]) -> None:
        self.nodes_chosen.emit([self._nodes[self.cpu.place_of(row)] for row in rows])

    def _on_show_asked(self, suggestion: Suggestion) -> None:
        self.choose(suggestion.nodes, ours=False)
        self.nodes_chosen.emit(list(suggestion.nodes))


def _summary(value: LowerResult) -> str:
    number = len(value.cpu_nodes)
    parts = "1 delegate" if value.delegates == 1 else f"{value.delegates} delegates"
    npu = f"{value.delegated_nodes} operators run on the NPU in {parts}."
    run = "runs" if number == 1 else "run"
    rest = f"{number} {run} on the CPU:" if number else "None run on the CPU."
    return f"{npu} {rest}"
