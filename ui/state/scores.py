"""The figures of the scoreboard, each compared with a pinned run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, QTimer, Signal

from ui.state.document import Document
from ui.state.run_history import RunHistory
from ui.state.session import Session
from ui.state.settings import Settings
from workbench.errors import WorkbenchError
from workbench.ids import StageId
from workbench.project.model import Project
from workbench.project.opened import OpenProject
from workbench.targets import has_stage, target_of

if TYPE_CHECKING:
    from workbench.analysis.accuracy import AccuracyResult
    from workbench.analysis.answers import Answers
    from workbench.analysis.gate import GateResult
    from workbench.history.runs import Cost, Run
    from workbench.results import ConvertResult, EvaluateResult, LowerResult, VerifyResult

ScoreId = Literal["quality", "sqnr", "cycles", "sram", "cpu", "equal", "products", "bits"]
_SETTLE_MS = 40
_KIB = 1024
_SAME = "\u00b10"
_MINUS = "\u2212"
_NO_PIN = 0


@dataclass(frozen=True)
class Score:
    """One figure: its value and the difference from ``compared``, as texts.

    ``compared`` is what it is compared with, "" is the pinned run. ``is_better`` is None if there
    is no difference, or neither direction is better. ``origin`` says how the figure was obtained.
    ``is_stale`` is whether it belongs to a former configuration, and ``is_bad`` whether it breaks a
    limit. ``field`` is the project setting that provides it; "" if it has none.
    """

    id: ScoreId
    title: str
    value: str
    origin: str
    delta: str = ""
    is_better: bool | None = None
    is_stale: bool = False
    is_bad: bool = False
    field: str = ""
    compared: str = ""


class Pin(QObject):
    """What figures are compared with: the float model, a chosen run, or nothing.

    Beside the float model, the first evaluation is what the cost of later ones is compared with.

    Signals:
        changed: there is another run, or none.
    """

    changed = Signal()

    def __init__(self, session: Session, history: RunHistory, settings: Settings, document: Document) -> None:
        super().__init__(document)
        self._session, self._history = session, history
        self._document, self._settings = document, settings
        for signal in (history.changed, document.opened, session.planned_anew):
            signal.connect(self.changed)

    @property
    def run(self) -> Run | None:
        """The pinned run; None without one."""
        number = self.number
        if number == _NO_PIN:
            return None
        if number is None:
            evaluated = (run for run in self._history.runs if run.quality.samples)
            first = next((run for run in evaluated if self._has_same(run, "import_model")), None)
            # The present one would be compared with itself.
            is_present = first is not None and self._has_same(first, "evaluate", "lower")
            return None if is_present else first
        return next((run for run in self._history.runs if run.number == number), None)

    def _has_same(self, run: Run, *stages: StageId) -> bool:
        """Return whether the results of stages are those of the present configuration, where known."""
        keys = {stage: self._session.planned_key(stage) for stage in stages}
        return all(run.digests.get(stage, "") in ("", key) for stage, key in keys.items())

    @property
    def is_float(self) -> bool:
        """Whether the accuracy is compared with that of the float model."""
        return self.number is None

    @property
    def number(self) -> int | None:
        """The number of the chosen run; 0 is no comparison, None the float model."""
        return self._settings.pinned(str(self._document.path or ""))

    def choose(self, number: int | None) -> None:
        """Pin a run; 0 is no comparison, None the float model."""
        self._settings.pin(str(self._document.path or ""), number)
        self.changed.emit()


@dataclass(frozen=True)
class _Figures:
    """The results that the scores come from, and whether each is outdated."""

    project: Project
    evaluated: EvaluateResult | None
    lowered: LowerResult | None
    verified: VerifyResult | None
    converted: ConvertResult | None
    gate: GateResult | None
    accuracy: AccuracyResult | None
    sram_limit: int | None
    stale: frozenset[StageId]


class Scores(QObject):
    """Reads the scores again shortly after results, the project or the pinned run changed.

    Signals:
        changed: ``values`` changed.
    """

    changed = Signal()

    def __init__(
        self,
        document: Document,
        session: Session,
        pin: Pin,
        answers: Callable[[], Answers | None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._document, self._session, self.pin, self._answers = document, session, pin, answers
        self.values: tuple[Score, ...] = ()
        self._fitted: tuple[tuple[Path, str] | None, int | None] = (None, None)
        self._soon = QTimer(self, interval=_SETTLE_MS, singleShot=True)
        self._soon.timeout.connect(self.refresh)
        for signal in (session.results_changed, session.planned_anew, document.project_changed, pin.changed):
            signal.connect(lambda *_: self._soon.start())

    def refresh(self) -> None:
        """Read all figures now."""
        opened = self._document.opened_project
        values = tuple(self._read(opened)) if opened is not None else ()
        if values != self.values:
            self.values = values
            self.changed.emit()

    def _read(self, opened: OpenProject) -> Iterator[Score]:
        from workbench.results import ConvertResult, EvaluateResult, LowerResult, VerifyResult

        project = opened.project
        stale: set[StageId] = set()

        def read(kind: type, stage: StageId) -> object:
            folder = self._session.result(stage)
            if folder is None:
                folder = self._session.former(stage)
                stale.add(stage)
            if folder is None or not has_stage(project, stage):
                return None
            try:
                return self._session.parsed.load(kind, folder)
            except WorkbenchError:
                return None

        evaluated = read(EvaluateResult, "evaluate")
        lowered = read(LowerResult, "lower")
        verified = read(VerifyResult, "verify")
        converted = read(ConvertResult, "convert")
        answers = self._answers()
        figures = _Figures(
            project,
            evaluated if isinstance(evaluated, EvaluateResult) else None,
            lowered if isinstance(lowered, LowerResult) else None,
            verified if isinstance(verified, VerifyResult) else None,
            converted if isinstance(converted, ConvertResult) else None,
            answers.gate if answers is not None and "verify" not in stale else None,
            answers.accuracy if answers is not None and "evaluate" not in stale else None,
            self._sram_limit(opened),
            frozenset(stale),
        )
        for score in scores(figures, self.pin.run, is_float=self.pin.is_float):
            # A former value compared with a run would look like a figure of the present project.
            yield replace(score, delta="", is_better=None) if score.is_stale else score

    def _sram_limit(self, opened: OpenProject) -> int | None:
        """Return the size of the board's SRAM that holds the program's scratch memory [bytes]."""
        folder = self._session.result("lower")
        if folder is None or not opened.project.board:
            return None
        key = (folder, opened.project.board)
        if self._fitted[0] != key:
            from workbench.deploy import fitting

            limit: int | None = None
            try:
                fit = fitting.of_results(opened, folder)
            except (OSError, WorkbenchError):
                fit = None
            for filling in fit.fillings if fit else ():
                if any(d.what == "scratch pool" for d in filling.demands):
                    limit = filling.bytes
            self._fitted = (key, limit)
        return self._fitted[1]


def scores(figures: _Figures, pinned: Run | None, *, is_float: bool = False) -> Iterator[Score]:
    """Yield the scores that the project's target has, in the order they are shown.

    Args:
        figures: The results.
        pinned: The run that they are compared with.
        is_float: Whether top-1, metric or perplexity are compared with the float model's instead.
    """
    project = figures.project
    quality, sqnr = _quality(figures, None if is_float else pinned), _sqnr(figures, pinned)
    quality = _against_float(quality, figures) if is_float else quality
    judged = quality if _is_labelled(figures.accuracy) else sqnr
    yield from (_judged(s, figures.accuracy) if s is judged else s for s in (quality, sqnr))
    if not has_stage(project, "lower"):
        yield from _bits(figures)
        return
    lowered = figures.lowered
    if not _is_estimated(project) or (lowered is not None and lowered.exported is not None):
        yield from _exported(figures)
        return
    yield from _cost(figures, pinned)
    if has_stage(project, "verify"):
        yield _equal(figures)


def _is_estimated(project: Project) -> bool:
    """Return whether a compiler estimates the cost of programs for the project's target."""
    try:
        return bool(target_of(project.target.id).estimator)
    except WorkbenchError:
        return True


