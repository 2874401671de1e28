"""Evaluate: measure the quality of the quantized model."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine import user_code
from workbench.engine.data.evaluation import evaluation_samples
from workbench.engine.equivalence.forms import compare_on_data
from workbench.engine.fx.modules import with_origins
from workbench.engine.quality.dependence import EXCHANGED, Variation, with_inputs
from workbench.engine.quality.measures import OutputAccumulator, merged, tensors_of, top_k_hit
from workbench.engine.quality.model_outputs import PartTally, model_outputs
from workbench.engine.quality.passes import float_reference, quantized_module, tensor_comparison
from workbench.engine.quality.perplexity import TextTally
from workbench.engine.quality.references import WorstSamples, pairs
from workbench.engine.targets.base import toolchain_of
from workbench.errors import Place, failure
from workbench.project import sources
from workbench.results import (
    CalibrateResult,
    Dependence,
    EvaluateResult,
    ExportResult,
    save_result,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.engine.context import StageContext
    from workbench.engine.data import Samples
    from workbench.engine.quality.references import FloatReference
    from workbench.results import FormComparison

# Every tensor of both graphs is compared, which takes longer than a run.
TENSOR_SAMPLES = 8


def run(context: StageContext) -> None:
    """Write quality figures for outputs, labels, the user's metric and every tensor."""
    samples = evaluation_samples(context)
    reference = float_reference(context) if samples.spell is None else None
    compared = _compared(context, samples, reference)
    tensors = tensor_comparison(context, reference)
    quantized: torch.fx.GraphModule | None = None
    worst = WorstSamples()
    returned = model_outputs(context)
    parts = PartTally(returned)
    tally = _Tally(keep=context.project.evaluation.metric is not None)
    text = TextTally(samples.spell) if samples.spell else None
    readings = toolchain_of(context).readings(context)
    limit = context.project.evaluation.limit
    total = min(limit, samples.count) if samples.count else limit
    with torch.inference_mode(), closing(tensors):
        for number, (sample, given) in enumerate(pairs(context, samples, reference)):
            context.progress(number, total, f"sample {number + 1}")
            if number < TENSOR_SAMPLES:
                quantizeds = tensors.add(number, sample)
            elif tensors.quantized.remembers:
                quantizeds = tensors.quantized(sample)
            else:
                quantized = quantized or quantized_module(context)
                quantizeds = tensors_of(quantized(*sample.inputs))
            floats, quantizeds = returned.joined(given), returned.joined(quantizeds)
            parts.add(floats, quantizeds)
            tally.add(floats, quantizeds, sample.label)
            if text is not None:
                text.add(sample, floats[0], quantizeds[0])
            worst.add(sample, floats, quantizeds)
            for reading in readings:
                reading.add(sample, floats, quantizeds)
    metric = _metric(context, tally)
    calibrated_on = context.result("calibrate", CalibrateResult).calibrated_on
    result = tally.result(samples.name, calibrated_on, metric)
    update = {
        "held_out": samples.held_out,
        "parts": parts.result(),
        "dependence": _dependence(context, samples, tally.variation),
        "tensors": with_origins(context, tensors.result()), "worst": worst.result(),
        "readings": tuple(reading.result for reading in readings),
        "text": text.result() if text is not None else None, "compared": compared,
    }  # fmt: skip
    save_result(result.model_copy(update=update), context.out)


def _compared(
    context: StageContext, samples: Samples, reference: FloatReference | None
) -> tuple[FormComparison, ...]:
    """Return the comparison of the float program with the model, on data not for calibration.

    An edit that only changes the quantized side does not repeat it.
    """
    if context.project.evaluation.data is None and not samples.held_out:
        return ()
    if reference is None:
        return (compare_on_data(context, samples),)
    if not reference.compared:
        reference.compared = (compare_on_data(context, samples),)
    return reference.compared


