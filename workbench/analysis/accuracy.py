"""The second answer: whether a program is accurate enough, and the limits it follows from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workbench.analysis.gate import Limit, checked, limit_words
from workbench.project.accuracy import Accuracy
from workbench.project.frozen import Frozen
from workbench.project.gate import ACCURACY_FIGURES, Condition, condition_of
from workbench.results import PartQuality
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.results import AgainstFloat, Dependence, EvaluateResult, OutputQuality, VerifyResult

AccuracyVerdict = Literal["accurate enough", "low accuracy", "not accurate enough", "not measured"]
# Differences of metrics are rounded: 0.95 - 0.94 is more than 0.01 in floating point.
_METRIC_DIGITS = 12
_INTEGER, _QUANTIZED = "integer program", "quantized model"
# Whole numbers so close need not be equal: they are no classes, or nearly all are equal [dB].
_CLOSE_DB = 20.0
# The check that a program depends on its inputs, as a limit.
DEPENDENCE = "inputs"
# The limit of parts of outputs.
PART = "part_sqnr"


class AccuracyData(Frozen):
    """What the accuracy was measured on.

    ``held_out`` is whether calibration did not see these samples.
    """

    name: str
    samples: int
    held_out: bool


class AccuracyPart(Frozen):
    """An output of the model, or a tensor that it joins, compared with that of the float model.

    ``output`` is the position of the output, ``output_name`` its name. ``constant`` is whether it is
    the same for all samples, and is not in the float model; ``shared`` whether an output joins it
    with others on one grid.
    ``sqnr_db`` is None if both are equal, or if there is a difference without an SQNR: ``held``
    tells. ``limit`` is what it must satisfy, "" where another limit applies: labels, a metric, or
    an output of whole numbers. ``agreement`` is the share of equal classes, None without any.
    ``program`` is what was measured, over ``samples`` samples: the integer program where verify
    computed it, unless the quantized model is worse over all evaluation samples. ``not_finite``
    counts the elements that are NaN or infinite in one of the two.
    """

    name: str
    sqnr_db: float | None
    limit: str
    held: bool | None
    agreement: float | None = None
    program: str = _QUANTIZED
    samples: int = 0
    not_finite: int = 0
    output: int = 0
    output_name: str = ""
    constant: bool = False
    shared: bool = False


class AccuracyResult(Frozen):
    """A verdict with its limits; ``reason`` says why nothing was measured.

    A broken limit makes the program *not accurate enough*, one of ``marks`` only *low accuracy*.
    ``ignored_inputs`` are inputs that the program ignores and the float model does not,
    ``constant_outputs`` outputs that vary over the samples in the float model only, ``notes``
    sentences about what makes no difference to the verdict.
    """

    verdict: AccuracyVerdict
    reason: str = ""
    limits: tuple[Limit, ...] = ()
    marks: tuple[Limit, ...] = ()
    data: AccuracyData | None = None
    parts: tuple[AccuracyPart, ...] = ()
    ignored_inputs: tuple[str, ...] = ()
    constant_outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[Limit, ...]:
        """The limits that are not held."""
        return tuple(limit for limit in self.limits if limit.held is False)

    @property
    def refused(self) -> bool:
        """Whether the program is not delivered."""
        return self.verdict == "not accurate enough"

    @property
    def measured_on(self) -> str:
        """The data in words: samples, name, and whether calibration saw them."""
        if self.data is None:
            return ""
        number = self.data.samples
        samples = f"{number:,} sample{'' if number == 1 else 's'} of {self.data.name}"
        seen = "that calibration did not see" if self.data.held_out else "that calibration saw too"
        return f"{samples} {seen}"

    @property
    def sentence(self) -> str:
        """The verdict in one line, with what it follows from."""
        if self.verdict == "not measured":
            return f"not measured ({self.reason.rstrip('.')})"
        causes = [*self._dependence(), *self._not_finite()]
        causes += [self._cause(limit) for limit in self.broken if limit.name != DEPENDENCE]
        causes = [cause for cause in causes if cause]
        if self.verdict == "low accuracy":
            causes = [_cause(mark).replace("limit", "better") for mark in self.marks]
        if self.verdict == "accurate enough":
            causes = [f"{len(self.limits)} of {len(self.limits)} limits met"]
        where = f", on {self.measured_on}" if self.data is not None else ""
        return f"{self.verdict} ({'; '.join(causes)}{where})"

    @property
    def parts_to_split(self) -> tuple[AccuracyPart, ...]:
        """The parts that break their limit, or are constant, and share a grid with others."""
        broken = {limit.name for limit in self.broken}
        return tuple(
            part
            for part in self.parts
            if part.shared
            and ((part.held is False and PART in broken) or (part.constant and DEPENDENCE in broken))
        )

    def _cause(self, limit: Limit) -> str:
        """Return a broken limit in words; that of parts with their names."""
        named = self.constant_outputs if self._is_dependent else ()
        lost = [p for p in self.parts if p.held is False and _full_name(p) not in named]
        if limit.name != PART:
            return _cause(limit)
        words = listed([_part_words(part) for part in lost])
        return f"{words}, limit {limit.limit}" if words else ""

    @property
    def _is_dependent(self) -> bool:
        return any(limit.name == DEPENDENCE for limit in self.broken)

    def _dependence(self) -> Iterator[str]:
        if self._is_dependent:
            yield from (f"the program ignores the input {name}" for name in self.ignored_inputs)
            yield from (
                f"{name} of the program is constant and that of the float model is not"
                for name in self.constant_outputs
            )

    def _not_finite(self) -> Iterator[str]:
        for part in self.parts:
            if part.not_finite:
                yield f"{part.name} has {part.not_finite:,} NaN or infinite elements"


_TITLES = {
    PART: "SQNR of a part against float [dB]",
    "top1_loss": "top-1 lost against float",
    "metric_loss": "metric lost against float",
    "metric_rise": "metric above float",
    "float_sqnr": "SQNR against float [dB]",
    "float_argmax": "same class as float",
}


def _part_words(part: AccuracyPart) -> str:
    figure = "no SQNR" if part.sqnr_db is None else f"{part.sqnr_db:.1f} dB"
    return f"{_full_name(part)}: SQNR {figure}"


def _full_name(part: AccuracyPart) -> str:
    """Return the name of a part with its output, such as ``score of output 0``."""
    return part.name if part.name == part.output_name else f"{part.name} of {part.output_name}"


def _cause(limit: Limit) -> str:
    """Return a limit in words, such as ``SQNR against float [dB] 5.114, limit >= 10``."""
    value = "unknown" if limit.value is None else f"{limit.value:.4g}"
    return f"{_TITLES.get(limit.name, limit.name)} {value}, limit {limit.limit}"


def mark_words(mark: Limit) -> str:
    """Return a mark for people, such as ``SQNR against float [dB]: 15.2 (better at least 20)``."""
    return limit_words(mark, bound="better at least")


def accuracy_of(
    limits: Accuracy,
    *,
    evaluated: EvaluateResult | None = None,
    verified: VerifyResult | None = None,
    conditions: Sequence[str] = (),
    reason: str = "The stage evaluate did not run.",
) -> AccuracyResult:
    """Return whether a program is accurate enough.

    The program is *not accurate enough* if a limit is broken, its accuracy is *low* if a mark is,
    and it is *not measured* without a comparison with the float model.

    Args:
        limits: The project's limits.
        evaluated: The quality of the quantized model.
        verified: The comparison of the integer program, which has that with the float model.
        conditions: Conditions of the project and of the call; those on figures of the accuracy
            replace its limits, the others are left out. Of two on one figure the last counts.
        reason: Why there is no comparison, if there is none.

    Raises:
        WorkbenchError: A condition cannot be read.
    """
    own = {c.name: c for c in map(condition_of, conditions) if c.name in ACCURACY_FIGURES}
    measured = _Measured(limits, evaluated, verified)
    known = measured.figures
    rows = [checked(c, known) for c in measured.conditions() if c.name not in own]
    rows += [checked(condition, known, required=True) for condition in own.values()]
    # One sample of few that has another class only marks the program.
    alone = [r for r in rows if r.held is False and r.name in measured.lone and r.name not in own]
    rows = [row for row in rows if row not in alone]
    broken = {row.name for row in rows if row.held is False} | own.keys()
    broken |= {"float_sqnr"} if PART in broken else set()
    marks = [*alone, *(mark for mark in measured.marks() if mark.name not in broken)]
    ignored, constant = measured.ignored, measured.constant
    if limits.inputs and measured.has_dependence:
        count = len(ignored) + len(constant)
        rows.append(Limit(name=DEPENDENCE, limit="<= 0", value=float(count), held=not count))
    result = AccuracyResult(
        verdict=_verdict(rows, marks),
        reason="" if rows or marks else measured.why_none(reason),
        limits=tuple(rows),
        marks=tuple(marks),
        data=measured.data,
        parts=tuple(measured.parts()),
        ignored_inputs=ignored,
        constant_outputs=constant,
        notes=(*measured.notes(), *(f"{row.name}: one sample has another class." for row in alone)),
    )
    advice = (_ADVICE,) if result.parts_to_split else ()
    return result.model_copy(update={"notes": (*result.notes, *advice)})


_ADVICE = (
    "Parts of an output that share one range lose the small ones: the suggestion split_output "
    "returns them one by one."
)


def _verdict(rows: Sequence[Limit], marks: Sequence[Limit]) -> AccuracyVerdict:
    if any(row.held is False for row in rows):
        return "not accurate enough"
    if not rows and not marks:
        return "not measured"
    return "low accuracy" if marks else "accurate enough"


def accuracy_figures(evaluated: EvaluateResult | None, verified: VerifyResult | None) -> dict[str, float]:
    """Return the figures of ``ACCURACY_FIGURES`` that exist."""
    return _Measured(Accuracy(), evaluated, verified).figures


class _Measured:
    """The figures of a program against the float model, from the results of two stages."""

    def __init__(
        self, limits: Accuracy, evaluated: EvaluateResult | None, verified: VerifyResult | None
    ) -> None:
        self._limits, self._evaluated = limits, evaluated
        self._against = verified.against_float if verified is not None else None
        self._rows = list(_rows(evaluated, verified))
        self._part_rows = list(_part_rows(self._rows, evaluated, verified))
        self._labelled = self._is_labelled()
        self.figures: dict[str, float] = {}
        # Figures in which a single sample breaks the limit.
        self.lone: set[str] = set()
        self._read()

    @property
    def data(self) -> AccuracyData | None:
        """The data of the comparison; None without one."""
        for value in (self._evaluated, self._against):
            if value is not None and value.samples:
                return AccuracyData(name=value.data, samples=value.samples, held_out=value.held_out)
        return None

    @property
    def has_dependence(self) -> bool:
        """Whether it was determined what the outputs depend on."""
        return bool(self._dependences())

    @property
    def ignored(self) -> tuple[str, ...]:
        """The inputs that the program ignores and the float model does not."""
        parts = self._dependences()
        unused = {name for part in parts for name in part.unused}
        names = dict.fromkeys(name for part in parts for name in part.ignored)
        return tuple(name for name in names if name not in unused)

    @property
    def constant(self) -> tuple[str, ...]:
        """The outputs that vary in the float model only."""
        whole = dict.fromkeys(n for part in self._dependences() for n in part.constant)
        parts = (
            f"{row.quality.name} of {self._name_of(row)}"
            for row in self._part_rows
            if row.constant and self._name_of(row) not in whole
        )
        return tuple(dict.fromkeys([*whole, *parts]))

    def conditions(self) -> Iterator[Condition]:
        """Yield the project's limits that concern what was measured."""
        limits = self._limits
        for name in ("metric_loss", "top1_loss"):
            if name in self.figures and limits.loss is not None:
                yield Condition(name, ">", limits.loss)
        if "float_sqnr" in self.figures and limits.sqnr is not None and self._limited():
            yield Condition("float_sqnr", "<", limits.sqnr)
        if PART in self.figures and limits.part_sqnr is not None:
            yield Condition(PART, "<", limits.part_sqnr)
        if "float_argmax" in self.figures and limits.argmax is not None:
            yield Condition("float_argmax", "<", limits.argmax)

    def marks(self) -> Iterator[Limit]:
        """Yield the figures for which the accuracy is called low.

        The output that labels or a metric judge is marked below the limit of the others only.
        """
        below = []
        for row in self._shown:
            judged = row.output == self._judged and self._labelled and not row.is_part
            bound = self._limits.sqnr if judged else self._limits.low_sqnr
            if bound is not None and row.decibels < bound and not row.quality.whole:
                below.append((row.decibels, bound))
        if below:
            value, bound = min(below)
            yield checked(Condition("float_sqnr", "<", bound), {"float_sqnr": value})
        rise = -(self._metric_loss() or 0.0)
        if self._limits.loss is not None and rise > self._limits.loss:
            yield checked(Condition("metric_rise", ">", self._limits.loss), {"metric_rise": rise})

    def parts(self) -> Iterator[AccuracyPart]:
        """Yield each part, and each output that joins nothing, with its limit."""
        limited = self._limited()
        for row in self._shown:
            least = self._limits.part_sqnr if row in self._part_rows else self._limits.sqnr
            is_limited = least is not None and (row in self._part_rows or row in limited)
            finite = math.isfinite(row.decibels)
            quality = row.quality
            yield AccuracyPart(
                name=quality.name,
                sqnr_db=row.decibels if finite else None,
                limit=f">= {least:g}" if is_limited else "",
                held=row.decibels >= least if is_limited and least is not None else None,
                agreement=quality.decided_equal / quality.decided
                if quality.decided and not row.is_part
                else None,
                program=row.program,
                samples=row.samples,
                not_finite=quality.not_finite,
                output=row.output,
                output_name=self._name_of(row),
                constant=row.constant,
                shared=row.shared,
            )

    def _name_of(self, row: _Row) -> str:
        """Return the name of the output that a row is, or is a part of."""
        names = (r.quality.name for r in self._rows if r.output == row.output)
        return next(names, f"output {row.output}")

    @property
    def _shown(self) -> list[_Row]:
        """The parts of outputs that join something, and the other outputs, in order."""
        known = {row.output for row in self._part_rows}
        rows = [row for row in self._rows if row.output not in known]
        return sorted([*rows, *self._part_rows], key=lambda row: row.output)

    def notes(self) -> Iterator[str]:
        """Yield a sentence on each input that the network itself does not use."""
        for name in dict.fromkeys(n for part in self._dependences() for n in part.unused):
            yield f"The network itself does not use the input {name}."

    def why_none(self, reason: str) -> str:
        """Return why no limit applies."""
        if self.data is None:
            return reason
        return "All limits of the accuracy are switched off."

    def _dependences(self) -> list[Dependence]:
        values = (self._evaluated, self._against)
        return [v.dependence for v in values if v is not None and v.dependence is not None]

    @property
    def _judged(self) -> int:
        """The output that labels or a metric judge."""
        return self._evaluated.class_output if self._evaluated is not None else 0

    def _is_labelled(self) -> bool:
        """Return whether labels or a metric judge an output.

        Labels tell nothing of a map or a picture, nor where the float model never gives them.
        """
        value = self._evaluated
        if value is None or value.metric_quantized is not None:
            return value is not None
        gives_classes = self._judged < len(value.outputs) and (value.outputs[self._judged].decided > 0)
        return bool(value.top1_float) and value.top1_quantized is not None and gives_classes

    def _limited(self) -> list[_Row]:
        """Return the outputs that the limit of the SQNR applies to.

        Labels and metrics concern one output. Whole numbers are limited by their agreement.
        """
        return [
            row
            for row in self._rows
            if not (row.output == self._judged and self._labelled) and not row.quality.whole
        ]

    def _metric_loss(self) -> float | None:
        value = self._evaluated
        if value is None or value.metric_float is None or value.metric_quantized is None:
            return None
        loss = value.metric_float - value.metric_quantized
        if not math.isfinite(loss):
            return math.inf
        return round(loss / max(1.0, abs(value.metric_float)), _METRIC_DIGITS)

    def _read(self) -> None:
        """Read the figures that exist."""
        value = self._evaluated
        if (metric := self._metric_loss()) is not None:
            self.figures["metric_loss"] = max(0.0, metric)
        elif self._labelled and value is not None and value.top1_float is not None:
            # Whole samples: 1.0 - 0.99 is more than 0.01 in floating point.
            lost = round((value.top1_float - (value.top1_quantized or 0.0)) * value.samples)
            self.figures["top1_loss"] = max(0, lost) / value.samples
            self._note_lone("top1_loss", lost)
        if limited := self._limited():
            self.figures["float_sqnr"] = min(row.decibels for row in limited)
        if self._part_rows:
            self.figures[PART] = min(row.decibels for row in self._part_rows)
        joined = {row.output for row in self._part_rows if row.is_part}
        classes = [
            row.quality
            for row in self._rows
            if row.quality.decided
            and not (row.output == self._judged and self._labelled)
            and not (row.quality.whole and row.decibels >= _CLOSE_DB)
            and row.output not in joined
        ]
        if classes:
            worst = min(classes, key=lambda quality: quality.decided_equal / quality.decided)
            self.figures["float_argmax"] = worst.decided_equal / worst.decided
            self._note_lone("float_argmax", worst.decided - worst.decided_equal)

    def _note_lone(self, name: str, differing: int) -> None:
        if differing == 1:
            self.lone.add(name)


