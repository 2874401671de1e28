"""Key points: the share of correct points (PCK)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.evaluation.tasks.outcome import Outcome, Pair, invalid, invalid_label
from workbench.results.task_quality import ShownPoint, ShownSample, TaskFigure

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]
# A point is correct within this share of the larger side of the labelled points' bounding box
# (Yang and Ramanan, Articulated human detection with flexible mixtures of parts, 2013).
WITHIN = 0.1


def key_points(pairs: Sequence[Pair], where: str) -> Outcome:
    """Return the share of correct points, PCK@0.1, over all visible points of all samples.

    Raises:
        WorkbenchError: Labels or outputs are no rows of points, or differ in number.
    """
    right: list[list[Array]] = [[], []]
    visible, samples = [], []
    for pair in pairs:
        truth, seen = _truth(pair)
        sides = [_points(output, len(truth), where) for output in pair.outputs]
        size = np.ptp(truth[seen], axis=0).max() if seen.any() else 0.0
        for hits, points in zip(right, sides, strict=True):
            hits.append(np.linalg.norm(points - truth, axis=1) <= WITHIN * size)
        visible.append(seen)
        distances = [np.linalg.norm(points - truth, axis=1)[seen] for points in sides]
        loss = float(distances[1].mean() - distances[0].mean()) if seen.any() else 0.0
        listed = [
            tuple(ShownPoint(x=float(x), y=float(y)) for x, y in points) for points in (truth[seen], *sides)
        ]
        samples.append(
            ShownSample(
                sample=pair.sample,
                file=pair.file,
                loss=loss,
                label_points=listed[0],
                float_points=listed[1],
                quantized_points=listed[2],
            )
        )
    if len({len(seen) for seen in visible}) > 1:
        raise invalid_label(pairs[0].sample, "has another number of key points than other labels")
    mask = np.stack(visible) if visible else np.zeros((0, 0), bool)
    hits = [np.stack(side) if side else mask for side in right]
    per_point = [
        _figure(f"point {number}", mask[:, number], *(side[:, number] for side in hits))
        for number in range(mask.shape[1])
    ]
    return Outcome([_figure("PCK@0.1", mask, *hits)], per_point, samples)


def _figure(name: str, visible: Array, floating: Array, quantized: Array) -> TaskFigure:
    count = int(visible.sum())
    shares = [float(side[visible].mean()) if count else None for side in (floating, quantized)]
    return TaskFigure(name=name, count=count, floating=shares[0], quantized=shares[1])


def _truth(pair: Pair) -> tuple[Array, Array]:
    """Return labelled points [K, 2] and which are visible [K]."""
    try:
        points = np.asarray(pair.label, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid_label(pair.sample, "is no array of points") from error
    if points.ndim != 2 or points.shape[1] not in {2, 3} or not np.isfinite(points).all():
        raise invalid_label(pair.sample, f"has the shape {list(points.shape)}")
    visible = points[:, 2] > 0 if points.shape[1] == 3 else np.ones(len(points), bool)
    return points[:, :2], visible


def _points(output: Any, count: int, where: str) -> Array:
    """Return decoded points [K, 2]; the first two of more columns, without a leading batch of 1."""
    try:
        points = np.asarray(output, np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise invalid(where, f"returned {type(output).__name__}") from error
    if points.ndim == 3 and len(points) == 1:
        points = points[0]
    if points.size == 2 * count and points.ndim in {1, 2}:
        points = points.reshape(count, 2)
    if points.ndim != 2 or len(points) != count or points.shape[1] < 2:
        raise invalid(where, f"returned {list(points.shape)} values for {count} labelled points")
    if not np.isfinite(points).all():
        raise invalid(where, "returned NaN or infinity")
    return points[:, :2]
