"""Training: weights that suit the precisions, learnt from the float model, epoch by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from pydantic import JsonValue
from PySide6.QtCore import QLocale, QPointF, Qt, Signal
from PySide6.QtGui import QDoubleValidator
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QFrame,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.shared.candidate_preview import Trial
from ui.shared.chart import Chart, pen, wash
from ui.shared.figures import decibel
from ui.shared.panel import Panel
from ui.shared.study_controller import StudyDesk
from ui.shared.theme import Theme
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.studies.documents import study_folder
from workbench.studies.training import (
    TrainingOptions,
    TrainingResult,
    is_over,
    keep_weights,
    options_of,
)
from workbench.text import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ui.shared.theme import Theme


_DOT_PX, _BEST_PX = 5, 10
# Plots below each other have their epochs below each other.
_AXIS_PX = 52


class EpochPlot(Chart):
    """Values by epoch, the first one 1; a dashed line where they were before."""

    def __init__(self, name: str, left: str, unit: str, parent: QWidget | None = None) -> None:
        super().__init__(name, "epoch", left, parent)
        self.values = np.zeros(0)
        self.best = 0
        self._unit = unit
        self._line = pg.PlotCurveItem()
        self._dots = pg.ScatterPlotItem(size=_DOT_PX, pen=None, pxMode=True)
        self._best = pg.ScatterPlotItem(size=_BEST_PX, pen=None, pxMode=True)
        self._before = pg.InfiniteLine(angle=0)
        self._before.hide()
        for item in (self._before, self._line, self._dots, self._best):
            self.plot.addItem(item, ignoreBounds=True)
        self.plot.getAxis("left").setWidth(_AXIS_PX)
        self.tell = self._tell
        self.set_run(0.3, 2.7)
        self.set_rise(0.0, 1.0)

    def render_epochs(
        self, values: NDArray[np.float64], total: int, best: int = 0, before: float | None = None
    ) -> None:
        """Show the values [E] of epochs 1 to E of ``total``; ``best`` is 0 for none."""
        self.values, self.best = values, best
        places = np.arange(1, values.size + 1, dtype=np.float64)
        self._line.setData(places, values)
        self._dots.setData(places, values)
        self._best.setData([float(best)] if best else [], values[best - 1 : best] if best else [])
        self._before.setVisible(before is not None)
        shown = values
        if before is not None:
            self._before.setValue(before)
            shown = np.append(values, before)
        if shown.size:
            self.set_rise(float(shown.min()), float(shown.max()))
        self.set_run(0.3, max(total, values.size, 2) + 0.7)

    def restyle(self, theme: Theme) -> None:
        self._line.setPen(pen(theme.accent))
        self._dots.setBrush(wash(theme.accent))
        self._best.setBrush(wash(theme.warning))
        self._before.setPen(pen(theme.muted, is_dashed=True))

    def _tell(self, place: QPointF) -> str:
        at = round(place.x())
        if not 1 <= at <= self.values.size:
            return ""
        best = ", the best" if at == self.best else ""
        return f"epoch {at}: {self.values[at - 1]:.4g} {self._unit}".rstrip() + best


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


NOTHING = (
    "The quantized model learns to give what the float model gives for the calibration data. "
    "It needs no labels; a fifth of the samples is kept apart to measure on."
)
NO_DATA = "Training needs calibration data: drop some on the window. No labels needed."
OVER = "Over: ask for more epochs, or change an option"
NO_FORM = "An option is not complete"
NO_WEIGHTS = "Train first: there are no trained weights for this configuration"
NO_GAIN = "No epoch was better than the weights that training began with"
_TRY_TIP = "Quantize, measure and compile with them; nothing changes yet"
_USE_TIP = "Keep them in a file beside the project, and let all stages use them"
_USE, _BACK = "Use these weights", "Use the model's own weights"


class TrainingPanel(Panel):
    """A form, SQNR and loss after every epoch, and the best weights to try and to use."""

    panel_id = "training"

    def build(self) -> None:
        context = self.context
        self.desk = StudyDesk(
            "training",
            TrainingResult,
            context.document,
            context.runner,
            context.session.cache,
            self,
        )
        self.desk.changed.connect(lambda: self._mark("state"))
        self.trial = Trial(context.document, context.runner, context.history, self)
        self.trial.changed.connect(self._show_weights)
        self.note = _lines(self, hint=True)
        self.sqnr = EpochPlot("SQNR after every epoch", "SQNR, predicted [dB]", "dB", self)
        self.loss = EpochPlot("Loss of every epoch", "loss, log10", "", self)
        plots = QWidget(self)
        column = QVBoxLayout(plots)
        column.setContentsMargins(10, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.note)
        column.addWidget(self.sqnr, 3)
        column.addWidget(self.loss, 2)
        column.addStretch(0)
        split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(self._built_side())
        split.addWidget(plots)
        split.setSizes([300, 620])
        for number in (0, 1):
            split.setCollapsible(number, False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.addWidget(split)

    def refresh(self) -> None:
        project = self.context.document.project
        self.desk.options = self.form.options()
        self.desk.look()
        function = project.training_function if project is not None else None
        if not self.function.hasFocus():
            self.function.setText(function or "")
        self._show_found()

    def set_theme(self, theme: Theme) -> None:
        for plot in (self.sqnr, self.loss):
            plot.set_theme(theme)

    def _built_side(self) -> QWidget:
        side = QWidget(self)
        self.form = TrainingForm(side)
        self.form.edited.connect(self.refresh)
        self.function = QLineEdit(side)
        self.function.setPlaceholderText("built in")
        self.function.editingFinished.connect(self._on_function)
        self.form.add_row("Own function", self.function, "FILE.py:name, called for every epoch")
        self.train = QPushButton("Train", side)
        self.train.clicked.connect(self._on_train)
        self.attempt = QPushButton("Try these weights", side)
        self.attempt.clicked.connect(self._on_try)
        self.use = QPushButton(_USE, side)
        self.use.clicked.connect(self._on_use)
        self.back = QPushButton(_BACK, side)
        self.back.clicked.connect(self._on_back)
        self.outcome = _lines(side)
        column = QVBoxLayout(side)
        column.setContentsMargins(2, 2, 10, 2)
        column.setSpacing(8)
        for widget in (self.form, self.train, self.attempt, self.use, self.back, self.outcome):
            column.addWidget(widget)
        column.addStretch(1)
        scroll = QScrollArea(self)
        scroll.setWidget(side)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        side.setAutoFillBackground(False)
        scroll.setMinimumWidth(side.minimumSizeHint().width() + 18)
        return scroll

    def _show_found(self) -> None:
        found, job = self.desk.found, self.desk.job
        project = self.context.document.project
        begun = found is not None and self.desk.is_current and bool(found.epochs)
        over = (
            begun
            and self.form.is_complete
            and found is not None
            and is_over(found, options_of(self.form.options()))
        )
        self.train.setText("Pause" if job else "Go on" if begun and not over else "Train")
        can = project is not None and project.calibration is not None and self.form.is_complete
        self.train.setEnabled(bool(job) or (can and not over))
        lacks = project is not None and project.calibration is None
        reasons = ((lacks, NO_DATA), (over, OVER), (not self.form.is_complete, NO_FORM))
        self.train.setToolTip(next((why for is_so, why in reasons if is_so), ""))
        self.note.setText(self._sentence(found))
        epochs = found.epochs if found is not None else ()
        total = found.total if found is not None else self.form.epochs.value()
        self.sqnr.render_epochs(
            np.asarray([e.sqnr_db for e in epochs]), total, found.best if found else 0,
            found.start_db if found else None,
        )  # fmt: skip
        losses = np.asarray([max(e.loss, 1e-12) for e in epochs])
        self.loss.render_epochs(np.log10(losses), total, found.best if found else 0)
        for plot in (self.sqnr, self.loss):
            plot.setVisible(found is not None)
            plot.set_stale(found is not None and not self.desk.is_current)
        self._show_weights()

    def _sentence(self, found: TrainingResult | None) -> str:
        project, job = self.context.document.project, self.desk.job
        doing = f"{job.stage_title or 'Preparing'}\u2026 {job.message}".strip() if job else ""
        if found is None:
            lacks = project is not None and project.calibration is None
            return doing or (NO_DATA if lacks else NOTHING)
        apart = f"{plural(found.held_out, 'sample')} kept apart from"
        measured = apart if found.held_out else "the samples of"
        said = (
            f"Before training {decibel(found.start_db)}, {_best(found)}; "
            f"{plural(len(found.epochs), 'epoch')} of {plural(found.samples, 'sample')}, "
            f"predicted on {measured} {found.data}."
        )
        if found.device != "cpu":
            said += f" Trained on {found.device}."
        if found.one_by_one:
            said += " The model takes one sample at a time."
        if not self.desk.is_current:
            said = f"For other options or a former configuration: {said[0].lower()}{said[1:]}"
        return f"{said} {doing}".strip()

    def _show_weights(self) -> None:
        found, project = self.desk.found, self.context.document.project
        name = found.file_name if found is not None and found.best else ""
        used = project.trained_weights if project is not None else None
        ready = bool(name) and self.desk.is_current and self.desk.job is None
        is_used = bool(used) and used == name
        why = NO_GAIN if found is not None and found.epochs and not found.best else NO_WEIGHTS
        for button, meaning in ((self.attempt, _TRY_TIP), (self.use, _USE_TIP)):
            button.setToolTip(meaning if ready else why)
        self.back.setToolTip("" if used else "They are in use")
        self.attempt.setEnabled(ready and not is_used and not self.trial.is_running)
        self.use.setEnabled(ready and not is_used)
        self.use.setText("These weights are used" if is_used else _USE)
        self.back.setEnabled(bool(used))
        self.outcome.setText(self.trial.sentence())

    def _weights(self) -> str | None:
        """Keep the best weights beside the project and return their name; None if refused."""
        found, document = self.desk.found, self.context.document
        if found is None:
            return None
        place = study_folder(self.context.session.cache, self.desk.key)
        try:
            return keep_weights(found, place, document.folder)
        except WorkbenchError as error:
            document.edit_refused.emit(error)
            return None

    def _on_train(self) -> None:
        if self.desk.job is not None:
            self.desk.pause()
            return
        self.desk.options = self.form.options()
        self.desk.start()

    def _on_function(self) -> None:
        function = self.function.text().strip()
        said = f"Train by {function}" if function else "Train by the built-in function"
        self.context.document.apply(said, lambda project: edits.train_by(project, function))

    def _on_try(self) -> None:
        project, name = self.context.document.project, self._weights()
        if project is not None and name:
            self.trial.begin("Use trained weights", edits.use_trained(project, name))
            self._show_weights()

    def _on_use(self) -> None:
        if name := self._weights():
            self.context.document.apply(
                "Use trained weights", lambda project: edits.use_trained(project, name)
            )

    def _on_back(self) -> None:
        self.context.document.apply(_BACK, lambda project: edits.use_trained(project, None))


def _best(found: TrainingResult) -> str:
    if found.epochs and not found.best:
        return "no epoch better"
    return f"best {decibel(found.best_db)}{f' after epoch {found.best}' if found.best else ''}"


def _lines(parent: QWidget, *, hint: bool = False) -> QLabel:
    label = QLabel(parent)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if hint:
        label.setObjectName("Hint")
    return label
