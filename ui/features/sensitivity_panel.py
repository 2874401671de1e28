"""The Sensitivity panel: quality loss by module, and a preview of other precisions."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QSplitter, QVBoxLayout, QWidget

from ui.shared.bar_plot import ModuleBars
from ui.shared.candidate_preview import CandidatePreview
from ui.shared.empty_states import StudyNote
from ui.shared.explanations import quality_origin
from ui.shared.forms import SpinBox
from ui.shared.labels import Label, literal
from ui.shared.number_format import count, decibel, percent
from ui.shared.panel import Panel
from ui.shared.study_controller import StudyController
from ui.shared.theme import Theme
from ui.shared.wrapping_row import FlowRow
from ui.state.assigner import preset_ids
from ui.state.selection import Selected
from workbench.analysis.error_sources import largest_sources
from workbench.results import EvaluateResult, load_result
from workbench.studies.sensitivity import DEFAULT_SAMPLES, SensitivityResult, Unit, UnitSensitivity, give
from workbench.text import plural, signed

# A gain below the first is none for a person, and the axis of gains has the second at least [dB].
_MATTERS_DB, _LEAST_RANGE_DB = 0.1, 1.0
NOTHING = "Measures every module with only this module quantized, and with only this module in float."
CHOICES = ("a16w8", "float", "a8w8", "a8w4")
VIEWS = ("Gain if only this module stays float", "Noise if only this module is quantized")
_FLOOR_DB = 100.0


class SensitivityPanel(Panel):
    """Shows modules as bars. The selected one can be previewed in another precision."""

    panel_id = "sensitivity"

    def build(self) -> None:
        context = self.context
        self._shown: list[UnitSensitivity] = []
        self._chosen: UnitSensitivity | None = None
        self._previewed = ""
        self.study = StudyController(
            "sensitivity", SensitivityResult, context.document, context.runner, context.session.cache, self
        )
        self.preview = CandidatePreview(context.document, context.runner, context.history, self)
        self.study.changed.connect(lambda: self._mark("state"))
        self.preview.changed.connect(self._show_preview)
        self._make_head()
        self.bars = ModuleBars("Sensitivity of modules", "gain [dB]", self._describe, self)
        self.bars.bar_chosen.connect(self._on_bar_chosen)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(4)
        layout.addWidget(self._head)
        layout.addWidget(self.note)
        split = self._split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(self.bars)
        split.addWidget(self._built_side())
        split.setSizes([640, 260])
        for number in (0, 1):
            split.setCollapsible(number, False)
        layout.addWidget(split, 1)

    def refresh(self) -> None:
        self._offer_configs()
        self.study.options = {"samples": self.samples.value()}
        self.study.look()
        self._show_result()

    def _offer_configs(self) -> None:
        """List the configs that the target accepts, most common first."""
        project = self.context.document.project
        known = preset_ids(project)
        wanted = [name for name in CHOICES if name in known]
        offered = wanted if len(wanted) > 1 else [*wanted, *known]
        names = list(dict.fromkeys(offered))
        if names != [self.config.itemText(row) for row in range(self.config.count())]:
            self.config.clear()
            self.config.addItems(names)

    def set_theme(self, theme: Theme) -> None:
        self.bars.set_theme(theme)

    def render_selection(self, selected: Selected) -> None:
        chosen = selected.modules | selected.nodes
        marked = [unit for unit in self._shown if chosen & set(unit.unit.matches)]
        # What is marked and what the side is about must not be two things.
        if marked and self._chosen not in marked:
            self._chosen = marked[0]
            self._show_unit()
        self.bars.choose([row for row, unit in enumerate(self._shown) if unit in (*marked, self._chosen)])

    def _make_head(self) -> None:
        self.measure = QPushButton("Measure", self)
        self.measure.clicked.connect(self._on_measure)
        self.samples = SpinBox(self)
        self.samples.setRange(1, 100_000)
        self.samples.setValue(DEFAULT_SAMPLES)
        self.samples.setSuffix(" samples")
        self.samples.setAccessibleName("Number of samples")
        self.view = QComboBox(self)
        self.view.addItems(VIEWS)
        self.view.setAccessibleName("Bar values")
        self.view.activated.connect(lambda _index: self._show_result())
        self.note = StudyNote(NOTHING, self)
        self.note.place_asked.connect(self.context.notices.place_asked)
        self._head = FlowRow(self)
        self._head.add(self.measure, self.samples, self.view)

    def _built_side(self) -> QWidget:
        side = QWidget(self)
        self.title = Label("Select a module", side)
        self.title.setObjectName("Subheading")
        self.title.setWordWrap(True)
        self.about = _lines(side)
        self.config = QComboBox(side)
        self.config.setAccessibleName("Precision to preview")
        self.attempt = QPushButton("Preview", side)
        self.attempt.setToolTip("Quantize, evaluate and compile a copy; the project does not change")
        self.attempt.clicked.connect(self._on_preview)
        self.outcome = _lines(side)
        self.make_rule = QPushButton("Add rule", side)
        self.make_rule.clicked.connect(self.preview.apply)
        row = QHBoxLayout()
        row.addWidget(self.config, 1)
        row.addWidget(self.attempt)
        layout = QVBoxLayout(side)
        layout.setContentsMargins(10, 4, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.title)
        layout.addLayout(row)
        layout.addWidget(self.about)
        layout.addWidget(self.outcome)
        layout.addWidget(self.make_rule)
        layout.addStretch(1)
        return side

    def _show_result(self) -> None:
        result, job = self.study.result, self.study.job
        has_more = result is not None and self.study.is_current and result.samples > 0
        is_done = has_more and result is not None and self._is_done(result)
        self.measure.setText("Pause" if job else "Continue" if has_more and not is_done else "Measure")
        self.measure.setEnabled(bool(job) or not is_done)
        self.measure.setToolTip(literal(self._why_done(result) if is_done and result else ""))
        self._split.setVisible(result is not None)
        if result is None:
            self._shown = []
            self.bars.render_bars([], np.zeros(0))
        else:
            self._show_bars(result)
        self.note.render_study(self.study, self._summary(result) if result is not None else "")
        self.note.set_alone(alone=result is None, start=None if job else self.measure)
        self.bars.set_stale(result is not None and not self.study.is_current)
        self._show_unit()

    def _is_done(self, result: SensitivityResult) -> bool:
        """Return whether the asked samples, or all that there are, were measured."""
        return result.has_all or result.samples >= self.samples.value()

    def _why_done(self, result: SensitivityResult) -> str:
        return "All samples were measured" if result.has_all else "Finished; increase the samples to continue"

    def _summary(self, result: SensitivityResult) -> str:
        every = "all " if result.samples < self.samples.value() and self._is_done(result) else ""
        gains = [result.gain_db(unit) or 0.0 for unit in result.units]
        none = f" No module alone gains {_MATTERS_DB:g} dB." if max(gains, default=0.0) < _MATTERS_DB else ""
        if min(gains, default=0.0) < -_MATTERS_DB:
            none += " Below zero: the error of the module cancels some of another's."
        more = f" {plural(len(gains), 'bar')}; the wheel scrolls." if self.bars.scrolls else ""
        return (
            f"Whole model {decibel(result.quantized.sqnr_db)} over {every}"
            f"{plural(result.samples, 'sample')} of {result.data}, "
            f"{quality_origin(self.context.document.project)}.{none}{self._beside_added(result)}{more}"
        )

    def _beside_added(self, result: SensitivityResult) -> str:
        """Return what the output gains by the module that adds the largest error, if others gain more."""
        folder = self.context.result("evaluate")
        sources = largest_sources(load_result(EvaluateResult, folder).tensors) if folder is not None else []
        gains = {match: result.gain_db(unit) for unit in result.units for match in unit.unit.matches}
        gain = gains.get(sources[0].module) if sources else None
        known = {match: value for match, value in gains.items() if value is not None}
        if gain is None or gain >= max(known.values()):
            return ""
        best = max(known, key=lambda match: known[match])
        return (
            f" The output gains most without the error of {best}. {sources[0].module} adds a larger one, "
            f"but the output gains {decibel(gain)} without it."
        )

    def _show_bars(self, result: SensitivityResult) -> None:
        gains = self.view.currentIndex() == 0
        value = {u.unit.name: self._value(result, u, gains=gains) for u in result.units}
        self._shown = sorted(result.units, key=lambda u: -value[u.unit.name])
        lengths = np.asarray([value[u.unit.name] for u in self._shown])
        self.bars.set_unit("gain in SQNR [dB]" if gains else f"noise [dB over -{_FLOOR_DB:g} dB]")
        titles = [unit_title(u.unit) for u in self._shown]
        self.bars.render_bars(titles, lengths, least_range=_LEAST_RANGE_DB)
        self.render_selection(self.context.selection.value)

    def _value(self, result: SensitivityResult, unit: UnitSensitivity, *, gains: bool) -> float:
        if gains:
            return result.gain_db(unit) or 0.0
        alone = unit.only.sqnr_db
        return 0.0 if alone is None else max(_FLOOR_DB - alone, 0.0)

    def _describe(self, row: int) -> str:
        return "\n".join((unit_title(self._shown[row].unit), *self._about(self._shown[row])))

    def _about(self, unit: UnitSensitivity) -> list[str]:
        result = self.study.result
        assert result is not None
        lines = [
            f"only this quantized: {decibel(unit.only.sqnr_db)}",
            f"only this in float: {decibel(unit.without.sqnr_db)} (gain {decibel(result.gain_db(unit))})",
        ]
        if unit.per_tensor is not None:
            change, points = result.per_tensor_db(unit), result.per_tensor_points(unit)
            top1 = "" if points is None else f", top-1 {signed(points, 1)} points"
            lines.append(f"one scale for each of its weights: {decibel(change)}{top1}")
        if result.labelled and result.samples:
            share = result.samples
            lines.append(
                f"top-1 only this quantized {percent(unit.only.hits / share)}, only this in "
                f"float {percent(unit.without.hits / share)}"
            )
        return [*lines, f"{count(unit.unit.weights)} weights"]

    def _show_unit(self) -> None:
        unit = self._chosen
        current = {u.unit.name: u for u in self._shown}
        unit = self._chosen = current.get(unit.unit.name) if unit is not None else None
        self.title.setText(unit_title(unit.unit) if unit else "Select a module")
        self.about.setText("\n".join(self._about(unit)) if unit else "")
        self._show_preview()

    def _show_preview(self) -> None:
        unit = self._chosen
        self.attempt.setEnabled(unit is not None and not self.preview.is_running)
        candidate = self.preview.candidate
        is_shown = unit is not None and candidate is not None and unit.unit.name == self._previewed
        self.outcome.setText(self.preview.sentence() if is_shown else "")
        self.make_rule.setText(candidate.label if candidate is not None and is_shown else "Add rule")
        fits = is_shown and self.preview.fits and not self.preview.is_running
        self.make_rule.setEnabled(fits)
        self.make_rule.setToolTip("" if fits else "Preview a precision first")

    def _on_measure(self) -> None:
        if self.study.job is not None:
            self.study.pause()
            return
        self.study.options = {"samples": self.samples.value()}
        self.study.start()

    def _on_bar_chosen(self, row: int) -> None:
        self._chosen = self._shown[row]
        self._show_unit()
        if self._chosen.unit.kind == "module_name":
            self.context.selection.choose_modules(self._chosen.unit.matches, self.panel_id)
        else:
            self.context.selection.choose_nodes(self._chosen.unit.matches, self.panel_id)
        self.render_selection(self.context.selection.value)

    def _on_preview(self) -> None:
        project, unit, config = (self.context.document.project, self._chosen, self.config.currentText())
        if project is not None and unit is not None:
            self._previewed = unit.unit.name
            self.preview.begin(f"Set {unit.unit.name} to {config}", give(project, unit.unit, config))


# Modules of a fused group that are named.
_NAMED = 3


def unit_title(unit: Unit) -> str:
    """Return the name of what is switched together; of a fused group, those of its modules."""
    if unit.kind != "module_name" or not 1 < len(unit.matches) <= _NAMED:
        return unit.name
    first, *others = unit.matches
    return " + ".join((first, *(other.rpartition(".")[2] for other in others)))


def _lines(parent: QWidget) -> Label:
    label = Label(parent)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
