"""Cards with one figure each, wrapped into rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from ui.shared.flow_row import ItemLayout
from ui.shared.labels import ElidedLabel, Label, literal
from ui.shared.theme import Theme

_GAP_PX = 6
CARD_PX = 124
_MOST_ROWS = 2


@dataclass(frozen=True)
class Card:
    """A figure, its title and its origin: measured, computed or estimated."""

    title: str
    value: str
    origin: str
    meaning: str = ""


class _Flow(ItemLayout):
    """Layout of equal cells from left to right, in rows."""

    def heightForWidth(self, width: int) -> int:
        _, rows = self._cells(width)
        return rows * self._row_height() + max(rows - 1, 0) * _GAP_PX

    def sizeHint(self) -> QSize:
        wide = self._widest()
        return QSize(wide * min(len(self._items), 4), self._row_height())

    def minimumSize(self) -> QSize:
        return QSize(self._narrowest(), self._row_height())

    def setGeometry(self, place: QRect) -> None:
        super().setGeometry(place)
        columns, _ = self._cells(place.width())
        width = (place.width() - (columns - 1) * _GAP_PX) // columns
        height = self._row_height()
        for number, item in enumerate(self._items):
            down, right = divmod(number, columns)
            left, top = right * (width + _GAP_PX), down * (height + _GAP_PX)
            item.setGeometry(QRect(place.left() + left, place.top() + top, width, height))

    def _cells(self, width: int) -> tuple[int, int]:
        """Return the columns and rows. More than two rows are made narrower, if that saves one."""
        rows = self._rows(width, self._widest())
        if rows > _MOST_ROWS:
            rows = self._rows(width, self._narrowest())
        return max(1, -(-len(self._items) // max(rows, 1))), rows

    def _rows(self, width: int, least: int) -> int:
        fitting = max(1, (width + _GAP_PX) // (least + _GAP_PX))
        return -(-len(self._items) // fitting)

    def _widest(self) -> int:
        return max((item.sizeHint().width() for item in self._items), default=CARD_PX)

    def _narrowest(self) -> int:
        return max((item.minimumSize().width() for item in self._items), default=CARD_PX)

    def _row_height(self) -> int:
        return max((item.sizeHint().height() for item in self._items), default=0)


class _CardView(QFrame):
    """The widget of one card."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("Card")
        self.title, self.value, self.origin = Label(self), Label(self), ElidedLabel(self)
        self.title.setObjectName("Hint")
        self.origin.setObjectName("Hint")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(9, 5, 9, 6)
        layout.setSpacing(1)
        for label in (self.title, self.value, self.origin):
            label.setTextFormat(Qt.TextFormat.PlainText)
            layout.addWidget(label)

    def render_card(self, card: Card, style: str) -> None:
        """Show a card."""
        self.title.setText(card.title)
        self.value.setText(card.value)
        self.value.setStyleSheet(style)
        self.origin.setText(card.origin)
        self.origin.setStyleSheet("font-size: 11px;")
        self.setToolTip(literal("\n".join(part for part in (card.meaning, card.origin) if part)))
        self.setAccessibleName(f"{card.title}: {card.value}, {card.origin}")


class FigureCards(QWidget):
    """A wrapping row of cards."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flow = _Flow(self)
        self._views: list[_CardView] = []

    def render_cards(self, cards: Sequence[Card], theme: Theme, *, stale: bool = False) -> None:
        """Show cards. Outdated figures are grey."""
        while len(self._views) > len(cards):
            view = self._views.pop()
            self._flow.removeWidget(view)
            view.deleteLater()
        while len(self._views) < len(cards):
            view = _CardView(self)
            self._views.append(view)
            self._flow.addWidget(view)
        colour = theme.muted if stale else theme.text
        style = f"font-size: 17px; font-weight: 600; color: {colour};"
        for view, card in zip(self._views, cards, strict=True):
            view.render_card(card, style)
        self._flow.invalidate()
        self._take_room()

    def texts(self) -> list[str]:
        """Return the accessible text of the cards."""
        return [view.accessibleName() for view in self._views]

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._flow.heightForWidth(width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._take_room()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._take_room()

    def _take_room(self) -> None:
        """Set the minimum height for all rows; splitters ignore height-for-width.

        A hidden page has no width yet and must not enlarge its panel.
        """
        self.setMinimumHeight(self.heightForWidth(self.width()) if self.isVisible() else 0)
        self.updateGeometry()
