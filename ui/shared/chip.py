"""The precision chip of trees, lists and forms: a coloured label."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QListView, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ui.shared.theme import Theme

HEIGHT_PX = 18.0
_PAD_PX, _GAP_PX = 7.0, 6.0
# The label that was asked for and not applied.
WISH_ROLE = int(Qt.ItemDataRole.UserRole) + 40
AnyIndex = QModelIndex | QPersistentModelIndex


def chip_font(font: QFont) -> QFont:
    """Return the chip font that fits text in ``font``."""
    small = QFont(font)
    small.setPixelSize(11)
    small.setWeight(QFont.Weight.DemiBold)
    return small


def chip_width(label: str, font: QFont, wish: str = "") -> float:
    """Return the width of a chip, with a struck-out wish behind it [px]."""
    metrics = QFontMetricsF(chip_font(font))
    beside = metrics.horizontalAdvance(wish) + _GAP_PX if wish else 0.0
    return metrics.horizontalAdvance(label) + 2 * _PAD_PX + beside


def draw_chip(painter: QPainter, rect: QRectF, label: str, theme: Theme, wish: str = "") -> None:
    """Draw a chip at the left of ``rect``, clipped to its width.

    A ``wish`` that was not applied is struck out behind it, if there is room.
    """
    colour = QColor(theme.precision_colour(label))
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    font = painter.font()
    width = min(chip_width(label, font), rect.width())
    top = rect.center().y() - HEIGHT_PX / 2
    box = QRectF(rect.left(), top, width, HEIGHT_PX).adjusted(0.5, 0.5, -0.5, -0.5)
    fill = QColor(colour)
    fill.setAlphaF(0.20 if theme.dark else 0.13)
    painter.setBrush(fill)
    painter.setPen(QPen(colour, 1.0))
    painter.drawRoundedRect(box, 4, 4)
    painter.setFont(chip_font(font))
    painter.setPen(colour.lighter(125) if theme.dark else colour.darker(115))
    metrics = QFontMetricsF(painter.font())
    text = metrics.elidedText(label, Qt.TextElideMode.ElideRight, width - 2 * _PAD_PX + 3)
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    rest = rect.adjusted(width + _GAP_PX, 0, 0, 0)
    if wish and metrics.horizontalAdvance(wish) <= rest.width():
        struck = painter.font()
        struck.setStrikeOut(True)
        painter.setFont(struck)
        painter.setPen(QColor(theme.muted))
        painter.drawText(rest, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, wish)
    painter.restore()


class ChipDelegate(QStyledItemDelegate):
    """Paints a cell's text as a chip. A cell without text stays empty."""

    def __init__(self, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        label = str(index.data(Qt.ItemDataRole.DisplayRole) or "")
        bare = QStyleOptionViewItem(option)
        self.initStyleOption(bare, index)
        bare.text = ""
        style = bare.widget.style()
        style.drawControl(style.ControlElement.CE_ItemViewItem, bare, painter, bare.widget)
        if not label:
            return
        painter.save()
        painter.setFont(bare.font)
        wish = str(index.data(WISH_ROLE) or "")
        draw_chip(painter, QRectF(bare.rect).adjusted(4, 0, -4, 0), label, self._theme(), wish)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        label = str(index.data(Qt.ItemDataRole.DisplayRole) or "")
        wish = str(index.data(WISH_ROLE) or "")
        return QSize(round(chip_width(label, option.font, wish)) + 8, round(HEIGHT_PX) + 6)


class LineDelegate(QStyledItemDelegate):
    """Paints a log line in the colour of its level."""

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
        rect = bare.rect.adjusted(8, 0, -4, 0)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        painter.restore()
