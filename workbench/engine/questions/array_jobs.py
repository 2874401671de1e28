"""Jobs on array files: reading, writing, and a list of them of which some may be refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from torch import Tensor

_FLOATS = (np.float16, np.float32, np.float64)


def answer_jobs(
    arguments: Mapping[str, Any], to: Path, work: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Write what ``work`` says of each of ``arguments["jobs"]`` as {"results": [...]} to a file.

    A job that is refused gives {"index", "error", "infos"}, and the rest go on.
    """
    results = []
    for index, job in enumerate(arguments["jobs"]):
        try:
            if not isinstance(job, dict):
                raise failure(f"A job is an object with keys, not {job!r}.")
            results.append({"index": index, **work(job)})
        except WorkbenchError as error:
            results.append(_refused(index, error.infos))
        except (ValueError, RuntimeError, MemoryError, OSError) as error:
            results.append(_refused(index, (ErrorInfo(message=str(error).split("\n")[0]),)))
        except (TypeError, LookupError, ArithmeticError) as error:
            said = f"This job could not be done: {type(error).__name__}: {error}".split("\n")[0]
            results.append(_refused(index, (ErrorInfo(message=said),)))
    to.write_text(json.dumps({"results": results}), encoding="utf-8")


def _refused(index: int, infos: tuple[ErrorInfo, ...]) -> dict[str, Any]:
    sentences = " ".join(f"{info.message} {info.hint}".strip() for info in infos)
    return {"index": index, "error": sentences, "infos": [info.model_dump() for info in infos]}


def check_keys(job: Mapping[str, Any], required: Collection[str], known: Collection[str]) -> None:
    """Refuse keys nobody knows and keys that are missing.

    Raises:
        WorkbenchError: all of them at once.
    """
    infos = [
        ErrorInfo(message=f"{key!r} is missing.", where=Place(kind="option", id=key))
        for key in sorted(required)
        if job.get(key) is None
    ]
    hint = f"Known: {', '.join(sorted(known))}."
    infos += [
        ErrorInfo(message=f"A job has no key {key!r}.", hint=hint)
        for key in job
        if key not in known
    ]
    if infos:
        raise WorkbenchError(infos)


def load(path: Any) -> Tensor:
    """Return the floating array of a .npy file, in its own type.

    Raises:
        WorkbenchError: it cannot be read, or holds something else.
    """
    place = Place(kind="file", id=str(path))
    try:
        array = np.load(_path(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        raise failure(f"{path} cannot be read as .npy: {reason}.", where=place) from error
    if not isinstance(array, np.ndarray):
        raise failure(f"{path} holds several arrays; a .npy holds one.", where=place)
    if array.dtype.newbyteorder("=") not in _FLOATS:
        raise failure(
            f"{path} holds {array.dtype}, but arithmetic takes float16, float32 or float64.",
            "Convert it first, e.g. array.astype('float32').",
            place,
        )
    # A scalar keeps its shape [] only if it is not made contiguous.
    native = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    return torch.from_numpy(native)


def save(path: Any, array: Tensor) -> None:
    """Write an array as .npy, whole or not at all."""
    _write(_path(path), lambda file: np.save(file, array.detach().numpy()))


def save_many(path: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays as .npz, whole or not at all."""
    _write(_path(path), lambda file: np.savez(file, **arrays))


def _path(said: Any) -> Path:
    if not isinstance(said, str) or not said:
        raise failure(f"The name of a file is text, not {said!r}.")
    return Path(said)


def _write(path: Path, write: Callable[[Any], None]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            write(file)
        part.replace(path)
    except OSError as error:
        raise failure(
            f"{path} cannot be written: {error.strerror or error}.",
            where=Place(kind="file", id=str(path)),
        ) from error
    finally:
        part.unlink(missing_ok=True)


def quality(x: Tensor, made: Tensor) -> dict[str, Any]:
    """Return how far an array is from what it was: SQNR [dB] and the largest error.

    Elements that are not finite on both sides are left out; None where nothing can be said.
    """
    if made.shape != x.shape or x.numel() == 0:
        return {"sqnr_db": None, "max_abs_error": None}
    error = (made.double() - x.double()).abs()
    known = error.isfinite() & x.isfinite()
    signal, noise = float(x.double()[known].pow(2).sum()), float(error[known].pow(2).sum())
    usable = signal > 0 and noise > 0 and signal / noise < float("inf")
    return {
        "sqnr_db": float(10 * np.log10(signal / noise)) if usable else None,
        "max_abs_error": float(error[known].max()) if bool(known.any()) else None,
    }
