"""The Ranges panel: calibrated ranges of all tensors, and one tensor in detail."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QCheckBox, QFrame, QGridLayout, QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from ui.features.ranges.range_choices import RangeController, RangeOverrides
from ui.features.ranges.range_table import COLUMNS, describe
from ui.shared.labels import ElidedLabel, Label, literal
from ui.shared.range_rows import Arrays, Channels, RangeRow, range_rows, read_channels, read_histograms
from ui.shared.range_series import legend_of, series_of
from ui.shared.result_panel import ResultPanel, StageFrame, chosen_nodes
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shared.tabs import SplitOrTabs
from ui.shared.theme import Theme
from ui.state.selection import Selected
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.project.configs import MethodId, MethodScope
from workbench.results import EXAMPLE_ONLY, CalibrateResult, EvaluateResult

EMPTY_TEXT = "Calibrate to see the ranges."
NO_RANGES = "Nothing is quantized with ranges of calibration."
EXAMPLE_TEXT = "Calibrated on the example input only. Add calibration data and run Calibrate again."
STAGE: StageId = "calibrate"
_SLICE_S = 0.006
_WIDE_PX = 760


class RangesPanel(ResultPanel):
    """Shows the range plot, a tensor view and the range table."""

    panel_id = "ranges"

    def build_frames(self) -> None:
        self.verbs = RangeController(self.context.document, self)
        self.decisions = RangeOverrides(self)
        self.decisions.changed.connect(self._on_decided)
        self.rows: list[RangeRow] = []
        self.arrays: Arrays = {}
        self._channels: Channels = {}
        self._reading: Iterator[Channels] = iter(())
        self._more = QTimer(self, interval=0)
        self._more.timeout.connect(self._on_time_to_read)
        self._shown: tuple[Path | None, Path | None, bool, object] | None = None
        self._large: int | None = None
        # The id of the tensor that was shown last.
        self._last = ""
        self.frames[STAGE] = StageFrame("Ranges", EMPTY_TEXT, self._make_content, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames[STAGE])

    def set_theme(self, theme: Theme) -> None:
        if self.has(STAGE):
            self.plot.set_theme(theme)
            self.side.set_theme(theme, stale=bool(self._shown and not self._shown[2]))
            self._show_legend()
            self.table.set_look(theme, stale=bool(self._shown and not self._shown[2]))

    def show_results(self) -> None:
        shown = self.read(CalibrateResult, STAGE)
        self.show_frame(STAGE, shown)
        if shown is None:
            return
        evaluated = self.read(EvaluateResult, "evaluate")
        quality = evaluated if evaluated is not None and evaluated.current else None
        project = self.context.document.project
        decides = (project.ranges, project.range_methods, project.calibration) if project else ()
        seen = (shown.folder, quality.folder if quality else None, shown.current, decides)
        self.side.render_project(project)
        if seen == self._shown:
            return
        if self._shown is None or self._shown[0] != shown.folder:
            self.arrays = self._read_histograms(shown.folder)
        self._shown = seen
        decided = self.decisions.of(shown.value.ranges, self.arrays, project)
        self.rows = range_rows(shown.value, self.arrays, quality.value if quality else None, decided)
        self._channels = {}
        self._reading = read_channels(shown.folder, self.rows)
        self._more.start()
        self.model.set_rows(self.rows)
        self.plot.render_series(series_of(self.rows, self._channels, self.arrays))
        self._show_legend()
        self._large = None
        for part in (self.plot, self.side.editor.tensor):
            part.set_stale(not shown.current)
        self.table.set_look(self.context.theme, stale=not shown.current)
        samples = shown.value.samples
        times = f"{samples} sample{'s' if samples != 1 else ''}"
        on = shown.value.calibrated_on
        self.origin.setText(f"{times} of {on}, measured in PyTorch")
        self.origin.setToolTip(literal(self.origin.text()))
        self.warning.setVisible(on == EXAMPLE_ONLY)

    def _show_legend(self) -> None:
        labels = [row.label for row in self.rows if row.is_known]
        self.legend.setText(legend_of(self.context.theme, labels))

    def render_selection(self, selected: Selected) -> None:
        if not self.has(STAGE):
            return
        indices = self._described(selected)
        self.plot.choose(indices)
        shown = [self.model.shown_at(index) for index in indices]
        is_mine = selected.origin == self.panel_id
        if not is_mine or set(shown) != set(self.table.chosen_rows()):
            self.table.choose_rows(shown, reveal=True)
        if indices and not is_mine:
            self.plot.reveal(indices[0])
        self._show_large(indices[0] if indices else None)

    def _make_content(self, content: QWidget) -> None:
        from ui.features.ranges.range_plot import RangePlot

        self.plot = RangePlot(lambda index: describe(self.rows[index]), content)
        self.plot.tensors_chosen.connect(self._on_tensors_chosen)
        self.model = FigureTableModel(COLUMNS, describe, self)
        self.table = FigureView("All ranges", self.model, content, empty=NO_RANGES)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        # The row of the tensor shown without a choice is marked already: a click changes no row then.
        self.table.clicked.connect(lambda _index: self._on_rows_chosen(self.table.chosen_rows()))
        layout = QVBoxLayout(content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._built_warning(content))
        layout.addLayout(self._built_bar(content))
        layout.addWidget(self._built_split(content), 1)

    def _built_warning(self, parent: QWidget) -> QFrame:
        self.warning = QFrame(parent)
        self.warning.setObjectName("Banner")
        label = Label(EXAMPLE_TEXT, self.warning)
        label.setWordWrap(True)
        row = QHBoxLayout(self.warning)
        row.setContentsMargins(10, 4, 10, 4)
        row.addWidget(label)
        self.warning.hide()
        return self.warning

    def _built_bar(self, parent: QWidget) -> QGridLayout:
        self.origin = ElidedLabel(parent)
        self.origin.setObjectName("Hint")
        self.legend = Label(parent)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.legend.setWordWrap(True)
        self.legend.setToolTip(
            "Drag to select tensors, Ctrl+click to add one, wheel to zoom, Shift+drag to pan"
        )
        self.log = QCheckBox("Logarithmic values", parent)
        self.log.setToolTip("Symmetric logarithmic axis")
        self.log.clicked.connect(self.plot.set_log)
        rows = QGridLayout()
        rows.setContentsMargins(8, 4, 8, 2)
        rows.addWidget(self.origin, 0, 0)
        rows.addWidget(self.log, 0, 1)
        rows.addWidget(self.legend, 1, 0, 1, 2)
        rows.setColumnStretch(0, 1)
        return rows

    def _built_split(self, parent: QWidget) -> SplitOrTabs:
        all_of_them = QSplitter(Qt.Orientation.Vertical, parent)
        for number, part in enumerate((self.plot, self.table)):
            all_of_them.addWidget(part)
            all_of_them.setStretchFactor(number, 5 - 2 * number)
            all_of_them.setCollapsible(number, False)
        all_of_them.setSizes([420, 240])
        self.parts = SplitOrTabs(
            (("All tensors", all_of_them), ("Selected tensor", self._built_side(parent))),
            (8, 5),
            _WIDE_PX,
            parent,
        )
        self.table.activated.connect(lambda _index: self.parts.show_part(self.side))
        return self.parts

    def _built_side(self, parent: QWidget) -> QWidget:
        from ui.features.ranges.tensor_view import TensorSide

        side = self.side = TensorSide(parent)
        side.editor.fix_asked.connect(self.verbs.fix)
        side.editor.free_asked.connect(self.verbs.free)
        side.methods.method_asked.connect(self._on_method_asked)
        side.samples.drop_asked.connect(self.verbs.drop)
        side.samples.restore_asked.connect(self.verbs.restore)
        side.chosen.free_asked.connect(self.verbs.take_back)
        side.chosen.tensor_chosen.connect(self._on_tensor_named)
        return side

    def _described(self, selected: Selected) -> list[int]:
        """Return the indices of the selected tensors; without a choice that of the one that loses most.

        While that is not known, it is the tensor that was shown last.
        """
        worst = self._worst()
        last = [index for index, row in enumerate(self.rows) if row.tensor.id == self._last]
        return self._places(selected) or ([worst] if worst is not None else last)

    def _worst(self) -> int | None:
        """Return the index of the activation with the lowest SQNR; None if none is known."""
        known = [(row.sqnr_db, index) for index, row in enumerate(self.rows) if row.sqnr_db is not None]
        return min(known)[1] if known else None

    def _show_large(self, index: int | None) -> None:
        """Show a tensor beside the others."""
        if index is not None and index == self._large:
            return
        self._large = index
        if index is None:
            self.side.render_nothing()
            return
        self._last = self.rows[index].tensor.id
        self.side.render_tensor(
            self.rows[index],
            index,
            self.arrays,
            self._channels,
            self.context.document.project,
            self.context.theme,
        )

    def _on_method_asked(self, method: MethodId, scope: MethodScope) -> None:
        if self._large is not None:
            self.verbs.take(method, scope, self.rows[self._large].tensor)

    def _on_decided(self) -> None:
        """Show the finished range searches."""
        if self._shown is not None:
            self._shown = (self._shown[0], None, False, None)
            self.annotate()

    def _places(self, selected: Selected) -> list[int]:
        """Return the indices of the selected tensors, also via nodes and modules."""
        rows = enumerate(self.rows)
        if selected.tensors:
            return [index for index, row in rows if row.tensor.id in selected.tensors]
        nodes = chosen_nodes(selected, self.context.model_index)
        if not nodes:
            return []
        return [index for index, row in rows if row.tensor.origin in nodes]

    def _read_histograms(self, folder: Path) -> Arrays:
        try:
            return read_histograms(folder)
        except WorkbenchError as error:
            self.context.notices.error(error)
            return {}

    def _on_time_to_read(self) -> None:
        """Read channels for a few milliseconds. Show them when all have been read."""
        until = time.perf_counter() + _SLICE_S
        try:
            for some in self._reading:
                self._channels |= some
                if time.perf_counter() > until:
                    return
        except WorkbenchError as error:
            if self.arrays:
                self.context.notices.error(error)
        self._more.stop()
        if self._channels:
            chosen = self._described(self.context.selection.value)
            self.plot.render_channels(series_of(self.rows, self._channels, self.arrays))
            self.plot.choose(chosen)
            self._large = None
            self._show_large(chosen[0] if chosen else None)

    def _on_tensors_chosen(self, indices: Sequence[int]) -> None:
        snapshot = self.context.model_index.snapshot
        tensors = [self.rows[index].tensor for index in indices]
        nodes = {tensor.origin for tensor in tensors}
        nodes &= snapshot.nodes_by_id.keys() if snapshot is not None else nodes - {""}
        ids = [tensor.id for tensor in tensors]
        self.context.selection.choose_tensors(ids, nodes, self.panel_id)

    def _on_tensor_named(self, name: str) -> None:
        self._on_tensors_chosen([index for index, row in enumerate(self.rows) if row.node == name])

    def _on_rows_chosen(self, shown: Sequence[int]) -> None:
        self._on_tensors_chosen([self.model.source_row(row) for row in shown])
