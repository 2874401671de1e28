"""Training study: options, epochs and results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue, ValidationError

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, invalid_values
from workbench.files import MAX_PROGRAM_BYTES, read_limited, write_file
from workbench.project.frozen import Finite, Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

OptimizerId = Literal["sgd", "adam", "adamw"]
LossId = Literal["mse", "kl"]

DEFAULT_EPOCHS = 60
WEIGHTS_STEM = "trained"


# A loss of this much against the best epoch means that the learning rate is too large [dB].
_LOST_DB = 6.0


class TrainingOptions(Finite):
    """Options of training.

    After every ``halve_after`` consecutive epochs without a better SQNR, training continues from
    the best weights with half the ``learning_rate``; after ``patience`` of them it stops.
    Activation ranges are updated in the first ``observe`` epochs, batch-norm statistics in the
    first ``batch_norm``; then they are frozen. ``loss`` is the mean squared error relative to the
    mean square of the float output, or the Kullback-Leibler divergence between both softmax
    distributions over the last dimension.
    """

    optimizer: OptimizerId = "adam"
    learning_rate: float = Field(default=3e-4, gt=0.0, le=100.0, allow_inf_nan=False)
    epochs: int = Field(default=DEFAULT_EPOCHS, ge=1, le=100_000)
    batch: int = Field(default=16, ge=1, le=65_536)
    observe: int = Field(default=30, ge=0)
    batch_norm: int = Field(default=0, ge=0)
    loss: LossId = "mse"
    patience: int = Field(default=20, ge=1)
    halve_after: int = Field(default=4, ge=1)
    seed: int = Field(default=0, ge=0)


def options_of(asked: Mapping[str, JsonValue]) -> TrainingOptions:
    """Return validated options with defaults filled in.

    Raises:
        WorkbenchError: options are invalid; lists each one.
    """
    try:
        return TrainingOptions.model_validate(dict(asked))
    except ValidationError as error:
        raise WorkbenchError(
            _invalid(value.field, value.message) for value in invalid_values(error)
        ) from error


def _invalid(name: str, message: str) -> ErrorInfo:
    return ErrorInfo(
        message=f"{name.replace('_', ' ').capitalize()}: {message}",
        hint="The learning rate must be greater than zero, e.g. 0.001." if "rate" in name else "",
        where=Place(kind="option", id=name),
        code="training-option-invalid",
    )


class Epoch(Frozen):
    """One pass over the training samples; ``sqnr_db`` is the SQNR after it, predicted."""

    number: int
    loss: float
    sqnr_db: float
    learning_rate: float


class TrainingResult(Frozen):
    """The results of training so far.

    SQNRs compare the outputs with the float model on ``held_out`` samples that are not trained on
    (on training samples if there are too few), in the simulation that is trained: predicted.
    ``start_db`` is the SQNR before training; ``best`` is the epoch whose weights are in ``weights``
    (0 if none improved); ``digest`` is their sha256. ``one_by_one`` means that the program does not
    support batches.
    """

    data: str
    device: str
    samples: int
    held_out: int
    one_by_one: bool
    total: int
    start_db: float
    epochs: tuple[Epoch, ...] = ()
    best: int = 0
    weights: str = ""
    digest: str = ""

    @property
    def best_db(self) -> float:
        """The SQNR of the saved weights, or the one before training."""
        return self.epochs[self.best - 1].sqnr_db if self.best else self.start_db

    @property
    def without_gain(self) -> int:
        """Number of epochs since the best one."""
        return len(self.epochs) - self.best

    @property
    def file_name(self) -> str:
        """The file name of the weights beside a project; equal names have equal content."""
        return f"{WEIGHTS_STEM}-{self.digest[:16]}.safetensors"


def is_over(training: TrainingResult, options: TrainingOptions) -> bool:
    """Return whether training is complete: all epochs done, or too many without improvement."""
    return len(training.epochs) >= options.epochs or training.without_gain >= options.patience


def next_step(training: TrainingResult, options: TrainingOptions) -> tuple[float, bool]:
    """Return the learning rate of the next epoch, and whether it starts from the best weights.

    The rate is halved after some epochs without a gain, and quartered after one that lost most of
    the quality: from a good start the first rate is too large, and few epochs would be left.
    """
    rate, best, idle = options.learning_rate, training.start_db, 0
    goes_back = False
    for epoch in training.epochs:
        idle = 0 if epoch.sqnr_db > best else idle + 1
        best = max(best, epoch.sqnr_db)
        has_lost = epoch.sqnr_db < best - _LOST_DB
        goes_back = has_lost or (idle > 0 and idle % options.halve_after == 0)
        if goes_back:
            rate /= 4 if has_lost else 2
    return rate, goes_back


def keep_weights(training: TrainingResult, study: Path, folder: Path) -> str:
    """Copy the best weights beside a project and return their file name.

    Raises:
        WorkbenchError: no epoch improved, or the folder is not writable.
    """
    if not training.best:
        raise failure(
            "No epoch improved on the untrained model, so there are no weights to use.",
            "Try a lower learning rate or more epochs.",
            Place(kind="option", id="trained_weights"),
            code="training-no-improvement",
        )
    try:
        weights = read_limited(study / Path(training.weights).name, MAX_PROGRAM_BYTES)
        target = folder / Path(training.file_name).name
        # A run that uses the file would end if it changed, also in its time alone.
        if not os.path.isfile(target) or read_limited(target, MAX_PROGRAM_BYTES) != weights:
            write_file(target, weights)
    except OSError as error:
        raise failure(
            f"The trained weights could not be written: {error.strerror or error}.",
            "Save the project in a writable folder.",
            Place(kind="option", id="trained_weights"),
            code="trained-weights-not-writable",
        ) from error
    return training.file_name
