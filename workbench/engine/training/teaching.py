"""One epoch: distillation from the float model, or the user's own function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch
from torch.nn import functional

from workbench.engine import user_code
from workbench.engine.quality import tensors_of
from workbench.errors import Cancelled, Place, WorkbenchError, failure
from workbench.project.sources import callable_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from workbench.engine.training.lessons import Batch
    from workbench.studies.training import LossId, OptimizerId, TrainingOptions

OPTION = "training_function"
_MOMENTUM = 0.9


class Teaching(Protocol):
    """What the user's own training function is: one epoch, called again for the next.

    It takes the student, which rounds as the device will and takes the model's inputs; the
    batches of this epoch, each with ``inputs``, ``targets`` (what the float model gives) and
    ``labels`` (classes, or None); and an optimiser over the student's parameters. It changes the
    parameters and returns the mean loss.
    """

    def __call__(
        self,
        student: torch.nn.Module,
        batches: Iterable[Batch],
        optimizer: torch.optim.Optimizer,
        /,
    ) -> float:
        """Train for one epoch."""
        ...


def optimizer_of(
    name: OptimizerId, parameters: Sequence[torch.Tensor], learning_rate: float
) -> torch.optim.Optimizer:
    """Return an optimiser; plain SGD has a momentum of 0.9."""
    match name:
        case "sgd":
            return torch.optim.SGD(parameters, learning_rate, momentum=_MOMENTUM)
        case "adam":
            return torch.optim.Adam(parameters, learning_rate)
        case "adamw":
            return torch.optim.AdamW(parameters, learning_rate)


def teaching_of(function: str | None, folder: Path, options: TrainingOptions) -> Teaching:
    """Return the user's function where there is one, else distillation.

    Raises:
        WorkbenchError: there is no such function.
    """
    if not function:
        return _distillation(options.loss)
    reference = callable_reference(function, folder, OPTION)
    own = user_code.load_callable(reference, OPTION)

    def teach(
        student: torch.nn.Module, batches: Iterable[Batch], optimizer: torch.optim.Optimizer
    ) -> float:
        try:
            said = own(student, batches, optimizer)
        except (Cancelled, WorkbenchError):
            raise
        except (Exception, SystemExit) as error:
            where = Place(kind="option", id=OPTION)
            raise user_code.user_failure(error, "raised an error", where, reference.path) from error
        if isinstance(said, torch.Tensor) and said.numel() == 1:
            said = said.item()
        if isinstance(said, bool) or not isinstance(said, int | float):
            raise failure(
                f"{reference.attribute} returned {type(said).__name__}, not the epoch's mean loss.",
                "Return a number.",
                Place(kind="option", id=OPTION),
            )
        return float(said)

    return teach


def _distillation(loss: LossId) -> Teaching:
    error = _LOSSES[loss]

    def teach(
        student: torch.nn.Module, batches: Iterable[Batch], optimizer: torch.optim.Optimizer
    ) -> float:
        total, count = 0.0, 0
        for batch in batches:
            pairs = [
                (mine, told)
                for mine, told in zip(
                    tensors_of(student(*batch.inputs)), batch.targets, strict=True
                )
                if told.is_floating_point()
            ]
            value = torch.stack([error(*pair) for pair in pairs]).mean()
            optimizer.zero_grad()
            value.backward()
            found = float(value.detach())
            if not math.isfinite(found):
                return math.nan
            optimizer.step()
            size = len(batch.inputs[0])
            total, count = total + found * size, count + size
        return total / count

    return teach


def _mse(mine: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
    """Return the mean square of the error over that of what was told."""
    power = (told * told).mean().clamp_min(torch.finfo(told.dtype).tiny)
    return ((mine - told) ** 2).mean() / power


def _kl(mine: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
    """Return the Kullback-Leibler divergence of softmax distributions over the last dimension."""
    ours, theirs = functional.log_softmax(mine, -1), functional.log_softmax(told, -1)
    return functional.kl_div(ours, theirs, reduction="none", log_target=True).sum(-1).mean()


_LOSSES: dict[LossId, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mse": _mse,
    "kl": _kl,
}
