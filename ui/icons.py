"""Icons drawn for one colour, sharp at every scale of the screen."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

ICONS = Path(__file__).parent.parent / "resources" / "icons"
SIZE_PX = 16
_SCALES = (1, 2, 3)


@lru_cache(maxsize=256)
def icon(name: str, colour: str) -> QIcon:
    """Return the icon ``resources/icons/NAME.svg`` in a colour ``#rrggbb``."""
    text = (ICONS / f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    renderer = QSvgRenderer(QByteArray(text.encode()))
    made = QIcon()
    for scale in _SCALES:
        pixmap = QPixmap(SIZE_PX * scale, SIZE_PX * scale)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        renderer.render(painter, QRectF(0, 0, SIZE_PX * scale, SIZE_PX * scale))
        painter.end()
        pixmap.setDevicePixelRatio(scale)
        made.addPixmap(pixmap)
    return made
