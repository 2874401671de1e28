"""What a search must keep: limits that may be left open, trials, processes."""

from __future__ import annotations

import os

from pydantic import JsonValue
from PySide6.QtCore import QLocale
from PySide6.QtGui import QDoubleValidator
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QSpinBox, QVBoxLayout, QWidget

from workbench.studies.search import DEFAULT_TRIALS

_KIB = 1024.0
_FIELD_PX = 74


class LimitForm(QWidget):
    """Limits, and below them how much to try; an empty limit asks for nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        self._row = QHBoxLayout()
        rows.addLayout(self._row)
        self.accuracy = self._field("Accuracy \u2265", "Metric, else top-1 from 0 to 1, else dB")
        self.cycles = self._field("Cycles \u2264", "Estimated by Vela")
        self.sram = self._field("SRAM [KiB] \u2264", "Peak, estimated by Vela")
        self._row.addStretch(1)
        self._row = QHBoxLayout()
        rows.addLayout(self._row)
        self.trials = self._spin(("trial", "trials"), 1, 10_000, DEFAULT_TRIALS)
        cores = os.cpu_count() or 1
        self.workers = self._spin(("process", "processes"), 1, cores, 1)
        self.workers.setToolTip(f"Engines that evaluate at once; {cores} cores here")
        self._row.addStretch(1)

    def options(self) -> dict[str, JsonValue]:
        """Return the options of the study."""
        sram = _number(self.sram)
        return {
            "accuracy": _number(self.accuracy),
            "cycles": _number(self.cycles),
            "sram": None if sram is None else sram * _KIB,
            "trials": self.trials.value(),
            "workers": self.workers.value(),
        }

    def _field(self, label: str, meaning: str) -> QLineEdit:
        field = QLineEdit(self)
        field.setPlaceholderText("any")
        field.setToolTip(meaning)
        field.setAccessibleName(label)
        field.setFixedWidth(_FIELD_PX)
        check = QDoubleValidator(0.0, 1e12, 6, field)
        check.setLocale(QLocale.c())
        field.setValidator(check)
        self._row.addWidget(QLabel(label, self))
        self._row.addWidget(field)
        return field

    def _spin(self, words: tuple[str, str], least: int, most: int, value: int) -> QSpinBox:
        one, many = words
        spin = QSpinBox(self)
        spin.setRange(least, most)
        spin.setValue(value)
        spin.setAccessibleName(many.capitalize())
        spin.setSuffix(f" {many if value != 1 else one}")
        spin.valueChanged.connect(lambda now: spin.setSuffix(f" {many if now != 1 else one}"))
        self._row.addWidget(spin)
        return spin


def _number(field: QLineEdit) -> float | None:
    return float(field.text()) if field.hasAcceptableInput() else None
