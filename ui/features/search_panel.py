"""The Search panel: search for module precisions under limits."""

from __future__ import annotations

import os
from dataclasses import replace

from pydantic import JsonValue
from PySide6.QtCore import QLocale, Qt, Signal
from PySide6.QtGui import QDoubleValidator
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSlider,
    QSpinBox,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.shared.empty_states import StudyNote
from ui.shared.forms import SpinBox
from ui.shared.labels import Label, literal, scrolled
from ui.shared.number_format import count, cpu_line, decibel, percent, size
from ui.shared.panel import Panel
from ui.shared.study_controller import StudyController
from ui.shared.theme import Theme
from ui.shared.tradeoff_plot import CPU_WORDS, Dot, TradeoffPlot
from ui.shared.wrapping_row import FlowRow
from workbench.errors import WorkbenchError
from workbench.history.comparison import newest_accuracy
from workbench.studies.documents import study_folder
from workbench.studies.search import (
    DEFAULT_TRIALS,
    TRANSFORMS,
    Candidate,
    Limits,
    SearchResult,
    axis_options,
    take_weights,
    with_candidate,
)
from workbench.targets import why_unestimated

_KIB = 1024.0
_FIELD_PX, _WORDS_PX = 74, 100


class LimitForm(FlowRow):
    """The limits and the size of the search. An empty field is no limit.

    Signals:
        limited: a limit changed.
    """

    limited = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.accuracy = self._field("Accuracy \u2265", "")
        self.unit = Label(self)
        self.add(self.unit)
        self._scale = 1.0
        self.cycles = self._field("Cycles \u2264", "Estimated by Vela")
        self.sram = self._field("SRAM [KiB] \u2264", "Peak, estimated by Vela")
        self.cpu = self._field("CPU operators \u2264", "")
        self.cpu.setPlaceholderText("as in 8 bits")
        self.cpu.setFixedWidth(_WORDS_PX)
        self.cpu.setToolTip(
            "Operators on the CPU, whose time the cycles leave out. Empty: as many as with all "
            "modules in 8 bits"
        )
        self.trials = self._spin(("candidate", "candidates"), 1, 10_000, DEFAULT_TRIALS)
        self.trials.setToolTip("How many candidates are tried in all; a search can be continued with more")
        cores = os.cpu_count() or 1
        self.workers = self._spin(("process", "processes"), 1, cores, 1)
        self.widths = QCheckBox("Fewer channels", self)
        self.widths.setToolTip("Try modules with fewer output channels too, in blocks of 8")
        self.add(self.widths)
        self.train = self._spin(("epoch", "epochs"), 0, 1000, 0, "Train each")
        self.train.setSpecialValueText("not at all")
        self.train.setToolTip(
            "How long each candidate with fewer channels is trained. Needs \u201cFewer channels\u201d and "
            "one process"
        )
        self.train.setEnabled(False)
        self.widths.toggled.connect(self.train.setEnabled)
        self.transforms = QCheckBox("Weight transforms", self)
        self.transforms.setToolTip(literal(f"Search the weight transforms too: {', '.join(TRANSFORMS)}"))
        self.add(self.transforms)
        self.workers.setToolTip(literal(f"Parallel engines; this machine has {cores} cores"))

    def options(self) -> dict[str, JsonValue]:
        """Return the options of the study."""
        limits = self.chosen()
        cpu: dict[str, JsonValue] = {} if limits.cpu is None else {"cpu": limits.cpu}
        return {
            "accuracy": limits.accuracy,
            "cycles": limits.cycles,
            "sram": limits.sram,
            **cpu,
            "trials": self.trials.value(),
            "workers": self.workers.value(),
            **axis_options(
                widths=self.widths.isChecked(),
                train=self.train.value(),
                transforms=self.transforms.isChecked(),
            ),
        }

    def chosen(self) -> Limits:
        """Return the limits in the units of the figures: top-1 is a share there."""
        accuracy, sram, cpu = map(_number, (self.accuracy, self.sram, self.cpu))
        return Limits(
            accuracy=None if accuracy is None else accuracy / self._scale,
            cycles=_number(self.cycles),
            sram=None if sram is None else sram * _KIB,
            cpu=None if cpu is None else int(cpu),
        )

    def render_accuracy(self, name: str) -> None:
        """Show the unit of the figure that candidates are compared by, and its name.

        Before anything was measured it is top-1. A number of another unit is forgotten.
        """
        is_share = name.lower() in {"top-1", ""}
        unit = "%" if is_share else "dB" if name == "SQNR" else ""
        if unit == self.unit.text():
            return
        if self.unit.text():
            self.accuracy.clear()
        self._scale = 100.0 if is_share else 1.0
        self.unit.setText(unit)
        self.accuracy.setToolTip(literal(f"Least {name or 'accuracy'}, measured in PyTorch"))

    def _field(self, label: str, meaning: str) -> QLineEdit:
        field = QLineEdit(self)
        field.setPlaceholderText("any")
        field.setToolTip(literal(meaning))
        field.setAccessibleName(label)
        field.setFixedWidth(_FIELD_PX)
        check = QDoubleValidator(0.0, 1e12, 6, field)
        check.setLocale(QLocale.c())
        field.setValidator(check)
        field.textChanged.connect(self.limited)
        self.add_field(label, field)
        return field

    def _spin(self, words: tuple[str, str], least: int, most: int, value: int, title: str = "") -> QSpinBox:
        one, many = words
        spin = SpinBox(self)
        spin.setRange(least, most)
        spin.setValue(value)
        spin.setAccessibleName(many.capitalize())
        spin.setSuffix(f" {many if value != 1 else one}")
        spin.valueChanged.connect(lambda now: spin.setSuffix(f" {many if now != 1 else one}"))
        if title:
            self.add_field(title, spin)
        else:
            self.add(spin)
        return spin


