"""A row of widgets that goes on in further lines where it is too narrow for all of them."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLayout, QLayoutItem, QWidget

from ui.shared.labels import Label

_GAP_PX, _LINE_PX = 8, 5
# Qt's largest height of a widget.
_UNBOUNDED_PX = (1 << 24) - 1


class ItemLayout(QLayout):
    """A layout of items in a list, whose height depends on its width."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def hasHeightForWidth(self) -> bool:
        return True


class _Lines(ItemLayout):
    """Lays out items from left to right at their own widths, line by line."""

    def heightForWidth(self, width: int) -> int:
        lines = self._lines(width)
        heights = [max(item.sizeHint().height() for item in line) for line in lines]
        return sum(heights) + max(len(heights) - 1, 0) * _LINE_PX

    def sizeHint(self) -> QSize:
        shown = self._shown()
        width = sum(item.sizeHint().width() for item in shown) + _GAP_PX * max(len(shown) - 1, 0)
        return QSize(width, max((item.sizeHint().height() for item in shown), default=0))

    def minimumSize(self) -> QSize:
        shown = self._shown()
        return QSize(
            max((item.minimumSize().width() for item in shown), default=0),
            max((item.sizeHint().height() for item in shown), default=0),
        )

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        top = rect.top()
        for line in self._lines(rect.width()):
            high, left = max(item.sizeHint().height() for item in line), rect.left()
            for item in line:
                size = item.sizeHint()
                wide = min(size.width(), rect.width())
                item.setGeometry(QRect(left, top + (high - size.height()) // 2, wide, size.height()))
                left += wide + _GAP_PX
            top += high + _LINE_PX

    def _shown(self) -> list[QLayoutItem]:
        return [item for item in self._items if not item.isEmpty()]

    def _lines(self, width: int) -> list[list[QLayoutItem]]:
        lines: list[list[QLayoutItem]] = []
        left = 0
        for item in self._shown():
            wide = item.sizeHint().width()
            if not lines or left + wide > width:
                lines.append([])
                left = 0
            lines[-1].append(item)
            left += wide + _GAP_PX
        return lines


class FlowRow(QWidget):
    """A row of widgets in as many lines as they need."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines = _Lines(self)

    def add(self, *widgets: QWidget) -> None:
        """Append widgets."""
        for widget in widgets:
            self._lines.addWidget(widget)

    def add_field(self, title: str, field: QWidget) -> None:
        """Append a field with its title, which stay in one line."""
        pair = QWidget(self)
        row = QHBoxLayout(pair)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        label = Label(title, pair)
        label.setBuddy(field)
        row.addWidget(label, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(field)
        self.add(pair)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._lines.heightForWidth(width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._take_room()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._take_room()

    def _take_room(self) -> None:
        """Take the height of all lines, no less and no more.

        A panel's own minimum knows of no width, and an empty panel would divide its free height
        between the row and its text.
        """
        high = self.heightForWidth(self.width())
        self.setMinimumHeight(high if self.isVisible() else 0)
        self.setMaximumHeight(high if self.isVisible() else _UNBOUNDED_PX)
