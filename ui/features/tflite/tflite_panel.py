"""The TFLite panel: the program beside the same network in TensorFlow Lite."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QSplitter, QVBoxLayout, QWidget

from ui.features.tflite.tflite_tables import (
    CauseRow,
    cause_columns,
    causes_of,
    figures_of,
    layer_columns,
    layer_tip,
    on_cpu_model,
    outputs_model,
    totals_model,
)
from ui.shared.empty_states import StudyNote
from ui.shared.file_dialogs import ask_to_open
from ui.shared.labels import Label, literal
from ui.shared.panel import Panel
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shared.study_controller import StudyController
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from ui.shared.wrapping_row import FlowRow
from ui.state.selection import Selected
from workbench.errors import WorkbenchError
from workbench.studies.tflite import ComparedLayer, TfliteComparison, tflite_options
from workbench.targets import why_unestimated

NOTHING = (
    "Shows why the program is slower, or faster, than a TensorFlow Lite deployment of the same network: "
    "choose its .tflite, from before Vela or compiled for the project's device."
)
_WIDE_PX = 900


class TflitePanel(Panel):
    """Shows layers, causes, totals, CPU operators and outputs of both programs."""

    panel_id = "tflite"

    def build(self) -> None:
        context = self.context
        self._file: Path | None = None
        self.study = StudyController(
            "tflite", TfliteComparison, context.document, context.runner, context.session.cache, self
        )
        self.study.changed.connect(lambda: self._mark("state"))
        context.document.opened.connect(self._forget)
        self.note = StudyNote(NOTHING, self)
        self.note.place_asked.connect(context.notices.place_asked)
        self._make_head()
        self.layers = FigureTableModel(layer_columns(), layer_tip, self)
        self.layer_view = FigureView("Layers of both programs", self.layers, self)
        self.layer_view.rows_chosen.connect(self._on_layers_chosen)
        self.causes = FigureTableModel[CauseRow](cause_columns(), lambda row: row.meaning, self)
        self.cause_view = FigureView(
            "Causes", self.causes, self, empty="Both programs take equal cycles for each layer."
        )
        self.totals = totals_model(self)
        self.on_cpu, self.outputs = on_cpu_model(self), outputs_model(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(4)
        layout.addWidget(self._head)
        layout.addWidget(self.note)
        layout.addWidget(self._built_body(), 1)

    def refresh(self) -> None:
        self.study.look()
        self._show_study()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the sums below the layers where the panel is narrow."""
        super().resizeEvent(event)
        is_wide = self.width() >= _WIDE_PX
        self._split.setOrientation(Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical)

    def set_theme(self, theme: Theme) -> None:
        del theme
        self._show_look()

    def render_selection(self, selected: Selected) -> None:
        rows = [
            self.layers.shown_at(n)
            for n, layer in enumerate(self.layers.rows)
            if layer.ours is not None and layer.ours.name in selected.modules
        ]
        self.layer_view.choose_rows(rows, reveal=True)

    def open_file(self, path: str) -> None:
        """Compare with a file."""
        self._file = Path(path)
        self._start()

    def _make_head(self) -> None:
        self.choose = QPushButton("Choose .tflite\u2026", self)
        self.choose.clicked.connect(self._on_choose)
        self.start = QPushButton("Compare again", self)
        self.start.clicked.connect(self._on_start)
        self.file = Label("", self)
        self._head = FlowRow(self)
        self._head.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._head.add(self.choose, self.start, self.file)

    def _built_body(self) -> QWidget:
        sums = QSplitter(Qt.Orientation.Vertical, self)
        sums.addWidget(FigureView("Sums of both programs", self.totals, sums))
        sums.addWidget(self.cause_view)
        sums.setSizes([230, 200])
        self.tabs = Tabs(self)
        self.tabs.add_pages(
            ("Layers", self.layer_view),
            ("On the CPU", FigureView("CPU operators", self.on_cpu, self, empty="Nothing runs on the CPU.")),
            ("Outputs", FigureView("Outputs", self.outputs, self, empty="Outputs were not compared.")),
        )
        self._split = QSplitter(Qt.Orientation.Horizontal, self)
        self._split.addWidget(self.tabs)
        self._split.addWidget(sums)
        self._split.setSizes([640, 360])
        for number in (0, 1):
            self._split.setCollapsible(number, False)
            sums.setCollapsible(number, False)
        return self._split

    def _show_study(self) -> None:
        result, job = self.study.result, self.study.job
        project = self.context.document.project
        why = why_unestimated(project.target.id) if project is not None else ""
        self.choose.setEnabled(not why and job is None)
        self.choose.setToolTip(literal(why))
        self.start.setText("Pause" if job else "Compare again")
        self.start.setVisible(job is not None or self._file is not None)
        self.file.setText(str(self._file) if self._file is not None else "")
        self.note.render_study(self.study, _summary(result) if result is not None else "", why)
        self.note.set_alone(alone=result is None, start=None if job else self.choose)
        # The empty panel has the button in its middle.
        self.choose.setVisible(not self.note.button.isVisibleTo(self))
        self._split.setVisible(result is not None)
        if result is not None:
            self._show_result(result)
        self._show_look()
        self.render_selection(self.context.selection.value)

    def _show_result(self, result: TfliteComparison) -> None:
        self.layers.set_rows(result.layers)
        self.causes.set_rows(causes_of(result))
        self.totals.set_rows(figures_of(result))
        self.on_cpu.set_rows(result.on_cpu)
        self.outputs.set_rows(result.outputs)

    def _show_look(self) -> None:
        stale = self.study.result is not None and not self.study.is_current
        for view in self.findChildren(FigureView):
            view.set_look(self.context.theme, stale=stale)

    def _forget(self) -> None:
        self._file = None

    def _on_choose(self) -> None:
        folder = self.context.document.folder
        filters = ["TensorFlow Lite (*.tflite)"]
        ask_to_open(self, "TensorFlow Lite file", self.open_file, start=folder, filters=filters)

    def _on_start(self) -> None:
        if self.study.job is not None:
            self.study.pause()
        else:
            self._start()

    def _start(self) -> None:
        if self._file is None:
            return
        try:
            self.study.options = tflite_options(self._file)
        except WorkbenchError as error:
            self.context.notices.error(error)
            return
        self.study.start()

    def _on_layers_chosen(self, rows: list[int]) -> None:
        chosen = [self.layers.row_at(row) for row in rows]
        modules = {layer.ours.name for layer in chosen if isinstance(layer, ComparedLayer) and layer.ours}
        self.context.selection.choose_modules(tuple(sorted(modules)), self.panel_id)


def _summary(result: TfliteComparison) -> str:
    kind = (
        ""
        if result.compiled_here
        else " The compiled file has no estimate: its cycles are the device's limits."
    )
    lines = [result.answer() + kind, *result.remarks()]
    if result.not_executed:
        lines.append(f"Outputs are not compared: {result.not_executed}")
    return "\n".join(lines)