@dataclass(frozen=True)
class _Row:
    """An output or a part against the float model: what was measured, on how many samples."""

    quality: OutputQuality
    program: str
    samples: int
    output: int

    @property
    def decibels(self) -> float:
        """Its SQNR [dB]."""
        return self.quality.decibels

    @property
    def is_part(self) -> bool:
        """Whether it is a part of an output."""
        return isinstance(self.quality, PartQuality)

    @property
    def constant(self) -> bool:
        """Whether it is a part that is constant in the program only."""
        return isinstance(self.quality, PartQuality) and self.quality.constant

    @property
    def shared(self) -> bool:
        """Whether it is a part that shares a grid with others."""
        return isinstance(self.quality, PartQuality) and self.quality.shared


def _rows(evaluated: EvaluateResult | None, verified: VerifyResult | None) -> Iterator[_Row]:
    """Yield each output against the float model.

    It is the integer program's, unless the quantized model's over all evaluation samples is worse.
    """
    against = verified.against_float if verified is not None else None
    integer = against.outputs if against is not None else ()
    quantized = evaluated.outputs if evaluated is not None else ()
    yield from _worse(integer, quantized, evaluated, against)


def _part_rows(
    outputs: Sequence[_Row], evaluated: EvaluateResult | None, verified: VerifyResult | None
) -> Iterator[_Row]:
    """Yield each part of outputs that join several tensors, and the outputs beside them."""
    against = verified.against_float if verified is not None else None
    integer = against.parts if against is not None else ()
    quantized = evaluated.parts if evaluated is not None else ()
    rows = list(_worse(integer, quantized, evaluated, against))
    joined = {row.output for row in rows}
    yield from rows
    if rows:
        yield from (row for row in outputs if row.output not in joined and not row.quality.whole)


def _worse(
    integer: Sequence[OutputQuality],
    quantized: Sequence[OutputQuality],
    evaluated: EvaluateResult | None,
    against: AgainstFloat | None,
) -> Iterator[_Row]:
    if against is None or not against.samples:
        integer = ()
    for index in range(max(len(integer), len(quantized))):
        sides: list[_Row] = []
        for values, program, result in ((integer, _INTEGER, against), (quantized, _QUANTIZED, evaluated)):
            if index < len(values) and result is not None:
                quality = values[index]
                output = quality.output if isinstance(quality, PartQuality) else index
                sides.append(_Row(quality, program, result.samples, output))
        yield min(sides, key=lambda side: side.decibels)
