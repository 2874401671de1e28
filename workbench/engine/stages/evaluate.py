"""Evaluate: measure the quality of the quantized model."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine.data.evaluation import evaluation_samples
from workbench.engine.data.pictures import ShownInputs, size_of
from workbench.engine.equivalence.forms import compare_on_data
from workbench.engine.evaluation.dependence import EXCHANGED, Variation, with_inputs
from workbench.engine.evaluation.measures import OutputAccumulator, classes_of, merged, tensors_of, top_k_hit
from workbench.engine.evaluation.model_outputs import ModelOutputs, PartTally, model_outputs
from workbench.engine.evaluation.perplexity import TextTally
from workbench.engine.evaluation.quick_modules import quantized_module
from workbench.engine.evaluation.reference_outputs import (
    WorstSamples,
    exported_module,
    float_reference,
    pairs,
)
from workbench.engine.evaluation.sample_outputs import SampleOutputs
from workbench.engine.evaluation.tasks.metrics import SHOWN, Collected, Measured, measure
from workbench.engine.evaluation.tensors import tensor_comparison
from workbench.engine.fx.modules import with_origins
from workbench.engine.targets import toolchain_of
from workbench.errors import Place, WorkbenchError, failure
from workbench.results import (
    ARRAYS_FILE,
    TENSOR_SAMPLES,
    CalibrateResult,
    Dependence,
    EvaluateResult,
    ExportResult,
    save_result,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.engine.data import Sample, Samples
    from workbench.engine.evaluation.reference_outputs import FloatReference
    from workbench.engine.runtime.context import StageContext
    from workbench.results import FormComparison


def run(context: StageContext) -> None:
    """Write quality figures for outputs, labels, the user's metric and every tensor."""
    samples = evaluation_samples(context)
    reference = float_reference(context) if samples.spell is None else None
    compared = _compared(context, samples, reference)
    tensors = tensor_comparison(context, reference)
    kept = SampleOutputs()
    tally = _Tally(model_outputs(context), keep=context.project.evaluation.metric is not None)
    text = TextTally(samples.spell) if samples.spell else None
    readings = toolchain_of(context).arithmetic_variants(context)
    limit = context.project.evaluation.limit
    total = min(limit, samples.count) if samples.count else limit
    with torch.inference_mode(), closing(tensors):
        for number, (sample, floats) in enumerate(pairs(context, samples, reference)):
            context.progress(number, total, f"sample {number + 1}")
            is_compared = number < TENSOR_SAMPLES
            quantizeds = tensors.add(number, sample) if is_compared else tensors.outputs(sample)
            tally.add(floats, quantizeds, sample)
            if not tensors.quantized.remembers:
                kept.add(sample, floats, quantizeds)
            if text is not None:
                text.add(sample, floats[0], quantizeds[0])
            for reading in readings:
                reading.add(sample, floats, quantizeds)
    metric = measure(context, tally.returned, tally.collected)
    result = _result(context, samples, tally, metric)
    update = {
        "held_out": samples.held_out,
        "parts": tally.parts.result(),
        "dependence": _dependence(context, samples, tally.variation),
        "tensors": with_origins(context, tensors.result()),
        "worst": tally.worst.result(result.class_output),
        "readings": tuple(reading.result(result.class_output) for reading in readings),
        "text": text.result() if text is not None else None, "compared": compared,
    }  # fmt: skip
    result = result.model_copy(update=update)
    shown = result.task.samples if result.task is not None else result.worst[:SHOWN]
    _save_pictures(context, tally.shown.pictures(s.sample for s in shown), metric)
    kept.save(context.out)
    save_result(result, context.out)


def _result(context: StageContext, samples: Samples, tally: _Tally, metric: Measured) -> EvaluateResult:
    calibrated_on = context.result("calibrate", CalibrateResult).calibrated_on
    result = tally.result(samples.name, calibrated_on).model_copy(update=metric.fields)
    if samples.spell is None:
        result = result.model_copy(update=tally.classes(context))
    return result


def _save_pictures(
    context: StageContext, pictures: Mapping[int, np.ndarray[Any, Any]], metric: Measured
) -> None:
    """Write the pictures of the shown samples, and their masks."""
    arrays = {f"picture_{sample}": pixels for sample, pixels in pictures.items()}
    if arrays:
        np.savez_compressed(context.out / ARRAYS_FILE, **arrays, **metric.masks)


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
    known = variation.result(exported)
    if exported.state or samples.spell is not None:
        return known
    first = list(itertools.islice(samples, EXCHANGED))
    if len(inputs) == 1 and len(first) > 1:
        return known
    floating = exported_module(context)
    quantized = quantized_module(context)
    with torch.inference_mode():
        return with_inputs(
            known,
            lambda sample: tensors_of(floating(*sample.inputs)),
            lambda sample: tensors_of(quantized(*sample.inputs)),
            first,
            inputs,
        )


