"""The Accuracy panel: quality of the quantized model and of the integer program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QSizePolicy, QSplitter, QVBoxLayout, QWidget

from ui.features.accuracy.comparison_view import (
    LOWEST_BARS_PX,
    READ_COLUMNS,
    SIGNS,
    ComparisonView,
    describe_token,
)
from ui.features.accuracy.quality_cards import (
    OUTPUT_COLUMNS,
    READING_COLUMNS,
    SAMPLE_COLUMNS,
    TENSOR_COLUMNS,
    describe_output,
    describe_quality,
    describe_reading,
    describe_sample,
    output_rows,
    quality_cards,
)
from ui.shared.explanations import quality_origin
from ui.shared.figure_cards import FigureCards
from ui.shared.forms import WrappedLabel
from ui.shared.labels import ElidedLabel, Label, literal
from ui.shared.number_format import percent
from ui.shared.result_panel import ResultPanel, Shown, StageFrame, chosen_nodes
from ui.shared.setting_names import in_window
from ui.shared.sortable_table import BarDelegate, FigureTableModel, FigureView, Role
from ui.shared.tabs import SplitOrTabs, Tabs
from ui.shared.theme import Theme
from ui.state.selection import Selected
from workbench.analysis.accuracy import mark_words
from workbench.analysis.error_sources import error_path, largest_sources
from workbench.analysis.gate import limit_words
from workbench.errors import Place
from workbench.ids import StageId
from workbench.results import (
    EXAMPLE_ONLY,
    TENSOR_SAMPLES,
    ConvertResult,
    EvaluateResult,
    TensorQuality,
    VerifyResult,
)
from workbench.targets import has_stage

NO_QUALITY = "Evaluate to compare the quantized model with the float model."
NO_VERIFY = "Verify to compare the compiled program with the quantized model."
Key = tuple[Path, bool]
_SQNR, _ADDED = 1, 2
# What the bars show: their title, their axis, and the column of the table with the same figures.
SQNR_BARS, ADDED_BARS, PATH_BARS = range(3)
_BARS = (
    ("SQNR", "SQNR [dB]", _SQNR),
    ("Error added here", "error added here [%]", _ADDED),
    ("Path of the error", "SQNR [dB]", _SQNR),
)
PATH_TIP = (
    "From an input to the output with the lowest SQNR: at each operation, the input with the lowest SQNR"
)
_WIDE_PX = 1280


class AccuracyPanel(ResultPanel):
    """Shows results of Evaluate at the left, of Verify at the right, and tensors below."""

    panel_id = "accuracy"

    def build_frames(self) -> None:
        self._tensors: tuple[TensorQuality, ...] = ()
        self._tensor_samples = ""
        self._order: list[int] = []
        self._keys: dict[StageId, Key | None] = {"evaluate": None, "verify": None}
        self.frames["evaluate"] = StageFrame("Quality", NO_QUALITY, self._make_quality, self)
        self.frames["verify"] = StageFrame("Comparison", NO_VERIFY, self._make_verify, self)
        self.parts = SplitOrTabs(
            (("Quantized model", self.frames["evaluate"]), ("Program", self.frames["verify"])),
            (1, 1),
            _WIDE_PX,
            self,
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.parts)

    def set_theme(self, theme: Theme) -> None:
        if self.has("evaluate"):
            self.bars.set_theme(theme)
        if self.has("verify"):
            self.comparison.set_theme(theme)
        if any(self.has(stage) for stage in self.frames):
            self._keys = dict.fromkeys(self._keys)
            self.show_results()

    def refresh(self) -> None:
        super().refresh()
        # A target without a program has nothing to compare with.
        project = self.context.document.project
        self.parts.set_part_visible(1, project is None or has_stage(project, "verify"))

    def show_results(self) -> None:
        evaluated = self.read(EvaluateResult, "evaluate")
        self.show_frame("evaluate", evaluated)
        if evaluated is not None and self._is_news("evaluate", evaluated.folder, evaluated.current):
            self._show_quality(evaluated)
        verified = self.read(VerifyResult, "verify")
        self.show_frame("verify", verified)
        if verified is not None and self._is_news("verify", verified.folder, verified.current):
            stale = not verified.current
            self.comparison.render_comparison(verified.value, self.context.theme, stale=stale)
        if verified is not None:
            self.comparison.render_verdict(self.context.gate())
        if evaluated is not None:
            self._show_accuracy()

    def _show_accuracy(self) -> None:
        """Show whether the present program is accurate enough; nothing without a program."""
        answers, theme = self.context.answers(), self.context.theme
        accuracy = answers.accuracy if answers is not None else None
        self.accuracy.setVisible(accuracy is not None)
        if accuracy is None:
            return
        self.accuracy.setText(f"Accuracy: {accuracy.sentence}")
        lines = [f"{SIGNS[limit.held]} {limit_words(limit)}" for limit in accuracy.limits]
        lines += [f"! {mark_words(mark)}" for mark in accuracy.marks]
        self.accuracy.setToolTip(literal("\n".join((*lines, *accuracy.notes))))
        colours = {"low accuracy": theme.warning, "not accurate enough": theme.bad}
        self.accuracy.setStyleSheet(f"color: {colours.get(accuracy.verdict, theme.text)};")

    def show_worst(self) -> None:
        """Show the operation that adds most of the error itself, and select it."""
        self.annotate()
        if not self.has("evaluate") or not self._tensors:
            return
        is_known = any(tensor.added_share is not None for tensor in self._tensors)
        self.bars_shown.setCurrentIndex(ADDED_BARS if is_known else SQNR_BARS)
        self.worst_first.setChecked(True)
        self._on_worst_first(True)
        self.parts.show_part(self.frames["evaluate"])
        self.pages.setCurrentIndex(0)
        self._choose(self._order[:1])

    def render_selection(self, selected: Selected) -> None:
        if not self.has("evaluate"):
            return
        nodes = chosen_nodes(selected, self.context.model_index)
        indices = [i for i, tensor in enumerate(self._tensors) if tensor.origin in nodes]
        at = {index: bar for bar, index in enumerate(self._order)}
        self.bars.choose(at[index] for index in indices)
        shown = [self.model.shown_at(index) for index in indices]
        if selected.origin != self.panel_id or set(shown) != set(self.table.chosen_rows()):
            self.table.choose_rows(shown, reveal=True)

    def _make_quality(self, content: QWidget) -> None:
        from ui.shared.bar_plot import BarPlot

        self.cards = FigureCards(content)
        self.accuracy = WrappedLabel(parent=content)
        self.data_note = WrappedLabel(parent=content)
        self.variants = FigureTableModel(READING_COLUMNS, describe_reading, self)
        self.variant_table = FigureView("Arithmetic models", self.variants, content)
        self.outputs = FigureTableModel(OUTPUT_COLUMNS, describe_output, self)
        self.output_table = FigureView("Quality of the outputs", self.outputs, content)
        self.bars = BarPlot("SQNR of the tensors", "tensors", "SQNR [dB]", self._describe, content)
        self.bars.setMinimumHeight(LOWEST_BARS_PX)
        self.bars.bars_chosen.connect(self._on_bars_chosen)
        self.bars_shown = QComboBox(content)
        self.bars_shown.setAccessibleName("Figure of the bars")
        self.bars_shown.addItems([title for title, _, _ in _BARS])
        self.bars_shown.setItemData(PATH_BARS, PATH_TIP, Qt.ItemDataRole.ToolTipRole)
        self.bars_shown.activated.connect(self._on_bars_shown)
        self.worst_first = QCheckBox("Worst first", content)
        self.worst_first.clicked.connect(self._on_worst_first)
        self.model = FigureTableModel(TENSOR_COLUMNS, describe_quality, self)
        self.table = FigureView("Quality of the tensors", self.model, content)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.table.setItemDelegateForColumn(
            _ADDED, BarDelegate(lambda: self.context.theme, Role.SHARE, self.table)
        )
        self.samples = FigureTableModel(SAMPLE_COLUMNS, describe_sample, self)
        self.sample_table = FigureView(
            "Worst samples", self.samples, content, empty="No figures of single samples."
        )
        self.sample_table.setToolTip("Double-click a row to show the sample.")
        self.sample_table.activated.connect(lambda index: self._look_at(index.row()))
        top = QVBoxLayout(content)
        top.setContentsMargins(8, 6, 8, 0)
        top.setSpacing(4)
        top.addWidget(_heading("Quantized vs. float", content))
        top.addWidget(self.accuracy)
        top.addWidget(self.data_note)
        top.addWidget(self.cards)
        top.addWidget(self._built_tensors(content), 1)

    def _built_tensors(self, parent: QWidget) -> QSplitter:
        bars = QWidget(parent)
        row = QHBoxLayout()
        self.bars_note = ElidedLabel(bars)
        self.bars_note.setObjectName("Hint")
        self.bars_note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        row.addWidget(self.bars_shown)
        row.addWidget(self.bars_note, 1)
        row.addWidget(self.worst_first)
        layout = QVBoxLayout(bars)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(row)
        layout.addWidget(self.bars, 1)
        split = QSplitter(Qt.Orientation.Vertical, parent)
        self.tokens = FigureTableModel(READ_COLUMNS, describe_token, self)
        self.token_table = FigureView("Tokens", self.tokens, split)
        self.pages = Tabs(split)
        self.pages.add_pages(
            ("Tensors", self.table), ("Worst samples", self.sample_table), ("Tokens", self.token_table)
        )
        # A splitter keeps the room of what is hidden later until its next layout.
        self.variant_table.hide()
        self.output_table.hide()
        parts = (self.variant_table, self.output_table, bars, self.pages)
        for number, part in enumerate(parts):
            split.addWidget(part)
            split.setCollapsible(number, False)
            split.setStretchFactor(number, max(number - 1, 0))
        split.setSizes([96, 60, 180, 190])
        return split

    def _make_verify(self, content: QWidget) -> None:
        self.comparison = ComparisonView(content)
        self.comparison.nodes_chosen.connect(
            lambda nodes: self.context.selection.choose_nodes(nodes, "integers")
        )
        layout = QVBoxLayout(content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.comparison)

    def _is_news(self, stage: StageId, folder: Path, current: bool) -> bool:
        before, self._keys[stage] = self._keys[stage], (folder, current)
        return before != self._keys[stage]

    def _show_quality(self, shown: Shown[EvaluateResult]) -> None:
        value, theme = shown.value, self.context.theme
        converted = self.context.load(ConvertResult, "convert")
        memory = converted.memory if converted is not None else None
        project = self.context.document.project
        origin = quality_origin(project)
        cards = quality_cards(value, memory, origin)
        self.cards.render_cards(cards, theme, stale=not shown.current)
        note = f"{_samples(value.samples)} of {value.data}, calibrated on {value.calibrated_on}."
        if EXAMPLE_ONLY in {value.calibrated_on, value.data}:
            note += " Results on real data may differ."
        self.data_note.setText(in_window(" ".join((note, *value.warnings))))
        is_weak = EXAMPLE_ONLY in note or bool(value.warnings)
        self.data_note.setStyleSheet(f"color: {theme.warning if is_weak else theme.muted};")
        self._tensors = value.tensors
        self._tensor_samples = f"over the first {_samples(min(value.samples, TENSOR_SAMPLES))}"
        self.variants.set_rows(value.readings)
        self.variant_table.setVisible(bool(value.readings))
        self.variant_table.set_look(theme, stale=not shown.current)
        rows = output_rows(value)
        self.outputs.set_rows(rows)
        # The cards have the figures of a single output.
        self.output_table.setVisible(len(rows) > 1)
        self.model.set_rows(value.tensors)
        self.samples.set_rows(value.worst)
        self.tokens.set_rows(value.text.steps if value.text else ())
        self.pages.setTabVisible(2, value.text is not None)
        self._show_bars()
        self.bars.set_stale(not shown.current)
        for table in (self.output_table, self.table, self.sample_table, self.token_table):
            table.set_look(theme, stale=not shown.current)

    def _show_bars(self) -> None:
        shown, is_sorted = self.bars_shown.currentIndex(), self.worst_first.isChecked()
        self.worst_first.setVisible(shown != PATH_BARS)
        values = [
            (None if t.added_share is None else 100.0 * t.added_share) if shown == ADDED_BARS else t.sqnr_db
            for t in self._tensors
        ]
        figures = np.asarray([np.nan if v is None else v for v in values], np.float64)
        self._order = list(range(figures.size))
        graph = self.context.model_index.snapshot
        if shown == PATH_BARS:
            self._order = list(error_path(graph, self._tensors)) if graph is not None else []
        elif is_sorted:
            self._order = np.argsort(-figures if shown == ADDED_BARS else figures, kind="stable").tolist()
        order = "worst first" if is_sorted and shown != PATH_BARS else "in program order"
        self.bars.set_label("bottom", f"tensors, {order}")
        self.bars.set_label("left", _BARS[shown][1])
        self.bars_note.setText(self._bars_text(shown))
        self.bars.render_bars([self._tensors[i].tensor for i in self._order], figures[self._order])
        self.render_selection(self.context.selection.value)

    def _bars_text(self, shown: int) -> str:
        """Return what the bars say, in a sentence."""
        origin = quality_origin(self.context.document.project)
        sources = largest_sources(self._tensors)
        if shown == ADDED_BARS and sources:
            worst = sources[0]
            module = f" in {worst.module}" if worst.module else ""
            return f"{worst.tensor}{module} adds {percent(worst.added_share)} of the error; {origin}"
        if shown == PATH_BARS and self._order:
            ends = (self._tensors[self._order[end]].tensor for end in (0, -1))
            return f"From {next(ends)} to {next(ends)}, SQNR against float, {self._tensor_samples}; {origin}"
        return f"Against float, {self._tensor_samples}; {origin}"

    def _describe(self, bar: int) -> str:
        return describe_quality(self._tensors[self._order[bar]])

    def _on_bars_shown(self, _index: int) -> None:
        self._on_worst_first(self.worst_first.isChecked())

    def _on_worst_first(self, on: bool) -> None:
        shown = self.bars_shown.currentIndex()
        order = Qt.SortOrder
        self.table.sortByColumn(
            _BARS[shown][2] if on else -1,
            order.DescendingOrder if shown == ADDED_BARS else order.AscendingOrder,
        )
        self._show_bars()
        if on:
            # Not at the selected row, which may be the last one now.
            self.table.scrollToTop()

    def _choose(self, indices: Sequence[int]) -> None:
        nodes = {self._tensors[index].origin for index in indices} - {""}
        self.context.selection.choose_nodes(nodes, self.panel_id)

    def _on_bars_chosen(self, bars: Sequence[int]) -> None:
        self._choose([self._order[bar] for bar in bars])

    def _look_at(self, row: int) -> None:
        row_chosen = self.samples.row_at(row)
        if row_chosen is not None:
            place = Place(kind="sample", id=str(row_chosen.sample))
            self.context.notices.place_asked.emit(place)

    def _on_rows_chosen(self, rows: Sequence[int]) -> None:
        self._choose([self.model.source_row(row) for row in rows])


def _samples(number: int) -> str:
    return f"{number} sample{'s' if number != 1 else ''}"


def _heading(text: str, parent: QWidget) -> Label:
    label = Label(text, parent)
    label.setObjectName("Subheading")
    label.setWordWrap(True)
    return label
