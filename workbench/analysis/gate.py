"""The gate: the verdict on a compiled program, and the limits it follows from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from workbench.analysis.silicon import time_of
from workbench.project.frozen import Frozen
from workbench.project.gate import ACCURACY_FIGURES, LSB_LIMIT, Condition, condition_of
from workbench.results import TosaExecutors

if TYPE_CHECKING:
    from workbench.project.gate import Gate
    from workbench.results import EvaluateResult, LowerResult, OutputQuality, SimulationResult, VerifyResult

Verdict = Literal["right", "differs", "not verified"]
_SMALL_BITS = 8
# More than this counts as this where two qualities are compared [dB].
_HIGH_DB = 60.0
_CHECKS_OF_PROGRAM = ("compiled", "findings")
_COMPARISONS = ("lsb", "share", "sqnr", "argmax", "loss", "executed", *_CHECKS_OF_PROGRAM)


class Limit(Frozen):
    """One limit of a verdict.

    ``limit`` is what ``value`` must satisfy. ``value`` is None where it is unknown, or an infinite
    SQNR (both sides equal). ``held`` is None if the limit could not be checked.
    """

    name: str
    limit: str
    value: float | None
    held: bool | None


class Execution(Frozen):
    """The compiled program on the functional simulator. Computed, no device, no times.

    ``elements`` are those of the outputs of all delegates over ``samples`` samples, ``equal`` those
    that equal their TOSA's, which ``executors`` computed: None stands for the TOSA reference model
    alone. ``refused`` says why it was not executed to the end; "" if it was.
    """

    samples: int
    elements: int
    equal: int
    refused: str = ""
    executors: TosaExecutors | None = None

    @property
    def sentence(self) -> str:
        """What was executed and what became of it, in one line."""
        if self.refused:
            return f"Not executed on the simulator: {self.refused.rstrip('.')}."
        if not self.elements:
            return "No operator runs on the NPU: there is nothing to execute on its simulator."
        start = f"Executed on the simulator (no timing): {self.samples:,} sample"
        start += "" if self.samples == 1 else "s"
        others = "the TOSA reference model's."
        if self.executors is not None:
            others = f"those of its TOSA. {self.executors.sentence}"
        if self.equal == self.elements:
            return f"{start}, all {self.elements:,} output elements equal {others}"
        return (
            f"{start}, {self.elements - self.equal:,} of {self.elements:,} output elements differ "
            f"from {others}"
        )


class GateResult(Frozen):
    """A verdict with its limits; ``reason`` says why nothing, or not all, was verified.

    ``execution`` is None if the compiled program was not compared with its TOSA.
    """

    verdict: Verdict
    reason: str = ""
    limits: tuple[Limit, ...] = ()
    execution: Execution | None = None

    @property
    def broken(self) -> tuple[Limit, ...]:
        """The limits that are not held."""
        return tuple(limit for limit in self.limits if limit.held is False)

    @property
    def departs(self) -> bool:
        """Whether the program is not the quantized model, and not only too large or too slow."""
        return any(limit.name in _COMPARISONS for limit in self.broken)

    @property
    def sentence(self) -> str:
        """The verdict in one line, with the limits that are broken."""
        if self.verdict == "right":
            return f"correct: {len(self.limits)} of {len(self.limits)} checks passed"
        if self.verdict == "differs":
            return f"differs ({'; '.join(map(limit_text, self.broken))})"
        return f"not verified ({self.reason.rstrip('.')})"


def limit_text(limit: Limit) -> str:
    """Return a limit in words, such as ``lsb 84, limit <= 3``."""
    value = "unknown" if limit.value is None else f"{limit.value:.6g}"
    if limit.value is None and limit.held:
        value = "equal"
    return f"{limit.name} {value}, limit {limit.limit}"


_TITLES = {
    "lsb": "Largest difference [LSB]",
    "share": "Largest difference, share of the range",
    "sqnr": "SQNR of 16-bit outputs [dB]",
    "argmax": "Same class",
    "loss": "SQNR lost by integers [dB]",
    "compiled": "Outputs that differ",
    "findings": "Compiler faults",
    "quality": "SQNR [dB]",
    "cosine": "Cosine",
    "top1": "Top-1",
    "metric": "Metric",
    "perplexity": "Perplexity",
    "executed": "Difference of the executed program [LSB]",
    "top1_loss": "Top-1 lost against float",
    "metric_loss": "Metric lost against float",
    "metric_rise": "Metric above float",
    "float_sqnr": "SQNR against float, lowest output [dB]",
    "part_sqnr": "SQNR against float, lowest part of an output [dB]",
    "float_argmax": "Same class as float",
    "inputs": "Ignored inputs and constant outputs",
    "cycles": "Cycles",
    "ms": "Time [ms]",
    "sram": "SRAM [bytes]",
    "flash": "Constants [bytes]",
    "cpu_ops": "CPU operators",
    "pte_bytes": "Program [bytes]",
}


# Figures that are shares, and those of which none is expected.
_SHARES = {"argmax", "top1", "top1_loss", "float_argmax"}
_COUNTS = {"findings", "compiled", "inputs"}
_BOUNDS = {"<=": "at most", "<": "below", ">=": "needed", ">": "above"}


def limit_parts(limit: Limit, bound: str = "") -> tuple[str, str, str]:
    """Return the title, the value and the bound of a limit; "" is a bound that is told by the value.

    ``bound`` is what its bound is called; "" names it by its direction.
    """
    value = "unknown" if limit.value is None else _figure(limit.name, limit.value)
    if limit.value is None and limit.held:
        value = "equal"
    title = _TITLES.get(limit.name, limit.name)
    if limit.name in _COUNTS and limit.held and not limit.value:
        return title, "none", ""
    sign, _, number = limit.limit.partition(" ")
    return title, value, f"{bound or _BOUNDS.get(sign, sign)} {_figure(limit.name, float(number))}"


def limit_words(limit: Limit, bound: str = "") -> str:
    """Return a limit for people, such as ``Same class: 100 % (needed 95 %)``."""
    title, value, needed = limit_parts(limit, bound)
    return f"{title}: {value} ({needed})" if needed else f"{title}: {value}"


def _figure(name: str, value: float) -> str:
    return f"{100 * value:.4g} %" if name in _SHARES else f"{value:,.4g}"


def verdict(  # noqa: PLR0913 - one argument for the result of each stage
    gate: Gate,
    *,
    evaluated: EvaluateResult | None = None,
    lowered: LowerResult | None = None,
    verified: VerifyResult | None = None,
    simulated: SimulationResult | None = None,
    fail_if: Sequence[str] = (),
    reason: str = "The stage verify did not run.",
) -> GateResult:
    """Return the verdict on a program.

    A program *differs* if any limit is broken; else it is *right* if the integer program and the
    compiled program were compared. A condition whose figure does not exist counts as broken.

    Args:
        gate: The project's limits.
        evaluated: The quality of the quantized model.
        lowered: The compiled program and its estimated cost.
        verified: The comparison of the integer program; None if it was not made.
        simulated: The run of the whole program; None if the stage run did not run.
        fail_if: Further conditions; they replace limits of the same figures. Those on figures of
            the accuracy are left out.
        reason: Why there is no comparison, if there is none.

    Raises:
        WorkbenchError: A condition cannot be read.
    """
    known = figures(evaluated, lowered, verified, simulated)
    given = [c for c in map(condition_of, fail_if) if c.name not in ACCURACY_FIGURES]
    replaced = {condition.name for condition in given} | ACCURACY_FIGURES
    own = [c for c in map(condition_of, gate.fail_if) if c.name not in replaced]
    replaced |= {condition.name for condition in own}
    limits = [
        *(checked(c, known) for c in _defaults(gate, verified, known) if c.name not in replaced),
        *(checked(condition, known, required=True) for condition in (*own, *given)),
    ]
    limits = [*limits, *_of_program(gate, verified, known, replaced)]
    execution = _execution(verified)
    if any(limit.held is False for limit in limits):
        return GateResult(verdict="differs", limits=tuple(limits), execution=execution)
    reason = _why_not_verified(gate, verified, reason) or _why_not_executed(simulated)
    return GateResult(
        verdict="not verified" if reason else "right",
        reason=reason,
        limits=tuple(limits),
        execution=execution,
    )


def _execution(verified: VerifyResult | None) -> Execution | None:
    if verified is None or (compiled := verified.compiled) is None:
        return None
    return Execution(
        samples=compiled.samples,
        elements=compiled.elements,
        equal=compiled.equal,
        refused=compiled.refused,
        executors=verified.executors,
    )


def _why_not_verified(gate: Gate, verified: VerifyResult | None, reason: str) -> str:
    if verified is None:
        return reason
    if verified.runtime:
        return f"Another compiler makes the program; {verified.runtime} computed the file."
    return _why_not_compared(gate, verified)


def _why_not_compared(gate: Gate, verified: VerifyResult) -> str:
    """Return why not everything was compared; "" if it was."""
    if not verified.samples or not verified.elements:
        return "No output element was compared with the quantized model."
    if not gate.compiled:
        return ""
    if (compiled := verified.compiled) is None:
        return "Not checked on the compiled program."
    if compiled.refused:
        return f"Not checked on the compiled program: {compiled.refused}"
    if compiled.samples < verified.samples:
        return f"Executed for {compiled.samples} of {verified.samples} samples only."
    return f"Not executed: {compiled.whole_refused}" if compiled.whole_refused else ""


def _why_not_executed(simulated: SimulationResult | None) -> str:
    """Return why the stage run did not execute the program; "" if it did, or did not run."""
    if simulated is None:
        return ""
    functional = simulated.functional
    if functional is not None and functional.refused:
        return f"Not executed: {functional.refused}"
    if functional is not None and not functional.against_reference.elements:
        return "The program was executed, and no output element was compared."
    if not simulated.report.succeeded:
        return f"Not executed: {simulated.report.exit_reason}"
    return ""


def _defaults(gate: Gate, verified: VerifyResult | None, known: Mapping[str, float]) -> Iterator[Condition]:
    """Yield the project's limits that concern the outputs this program has."""
    if verified is None or verified.runtime:
        return
    small, others = _by_width(verified.outputs)
    if small and gate.lsb is not None:
        yield Condition("lsb", ">", _lsb_limit(gate.lsb, small))
    if gate.share is not None and "share" in known:
        yield Condition("share", ">", gate.share)
    if others and gate.sqnr is not None:
        yield Condition("sqnr", "<", gate.sqnr)
    if verified.decided and gate.argmax is not None:
        yield Condition("argmax", "<", gate.argmax)
    against = verified.against_float
    if gate.loss is not None and against is not None and against.quantized_sqnr_db is not None:
        yield Condition("loss", ">", gate.loss)
    if gate.compiled and gate.lsb is not None and "executed" in known:
        yield Condition("executed", ">", gate.lsb)


