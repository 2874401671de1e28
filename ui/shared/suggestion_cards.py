"""Cards of suggestions, the largest gain first, and of the gains of applied suggestions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from ui.shared.board_fit import BoardFitReader
from ui.shared.labels import ElidedLabel, Label, literal
from ui.shared.panel import PanelContext
from ui.shared.study_controller import StudyController
from ui.shared.suggestion_trials import SuggestionTrials
from ui.shared.wrapping_row import FlowRow
from workbench.analysis.ranges import HISTOGRAMS
from workbench.errors import WorkbenchError
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.results import (
    GRAPH_FILE,
    CalibrateResult,
    EvaluateResult,
    ExportResult,
    LowerResult,
    PrepareResult,
    load_arrays,
)
from workbench.studies.sensitivity import DEFAULT_SAMPLES, SensitivityResult
from workbench.suggestions import (
    ExpectedGain,
    Figures,
    Gain,
    Measurements,
    ModuleSaving,
    Suggestion,
    Written,
    coarser_by,
    module_cells,
    ranked,
    spared_by,
    suggest,
)
from workbench.text import signed

# Where a line of code may be broken.
_JOINTS = re.compile(r"[._(,=]")


class SuggestionCards(QScrollArea):
    """A scrolling column of suggestion cards.

    Signals:
        apply_asked: the ``Suggestion`` is to be applied.
        show_asked: the operators of a ``Suggestion`` are to be shown.
        preview_asked: the figures with a ``Suggestion`` are to be measured.
        undo_asked: the last edit is to be undone.
    """

    apply_asked = Signal(object)
    show_asked = Signal(object)
    preview_asked = Signal(object)
    undo_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Suggestions")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.cards: list[QFrame] = []
        self._previews: dict[str, Label] = {}
        self.note = Label(self)

    def render_cards(
        self, suggestions: Sequence[Suggestion], gains: Sequence[tuple[str, str, bool]], empty: str
    ) -> None:
        """Show gains, then suggestions; ``empty`` is the text without suggestions."""
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 2, 6, 2)
        column.setSpacing(6)
        self._previews = {}
        self.cards = [self._gain_card(*applied, page) for applied in gains]
        self.cards += [self._card(suggestion, page) for suggestion in suggestions]
        for card in self.cards:
            column.addWidget(card)
        self.note = _text("" if suggestions else empty, page)
        self.note.setObjectName("Hint")
        column.addWidget(self.note)
        column.addStretch(1)
        if (former := self.takeWidget()) is not None:
            # Deleted later, because one of its buttons may have been clicked.
            former.deleteLater()
        self.setWidget(page)
        page.setAutoFillBackground(False)

    def show_preview(self, title: str, text: str) -> None:
        """Show the measured figures of a suggestion on its card."""
        if (label := self._previews.get(title)) is not None:
            label.setText(text)
            label.setVisible(bool(text))

    def texts(self) -> list[str]:
        """Return the accessible text of the cards."""
        return [card.accessibleName() for card in self.cards]

    def _card(self, suggestion: Suggestion, parent: QWidget) -> QFrame:
        buttons = []
        if suggestion.nodes:
            show = QPushButton("Show", parent)
            show.setToolTip("Select its operators in the table and the graph")
            show.clicked.connect(lambda: self.show_asked.emit(suggestion))
            buttons.append(show)
        if suggestion.edit is not None:
            preview = QPushButton("Preview", parent)
            preview.setAccessibleName(f"Preview: {suggestion.title}")
            preview.setToolTip("Measure the figures with it. The project does not change.")
            preview.clicked.connect(lambda: self.preview_asked.emit(suggestion))
            apply = QPushButton("Apply", parent)
            apply.setAccessibleName(f"Apply: {suggestion.title}")
            apply.setToolTip("One undo step")
            apply.clicked.connect(lambda: self.apply_asked.emit(suggestion))
            buttons += [preview, apply]
        card, column = _frame(suggestion.title, parent)
        column.addWidget(_text(suggestion.evidence, card))
        for line in suggestion.written:
            column.addLayout(_line(line, card))
        column.addWidget(GainFigures(suggestion.gain, card))
        if suggestion.modules:
            column.addWidget(ModuleTable(suggestion.modules, card))
        effect = suggestion.expected if suggestion.tried else f"Expected: {suggestion.expected}"
        expected = _text(effect, card)
        expected.setObjectName("Hint")
        column.addWidget(expected)
        measured = self._previews[suggestion.title] = _text("", card)
        measured.hide()
        column.addWidget(measured)
        column.addWidget(_foot(buttons, card))
        text = f"{suggestion.title}. {suggestion.evidence} {effect}"
        card.setAccessibleName(text)
        return card

    def _gain_card(self, title: str, sentence: str, can_undo: bool, parent: QWidget) -> QFrame:
        buttons = []
        if can_undo:
            undo = QPushButton("Undo", parent)
            undo.setAccessibleName(f"Undo: {title}")
            undo.clicked.connect(self.undo_asked)
            buttons.append(undo)
        card, column = _frame(f"Applied: {title}", parent)
        column.addWidget(_text(sentence, card))
        column.addWidget(_foot(buttons, card))
        card.setAccessibleName(f"Applied: {title}. {sentence}")
        return card


class GainFigures(FlowRow):
    """The expected gain: columns as wide on every card, one unit in each, in as many lines as they need."""

    def __init__(self, gain: ExpectedGain, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Expected gain")
        alone = " of this tensor alone" if gain.of_tensors > 1 else ""
        for name, unit, text, tip in (
            ("CPU ops", "", _change(gain.cpu_operators), "Operators on the CPU"),
            ("NPU cycles", "", _change(gain.cycles), "NPU cycles"),
            (
                "Tensor SQNR" if alone else "SQNR",
                " dB",
                "" if gain.sqnr_db is None else signed(gain.sqnr_db, 1),
                f"Signal to quantization noise ratio{alone}",
            ),
            ("Bytes", "", _change(gain.bytes), "Bytes of the program file"),
        ):
            pair = QWidget(self)
            pair.setMinimumWidth(self.fontMetrics().horizontalAdvance("NPU cycles"))
            column = QVBoxLayout(pair)
            column.setContentsMargins(0, 2, 0, 2)
            column.setSpacing(0)
            title, figure = Label(name, pair), Label(text + unit if text else "\u2013", pair)
            title.setObjectName("Hint")
            figure.setToolTip(literal(tip if text else f"{tip}: not known"))
            for label in (title, figure):
                label.setAlignment(Qt.AlignmentFlag.AlignRight)
                column.addWidget(label)
            self.add(pair)


class _ModuleName(ElidedLabel):
    """The end of a dotted name says more than its start."""

    elide = Qt.TextElideMode.ElideLeft


_MODULE_COLUMNS = ("Module", "ms", "bytes", "dB", "top-1")


class ModuleTable(QWidget):
    """What modules save and lose, the largest saving first; a line counts those without a row."""

    _MOST = 8

    def __init__(self, modules: Sequence[ModuleSaving], parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Modules")
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 2, 0, 2)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(0, 1)
        rows = [module_cells(saving) for saving in modules[: self._MOST]]
        # A figure that is unknown for all modules takes no place.
        known = [c for c in range(len(_MODULE_COLUMNS)) if any(row[c] for row in rows)]
        self._add(grid, 0, [_MODULE_COLUMNS[column] for column in known])
        for number, row in enumerate(rows, 1):
            figures = [row[column].replace("-", "\u2212") or "\u2013" for column in known[1:]]
            self._add(grid, number, [row[0], *figures])
        if (more := len(modules) - self._MOST) > 0:
            grid.addWidget(Label(f"and {more} more", self), self._MOST + 1, 0, 1, len(known))

    def _add(self, grid: QGridLayout, row: int, cells: Sequence[str]) -> None:
        for column, text in enumerate(cells):
            label = Label(text, self) if column else _ModuleName(text, self)
            if row == 0:
                label.setObjectName("Hint")
            if column:
                label.setAlignment(Qt.AlignmentFlag.AlignRight)
            elif row:
                label.setToolTip(literal(text))
            grid.addWidget(label, row, column)


def _change(saved: int | None) -> str:
    """Return what is saved as a change, e.g. ``-1,200``; "" if unknown."""
    if saved is None:
        return ""
    return signed(-saved, 0)


def _frame(title: str, parent: QWidget) -> tuple[QFrame, QVBoxLayout]:
    card = QFrame(parent)
    card.setObjectName("Card")
    label = _text(title, card)
    label.setObjectName("CardTitle")
    column = QVBoxLayout(card)
    column.setContentsMargins(10, 8, 8, 8)
    column.setSpacing(4)
    column.addWidget(label)
    return card, column


def _foot(buttons: Sequence[QPushButton], parent: QWidget) -> FlowRow:
    row = FlowRow(parent)
    row.add(*buttons)
    return row


def _line(line: Written, parent: QWidget) -> QVBoxLayout:
    """Return the present and the suggested source line below their place and a Copy button."""
    text = f"\u2212 {line.now}\n+ {line.instead}" if line.now else line.instead
    # It cannot be selected: the zero-width spaces would be copied, too.
    code = _text(_JOINTS.sub("\\g<0>\u200b", text), parent)
    code.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    location = ElidedLabel(line.place, parent)
    location.setObjectName("Hint")
    location.setToolTip(literal(line.place))
    copy = QPushButton("Copy", parent)
    copy.setToolTip("Copy the suggested line")
    copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(line.instead))
    head = QHBoxLayout()
    head.setSpacing(10)
    head.addWidget(location, 1)
    head.addWidget(copy)
    column = QVBoxLayout()
    column.addLayout(head)
    column.addWidget(code)
    return column


def _text(text: str, parent: QWidget) -> Label:
    label = Label(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    return label


UNKNOWN = "Gain unknown: the project changed again before it was compiled."
WAITING = "Compile to see the gain."
# Project fields that change the compiled program.
_DECISIVE = (
    "model",
    "rules",
    "improvers",
    "improving",
    "split_outputs",
    "output_factors",
    "ranges",
    "range_methods",
    "target",
)


@dataclass
class Applied:
    """An applied suggestion: the project and the program before and after.

    ``compiled`` is None until the project has been compiled.
    """

    title: str
    before: Project
    after: Project
    program: LowerResult
    compiled: LowerResult | None = None


@dataclass(frozen=True)
class _CompiledState:
    """The last current program: its folder, project, suggestions, and whether it is wrong."""

    folder: Path
    opened: OpenProject
    program: LowerResult
    suggestions: tuple[Suggestion, ...]
    departs: bool
    studied: SensitivityResult | None = None


class SuggestionController(QObject):
    """Computes and applies suggestions, and measures their gains.

    Signals:
        changed: a sensitivity study has measured more.
    """

    changed = Signal()

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._fit = BoardFitReader(context)
        self.study = StudyController(
            "sensitivity", SensitivityResult, context.document, context.runner, context.session.cache, self
        )
        self.study.options = {"samples": DEFAULT_SAMPLES}
        self.study.changed.connect(self._on_studied)
        self.trials = SuggestionTrials(context, self)
        self.trials.changed.connect(self._on_tried)
        self._seen: _CompiledState | None = None
        self._applied: list[Applied] = []
        context.document.opened.connect(self._forget)

    def look_at(self, program: LowerResult, folder: Path) -> tuple[Suggestion, ...]:
        """Return the suggestions for the current compiled program in ``folder``."""
        opened, last = self._context.document.opened_project, self._seen
        if opened is None:
            return ()
        departs = self._departs()
        is_same = last is not None and last.folder == folder and _same(last.opened.project, opened.project)
        if last is not None and is_same and last.departs == departs:
            return last.suggestions
        self.study.look()
        suggestions = self._suggestions(opened, program, folder)
        studied = self.study.result
        self._seen = _CompiledState(folder, opened, program, suggestions, departs, studied)
        if last is not None and last.folder != folder:
            self._measure(last, self._seen)
        return self._seen.suggestions

    def _on_tried(self) -> None:
        """Compute the suggestions anew when one was tried."""
        seen = self._seen
        if seen is not None:
            suggestions = self._suggestions(seen.opened, seen.program, seen.folder)
            self._seen = replace(seen, suggestions=suggestions)
            self.changed.emit()

    def _on_studied(self) -> None:
        """Compute the suggestions anew when the study has other figures."""
        seen = self._seen
        if seen is not None and self.study.result is not seen.studied:
            suggestions = self._suggestions(seen.opened, seen.program, seen.folder)
            self._seen = replace(seen, suggestions=suggestions, studied=self.study.result)
            self.changed.emit()

    def apply(self, suggestion: Suggestion) -> None:
        """Apply a suggestion as one undo step."""
        seen, before = self._seen, self._context.document.project
        if suggestion.edit is None or seen is None or before is None:
            return
        if self._context.document.apply(suggestion.title, suggestion.edit):
            after = self._context.document.project
            assert after is not None
            self._applied.append(Applied(suggestion.title, before, after, seen.program))

    def gains(self) -> list[tuple[str, str, bool]]:
        """Return the applied suggestions in effect: title, gain, and whether undo reverts it."""
        project = self._context.document.project
        if project is None:
            return []
        rows = []
        for applied in self._applied:
            if applied.before is not applied.after and _same(applied.before, project):
                continue
            if applied.compiled is not None:
                text = Gain(applied.program, applied.compiled).sentence
            else:
                text = WAITING if _same(applied.after, project) else UNKNOWN
            is_last = self._context.document.undo_stack.undoText() == applied.title
            rows.append((applied.title, text, is_last))
        return rows

    def _suggestions(self, opened: OpenProject, program: LowerResult, folder: Path) -> tuple[Suggestion, ...]:
        """Return the suggestions for a program whose results are in ``folder``."""
        exported = self._context.model_index.snapshot
        if exported is None:
            return ()
        try:
            edge = self._context.session.parsed.graph(folder / GRAPH_FILE)
        except WorkbenchError:
            return ()
        known = self._measurements()
        suggestions = suggest(opened.project, program, exported, edge, known)
        before = Figures(known.evaluated, program) if known.evaluated is not None else None
        return ranked(self.trials.offered(suggestions, opened, before), program)

    def _measurements(self) -> Measurements:
        context = self._context
        sensitivity = self.study.result if self.study.is_current else None
        folder = context.result("calibrate")
        calibrated = context.load(CalibrateResult, "calibrate")
        try:
            arrays = load_arrays(folder, HISTOGRAMS) if folder and calibrated else {}
        except WorkbenchError:
            calibrated, arrays = None, {}
        return Measurements(
            exported=context.load(ExportResult, "export"),
            evaluated=context.load(EvaluateResult, "evaluate"),
            prepared=context.load(PrepareResult, "prepare"),
            calibrated=calibrated,
            arrays=arrays,
            spared=spared_by(sensitivity) if sensitivity is not None else (),
            coarser=coarser_by(sensitivity) if sensitivity is not None else (),
            fit=self._fit.read(),
            departs=self._departs(),
        )

    def _departs(self) -> bool:
        """Return whether the program was verified, and is not the quantized model."""
        gate = self._context.gate()
        return gate is not None and gate.departs

    def _measure(self, last: _CompiledState, seen: _CompiledState) -> None:
        """Add the program after compilation to the applied suggestions."""
        for applied in self._applied:
            if applied.compiled is None and _same(applied.after, seen.opened.project):
                applied.compiled = seen.program
        if not _same(last.opened.project, seen.opened.project):
            return
        for gone in _written_away(last.suggestions, seen.suggestions):
            project = seen.opened.project
            self._applied.append(Applied(gone.title, project, project, last.program, seen.program))

    def _forget(self) -> None:
        self._seen, self._applied = None, []


def _written_away(before: Sequence[Suggestion], after: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the source changes that are no longer suggested."""
    still = {suggestion.id for suggestion in after}
    return [s for s in before if s.edit is None and s.id not in still]


def _same(one: Project, other: Project) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _DECISIVE)


def shared_suggestions(context: PanelContext) -> SuggestionController:
    """Return the one controller of the window: two would try every suggestion twice."""
    known = context.session.findChild(SuggestionController)
    if isinstance(known, SuggestionController):
        return known
    return SuggestionController(context, context.session)
