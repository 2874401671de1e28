"""Lines of a log, each in the colour of its level."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QListView, QStyledItemDelegate, QStyleOptionViewItem

from ui.theme import Theme
from ui.widgets.chip import AnyIndex


class LineDelegate(QStyledItemDelegate):
    """Paints one line in the colour of its level."""

    def __init__(self, theme: Callable[[], Theme], level_role: int, parent: QListView) -> None:
        super().__init__(parent)
        self._theme, self._level_role = theme, level_role

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        theme = self._theme()
        level = index.data(self._level_role)
        colours = {"debug": theme.muted, "warning": theme.warning, "error": theme.bad}
        bare = QStyleOptionViewItem(option)
        self.initStyleOption(bare, index)
        text, bare.text = bare.text, ""
        style = bare.widget.style()
        style.drawControl(style.ControlElement.CE_ItemViewItem, bare, painter, bare.widget)
        painter.save()
        painter.setFont(bare.font)
        painter.setPen(QColor(colours.get(str(level), theme.text)))
        place = bare.rect.adjusted(8, 0, -4, 0)
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        painter.restore()
