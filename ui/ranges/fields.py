"""The two ends of a range as numbers to type."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QWidget

from ui.figures import figure

_DIGITS = 6


class RangeFields(QWidget):
    """Minimum and maximum, with a point for decimals in every language.

    Signals:
        typed: both ends, whenever both are numbers.
        refused: what was typed in place of a number.
        entered: Return was pressed.
    """

    typed = Signal(float, float)
    refused = Signal(str)
    entered = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.low, self.high = QLineEdit(self), QLineEdit(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for title, name, field in (
            ("Min", "Minimum of the range", self.low), ("Max", "Maximum of the range", self.high),
        ):  # fmt: skip
            field.setAccessibleName(name)
            field.textEdited.connect(self._on_typed)
            field.returnPressed.connect(self.entered)
            layout.addWidget(QLabel(title, self))
            layout.addWidget(field, 1)

    def show_ends(self, low: float | None, high: float | None) -> None:
        """Show other ends; a field that is being typed in stays as it is."""
        for field, value in ((self.low, low), (self.high, high)):
            if not field.isModified() or not field.hasFocus():
                field.setText(figure(value, _DIGITS) if value is not None else "")

    def forget(self) -> None:
        """Let the next ends be shown in place of what was typed."""
        for field in (self.low, self.high):
            field.setModified(False)

    def _on_typed(self) -> None:
        ends = []
        for field in (self.low, self.high):
            try:
                ends.append(float(field.text().replace("\u2212", "-")))
            except ValueError:
                self.refused.emit(field.text().strip())
                return
        self.typed.emit(*ends)
