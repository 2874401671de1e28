"""Result of a simulation in tabs: summary, outputs, operations and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from ui.shared.bar_plot import DifferencePlot
from ui.shared.counter_table import COUNTER_COLUMNS, describe_counters
from ui.shared.counter_table import DELEGATE as COUNTER_DELEGATE
from ui.shared.labels import Label, scrolled
from ui.shared.number_format import DASH, count, percent
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from ui.state.model_index import inside
from workbench.results import RuntimeEvent, SimulationResult, TracedOperation


def excess(row: TracedOperation) -> float | None:
    """Return the excess of the measured over the estimated cycles, relative to the estimate."""
    more = row.difference
    return None if more is None or not row.estimated else more / row.estimated


def _signed(value: float | None) -> str:
    return DASH if value is None else f"{'+' if value > 0 else ''}{count(value)}"


def _signed_percent(value: float | None) -> str:
    return DASH if value is None else f"{'+' if value > 0 else ''}{percent(value, 0)}"


def _describe(row: TracedOperation) -> str:
    lines = (
        f"{row.operator}  {row.name}",
        row.module or "not matched to a module",
        f"{count(row.estimated)} cycles estimated (Vela)",
        f"{count(row.cycles)} cycles measured (FVP)"
        if row.cycles is not None
        else "not measured: its commands were read together with another operation",
    )
    return "\n".join(lines)


TRACED_COLUMNS: tuple[Column[TracedOperation], ...] = (
    Column("Operator", lambda r: r.operator),
    Column("Module", lambda r: r.module or DASH),
    Column(
        "Estimated",
        lambda r: count(r.estimated),
        lambda r: r.estimated,
        "Cycles per inference, estimated by Vela",
    ),
    Column(
        "Measured",
        lambda r: count(r.cycles) if r.cycles is not None else DASH,
        lambda r: r.cycles,
        "Mean cycles per inference on the simulator",
    ),
    Column("Difference", lambda r: _signed(r.difference), lambda r: r.difference, "Measured - estimated"),
    Column("Relative", lambda r: _signed_percent(excess(r)), excess, "(Measured - estimated) / estimated"),
    Column("Delegate", lambda r: str(r.delegate), lambda r: r.delegate),
    Column("Name", lambda r: r.name),
)


_KINDS = {"cpu": "CPU kernel", "npu": "NPU delegate", "runtime": "Runtime"}
EVENT_COLUMNS: tuple[Column[RuntimeEvent], ...] = (
    Column("Event", lambda r: r.name),
    Column("Where", lambda r: _KINDS.get(r.kind, r.kind)),
    Column(
        "CPU cycles",
        lambda r: count(r.cycles),
        lambda r: r.cycles,
        "Mean per call; for a delegate including the wait for the NPU",
    ),
    Column("Calls", lambda r: count(r.calls), lambda r: r.calls),
)


def _describe_event(row: RuntimeEvent) -> str:
    return f"{row.name}\nmeasured (ETDump)"


@dataclass(frozen=True)
class SampleRow:
    """One sample: maximum output differences [LSB], and whether the arg-max is equal."""

    number: int
    to_reference: int
    to_quantized: int
    same_argmax: bool


def sample_rows(result: SimulationResult) -> list[SampleRow]:
    """Return a row per compared sample."""
    reference, quantized = result.against_reference, result.against_quantized
    return [
        SampleRow(number, *figures)
        for number, figures in enumerate(
            zip(reference.sample_max_lsb, quantized.sample_max_lsb, quantized.sample_argmax, strict=False), 1
        )
    ]


SAMPLE_COLUMNS: tuple[Column[SampleRow], ...] = (
    Column("Sample", lambda r: str(r.number), lambda r: r.number),
    Column(
        "TOSA",
        lambda r: str(r.to_reference),
        lambda r: r.to_reference,
        "Maximum difference from the TOSA reference model [LSB of the output]",
    ),
    Column(
        "Quantized",
        lambda r: str(r.to_quantized),
        lambda r: r.to_quantized,
        "Maximum difference from the quantized model [LSB of the output]",
    ),
    Column(
        "Arg-max",
        lambda r: "same" if r.same_argmax else "other",
        None,
        "Whether the class is the quantized model's",
    ),
)


def _describe_sample(row: SampleRow) -> str:
    return f"Sample {row.number}"


_DIFFERENCE, _DELEGATE = 4, 6
SUMMARY, OUTPUTS, OPERATIONS, COUNTERS, EVENTS = range(5)


class SimulationView(Tabs):
    """Shows a simulation in tabs. Empty tabs are hidden.

    Signals:
        modules_chosen: the modules of the selected operations.
    """

    modules_chosen = Signal(list)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.text = Label()
        self.traced = FigureTableModel(TRACED_COLUMNS, _describe, self)
        self.traced_table = FigureView("Cycles by operation", self.traced, self)
        self.traced_table.rows_chosen.connect(self._on_operations_chosen)
        self.traced_table.sortByColumn(_DIFFERENCE, Qt.SortOrder.DescendingOrder)
        self.counters = FigureTableModel(COUNTER_COLUMNS, describe_counters, self)
        self.counter_table = FigureView("Executed operations", self.counters, self)
        self.counter_table.rows_chosen.connect(self._on_counters_chosen)
        self.events = FigureTableModel(EVENT_COLUMNS, _describe_event, self)
        self.event_table = FigureView("Recorded events", self.events, self)
        self.addTab(scrolled(self.text, self), "Summary")
        self.addTab(self._outputs(), "Outputs")
        self.addTab(self.traced_table, "Estimated and measured")
        self.addTab(self.counter_table, "Executed operations")
        self.addTab(self.event_table, "Recorded events")

    def render_result(self, value: SimulationResult, text: str, theme: Theme, *, stale: bool) -> None:
        """Show a simulation; ``text`` is its summary."""
        self.text.setText(text)
        self.traced.set_rows(value.traced)
        self.events.set_rows(value.events)
        executed = value.functional.operations if value.functional else ()
        self.counters.set_rows(executed)
        delegates = {one.delegate for one in executed}
        self.counter_table.setColumnHidden(COUNTER_DELEGATE, len(delegates) < 2)
        self.samples.set_rows(sample_rows(value))
        tables = (self.traced_table, self.counter_table, self.event_table, self.sample_table)
        for table in tables:
            table.set_look(theme, stale=stale)
        for plot, agreement in (
            (self.to_reference, value.against_reference),
            (self.to_quantized, value.against_quantized),
        ):
            plot.set_theme(theme)
            plot.render_counts(agreement.histogram)
            plot.set_stale(stale)
        self.setTabVisible(OUTPUTS, bool(value.against_reference.elements))
        self.setTabVisible(OPERATIONS, bool(value.traced))
        self.setTabVisible(COUNTERS, bool(executed))
        self.setTabVisible(EVENTS, bool(value.events))
        several = len({row.delegate for row in value.traced}) > 1
        self.traced_table.setColumnHidden(_DELEGATE, not several)

    def choose_modules(self, modules: frozenset[str]) -> None:
        """Select the operations of modules."""
        rows = [
            shown
            for shown in range(self.traced.rowCount())
            if (row := self.traced.row_at(shown)) and row.module and inside(row.module, modules)
        ]
        self.traced_table.choose_rows(rows, reveal=True)
        executed = [
            shown
            for shown in range(self.counters.rowCount())
            if (one := self.counters.row_at(shown)) and one.module and inside(one.module, modules)
        ]
        self.counter_table.choose_rows(executed, reveal=True)

    def _outputs(self) -> QSplitter:
        self.to_reference = DifferencePlot("TOSA reference model", self)
        self.to_quantized = DifferencePlot("quantized model", self)
        self.samples = FigureTableModel(SAMPLE_COLUMNS, _describe_sample, self)
        self.sample_table = FigureView("Samples", self.samples, self)
        split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(self.sample_table)
        for title, plot in (
            ("Differences from the TOSA reference model", self.to_reference),
            ("Differences from the quantized model", self.to_quantized),
        ):
            page = QWidget(split)
            layout = QVBoxLayout(page)
            layout.setContentsMargins(6, 6, 0, 0)
            heading = Label(title, page)
            heading.setWordWrap(True)
            layout.addWidget(heading)
            layout.addWidget(plot, 1)
        split.setSizes([430, 270, 270])
        return split

    def _on_operations_chosen(self, shown: Sequence[int]) -> None:
        rows = [self.traced.row_at(number) for number in shown]
        self.modules_chosen.emit([row.module for row in rows if row is not None and row.module])

    def _on_counters_chosen(self, shown: Sequence[int]) -> None:
        rows = [self.counters.row_at(number) for number in shown]
        self.modules_chosen.emit([row.module for row in rows if row is not None and row.module])