def _number(field: QLineEdit) -> float | None:
    return float(field.text()) if field.hasAcceptableInput() else None


NOTHING = (
    "Quantizes, evaluates and compiles each candidate: first the most sensitive modules in "
    "turn, then candidates of Optuna."
)


class SearchPanel(Panel):
    """Shows candidates over cycles, and a slider along the Pareto front."""

    panel_id = "search"

    def build(self) -> None:
        context = self.context
        self._dots: list[Candidate] = []
        self._front: list[Candidate] = []
        self._chosen: Candidate | None = None
        self._picked: int | None = None
        self._recorded: set[tuple[str, int]] = set()
        self.study = StudyController(
            "search", SearchResult, context.document, context.runner, context.session.cache, self
        )
        self.study.changed.connect(self._on_study_changed)
        context.document.opened.connect(self._on_opened)
        self.limits = LimitForm(self)
        self.limits.limited.connect(lambda: self._mark("state"))
        self.start = QPushButton("Search", self)
        self.start.clicked.connect(self._on_start)
        self.note = StudyNote(NOTHING, self)
        self.note.place_asked.connect(context.notices.place_asked)
        self.plot = TradeoffPlot("Candidates over cycles", self._describe, self, has_limits=False)
        self.plot.dot_chosen.connect(lambda dot, _adds: self._pick(self._dots[dot]))
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName("Position on the Pareto front")
        self.slider.valueChanged.connect(self._on_moved)
        self._lay_out()

    def refresh(self) -> None:
        self.study.options = self.limits.options()
        self.study.look()
        self._keep()
        self._show_result()

    def set_theme(self, theme: Theme) -> None:
        self.plot.set_theme(theme)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.start, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.limits, 1)
        left = QWidget(self)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.plot, 1)
        self._front_row = QWidget(left)
        along = QHBoxLayout(self._front_row)
        along.setContentsMargins(0, 0, 0, 0)
        for text in ("fast", "accurate"):
            label = Label(text, left)
            label.setObjectName("Hint")
            along.addWidget(label)
        along.insertWidget(1, self.slider, 1)
        column.addWidget(self._front_row)
        side = QWidget(self)
        self.title = Label(side)
        self.title.setObjectName("Subheading")
        self.about = Label(side)
        self.apply = QPushButton("Apply these rules", side)
        self.apply.clicked.connect(self._on_apply)
        column = QVBoxLayout(side)
        column.setContentsMargins(10, 4, 0, 0)
        for widget in (self.title, self.apply):
            column.addWidget(widget)
        column.addWidget(scrolled(self.about, side), 1)
        split = self._split = QSplitter(Qt.Orientation.Horizontal, self)
        for number, part in enumerate((left, side)):
            split.addWidget(part)
            split.setCollapsible(number, False)
        split.setSizes([620, 280])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.addLayout(head)
        layout.addWidget(self.note)
        layout.addWidget(split, 1)

    def _on_opened(self) -> None:
        self._recorded.clear()
        self._picked = None

    def _on_study_changed(self) -> None:
        self._keep()
        self._mark("state")

    def _keep(self) -> None:
        """Record all new candidates as runs."""
        result, opened, key = self.study.result, self.study.studied, self.study.key
        if result is None or opened is None:
            return
        new = [candidate for candidate in result.candidates if (key, candidate.number) not in self._recorded]
        if new:
            self._recorded.update((key, candidate.number) for candidate in new)
            projects = [with_candidate(opened.project, result, c) for c in new if not c.weights]
            self.context.history.keep([replace(opened, project=one) for one in projects], "search")

    def _judged(self) -> SearchResult | None:
        """Return the result of the study, judged by the limits that the form shows now."""
        result = self.study.result
        if result is None:
            return None
        result = result.model_copy(update={"limits": self.limits.chosen()})
        judged = [
            c.model_copy(update={"is_within": bool(c.figures and result.enforced.are_met(c.figures))})
            for c in result.candidates
        ]
        return result.model_copy(update={"candidates": tuple(judged)})

    def _show_result(self) -> None:
        self.limits.render_accuracy(self._accuracy_name())
        result = self._judged()
        self._show_start(result)
        project = self.context.document.project
        why = why_unestimated(project.target.id) if project is not None else ""
        if why:
            self.note.show_text(why)
        else:
            summary = self._summary(result) if result is not None else ""
            self.note.render_study(self.study, summary)
        self._dots = result.measured() if result is not None else []
        self.note.set_alone(alone=not self._dots, start=None if self.study.job else self.start)
        self._split.setVisible(bool(self._dots))
        self._front = [c for c in result.front() if c.is_within] if result is not None else []
        numbers = {candidate.number for candidate in self._front}
        name = self._dots[0].accuracy_name if self._dots else "accuracy"
        fewest = min((c.cpu_nodes or 0 for c in self._dots), default=0)
        dots = [
            Dot(
                c.accuracy or 0.0,
                float(c.cycles or 0),
                float(c.sram_bytes or 0),
                on_front=c.number in numbers,
                is_faint=not c.is_within,
                has_more_cpu=(c.cpu_nodes or 0) > fewest,
            )
            for c in self._dots
        ]
        self.plot.render_dots(dots, f"{name}, measured in PyTorch")
        self.plot.render_trail([i for i, c in enumerate(self._dots) if c.origin == "staircase"])
        self.plot.set_stale(result is not None and not self.study.is_current)
        self._front_row.setVisible(len(self._front) > 1)
        self.slider.setRange(0, max(len(self._front) - 1, 0))
        picked = next((c for c in self._dots if c.is_within and c.number == self._picked), None)
        self._choose(picked or (result.best() if result is not None else None))

    def _accuracy_name(self) -> str:
        """Return the name of the figure that candidates are, or will be, compared by."""
        result = self.study.result
        candidates = result.candidates if result is not None else ()
        named = next((c.accuracy_name for c in candidates if c.figures), "")
        project = self.context.document.project
        metric = project.evaluation.metric if project is not None else None
        return named or newest_accuracy(self.context.history.runs) or metric or ""

    def _show_start(self, result: SearchResult | None) -> None:
        project = self.context.document.project
        why = why_unestimated(project.target.id) if project is not None else ""
        done = len(result.candidates) if result is not None else 0
        asked = max(result.total, self.limits.trials.value()) if result is not None else 0
        has_more = result is not None and 0 < done < asked and not result.is_exhausted
        self.start.setText("Pause" if self.study.job else "Continue" if has_more else "Search")
        self.start.setEnabled(not why)
        self.start.setToolTip(literal(why))

    def _summary(self, result: SearchResult) -> str:
        failed = len(result.candidates) - len(result.measured())
        summary = f"{len(result.candidates)} of {result.total} candidates"
        summary += f", {failed} failed" if failed else ""
        if not result.measured():
            return f"{summary}."
        best = result.best()
        text = f"best within the limits: candidate {best.number}" if best else _NONE_WITHIN
        return (
            f"{summary}; {text}. Dashed line: modules set to float one by one. Faint: outside the "
            f"limits. {CPU_WORDS}"
        )

    def _pick(self, candidate: Candidate) -> None:
        """Show a candidate that the user chose: it stays chosen while the search goes on."""
        self._picked = candidate.number
        self._choose(candidate)

    def _choose(self, candidate: Candidate | None) -> None:
        self._chosen = candidate
        self.plot.choose([i for i, c in enumerate(self._dots) if c is candidate])
        numbers = [front.number for front in self._front]
        if candidate is not None and candidate.number in numbers:
            self.slider.blockSignals(True)
            self.slider.setValue(numbers.index(candidate.number))
            self.slider.blockSignals(False)
        none = "No candidate within the limits" if self._dots else "No candidates yet"
        self.title.setText(f"Candidate {candidate.number}" if candidate else none)
        self.about.setText("\n".join(self._lines(candidate)) if candidate else "")
        can_apply = candidate is not None and self.study.is_current
        self.apply.setEnabled(can_apply)
        former = candidate is not None and not self.study.is_current
        why = "Outdated; search again" if former else "Run a search first"
        why = "No candidate is within the limits" if self._dots and not candidate else why
        self.apply.setToolTip(literal("" if can_apply else why))

    def _lines(self, candidate: Candidate) -> list[str]:
        labels = self.context.model_index.resolution.modules
        lines = [
            f"{candidate.accuracy_name} {_accuracy_text(candidate)}, measured in PyTorch",
            f"{count(candidate.cycles)} cycles, SRAM {size(candidate.sram_bytes)}, flash "
            f"{size(candidate.flash_bytes)}, estimated",
            cpu_line(candidate.cpu_nodes or 0, candidate.cpu_cycles),
            "within all limits" if candidate.is_within else "exceeds a limit",
            "",
            "Changes to the present rules:",
        ]
        result = self.study.result
        units = {unit.name: unit for unit in result.units} if result else {}
        changed = []
        for name, config in candidate.choices.items():
            now = labels.get(units[name].matches[0]) if name in units else None
            if now is None or now.label != config:
                changed.append(f"{name}: {now.label if now else '?'} \u2192 {config}")
        kept = result.widths if result else {}
        changed += [
            f"{name}: {kept[name][0]} \u2192 {number} channels"
            for name, number in candidate.channels.items()
            if number < kept[name][0]
        ]
        changed += ["trained weights"] if candidate.weights else []
        changed += [f"weight transforms: {candidate.transforms}"] if candidate.transforms else []
        return lines + (changed or ["nothing"])

    def _describe(self, dot: int) -> str:
        candidate = self._dots[dot]
        return "\n".join((f"Candidate {candidate.number}", *self._lines(candidate)[:4]))

    def _on_moved(self, index: int) -> None:
        if 0 <= index < len(self._front):
            self._pick(self._front[index])

    def _on_start(self) -> None:
        if self.study.job is not None:
            self.study.pause()
            return
        self.study.options = self.limits.options()
        self.study.start()

    def _on_apply(self) -> None:
        result, candidate = self.study.result, self._chosen
        if result is None or candidate is None:
            return
        if candidate.weights:
            cache, folder = self.context.session.cache, self.context.document.folder
            try:
                take_weights(candidate, study_folder(cache, self.study.key), folder)
            except WorkbenchError as error:
                self.context.notices.error(error)
                return
        self.context.document.apply(
            f"Apply candidate {candidate.number}", lambda project: with_candidate(project, result, candidate)
        )


_NONE_WITHIN = "none within the limits"


def _accuracy_text(candidate: Candidate) -> str:
    value = candidate.accuracy or 0.0
    if candidate.accuracy_name.lower() == "top-1":
        return percent(value)
    return decibel(value) if candidate.accuracy_name == "SQNR" else f"{value:.4g}"
