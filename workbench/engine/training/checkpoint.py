"""A checkpoint: student, optimiser and everything found so far in one file, without pickles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open

from workbench.engine.training.weights import write_tensors
from workbench.studies.training import TrainingResult

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.engine.training.student import Student

FILE = "checkpoint.safetensors"
_STUDENT, _OPTIMIZER = "student/", "optimizer/"
_RESULT = "result"


def save_checkpoint(
    folder: Path, student: Student, optimizer: torch.optim.Optimizer, found: TrainingResult
) -> None:
    """Write a checkpoint, whole or not at all."""
    tensors = {_STUDENT + name: tensor for name, tensor in student.state().items()}
    for number, parameter in enumerate(student.parameters.values()):
        for name, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                tensors[f"{_OPTIMIZER}{number}/{name}"] = torch.as_tensor(value)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, folder / FILE, {_RESULT: found.model_dump_json()})


def load_checkpoint(
    folder: Path, student: Student, optimizer: torch.optim.Optimizer
) -> TrainingResult | None:
    """Take up a checkpoint and return what had been found; None where none can be read."""
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            found = TrainingResult.model_validate_json(file.metadata()[_RESULT])
            # The iterator of such a file is its keys and nothing else.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValidationError, KeyError, TypeError):
        return None
    if found.best and not (folder / found.weights).is_file():
        return None
    student.restore(_under(tensors, _STUDENT))
    for number, parameter in enumerate(student.parameters.values()):
        known = _under(tensors, f"{_OPTIMIZER}{number}/")
        if known:
            # A count of steps stays on the CPU, as torch's optimisers keep it.
            optimizer.state[parameter] = {
                name: value.to(parameter.device) if value.dim() else value
                for name, value in known.items()
            }
    return found


def _under(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
