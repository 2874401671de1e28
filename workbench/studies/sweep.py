"""Sweep study: devices and target options over one quantized program."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from workbench.errors import Place, WorkbenchError, failure
from workbench.history.comparison import pareto_front
from workbench.project.frozen import Frozen
from workbench.project.model import TargetChoice
from workbench.results import VelaTotals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.targets.base import TargetSpec


# A product of options with more points is considered a mistake.
MOST_POINTS = 5000


class SweepPoint(Frozen):
    """One device with its options; ``problem`` is why there is no estimate."""

    target: TargetChoice
    totals: VelaTotals | None = None
    problem: str = ""


def remark(point: SweepPoint) -> str:
    """Return a note on an estimate: Vela exceeds a limit that it cannot meet."""
    limit = point.target.options.get("arena_cache_bytes")
    if point.totals is None or not isinstance(limit, int) or point.totals.sram_bytes <= limit:
        return ""
    return (
        f"needs {point.totals.sram_bytes / 1024:,.0f} KiB of SRAM: Vela cannot meet "
        f"the limit of {limit / 1024:,.0f} KiB"
    )


class SweepResult(Frozen):
    """All points so far, in the requested order; ``earlier`` are points of earlier sweeps."""

    tool: str
    total: int
    points: tuple[SweepPoint, ...] = ()
    earlier: tuple[SweepPoint, ...] = ()

    def front(self) -> list[int]:
        """Return the indices of the points on the Pareto front of time, SRAM and constants."""
        figures = [
            (-t.inference_ms, float(t.sram_bytes), float(t.flash_bytes)) if t else None
            for t in (point.totals for point in self.points)
        ]
        return sorted(pareto_front(figures))


def devices(target: TargetSpec, asked: Sequence[str]) -> list[str]:
    """Return the named variants: ids, or prefixes of ids; "all" selects every one.

    Raises:
        WorkbenchError: a name matches no variant.
    """
    known = [variant.id for variant in target.variants]
    names: list[str] = []
    for word in asked:
        fitting = [v for v in known if word in {"all", v} or v.startswith(f"{word}-")]
        if not fitting:
            raise failure(
                f"Unknown device {word}.",
                f"Known: {', '.join(known)}.",
                Place(kind="option", id="targets"),
                code="sweep-device-unknown",
            )
        names += [v for v in fitting if v not in names]
    return names


def points(
    target: TargetSpec,
    base: TargetChoice,
    asked: Sequence[str],
    axes: Mapping[str, Sequence[JsonValue]],
    folder: Path | None = None,
) -> list[SweepPoint]:
    """Return every combination of devices and values; invalid ones contain the reason.

    Args:
        target: The row of the target table.
        base: The choice that provides the other options.
        asked: Devices, as for ``devices``; empty selects the device of ``base``.
        axes: Values by option; other options have the value of ``base``, or the device's default
            where that is not valid. The value "all" selects every valid value.
        folder: Base of the project's relative paths: an own .ini determines valid values.

    Raises:
        WorkbenchError: an option is unknown, or there are too many points.
    """
    point_list: list[SweepPoint] = []
    for device in devices(target, asked) if asked else [base.id]:
        options = {k: v for k, v in base.options.items() if device == base.id or k not in axes}
        start = target.complete(TargetChoice(id=device, options=options), folder)
        for values in itertools.product(*(axes[name] for name in axes)):
            point_list += _expanded(target, start, dict(zip(axes, values, strict=True)), folder)
            if len(point_list) > MOST_POINTS:
                raise failure(
                    f"More than {MOST_POINTS:,} points.",
                    "Reduce the number of values.",
                    code="sweep-too-large",
                )
    return point_list


def _expanded(
    target: TargetSpec, start: TargetChoice, values: Mapping[str, JsonValue], folder: Path | None
) -> Iterator[SweepPoint]:
    """Yield the points of one combination, in which "all" may still represent several values."""
    name = next((n for n, value in values.items() if value == "all"), None)
    if name is None:
        choice = TargetChoice(id=start.id, options={**start.options, **values})
        yield _point(target, choice, folder)
        return
    settled = {n: v for n, v in values.items() if v != "all"}
    choice = TargetChoice(id=start.id, options={**start.options, **settled})
    choice = target.complete(choice, folder)
    spec = next((o for o in target.options(choice, folder) if o.name == name), None)
    if spec is None or not spec.choices:
        raise failure(
            f"{name} has no default list of values.",
            "List the values.",
            Place(kind="option", id=name),
            code="sweep-values-missing",
        )
    for option in spec.choices:
        yield from _expanded(target, start, {**values, name: option.value}, folder)


def _point(target: TargetSpec, choice: TargetChoice, folder: Path | None) -> SweepPoint:
    problems = target.check(choice, folder)
    if not problems:
        return SweepPoint(target=target.complete(choice, folder))
    return SweepPoint(target=choice, problem=" ".join(str(p.message) for p in problems))


def refused(points: Sequence[SweepPoint]) -> WorkbenchError:
    """Return the error for a sweep without valid points."""
    reasons = list(dict.fromkeys(point.problem for point in points))
    return failure(
        "None of the points can be compiled.", " ".join(reasons[:3]), code="sweep-nothing-compilable"
    )


# Number of limits between the smallest and the largest SRAM: the resolution of a slider.
STEPS = 12
_GRAIN = 1024


def asked(present: TargetChoice) -> dict[str, JsonValue]:
    """Return the options of the study for a complete choice; results are per device.

    They are unchanged when one of the resulting positions is applied.
    """
    base = _budget_point(present, "Performance", None).target
    return {"base": base.model_dump(mode="json")}


def ends(base: TargetChoice) -> list[SweepPoint]:
    """Return the fastest and the smallest program: without a limit, and optimised for size.

    Args:
        base: The project's complete choice.
    """
    return [_budget_point(base, "Performance", None), _budget_point(base, "Size", None)]


def between(base: TargetChoice, least: int, most: int, steps: int = STEPS) -> list[SweepPoint]:
    """Return points with limits between two SRAM sizes [bytes], evenly spaced in ratio.

    Limits are distinct multiples of 1 KiB; none if the sizes are equal.
    """
    if least <= 0:
        return []
    ratio = (most / least) ** (1 / (steps + 1))
    sizes = (round(least * ratio**n / _GRAIN) * _GRAIN for n in range(1, steps + 1))
    limits = [size for size in dict.fromkeys(sizes) if least < size < most]
    return [_budget_point(base, "Performance", limit) for limit in limits]


def _budget_point(base: TargetChoice, optimise: str, limit: int | None) -> SweepPoint:
    options = {**base.options, "optimise": optimise, "arena_cache_bytes": limit}
    return SweepPoint(target=TargetChoice(id=base.id, options=options))


def positions(points: Sequence[SweepPoint], present: TargetChoice) -> list[SweepPoint]:
    """Return the points of a slider, sorted by SRAM; ties go to the fastest.

    A point that is larger than another and not faster is omitted, except the smallest one and the
    project's current choice.
    """
    known = [point for point in points if point.totals is not None]
    ordered = sorted(known, key=lambda p: (_sram(p), _cycles(p)))
    kept: list[SweepPoint] = []
    for point in ordered:
        best = min((_cycles(position) for position in kept), default=None)
        asked_for = point.target == present or point.target.options["optimise"] == "Size"
        if best is None or _cycles(point) < best or asked_for:
            kept.append(point)
    return kept


def _sram(point: SweepPoint) -> int:
    return point.totals.sram_bytes if point.totals else 0


def _cycles(point: SweepPoint) -> int:
    return point.totals.cycles_total if point.totals else 0
