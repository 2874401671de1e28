"""Text of others, shown as it stands: Qt takes text that looks like HTML for HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtGui import Qt
from PySide6.QtWidgets import QLabel

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget


class Label(QLabel):
    """A label that shows its text literally, unless its text format is set."""

    def __init__(self, text: str | QWidget | None = "", parent: QWidget | None = None) -> None:
        if isinstance(text, str):
            super().__init__(text, parent)
        else:
            super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)


def literal(text: str) -> str:
    """Return the text of a tooltip so that it is shown as it stands."""
    if not Qt.mightBeRichText(text):
        return text
    return f"<qt>{escape(text).replace(chr(10), '<br>')}</qt>"
