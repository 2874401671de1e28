"""The outcome of a run as four answers: accurate, correct, fits, fast.

The window shows them after a run, and the report begins with them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from workbench.analysis.accuracy import mark_words
from workbench.analysis.answers import Load, answers_of
from workbench.analysis.gate import limit_words
from workbench.analysis.silicon import time_of
from workbench.deploy.fitting import sentence
from workbench.project.frozen import Frozen
from workbench.results import OUTSIDE_MODULES, EvaluateResult, ImportResult, LowerResult, VerifyResult
from workbench.targets import has_stage
from workbench.targets.ethos_u.efficiency import efficiency_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from workbench.analysis.accuracy import AccuracyResult
    from workbench.analysis.gate import GateResult, Limit
    from workbench.deploy.fitting import Fit
    from workbench.project.model import Project
    from workbench.results import TensorQuality

AnswerId = Literal["accurate", "correct", "fits", "fast"]
# Whether a goal is met; "open" is without a goal, or not known yet.
AnswerState = Literal["met", "missed", "doubtful", "open"]
_KIB = 1024
_MOST_BARS = 5
# A number in the name of a module: that of a block among its like.
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
# An SQNR of this and more fills its bar [dB].
_FULL_DB = 60.0
# Limits that follow from labels.
_OF_LABELS = {"top1_loss", "metric_loss", "metric_rise"}
_MEMORY_LIMITS, _TIME_LIMITS = {"sram", "flash", "pte_bytes"}, {"ms", "cycles", "cpu_ops"}


class Bar(Frozen):
    """One bar of an answer's picture: its name, its value as text, and its length in [0, 1]."""

    name: str
    text: str
    share: float
    is_bad: bool = False


class Answer(Frozen):
    """One answer to a program: its figure, the goal, and a picture of bars.

    ``lines`` say what the figure follows from. ``stage`` is the stage to run if it is not known.
    """

    id: AnswerId
    title: str
    state: AnswerState
    figure: str
    goal: str = ""
    lines: tuple[str, ...] = ()
    picture: str = ""
    bars: tuple[Bar, ...] = ()
    stage: str = ""


def outcome_page(project: Project, load: Load, fit: Fit | None = None) -> tuple[Answer, ...]:
    """Return the answers to a program that its target can have.

    Args:
        project: Provides the goals.
        load: Returns the present result of a stage, or None.
        fit: How the program fits the board; None without a board or a program.

    Raises:
        WorkbenchError: A condition of the project cannot be read.
    """
    evaluated, verified = load(EvaluateResult, "evaluate"), load(VerifyResult, "verify")
    lowered = load(LowerResult, "lower")
    both = answers_of(project, load)
    loaded = load(ImportResult, "import_model")
    is_random = loaded is not None and loaded.random_weights
    listed = [_accurate(project, both.accuracy, evaluated, is_random=is_random)]
    if has_stage(project, "verify"):
        listed.append(_correct(both.gate, verified, project.gate.lsb))
    if has_stage(project, "lower") and (lowered is None or lowered.exported is None):
        limits = both.gate.limits
        listed += [_fits(lowered, fit, limits), _fast(lowered, limits)]
    return tuple(listed)


_RANDOM = "The weights look random: a trained network may lose more or less."
_UNDECIDED = "Labels do not judge it: the float model does not tell one class from another."
_DLFLOAT = "Products that are not int8 are computed in float32 here, and in dlfloat16 on NNPA."


