"""Training: weights that suit the precisions, learnt from the float model, epoch by epoch."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.figures import decibel
from ui.panel import Panel
from ui.plots.epoch_plot import EpochPlot
from ui.study_desk import StudyDesk
from ui.theme import Theme
from ui.trial import Trial
from ui.widgets.training_form import TrainingForm
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.studies.documents import study_folder
from workbench.studies.training import TrainingResult, is_over, keep_weights, options_of
from workbench.text import plural

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
