"""Trained weights on the disk: parameters and batch-norm statistics under the float model's names.

They are the float model's own tensors, so everything after them goes the way it goes without
training: batch norms are folded, ranges observed, biases rounded, and what is delegated stays so.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save

from workbench.errors import Place, failure
from workbench.files import write_file

if TYPE_CHECKING:
    from pathlib import Path

Weights = dict[str, torch.Tensor]
_WHERE = Place(kind="option", id="trained_weights")


def write_tensors(tensors: Weights, path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors by name, whole or not at all; each is copied, so that none share memory."""
    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    write_file(path, save(own, metadata))


def read_weights(path: Path) -> Weights:
    """Return trained weights by name.

    Raises:
        WorkbenchError: it cannot be read, or holds no tensors.
    """
    try:
        weights: Weights = load_file(path)
    except Exception as error:
        raise failure(
            f"{path.name} is not a safetensors file; it may be truncated.",
            "Train again, or use the model's own weights.",
            _WHERE,
            details=str(error),
            code="trained-weights-unreadable",
        ) from error
    return weights


def put_weights(module: torch.fx.GraphModule, weights: Weights) -> None:
    """Put weights into a float module, in place.

    Raises:
        WorkbenchError: the module lacks one of them, or a shape or type differs.
    """
    for name, value in weights.items():
        try:
            mine = operator.attrgetter(name)(module)
        except AttributeError:
            mine = None
        if not isinstance(mine, torch.Tensor) or mine.shape != value.shape or mine.dtype != value.dtype:
            raise failure(
                f"The trained weights belong to another model: {name} does not match.",
                "Train again, or use the model's own weights.",
                _WHERE,
                code="trained-weights-unfit",
            )
        mine.data.copy_(value)