def _lsb_limit(limit: float, outputs: Sequence[OutputQuality]) -> float:
    """Return the limit of the largest difference [LSB].

    The default rises where roundings of single operators move each of the outputs that break it by
    as much; a limit of the user's stays.
    """
    if limit != LSB_LIMIT:
        return limit
    steps = [(o.max_lsb or 0, o.rounding_lsb or 0) for o in outputs]
    large = [(most, explained) for most, explained in steps if most > limit]
    if large and all(most <= explained for most, explained in large):
        return max(explained for _, explained in large)
    return limit


def _of_program(
    gate: Gate, verified: VerifyResult | None, known: Mapping[str, float], replaced: set[str]
) -> Iterator[Limit]:
    """Yield the limits of the executed program, unless others replace them."""
    if not gate.compiled or verified is None or verified.runtime:
        return
    for name in _CHECKS_OF_PROGRAM:
        if name not in replaced:
            yield checked(Condition(name, ">", 0), known)


def checked(condition: Condition, known: Mapping[str, float], *, required: bool = False) -> Limit:
    """Return a condition with the figure that it limits.

    Args:
        condition: What is not accepted.
        known: The figures that exist.
        required: Whether the limit is broken if its figure does not exist.
    """
    name, limit = condition.name, condition.limit
    value = known.get(name)
    if value is None:
        return Limit(name=name, limit=limit, value=None, held=False if required else None)
    finite = value if math.isfinite(value) else None
    return Limit(name=name, limit=limit, value=finite, held=not condition.applies(value))