def _accurate(
    project: Project, accuracy: AccuracyResult, evaluated: EvaluateResult | None, *, is_random: bool
) -> Answer:
    title = "Accurate"
    if evaluated is None:
        return Answer(id="accurate", title=title, state="open", figure="Not evaluated yet", stage="evaluate")
    states: dict[str, AnswerState] = {
        "accurate enough": "met",
        "low accuracy": "doubtful",
        "not accurate enough": "missed",
    }
    limits = project.accuracy
    labelled = evaluated.top1_quantized is not None or evaluated.metric_quantized is not None
    is_undecided = labelled and _is_undecided(project, accuracy)
    # Why it is not accurate comes first.
    lines = [limit_words(limit) for limit in accuracy.broken]
    lines += [mark_words(mark) for mark in accuracy.marks]
    known = (
        (is_random, _RANDOM),
        (is_undecided, f"{_UNDECIDED} Top-1 {_top1(evaluated)}."),
        (project.target.id == "nnpa", _DLFLOAT),
    )
    lines += [line for holds, line in known if holds]
    lines += [f"Measured on {accuracy.measured_on}."] if accuracy.data is not None else []
    lines += accuracy.notes
    lines += _most_added(evaluated.tensors)
    figure, bars = _quality(evaluated, accuracy, is_undecided=is_undecided)
    goal = f"at most {100 * limits.loss:g} % lost" if limits.loss is not None else ""
    if not labelled or is_undecided:
        whose = " of every output" if len(evaluated.outputs) > 1 else ""
        sqnr = limits.sqnr
        goal = f"SQNR{whose} against float of at least {sqnr:g} dB" if sqnr is not None else ""
    return Answer(
        id="accurate",
        title=title,
        state=states.get(accuracy.verdict, "open"),
        figure=figure,
        goal=goal,
        lines=tuple(lines),
        picture="Quantized and float model",
        bars=tuple(bars),
        stage="evaluate",
    )


def _is_undecided(project: Project, accuracy: AccuracyResult) -> bool:
    """Return whether labels are there and no limit follows from them."""
    judging = {limit.name for limit in (*accuracy.limits, *accuracy.marks)} & _OF_LABELS
    return project.accuracy.loss is not None and not judging


def _most_added(tensors: Iterable[TensorQuality]) -> list[str]:
    """Return which operation adds the largest part of the error; empty where it is not known."""
    known = [(tensor.added_share, tensor) for tensor in tensors if tensor.added_share]
    if not known:
        return []
    share, worst = max(known, key=lambda pair: pair[0])
    place = f"{worst.tensor} in {worst.module}" if worst.module else worst.tensor
    return [
        f"{place} adds the largest error: {100 * share:.0f} % of what all operations add. "
        "Later operations may reduce it: Sensitivity measures what the output gains."
    ]


def _top1(evaluated: EvaluateResult) -> str:
    now, before = evaluated.top1_quantized or 0.0, evaluated.top1_float or 0.0
    return f"{100 * now:.1f} %, float {100 * before:.1f} %"


def _quality(
    evaluated: EvaluateResult, accuracy: AccuracyResult, *, is_undecided: bool
) -> tuple[str, list[Bar]]:
    """Return the accuracy beside that of the float model, and its bars."""
    bad, text = accuracy.refused, evaluated.text
    if (now := evaluated.metric_quantized) is not None:
        name, before = evaluated.metric_name or "Metric", evaluated.metric_float or 0.0
        texts = evaluated.metric_text(before), evaluated.metric_text(now)
        return f"{name} {texts[1]}, float {texts[0]}", _two(before, now, texts, is_bad=bad)
    if (now := evaluated.top1_quantized) is not None and not is_undecided:
        before = evaluated.top1_float or 0.0
        texts = f"{100 * before:.1f} %", f"{100 * now:.1f} %"
        # Whole bars are all samples, not the better model.
        bars = _two(before, now, texts, is_bad=bad, most=1.0)
        return _top1(evaluated), bars
    if text is not None and text.perplexity_quantized is not None:
        now, before = text.perplexity_quantized, text.perplexity_float
        texts = f"{before:.3f}", f"{now:.3f}"
        return f"perplexity {texts[1]}, float {texts[0]}", _two(before, now, texts, is_bad=bad)
    bars = [
        Bar(name=o.name, text=_decibels(o.sqnr_db), share=_share(o.sqnr_db), is_bad=bad)
        for o in evaluated.outputs[:_MOST_BARS]
    ]
    over = f" over {len(evaluated.outputs)} outputs" if len(evaluated.outputs) > 1 else ""
    return f"SQNR {_decibels(evaluated.sqnr_db)}{over}", bars


