"""The first page: open the sample, start a project, or go on with a recent one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget


class WelcomePage(QWidget):
    """What a person sees before there is a project.

    Signals:
        new_asked, open_asked, sample_asked, recipe_asked: what the user wants.
        recent_asked: the path of a recent project.
    """

    new_asked = Signal()
    open_asked = Signal()
    sample_asked = Signal()
    recipe_asked = Signal()
    recent_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Welcome")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        column = QVBoxLayout()
        column.setSpacing(10)
        heading = QLabel("Quantization Workbench", self)
        heading.setObjectName("Heading")
        words = QLabel(
            "See, decide and verify the precision of every module of a PyTorch model,\n"
            "down to a program for an Arm Ethos-U.",
            self,
        )
        words.setObjectName("Hint")
        column.addWidget(heading)
        column.addWidget(words)
        column.addSpacing(12)
        column.addLayout(self._buttons())
        column.addSpacing(6)
        drop = QLabel("or drop a project, a .pt2 or a .py file here", self)
        drop.setObjectName("DropHint")
        drop.setAlignment(Qt.AlignmentFlag.AlignCenter)
        drop.setMinimumHeight(72)
        column.addWidget(drop)
        column.addSpacing(12)
        column.addWidget(self._recent_card())
        inner = QWidget(self)
        inner.setFixedWidth(560)
        inner.setLayout(column)
        outer = QVBoxLayout(self)
        outer.addStretch(1)
        outer.addWidget(inner, 0, Qt.AlignmentFlag.AlignHCenter)
        outer.addStretch(2)

    def render_recents(self, paths: Sequence[Path]) -> None:
        """Show the projects opened lately."""
        while (item := self._recents.takeAt(1)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        self._card.setVisible(bool(paths))
        for path in paths[:6]:
            button = QPushButton(f"{path.stem}   {path.parent}", self._card)
            button.setProperty("link", True)
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(partial(self._on_recent_clicked, path))
            self._recents.addWidget(button)

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        for title, signal, primary in (
            ("Open the sample", self.sample_asked, True),
            ("New project\u2026", self.new_asked, False),
            ("From a recipe\u2026", self.recipe_asked, False),
            ("Open\u2026", self.open_asked, False),
        ):
            button = QPushButton(title, self)
            button.setProperty("primary", primary)
            button.setMinimumHeight(30)
            button.clicked.connect(signal)
            row.addWidget(button, 1)
        return row

    def _recent_card(self) -> QFrame:
        self._card = QFrame(self)
        self._card.setObjectName("Card")
        self._recents = QVBoxLayout(self._card)
        self._recents.setContentsMargins(14, 12, 14, 12)
        self._recents.setSpacing(2)
        title = QLabel("Recent projects", self._card)
        title.setObjectName("Subheading")
        self._recents.addWidget(title)
        return self._card

    def _on_recent_clicked(self, path: Path) -> None:
        self.recent_asked.emit(path)