@dataclass
class _Hits:
    """Samples whose label is the largest element of an output, or among its five largest."""

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
    """Figures over all samples, of the outputs as the model returns them."""

    returned: ModelOutputs
    keep: bool = False
    count: int = 0
    labelled: int = 0
    labels: tuple[int, int] = (0, 0)
    sizes: list[int] = field(default_factory=list)
    worst: WorstSamples = field(default_factory=WorstSamples)
    sums: list[OutputAccumulator] = field(default_factory=list)
    variation: Variation = field(default_factory=Variation)
    hits: list[tuple[_Hits, _Hits]] = field(default_factory=list)
    collected: list[Collected] = field(default_factory=list)
    shown: ShownInputs = field(default_factory=ShownInputs)

    def __post_init__(self) -> None:
        self.parts = PartTally(self.returned)

    def add(self, floats: list[torch.Tensor], quantized: list[torch.Tensor], sample: Sample) -> None:
        """Add the outputs of both programs for a sample."""
        floats, quantized = self.returned.joined(floats), self.returned.joined(quantized)
        self.parts.add(sample.index, floats, quantized)
        self.worst.add(sample, floats, quantized)
        if not self.sums:
            self.sums = [OutputAccumulator() for _ in floats]
            self.hits = [(_Hits(), _Hits()) for _ in floats]
            self.sizes = [classes_of(tensor) for tensor in floats]
        for sums, a, b in zip(self.sums, floats, quantized, strict=True):
            sums.add(a, b)
        self.variation.add(floats, quantized)
        self.shown.add(sample)
        self.count += 1
        label = sample.label
        if label is not None:
            self.labelled += 1
            self.labels = min(self.labels[0], label), max(self.labels[1], label)
            for hits, a, b in zip(self.hits, floats, quantized, strict=True):
                hits[0].add(a, label)
                hits[1].add(b, label)
        if self.keep:
            truth = label if sample.truth is None else sample.truth
            size = size_of(sample.inputs[0])
            self.collected.append(Collected(sample.index, sample.file, floats, quantized, truth, size))

    def classes(self, context: StageContext) -> dict[str, Any]:
        """Return the figures of the output that gives the class, as fields of the result.

        Raises:
            WorkbenchError: The project names no output, or a label is no class of it.
        """
        asked = context.project.evaluation.class_output
        if asked is not None and not 0 <= asked < len(self.sums):
            raise _no_output(asked, len(self.sums))
        if not self.count or self.labelled != self.count:
            return {"class_output": asked or 0}
        chosen = self._class_output() if asked is None else asked
        if chosen is None:
            return {"warnings": (_NO_CLASSES.format(self.labels[1]),)}
        size = self.sizes[chosen]
        outside = self.labels[0] < 0 or self.labels[1] >= size > 0
        if outside and context.project.evaluation.metric is None:
            raise _outside(self.labels, chosen, size)
        if outside:
            return {"class_output": chosen}
        floats, quantized = self.hits[chosen]
        known = floats.top5_known
        warnings = (_COUNTED.format(chosen),) if asked is None and len(self.sums) > 1 else ()
        return {
            "class_output": chosen,
            "top1_float": floats.top1 / self.count,
            "top1_quantized": quantized.top1 / self.count,
            "top5_float": floats.top5 / self.count if known else None,
            "top5_quantized": quantized.top5 / self.count if known else None,
            "warnings": warnings,
        }

    def _class_output(self) -> int | None:
        """Return the output that can be a class: a vector with an element for every label.

        Of several the one that gives the label most often in the float model, and of those the
        smallest. The only output is taken in any case.
        """
        if len(self.sums) == 1:
            return 0
        fitting = [i for i, size in enumerate(self.sizes) if size > max(1, self.labels[1])]
        return max(fitting, key=lambda i: (self.hits[i][0].top1, -self.sizes[i], -i), default=None)

    def result(self, data: str, calibrated_on: str) -> EvaluateResult:
        overall = merged(self.sums)
        names = self.returned.exported.model_output_names(len(self.sums))
        return EvaluateResult(
            samples=self.count,
            data=data,
            calibrated_on=calibrated_on,
            sqnr_db=overall.sqnr_db,
            cosine=overall.cosine,
            max_abs_error=overall.worst,
            outputs=tuple(s.output(name) for name, s in zip(names, self.sums, strict=True)),
        )


_COUNTED = (
    "Top-1 is counted on output {}, which gives the labels most often; the setting "
    "evaluation.class_output chooses another one."
)
_NO_CLASSES = (
    "Top-1 is not counted: no output is a vector with an element for the label {}. "
    "The setting evaluation.class_output chooses one."
)


def _no_output(asked: int, count: int) -> WorkbenchError:
    return failure(
        f"The model has no output {asked}: it has {count}, from 0 on.",
        "Set evaluation.class_output to the output that gives the class.",
        Place(kind="option", id="evaluation.class_output"),
        code="class-output-unknown",
    )


def _outside(labels: tuple[int, int], output: int, size: int) -> WorkbenchError:
    wrong = labels[0] if labels[0] < 0 else labels[1]
    return failure(
        f"The label {wrong} is no class: output {output} has {size} elements, for the classes 0 to "
        f"{size - 1}.",
        "Correct the labels. Labels that are no classes need a metric of your own.",
        Place(kind="option", id="evaluation.data.labels"),
        code="label-outside",
    )
