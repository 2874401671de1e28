"""Which number colours the graph, and whether its scale is logarithmic."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QToolButton, QWidget

PLAIN = "No overlay"


class OverlayBar(QWidget):
    """A choice of numbers.

    Signals:
        changed: another number, or another scale, was chosen.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._logs: dict[str, bool] = {}
        self._wanted = ""
        self.combo = QComboBox(self)
        self.combo.setAccessibleName("Number that colours the graph")
        self.combo.setToolTip("Colour the operations by a number")
        self.combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.combo.addItem(PLAIN, "")
        self.combo.activated.connect(self._on_activated)
        self.log = QToolButton(self)
        self.log.setText("log")
        self.log.setCheckable(True)
        self.log.setToolTip("Spread small values: logarithmic colours")
        self.log.setAccessibleName("Logarithmic colours")
        self.log.clicked.connect(self._on_log)
        self.log.hide()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        row.addWidget(self.log)
        row.addWidget(self.combo)

    @property
    def chosen(self) -> str:
        """The id of the chosen number; empty for none."""
        return str(self.combo.currentData() or "")

    @property
    def is_log(self) -> bool:
        """Whether the chosen number's scale is logarithmic."""
        return self._logs.get(self.chosen, False)

    def offer(self, choices: Sequence[tuple[str, str, str, bool | None]]) -> None:
        """Offer numbers: id, title, how they came about, and the scale to begin with.

        The scale is None where a logarithm says nothing. A number that was chosen stays chosen
        while it is away for the time of a new run.
        """
        ids = [choice[0] for choice in choices]
        if ids != [self.combo.itemData(i) for i in range(1, self.combo.count())]:
            while self.combo.count() > 1:
                self.combo.removeItem(1)
            for number, (name, title, how, _) in enumerate(choices, 1):
                self.combo.addItem(f"{title} ({how})", name)
                tip = Qt.ItemDataRole.ToolTipRole
                self.combo.setItemData(number, f"{title}, {how}", tip)
        for name, _, _, scale in choices:
            if scale is not None:
                self._logs.setdefault(name, scale)
        self.combo.setCurrentIndex(ids.index(self._wanted) + 1 if self._wanted in ids else 0)
        self._show_log()

    def prefer(self, title: str) -> None:
        """Choose a number by its id as soon as it is offered."""
        self._wanted = title

    def _on_activated(self, index: int) -> None:
        self._wanted = str(self.combo.itemData(index) or "")
        self._show_log()
        self.changed.emit()

    def _on_log(self, checked: bool) -> None:
        self._logs[self.chosen] = checked
        self.changed.emit()

    def _show_log(self) -> None:
        self.log.setVisible(self.chosen in self._logs)
        self.log.setChecked(self.is_log)
