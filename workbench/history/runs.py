"""A run: one evaluated configuration with its figures, cost, digests and versions."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, model_validator

from workbench.analysis.accuracy import AccuracyResult
from workbench.analysis.answers import Answers, answers_of
from workbench.analysis.gate import GateResult
from workbench.analysis.silicon import time_of
from workbench.ids import StageId
from workbench.pipeline.plan import Plan
from workbench.project.configs import Config, FixedRange, ImproverId, Improving, RangeMethod, without_origins
from workbench.project.frozen import Frozen
from workbench.project.model import Compression, Rule, TargetChoice
from workbench.results import (
    EvaluateResult,
    LowerResult,
    SimulationResult,
    TensorQuality,
    VerifyResult,
    load_result,
)

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

# A smaller relative difference of the time of a cycle is no other clock.
_SAME_CLOCK = 0.01

_Result = TypeVar("_Result", bound=Frozen)


class Quality(Frozen):
    """Quality of the quantized model; figures that do not exist are None.

    ``divergence`` is the mean of KL(float || quantized) over the tokens of a text [nats].
    """

    samples: int
    data: str
    sqnr_db: float | None
    cosine: float | None = None
    top1_float: float | None = None
    top1: float | None = None
    metric_name: str = ""
    metric: float | None = None
    perplexity_float: float | None = None
    perplexity: float | None = None
    divergence: float | None = None


class Cost(Frozen):
    """Cost on the device, estimated by Vela: cycles of delegates add up, SRAM [bytes] is shared.

    ``cpu_cycles`` is the rough estimate of the CPU operators; 0 if there is none.
    """

    cycles: int
    inference_ms: float | None
    sram_bytes: int
    flash_bytes: int
    cpu_nodes: int
    pte_bytes: int
    vela_version: str
    cpu_cycles: int = 0

    def has_clock_of(self, other: Cost) -> bool:
        """Return whether a cycle takes as long as one of another cost, where both are known."""
        own, its = self.inference_ms, other.inference_ms
        if not (own and its and self.cycles and other.cycles):
            return True
        return math.isclose(own / self.cycles, its / other.cycles, rel_tol=_SAME_CLOCK)


class Simulated(Frozen):
    """Simulator measurements. ``cycles`` are NPU cycles per inference, None if functional.

    ``exact`` is the share of output elements equal to those of the TOSA reference model;
    ``max_lsb`` is the largest difference from the quantized model in steps of the output grid.
    """

    simulator: str
    version: str
    runner: str
    samples: int
    cycles: float | None
    estimated_cycles: int
    exact: float | None
    max_lsb: int
    argmax_equal: int


class Run(Frozen):
    """One row of the history. The history assigns ``number``; 0 before.

    A configuration that was only simulated has no samples in its ``quality``. ``digests`` are the
    keys of the stage results; ``layers`` is the quality per tensor. ``gate`` and
    ``accuracy_result`` are the last answers to the program; None before it was verified.
    """

    number: int = 0
    made: str
    project: str
    origin: str = ""
    target: TargetChoice
    rules: tuple[Rule, ...]
    presets: dict[str, Config] = Field(default_factory=dict)
    improvers: tuple[ImproverId, ...] = ()
    improving: Improving = Improving()
    compressions: tuple[Compression, ...] = ()
    trained_weights: str | None = None
    split_outputs: tuple[int, ...] = ()
    output_factors: tuple[tuple[float, ...], ...] = ()
    ranges: tuple[FixedRange, ...] = ()
    range_methods: tuple[RangeMethod, ...] = ()
    quality: Quality
    cost: Cost | None = None
    simulated: Simulated | None = None
    gate: GateResult | None = None
    accuracy_result: AccuracyResult | None = None
    digests: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    layers: tuple[TensorQuality, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _as_written_now(cls, raw: Any) -> Any:
        """Convert runs of older versions, which stored range methods as their results."""
        return without_origins(raw) if isinstance(raw, dict) else raw

    def with_answers(self, answers: Answers) -> Run:
        """Return the run with newer answers; those that measured nothing replace no others."""
        gate, accuracy = self.gate, self.accuracy_result
        if gate is None or answers.gate.verdict != "not verified":
            gate = answers.gate
        if accuracy is None or answers.accuracy.verdict != "not measured":
            accuracy = answers.accuracy
        return self.model_copy(update={"gate": gate, "accuracy_result": accuracy})

    @property
    def key(self) -> str:
        """The identity of the run: runs with equal keys have equal quality and cost."""
        text = f"{self.digests.get('evaluate', '')} {self.digests.get('lower', '')}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def accuracy(self) -> float | None:
        """The figure for comparison: the user's metric, else top-1, else SQNR [dB]."""
        quality = self.quality
        for value in (quality.metric, quality.top1, quality.sqnr_db):
            if value is not None:
                return value
        return None

    @property
    def accuracy_name(self) -> str:
        """The name of ``accuracy``."""
        if self.quality.metric is not None:
            return self.quality.metric_name
        return "top-1" if self.quality.top1 is not None else "SQNR"