def figures(
    evaluated: EvaluateResult | None,
    lowered: LowerResult | None,
    verified: VerifyResult | None,
    simulated: SimulationResult | None = None,
) -> dict[str, float]:
    """Return the figures of ``FIGURES`` that exist; equal tensors have an infinite SQNR."""
    known: dict[str, float | None] = {}
    if evaluated is not None:
        known |= _of_quality(evaluated)
    if lowered is not None and lowered.exported is None:
        known |= _of_cost(lowered)
    if verified is not None:
        known |= _of_verification(verified)
    if simulated is not None:
        runs = [simulated.against_reference]
        runs += [simulated.functional.against_reference] if simulated.functional else []
        most = [r.max_lsb for r in runs if r.elements]
        known["executed"] = max([*most, *filter(None, [known.get("executed")])], default=None)
    return {name: float(value) for name, value in known.items() if value is not None}


def _of_quality(evaluated: EvaluateResult) -> dict[str, float | None]:
    return {
        "quality": _db(evaluated.sqnr_db),
        "cosine": evaluated.cosine,
        "top1": evaluated.top1_quantized,
        "metric": evaluated.metric_quantized,
        "perplexity": evaluated.text.perplexity_quantized if evaluated.text else None,
    }


def _of_cost(lowered: LowerResult) -> dict[str, float | None]:
    vela = lowered.vela
    return {
        "cycles": sum(report.cycles_total for report in vela),
        # A limit holds for the upper end of the interval.
        "ms": time_of(lowered).most_ms,
        "sram": max((report.sram_bytes for report in vela), default=0),
        "flash": sum(report.flash_bytes for report in vela),
        "cpu_ops": len(lowered.cpu_nodes),
        "pte_bytes": lowered.pte_bytes,
    }


