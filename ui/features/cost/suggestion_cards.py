"""Cards with what can be done about the CPU, and with what following a suggestion has gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ui.shared.panel import PanelContext
from workbench.errors import WorkbenchError
from workbench.project.model import Project
from workbench.results import GRAPH_FILE, LowerResult, PrepareResult
from workbench.suggestions import Gain, Suggestion, Written, suggest


class SuggestionCards(QScrollArea):
    """A column of cards that scrolls.

    Signals:
        apply_asked: the ``Suggestion`` is to be made a step of the project.
        show_asked: the operators of a ``Suggestion`` are to be shown.
    """

    apply_asked = Signal(object)
    show_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Suggestions")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.cards: list[QFrame] = []
        self.note = QLabel(self)

    def render_cards(
        self, suggestions: Sequence[Suggestion], gains: Sequence[tuple[str, str]], empty: str
    ) -> None:
        """Show gains, then suggestions; ``empty`` where there is no suggestion."""
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 2, 6, 2)
        column.setSpacing(6)
        self.cards = [_gain_card(*each, page) for each in gains]
        self.cards += [self._card(each, page) for each in suggestions]
        for card in self.cards:
            column.addWidget(card)
        self.note = _text("" if suggestions else empty, page)
        self.note.setObjectName("Hint")
        column.addWidget(self.note)
        column.addStretch(1)
        if (former := self.takeWidget()) is not None:
            # One of its buttons may be the one that was clicked.
            former.deleteLater()
        self.setWidget(page)
        page.setAutoFillBackground(False)

    def texts(self) -> list[str]:
        """Return what the cards say, for a reader who does not see."""
        return [card.accessibleName() for card in self.cards]

    def _card(self, suggestion: Suggestion, parent: QWidget) -> QFrame:
        buttons = []
        if suggestion.nodes:
            show = QPushButton("Show", parent)
            show.setToolTip("Choose its operators in the table and the graph")
            show.clicked.connect(lambda: self.show_asked.emit(suggestion))
            buttons.append(show)
        if suggestion.edit is not None:
            apply = QPushButton("Apply", parent)
            apply.setAccessibleName(f"Apply: {suggestion.title}")
            apply.setToolTip("One step, which Undo takes back")
            apply.clicked.connect(lambda: self.apply_asked.emit(suggestion))
            buttons.append(apply)
        card, column = _frame(suggestion.title, buttons, parent)
        column.addWidget(_text(suggestion.evidence, card))
        for line in suggestion.written:
            column.addLayout(_line(line, card))
        expected = _text(f"Expected: {suggestion.expected}", card)
        expected.setObjectName("Hint")
        column.addWidget(expected)
        said = f"{suggestion.title}. {suggestion.evidence} Expected: {suggestion.expected}"
        card.setAccessibleName(said)
        return card


def _gain_card(title: str, sentence: str, parent: QWidget) -> QFrame:
    card, column = _frame(f"Applied: {title}", [], parent)
    column.addWidget(_text(sentence, card))
    card.setAccessibleName(f"Applied: {title}. {sentence}")
    return card


def _frame(
    title: str, buttons: Sequence[QPushButton], parent: QWidget
) -> tuple[QFrame, QVBoxLayout]:
    card = QFrame(parent)
    card.setObjectName("Card")
    head = QHBoxLayout()
    label = _text(title, card)
    label.setObjectName("Subheading")
    head.addWidget(label, 1)
    for button in buttons:
        head.addWidget(button)
    column = QVBoxLayout(card)
    column.setContentsMargins(10, 6, 8, 8)
    column.setSpacing(4)
    column.addLayout(head)
    return card, column


def _line(line: Written, parent: QWidget) -> QHBoxLayout:
    """Return a line of source as it is and as it could be, with a button that copies it."""
    code = _text("\n".join(part for part in (line.now, line.instead) if part), parent)
    if line.now:
        code.setText(f"\u2212 {line.now}\n+ {line.instead}")
    code.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    code.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    place = _text(line.place, parent)
    place.setObjectName("Hint")
    place.setWordWrap(False)
    copy = QPushButton("Copy", parent)
    copy.setToolTip("Copy the new line")
    copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(line.instead))
    row = QHBoxLayout()
    row.setSpacing(10)
    row.addWidget(place, 0, Qt.AlignmentFlag.AlignTop)
    row.addWidget(code, 1)
    row.addWidget(copy, 0, Qt.AlignmentFlag.AlignTop)
    return row


def _text(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    return label


UNKNOWN = "Other changes came before it was compiled, so its gain alone is not known."
WAITING = "Run Lower to see what it gained."
# What decides the compiled program, besides files.
_DECISIVE = ("model", "rules", "improvers", "ranges", "range_methods", "target")


@dataclass
class Applied:
    """A suggestion that was followed: the project before and after, the program before and after.

    ``compiled`` is None until the project has been compiled with it.
    """

    title: str
    before: Project
    after: Project
    program: LowerResult
    compiled: LowerResult | None = None


@dataclass(frozen=True)
class _Seen:
    """The last program that was current: where it lies, its project and its suggestions."""

    folder: Path
    project: Project
    program: LowerResult
    suggestions: tuple[Suggestion, ...]


class Suggesting(QObject):
    """Suggestions and their gains for the open project."""

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._seen: _Seen | None = None
        self._applied: list[Applied] = []
        context.document.opened.connect(self._forget)

    def look_at(self, program: LowerResult, folder: Path) -> tuple[Suggestion, ...]:
        """Return the suggestions for the current compiled program that lies in ``folder``."""
        project, last = self._context.document.project, self._seen
        if project is None:
            return ()
        if last is not None and last.folder == folder and _same(last.project, project):
            return last.suggestions
        self._seen = _Seen(folder, project, program, self._found(project, program, folder))
        if last is not None and last.folder != folder:
            self._measure(last, self._seen)
        return self._seen.suggestions

    def apply(self, suggestion: Suggestion) -> None:
        """Make a suggestion a step of the project."""
        seen, before = self._seen, self._context.document.project
        if suggestion.edit is None or seen is None or before is None:
            return
        if self._context.document.apply(suggestion.title, suggestion.edit):
            after = self._context.document.project
            assert after is not None
            self._applied.append(Applied(suggestion.title, before, after, seen.program))

    def gains(self) -> list[tuple[str, str]]:
        """Return what was followed and not taken back, each with what it gained in words."""
        project = self._context.document.project
        if project is None:
            return []
        found = []
        for each in self._applied:
            if each.before is not each.after and _same(each.before, project):
                continue
            if each.compiled is not None:
                said = Gain(each.program, each.compiled).sentence
            else:
                said = WAITING if _same(each.after, project) else UNKNOWN
            found.append((each.title, said))
        return found

    def _found(
        self, project: Project, program: LowerResult, folder: Path
    ) -> tuple[Suggestion, ...]:
        exported = self._context.outline.snapshot
        if exported is None:
            return ()
        try:
            edge = self._context.session.parsed.graph(folder / GRAPH_FILE)
        except WorkbenchError:
            return ()
        prepared = self._context.load(PrepareResult, "prepare")
        return suggest(project, program, exported, edge, prepared)

    def _measure(self, last: _Seen, seen: _Seen) -> None:
        """Give what was followed its figures, changes of the source among them."""
        for each in self._applied:
            if each.compiled is None and _same(each.after, seen.project):
                each.compiled = seen.program
        if not _same(last.project, seen.project):
            return
        for gone in _written_away(last.suggestions, seen.suggestions):
            project = seen.project
            self._applied.append(Applied(gone.title, project, project, last.program, seen.program))

    def _forget(self) -> None:
        self._seen, self._applied = None, []


def _written_away(
    before: Sequence[Suggestion], after: Sequence[Suggestion]
) -> list[Suggestion]:  # fmt: skip
    """Return the changes of the source that are not suggested any more."""
    still = {each.id for each in after}
    return [each for each in before if each.edit is None and each.id not in still]


def _same(one: Project, other: Project) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _DECISIVE)
