"""Cards with what can be done about the CPU, and with what following a suggestion has gained."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
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

from workbench.suggestions import Suggestion, Written


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