def _quality(figures: _Figures, pinned: Run | None) -> Score:
    value, stale = figures.evaluated, "evaluate" in figures.stale
    before = pinned.quality if pinned else None
    score = Score("quality", "Top-1", "\u2013", "Not evaluated yet.", is_stale=stale)
    if value is None:
        return score
    origin = f"Measured in PyTorch, {value.samples} samples of {value.data}"
    if value.metric_quantized is not None:
        score = replace(
            score,
            title=value.metric_name or "Metric",
            value=value.metric_text(value.metric_quantized),
            origin=f"{origin}; float model {value.metric_text(value.metric_float or 0.0)}",
        )
        if before and before.metric is not None and before.metric_name == value.metric_name:
            score = _of_metric(score, value, before.metric)
    elif value.top1_quantized is not None:
        score = replace(
            score,
            value=f"{100 * value.top1_quantized:.1f} %",
            origin=f"{origin}; float model {100 * (value.top1_float or 0):.1f} %",
        )
        if before and before.top1 is not None:
            score = _compared(score, 100 * (value.top1_quantized - before.top1), "{:.1f} pp")
    elif value.text is not None and value.text.perplexity_quantized is not None:
        score = replace(
            score,
            title="Perplexity",
            value=f"{value.text.perplexity_quantized:.3f}",
            origin=f"{origin}; float model {value.text.perplexity_float:.3f}",
        )
        if before and before.perplexity is not None:
            change = value.text.perplexity_quantized - before.perplexity
            score = _compared(score, change, "{:.3f}", grows=False)
    else:
        words = "No labels and no metric. Click to add them in the project settings."
        score = replace(score, value="no labels", origin=words, field="evaluation.data.labels")
    return score


