"""Small tags on boxes: what differs from the graph beside, and which kept searches find it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from ui.graph.palette import HITS, LETTERS, ink_on

if TYPE_CHECKING:
    from ui.graph.palette import Palette
    from ui.graph.picture import Picture

HEIGHT = 15.0
PATCH = 22.0


def paint_tags(painter: QPainter, palette: Palette, picture: Picture, item: str) -> None:
    """Write the sign of a difference at the lower right, letters of searches at the upper left."""
    hierarchy, marks, rect = picture.scene.hierarchy, picture.marks, picture.rect(item)
    if sign := marks.difference(item, hierarchy):
        width = palette.static_text(sign, is_title=True).size().width() + 10
        body = QRectF(rect.right() - width + 6, rect.bottom() - 8, width, HEIGHT)
        _tag(painter, palette, body, sign, palette.difference(sign))
    for place, number in enumerate(marks.hits(item, hierarchy)):
        body = QRectF(rect.x() - 6 + 17 * place, rect.y() - 7, HEIGHT, HEIGHT)
        _tag(painter, palette, body, LETTERS[number], QColor(HITS[number]))


def paint_patches(painter: QPainter, palette: Palette, picture: Picture, item: str) -> None:
    """Draw the same from further away, as patches of colour with a large sign."""
    hierarchy, marks, rect = picture.scene.hierarchy, picture.marks, picture.rect(item)
    painter.setFont(palette.title_font)
    if sign := marks.difference(item, hierarchy):
        body = QRectF(rect.right() - PATCH, rect.bottom() - PATCH / 2, PATCH, PATCH)
        _patch(painter, body, sign[:1], palette.difference(sign))
    for place, number in enumerate(marks.hits(item, hierarchy)):
        body = QRectF(rect.x() - 8 + (PATCH + 2) * place, rect.y() - 8, PATCH, PATCH)
        _patch(painter, body, LETTERS[number], QColor(HITS[number]))


def _patch(painter: QPainter, body: QRectF, text: str, colour: QColor) -> None:
    painter.fillRect(body, colour)
    painter.setPen(ink_on(colour))
    painter.drawText(body, Qt.AlignmentFlag.AlignCenter, text)


def _tag(painter: QPainter, palette: Palette, body: QRectF, text: str, colour: QColor) -> None:
    static = palette.static_text(text, is_title=True)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawRoundedRect(body, 3, 3)
    painter.setPen(ink_on(colour))
    painter.setFont(palette.title_font)
    left = body.center().x() - static.size().width() / 2
    painter.drawStaticText(QPointF(left, body.y() - 0.5), static)
