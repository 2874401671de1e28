"""The deliverables: files, memory pools and kernels."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QLabel, QListWidget, QPushButton, QVBoxLayout, QWidget

from ui.shared.figure_cards import Card, FigureCards
from ui.shared.figure_table import FigureView
from ui.shared.figures import count, size
from ui.shared.theme import Theme
from workbench.results import PackageResult

COUNTED = "computed from the program"


class DeliverablesView(QWidget):
    """Shows cards of the pools, a table of files and the list of kernels.

    Signals:
        deliver_asked: the files are to be exported to a folder.
    """

    deliver_asked = Signal()

    def __init__(self, files: QAbstractItemModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cards = FigureCards(self)
        self.files = FigureView("Deliverables", files, self)
        self.kernels = QListWidget(self)
        self.kernels.setAccessibleName("Required kernels")
        self.kernel_note = QLabel(self)
        self.kernel_note.setWordWrap(True)
        self.copy = QPushButton("Copy kernels", self)
        self.copy.clicked.connect(self._on_copy)
        self.deliver = QPushButton("Export deliverables\u2026", self)
        self.deliver.clicked.connect(self.deliver_asked)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(6)
        layout.addWidget(self.cards)
        for label, button, view, stretch in (
            (QLabel("Files", self), self.deliver, self.files, 3),
            (self.kernel_note, self.copy, self.kernels, 2),
        ):
            row = QHBoxLayout()
            row.addWidget(label, 1, Qt.AlignmentFlag.AlignVCenter)
            row.addWidget(button)
            layout.addLayout(row)
            layout.addWidget(view, stretch)

    def render_package(self, package: PackageResult, theme: Theme, *, stale: bool) -> None:
        """Show deliverables. The owner fills the file model."""
        self.cards.setVisible(not package.note)
        planned = " + ".join(size(b) for b in package.planned_bytes) or size(0)
        self.cards.render_cards(
            (
                Card("Method pool", size(package.method_pool_bytes), COUNTED,
                     f"{count(package.method_pool_bytes)} bytes for method structures"),
                Card("Scratch pool", size(package.scratch_pool_bytes), COUNTED,
                     f"{count(package.scratch_pool_bytes)} bytes for NPU scratch memory"),
                Card("Planned buffers", planned, COUNTED,
                     "Planned activations per memory"),
            ),
            theme, stale=stale,
        )  # fmt: skip
        self.kernels.clear()
        self.kernels.addItems(package.kernels)
        number = len(package.kernels)
        needed = f"Required kernels ({number})"
        none = "No kernels required; everything runs on the NPU."
        self.kernel_note.setText(package.note or (needed if number else none))
        self.kernels.setVisible(bool(number))
        self.copy.setVisible(bool(number))
        self.deliver.setEnabled(not stale)
        self.deliver.setToolTip("Run Package first" if stale else "Copy all files to a folder")
        self.files.set_look(theme, stale=stale)

    def _on_copy(self) -> None:
        names = [self.kernels.item(row).text() for row in range(self.kernels.count())]
        QGuiApplication.clipboard().setText("\n".join(names))
