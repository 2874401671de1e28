"""The appearance of the window: palette, stylesheet and font of a theme."""

from __future__ import annotations

from dataclasses import fields
from string import Template

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from ui.shared.theme import DARK, ICONS, STYLESHEET, THEMES, Theme

FONT_PX = 13
_FAMILIES = (
    "Inter",
    "Segoe UI",
    "SF Pro Text",
    "Cantarell",
    "Ubuntu",
    "Noto Sans",
    "Liberation Sans",
    "DejaVu Sans",
)


class Appearance(QObject):
    """Holds the present theme and applies it to the application.

    Signals:
        changed: the new ``Theme``.
    """

    changed = Signal(object)

    def __init__(self, application: QApplication, name: str) -> None:
        super().__init__(application)
        self._application = application
        self.theme = theme_named(name)
        application.setFont(interface_font())
        self._dress()

    def switch(self, name: str) -> None:
        """Switch to another theme in the whole application."""
        theme = theme_named(name)
        if theme == self.theme:
            return
        self.theme = theme
        self._dress()
        self.changed.emit(theme)

    def _dress(self) -> None:
        # Qt takes four times as long for a stylesheet that replaces another one.
        self._application.setStyleSheet("")
        self._application.setPalette(palette_of(self.theme))
        self._application.setStyleSheet(stylesheet_of(self.theme))


def theme_named(name: str) -> Theme:
    """Return the theme with this name; the dark theme if there is none."""
    return next((theme for theme in THEMES if theme.name == name), DARK)


def interface_font() -> QFont:
    """Return the interface font: the first installed font of a fixed list."""
    installed = set(QFontDatabase.families())
    font = QFont(next((family for family in _FAMILIES if family in installed), "Sans Serif"))
    font.setPixelSize(FONT_PX)
    return font


def stylesheet_of(theme: Theme) -> str:
    """Return the stylesheet with the theme's colours."""
    values = {f.name: getattr(theme, f.name) for f in fields(theme) if f.type == "str"}
    values["icons"] = ICONS.as_posix()
    values["selected"] = _mixed(theme.accent, theme.surface, 0.30)
    values["hover"] = _mixed(theme.text, theme.surface, 0.06)
    values["pressed"] = _mixed(theme.text, theme.surface, 0.12)
    values["disabled"] = _mixed(theme.muted, theme.surface, 0.55)
    return Template(STYLESHEET.read_text(encoding="utf-8")).substitute(values)


def palette_of(theme: Theme) -> QPalette:
    """Return the palette for everything the stylesheet does not cover."""
    palette = QPalette()
    role = QPalette.ColorRole
    for which, colour in (
        (role.Window, theme.background),
        (role.WindowText, theme.text),
        (role.Base, theme.surface),
        (role.AlternateBase, theme.raised),
        (role.Text, theme.text),
        (role.Button, theme.raised),
        (role.ButtonText, theme.text),
        (role.BrightText, theme.bad),
        (role.Link, theme.accent),
        (role.Highlight, theme.accent),
        (role.HighlightedText, theme.accent_text),
        (role.ToolTipBase, theme.raised),
        (role.ToolTipText, theme.text),
        (role.PlaceholderText, theme.muted),
        (role.Mid, theme.border),
        (role.Dark, theme.border),
    ):
        palette.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, which, QColor(theme.muted))
    return palette


def _mixed(front: str, back: str, share: float) -> str:
    one, two = QColor(front), QColor(back)

    def part(above: int, below: int) -> int:
        return round(above * share + below * (1 - share))

    mixed = QColor(part(one.red(), two.red()), part(one.green(), two.green()), part(one.blue(), two.blue()))
    return mixed.name()
