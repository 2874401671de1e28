"""The themes: colours by meaning, safe for colour-blind users."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from workbench.installation import resources

# Behind a label whose config is applied to a part only.
DIFFERS = " \u2260"

STYLESHEET = resources() / "style.qss"

# Okabe and Ito's palette for colour-blind readers (2008), darkened or lightened per theme.
_PRECISION_DARK = {
    "float": "#8a929e",
    "a8w8": "#56b4e9",
    "a8w8-per-tensor": "#3f8fc0",
    "a16w8": "#e69f00",
    "a8w4": "#2fc39a",
    "uint8": "#cc79a7",
    "mixed": "#d8d8d8",
    "custom": "#f0e442",
}
_PRECISION_LIGHT = {
    "float": "#6c737d",
    "a8w8": "#0072b2",
    "a8w8-per-tensor": "#4f8fb8",
    "a16w8": "#b36b00",
    "a8w4": "#00795c",
    "uint8": "#a2457c",
    "mixed": "#444a52",
    "custom": "#8a7d00",
}


@dataclass(frozen=True)
class Theme:
    """The colours of widgets by meaning. Values are ``#rrggbb``."""

    name: str
    dark: bool
    background: str
    surface: str
    raised: str
    border: str
    text: str
    muted: str
    accent: str
    accent_text: str
    good: str
    warning: str
    bad: str
    grid: str
    edge: str
    group: str
    precision: dict[str, str] = field(default_factory=dict)

    def precision_colour(self, label: str) -> str:
        """Return the chip colour of a config label; unknown labels get the colour of "custom"."""
        from workbench.project.rules import ON_CPU

        plain = label.removesuffix(DIFFERS).removesuffix(f" {ON_CPU}")
        return self.precision.get(plain, self.precision["custom"])


DARK = Theme(
    name="dark",
    dark=True,
    background="#1b1e23",
    surface="#22262c",
    raised="#2b3038",
    border="#3a414b",
    text="#e4e7eb",
    muted="#98a1ad",
    accent="#4c9be8",
    accent_text="#0d1117",
    good="#3fb98f",
    warning="#e0a030",
    bad="#ee6a50",
    grid="#343a43",
    edge="#717b88",
    group="#262b33",
    precision=_PRECISION_DARK,
)
LIGHT = Theme(
    name="light",
    dark=False,
    background="#f4f5f7",
    surface="#ffffff",
    raised="#eceef1",
    border="#cdd2d9",
    text="#1d2329",
    muted="#5c6670",
    accent="#0b63b8",
    accent_text="#ffffff",
    good="#00795c",
    warning="#9a6200",
    bad="#c0391f",
    grid="#e2e5e9",
    edge="#87919d",
    group="#eef0f3",
    precision=_PRECISION_LIGHT,
)
THEMES = (DARK, LIGHT)


ICONS = resources() / "icons"
SIZE_PX = 16
_SCALES = (1, 2, 3)


@lru_cache(maxsize=256)
def icon(name: str, colour: str) -> QIcon:
    """Return the icon ``resources/icons/NAME.svg`` in a colour ``#rrggbb``."""
    renderer = _renderer(name, colour)
    result = QIcon()
    for scale in _SCALES:
        result.addPixmap(_painted(renderer, SIZE_PX, scale))
    return result


@lru_cache(maxsize=64)
def picture(name: str, colour: str, size_px: int) -> QIcon:
    """Return the icon ``resources/icons/NAME.svg`` for a size beyond that of buttons."""
    result = QIcon()
    for scale in _SCALES:
        result.addPixmap(_painted(_renderer(name, colour), size_px, scale))
    return result


def _renderer(name: str, colour: str) -> QSvgRenderer:
    text = (ICONS / f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    return QSvgRenderer(QByteArray(text.encode()))


def _painted(renderer: QSvgRenderer, size_px: int, scale: int) -> QPixmap:
    pixmap = QPixmap(size_px * scale, size_px * scale)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter, QRectF(0, 0, size_px * scale, size_px * scale))
    painter.end()
    pixmap.setDevicePixelRatio(scale)
    return pixmap
