"""The line above the graph that says when it is not the whole or not the present one."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget


class GraphNote(QFrame):
    """Hidden while there is nothing to say.

    Signals:
        whole_asked: the whole graph is to show again.
    """

    whole_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Banner")
        self.label = QLabel(self)
        self._whole = QPushButton("Show all", self)
        self._whole.clicked.connect(self.whole_asked)
        self._former = ""
        self._isolated = False
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 4, 10, 4)
        row.addWidget(self.label, 1)
        row.addWidget(self._whole)
        self._render()

    def show_former(self, title: str) -> None:
        """Say that the graph called so is of a former configuration; nothing if empty."""
        self._former = title
        self._render()

    def show_isolation(self, isolated: bool) -> None:
        """Say whether only a part of the graph shows."""
        self._isolated = isolated
        self._render()

    def _render(self) -> None:
        texts = []
        if self._isolated:
            texts.append("Only a part of the graph shows.")
        if self._former:
            texts.append(
                f"{self._former} graph of a former configuration. Run again to see the present one."
            )
        self.label.setText(" ".join(texts))
        self._whole.setVisible(self._isolated)
        self.setVisible(bool(texts))
