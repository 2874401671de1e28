"""The metric of a project: the user's own function, or one of the program's for a task."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.engine import user_code
from workbench.engine.evaluation.tasks.detection import detection
from workbench.engine.evaluation.tasks.key_points import key_points
from workbench.engine.evaluation.tasks.outcome import Pair
from workbench.engine.evaluation.tasks.segmentation import segmentation
from workbench.errors import Place, failure
from workbench.project import sources
from workbench.project.model import BUILT_IN_METRICS
from workbench.results.task_quality import TaskQuality

if TYPE_CHECKING:
    import numpy as np
    import torch

    from workbench.engine.evaluation.model_outputs import ModelOutputs
    from workbench.engine.runtime.context import StageContext

# Samples that are kept to be shown, those with the largest loss first.
SHOWN = 24


@dataclass(frozen=True)
class Collected:
    """The outputs of both models for a sample, and its label."""

    sample: int
    file: str
    floats: list[torch.Tensor]
    quantized: list[torch.Tensor]
    label: Any
    size: tuple[int, int]


@dataclass(frozen=True)
class Measured:
    """Fields of the result, and masks of the shown samples [H, W] (uint8) by name."""

    fields: Mapping[str, Any]
    masks: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)


def measure(context: StageContext, returned: ModelOutputs, collected: Sequence[Collected]) -> Measured:
    """Return what the project's metric gives; nothing without a metric.

    Raises:
        WorkbenchError: The user's code raised an error, or labels or its result do not fit.
    """
    metric = context.project.evaluation.metric
    if not metric:
        return Measured({})
    if metric in BUILT_IN_METRICS:
        return _task(context, returned, collected)
    reference = sources.callable_reference(metric, context.folder, "evaluation.metric")
    function = user_code.load_callable(reference, "evaluation.metric")
    values = []
    for side in ("floats", "quantized"):
        outputs = [returned.as_returned(getattr(one, side)) for one in collected]
        labels = [copy.deepcopy(one.label) for one in collected]
        bound = _bound(function, outputs, labels)
        value = user_code.call(bound, reference, "evaluation.metric")
        values.append(_number(value, function))
    names = ("metric_name", "metric_float", "metric_quantized")
    return Measured(dict(zip(names, (reference.attribute, *values), strict=True)))


def _bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def _number(value: Any, function: Callable[..., Any]) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        where = user_code.line_of_definition(function)
        raise failure(
            f"The metric{f' at {where}' if where else ''} returned {type(value).__name__}, not a number.",
            "metric(outputs, labels) receives a list with what the model returns for each sample, "
            "and a list of the labels.",
            Place(kind="option", id="evaluation.metric"),
            code="metric-not-number",
        ) from error


def _task(context: StageContext, returned: ModelOutputs, collected: Sequence[Collected]) -> Measured:
    evaluation = context.project.evaluation
    metric = evaluation.metric
    if any(one.label is None for one in collected):
        raise failure(
            f"The metric {metric} needs labels, and the evaluation data has none.",
            "Name them: evaluation.data.labels, or --labels of workbench new.",
            Place(kind="option", id="evaluation.data.labels"),
            code="labels-missing",
        )
    decode, where = _decoder(context, returned)
    pairs = [
        Pair(one.sample, one.file, one.label, (decode(one.floats), decode(one.quantized)))
        for one in collected
    ]
    if metric == "detection":
        outcome = detection(pairs, evaluation.objects, where)
    else:
        outcome = (segmentation if metric == "segmentation" else key_points)(pairs, where)
    shown = sorted(outcome.samples, key=lambda s: (-s.loss, s.sample))[:SHOWN]
    first = outcome.figures[0]
    width, height = collected[0].size if collected else (0, 0)
    task = TaskQuality(
        metric=metric,  # type: ignore[arg-type]
        figures=tuple(outcome.figures),
        per_class=tuple(outcome.per_class),
        lost=sum(s.lost for s in outcome.samples),
        added=sum(s.added for s in outcome.samples),
        width=width,
        height=height,
        samples=tuple(shown),
    )
    fields = {
        "metric_name": first.name,
        "metric_float": first.floating,
        "metric_quantized": first.quantized,
        "task": task,
    }
    shown_samples = {s.sample for s in shown}
    masks = {f"{n}_{i}": mask for (n, i), mask in outcome.arrays.items() if i in shown_samples}
    return Measured(fields, masks)


def _decoder(
    context: StageContext, returned: ModelOutputs
) -> tuple[Callable[[list[torch.Tensor]], Any], str]:
    """Return what decodes the outputs of a sample, and the place of the user's function.

    Without one, they are taken as they are: the only output, or the one that
    ``evaluation.class_output`` names.

    Raises:
        WorkbenchError: Detection has no decoder.
    """
    evaluation = context.project.evaluation
    if evaluation.decode is None:
        if evaluation.metric == "detection":
            raise failure(
                "The metric detection needs a decoder: what the outputs mean is not in the model.",
                "Write one with: workbench decoders KIND FILE.py, and name it: "
                "workbench settings PROJECT evaluation.decode=FILE.py:decode",
                Place(kind="option", id="evaluation.decode"),
                code="decoder-missing",
            )
        position = evaluation.class_output or 0
        return lambda outputs: outputs[min(position, len(outputs) - 1)].numpy(), ""
    reference = sources.callable_reference(evaluation.decode, context.folder, "evaluation.decode")
    function = user_code.load_callable(reference, "evaluation.decode")

    def decode(outputs: list[torch.Tensor]) -> Any:
        bound = _bound(function, returned.as_returned(outputs))
        return user_code.call(bound, reference, "evaluation.decode")

    return decode, user_code.line_of_definition(function)
