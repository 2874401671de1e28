"""Cards with one figure each, wrapped into rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from ui.shared.labels import ElidedLabel, Label, literal
from ui.shared.theme import Theme
from ui.shared.wrapping_row import ItemLayout

_GAP_PX = 6
# Least width of a card with its origin.
CARD_PX = 124
_MOST_ROWS = 2
_FONT_PX, _SMALL_FONT_PX = 17, 15
# Left, top, right and bottom margins of a card, and of a small one.
_WIDE_PX, _NARROW_PX = (9, 5, 9, 6), (8, 3, 8, 4)


@dataclass(frozen=True)
class Card:
    """A figure, its title and its origin: measured, computed or estimated."""

    title: str
    value: str
    origin: str
    meaning: str = ""


class _Flow(ItemLayout):
    """Layout of cells from left to right, in rows that fill the width.

    Cells are equal, unless cells of their own widths need fewer rows.
    """

    def heightForWidth(self, width: int) -> int:
        rows = len(self._rows(width))
        return rows * self._row_height() + max(rows - 1, 0) * _GAP_PX

    def sizeHint(self) -> QSize:
        return QSize(max(self._widths(), default=0) * min(self.count(), 4), self._row_height())

    def minimumSize(self) -> QSize:
        narrowest = max((item.minimumSize().width() for item in self._items), default=CARD_PX)
        return QSize(narrowest, self._row_height())

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        height, number = self._row_height(), 0
        for down, widths in enumerate(self._rows(rect.width())):
            left, top = rect.left(), rect.top() + down * (height + _GAP_PX)
            for width in widths:
                self._items[number].setGeometry(QRect(left, top, width, height))
                left, number = left + width + _GAP_PX, number + 1

    def _widths(self) -> list[int]:
        return [item.sizeHint().width() for item in self._items]

    def _rows(self, width: int) -> list[list[int]]:
        """Return the widths of the cells in each row."""
        own = self._rows_of_own(width)
        fitting = max(1, (width + _GAP_PX) // (max(self._widths(), default=CARD_PX) + _GAP_PX))
        count = -(-self.count() // fitting)
        if len(own) < count:
            return own
        columns = max(1, -(-self.count() // max(count, 1)))
        equal = (width - (columns - 1) * _GAP_PX) // columns
        starts = range(0, self.count(), columns)
        return [[equal] * min(columns, self.count() - start) for start in starts]

    def _rows_of_own(self, width: int) -> list[list[int]]:
        """Return rows of cells of their own widths, with what is left shared in each row."""
        rows: list[list[int]] = []
        left = 0
        for own in self._widths():
            if not rows or left + own > width:
                rows.append([])
                left = 0
            rows[-1].append(own)
            left += own + _GAP_PX
        rows = _levelled(rows, width)
        for row in rows:
            free = width - sum(row) - _GAP_PX * (len(row) - 1)
            row[:] = [max(own + free // len(row), 1) for own in row]
        return rows

    def _row_height(self) -> int:
        return max((item.sizeHint().height() for item in self._items), default=0)


def _levelled(rows: list[list[int]], width: int) -> list[list[int]]:
    """Return rows with about as many cells in each, if these fit; else the rows as they are."""
    cells = [cell for row in rows for cell in row]
    ends = [round(len(cells) * (k + 1) / len(rows)) for k in range(len(rows))]
    level = [cells[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    fits = all(sum(row) + _GAP_PX * (len(row) - 1) <= width for row in level)
    return level if fits else rows


class _CardView(QFrame):
    """The widget of one card."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("Card")
        self.title, self.value, self.origin = Label(self), Label(self), ElidedLabel(self)
        self.title.setObjectName("Hint")
        self.origin.setObjectName("Hint")
        self._colour = ""
        self._rows = layout = QVBoxLayout(self)
        layout.setSpacing(1)
        for label in (self.title, self.value, self.origin):
            label.setTextFormat(Qt.TextFormat.PlainText)
            layout.addWidget(label)

    def render_card(self, card: Card, colour: str) -> None:
        """Show a card with its value in a colour."""
        self._colour = colour
        self.title.setText(card.title)
        self.value.setText(card.value)
        self.origin.setText(card.origin)
        self.origin.setStyleSheet("font-size: 11px;")
        self.setToolTip(literal("\n".join(part for part in (card.meaning, card.origin) if part)))
        self.setAccessibleName(f"{card.title}: {card.value}, {card.origin}")

    def set_compact(self, compact: bool) -> None:
        """Show only title and value, smaller; or the origin too."""
        self.origin.setVisible(not compact)
        self._rows.setContentsMargins(*(_NARROW_PX if compact else _WIDE_PX))
        size = _SMALL_FONT_PX if compact else _FONT_PX
        self.value.setStyleSheet(f"font-size: {size}px; font-weight: 600; color: {self._colour};")
        # Its size is asked for before the events that follow.
        self._rows.invalidate()
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return QSize(max(hint.width(), 0 if self.origin.isHidden() else CARD_PX), hint.height())