def _against_float(score: Score, figures: _Figures) -> Score:
    """Return the score of the accuracy with the float model's figure and what was lost of it.

    The difference is red where the project's limits do not hold, and a gain green where they do.
    """
    value = figures.evaluated
    if value is None:
        return score
    if value.metric_quantized is not None and value.metric_float is not None:
        compared = _of_metric(score, value, value.metric_float)
        return _judged_beside(compared, value.metric_text(value.metric_float), figures)
    if value.top1_quantized is not None and value.top1_float is not None:
        # The difference is that of the figures as they are shown.
        now, before = round(100 * value.top1_quantized, 1), round(100 * value.top1_float, 1)
        form = "{:.1f}"
        shown, grows = f"{before:.1f}", True
    elif value.text is not None and value.text.perplexity_quantized is not None:
        now, before = value.text.perplexity_quantized, value.text.perplexity_float
        form, shown, grows = "{:.3f}", f"{before:.3f}", False
    else:
        return score
    return _judged_beside(_compared(score, now - before, form, grows=grows), shown, figures)


def _of_metric(score: Score, value: EvaluateResult, before: float) -> Score:
    """Return the score of a metric with its difference; shares are compared in points."""
    assert value.metric_quantized is not None
    change = value.metric_quantized - before
    if value.task is not None:
        change = round(100 * value.metric_quantized, 1) - round(100 * before, 1)
        return _compared(score, change, "{:.1f} pp")
    return _compared(score, change, "{:.3g}", grows=None)


def _judged_beside(compared: Score, shown: str, figures: _Figures) -> Score:
    """Return a score with the float model's figure, and the colour of the verdict."""
    verdict = figures.accuracy.verdict if figures.accuracy is not None else "not measured"
    gained = True if compared.is_better or compared.delta == _SAME else None
    judged = {"accurate enough": gained, "not accurate enough": False, "low accuracy": None}
    return replace(
        compared,
        value=f"{compared.value}, float {shown}",
        is_better=judged.get(verdict, compared.is_better),
        compared="the float model",
    )


# Marks of the accuracy beside the figure that it follows from.
_ACCURACY_SIGNS = {
    "accurate enough": " \u2713",
    "low accuracy": " !",
    "not accurate enough": " \u2717",
    "not measured": "",
}


def _is_labelled(accuracy: AccuracyResult | None) -> bool:
    """Return whether labels or a metric judge the program."""
    names = {limit.name for limit in (*accuracy.limits, *accuracy.marks)} if accuracy else set()
    return bool(names & {"top1_loss", "metric_loss"})


def _judged(score: Score, accuracy: AccuracyResult | None) -> Score:
    """Return a score with whether the program is accurate enough."""
    if accuracy is None or accuracy.data is None:
        return score
    return replace(
        score,
        value=score.value + _ACCURACY_SIGNS[accuracy.verdict],
        origin=f"{score.origin}\nAccuracy: {accuracy.sentence}",
        is_bad=accuracy.refused,
    )


def _sqnr(figures: _Figures, pinned: Run | None) -> Score:
    value, stale = figures.evaluated, "evaluate" in figures.stale
    score = Score("sqnr", "SQNR", "\u2013", "Not evaluated yet.", is_stale=stale)
    if value is None:
        return score
    origin = f"Measured in PyTorch at the outputs, {value.samples} samples"
    text = "equal" if value.sqnr_db is None else f"{value.sqnr_db:.1f} dB"
    score = replace(score, value=text, origin=origin)
    if value.sqnr_db is not None and pinned and pinned.quality.sqnr_db is not None:
        score = _compared(score, value.sqnr_db - pinned.quality.sqnr_db, "{:.1f} dB")
    return score


def _bits(figures: _Figures) -> Iterator[Score]:
    memory = figures.converted.memory if figures.converted else None
    if memory is not None and memory.weight_bits is not None:
        yield Score(
            "bits",
            "Weights",
            f"{memory.weight_bits:.2f} bit",
            "Computed: average bits of a weight, including shared exponents",
            is_stale="convert" in figures.stale,
        )


