"""The searches that are kept: a row of letters with colours, shown or not, and a way to forget."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QToolButton, QWidget

from ui.graph.palette import HITS, LETTERS, ink_on
from workbench.graph.labels import elide
from workbench.project.graph_notes import SavedQuery

TEXT_LENGTH = 28
_PX = 14


class KeptQueries(QWidget):
    """A button for each kept search, hidden while there is none.

    Signals:
        shown_asked: the text of a search and whether it is to colour the graph.
        forget_asked: the text of a search that is no longer wanted.
        find_asked: the text of a search to be put into the box.
    """

    shown_asked = Signal(str, bool)
    forget_asked = Signal(str)
    find_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._queries: tuple[SavedQuery, ...] = ()
        self._counts: tuple[str, ...] = ()
        self.buttons: list[QToolButton] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(6, 0, 6, 2)
        self._row.setSpacing(4)
        label = QLabel("Coloured:", self)
        label.setObjectName("Hint")
        self._row.addWidget(label)
        self._row.addStretch(1)
        self.hide()

    def show_queries(self, queries: Sequence[SavedQuery], counts: Sequence[str]) -> None:
        """Show the searches, and how many operations each finds, or why it cannot say."""
        if (tuple(queries), tuple(counts)) == (self._queries, self._counts):
            return
        self._queries, self._counts = tuple(queries), tuple(counts)
        for button in self.buttons:
            self._row.removeWidget(button)
            button.deleteLater()
        self.buttons = [self._button(k, q) for k, q in enumerate(self._queries)]
        for position, button in enumerate(self.buttons):
            self._row.insertWidget(1 + position, button)
        self.setVisible(bool(queries))

    def _button(self, number: int, query: SavedQuery) -> QToolButton:
        button = QToolButton(self)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setIcon(letter_icon(number))
        button.setText(f"{elide(query.text, TEXT_LENGTH)}  {self._counts[number]}")
        button.setCheckable(True)
        button.setChecked(query.shown)
        button.setToolTip(f"{query.text}\nClick to show or hide its colour.")
        button.setAccessibleName(f"Kept search {LETTERS[number]}: {query.text}")
        button.clicked.connect(lambda on, text=query.text: self.shown_asked.emit(text, on))
        menu = QMenu(button)
        find = menu.addAction("Find it again")
        find.triggered.connect(lambda _=False, text=query.text: self.find_asked.emit(text))
        forget = menu.addAction("Forget it")
        forget.triggered.connect(lambda _=False, text=query.text: self.forget_asked.emit(text))
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        return button


def letter_icon(number: int) -> QIcon:
    """Return the sign of a kept search: its letter on its colour."""
    pixmap = QPixmap(2 * _PX, 2 * _PX)
    pixmap.setDevicePixelRatio(2)
    colour = QColor(HITS[number % len(HITS)])
    pixmap.fill(colour)
    painter = QPainter(pixmap)
    painter.setPen(ink_on(colour))
    painter.drawText(0, 0, _PX, _PX, Qt.AlignmentFlag.AlignCenter, LETTERS[number % len(LETTERS)])
    painter.end()
    return QIcon(pixmap)
