"""The metric of a project: the user's own function, or one of the program's for a task."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine import user_code
from workbench.engine.quality.tasks.detection import detection
from workbench.engine.quality.tasks.key_points import key_points
from workbench.engine.quality.tasks.outcome import Outcome, Pair
from workbench.engine.quality.tasks.segmentation import segmentation
from workbench.errors import Place, failure
from workbench.project import sources
from workbench.project.model import BUILT_IN_METRICS
from workbench.results import ARRAYS_FILE
from workbench.results.task_quality import TaskQuality

if TYPE_CHECKING:
    from workbench.engine.context import StageContext
    from workbench.engine.quality.model_outputs import ModelOutputs

# Samples that are kept to be shown, those with the largest loss first.
_SHOWN = 24


@dataclass(frozen=True)
class Collected:
    """The outputs of both models for a sample, its label, and its first input."""

    sample: int
    file: str
    floats: list[torch.Tensor]
    quantized: list[torch.Tensor]
    label: Any
    picture: torch.Tensor


def measure(
    context: StageContext, returned: ModelOutputs, collected: Sequence[Collected]
) -> dict[str, Any]:
    """Return the fields of the result that the project's metric gives; none without a metric.

    Raises:
        WorkbenchError: The user's code raised an error, or labels or its result do not fit.
    """
    metric = context.project.evaluation.metric
    if not metric:
        return {}
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
    return {
        "metric_name": reference.attribute,
        "metric_float": values[0],
        "metric_quantized": values[1],
    }


def _bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def _number(value: Any, function: Callable[..., Any]) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        where = user_code.line_of_definition(function)
        raise failure(
            f"The metric{f' at {where}' if where else ''} returned {type(value).__name__}, not a "
            "number.",
            "metric(outputs, labels) receives a list with what the model returns for each sample, "
            "and a list of the labels.",
            Place(kind="option", id="evaluation.metric"),
            code="metric-not-number",
        ) from error


def _task(
    context: StageContext, returned: ModelOutputs, collected: Sequence[Collected]
) -> dict[str, Any]:
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
    shown = sorted(outcome.samples, key=lambda s: (-s.loss, s.sample))[:_SHOWN]
    pictures = {one.sample: one.picture for one in collected}
    _save_arrays(context, outcome, {s.sample: pictures[s.sample] for s in shown})
    first = outcome.figures[0]
    task = TaskQuality(
        metric=metric,  # type: ignore[arg-type]
        figures=tuple(outcome.figures),
        per_class=tuple(outcome.per_class),
        lost=sum(s.lost for s in outcome.samples),
        added=sum(s.added for s in outcome.samples),
        samples=tuple(shown),
    )
    return {
        "metric_name": first.name, "metric_float": first.floating,
        "metric_quantized": first.quantized, "task": task,
    }  # fmt: skip


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


def _save_arrays(
    context: StageContext, outcome: Outcome, pictures: dict[int, torch.Tensor]
) -> None:
    """Write the pictures of the shown samples, and their masks, for the window."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for sample, values in pictures.items():
        if (picture := _picture(values)) is not None:
            arrays[f"picture_{sample}"] = picture
    for (name, sample), mask in outcome.arrays.items():
        if sample in pictures:
            arrays[f"{name}_{sample}"] = mask
    np.savez_compressed(context.out / ARRAYS_FILE, **arrays)


def _picture(values: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """Return an input [1, C, H, W] or [1, H, W, C] as pixels [H, W, 3] (uint8); None if it is none.

    The smallest value is black and the largest white, whatever the normalization was.
    """
    image = values[0].float().numpy() if values.ndim == 4 and len(values) == 1 else None
    if image is None or not image.size:
        return None
    if image.shape[0] in {1, 3}:
        image = image.transpose(1, 2, 0)
    if image.shape[2] not in {1, 3}:
        return None
    low, high = float(image.min()), float(image.max())
    scaled = (image - low) * (255.0 / (high - low) if high > low else 0.0)
    return np.broadcast_to(scaled.round(), (*image.shape[:2], 3)).astype(np.uint8)
