"""How to train: every option of the study in a form."""

from __future__ import annotations

from pydantic import JsonValue
from PySide6.QtCore import QLocale, Signal
from PySide6.QtGui import QDoubleValidator
from PySide6.QtWidgets import QComboBox, QFormLayout, QLineEdit, QSpinBox, QWidget

from workbench.studies.training import TrainingOptions

OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD, momentum 0.9"}
LOSSES = {"mse": "Relative square error", "kl": "KL divergence"}
_MOST = 100_000


class TrainingForm(QWidget):
    """Fields for ``TrainingOptions``; seed and the rest keep their defaults.

    Signals:
        edited: an option is another one.
    """

    edited = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        standard = TrainingOptions()
        self._form = QFormLayout(self)
        self._form.setContentsMargins(0, 0, 0, 0)
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.optimizer = self._choice("Optimiser", OPTIMIZERS)
        self.rate = QLineEdit(f"{standard.learning_rate:g}", self)
        check = QDoubleValidator(1e-9, 100.0, 12, self.rate)
        check.setLocale(QLocale.c())
        self.rate.setValidator(check)
        self.rate.textEdited.connect(lambda _text: self.edited.emit())
        self._add(
            "Learning rate",
            self.rate,
            "Halved, and the best weights taken up, where nothing gets better",
        )
        self.loss = self._choice("Loss", LOSSES)
        self.loss.setToolTip("Between what the quantized and the float model give")
        self.epochs = self._count("Epochs", standard.epochs, 1, "Passes over the samples")
        self.batch = self._count("Batch", standard.batch, 1, "Samples side by side")
        self.observe = self._count(
            "Ranges follow", standard.observe, 0,
            "Epochs in which ranges of activations follow the data; then they stay",
        )  # fmt: skip
        self.observe.setSuffix(" epochs")
        self.batch_norm = self._count(
            "Batch norms follow", standard.batch_norm, 0,
            "Epochs in which batch-norm statistics follow the data; 0 keeps the float model's",
        )  # fmt: skip
        self.batch_norm.setSuffix(" epochs")
        self.patience = self._count(
            "Stop after", standard.patience, 1, "Epochs in a row without a better SQNR"
        )
        self.patience.setSuffix(" epochs without gain")

    @property
    def is_complete(self) -> bool:
        """Whether every field holds something that can be used."""
        return self.rate.hasAcceptableInput()

    def options(self) -> dict[str, JsonValue]:
        """Return the options of the study."""
        return {
            "optimizer": self.optimizer.currentData(),
            "learning_rate": float(self.rate.text()) if self.is_complete else 0.0,
            "loss": self.loss.currentData(),
            "epochs": self.epochs.value(),
            "batch": self.batch.value(),
            "observe": self.observe.value(),
            "batch_norm": self.batch_norm.value(),
            "patience": self.patience.value(),
        }

    def add_row(self, label: str, field: QWidget, meaning: str) -> None:
        """Put another field at the end."""
        self._add(label, field, meaning)

    def _add(self, label: str, field: QWidget, meaning: str) -> None:
        field.setAccessibleName(label)
        field.setToolTip(meaning)
        self._form.addRow(label, field)

    def _choice(self, label: str, titles: dict[str, str]) -> QComboBox:
        box = QComboBox(self)
        for name, title in titles.items():
            box.addItem(title, name)
        box.activated.connect(lambda _index: self.edited.emit())
        self._add(label, box, "")
        return box

    def _count(self, label: str, value: int, least: int, meaning: str) -> QSpinBox:
        spin = QSpinBox(self)
        spin.setRange(least, _MOST)
        spin.setValue(value)
        spin.valueChanged.connect(lambda _value: self.edited.emit())
        self._add(label, spin, meaning)
        return spin
