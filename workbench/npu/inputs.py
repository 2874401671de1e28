"""Inputs of a compiled program: from files and folders of pictures, or drawn."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, failure, reason_of
from workbench.npz import ZIP_ERRORS, open_npz
from workbench.project import sources
from workbench.project.pictures import picture
from workbench.project.preprocessing import EXAMPLE, preprocess_of

if TYPE_CHECKING:
    from workbench.npu.program import Tensor

_Array = npt.NDArray[Any]
SEED = 0
_WHERE = Place(kind="option", id="inputs")
# Arrays of a file of samples that are no inputs.
_LABELS = frozenset({"labels", "label", "y", "targets", "target"})


def read_samples(
    path: Path, tensors: Sequence[Tensor], preprocess: str = "", *, sequence: bool = False
) -> list[list[_Array]]:
    """Return the inputs of each sample in a file or a folder.

    Args:
        path: An ``.npz`` with ``in0``, ``in1``, ... or with one array for each input, in order; an
            ``.npy`` for a program with one input; or a folder of pictures. Arrays have the shape of
            the input, or one axis of samples more.
        tensors: The inputs of the program.
        preprocess: How pictures become inputs, as ``size=224,mean=...``.
        sequence: Whether the samples are steps of a sequence: the last inputs may have no axis of
            steps, and then are in the first step alone.

    Raises:
        WorkbenchError: It cannot be read, or does not fit the program.
    """
    if os.path.isdir(path):
        return _pictures(path, tensors, preprocess)
    arrays = _arrays(path, tensors)
    if sequence:
        first, tensors, arrays = _first_alone(arrays, tensors)
        steps = _rows(path, arrays, tensors)
        return [[*steps[0], *first], *steps[1:]]
    return _rows(path, arrays, tensors)


def _first_alone(
    arrays: list[_Array], tensors: Sequence[Tensor]
) -> tuple[list[_Array], Sequence[Tensor], list[_Array]]:
    """Return the last inputs without an axis of steps, and the other inputs with their arrays."""
    count = 0
    pairs = list(zip(arrays, tensors, strict=True))
    while count < len(pairs) - 1 and not _samples(*pairs[-1 - count]):
        count += 1
    kept = len(pairs) - count
    return [_shaped(*pair) for pair in pairs[kept:]], tensors[:kept], arrays[:kept]


def _rows(path: Path, arrays: list[_Array], tensors: Sequence[Tensor]) -> list[list[_Array]]:
    """Return the inputs of each sample from an array for each input."""
    counts = {_samples(array, tensor) for array, tensor in zip(arrays, tensors, strict=True)}
    if counts == {0}:
        return [[_shaped(array, tensor) for array, tensor in zip(arrays, tensors, strict=True)]]
    if len(counts) != 1:
        raise failure(
            f"The arrays of {path.name} have different numbers of samples.",
            "Give one array for each input, with the samples along the first axis.",
            _WHERE,
            code="inputs-do-not-fit",
        )
    return [
        [array[i].reshape(tensor.shape) for array, tensor in zip(arrays, tensors, strict=True)]
        for i in range(counts.pop())
    ]


def _arrays(path: Path, tensors: Sequence[Tensor]) -> list[_Array]:
    """Return an array for each input of a program."""
    try:
        with open_npz(path) as stored:
            if not hasattr(stored, "files"):
                return _single(path, np.asarray(stored), tensors)
            names = [f"in{i}" for i in range(len(tensors))]
            if not set(names) <= set(stored.files):
                names = [name for name in stored.files if name.lower() not in _LABELS]
            if len(names) != len(tensors):
                raise failure(
                    f"{path.name} has the arrays {', '.join(stored.files) or 'none'}; the program "
                    f"has {len(tensors)} inputs.",
                    "Give an array for each: in0, in1, ..., or in their order.",
                    _WHERE,
                    code="inputs-missing",
                )
            return [np.asarray(stored[name]) for name in names]
    except (*ZIP_ERRORS, MemoryError) as error:
        raise failure(
            f"{path} cannot be read: {reason_of(error)}.",
            "Give an .npz, an .npy or a folder of pictures.",
            _WHERE,
            code="inputs-not-readable",
        ) from error


def _single(path: Path, array: _Array, tensors: Sequence[Tensor]) -> list[_Array]:
    if len(tensors) != 1:
        raise failure(
            f"{path.name} holds one array; the program has {len(tensors)} inputs.",
            "Write an .npz with in0, in1, ...",
            _WHERE,
            code="inputs-missing",
        )
    return [array]


def _samples(array: _Array, tensor: Tensor) -> int:
    """Return how many samples an array holds along an axis of its own; 0 if it is an input."""
    shape = tuple(tensor.shape)
    is_whole = array.size == math.prod(shape) and not tensor.exact
    if is_whole or array.ndim == 0 or array.shape in {shape, shape[1:]}:
        return 0
    inner = array.shape[1:]
    is_row = inner == shape or (shape[:1] == (1,) and inner == shape[1:])
    return array.shape[0] if is_row else 0


def _shaped(array: _Array, tensor: Tensor) -> _Array:
    """Return a sample that lacks the axis of the batch with it; others as they are."""
    shape = tuple(tensor.shape)
    return array.reshape(shape) if shape[:1] == (1,) and array.shape == shape[1:] else array


def _pictures(folder: Path, tensors: Sequence[Tensor], preprocess: str) -> list[list[_Array]]:
    if len(tensors) != 1:
        raise failure(
            f"A folder of pictures is one input; the program has {len(tensors)}.",
            "Write an .npz with in0, in1, ...",
            _WHERE,
            code="inputs-missing",
        )
    files = sources.pictures(folder)
    if not files or not preprocess:
        raise failure(
            f"{folder.name} holds no pictures." if not files else "Pictures need --preprocess.",
            f"As of new: --preprocess {EXAMPLE}",
            _WHERE if not files else Place(kind="option", id="preprocess"),
            code="pictures-missing" if not files else "pictures-preprocess-missing",
        )
    shape = tuple(tensors[0].shape)
    settings = preprocess_of(preprocess)
    rows = [picture(file, settings, shape) for file in files]
    if rows[0].size != math.prod(shape):
        raise failure(
            f"The pictures become {'x'.join(map(str, rows[0].shape))}, the program takes "
            f"{'x'.join(map(str, shape))}.",
            "Change size, crop, layout or order of --preprocess.",
            Place(kind="option", id="preprocess"),
            code="preprocess-shape-mismatch",
        )
    return [[np.ascontiguousarray(row).reshape(shape)] for row in rows]


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