def run_of(project: Project, planned: Plan, cache: Cache, origin: str = "") -> Run | None:
    """Return the run of a project from the cache.

    Returns None if it was neither evaluated nor simulated.

    Raises:
        WorkbenchError: a stored result is damaged.
    """

    def load(kind: type[_Result], stage: StageId) -> _Result | None:
        folder = _folder(planned, cache, stage)
        return load_result(kind, folder) if folder is not None else None

    evaluated, simulated = load(EvaluateResult, "evaluate"), load(SimulationResult, "run")
    if evaluated is None and simulated is None:
        return None
    lowered = load(LowerResult, "lower")
    is_verified = load(VerifyResult, "verify") is not None
    answers = answers_of(project, load) if is_verified else None
    return Run(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        project=project.name,
        origin=origin,
        target=project.target,
        rules=project.rules,
        presets=project.presets,
        improvers=project.improvers,
        improving=project.improving,
        compressions=project.compressions,
        trained_weights=project.trained_weights,
        split_outputs=project.split_outputs,
        output_factors=project.output_factors,
        ranges=project.ranges,
        range_methods=project.range_methods,
        quality=quality_of(evaluated) if evaluated else Quality(samples=0, data="", sqnr_db=None),
        cost=cost_of(lowered) if lowered is not None else None,
        simulated=simulated_of(simulated) if simulated is not None else None,
        gate=answers.gate if answers is not None else None,
        accuracy_result=answers.accuracy if answers is not None else None,
        digests={stage.id: stage.key for stage in planned.stages if stage.key},
        versions=dict(planned.tools),
        layers=evaluated.tensors if evaluated else (),
    )


def quality_of(evaluated: EvaluateResult) -> Quality:
    """Return the figures of an evaluation for the history."""
    text = evaluated.text
    return Quality(
        perplexity_float=text.perplexity_float if text else None,
        perplexity=text.perplexity_quantized if text else None,
        divergence=text.kl_quantized if text else None,
        samples=evaluated.samples,
        data=evaluated.data,
        sqnr_db=evaluated.sqnr_db,
        cosine=evaluated.cosine,
        top1_float=evaluated.top1_float,
        top1=evaluated.top1_quantized,
        metric_name=evaluated.metric_name,
        metric=evaluated.metric_quantized,
    )


def cost_of(lowered: LowerResult) -> Cost | None:
    """Return the estimated cost of a compiled program; None if compiled elsewhere."""
    if lowered.exported is not None:
        return None
    vela = lowered.vela
    return Cost(
        cycles=lowered.cycles,
        inference_ms=time_of(lowered).ms,
        sram_bytes=max((report.sram_bytes for report in vela), default=0),
        flash_bytes=sum(report.flash_bytes for report in vela),
        cpu_nodes=len(lowered.cpu_nodes),
        cpu_cycles=lowered.cpu_cycles,
        pte_bytes=lowered.pte_bytes,
        # Told apart from the figures of runs whose cycles were not corrected.
        vela_version=f"{lowered.vela_version} (corrected)",
    )


def simulated_of(result: SimulationResult) -> Simulated:
    """Return the figures of a simulator run for the history."""
    reference = result.against_reference
    return Simulated(
        simulator=result.report.simulator,
        version=result.report.version,
        runner=result.runner,
        samples=result.samples,
        cycles=result.cycles,
        estimated_cycles=result.estimated_cycles,
        exact=reference.exact / reference.elements if reference.elements else None,
        max_lsb=result.against_quantized.max_lsb,
        argmax_equal=result.against_quantized.argmax_equal,
    )


def _folder(planned: Plan, cache: Cache, stage: StageId) -> Path | None:
    key = planned.key(stage)
    return cache.folder(key) if key and cache.has(key) else None
