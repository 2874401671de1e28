"""Samples for a program from files, checked against its inputs before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import Place, WorkbenchError, failure
from workbench.fvp.job import Array, Sample


def read_samples(files: Sequence[Path], specs: Sequence[dict[str, Any]]) -> list[Sample]:
    """Return the samples in some files: one ``.npy`` or raw ``.bin`` an input, or one ``.npz``.

    An array has the input's shape, or more of them along its first axis.

    Args:
        files: The files, in the order of the program's inputs.
        specs: The program's inputs: ``dtype`` and ``shape``.

    Raises:
        WorkbenchError: a file cannot be read, or does not fit; type and shape are named.
    """
    wanted = [spec for spec in specs if spec["type"] == "tensor"]
    arrays = [pair for path in files for pair in _arrays(path)]
    if len(arrays) != len(wanted):
        raise failure(
            f"The program has {len(wanted)} inputs; {len(arrays)} were given.",
            "Give one file for each input, in order, or one .npz with one array for each.",
            Place(kind="option", id="inputs"),
        )
    stacks = [_stack(n, a, s) for (n, a), s in zip(arrays, wanted, strict=True)]
    counts = {len(stack) for stack in stacks}
    if len(counts) > 1:
        raise failure(
            f"The inputs have different numbers of samples: {', '.join(map(str, sorted(counts)))}.",
            "Give the same number for every input.",
            Place(kind="option", id="inputs"),
        )
    return list(zip(*stacks, strict=True))


def ones(specs: Sequence[dict[str, Any]]) -> Sample:
    """Return what a runner computes with when it is given nothing: all ones."""
    return tuple(np.ones(s["shape"], s["dtype"]) for s in specs if s["type"] == "tensor")


def as_lying(array: Array, spec: dict[str, Any]) -> Array:
    """Return values as the runtime has them in memory: channels last, say, come last."""
    axes = spec.get("dim_order", range(array.ndim))
    return np.ascontiguousarray(array.transpose(list(axes)))


def as_standing(values: Array, spec: dict[str, Any]) -> Array:
    """Return values from the runtime's memory in the tensor's own shape.

    Raises:
        ValueError: there are not as many as the tensor has.
    """
    shape = list(spec["shape"])
    axes = list(spec.get("dim_order", range(len(shape))))
    lying = values.reshape([shape[axis] for axis in axes])
    return lying.transpose([axes.index(axis) for axis in range(len(axes))])


def _arrays(path: Path) -> list[tuple[str, Array]]:
    try:
        if path.suffix == ".bin":
            return [(path.name, np.frombuffer(path.read_bytes(), np.uint8))]
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return [(path.name, loaded)]
            names = list(loaded.files)
            return [(f"{path.name}:{name}", loaded[name]) for name in names]
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (ValueError, EOFError, KeyError) as error:
        raise _unreadable(path, "it holds no plain arrays") from error


def _unreadable(path: Path, why: str) -> WorkbenchError:
    return failure(
        f"{path.name} cannot be read: {why}.",
        "Give .npy, .npz or raw little-endian .bin files.",
        Place(kind="file", id=str(path)),
    )


def _stack(name: str, array: Array, spec: dict[str, Any]) -> list[Array]:
    """Return the samples in one array."""
    dtype, shape = np.dtype(spec["dtype"]), tuple(spec["shape"])
    each = int(np.prod(shape))
    if name.endswith(".bin"):
        size = each * dtype.itemsize
        if not array.size or array.size % size:
            raise _unfit(name, f"has {array.size:,} bytes", f"{size:,} a sample", dtype, shape)
        flat = array.view(dtype).reshape(-1, each)
        return [as_standing(values, spec) for values in flat]
    if array.dtype != dtype:
        raise _unfit(name, f"is {array.dtype}", str(dtype), dtype, shape)
    if array.shape[1:] != shape and not _is_batch(array.shape, shape):
        raise _unfit(name, f"has the shape {array.shape}", str(shape), dtype, shape)
    return list(array.reshape(-1, *shape))


def _is_batch(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether the first axis holds samples, each of the input's own first axis."""
    if len(given) != len(shape) or given[1:] != shape[1:]:
        return given == shape
    return bool(shape) and given[0] > 0 and given[0] % max(1, shape[0]) == 0


def _unfit(
    name: str, what: str, wanted: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> WorkbenchError:
    return failure(
        f"{name} {what}; the program's input wants {wanted}.",
        f"Give {dtype} of shape {shape}, or several along the first axis.",
        Place(kind="option", id="inputs"),
    )
