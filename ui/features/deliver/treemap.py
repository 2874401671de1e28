"""A treemap: rectangles whose areas are the sizes of parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from ui.shared.labels import literal
from ui.shared.theme import Theme

_PAD_PX, _GAP_PX = 6.0, 1.0
_LEAST_TEXT_PX = 56.0
# A name of which fewer letters fit says nothing.
_LEAST_LETTERS = 6
# How opaque an area is: the theme's text is readable on it.
_TINT = 0.4
_HEIGHT_PX, _LEAST_PX = 170, 90


@dataclass(frozen=True)
class Area:
    """One rectangle: its lines of text, its size, and its colour."""

    name: str
    text: str
    kind: str
    size: float
    colour: str

    @property
    def lines(self) -> list[str]:
        """What it says; a part that is called as its kind says so once."""
        return list(dict.fromkeys((self.name, self.text, self.kind)))


def squarified(sizes: Sequence[float], room: QRectF) -> list[QRectF]:
    """Return a rectangle for each size, with areas in proportion, as square as they get.

    Source: Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000.

    Args:
        sizes: Positive, largest first.
        room: What they fill.
    """
    left, rectangles = QRectF(room), list[QRectF]()
    scale = room.width() * room.height() / (sum(sizes) or 1.0)
    row: list[float] = []
    for size in [*(size * scale for size in sizes), 0.0]:
        side = min(left.width(), left.height())
        if row and (size == 0.0 or _worst([*row, size], side) > _worst(row, side)):
            placed, left = _row(row, left)
            rectangles += placed
            row = []
        row.append(size)
    return rectangles


def _worst(row: Sequence[float], side: float) -> float:
    """Return the largest ratio of sides in a row along a side."""
    total = sum(row)
    return max(side * side * max(row) / total**2, total**2 / (side * side * min(row) or 1e-9))


def _row(row: Sequence[float], left: QRectF) -> tuple[list[QRectF], QRectF]:
    """Return the rectangles of a row along the shorter side, and the room that is left."""
    is_upright = left.width() >= left.height()
    side = left.height() if is_upright else left.width()
    depth = sum(row) / max(side, 1e-9)
    placed, at = [], 0.0
    for size in row:
        length = size / max(depth, 1e-9)
        placed.append(
            QRectF(left.left(), left.top() + at, depth, length)
            if is_upright
            else QRectF(left.left() + at, left.top(), length, depth)
        )
        at += length
    rest = left.adjusted(depth, 0, 0, 0) if is_upright else left.adjusted(0, depth, 0, 0)
    return placed, rest


def shown_lines(lines: Sequence[str], room: QSizeF, metrics: QFontMetricsF) -> list[str]:
    """Return what an area shows of its lines: a part of its name, and whole figures only.

    Of the name of a module it is the end, of other words the beginning.
    """
    name, *figures = lines
    side = Qt.TextElideMode.ElideRight if " " in name else Qt.TextElideMode.ElideLeft
    part = metrics.elidedText(name, side, room.width())
    if len(part) < min(len(name), _LEAST_LETTERS):
        return []
    whole = [line for line in figures if metrics.horizontalAdvance(line) <= room.width()]
    return [part, *whole][: int(room.height() // metrics.height())]


class Treemap(QWidget):
    """Paints areas, largest first; the pointer reads those that are too small for their text.

    Signals:
        chosen: the name of an area that was clicked.
    """

    chosen = Signal(str)

    def __init__(self, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.areas: tuple[Area, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def render_areas(self, title: str, areas: Sequence[Area]) -> None:
        """Show areas; ``title`` is what they are together."""
        self.areas = tuple(sorted(areas, key=lambda area: -area.size))
        parts = ", ".join(f"{area.name} {area.text}" for area in self.areas)
        self.setAccessibleName(f"{title}: {parts}")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(400, _HEIGHT_PX)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, _LEAST_PX)

    def rectangles(self) -> list[QRectF]:
        """Return the rectangle of each area."""
        return squarified([area.size for area in self.areas], QRectF(self.rect()))

    def area_at(self, point: QPointF) -> Area | None:
        """Return the area at a point."""
        pairs = zip(self.areas, self.rectangles(), strict=True)
        return next((area for area, place in pairs if place.contains(point)), None)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        theme, painter = self._theme(), QPainter(self)
        metrics = QFontMetricsF(self.font())
        for area, place in zip(self.areas, self.rectangles(), strict=True):
            colour = QColor(area.colour)
            colour.setAlphaF(_TINT)
            painter.fillRect(place.adjusted(0, 0, -_GAP_PX, -_GAP_PX), colour)
            room = place.adjusted(_PAD_PX, _PAD_PX, -_PAD_PX, -_PAD_PX)
            if room.width() < _LEAST_TEXT_PX or room.height() < metrics.height():
                continue
            painter.setPen(QColor(theme.text))
            for number, line in enumerate(shown_lines(area.lines, room.size(), metrics)):
                top = room.top() + number * metrics.height()
                painter.drawText(QPointF(room.left(), top + metrics.ascent()), line)
        painter.end()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            area = self.area_at(QPointF(event.pos()))
            text = literal("\n".join(area.lines)) if area is not None else ""
            QToolTip.showText(event.globalPos(), text, self)
            return True
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        area = self.area_at(event.position())
        if area is not None and event.button() == Qt.MouseButton.LeftButton:
            self.chosen.emit(area.name)
