"""Suggestions for outputs that join tensors of different size."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from workbench.project import edits
from workbench.suggestions.suggestion import ExpectedGain, Suggestion
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.results import EvaluateResult, PartQuality

# A part below this SQNR is worth an output of its own [dB].
_LOW_DB = 20.0
_NAMED = 6


def lossy_joins(evaluated: EvaluateResult | None) -> dict[int, list[PartQuality]]:
    """Return the parts of each output that the program returns joined, and that loses a part."""
    parts: dict[int, list[PartQuality]] = defaultdict(list)
    for part in evaluated.parts if evaluated is not None else ():
        if part.shared:
            parts[part.output].append(part)
    return {
        output: rows for output, rows in parts.items()
        if any(row.constant or row.decibels < _LOW_DB for row in rows)
    }  # fmt: skip


def split_output(evaluated: EvaluateResult | None) -> Iterator[Suggestion]:
    """Yield the suggestions to return what an output joins one by one."""
    joins = lossy_joins(evaluated)
    for output, parts in joins.items():
        lost = [part for part in parts if part.constant or part.decibels < _LOW_DB]
        names = listed([part.name for part in parts[:_NAMED]])
        more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
        yield Suggestion(
            id="split_output" if len(joins) == 1 else f"split_output:{output}",
            title=f"Return the {len(parts)} parts of output {output} one by one",
            evidence=f"{names}{more} share the range of output {output}, "
            f"{_range(parts)}. {listed([_loss(part) for part in lost[:_NAMED]])}.",
            expected="Each part gets a range of its own; the firmware joins them as the note and "
            "the header say.",
            gain=ExpectedGain(),
            edit=partial(edits.split_outputs, positions=(output,)),
            improves="sqnr_db",
        )


def _loss(part: PartQuality) -> str:
    figure = "no SQNR" if part.sqnr_db is None else f"{part.sqnr_db:.1f} dB"
    state = f"is constant ({figure})" if part.constant else f"has {figure}"
    return f"{part.name} ({_range([part])}) {state}"


def _range(parts: Sequence[PartQuality]) -> str:
    known = [p for p in parts if p.minimum is not None and p.maximum is not None]
    if not known:
        return "of unknown range"
    low, high = min(p.minimum or 0.0 for p in known), max(p.maximum or 0.0 for p in known)
    return f"{low:.4g} to {high:.4g}"
