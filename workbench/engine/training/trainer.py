"""One epoch of training: distillation from the float model, or the user's own function."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from torch.nn import functional

from workbench.engine import user_code
from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.training.weights import write_tensors
from workbench.errors import Cancelled, Place, WorkbenchError, failure
from workbench.files import file_digest
from workbench.project.sources import callable_reference
from workbench.studies.training import TrainingResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from workbench.engine.training.dataset import Batch
    from workbench.engine.training.model import QatModel
    from workbench.studies.training import LossId, OptimizerId, TrainingOptions


OPTION = "training_function"
_MOMENTUM = 0.9


class TrainingFunction(Protocol):
    """The user's own training function: one epoch per call.

    Its arguments are the quantized model, which takes the model's inputs; the batches of this
    epoch, each with ``inputs``, ``targets`` (the float model's outputs) and ``labels`` (classes, or
    None); and an optimiser over the model's parameters. It changes the parameters and returns the
    mean loss.
    """

    def __call__(
        self, model: torch.nn.Module, batches: Iterable[Batch], optimizer: torch.optim.Optimizer, /
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
        case _:
            assert_never(name)


def training_function_of(function: str | None, folder: Path, options: TrainingOptions) -> TrainingFunction:
    """Return the user's function if there is one, else distillation.

    Raises:
        WorkbenchError: there is no such function.
    """
    if not function:
        return _distillation(options.loss)
    reference = callable_reference(function, folder, OPTION)
    own = user_code.load_callable(reference, OPTION)

    def train(model: torch.nn.Module, batches: Iterable[Batch], optimizer: torch.optim.Optimizer) -> float:
        try:
            loss = own(model, batches, optimizer)
        except (Cancelled, WorkbenchError):
            raise
        except (Exception, SystemExit) as error:
            where = Place(kind="option", id=OPTION)
            raise user_code.user_failure(error, "raised an error", where, reference.path) from error
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            loss = loss.item()
        if isinstance(loss, bool) or not isinstance(loss, int | float):
            raise failure(
                f"{reference.attribute} returned {type(loss).__name__}, not the mean loss of the epoch.",
                "Return a number.",
                Place(kind="option", id=OPTION),
                code="training-loss-invalid",
            )
        return float(loss)

    return train


def _distillation(loss: LossId) -> TrainingFunction:
    error = _LOSSES[loss]

    def train(model: torch.nn.Module, batches: Iterable[Batch], optimizer: torch.optim.Optimizer) -> float:
        total, count = 0.0, 0
        for batch in batches:
            pairs = [
                (mine, target)
                for mine, target in zip(tensors_of(model(*batch.inputs)), batch.targets, strict=True)
                if target.is_floating_point()
            ]
            value = torch.stack([error(*pair) for pair in pairs]).mean()
            optimizer.zero_grad()
            value.backward()
            step_loss = float(value.detach())
            if not math.isfinite(step_loss):
                return math.nan
            optimizer.step()
            size = len(batch.inputs[0])
            total, count = total + step_loss * size, count + size
        return total / count

    return train


def _mse(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error relative to the mean square of the targets."""
    power = (teacher * teacher).mean().clamp_min(torch.finfo(teacher.dtype).tiny)
    return ((student - teacher) ** 2).mean() / power


def _kl(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Return the Kullback-Leibler divergence of softmax distributions over the last dimension."""
    ours, theirs = functional.log_softmax(student, -1), functional.log_softmax(teacher, -1)
    return functional.kl_div(ours, theirs, reduction="none", log_target=True).sum(-1).mean()


_LOSSES: dict[LossId, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {"mse": _mse, "kl": _kl}


FILE = "checkpoint.safetensors"
_MODEL, _OPTIMIZER = "student/", "optimizer/"
_RESULT = "result"


def save_checkpoint(
    folder: Path, qat_model: QatModel, optimizer: torch.optim.Optimizer, result: TrainingResult
) -> None:
    """Write a checkpoint atomically."""
    tensors = {_MODEL + name: tensor for name, tensor in qat_model.state().items()}
    for number, parameter in enumerate(qat_model.parameters.values()):
        for name, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"{_OPTIMIZER}{number}/{name}"] = torch.as_tensor(value)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, folder / FILE, {_RESULT: result.model_dump_json()})


def load_checkpoint(
    folder: Path, qat_model: QatModel, optimizer: torch.optim.Optimizer
) -> TrainingResult | None:
    """Take up a checkpoint and return what had been found; None where none can be read."""
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            result = TrainingResult.model_validate_json(file.metadata()[_RESULT])
            # The iterator of such a file is its keys and nothing else.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValidationError, KeyError, TypeError):
        return None
    if result.best and not _is_whole(folder, result):
        return None
    qat_model.restore(_under(tensors, _MODEL))
    for number, parameter in enumerate(qat_model.parameters.values()):
        known = _under(tensors, f"{_OPTIMIZER}{number}/")
        if known:
            # A count of steps stays on the CPU, as torch's optimisers keep it.
            optimizer.state[parameter] = {
                name: value.to(parameter.device) if value.dim() else value for name, value in known.items()
            }
    return result


def _is_whole(folder: Path, result: TrainingResult) -> bool:
    """Return whether the best weights are there as they were written."""
    try:
        return file_digest(folder / Path(result.weights).name) == result.digest
    except OSError:
        return False


def _under(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