def _two(before: float, now: float, texts: tuple[str, str], *, is_bad: bool, most: float = 0.0) -> list[Bar]:
    """Return the bars of the float and the quantized model; a whole bar is ``most``, or the larger.

    Figures that are not finite have no bar.
    """
    most = most or max(abs(before), abs(now)) or 1.0
    before, now = (abs(value) / most if math.isfinite(value / most) else 0.0 for value in (before, now))
    return [
        Bar(name="float", text=texts[0], share=before),
        Bar(name="quantized", text=texts[1], share=now, is_bad=is_bad),
    ]


def _decibels(value: float | None) -> str:
    return "equal" if value is None else f"{value:.1f} dB"


def _share(sqnr_db: float | None) -> float:
    return 1.0 if sqnr_db is None else min(max(sqnr_db / _FULL_DB, 0.0), 1.0)


def _correct(gate: GateResult, verified: VerifyResult | None, most_lsb: float | None) -> Answer:
    title = "Correct"
    if verified is None:
        return Answer(id="correct", title=title, state="open", figure="Not verified yet", stage="verify")
    states: dict[str, AnswerState] = {"right": "met", "differs": "missed"}
    is_exact = verified.exact == verified.elements
    figure = "bit-exact" if is_exact else f"within {verified.max_lsb} LSB"
    if verified.runtime:
        # Another compiler makes the program: only the exported file was computed.
        error = verified.max_abs_error
        figure = "not compiled here" if error is None else f"file within {error:.2g} of float"
    lines = [f"Compiled program {gate.sentence}."]
    lines += [gate.execution.sentence] if gate.execution is not None else []
    lsb = next((limit for limit in gate.limits if limit.name == "lsb"), None)
    goal = lsb.limit.partition(" ")[2] if lsb is not None else ""
    explained = {f"{o.rounding_lsb:g}" for o in verified.outputs if o.rounding_lsb is not None}
    if most_lsb is not None and goal in explained - {f"{most_lsb:g}"}:
        lines.append(f"{goal} instead of {most_lsb:g} LSB: rounding in single operators explains that much.")
    return Answer(
        id="correct",
        title=title,
        state=states.get(gate.verdict, "doubtful"),
        figure=figure,
        goal=f"at most {goal} LSB" if goal else "",
        lines=tuple(lines),
        picture="Output elements by difference between the program and the quantized model",
        bars=tuple(_differences(verified, is_bad=lsb is None or lsb.held is False)),
        stage="verify",
    )


def _differences(verified: VerifyResult, *, is_bad: bool) -> Iterator[Bar]:
    """Yield the share of output elements of each difference, the smallest differences first."""
    counts: Counter[int] = Counter()
    for step, number in verified.histogram.items():
        counts[abs(int(step))] += number
    total = sum(counts.values()) or 1
    shown = sorted(counts)[: _MOST_BARS - 1]
    for step in shown:
        name = "equal" if step == 0 else f"{step} LSB"
        number = counts[step]
        yield Bar(name=name, text=f"{number:,}", share=number / total)
    if rest := sum(number for step, number in counts.items() if step not in shown):
        yield Bar(name="more", text=f"{rest:,}", share=rest / total, is_bad=is_bad)


def memory_bars(fit: Fit) -> list[Bar]:
    """Return a bar for each memory of a board: how much of it the program takes."""
    return [
        Bar(
            name=filling.name,
            text=f"{_size(filling.used)} of {'unknown' if filling.bytes is None else _size(filling.bytes)}",
            share=min(filling.used / filling.bytes, 1.0) if filling.bytes else 0.0,
            is_bad=bool(filling.bytes and filling.used > filling.bytes),
        )
        for filling in fit.fillings
    ]


