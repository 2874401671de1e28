"""What less SRAM costs: Vela's estimates for `--optimise Size` and for limits in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.project.model import TargetChoice
from workbench.studies.sweep import SweepPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

# Limits tried between the least and the most SRAM: as many as a slider can show apart.
STEPS = 12
_GRAIN = 1024


def asked(present: TargetChoice) -> dict[str, JsonValue]:
    """Return the options of the study for a complete choice; the findings hold for its device.

    They stay the same when one of the positions found is taken over.
    """
    base = _point(present, "Performance", None).target
    return {"base": base.model_dump(mode="json")}


def ends(base: TargetChoice) -> list[SweepPoint]:
    """Return the quickest and the smallest program: no limit, and optimised for size.

    Args:
        base: The project's complete choice.
    """
    return [_point(base, "Performance", None), _point(base, "Size", None)]


def between(base: TargetChoice, least: int, most: int, steps: int = STEPS) -> list[SweepPoint]:
    """Return points with limits between two needs of SRAM [bytes], evenly in ratio.

    Limits are multiples of 1 KiB, each once; none where the needs are equal.
    """
    if most <= least or least <= 0:
        return []
    ratio = (most / least) ** (1 / (steps + 1))
    sizes = (round(least * ratio**n / _GRAIN) * _GRAIN for n in range(1, steps + 1))
    limits = [size for size in dict.fromkeys(sizes) if least < size < most]
    return [_point(base, "Performance", limit) for limit in limits]


def _point(base: TargetChoice, optimise: str, limit: int | None) -> SweepPoint:
    options = {**base.options, "optimise": optimise, "arena_cache_bytes": limit}
    return SweepPoint(target=TargetChoice(id=base.id, options=options))


def positions(points: Sequence[SweepPoint], present: TargetChoice) -> list[SweepPoint]:
    """Return the points that a slider goes through: by SRAM, and of equal ones the quickest.

    A point that is larger than another and no quicker is left out, save the one for size and that
    of the project's present choice.
    """
    known = [point for point in points if point.totals is not None]
    ordered = sorted(known, key=lambda p: (_sram(p), _cycles(p)))
    kept: list[SweepPoint] = []
    for point in ordered:
        best = min((_cycles(each) for each in kept), default=None)
        asked_for = point.target == present or point.target.options["optimise"] == "Size"
        if best is None or _cycles(point) < best or asked_for:
            kept.append(point)
    return kept


def _sram(point: SweepPoint) -> int:
    return point.totals.sram_bytes if point.totals else 0


def _cycles(point: SweepPoint) -> int:
    return point.totals.cycles_total if point.totals else 0
