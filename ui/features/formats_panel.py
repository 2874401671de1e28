"""The Formats panel: grid and predicted SQNR of a number format on a tensor's histogram."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.shared.empty_states import StageNote, StaleBanner
from ui.shared.format_form import FIRST, FormatForm
from ui.shared.labels import Label, literal
from ui.shared.number_format import count, decibel
from ui.shared.panel import Panel
from ui.shared.range_rows import Arrays, RangeRow, range_rows, read_histograms
from ui.shared.range_series import tensor_of
from ui.shared.result_panel import chosen_nodes
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.tensor_range_plot import HistogramChart
from ui.shared.theme import Theme
from ui.state.assigner import refusal
from ui.state.selection import Selected
from workbench.analysis.ranges import histogram_of
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.project.configs import PRESETS, FormatConfig
from workbench.project.model import Project, RuleKind
from workbench.results import CalibrateResult
from workbench.targets.formats.parameters import Role
from workbench.targets.formats.schemes import bits_of
from workbench.targets.formats.values import Prediction, predict

NOTHING = "Calibrate to evaluate number formats on observed values."
NO_TENSOR = "No quantized tensors. Assign a precision first."
PRESENT = "The present rules set this format already."
NO_HISTOGRAM = "No observed values to predict from."
# Least width of the panel with the form beside the histogram, and width of the form there.
_WIDE_PX, _FORM_PX = 560, 350
# Room for the scroll bar of the form.
_BAR_PX = 18
# Height of the histogram and its figures where the form is above them and needs more room.
_SEEN_PX = 230
# Delay after a change before all presets are predicted [ms].
_REST_MS = 60
_ROLES: dict[str, Role] = {"x": "data", "w": "weight", "b": "bias"}


@dataclass(frozen=True)
class PresetRow:
    """A preset and its predicted figures on a tensor."""

    name: str
    title: str
    config: FormatConfig
    bits: float
    sqnr_db: float | None


PRESET_COLUMNS: tuple[Column[PresetRow], ...] = (
    Column("Preset", lambda r: r.name),
    Column("Bits", lambda r: f"{r.bits:.2f}", lambda r: r.bits, "Of an element, with its part of scales"),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, "Predicted from the histogram"),
)


class FormatsPanel(Panel):
    """Shows a format form beside a tensor's histogram with the format's grid."""

    panel_id = "formats"

    def build(self) -> None:
        self._rows: list[RangeRow] = []
        self._arrays: Arrays = {}
        self._folder: Path | None = None
        self._is_own = False
        self.tensor = QComboBox(self)
        self.tensor.setAccessibleName("Tensor")
        self.tensor.activated.connect(self._on_tensor_activated)
        self.form = FormatForm(self)
        self.form.changed.connect(self._on_changed)
        self.form.save_asked.connect(self._on_save_asked)
        self.presets = FigureTableModel(PRESET_COLUMNS, lambda r: r.title, self)
        self.preset_table = FigureView("Presets on this tensor", self.presets, self, empty=NO_HISTOGRAM)
        self.preset_table.setToolTip("Choose a preset to show it in the form.")
        self.preset_table.rows_chosen.connect(self._on_preset_chosen)
        self._later = QTimer(self, interval=_REST_MS, singleShot=True)
        self._later.timeout.connect(self._show_presets)
        self.summary = Label(self)
        self.summary.setWordWrap(True)
        self.summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.apply = QPushButton(self)
        self.apply.clicked.connect(self._on_apply)
        self.back = QPushButton("Reset", self)
        self.back.setToolTip("Show the present format of the tensor")
        self.back.clicked.connect(self._on_back)
        self.chart = HistogramChart(self)
        self.none = StageNote(NOTHING, self)
        self.none.set_absent(NO_TENSOR)
        self.none.follow(self.context.session, "calibrate")
        self.banner = StaleBanner("Histogram: outdated.", self)
        for part in (self.none, self.banner):
            part.run_asked.connect(self.context.run_to)
            part.place_asked.connect(self.context.notices.place_asked)
        self.context.session.stage_changed.connect(self._on_stage_changed)
        self._arrange()

    def refresh(self) -> None:
        folder = self.context.session.former("calibrate")
        if folder != self._folder:
            self._folder = folder
            self._read(folder)
        self._show_apply()
        self._show()

    def render_selection(self, selected: Selected) -> None:
        nodes = chosen_nodes(selected, self.context.model_index)
        indices = [index for index, row in enumerate(self._rows) if {row.node, row.tensor.origin} & nodes]
        if indices and self.tensor.currentIndex() not in indices:
            self.tensor.setCurrentIndex(indices[0])
            self._take_present()
        self._show_apply()
        self._show()

    def set_theme(self, theme: Theme) -> None:
        self.chart.set_theme(theme)
        self.preset_table.set_look(theme, stale=False)

    def _arrange(self) -> None:
        side = self._side = QWidget(self)
        column = QVBoxLayout(side)
        column.setContentsMargins(8, 8, 8, 8)
        column.setSpacing(8)
        column.addWidget(_heading("Tensor", side))
        column.addWidget(self.tensor)
        column.addWidget(_heading("Format", side))
        column.addWidget(self.form)
        column.addWidget(_heading("Presets on this tensor", side))
        column.addWidget(self.preset_table, 1)
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(side)
        for part in (side, scroll.viewport()):
            part.setAutoFillBackground(False)
            part.setStyleSheet("background: transparent;")
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.back)
        buttons.addWidget(self.apply)
        seen = QWidget(self)
        right = QVBoxLayout(seen)
        right.setContentsMargins(4, 8, 8, 8)
        right.addWidget(self.banner)
        right.addWidget(self.none, 1)
        right.addWidget(self.chart, 1)
        right.addWidget(self.summary)
        right.addLayout(buttons)
        split = self._split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(scroll)
        split.addWidget(seen)
        split.setStretchFactor(1, 1)
        split.setSizes([_FORM_PX, _WIDE_PX - _FORM_PX])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(split)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the form above the histogram where there is too little room beside it."""
        super().resizeEvent(event)
        is_wide = self.width() >= _WIDE_PX
        orientation = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if self._split.orientation() != orientation:
            self._split.setOrientation(orientation)
            if is_wide:
                self._split.setSizes([_FORM_PX, self.width() - _FORM_PX])
        if is_wide:
            self._widen_form()
        else:
            form = min(self._side.sizeHint().height(), self.height() - _SEEN_PX)
            self._split.setSizes([form, self.height() - form])

    def _widen_form(self) -> None:
        """Give the form the width of its fields, which depend on the format."""
        needed, now = self._side.minimumSizeHint().width() + _BAR_PX, self._split.sizes()[0]
        if self._split.orientation() == Qt.Orientation.Horizontal and now < needed:
            self._split.setSizes([needed, max(self.width() - needed, 1)])

    def _read(self, folder: Path | None) -> None:
        self._rows, self._arrays = [], {}
        if folder is not None:
            try:
                calibrated = self.context.session.parsed.load(CalibrateResult, folder)
                self._arrays = read_histograms(folder)
                self._rows = range_rows(calibrated, self._arrays, None)
            except WorkbenchError as error:
                self.context.notices.error(error)
        now = self.tensor.currentText()
        self.tensor.clear()
        self.tensor.addItems([row.name for row in self._rows])
        self.tensor.setCurrentIndex(max(0, self.tensor.findText(now)) if self._rows else -1)
        if not self._is_own:
            self._take_present()

    def _row(self) -> RangeRow | None:
        index = self.tensor.currentIndex()
        return self._rows[index] if 0 <= index < len(self._rows) else None

    def _role(self, row: RangeRow) -> Role:
        fields = json.loads(row.tensor.format) if row.tensor.format else {}
        usual = "w" if row.tensor.kind == "weight" else "x"
        return _ROLES.get(fields.get("operand", usual), "data")

    def _take_present(self) -> None:
        """Show the selected tensor's format unless the form was edited."""
        row = self._row()
        config = FIRST
        if row is not None and row.tensor.format:
            fields = json.loads(row.tensor.format)
            config = FormatConfig(**{k: fields[k] for k in FormatConfig.model_fields if k in fields})
        self._is_own = False
        self.form.render_config(config, self._refusal)

    def _refusal(self, config: FormatConfig) -> str:
        project = self.context.document.project
        return refusal(project, "module_name", config) if project is not None else ""

    def _show(self) -> None:
        row = self._row()
        theme = self.context.theme
        self.back.setEnabled(self._is_own)
        self._show_state()
        self._widen_form()
        self._later.start()
        self.none.setVisible(row is None)
        self.chart.setVisible(row is not None)
        if row is None:
            self.chart.render_tensor(None)
            self.summary.clear()
            return
        view = tensor_of(row, self.tensor.currentIndex(), self._arrays, {})
        histogram = histogram_of(row.tensor, self._arrays)
        self.chart.render_tensor(view)
        self.chart.set_theme(theme)
        if histogram is None:
            self.summary.setText("All observed values are equal.")
            return
        config, role = self.form.config, self._role(row)
        try:
            prediction = predict(histogram, config, role)
            bits = bits_of(config.scheme, config.parameters, role, (prediction.block,))
        except WorkbenchError as error:
            self.summary.setText(" ".join(info.message for info in error.infos))
            self.chart.show_levels(None)
            return
        self.chart.show_levels(prediction.levels)
        self.summary.setText(_sentences(config, role, prediction, bits))

    def _show_presets(self) -> None:
        """Show what every preset of a number format gives on the tensor."""
        row = self._row()
        histogram = histogram_of(row.tensor, self._arrays) if row is not None else None
        rows = []
        if row is not None and histogram is not None:
            role = self._role(row)
            for name, title, config in _presets(self.context.document.project):
                try:
                    prediction = predict(histogram, config, role)
                    bits = bits_of(config.scheme, config.parameters, role, (prediction.block,))
                except WorkbenchError:
                    continue
                rows.append(PresetRow(name, title, config, bits, prediction.sqnr_db))
        self.presets.set_rows(rows)
        self.preset_table.set_look(self.context.theme, stale=False)

    def _on_preset_chosen(self, rows: Sequence[int]) -> None:
        row = self.presets.row_at(rows[0]) if len(rows) == 1 else None
        if row is not None:
            self.form.render_config(row.config, self._refusal)
            self._on_changed(row.config)

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage == "calibrate":
            self._show_state()

    def _show_state(self) -> None:
        """Show whether the histograms are those of the present configuration."""
        session = self.context.session
        is_outdated = bool(self._rows) and session.former("calibrate") != session.result("calibrate")
        self.banner.render_stage(session.stage("calibrate"))
        self.banner.setVisible(is_outdated)
        self.chart.set_stale(is_outdated)

    def _show_apply(self) -> None:
        selected = self.context.selection.value
        chosen = [*selected.nodes, *selected.modules]
        what = chosen[0] if len(chosen) == 1 else f"{len(chosen)} selected" if chosen else "all"
        self.apply.setText(f"Set {what}")
        reason = self._refusal(self.form.config) or self._why_present()
        self.apply.setEnabled(self.context.document.project is not None and not reason)
        self.apply.setToolTip(literal(reason))

    def _why_present(self) -> str:
        """Return that what is selected has this format already; "" if it has not."""
        selected, project = self.context.selection.value, self.context.document.project
        if project is None:
            return ""
        kind: RuleKind = "node_name" if selected.nodes else "module_name"
        matches = selected.nodes or selected.modules
        if not matches or "" in matches:
            kind, matches = "global", frozenset({""})
        rules = [rule for rule in project.rules if rule.enabled and rule.kind == kind]
        has = {rule.match for rule in rules if project.config_of(rule) == self.form.config}
        return PRESENT if matches <= has else ""

    def _on_tensor_activated(self) -> None:
        if not self._is_own:
            self._take_present()
        self._show()

    def _on_changed(self, _config: FormatConfig) -> None:
        self._is_own = True
        self._show_apply()
        self._show()

    def _on_back(self) -> None:
        self._take_present()
        self._show()

    def _on_save_asked(self, name: str) -> None:
        from workbench.project import edits

        config = self.form.config
        self.context.document.apply(f"Save preset {name}", lambda p: edits.save_preset(p, name, config))

    def _on_apply(self) -> None:
        selected, assigner = self.context.selection.value, self.context.assigner
        config = self.form.config
        if selected.nodes:
            assigner.nodes(selected.nodes, config)
        else:
            assigner.modules(selected.modules or [""], config)


def _presets(project: Project | None) -> Iterator[tuple[str, str, FormatConfig]]:
    """Yield names, titles and configs of the presets that are number formats; last those of a project."""
    yield from ((p.id, p.title, p.config) for p in PRESETS if isinstance(p.config, FormatConfig))
    if project is not None:
        yield from ((n, n, c) for n, c in project.presets.items() if isinstance(c, FormatConfig))


def _heading(text: str, parent: QWidget) -> Label:
    label = Label(text, parent)
    label.setObjectName("Subheading")
    return label


def _sentences(config: FormatConfig, role: Role, prediction: Prediction, bits: float) -> str:
    """Return the predicted figures of a format on a tensor."""
    lines = [
        f"SQNR {decibel(prediction.sqnr_db)} (predicted) as {role}   {bits:.2f} bits   "
        f"{count(prediction.levels.size)} levels in this range"
    ]
    if prediction.block > 1:
        lines.append(
            f"Block size {prediction.block}: the grid is that of the block with the largest value; "
            f"the SQNR assumes independent neighbours."
        )
    if config.mase_compatible:
        lines.append("Predicted for the reference definition; Evaluate uses the MASE implementation.")
    return "\n".join(lines)
