"""The Timeline panel: one inference on CPU, NPU and memories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.features.timeline.timeline_plot import TimelinePlot
from ui.shared.file_dialogs import ask_to_save
from ui.shared.labels import Label
from ui.shared.npu_operations import OperationRow, describe_operation, efficiency_lines, operation_rows
from ui.shared.number_format import count, percent
from ui.shared.result_panel import ResultPanel, Shown, StageFrame
from ui.shared.simulation_text import origin_of
from ui.shared.theme import Theme
from ui.state.model_index import inside
from ui.state.selection import Selected
from workbench.analysis.timeline import CpuStop, Timeline, is_trace_of, timeline
from workbench.deploy.firmware_files import file_stem
from workbench.errors import WorkbenchError, not_written
from workbench.files import write_file
from workbench.graph.labels import operator_name
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import GRAPH_FILE, PROGRAM_FILE, CpuNode, LowerResult, SimulationResult
from workbench.targets.ethos_u.efficiency import by_module
from workbench.text import plural

_MOST_LINES = 12


def origin_sentence(lowered: LowerResult, shown: Timeline, origin: str) -> str:
    """Return the source of the figures and what is not known.

    ``origin`` is the origin of the cycles, e.g. ``estimated (Vela 5.1.0)``.
    """
    where = f"{lowered.target}, {lowered.system_config}, {lowered.memory_mode}"
    sentences = [f"{origin[:1].upper()}{origin[1:]} for {where}."]
    if shown.is_measured:
        sentences.append("Mean over all inferences. Memory cycles are not measured by operation.")
        without = sum(1 for span in shown.spans if span.measured is None)
        if without:
            without_length = plural(without, "operation")
            sentences.append(f"Without own measurement: {without_length}.")
    elif shown.spans:
        sentences.append("Memory access times within an operation are unknown and drawn from its start.")
    else:
        sentences.append("Nothing runs on the NPU.")
    if shown.stops:
        cycles = sum(node.cycles for stop in shown.stops for node in stop.nodes)
        about = f"roughly estimated, {count(cycles)} cycles" if cycles else "duration unknown"
        sentences.append(f"CPU operators: {about}; not in the NPU's cycles.")
    if shown.unplaced:
        number = len(shown.unplaced)
        sentences.append(f"{count(number)} CPU operators have no known position.")
    return " ".join(sentences)


def legend_of(shown: Timeline, theme: Theme) -> str:
    """Return what the colours of the plot mean, as rich text; "" without operations."""
    marks = [("\u25a0", theme.accent, "computing")] if shown.spans else []
    if not shown.is_measured and any(span.operation.cause for span in shown.spans):
        marks.append(("\u25a0", theme.bad, "efficiency below 50 %"))
    if not shown.is_measured and shown.spans:
        marks += [("\u25a0", theme.good, "SRAM"), ("\u25a0", theme.warning, "external memory")]
    if shown.stops:
        marks.append(("\u25c6", theme.bad, "CPU operators"))
    spans = (f'<span style="color:{colour}">{sign}</span> {escape(words)}' for sign, colour, words in marks)
    return " &nbsp; ".join(spans)


def sums_sentence(shown: Timeline, indices: Sequence[int], nodes: Sequence[CpuNode]) -> str:
    """Return the sums of the selected operations and CPU operators; "" for no selection."""
    sentences = []
    if indices:
        sums = shown.sums(indices)
        kind = "measured" if shown.is_measured else "estimated"
        parts = [
            f"{plural(sums.operations, 'operation')} on the NPU: {count(sums.cycles)} cycles "
            f"{kind}, {percent(sums.share)} of all"
        ]
        if shown.is_measured:
            parts.append(f"{count(sums.estimated)} estimated")
        parts.append(
            f"computing {count(sums.npu)}, SRAM {count(sums.sram)}, external memory "
            f"{count(sums.external)} cycles estimated"
        )
        parts.append(f"{count(sums.macs)} MACs")
        (together,) = by_module((shown.spans[index].operation for index in indices), depth=0)
        parts += efficiency_lines(together)
        most_first = sorted(sums.bounds.items(), key=lambda pair: -pair[1])
        if most_first:
            parts.append("bound by " + ", ".join(f"{what} ({count(n)})" for what, n in most_first))
        sentences.append("; ".join(parts) + ".")
    if nodes:
        names = ", ".join(dict.fromkeys(operator_name(node.op) for node in nodes[:_MOST_LINES]))
        sentences.append(f"{plural(len(nodes), 'operator')} on the CPU, {_about(nodes)}: {names}.")
    return " ".join(sentences)


def _about(nodes: Sequence[CpuNode]) -> str:
    cycles = sum(node.cycles for node in nodes)
    return f"roughly {count(cycles)} cycles of a Cortex-M55" if cycles else "duration unknown"


def describe_stop(stop: CpuStop) -> str:
    """Return the operators of a CPU stop, one per line."""
    lines = [f"{plural(len(stop.nodes), 'operator')} on the CPU, {_about(stop.nodes)}"]
    for node in stop.nodes[:_MOST_LINES]:
        lines.append(f"{operator_name(node.op)}  {node.module}".rstrip())
        if node.reason:
            lines.append(f"    {node.reason}")
    if len(stop.nodes) > _MOST_LINES:
        lines.append(f"and {count(len(stop.nodes) - _MOST_LINES)} more")
    return "\n".join(lines)


NO_TIMELINE = "Compile to see the timeline."
KEYS = "Drag to sum a range, click to select an operation. W/S: zoom, A/D: pan, F: fit."
ESTIMATED, MEASURED = range(2)

STEP = "Execute the program on the simulator, and show what the selected operation reads and writes"
NO_STEP = "Select one operation that the NPU executes first"


class TimelinePanel(ResultPanel):
    """Shows the lanes of the timeline and the sums of the selection."""

    panel_id = "timeline"

    def build_frames(self) -> None:
        self._rows: list[OperationRow] = []
        self._key: tuple[Path, Path | None, bool] | None = None
        self._lowered: Shown[LowerResult] | None = None
        self._run: SimulationResult | None = None
        self._program: GraphSnapshot | None = None
        self._chosen: list[int] = []
        self._stops: list[int] = []
        self.frames["lower"] = StageFrame("Estimates", NO_TIMELINE, self._make, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames["lower"])

    def set_theme(self, theme: Theme) -> None:
        if self.has("lower"):
            self.plot.set_theme(theme)
            self.legend.setText(legend_of(self.plot.timeline, theme))

    def show_results(self) -> None:
        lowered = self.read_program()
        self.show_frame("lower", lowered)
        if lowered is None:
            return
        run = self.read(SimulationResult, "run")
        is_of_it = (
            run is not None
            and run.current
            and lowered.current
            and is_trace_of(run.value.traced, lowered.value)
        )
        key = (lowered.folder, run.folder if run and is_of_it else None, lowered.current)
        if key != self._key:
            self._key = key
            self._lowered, self._run = lowered, run.value if run and is_of_it else None
            self._show_choices(lowered.value)
            self._show_program(lowered)
            self._show_timeline()

    def render_selection(self, selected: Selected) -> None:
        if not self.has("lower") or selected.origin == self.panel_id:
            return
        modules = selected.modules or self.context.model_index.modules_of(selected.nodes)
        indices = [r.index for r in self._rows if r.operation.module and inside(r.operation.module, modules)]
        self.plot.leave_stretch()
        self._sum_up(
            indices,
            [
                number
                for number, stop in enumerate(self.plot.timeline.stops)
                if any(node.node in selected.nodes for node in stop.nodes)
            ],
        )

    def _make(self, content: QWidget) -> None:
        self.origin, self.legend = Label(content), Label(content)
        for label in (self.origin, self.legend):
            label.setObjectName("Hint")
            label.setWordWrap(True)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.cycles = QComboBox(content)
        self.cycles.setAccessibleName("Cycles")
        self.cycles.activated.connect(lambda _index: self._show_timeline())
        self.cpu_time = QCheckBox("CPU time", content)
        self.cpu_time.setToolTip(
            "Draw CPU operators as long as they roughly take: 9.1 cycles of a Cortex-M55 for each "
            "element and product, at the clock of the NPU. Off: the NPU's time alone."
        )
        self.cpu_time.setChecked(True)
        self.cpu_time.toggled.connect(lambda _on: self._show_timeline())
        self.step = QPushButton("Step through", content)
        self.step.clicked.connect(self._step_through)
        self.export = QPushButton("Export Perfetto trace\u2026", content)
        self.export.setToolTip("Write the timeline as a trace for ui.perfetto.dev")
        self.export.clicked.connect(self._ask_trace)
        self.plot = self._connected_plot(content)
        self.sums = Label(content)
        self.sums.setWordWrap(True)
        self.sums.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.sums.setMinimumHeight(2 * self.sums.fontMetrics().lineSpacing())
        self.sums.setAlignment(Qt.AlignmentFlag.AlignTop)
        row = QHBoxLayout()
        row.addWidget(self.cycles, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.origin, 1)
        for part in (self.cpu_time, self.step, self.export):
            row.addWidget(part, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(6)
        layout.addLayout(row)
        layout.addWidget(self.legend)
        layout.addWidget(self.plot, 1)
        layout.addWidget(self.sums)

    def _connected_plot(self, content: QWidget) -> TimelinePlot:
        plot = TimelinePlot(self._describe_span, self._describe_stop, content)
        plot.span_chosen.connect(self._on_span_chosen)
        plot.slice_chosen.connect(self._on_slice_chosen)
        plot.stop_chosen.connect(self._on_stop_chosen)
        plot.stretch_chosen.connect(self._on_stretch_chosen)
        return plot

    def _show_choices(self, lowered: LowerResult) -> None:
        chosen = self.cycles.currentIndex()
        self.cycles.clear()
        self.cycles.addItem(f"estimated (Vela {lowered.vela_version})")
        if self._run is not None:
            self.cycles.addItem(origin_of(self._run))
        self.cycles.setCurrentIndex(chosen if 0 <= chosen < self.cycles.count() else ESTIMATED)
        self.cycles.setVisible(self._run is not None)

    def _show_program(self, lowered: Shown[LowerResult]) -> None:
        self._rows = operation_rows(lowered.value)
        try:
            self._program = self.context.session.parsed.graph(lowered.folder / GRAPH_FILE)
        except WorkbenchError:
            self._program = None
        self.plot.set_stale(not lowered.current)

    def _show_timeline(self) -> None:
        if self._lowered is None:
            return
        lowered = self._lowered.value
        traced = self._run.traced if self._run and self.cycles.currentIndex() == MEASURED else ()
        drawn = timeline(lowered, self._program, traced, cpu_time=self.cpu_time.isChecked())
        self.cpu_time.setVisible(bool(drawn.stops) and lowered.cpu_cycles > 0)
        origin = self.cycles.currentText()
        self.plot.render_timeline(drawn, origin)
        self.origin.setText(origin_sentence(lowered, drawn, origin))
        self.legend.setText(legend_of(drawn, self.context.theme))
        self._sum_up([], [])
        self.render_selection(self.context.selection.value)

    def _sum_up(self, indices: Iterable[int], stops: Iterable[int]) -> None:
        self._chosen, self._stops = list(indices), list(stops)
        self.plot.mark(self._chosen)
        shown: Timeline = self.plot.timeline
        nodes = [node for number in self._stops for node in shown.stops[number].nodes]
        text = sums_sentence(shown, self._chosen, nodes)
        self.sums.setText(text or KEYS)
        can = self._command() is not None
        self.step.setEnabled(can)
        self.step.setToolTip(STEP if can else NO_STEP)

    def _command(self) -> tuple[int, int] | None:
        """Return delegate and offset of the selected operation's last command; None if unknown."""
        if self._lowered is None or len(self._chosen) != 1:
            return None
        index = self._chosen[0]
        for report in self._lowered.value.vela:
            if index < len(report.operations):
                offsets = [c.offset for c in report.commands if c.operation == index]
                return (report.delegate, offsets[-1]) if offsets else None
            index -= len(report.operations)
        return None

    def _step_through(self) -> None:
        command = self._command()
        if command is not None and self._lowered is not None:
            self.context.steps.asked.emit(self._lowered.folder / PROGRAM_FILE, *command)

    def _ask_trace(self) -> None:
        project, folder = self.context.document.project, self.context.document.folder
        ask_to_save(
            self,
            "Export Perfetto trace to",
            lambda name: self.export_trace(Path(name)),
            f"{file_stem(project.name) if project else 'untitled'}.trace.json",
            start=folder,
            filters=["Trace (*.json)"],
        )

    def export_trace(self, target: Path) -> None:
        """Write the shown timeline as a trace for Perfetto."""
        from workbench.api.deliverables import trace

        opened = self.context.document.opened_project
        if opened is None or self._lowered is None:
            return
        try:
            write_file(target, trace(opened, self._lowered.value, self.plot.timeline))
        except OSError as error:
            self.context.notices.error(not_written(target, error))
        except WorkbenchError as error:
            self.context.notices.error(error)
        else:
            self.context.notices.success(
                f"Exported the trace to {target}.", "Open it in ui.perfetto.dev.", []
            )

    def _choose(self, indices: Sequence[int], stops: Sequence[int] = ()) -> None:
        self._sum_up(indices, stops)
        modules = {self._rows[index].operation.module for index in indices} - {""}
        self.context.selection.choose_modules(sorted(modules), self.panel_id)

    def _on_span_chosen(self, index: int, adds: bool) -> None:
        self.plot.leave_stretch()
        self._choose(sorted({*self._chosen} ^ {index}) if adds else [index])

    def _on_slice_chosen(self, first: int, last: int) -> None:
        self.plot.leave_stretch()
        self._choose(range(first, last + 1))

    def _on_stop_chosen(self, number: int) -> None:
        self.plot.leave_stretch()
        self._sum_up([], [number])
        nodes = [node.node for node in self.plot.timeline.stops[number].nodes]
        self.context.selection.choose_nodes(nodes, self.panel_id)

    def _on_stretch_chosen(self, low: float, high: float, is_over: bool) -> None:
        shown = self.plot.timeline
        indices, stops = shown.between(low, high), shown.stops_between(low, high)
        if is_over:
            self._choose(indices, stops)
        else:
            self._sum_up(indices, stops)

    def _describe_span(self, index: int) -> str:
        span = self.plot.timeline.spans[index]
        text = describe_operation(self._rows[index])
        if not self.plot.timeline.is_measured:
            return text
        if span.measured is None:
            return f"{text}\nno own measurement"
        return f"{text}\n{count(span.measured)} cycles {self.cycles.currentText()}"

    def _describe_stop(self, number: int) -> str:
        return describe_stop(self.plot.timeline.stops[number])
