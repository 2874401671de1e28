"""What a suggestion gains on the compiled program with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.results import PartQuality
from workbench.suggestions.suggestion import ExpectedGain, Suggestion
from workbench.text import plural, signed

if TYPE_CHECKING:
    from workbench.project.model import Project
    from workbench.results import EvaluateResult, LowerResult

# Less is within the noise of few samples [dB].
_LEAST_DB = 1.0
# What a change that saves cycles may cost [dB].
_MAX_LOSS_DB = 0.5
# What a smaller program must save of its cycles or bytes, and the SQNR from which on it may lose
# accuracy for that [dB].
_LEAST_SAVED, _GOOD_DB = 0.02, 20.0
# Higher ones count as this much [dB].
_ENOUGH_DB = 100.0


@dataclass(frozen=True)
class Figures:
    """The figures of a compiled program."""

    evaluated: EvaluateResult
    lowered: LowerResult

    def worst_db(self, output: int | None) -> float:
        """Return the lowest SQNR of a part, or of an output that joins nothing [dB].

        A part that is constant in the program only tells nothing: it counts as 0 dB at most.

        Args:
            output: The output of the model that is looked at; None for all.
        """
        joined = {part.output for part in self.evaluated.parts}
        rows = [(i, row) for i, row in enumerate(self.evaluated.outputs) if i not in joined]
        rows += [(part.output, part) for part in self.evaluated.parts]
        values = [
            min(row.decibels, 0.0) if isinstance(row, PartQuality) and row.constant else row.decibels
            for index, row in rows
            if output in (None, index)
        ]
        return max(-_ENOUGH_DB, min(_ENOUGH_DB, *values)) if values else _ENOUGH_DB

    @property
    def cycles(self) -> int:
        """The NPU cycles that Vela estimates."""
        return sum(report.cycles_total for report in self.lowered.vela)


def enough_db(project: Project) -> float:
    """Return the SQNR from which on no alternative is tried [dB].

    The mark of a low accuracy where there is one: the limit itself leaves no room for samples that
    were not measured.
    """
    limits = project.accuracy
    return max(limits.low_sqnr or 0.0, limits.part_sqnr or 0.0)


def candidates(suggestion: Suggestion) -> list[Suggestion]:
    """Return a suggestion to be tried, and those with its alternatives."""
    return [suggestion] + [
        replace(suggestion, title=f"{suggestion.title}, {other.title}", edit=other.edit)
        for other in suggestion.alternatives
    ]


def _scores(before: EvaluateResult, after: EvaluateResult) -> str:
    """Return the metric, or else top-1, of both programs; "" without one."""
    if before.metric_quantized is not None and after.metric_quantized is not None:
        values = f"{before.metric_quantized:.4g} \u2192 {after.metric_quantized:.4g}"
        return f", {after.metric_name} {values}"
    if before.top1_quantized is None or after.top1_quantized is None:
        return ""
    return f", top-1 {100 * before.top1_quantized:.2f} \u2192 {100 * after.top1_quantized:.2f} %"


def _change(before: int, after: int) -> str:
    """Return two figures, and the change where there is one."""
    share = f" ({signed(100 * (after - before) / before, 1)} %)" if before and after != before else ""
    return f"{before:,} \u2192 {after:,}{share}"


def _share(before: int, after: int) -> float:
    return (before - after) / before if before else 0.0


def is_better(one: Suggestion, other: Suggestion) -> bool:
    """Return whether a tried suggestion gains more of what it is to improve."""
    figure = "cycles" if one.improves == "size" else one.improves
    first, second = (getattr(side.gain, figure) or 0.0 for side in (one, other))
    return bool(first > second + (_LEAST_DB if one.improves == "sqnr_db" else 0.0))


def tried(suggestion: Suggestion, before: Figures, after: Figures) -> Suggestion | None:
    """Return a suggestion with the figures that it was tried with; None if it gains nothing."""
    now, then = before.worst_db(suggestion.output), after.worst_db(suggestion.output)
    gain = ExpectedGain(
        cpu_operators=len(before.lowered.cpu_nodes) - len(after.lowered.cpu_nodes),
        cycles=before.cycles - after.cycles,
        sqnr_db=round(then - now, 3),
        bytes=before.lowered.pte_bytes - after.lowered.pte_bytes,
    )
    assert gain.sqnr_db is not None
    is_better = gain.sqnr_db >= _LEAST_DB
    if suggestion.improves == "cycles":
        is_better = before.cycles > after.cycles and gain.sqnr_db >= -_MAX_LOSS_DB
    elif suggestion.improves == "size":
        saved = max(
            _share(before.cycles, after.cycles), _share(before.lowered.pte_bytes, after.lowered.pte_bytes)
        )
        is_kept = gain.sqnr_db >= -_MAX_LOSS_DB or then >= _GOOD_DB
        is_better = saved >= _LEAST_SAVED and is_kept
    if not is_better or not math.isfinite(gain.sqnr_db):
        return None
    modules = suggestion.modules
    if suggestion.per_module is not None:
        modules = suggestion.per_module(before.lowered, after.lowered)
    parts = "part of the outputs" if after.evaluated.parts else "output"
    expected = (
        f"Tried: lowest SQNR of a{'' if parts[0] == 'p' else 'n'} {parts} {now:.1f} "
        f"\u2192 {then:.1f} dB over {plural(after.evaluated.samples, 'sample')}"
        f"{_scores(before.evaluated, after.evaluated)}; NPU "
        f"cycles {_change(before.cycles, after.cycles)}, estimated (Vela "
        f"{after.lowered.vela_version}); program "
        f"{_change(before.lowered.pte_bytes, after.lowered.pte_bytes)} bytes. {suggestion.expected}"
    )
    return replace(suggestion, gain=gain, expected=expected, modules=modules, tried=True)


def further(suggestion: Suggestion, before: Figures, after: Figures) -> Suggestion | None:
    """Return a suggestion that the trial of another one gives, to be tried too; None for none."""
    return suggestion.then(before.lowered, after.lowered) if suggestion.then is not None else None
