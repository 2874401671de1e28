"""Text that wraps, and gets the height it then needs."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QWidget

from workbench.graph.labels import elide


class WrappedLabel(QLabel):
    """Asks for all its lines: a splitter does not ask how high a text gets at a width.

    Names that no line can break are shortened; the tooltip has them in full.
    """

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setText(text)

    def setText(self, text: str) -> None:
        lines = (" ".join(elide(word) for word in line.split(" ")) for line in text.split("\n"))
        shown = "\n".join(lines)
        super().setText(shown)
        self.setToolTip(text if shown != text else "")
        self._take_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # Not while the layout is at work: it would miss the change.
        QTimer.singleShot(0, self, self._take_room)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._take_room()

    def _take_room(self) -> None:
        is_told = self.isVisible() and bool(self.text())
        self.setMinimumHeight(self.heightForWidth(self.width()) if is_told else 0)
