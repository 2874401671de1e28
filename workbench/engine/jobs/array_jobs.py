"""Runs one array job in its own process: ``NAME ARGUMENTS.json ANSWER.json``.

Only the required modules are imported: arithmetic needs torch, but not the toolchain. Errors are
written to the answer as ``{"infos": [...]}``, and the exit code is 1.
"""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine.formats import schemes
from workbench.engine.nnpa.arithmetic import matmul, quantized
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, not_written
from workbench.files import write_file
from workbench.npz import ZIP_ERRORS, open_npz
from workbench.targets.formats.parameters import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pydantic import JsonValue
    from torch import Tensor


_FLOATS = (np.float16, np.float32, np.float64)


def answer_jobs(
    arguments: Mapping[str, Any], to: Path, work: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Write the result of ``work`` for each of ``arguments["jobs"]`` to a file.

    The file is {"results": [...]}. A failed job results in {"index", "error", "infos"}; the other
    jobs continue.
    """
    results = []
    for index, job in enumerate(arguments["jobs"]):
        try:
            if not isinstance(job, dict):
                raise failure(f"A job must be an object with keys, not {job!r}.", code="job-not-object")
            results.append({"index": index, **work(job)})
        except WorkbenchError as error:
            results.append(_refused(index, error.infos))
        except (ValueError, RuntimeError, MemoryError, OSError) as error:
            info = ErrorInfo(message=str(error).split("\n")[0], code="job-failed")
            results.append(_refused(index, (info,)))
        except (TypeError, LookupError, ArithmeticError) as error:
            message = f"The job failed: {type(error).__name__}: {error}".split("\n")[0]
            info = ErrorInfo(message=message, code="job-failed")
            results.append(_refused(index, (info,)))
    to.write_text(json.dumps({"results": results}), encoding="utf-8")


def _refused(index: int, infos: tuple[ErrorInfo, ...]) -> dict[str, Any]:
    sentences = " ".join(f"{info.message} {info.hint}".strip() for info in infos)
    return {"index": index, "error": sentences, "infos": [info.model_dump() for info in infos]}


def check_keys(job: Mapping[str, Any], required: Collection[str], known: Collection[str]) -> None:
    """Check for unknown and missing keys.

    Raises:
        WorkbenchError: keys are unknown or missing; lists all.
    """
    infos = [
        ErrorInfo(message=f"{key!r} is missing.", where=Place(kind="option", id=key), code="job-key-missing")
        for key in sorted(required)
        if job.get(key) is None
    ]
    hint = f"Known: {', '.join(sorted(known))}."
    infos += [
        ErrorInfo(message=f"Unknown job key {key!r}.", hint=hint, code="job-key-unknown")
        for key in job
        if key not in known
    ]
    if infos:
        raise WorkbenchError(infos)


def load(path: Any) -> Tensor:
    """Return the floating-point array of a .npy file, in its own type.

    Raises:
        WorkbenchError: it is unreadable, or contains another type.
    """
    place = Place(kind="file", id=str(path))
    try:
        with open_npz(_path(path)) as array:
            is_single = isinstance(array, np.ndarray)
    except (*ZIP_ERRORS, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        raise failure(
            f"{path} cannot be read as .npy: {reason}.",
            "Save it with numpy.save.",
            where=place,
            code="array-unreadable",
        ) from error
    if not is_single:
        raise failure(
            f"{path} contains several arrays; a .npy file contains one.",
            "Save it with numpy.save, one array in a file.",
            where=place,
            code="array-not-single",
        )
    if array.dtype.newbyteorder("=") not in _FLOATS:
        raise failure(
            f"{path} contains {array.dtype}; supported are float16, float32 and float64.",
            "Convert it first, e.g. array.astype('float32').",
            place,
            code="array-dtype-not-supported",
        )
    # A scalar keeps its shape [] only if it is not made contiguous.
    native = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    return torch.from_numpy(native)


def save(path: Any, array: Tensor) -> None:
    """Write an array as .npy atomically."""
    _write(_path(path), lambda file: np.save(file, array.detach().numpy()))


def save_many(path: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays as .npz atomically."""
    _write(_path(path), lambda file: np.savez(file, **arrays))


def _path(name: Any) -> Path:
    if not isinstance(name, str) or not name:
        raise failure(f"A file name must be a string, not {name!r}.", code="job-path-not-text")
    return Path(name)


def _write(path: Path, write: Callable[[Any], None]) -> None:
    buffer = io.BytesIO()
    write(buffer)
    try:
        write_file(path, buffer.getvalue())
    except OSError as error:
        raise not_written(path, error) from error


def quality(x: Tensor, result: Tensor) -> dict[str, Any]:
    """Return the difference of an array from the original: SQNR [dB] and the largest error.

    Elements that are not finite on both sides are ignored; None if undefined.
    """
    if result.shape != x.shape or x.numel() == 0:
        return {"sqnr_db": None, "max_abs_error": None}
    error = (result.double() - x.double()).abs()
    known = error.isfinite() & x.isfinite()
    signal, noise = float(x.double()[known].pow(2).sum()), float(error[known].pow(2).sum())
    usable = signal > 0 and noise > 0 and signal / noise < float("inf")
    return {
        "sqnr_db": float(10 * np.log10(signal / noise)) if usable else None,
        "max_abs_error": float(error[known].max()) if bool(known.any()) else None,
    }


_REQUIRED = ("in", "out", "scheme")
_KNOWN = (*_REQUIRED, "params", "role", "mase_compatible")


def answer_formats(arguments: dict[str, JsonValue], to: Path) -> None:
    """Quantize arrays; see ``array_jobs.answer_jobs``."""
    answer_jobs(arguments, to, _quantize)


def _quantize(job: dict[str, Any]) -> dict[str, Any]:
    check_keys(job, _REQUIRED, _KNOWN)
    role = job.get("role") or "data"
    if role not in ROLES:
        raise failure(
            f"Unknown role {role!r}.",
            f"Known: {', '.join(ROLES)}.",
            Place(kind="option", id="role"),
            code="role-unknown",
        )
    params = job.get("params") or {}
    if not isinstance(params, dict):
        raise failure(
            "'params' must be an object of parameters.", f"Got {params!r}.", code="job-params-not-object"
        )
    mase = job.get("mase_compatible")
    if mase is not None and not isinstance(mase, bool):
        place = Place(kind="option", id="mase_compatible")
        raise failure(
            f"'mase_compatible' must be true or false, not {mase!r}.",
            where=place,
            code="job-mase-not-boolean",
        )
    quantizer = schemes.quantizer(str(job["scheme"]), params, role, mase_compatible=bool(mase))
    x = load(job["in"])
    quantized = quantizer(x)
    save(job["out"], quantized)
    return {
        "out": str(job["out"]),
        "scheme": quantizer.spec.name,
        "role": role,
        "mase_compatible": quantizer.mase_compatible,
        "shape": list(quantized.shape),
        "dtype": str(quantized.dtype).removeprefix("torch."),
        **quality(x, quantized),
    }


_QUANTIZE = ("in", "out", "mode")
_MATMUL = ("a", "b", "out", "mode", "numerics")


def answer_nnpa(arguments: dict[str, JsonValue], to: Path) -> None:
    """Run ``arguments["operation"]``: "quantize" or "matmul"."""
    answer_jobs(arguments, to, _matmul if arguments["operation"] == "matmul" else _quantize_nnpa)


def _quantize_nnpa(job: dict[str, Any]) -> dict[str, Any]:
    check_keys(job, _QUANTIZE, (*_QUANTIZE, "role"))
    role: Any = job.get("role") or "activation"
    q, by = quantized(load(job["in"]), job["mode"], role)
    arrays = {
        "q": q.numpy(),
        "scale": by.scale.numpy(),
        "zero_point": by.zero_point.numpy().astype(np.int32),
        "reciprocal": by.reciprocal.numpy(),
    }
    save_many(job["out"], arrays)
    return {
        "out": str(job["out"]),
        "mode": job["mode"],
        "role": role,
        "scale": float(by.scale),
        "zero_point": int(by.zero_point),
        "warnings": list(by.warnings),
    }


def _narrow(path: Any) -> Tensor:
    """Return an array in float32, the only supported type.

    Raises:
        WorkbenchError: it is unreadable, or exceeds the range of float32.
    """
    x = load(path)
    narrow = x.float()
    if count := int((narrow.isinf() & x.isfinite()).sum()):
        place = Place(kind="file", id=str(path))
        raise failure(
            f"{path} contains {count} values outside the float32 range.",
            where=place,
            code="array-beyond-float32",
        )
    return narrow


def _matmul(job: dict[str, Any]) -> dict[str, Any]:
    check_keys(job, _MATMUL, (*_MATMUL, "bias"))
    a, b = _narrow(job["a"]), _narrow(job["b"])
    bias = None if job.get("bias") is None else _narrow(job["bias"])
    if bias is not None and not bool(bias.isfinite().all()):
        place = Place(kind="option", id="bias")
        raise failure(
            "The bias contains NaN or infinity.",
            "Check the weights of the model.",
            place,
            code="bias-not-finite",
        )
    product = matmul(a, b, bias, job["mode"], job["numerics"])
    save(job["out"], product.y)
    exact = a.double() @ b.double()
    if bias is not None:
        fused = bias.dim() == b.dim() - 1 and bias.dim() > 1
        exact = exact + (bias.unsqueeze(-2) if fused else bias)
    sentences = list(product.warnings)
    if lost := int((~product.y.isfinite()).sum()):
        held = (
            "the range of dlfloat16 and became NaN" if job["numerics"] == "nnpa" else "the range of float32"
        )
        sentences.append(f"{lost} results exceed {held}.")
    return {
        "out": str(job["out"]),
        "mode": job["mode"],
        "numerics": job["numerics"],
        "shape": list(product.y.shape),
        "warnings": sentences,
        **quality(exact, product.y),
    }


_ANSWERS = {"formats": answer_formats, "nnpa": answer_nnpa}


def main(name: str, arguments: Path, to: Path) -> int:
    """Run the job, and return the exit code."""
    os.dup2(2, 1)
    try:
        _ANSWERS[name](json.loads(arguments.read_text(encoding="utf-8")), to)
    except WorkbenchError as error:
        infos = [info.model_dump() for info in error.infos]
        to.write_text(json.dumps({"infos": infos}), encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
