"""Marking the one button of a dialog that does what was asked for."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton


def make_primary(button: QPushButton) -> None:
    """Show a button as the expected answer."""
    button.setProperty("primary", True)
    button.setDefault(True)
    button.style().unpolish(button)
    button.style().polish(button)
