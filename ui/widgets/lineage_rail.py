"""Where an operation comes from and what became of it: one row, level after level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QToolButton, QWidget

from workbench.graph.labels import elide

ARROW = "\u2192"
HERE = "LineageHere"
# How much of the chain shows beside the stop that one is at [px].
AROUND_PX = 220


@dataclass(frozen=True)
class Stop:
    """One place on the rail. ``target`` is what is emitted on a click; empty cannot be clicked."""

    title: str
    text: str
    tip: str = ""
    target: str = ""
    is_here: bool = False


class LineageRail(QScrollArea):
    """A chain of stops.

    Signals:
        asked: the target of the stop that was clicked.
    """

    asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("LineageRail")
        self.setAccessibleName("Lineage of the selected operation")
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self._stops: tuple[Stop, ...] | None = None
        self.show_stops(())

    def show_stops(self, stops: Sequence[Stop]) -> None:
        """Show a chain; nothing for an empty one."""
        if self._stops == tuple(stops):
            return
        self._stops = tuple(stops)
        body = QWidget()
        row = QHBoxLayout(body)
        row.setContentsMargins(4, 2, 4, 2)
        row.setSpacing(4)
        for number, stop in enumerate(self._stops):
            if number:
                arrow = QLabel(ARROW, body)
                arrow.setObjectName("Hint")
                row.addWidget(arrow)
            self._add(row, body, stop)
        row.addStretch(1)
        here = body.findChild(QToolButton, HERE)
        self.setWidget(body)
        self.setFixedHeight(
            body.sizeHint().height() + self.horizontalScrollBar().sizeHint().height()
        )
        self.setVisible(bool(self._stops))
        if here is not None:
            QTimer.singleShot(0, here, lambda: self.ensureWidgetVisible(here, AROUND_PX, 0))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Move along the chain, whichever way the wheel turns."""
        turn = event.angleDelta()
        bar = self.horizontalScrollBar()
        bar.setValue(bar.value() - (turn.x() or turn.y()))

    def texts(self) -> list[str]:
        """Return what the rail says, stop by stop."""
        return [f"{stop.title} {stop.text}".strip() for stop in self._stops or ()]

    def _add(self, row: QHBoxLayout, body: QWidget, stop: Stop) -> None:
        if stop.title:
            title = QLabel(stop.title, body)
            title.setObjectName("Hint")
            row.addWidget(title)
        if not stop.target:
            label = QLabel(stop.text, body)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setToolTip(stop.tip)
            label.setEnabled(False)
            label.setContentsMargins(4, 0, 4, 0)
            row.addWidget(label)
            return
        button = QToolButton(body)
        button.setText(elide(stop.text))
        button.setToolTip(stop.tip or stop.text)
        button.setAccessibleName(f"{stop.title} {stop.text}".strip())
        button.setObjectName(HERE if stop.is_here else "")
        font = button.font()
        font.setBold(stop.is_here)
        button.setFont(font)
        button.clicked.connect(lambda _=False, target=stop.target: self.asked.emit(target))
        row.addWidget(button)