def _exported(figures: _Figures) -> Iterator[Score]:
    exported = figures.lowered.exported if figures.lowered else None
    score = Score(
        "products", "int8 products", "\u2013", "Not compiled yet.", is_stale="lower" in figures.stale
    )
    if exported is not None:
        score = replace(
            score,
            value=f"{exported.quantized} of {len(exported.products)}",
            origin=f"Predicted; {exported.check.sentence}",
        )
    yield score


def _cost(figures: _Figures, pinned: Run | None) -> Iterator[Score]:
    lowered, stale = figures.lowered, "lower" in figures.stale
    cycles = Score("cycles", "Cycles", "\u2013", "Not compiled yet.", is_stale=stale)
    sram, cpu = replace(cycles, id="sram", title="SRAM"), replace(cycles, id="cpu", title="CPU ops")
    if lowered is None:
        yield from (cycles, sram, cpu)
        return
    from workbench.history.runs import cost_of

    cost, before = cost_of(lowered), pinned.cost if pinned else None
    assert cost is not None
    origin = f"Estimated by Vela {lowered.vela_version} for {lowered.target}"
    cycles = replace(
        cycles,
        value=_cycles(cost.cycles, cost.inference_ms),
        origin=f"{origin}, {lowered.system_config}; NPU only",
    )
    limit = figures.sram_limit
    sram = replace(
        sram,
        value=_kib(cost.sram_bytes, limit),
        origin=f"{origin}: peak SRAM",
        is_bad=limit is not None and cost.sram_bytes > limit,
    )
    cpu = replace(cpu, value=str(cost.cpu_nodes), origin=_cpu_origin(cost))
    if before is not None:
        cycles = _cycles_against(cycles, cost, before)
        sram = _compared(sram, (cost.sram_bytes - before.sram_bytes) / _KIB, "{:,.1f} KiB", grows=False)
        cpu = _compared(cpu, cost.cpu_nodes - before.cpu_nodes, "{:.0f}", grows=False)
    yield from (cycles, sram, cpu)


def _cycles_against(score: Score, cost: Cost, before: Cost) -> Score:
    """Return the score of the cycles with its difference: that of the time, where the clock differs."""
    if not (before.cycles and cost.cycles):
        return score
    ratio, form = cost.cycles / before.cycles, "{:.1f} %"
    if cost.inference_ms and before.inference_ms and not cost.has_clock_of(before):
        ratio, form = cost.inference_ms / before.inference_ms, "{:.1f} % time"
    return _compared(score, 100 * (ratio - 1), form, grows=False)


def _cpu_origin(cost: Cost) -> str:
    about = f": roughly {cost.cpu_cycles:,} cycles of a Cortex-M55 more" if cost.cpu_cycles else ""
    return f"Counted: operators that run on the CPU, beside the NPU's cycles{about}"


def _equal(figures: _Figures) -> Score:
    value, gate = figures.verified, figures.gate
    score = Score("equal", "NPU output", "\u2013", "Not verified yet.", is_stale="verify" in figures.stale)
    if value is None:
        return score
    text = "bit-exact" if value.exact == value.elements else f"within {value.max_lsb} LSB"
    if gate is not None:
        text += {"right": " \u2713", "differs": " \u2717", "not verified": ""}[gate.verdict]
    verdict_text = f"\nCompiled program {gate.sentence}" if gate is not None else ""
    share = f"{value.exact:,} of {value.elements:,} output values equal, {value.samples} samples"
    return replace(
        score,
        value=text,
        is_bad=gate is not None and gate.verdict == "differs",
        origin=f"Computed against the quantized model: {share}{verdict_text}",
    )


def _compared(score: Score, change: float, form: str, *, grows: bool | None = True) -> Score:
    """Return a score with its difference; ``grows`` is whether more is better, None unknown."""
    text = form.format(abs(change))
    if not any(letter in "123456789" for letter in text):
        return replace(score, delta=_SAME)
    sign = "+" if change > 0 else _MINUS
    is_better = None if grows is None else (change > 0) == grows
    return replace(score, delta=f"{sign}{text}", is_better=is_better)


def _cycles(cycles: int, milliseconds: float | None) -> str:
    if not cycles:
        return "none"
    return f"{cycles:,}" if milliseconds is None else f"{cycles:,} \u00b7 {_time(milliseconds)}"


def _time(milliseconds: float) -> str:
    digits = 3 if milliseconds < 1 else 2 if milliseconds < 10 else 1 if milliseconds < 100 else 0
    return f"{milliseconds:,.{digits}f} ms"


def _kib(used: int, limit: int | None) -> str:
    if limit is None:
        return f"{used / _KIB:,.1f} KiB"
    return f"{used / _KIB:,.1f} / {limit / _KIB:,.0f} KiB"
