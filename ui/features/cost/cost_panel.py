"""The Cost panel: estimated cost, operations and CPU operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.features.cost.cost_table import (
    CPU_COLUMNS,
    DELEGATE,
    MODULE_COLUMNS,
    MODULE_SHARE,
    OPERATION_COLUMNS,
    SHARE,
    depths,
    describe_cpu_node,
    describe_module,
    module_name,
)
from ui.shared.figure_cards import Card, FigureCards
from ui.shared.labels import Label
from ui.shared.npu_operations import OperationRow, describe_operation, operation_rows
from ui.shared.number_format import DASH, count, milliseconds, size
from ui.shared.panel import PanelContext
from ui.shared.result_panel import ResultPanel, Shown, StageFrame, chosen_nodes
from ui.shared.sortable_table import BarDelegate, Column, FigureTableModel, FigureView, Role
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from ui.state.model_index import inside
from ui.state.selection import Selected
from workbench.analysis.silicon import RANDOM_WEIGHTS, time_of
from workbench.ids import StageId
from workbench.outcome_page import own_name
from workbench.results import ExportedModel, ExportedProduct, LowerResult, ModuleCycles
from workbench.targets.ethos_u.cycle_corrections import CYCLE_CORRECTIONS_BY_ID
from workbench.targets.ethos_u.efficiency import by_module, efficiency_text

PRODUCT_COLUMNS: tuple[Column[ExportedProduct], ...] = (
    Column("Product", lambda r: r.origin or r.node),
    Column("Operation", lambda r: r.op),
    Column(
        "int8",
        lambda r: "yes" if r.quantized else "no",
        lambda r: int(r.quantized),
        "Predicted from the compiler's source code",
    ),
    Column("Reason", lambda r: r.reason or DASH),
    Column("Module", lambda r: r.module or DASH),
    Column("Name in the file", lambda r: r.node),
)


def _describe_product(row: ExportedProduct) -> str:
    return f"{row.node}\n{row.reason}".strip()


_REASON_PX = 420


class ExportView(QWidget):
    """Shows matrix products above and compiler commands below.

    Signals:
        nodes_chosen: operations of the exported graph.
    """

    nodes_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.products = FigureTableModel(PRODUCT_COLUMNS, _describe_product, self)
        self.table = FigureView(
            "Matrix products",
            self.products,
            self,
            widest_px=_REASON_PX,
            empty="The model has no matrix products.",
        )
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.commands = QPlainTextEdit(self)
        self.commands.setReadOnly(True)
        self.commands.setAccessibleName("Compiler commands")
        self.commands.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.copy = QPushButton("Copy command", self)
        self.copy.clicked.connect(self._on_copy)
        self._command = ""
        below = QWidget(self)
        layout = QVBoxLayout(below)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.addWidget(Label("Compile commands", below))
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
        """Show an exported model."""
        self.products.set_rows(value.products)
        self.table.set_look(theme, stale=stale)
        self._command = value.commands[0][1] if value.commands else ""
        parts = [f"# {title}\n{command}" for title, command in value.commands]
        self.commands.setPlainText("\n\n".join([*parts, *(f"# {note}" for note in value.notes)]))

    def choose(self, nodes: frozenset[str], *, ours: bool) -> None:
        """Select the rows of operations. ``ours`` is whether this panel selected them."""
        rows = [
            row
            for row in range(self.products.rowCount())
            if (product := self.products.row_at(row)) and product.origin in nodes
        ]
        if not ours or set(rows) != set(self.table.chosen_rows()):
            self.table.choose_rows(rows, reveal=not ours)

    def _on_rows_chosen(self, rows: Sequence[int]) -> None:
        rows_chosen = [self.products.row_at(row) for row in rows]
        self.nodes_chosen.emit([p.origin for p in rows_chosen if p is not None and p.origin])

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._command)


def export_cards(value: ExportedModel) -> list[Card]:
    """Return the cards of an exported model."""
    check, total = value.check, len(value.products)
    asked = DASH if check.quantized is None else str(check.quantized)
    by = check.compiler or "off"
    return [
        Card(
            "int8 products",
            f"{value.quantized} of {total}",
            "predicted",
            "Matrix products that the compiler quantizes, according to its source code",
        ),
        Card("Compiler", asked, by, check.sentence),
        Card(
            "Rewritten",
            count(value.rewritten),
            "counted",
            "Gemm nodes whose weight is now transposed in the file",
        ),
        Card(
            "Model",
            size(value.bytes),
            "measured: the file",
            f"ONNX opset {value.opset}, IR {value.ir_version}, {value.nodes} operations",
        ),
    ]


_CPU_REASON_PX = 900


class CpuFallbackView(QWidget):
    """The operators on the CPU, each with the reason.

    Signals:
        nodes_chosen: the selected operators.
    """

    nodes_chosen = Signal(object)

    def __init__(self, context: PanelContext, parent: QWidget) -> None:
        super().__init__(parent)
        self._context = context
        self._nodes: list[str] = []
        self.note = Label(self)
        self.note.setWordWrap(True)
        self.cpu = FigureTableModel(CPU_COLUMNS, describe_cpu_node, self)
        self.table = FigureView("CPU operators", self.cpu, self, widest_px=_CPU_REASON_PX)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 8, 0, 4)
        layout.addWidget(self.note)
        layout.addWidget(self.table, 1)

    def render_lowered(self, shown: Shown[LowerResult]) -> None:
        """Show a compiled program."""
        self._nodes = [node.node for node in shown.value.cpu_nodes]
        self.cpu.set_rows(shown.value.cpu_nodes)
        self.table.set_look(self._context.theme, stale=not shown.current)
        self.note.setText(_summary(shown.value))

    def choose(self, nodes: Collection[str], *, ours: bool) -> None:
        """Select the rows of operators. ``ours`` is whether this view selected them."""
        indices = [i for i, node in enumerate(self._nodes) if node in nodes]
        rows = [self.cpu.shown_at(index) for index in indices]
        if not ours or set(rows) != set(self.table.chosen_rows()):
            self.table.choose_rows(rows, reveal=not ours)

    def _on_rows_chosen(self, rows: Sequence[int]) -> None:
        self.nodes_chosen.emit([self._nodes[self.cpu.source_row(row)] for row in rows])


def _summary(value: LowerResult) -> str:
    number = len(value.cpu_nodes)
    parts = "1 delegate" if value.delegates == 1 else f"{value.delegates} delegates"
    npu = f"{count(value.delegated_nodes)} operators run on the NPU in {parts}."
    run = "runs" if number == 1 else "run"
    rest = f"{count(number)} {run} on the CPU:" if number else "None run on the CPU."
    return f"{npu} {rest}"


NO_COST = "Compile to estimate the cost of the program on the device."
_MOST_BARS = 24
_EVERY = "every module"
OPERATIONS, MODULES, PLACES, PRODUCTS = range(4)
# Below this height the bars have a tab of their own.
_LOW_PX = 600


class CostPanel(ResultPanel):
    """Shows cards above, and tabs with operations and CPU operators."""

    panel_id = "cost"

    def build_frames(self) -> None:
        self._rows: list[OperationRow] = []
        self._modules: list[ModuleCycles] = []
        self._keys: dict[str, tuple[Path, bool] | None] = {}
        self._is_exported = False
        # Parts do not move while the window is being laid out.
        self._soon_arranged = QTimer(self, interval=0, singleShot=True)
        self._soon_arranged.timeout.connect(self._arrange)
        self.frames["lower"] = StageFrame("Estimates", NO_COST, self._make_cost, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames["lower"])

    def set_theme(self, theme: Theme) -> None:
        if self.has("lower"):
            self.bars.set_theme(theme)
            self._keys.clear()
            self.show_results()

    def show_results(self) -> None:
        lowered = self.read(LowerResult, "lower")
        self.show_frame("lower", lowered)
        if lowered is not None and self._is_news("lower", lowered.folder, lowered.current):
            self._show_cost(lowered)

    def render_selection(self, selected: Selected) -> None:
        if not self.has("lower"):
            return
        modules = selected.modules or self.context.model_index.modules_of(selected.nodes)
        indices = [r.index for r in self._rows if r.operation.module and inside(r.operation.module, modules)]
        ours, table = selected.origin == self.panel_id, self.operation_table
        rows = [self.operations.shown_at(index) for index in indices]
        if not ours or set(rows) != set(table.chosen_rows()):
            table.choose_rows(rows, reveal=not ours)
        self.places.choose(selected.nodes, ours=ours)
        self.export.choose(chosen_nodes(selected, self.context.model_index), ours=ours)
        touched = [i for i, m in enumerate(self._modules) if _touches(m.module, modules)]
        self.bars.choose(touched)
        # A chosen row does not choose those of the modules around it.
        chosen = [i for i in touched if not ours or inside(self._modules[i].module, modules)]
        rows = [self.modules.shown_at(index) for index in chosen]
        if not ours or set(rows) != set(self.module_table.chosen_rows()):
            self.module_table.choose_rows(rows, reveal=not ours)

    def show_cpu(self) -> None:
        """Show the operators on the CPU."""
        self.annotate()
        if self.has("lower") and self.tabs.isTabVisible(PLACES):
            self.tabs.setCurrentIndex(PLACES)

    def show_level(self, stage: StageId) -> None:
        """Show the tab with the result of a stage."""
        del stage
        if self.has("lower"):
            is_compiled = self.tabs.isTabVisible(OPERATIONS)
            self.tabs.setCurrentIndex(OPERATIONS if is_compiled else PRODUCTS)

    def _make_cost(self, content: QWidget) -> None:
        self.origin = Label(content)
        self.origin.setObjectName("Hint")
        self.origin.setWordWrap(True)
        self.cards = FigureCards(content)
        self.tabs = Tabs(content)
        self.tabs.addTab(self._built_operations(), "Operations")
        self.tabs.addTab(self._built_modules(), "Modules")
        self.places = CpuFallbackView(self.context, self)
        self.places.nodes_chosen.connect(self._on_nodes_chosen)
        self.tabs.addTab(self.places, "CPU operators")
        self.export = ExportView(self)
        self.export.nodes_chosen.connect(self._on_nodes_chosen)
        self.tabs.addTab(self.export, "Export")
        layout = QVBoxLayout(content)
        layout.setContentsMargins(8, 6, 8, 0)
        layout.setSpacing(6)
        layout.addWidget(self.origin)
        layout.addWidget(self.cards)
        layout.addWidget(self.tabs, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._soon_arranged.start()

    def _arrange(self) -> None:
        """Put the bars above the table, or into a tab where there is too little height for both."""
        if not self.has("lower"):
            return
        is_low, is_tab = self.height() < _LOW_PX, self.tabs.indexOf(self._above) >= 0
        if is_low and not is_tab:
            self.tabs.addTab(self._above, "Cycles by module")
        elif is_tab and not is_low:
            self._split.insertWidget(0, self._above)
            self._above.show()
        self._show_tabs()

    def _show_tabs(self) -> None:
        """Show the tabs of a compiled program, or those of an exported model."""
        for number in range(self.tabs.count()):
            self.tabs.setTabVisible(number, (number == PRODUCTS) == self._is_exported)

    def _built_operations(self) -> QWidget:
        from ui.shared.bar_plot import ModuleBars

        self.depth_box = QComboBox(self)
        self.depth_box.setAccessibleName("Module depth")
        self.depth_box.setMinimumContentsLength(len(_EVERY) + 2)
        self.depth_box.activated.connect(self._on_depth_chosen)
        self.bars = ModuleBars(
            "Cycles by module", "estimated cycles", lambda i: describe_module(self._modules[i]), self
        )
        self.bars.bar_chosen.connect(self._on_bar_chosen)
        self.operations = FigureTableModel(OPERATION_COLUMNS, describe_operation, self)
        self.operation_table = FigureView("Operations on the NPU", self.operations, self)
        self.operation_table.setItemDelegateForColumn(
            SHARE, BarDelegate(lambda: self.context.theme, Role.SHARE, self.operation_table)
        )
        self.operation_table.rows_chosen.connect(self._on_operations_chosen)
        above = self._above = QWidget(self)
        row = QHBoxLayout()
        row.addWidget(Label("Cycles by module", above))
        row.addWidget(self.depth_box)
        self.bars_note = Label(above)
        self.bars_note.setObjectName("Hint")
        self.bars.box.sigResized.connect(self._show_bars_note)
        self.bars_note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        row.addWidget(self.bars_note, 1)
        layout = QVBoxLayout(above)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.addLayout(row)
        layout.addWidget(self.bars, 1)
        split = self._split = QSplitter(Qt.Orientation.Vertical, self)
        for part in (above, self.operation_table):
            split.addWidget(part)
            split.setCollapsible(split.count() - 1, False)
        split.setSizes([260, 220])
        return split

    def _built_modules(self) -> QWidget:
        """Return the table of modules, with names as long as the bars have them."""
        self.modules = FigureTableModel(MODULE_COLUMNS, describe_module, self)
        self.module_table = FigureView("Modules on the NPU", self.modules, self)
        self.module_table.setItemDelegateForColumn(
            MODULE_SHARE, BarDelegate(lambda: self.context.theme, Role.SHARE, self.module_table)
        )
        self.module_table.rows_chosen.connect(self._on_modules_chosen)
        return self.module_table

    def _is_news(self, stage: StageId, folder: Path, current: bool) -> bool:
        before, self._keys[stage] = self._keys.get(stage), (folder, current)
        return before != self._keys[stage]

    def _show_cost(self, shown: Shown[LowerResult]) -> None:
        value, theme = shown.value, self.context.theme
        self._is_exported = value.exported is not None
        self._arrange()
        if value.exported is not None:
            self._show_export(value.exported, value.warnings, stale=not shown.current)
            return
        for_what = f"{value.target}, {value.system_config}, {value.memory_mode}"
        notes = [f"Estimated by Vela {value.vela_version} for {for_what}."]
        if value.saved_cycles():
            notes.append(f"Vela says {count(value.cycles_vela)} cycles, corrected {count(value.cycles)}.")
        time = time_of(value)
        if value.placement:
            notes.append(f"Placement: {value.placement}.")
        notes += [time.sentence, *([RANDOM_WEIGHTS] if value.random_weights else ())]
        notes += value.warnings
        self.origin.setText(" ".join(notes))
        self.cards.render_cards(cost_cards(value), theme, stale=not shown.current)
        snapshot = self.context.model_index.snapshot
        self._rows = operation_rows(value, snapshot.nodes_by_id if snapshot else None)
        self.operations.set_rows(self._rows)
        self.operation_table.setColumnHidden(DELEGATE, len(value.vela) < 2)
        for table in (self.operation_table, self.module_table):
            table.set_look(theme, stale=not shown.current)
        self.bars.set_stale(not shown.current)
        self.places.render_lowered(shown)
        self._show_depths()

    def _show_export(self, value: ExportedModel, warnings: Sequence[str], *, stale: bool) -> None:
        self.origin.setText(" ".join((value.check.sentence, *warnings)))
        self.cards.render_cards(export_cards(value), self.context.theme, stale=stale)
        self.export.render_export(value, self.context.theme, stale=stale)
        self._rows = []

    def _show_depths(self) -> None:
        deepest, kept = depths(self._rows), self.depth_box.currentIndex()
        if self.depth_box.count() != deepest:
            self.depth_box.clear()
            self.depth_box.addItems([f"depth {d}" for d in range(1, deepest)] + [_EVERY])
            readable = [d for d in range(deepest) if len(self._by_module(d + 1)) <= _MOST_BARS]
            kept = max(readable, default=0)
        self.depth_box.setCurrentIndex(kept)
        self._on_depth_chosen(kept)

    def _on_depth_chosen(self, index: int) -> None:
        self._modules = self._by_module(index + 1)
        self.modules.set_rows(self._modules)
        cycles = np.asarray([m.cycles for m in self._modules], np.float64)
        names = list(map(module_name, self._modules))
        self.bars.render_bars([own_name(name, names) for name in names], cycles)
        self._show_bars_note()
        self.render_selection(self.context.selection.value)

    def _show_bars_note(self) -> None:
        text = f"{len(self._modules)} modules; scroll to see all" if self.bars.scrolls else ""
        self.bars_note.setText(text)

    def _by_module(self, depth: int) -> list[ModuleCycles]:
        return by_module((row.operation for row in self._rows), depth)

    def _on_modules_chosen(self, shown: Sequence[int]) -> None:
        self._choose_modules([self._modules[self.modules.source_row(row)].module for row in shown])

    def _on_bar_chosen(self, bar: int) -> None:
        self._choose_modules([self._modules[bar].module])

    def _on_operations_chosen(self, shown: Sequence[int]) -> None:
        rows = [self._rows[self.operations.source_row(row)] for row in shown]
        self._choose_modules([row.operation.module for row in rows])

    def _choose_modules(self, modules: Sequence[str]) -> None:
        self.context.selection.choose_modules([m for m in modules if m], self.panel_id)

    def _on_nodes_chosen(self, nodes: Sequence[str]) -> None:
        self.context.selection.choose_nodes(nodes, self.panel_id)


_OPERATORS = "Operators of the graph Edge by processor. Vela fuses those of the NPU into fewer operations"


def cost_cards(value: LowerResult) -> list[Card]:
    """Return the cards of a compiled program."""
    corrected = ", corrected" if value.saved_cycles() else ""
    vela, origin = value.vela, f"estimated (Vela {value.vela_version}{corrected})"
    if not vela:
        return [
            Card("On the NPU", "nothing", "counted", "No delegated operators"),
            Card("Program", size(value.pte_bytes), "measured: the file"),
        ]
    most = " of the largest delegate" if len(vela) > 1 else ""
    where = f"{count(value.delegated_nodes)} NPU, {count(len(value.cpu_nodes))} CPU"
    return [
        Card("Cycles", count(value.cycles), origin, _cycles_text(value)),
        _time_card(value, origin),
        Card("SRAM", size(max(r.sram_bytes for r in vela)), origin, f"Peak{most}"),
        Card(
            "Constants",
            size(sum(r.flash_bytes for r in vela)),
            origin,
            "Weights and commands in flash or DRAM",
        ),
        Card("MACs", count(sum(r.macs for r in vela)), origin, "Multiply-accumulates"),
        Card("Edge operators", where, "counted", _OPERATORS),
        Card("Delegates", str(value.delegates), "counted", "Subgraphs that run on the NPU"),
        Card("Program", size(value.pte_bytes), "measured: the file", "Size of the .pte file"),
    ]


def _time_card(value: LowerResult, origin: str) -> Card:
    """Return the time with its interval, placement and what it is anchored in."""
    time = time_of(value)
    text = [f"Per inference. {time.placement}. {time.sentence}", *time.beside]
    text += [
        f"{row.network}: {row.ratio:.2f} times the estimate"
        + ("" if row.others is None else f" (the others: {row.others:.2f})")
        for row in time.rows
    ]
    if time.ms is None:
        return Card("Time", DASH, "no estimate", "\n".join(text))
    if time.low_ms is not None and time.high_ms is not None:
        span = f"{milliseconds(time.low_ms)} to {milliseconds(time.high_ms)}"
        return Card("Time", milliseconds(time.ms), f"anchored in measured times, {span}", "\n".join(text))
    return Card("Time", milliseconds(time.ms), origin, "\n".join(text))


def _cycles_text(value: LowerResult) -> str:
    """Return what the cycles are, with Vela's own figure and why it is corrected."""
    reasons = value.saved_cycles()
    lines = ["All delegates"]
    if reasons:
        lines.append(f"Vela says {count(value.cycles_vela)}")
    for id_, cycles in reasons.items():
        row = CYCLE_CORRECTIONS_BY_ID[id_]
        lines.append(f"{row.title}: {count(cycles)} cycles too many. {row.fault}")
    lines += [efficiency_text(report) for report in value.vela if report.ideal_cycles]
    return "\n".join(lines)


def _touches(module: str, modules: frozenset[str]) -> bool:
    """Return whether a module contains or is inside one of these."""
    around = any(inside(other, frozenset({module})) for other in modules)
    return bool(module) and (around or inside(module, modules))
