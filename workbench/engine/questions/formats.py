"""Number formats applied to array files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.engine import formats
from workbench.engine.questions.array_jobs import answer_jobs, check_keys, load, quality, save
from workbench.errors import Place, failure
from workbench.targets.number_formats import ROLES

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

_REQUIRED = ("in", "out", "scheme")
_KNOWN = (*_REQUIRED, "params", "role", "mase_compatible")


def answer(arguments: dict[str, JsonValue], to: Path) -> None:
    """Quantize arrays; see ``array_jobs.answer_jobs``."""
    answer_jobs(arguments, to, _quantize)


def _quantize(job: dict[str, Any]) -> dict[str, Any]:
    check_keys(job, _REQUIRED, _KNOWN)
    role = job.get("role") or "data"
    if role not in ROLES:
        raise failure(
            f"There is no role {role!r}.",
            f"Known: {', '.join(ROLES)}.",
            Place(kind="option", id="role"),
        )
    params = job.get("params") or {}
    if not isinstance(params, dict):
        raise failure("'params' is an object with parameters.", f"It is {params!r}.")
    mase = job.get("mase_compatible")
    if mase is not None and not isinstance(mase, bool):
        place = Place(kind="option", id="mase_compatible")
        raise failure(f"'mase_compatible' is true or false, not {mase!r}.", where=place)
    quantizer = formats.quantizer(str(job["scheme"]), params, role, mase_compatible=bool(mase))
    x = load(job["in"])
    made = quantizer(x)
    save(job["out"], made)
    return {
        "out": str(job["out"]),
        "scheme": quantizer.spec.name,
        "role": role,
        "mase_compatible": quantizer.mase_compatible,
        "shape": list(made.shape),
        "dtype": str(made.dtype).removeprefix("torch."),
        **quality(x, made),
    }
