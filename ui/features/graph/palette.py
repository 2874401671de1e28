"""Pens, brushes, fonts and colours of the graph, created once per theme."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPen, QStaticText

from workbench.graph.labels import operator_name

if TYPE_CHECKING:
    from ui.shared.theme import Theme
    from workbench.graph.snapshot import Node

TITLE_SIZE, SMALL_SIZE, LARGE_SIZE = 12, 11, 22
MAX_TEXTS = 20_000

# Letters and colours of saved searches; the colours are Okabe and Ito's for
# colour-blind users (2008).
HITS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999")

LETTERS = "ABCDEFGH"

_FAMILIES = {
    "conv": "product",
    "linear": "product",
    "mm": "product",
    "matmul": "product",
    "attention": "product",
    "bmm": "product",
    "embedding": "product",
    "norm": "norm",
    "relu": "activation",
    "gelu": "activation",
    "sigmoid": "activation",
    "tanh": "activation",
    "softmax": "activation",
    "silu": "activation",
    "hardswish": "activation",
    "hardtanh": "activation",
    "elu": "activation",
    "pool": "pool",
    "mean": "pool",
    "max": "pool",
    "add": "arithmetic",
    "mul": "arithmetic",
    "sub": "arithmetic",
    "div": "arithmetic",
    "sum": "arithmetic",
    "cat": "arithmetic",
    "sqrt": "arithmetic",
    "pow": "arithmetic",
}
# Muted colours: saturated ones are used for precision and overlays.
_HUES = {"product": 215, "norm": 275, "activation": 35, "pool": 165, "arithmetic": 95}


def family(node: Node) -> str:
    """Return the family of an operation, which sets its colour."""
    return node.kind if node.kind != "call" else _family_of(node.op)


@lru_cache(maxsize=4096)
def _family_of(op: str) -> str:
    name = operator_name(op).lower()
    return next((group for part, group in _FAMILIES.items() if part in name), "other")


class Palette:
    """The pens, brushes and fonts of a theme."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.title_font = _font(TITLE_SIZE, QFont.Weight.DemiBold)
        self.small_font = _font(SMALL_SIZE, QFont.Weight.Normal)
        self.large_font = _font(LARGE_SIZE, QFont.Weight.DemiBold)
        self.border = _pen(theme.border)
        self.edge = _pen(theme.edge)
        self.faint_edge = _pen(_blend(theme.edge, theme.background, 0.45))
        self.accent = _pen(theme.accent, 2.0)
        self.current = _pen(theme.accent, 2.0, Qt.PenStyle.DashLine)
        self.text = QColor(theme.text)
        self.muted = QColor(theme.muted)
        stripes = QColor(theme.warning)
        stripes.setAlpha(110)
        self.hatch = QBrush(stripes, Qt.BrushStyle.BDiagPattern)
        self.scrim = QColor(theme.background)
        self.scrim.setAlpha(140)
        self.node = QColor(theme.raised)
        self.pill = QColor(theme.surface)
        self.group = QColor(_blend(theme.accent, theme.group, 0.10))
        self.shades = [QColor(_blend(theme.text, theme.background, k)) for k in (0.025, 0.055)]
        self._families: dict[str, QColor] = {}
        self._family_names: dict[str, str] = {}
        self._texts: dict[tuple[str, int], QStaticText] = {}

    def family_name(self, name: str) -> str:
        """Return the colour of a family of operations as ``#rrggbb``."""
        if name not in self._family_names:
            self._family_names[name] = self.family(name).name()
        return self._family_names[name]

    def family(self, name: str) -> QColor:
        """Return the colour of a family of operations."""
        if name not in self._families:
            self._families[name] = self._family(name)
        return self._families[name]

    def difference(self, sign: str) -> QColor:
        """Return the colour of a difference sign."""
        theme = self.theme
        named = {"+": theme.good, "\u2212": theme.bad}
        return QColor(named.get(sign[:1], theme.warning) if " " not in sign else theme.warning)

    def _family(self, name: str) -> QColor:
        theme = self.theme
        if name in _HUES:
            return QColor.fromHsl(_HUES[name], 90, 135 if theme.dark else 140)
        named = {
            "input": theme.good,
            "output": theme.good,
            "delegate": theme.accent,
            "control": theme.accent,
            "observer": theme.precision_colour("uint8"),
            "quantize": theme.precision_colour("a8w8"),
            "dequantize": theme.precision_colour("a8w8"),
        }
        return QColor(named.get(name, theme.muted))

    def static_text(self, text: str, *, is_title: bool) -> QStaticText:
        """Return a static text; cached by its string."""
        return self._static(text, self.title_font if is_title else self.small_font)

    def fitting_text(self, text: str, room: float, *, is_title: bool) -> QStaticText:
        """Return a static text elided to a width [px]."""
        static = self.static_text(text, is_title=is_title)
        if static.size().width() <= room:
            return static
        metrics = QFontMetricsF(self.title_font if is_title else self.small_font)
        cut = metrics.elidedText(text, Qt.TextElideMode.ElideRight, max(room, 0.0))
        return self.static_text(cut, is_title=is_title)

    def large_text(self, text: str) -> QStaticText:
        """Return a static text in a large font."""
        return self._static(text, self.large_font)

    def _static(self, text: str, font: QFont) -> QStaticText:
        key = (text, font.pixelSize())
        static = self._texts.get(key)
        if static is None:
            if len(self._texts) > MAX_TEXTS:
                self._texts.clear()
            static = self._texts[key] = QStaticText(text)
            static.setTextFormat(Qt.TextFormat.PlainText)
            static.prepare(font=font)
        return static


def ink_on(colour: QColor) -> QColor:
    """Return black or white, whichever has more contrast on a colour."""
    dark, white = QColor("#0d1117"), QColor("#ffffff")
    light = _luminance(colour) + _FLARE
    is_dark_better = light / (_luminance(dark) + _FLARE) > (_luminance(white) + _FLARE) / light
    return dark if is_dark_better else white


# Light that a screen reflects, as a part of white, in the contrast of two colours (WCAG 2.2).
_FLARE = 0.05


def _luminance(colour: QColor) -> float:
    """Return the relative luminance of a colour in [0, 1] (WCAG 2.2)."""
    parts = (colour.redF(), colour.greenF(), colour.blueF())
    linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _font(size: int, weight: QFont.Weight) -> QFont:
    font = QFont()
    font.setPixelSize(size)
    font.setWeight(weight)
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    return font


def _pen(colour: str, width: float = 1.0, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
    pen = QPen(QColor(colour), width, style)
    pen.setCosmetic(True)
    return pen


def _blend(over: str, under: str, part: float) -> str:
    a, b = QColor(over), QColor(under)
    return QColor(
        round(a.red() * part + b.red() * (1 - part)),
        round(a.green() * part + b.green() * (1 - part)),
        round(a.blue() * part + b.blue() * (1 - part)),
    ).name()
