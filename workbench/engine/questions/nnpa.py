"""NNPA's arithmetic applied to array files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.nnpa.matmul import matmul
from workbench.engine.nnpa.quantizing import quantized
from workbench.engine.questions.array_jobs import (
    answer_jobs,
    check_keys,
    load,
    quality,
    save,
    save_many,
)
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue
    from torch import Tensor

_QUANTIZE = ("in", "out", "mode")
_MATMUL = ("a", "b", "out", "mode", "numerics")


def answer(arguments: dict[str, JsonValue], to: Path) -> None:
    """Do what ``arguments["operation"]`` names: "quantize" or "matmul"."""
    answer_jobs(arguments, to, _matmul if arguments["operation"] == "matmul" else _quantize)


def _quantize(job: dict[str, Any]) -> dict[str, Any]:
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
    """Return an array in float32, which is all that the arithmetic knows.

    Raises:
        WorkbenchError: it cannot be read, or float32 does not hold its values.
    """
    x = load(path)
    made = x.float()
    if count := int((made.isinf() & x.isfinite()).sum()):
        place = Place(kind="file", id=str(path))
        raise failure(f"{path} holds {count} values beyond float32.", where=place)
    return made


def _matmul(job: dict[str, Any]) -> dict[str, Any]:
    check_keys(job, _MATMUL, (*_MATMUL, "bias"))
    a, b = _narrow(job["a"]), _narrow(job["b"])
    bias = None if job.get("bias") is None else _narrow(job["bias"])
    if bias is not None and not bool(bias.isfinite().all()):
        place = Place(kind="option", id="bias")
        raise failure("The bias holds NaN or infinities.", "Look where they come from.", place)
    made = matmul(a, b, bias, job["mode"], job["numerics"])
    save(job["out"], made.y)
    exact = a.double() @ b.double()
    if bias is not None:
        fused = bias.dim() == b.dim() - 1 and bias.dim() > 1
        exact = exact + (bias.unsqueeze(-2) if fused else bias)
    sentences = list(made.warnings)
    if lost := int((~made.y.isfinite()).sum()):
        held = "dlfloat16 holds and became NaN" if job["numerics"] == "nnpa" else "float32 holds"
        sentences.append(f"{lost} results are beyond what {held}.")
    return {
        "out": str(job["out"]),
        "mode": job["mode"],
        "numerics": job["numerics"],
        "shape": list(made.y.shape),
        "warnings": sentences,
        **quality(exact, made.y),
    }
