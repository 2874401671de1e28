"""A second graph beside the first: what it is, how much differs, and a way from one to the next."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from ui.graph.marks import SIGNS
from ui.graph.view import GraphView
from ui.icons import icon
from ui.theme import Theme
from workbench.graph.compare import Pairing


class BesidePane(QFrame):
    """A view of its own under a line of words.

    Signals:
        close_asked: the pane is no longer wanted.
        step_asked: go to the next (1) or the former (-1) difference.
    """

    close_asked = Signal()
    step_asked = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.view = GraphView(theme, self)
        self.view.setAccessibleName("Graph beside")
        self.title = QLabel(self)
        self.counts = QLabel(self)
        self.counts.setObjectName("Hint")
        self._buttons = {
            name: self._button(name, words)
            for name, words in (
                ("up", "The difference before"), ("down", "The next difference"),
                ("close", "Close this pane"),
            )
        }  # fmt: skip
        self._buttons["up"].clicked.connect(lambda: self.step_asked.emit(-1))
        self._buttons["down"].clicked.connect(lambda: self.step_asked.emit(1))
        self._buttons["close"].clicked.connect(self.close_asked)
        row = QHBoxLayout()
        row.setContentsMargins(8, 2, 4, 2)
        row.setSpacing(10)
        row.addWidget(self.title)
        row.addWidget(self.counts, 1)
        for button in self._buttons.values():
            row.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self.view, 1)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a theme."""
        self.view.set_theme(theme)
        for name, button in self._buttons.items():
            button.setIcon(icon(name, theme.text))

    def show_pairing(self, title: str, pairing: Pairing | None) -> None:
        """Say what is beside, and count what is not the same."""
        self.title.setText(title)
        if pairing is None:
            self.counts.setText("comparing\u2026")
            return
        counts = (
            (SIGNS["added"], len(pairing.added), "only here"),
            (SIGNS["removed"], len(pairing.removed), "only on the left"),
            (SIGNS["changed"], len(pairing.changed), "changed"),
        )
        parts = [f"{sign} {count:,} {words}" for sign, count, words in counts if count]
        self.counts.setText("   ".join(parts) or "no difference")
        for name in ("up", "down"):
            self._buttons[name].setEnabled(bool(parts))

    def _button(self, name: str, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName(f"beside-{name}")
        button.setToolTip(words)
        button.setAccessibleName(words)
        return button
