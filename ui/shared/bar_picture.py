"""Horizontal bars with a name and a value each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.shared.labels import literal
from ui.shared.theme import Theme
from workbench.outcome_page import Bar

_ROW_PX, _BAR_PX, _NAME_SHARE = 22, 10, 0.34


class BarPicture(QWidget):
    """Horizontal bars with a name at the left and a value at the right of each."""

    def __init__(self, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.bars: tuple[Bar, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def render_bars(self, title: str, bars: Sequence[Bar]) -> None:
        """Show bars; ``title`` is what they are together."""
        self.bars = tuple(bars)
        self.setVisible(bool(bars))
        text = ", ".join(f"{bar.name} {bar.text}" for bar in bars)
        self.setAccessibleName(f"{title}: {text}")
        self.setToolTip(literal("\n".join([title, *(f"{b.name}: {b.text}" for b in bars)])))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(260, max(len(self.bars), 1) * _ROW_PX)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, max(len(self.bars), 1) * _ROW_PX)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        theme = self._theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics = QFontMetricsF(self.font())
        widest = max((metrics.horizontalAdvance(b.name) for b in self.bars), default=0.0)
        name_px = min(widest + 10, self.width() * _NAME_SHARE)
        value_px = max((metrics.horizontalAdvance(b.text) for b in self.bars), default=0.0) + 8
        room = max(self.width() - name_px - value_px, 8.0)
        middle = Qt.AlignmentFlag.AlignVCenter
        for row, bar in enumerate(self.bars):
            top = row * _ROW_PX
            name = metrics.elidedText(bar.name, Qt.TextElideMode.ElideMiddle, name_px - 8)
            painter.setPen(QColor(theme.muted))
            line = QRectF(0, top, name_px, _ROW_PX)
            painter.drawText(line, Qt.AlignmentFlag.AlignLeft | middle, name)
            track = QRectF(name_px, top + (_ROW_PX - _BAR_PX) / 2, room, _BAR_PX)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.border))
            painter.drawRoundedRect(track, 3, 3)
            if bar.share > 0:
                filled = QRectF(track)
                filled.setWidth(max(track.width() * min(bar.share, 1.0), 3.0))
                painter.setBrush(QColor(theme.bad if bar.is_bad else theme.accent))
                painter.drawRoundedRect(filled, 3, 3)
            painter.setPen(QColor(theme.text))
            value = QRectF(self.width() - value_px, top, value_px, _ROW_PX)
            painter.drawText(value, Qt.AlignmentFlag.AlignRight | middle, bar.text)
        painter.end()
