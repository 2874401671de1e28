"""Inputs of a compiled program: from a file, or drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, failure
from workbench.npz import ZIP_ERRORS, open_npz

if TYPE_CHECKING:
    from workbench.npu.program import Tensor

_Array = npt.NDArray[Any]
SEED = 0


def read_inputs(path: Path, count: int) -> list[_Array]:
    """Return the arrays in0, in1, ... of an .npz file.

    Raises:
        WorkbenchError: the file cannot be read, or lacks some of them.
    """
    place = Place(kind="option", id="inputs")
    try:
        with open_npz(path) as stored:
            if not hasattr(stored, "files"):
                raise failure(
                    f"{path} holds one array, not named ones.",
                    "Write an .npz.",
                    place,
                    code="inputs-not-npz",
                )
            missing = [f"in{i}" for i in range(count) if f"in{i}" not in stored.files]
            if missing:
                raise failure(
                    f"{path} has no {', '.join(missing)}.",
                    f"It has {', '.join(stored.files) or 'nothing'}.",
                    place,
                    code="inputs-missing",
                )
            return [np.asarray(stored[f"in{i}"]) for i in range(count)]
    except (*ZIP_ERRORS, MemoryError) as error:
        raise failure(
            f"{path} cannot be read: {error}.", "Give an .npz.", place, code="inputs-not-readable"
        ) from error


def drawn_inputs(tensors: Sequence[Tensor]) -> list[_Array]:
    """Return integers of the whole range, and normally distributed numbers, always the same."""
    generator = np.random.default_rng(SEED)
    arrays: list[_Array] = []
    for tensor in tensors:
        kind = np.dtype(tensor.dtype)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            drawn = generator.integers(limits.min, limits.max, tensor.shape, kind, endpoint=True)
            arrays.append(drawn)
        elif kind.kind == "b":
            arrays.append(generator.integers(0, 2, tensor.shape).astype(kind))
        else:
            arrays.append(generator.standard_normal(tensor.shape).astype(kind))
    return arrays
