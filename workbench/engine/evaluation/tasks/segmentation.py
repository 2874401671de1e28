"""Segmentation: intersection over union of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.evaluation.tasks.outcome import Outcome, Pair, invalid, invalid_label
from workbench.results.task_quality import ShownSample, TaskFigure

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]
# A pixel without a class, as in VOC and Cityscapes.
NO_CLASS = 255
_MOST_CLASSES = 255


def segmentation(pairs: Sequence[Pair], where: str) -> Outcome:
    """Return the mean intersection over union over all classes that are labelled or found.

    Of a class: pixels that are labelled and predicted, divided by those that are either, over all
    samples. Pixels labelled 255 do not count.

    Raises:
        WorkbenchError: Labels or outputs are no maps of classes of one size.
    """
    counts = np.zeros((2, 3, _MOST_CLASSES), np.int64)
    arrays: dict[tuple[str, int], Array] = {}
    samples = []
    for pair in pairs:
        maps = [class_map(output, where) for output in pair.outputs]
        truth = _truth(pair, maps[0].shape)
        for side, predicted in enumerate(maps):
            counts[side] += _counted(truth, predicted)
        single = [_mean(_ratios(_counted(truth, predicted))) or 0.0 for predicted in maps]
        samples.append(ShownSample(sample=pair.sample, file=pair.file, loss=single[0] - single[1]))
        named = zip(("label", "float", "quantized"), (truth, *maps), strict=True)
        arrays |= {(name, pair.sample): values.astype(np.uint8) for name, values in named}
    ratios = [_ratios(side) for side in counts]
    means = [_mean(side) for side in ratios]
    labelled = counts[0, 1]
    mean = TaskFigure(name="mean IoU", count=int(labelled.sum()), floating=means[0], quantized=means[1])
    known = np.nonzero(~np.isnan(ratios[0]) | ~np.isnan(ratios[1]))[0]
    per_class = [
        TaskFigure(
            name=f"IoU of class {number}",
            count=int(labelled[number]),
            floating=_known(ratios[0][number]),
            quantized=_known(ratios[1][number]),
        )
        for number in known
    ]
    return Outcome([mean], per_class, samples, arrays)


def class_map(output: Any, where: str) -> Array:
    """Return the class of each pixel [H, W] of an output: classes, or scores [C, H, W].

    One channel of scores is the class 1 where it is positive (a logit) and 0 elsewhere.

    Raises:
        WorkbenchError: It is no picture.
    """
    try:
        values = np.asarray(output)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise invalid(where, f"returned {type(output).__name__}") from error
    if values.ndim == 4 and len(values) == 1:
        values = values[0]
    if values.ndim == 3:
        values = values.argmax(0) if len(values) > 1 else values[0] > 0
    if values.ndim != 2 or values.dtype.kind not in "iub":
        raise invalid(where, f"returned {list(values.shape)} values of {values.dtype}")
    if values.size and (values.min() < 0 or values.max() >= _MOST_CLASSES):
        raise invalid(where, f"returned classes outside 0 to {_MOST_CLASSES - 1}")
    return values.astype(np.int64)


def _truth(pair: Pair, shape: tuple[int, ...]) -> Array:
    truth = np.asarray(pair.label)
    if truth.dtype.kind not in "iubf" or truth.squeeze().ndim != 2:
        raise invalid_label(pair.sample, "is no map of classes")
    truth = truth.squeeze().astype(np.int64)
    if truth.shape == shape:
        return truth
    if shape[0] and truth.shape[0] * shape[1] == truth.shape[1] * shape[0]:
        # The model's map is a smaller or larger one of the same picture: nearest neighbours.
        rows = (np.arange(shape[0]) + 0.5) * truth.shape[0] // shape[0]
        columns = (np.arange(shape[1]) + 0.5) * truth.shape[1] // shape[1]
        resized: Array = truth[rows.astype(int)][:, columns.astype(int)]
        return resized
    raise invalid_label(
        pair.sample, f"has {truth.shape[0]} x {truth.shape[1]} pixels, the output {list(shape)}"
    )


def _counted(truth: Array, predicted: Array) -> Array:
    """Return the pixels of each class [3, C]: in both, labelled, predicted."""
    valid = (truth >= 0) & (truth < NO_CLASS)
    truth, predicted = truth[valid], predicted[valid]
    both = truth[truth == predicted]
    return np.stack([np.bincount(v, minlength=_MOST_CLASSES) for v in (both, truth, predicted)])


def _ratios(counts: Array) -> Array:
    """Return the intersection over union of each class [C]; NaN for classes that are nowhere."""
    union = counts[1] + counts[2] - counts[0]
    return np.divide(counts[0], union, out=np.full(len(union), np.nan), where=union > 0)


def _mean(ratios: Array) -> float | None:
    known = ratios[~np.isnan(ratios)]
    return float(known.mean()) if known.size else None


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