class FigureCards(QWidget):
    """A wrapping row of cards.

    Where they need more than two rows, they are small, and one line below says the origins.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grid = QWidget(self)
        self._flow = _Flow(self._grid)
        self._views: list[_CardView] = []
        self._origins = ElidedLabel(self)
        self._origins.setObjectName("Hint")
        self._origins.setStyleSheet("font-size: 11px;")
        self._full_width, self._is_compact = CARD_PX, False
        # A label that is shown resizes the widgets around it at once.
        self._is_changing = False
        self._rows = layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._grid)
        layout.addWidget(self._origins)

    def render_cards(self, cards: Sequence[Card], theme: Theme, *, stale: bool = False) -> None:
        """Show cards. Outdated figures are grey."""
        self._is_changing = True
        while len(self._views) > len(cards):
            view = self._views.pop()
            self._flow.removeWidget(view)
            view.deleteLater()
        while len(self._views) < len(cards):
            view = _CardView(self._grid)
            self._views.append(view)
            self._flow.addWidget(view)
            # Qt would show it later, and until then it has no size in the layout.
            view.show()
        colour = theme.muted if stale else theme.text
        for view, card in zip(self._views, cards, strict=True):
            view.render_card(card, colour)
        self._set_compact(False)
        self._full_width = max((view.sizeHint().width() for view in self._views), default=CARD_PX)
        text = origins_text(cards)
        self._origins.setText(text)
        self._origins.setToolTip(literal(text))
        self._is_changing = False
        self._take_room()

    def texts(self) -> list[str]:
        """Return the accessible text of the cards."""
        return [view.accessibleName() for view in self._views]

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        high = self._flow.heightForWidth(width)
        if self._origins.isHidden():
            return high
        return high + self._rows.spacing() + self._origins.sizeHint().height()

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
        if self._is_changing:
            return
        compact = self._rows_of(self._full_width) > _MOST_ROWS
        if compact != self._is_compact:
            self._is_changing = True
            self._set_compact(compact)
            self._is_changing = False
        self.setMinimumHeight(self.heightForWidth(self.width()) if self.isVisible() else 0)
        self.updateGeometry()

    def _rows_of(self, card: int) -> int:
        """Return the number of rows of cards of a width."""
        columns = max(1, (self.width() + _GAP_PX) // (card + _GAP_PX))
        return -(-len(self._views) // columns)

    def _set_compact(self, compact: bool) -> None:
        self._is_compact = compact
        for view in self._views:
            view.set_compact(compact)
        self._origins.setVisible(compact)
        self._flow.invalidate()


def origins_text(cards: Sequence[Card]) -> str:
    """Return a line with the origins of cards: the most frequent one, then the others."""
    titles: dict[str, list[str]] = {}
    for card in cards:
        titles.setdefault(card.origin, []).append(card.title)
    first, *others = sorted(titles, key=lambda origin: -len(titles[origin])) or [""]
    return "; ".join([first, *(f"{', '.join(titles[o])}: {o}" for o in others)])