def _dependence(context: StageContext, samples: Samples, variation: Variation) -> Dependence:
    """Return which inputs the quantized model ignores, and which of its outputs are constant."""
    exported = context.result("export", ExportResult)
    inputs = [spec.name for spec in exported.inputs]
    known = variation.result(inputs)
    if exported.state or samples.spell is not None:
        return known
    first = list(itertools.islice(samples, EXCHANGED))
    if len(inputs) == 1 and len(first) > 1:
        return known
    floating = context.hot("export").module(check_guards=False)
    quantized = quantized_module(context)
    with torch.inference_mode():
        return with_inputs(
            known, lambda sample: tensors_of(floating(*sample.inputs)),
            lambda sample: tensors_of(quantized(*sample.inputs)), first, inputs,
        )  # fmt: skip


@dataclass
class _Hits:
    top1: int = 0
    top5: int = 0
    top5_known: bool = True

    def add(self, logits: torch.Tensor, label: int) -> None:
        self.top1 += bool(top_k_hit(logits, label, 1))
        among = top_k_hit(logits, label, 5)
        self.top5_known = self.top5_known and among is not None
        self.top5 += bool(among)


@dataclass
class _Tally:
    keep: bool = False
    count: int = 0
    labelled: int = 0
    sums: list[OutputAccumulator] = field(default_factory=list)
    variation: Variation = field(default_factory=Variation)
    float_hits: _Hits = field(default_factory=_Hits)
    quantized_hits: _Hits = field(default_factory=_Hits)
    collected: list[tuple[list[torch.Tensor], list[torch.Tensor], int | None]] = field(
        default_factory=list
    )

    def add(
        self, floats: list[torch.Tensor], quantized: list[torch.Tensor], label: int | None
    ) -> None:
        if not self.sums:
            self.sums = [OutputAccumulator() for _ in floats]
        for sums, a, b in zip(self.sums, floats, quantized, strict=True):
            sums.add(a, b)
        self.variation.add(floats, quantized)
        self.count += 1
        if label is not None:
            self.labelled += 1
            self.float_hits.add(floats[0], label)
            self.quantized_hits.add(quantized[0], label)
        if self.keep:
            self.collected.append((floats, quantized, label))

    def result(
        self, data: str, calibrated_on: str, metric: tuple[str, float | None, float | None]
    ) -> EvaluateResult:
        overall = merged(self.sums)
        labelled = self.labelled == self.count and self.count > 0
        name, metric_float, metric_quantized = metric

        def share(hits: int, *, known: bool = True) -> float | None:
            return hits / self.count if labelled and known else None

        a, b = self.float_hits, self.quantized_hits
        return EvaluateResult(
            samples=self.count, data=data, calibrated_on=calibrated_on,
            sqnr_db=overall.sqnr_db, cosine=overall.cosine, max_abs_error=overall.worst,
            top1_float=share(a.top1), top1_quantized=share(b.top1),
            top5_float=share(a.top5, known=a.top5_known),
            top5_quantized=share(b.top5, known=b.top5_known),
            metric_name=name, metric_float=metric_float, metric_quantized=metric_quantized,
            outputs=tuple(s.output(f"output {i}") for i, s in enumerate(self.sums)),
        )  # fmt: skip


def _metric(context: StageContext, tally: _Tally) -> tuple[str, float | None, float | None]:
    """Apply the user's metric(outputs, labels) to both sides."""
    spec = context.project.evaluation.metric
    if not spec:
        return "", None, None
    reference = sources.callable_reference(spec, context.folder, "evaluation.metric")
    function = user_code.load_callable(reference, "evaluation.metric")
    labels = [label for _, _, label in tally.collected]
    values = []
    sides = [[a[0] for a, _, _ in tally.collected], [b[0] for _, b, _ in tally.collected]]
    for outputs in sides:
        bound = _bound(function, outputs, labels)
        values.append(_number(user_code.call(bound, reference, "evaluation.metric")))
    return reference.attribute, values[0], values[1]


def _bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise failure(
            f"The metric returned {type(value).__name__}, not a number.",
            "metric(outputs, labels) receives a list of tensors and a list of classes or None.",
            Place(kind="option", id="evaluation.metric"),
            code="metric-not-number",
        ) from error
