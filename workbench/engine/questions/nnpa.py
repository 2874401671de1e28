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

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

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


def _matmul(job: dict[str, Any]) -> dict[str, Any]:
    check_keys(job, _MATMUL, (*_MATMUL, "bias"))
    a, b = load(job["a"]).float(), load(job["b"]).float()
    bias = None if job.get("bias") is None else load(job["bias"]).float()
    made = matmul(a, b, bias, job["mode"], job["numerics"])
    save(job["out"], made.y)
    exact = a.double() @ b.double()
    if bias is not None:
        fused = bias.dim() == b.dim() - 1 and bias.dim() > 1
        exact = exact + (bias.unsqueeze(-2) if fused else bias)
    sentences = list(made.warnings)
    if lost := int((~made.y.isfinite()).sum()):
        sentences.append(f"{lost} results are beyond what dlfloat16 holds and became NaN.")
    return {
        "out": str(job["out"]),
        "mode": job["mode"],
        "numerics": job["numerics"],
        "shape": list(made.y.shape),
        "warnings": sentences,
        **quality(exact, made.y),
    }