def _of_verification(verified: VerifyResult) -> dict[str, float | None]:
    known: dict[str, float | None] = {}
    if not verified.runtime:
        small, others = _by_width(verified.outputs)
        known["lsb"] = max((o.max_lsb for o in small or others if o.max_lsb is not None), default=None)
        known["share"] = max(
            (o.max_lsb / 2**o.bits for o in others if o.bits is not None and o.max_lsb is not None),
            default=None,
        )
        known["sqnr"] = min((o.decibels for o in others or small), default=None)
    if verified.decided:
        known["argmax"] = verified.decided_equal / verified.decided
    if (against := verified.against_float) and against.quantized_sqnr_db is not None:
        # In 16 bits a few roundings take 81 to 76 dB, which no application notices.
        quantized = min(against.quantized_sqnr_db, _HIGH_DB)
        known["loss"] = max(0.0, quantized - _db(against.integer_sqnr_db))
    # What was found before the simulator refused the rest is known.
    if (compiled := verified.compiled) is not None:
        errors = sum(f.severity == "error" for f in compiled.findings)
        if not compiled.refused or compiled.equal < compiled.elements:
            known["compiled"] = compiled.elements - compiled.equal
        if not compiled.refused or errors:
            known["findings"] = errors
        known["executed"] = compiled.whole_max_lsb
    return known


def _by_width(outputs: Iterable[OutputQuality]) -> tuple[list[OutputQuality], list[OutputQuality]]:
    """Return the outputs of at most 8 bits, and the others."""
    listed = list(outputs)
    small = [o for o in listed if o.bits is not None and o.bits <= _SMALL_BITS]
    return small, [o for o in listed if o not in small]


def _db(sqnr_db: float | None) -> float:
    """Return an SQNR [dB]; without noise it is infinite."""
    return math.inf if sqnr_db is None else sqnr_db
