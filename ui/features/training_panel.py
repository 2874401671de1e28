"""The Training panel: quantization-aware training by distillation from the float model."""

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
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.shared.candidate_preview import CandidatePreview
from ui.shared.chart import Chart, Scatter, log_ticks, pen, wash
from ui.shared.empty_states import StudyNote
from ui.shared.forms import SpinBox
from ui.shared.labels import Label, literal
from ui.shared.number_format import decibel
from ui.shared.panel import Panel
from ui.shared.study_controller import StudyController
from ui.shared.theme import Theme
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.studies.documents import study_folder
from workbench.studies.training import TrainingOptions, TrainingResult, is_over, keep_weights, options_of
from workbench.text import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ui.shared.theme import Theme


_DOT_PX, _BEST_PX = 5, 10
# Equal axis widths align the epochs of both plots.
_AXIS_PX = 66
_MOST_TICKS = 5
# First widths of the form and of the plots, which take what room there is beside the form.
_SIDE_PX, _PLOTS_PX = 330, 620


class EpochPlot(Chart):
    """Plot of values by epoch, from 1; a dashed line is the value before training.

    With ``is_log`` the values are positive, and drawn on a logarithmic scale.
    """

    def __init__(
        self, name: str, left: str, unit: str, parent: QWidget | None = None, *, is_log: bool = False
    ) -> None:
        super().__init__(name, "epoch", left, parent)
        self.count_along_x()
        self._has_decades = is_log
        self.values = np.zeros(0)
        self.best = 0
        self._unit = unit
        self._line = pg.PlotCurveItem()
        self._dots = Scatter(size=_DOT_PX, pen=None, pxMode=True)
        self._best = Scatter(size=_BEST_PX, pen=None, pxMode=True)
        # Below a line in the upper half of the plot, above one in the lower half.
        sides = ((1.0, 0.0), (1.0, 1.0))
        self._before = self._named_line(angle=0, text="before training", at=0.98, sides=sides)
        sides = ((0.0, 0.5), (0.0, 0.5))
        self._frozen = self._named_line(angle=90, text="ranges frozen", at=0.04, sides=sides)
        for item in (self._before, self._frozen, self._line, self._dots, self._best):
            self.plot.addItem(item, ignoreBounds=True)
        self.plot.getAxis("left").setWidth(_AXIS_PX)
        self.tell = self._tell
        self.set_run(0.3, 2.7)
        self.set_rise(0.0, 1.0)

    def _named_line(
        self, angle: float, text: str, at: float, sides: tuple[tuple[float, float], tuple[float, float]]
    ) -> pg.InfiniteLine:
        """Return a hidden line with its meaning beside it, at a part of its length."""
        line = pg.InfiniteLine(angle=angle, label=text, labelOpts={"position": at, "anchors": [*sides]})
        line.hide()
        return line

    def render_frozen(self, epoch: int | None) -> None:
        """Mark the end of the last epoch that updates ranges; None marks nothing."""
        self._frozen.setVisible(epoch is not None)
        if epoch is not None:
            self._frozen.setValue(epoch + 0.5)

    def render_epochs(
        self, values: NDArray[np.float64], total: int, best: int = 0, before: float | None = None
    ) -> None:
        """Show the values [E] of epochs 1 to E of ``total``; ``best`` is 0 for none."""
        self.values, self.best = values, best
        epochs = np.arange(1, values.size + 1, dtype=np.float64)
        heights = np.log10(values) if self._has_decades else values
        self._line.setData(epochs, heights)
        self._dots.setData(epochs, heights)
        self._best.setData([float(best)] if best else [], heights[best - 1 : best] if best else [])
        self._before.setVisible(before is not None)
        shown = heights
        if before is not None:
            self._before.setValue(before)
            shown = np.append(heights, before)
        if shown.size:
            self.set_rise(float(shown.min()), float(shown.max()))
            if self._has_decades:
                _, _, bottom, top = self.reach()
                self.plot.getAxis("left").setTicks([log_ticks(bottom, top, _MOST_TICKS), []])
        self.set_run(0.3, max(total, values.size, 2) + 0.7)

    def restyle(self, theme: Theme) -> None:
        self._line.setPen(pen(theme.accent))
        self._dots.setBrush(wash(theme.accent))
        self._best.setBrush(wash(theme.warning))
        for line in (self._before, self._frozen):
            line.setPen(pen(theme.muted, is_dashed=True))
            line.label.setColor(theme.muted)

    def _tell(self, point: QPointF) -> str:
        at = round(point.x())
        if not 1 <= at <= self.values.size:
            return ""
        best = ", the best" if at == self.best else ""
        return f"epoch {at}: {self.values[at - 1]:.4g} {self._unit}".rstrip() + best


OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD, momentum 0.9"}
LOSSES = {"mse": "Relative square error", "kl": "KL divergence"}
_MOST = 100_000


class TrainingForm(QWidget):
    """The form of ``TrainingOptions``. Other options have their defaults.

    Signals:
        edited: an option changed.
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
            "Halved, with a return to the best weights, when the SQNR stops improving",
        )
        self.loss = self._choice("Loss", LOSSES)
        self.loss.setToolTip("Between the outputs of the quantized and the float model")
        self.epochs = self._count("Epochs", standard.epochs, 1, "Passes over the samples")
        self.batch = self._count("Batch", standard.batch, 1, "Samples per step")
        self.observe = self._count(
            "Update ranges for",
            standard.observe,
            0,
            "Epochs that update activation ranges; then they are frozen",
        )
        self.observe.setSuffix(" epochs")
        self.batch_norm = self._count(
            "Update batch norm for",
            standard.batch_norm,
            0,
            "Epochs that update batch-norm statistics; 0 keeps those of the float model",
        )
        self.batch_norm.setSuffix(" epochs")
        self.patience = self._count(
            "Stop without gain for", standard.patience, 1, "Consecutive epochs without a better SQNR"
        )
        self.patience.setSuffix(" epochs")

    @property
    def is_complete(self) -> bool:
        """Whether all fields are valid."""
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
        """Append a field."""
        self._add(label, field, meaning)

    def _add(self, label: str, field: QWidget, meaning: str) -> None:
        field.setAccessibleName(label)
        field.setToolTip(literal(meaning))
        self._form.addRow(label, field)

    def _choice(self, label: str, titles: dict[str, str]) -> QComboBox:
        box = QComboBox(self)
        for name, title in titles.items():
            box.addItem(title, name)
        box.activated.connect(lambda _index: self.edited.emit())
        self._add(label, box, "")
        return box

    def _count(self, label: str, value: int, least: int, meaning: str) -> QSpinBox:
        spin = SpinBox(self)
        spin.setRange(least, _MOST)
        spin.setValue(value)
        spin.valueChanged.connect(lambda _value: self.edited.emit())
        self._add(label, spin, meaning)
        return spin


NOTHING = (
    "Trains the quantized model to reproduce the float model's outputs on the calibration data. "
    "No labels needed. A fifth of the samples is held out for evaluation."
)
NO_DATA = "Training needs calibration data (no labels). Drop a data file on the window."
OVER = "Finished; increase the epochs or change an option"
NO_FORM = "An option is incomplete"
NO_WEIGHTS = "No trained weights for this configuration; train first"
NO_GAIN = "No epoch improved on the initial weights"
_TRY_TIP = "Quantize, evaluate and compile a copy with these weights; the project does not change"
_USE_TIP = "Save these weights beside the project and use them in all stages"
_WORSE = (
    "Worse than before on the evaluation data, which training does not see: more calibration data, "
    "fewer epochs or a lower learning rate may help."
)
_USE, _BACK = "Use these weights", "Use the model's weights"


class TrainingPanel(Panel):
    """Shows the options, SQNR and loss by epoch, and buttons for the best weights."""

    panel_id = "training"

    def build(self) -> None:
        context = self.context
        self.study = StudyController(
            "training", TrainingResult, context.document, context.runner, context.session.cache, self
        )
        self.study.changed.connect(lambda: self._mark("state"))
        self.preview = CandidatePreview(context.document, context.runner, context.history, self)
        self.preview.changed.connect(self._show_weights)
        self.note = StudyNote(NOTHING, self)
        self.note.place_asked.connect(context.notices.place_asked)
        self.sqnr = EpochPlot("SQNR after every epoch", "SQNR, predicted [dB]", "dB", self)
        self.loss = EpochPlot("Loss of every epoch", "loss, log scale", "", self, is_log=True)
        plots = QWidget(self)
        column = QVBoxLayout(plots)
        column.setContentsMargins(10, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.note)
        column.addWidget(self.sqnr, 3)
        column.addWidget(self.loss, 2)

        split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(self._built_side())
        split.addWidget(plots)
        split.setStretchFactor(1, 1)
        split.setSizes([_SIDE_PX, _PLOTS_PX])
        for number in (0, 1):
            split.setCollapsible(number, False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.addWidget(split)

    def refresh(self) -> None:
        project = self.context.document.project
        self.study.options = self.form.options()
        self.study.look()
        function = project.training_function if project is not None else None
        if not self.function.hasFocus():
            self.function.setText(function or "")
        self._show_result()

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
        self.form.add_row("Custom function", self.function, "FILE.py:name, called in every epoch")
        self.train = QPushButton("Train", side)
        self.train.clicked.connect(self._on_train)
        self.attempt = QPushButton("Preview", side)
        self.attempt.clicked.connect(self._on_preview)
        self.use = QPushButton(_USE, side)
        self.use.clicked.connect(self._on_use)
        self.back = QPushButton(_BACK, side)
        self.back.clicked.connect(self._on_back)
        self.outcome = _lines(side)
        column = QVBoxLayout(side)
        column.setContentsMargins(2, 2, 10, 2)
        column.setSpacing(8)
        self.train.setProperty("primary", True)
        self.weights = Label("Trained weights", side)
        self.weights.setObjectName("Subheading")
        for widget in (
            self.form, self.train, self.weights, self.attempt, self.use, self.back, self.outcome
        ):  # fmt: skip
            column.addWidget(widget)
        column.addStretch(1)
        scroll = QScrollArea(self)
        scroll.setWidget(side)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        side.setAutoFillBackground(False)
        scroll.setMinimumWidth(side.minimumSizeHint().width() + 18)
        return scroll

    def _show_result(self) -> None:
        result, job = self.study.result, self.study.job
        project = self.context.document.project
        begun = result is not None and self.study.is_current and bool(result.epochs)
        over = (
            begun
            and self.form.is_complete
            and result is not None
            and is_over(result, options_of(self.form.options()))
        )
        self.train.setText("Pause" if job else "Continue" if begun and not over else "Train")
        can = project is not None and project.calibration is not None and self.form.is_complete
        self.train.setEnabled(bool(job) or (can and not over))
        lacks = project is not None and project.calibration is None
        reasons = ((lacks, NO_DATA), (over, OVER), (not self.form.is_complete, NO_FORM))
        self.train.setToolTip(literal(next((why for is_so, why in reasons if is_so), "")))
        summary = self._summary(result) if result is not None else ""
        self.note.render_study(self.study, summary, NO_DATA if lacks else "")
        self.note.set_alone(alone=result is None, start=None if job else self.train)
        epochs = result.epochs if result is not None else ()
        total = result.total if result is not None else self.form.epochs.value()
        self.sqnr.render_epochs(
            np.asarray([e.sqnr_db for e in epochs]),
            total,
            result.best if result else 0,
            result.start_db if result else None,
        )
        observed = self.form.observe.value()
        self.sqnr.render_frozen(observed if 0 < observed < total else None)
        losses = np.asarray([max(e.loss, 1e-12) for e in epochs])
        self.loss.render_epochs(losses, total, result.best if result else 0)
        for plot in (self.sqnr, self.loss):
            plot.setVisible(result is not None)
            plot.set_stale(result is not None and not self.study.is_current)
        self._show_weights()

    def _summary(self, result: TrainingResult) -> str:
        apart = f"{plural(result.held_out, 'sample')} held out of"
        measured = apart if result.held_out else "all samples of"
        text = (
            f"Before training {decibel(result.start_db)}, {_best(result)}. "
            f"{plural(len(result.epochs), 'epoch')} of {plural(result.samples, 'sample')}"
            f"{self._stopped(result)}.\n"
            f"SQNR predicted on {measured} {result.data}. Preview measures on the evaluation data."
        )
        if result.device != "cpu":
            text += f" Trained on {result.device}."
        if result.one_by_one:
            text += " Batch size 1 (required by the model)."
        return text

    def _stopped(self, result: TrainingResult) -> str:
        """Return why training ended before its last epoch; "" if it did not."""
        patience = self.form.patience.value()
        is_early = self.study.is_current and len(result.epochs) < result.total
        has_waited = is_early and result.without_gain >= patience
        return f", stopped after {plural(patience, 'epoch')} without gain" if has_waited else ""

    def _show_weights(self) -> None:
        result, project = self.study.result, self.context.document.project
        name = result.file_name if result is not None and result.best else ""
        used = project.trained_weights if project is not None else None
        ready = bool(name) and self.study.is_current and self.study.job is None
        is_used = bool(used) and used == name
        why = NO_GAIN if result is not None and result.epochs and not result.best else NO_WEIGHTS
        for button, meaning in ((self.attempt, _TRY_TIP), (self.use, _USE_TIP)):
            button.setToolTip(literal(meaning if ready else why))
        self.back.setToolTip("" if used else "The model's weights are in use")
        self.attempt.setEnabled(ready and not is_used and not self.preview.is_running)
        self.use.setEnabled(ready and not is_used)
        self.use.setText("Weights in use" if is_used else _USE)
        self.back.setEnabled(bool(used))
        self.outcome.setText("\n".join(filter(None, (self.preview.sentence(), self._worse()))))

    def _worse(self) -> str:
        """Return that the previewed weights lose accuracy, where they do; "" if they do not."""
        before, after = self.preview.runs()
        if before is None or after is None or before.quality.sqnr_db is None or after.quality.sqnr_db is None:
            return ""
        is_worse = after.quality.sqnr_db < before.quality.sqnr_db
        return _WORSE if is_worse and (after.accuracy or 0.0) <= (before.accuracy or 0.0) else ""

    def _weights(self) -> str | None:
        """Save the best weights beside the project and return the file name; None on error."""
        result, document = self.study.result, self.context.document
        if result is None:
            return None
        folder = study_folder(self.context.session.cache, self.study.key)
        try:
            return keep_weights(result, folder, document.folder)
        except WorkbenchError as error:
            document.edit_refused.emit(error)
            return None

    def _on_train(self) -> None:
        if self.study.job is not None:
            self.study.pause()
            return
        self.study.options = self.form.options()
        self.study.start()

    def _on_function(self) -> None:
        function = self.function.text().strip()
        text = f"Set training function to {function}" if function else ("Use built-in training function")
        self.context.document.apply(text, lambda project: edits.train_by(project, function))

    def _on_preview(self) -> None:
        project, name = self.context.document.project, self._weights()
        if project is not None and name:
            self.preview.begin("Use trained weights", edits.use_trained(project, name))
            self._show_weights()

    def _on_use(self) -> None:
        if name := self._weights():
            self.context.document.apply(
                "Use trained weights", lambda project: edits.use_trained(project, name)
            )

    def _on_back(self) -> None:
        self.context.document.apply(_BACK, lambda project: edits.use_trained(project, None))


def _best(result: TrainingResult) -> str:
    if result.epochs and not result.best:
        return "no improvement"
    if not result.best:
        return f"best {decibel(result.best_db)}"
    gain = f"{result.best_db - result.start_db:+.2f} dB"
    return f"best {decibel(result.best_db)} ({gain}) after epoch {result.best}"


def _lines(parent: QWidget) -> Label:
    label = Label(parent)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