def _fits(lowered: LowerResult | None, fit: Fit | None, limits: Sequence[Limit]) -> Answer:
    title = "Fits"
    if lowered is None:
        return Answer(id="fits", title=title, state="open", figure="Not compiled yet", stage="lower")
    own = [limit for limit in limits if limit.name in _MEMORY_LIMITS]
    broken = [limit for limit in own if limit.held is False]
    words = tuple(map(limit_words, broken or own))
    if fit is None:
        sram = max((report.sram_bytes for report in lowered.vela), default=0)
        flash = sum(report.flash_bytes for report in lowered.vela)
        sizes = {"SRAM, peak": sram, "constants": flash, "program": lowered.pte_bytes}
        most = max(*sizes.values(), 1)
        bars = [Bar(name=n, text=_size(b), share=b / most) for n, b in sizes.items()]
        state: AnswerState = "missed" if broken else "met" if own else "open"
        return Answer(
            id="fits",
            title=title,
            state=state,
            figure=f"{_size(sram)} SRAM",
            lines=words or ("No board chosen. With one, its memories are shown here.",),
            picture="Memory of the program",
            bars=tuple(bars),
            stage="lower",
        )
    state = "missed" if broken or not fit.fits else "doubtful" if fit.doubts else "met"
    bars = memory_bars(fit)
    figure = "fits" if fit.fits else "does not fit"
    return Answer(
        id="fits",
        title=title,
        state=state,
        figure=f"{figure} {fit.board}",
        goal="",
        lines=(sentence(fit), *words),
        picture="Memories of the board",
        bars=tuple(bars),
        stage="lower",
    )


def _size(number: int) -> str:
    if number < _KIB * _KIB:
        return f"{number / _KIB:,.1f} KiB"
    return f"{number / _KIB / _KIB:,.1f} MiB"


def _fast(lowered: LowerResult | None, limits: Sequence[Limit]) -> Answer:
    title = "Fast"
    if lowered is None:
        return Answer(id="fast", title=title, state="open", figure="Not compiled yet", stage="lower")
    time = time_of(lowered)
    own = [limit for limit in limits if limit.name in _TIME_LIMITS]
    broken = [limit for limit in own if limit.held is False]
    figure = "nothing on the NPU" if lowered.is_off_npu else f"{lowered.cycles:,} cycles"
    if time.ms is not None:
        figure = f"{time.ms:.3g} ms"
        if time.low_ms is not None and time.high_ms is not None:
            figure += f" ({time.low_ms:.3g} to {time.high_ms:.3g})"
    lines = [] if time.ms is None else [f"{lowered.cycles:,} cycles, estimated. {time.sentence}"]
    lines += [limit_words(limit) for limit in broken or own]
    lines += [f"{efficiency_text(r)}." for r in lowered.vela[:1] if r.ideal_cycles]
    lines += time.beside
    lines += [] if own else ["No limit of the time is set."]
    state: AnswerState = "missed" if broken else "met" if own else "open"
    return Answer(
        id="fast",
        title=title,
        state=state,
        figure=figure,
        lines=tuple(lines),
        picture="Where the cycles are spent",
        bars=tuple(_spent(lowered)),
        stage="lower",
    )


def _alike(spent: Counter[str]) -> Counter[str]:
    """Return the cycles of modules whose names differ in numbers alone together, with how many they are."""
    groups: dict[str, list[str]] = {}
    for module in spent:
        groups.setdefault(_NUMBER.sub("*", module), []).append(module)
    return Counter({
        names[0] if len(names) == 1 else f"{group} (\u00d7{len(names)})": sum(spent[name] for name in names)
        for group, names in groups.items()
    })  # fmt: skip


def own_name(module: str, modules: Collection[str]) -> str:
    """Return the name of a module's own operations, beside modules that may be its parts.

    Its figure is not the sum of theirs.
    """
    has_parts = any(other.startswith(f"{module}.") for other in modules)
    return f"{module}, without its parts" if has_parts else module


def _spent(lowered: LowerResult) -> Iterator[Bar]:
    """Yield the modules that take most cycles, alike blocks together where no few modules do."""
    spent: Counter[str] = Counter()
    for report in lowered.vela:
        for operation in report.operations:
            spent[operation.module or OUTSIDE_MODULES] += operation.cycles
    total = sum(spent.values()) or 1
    if 2 * sum(cycles for _, cycles in spent.most_common(_MOST_BARS)) < total:
        spent = _alike(spent)
    for module, cycles in spent.most_common(_MOST_BARS):
        yield Bar(name=own_name(module, spent), text=f"{100 * (cycles / total):.0f} %", share=cycles / total)
