"""Detectors: decoded objects, non-maximum suppression, and mean average precision by COCO."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.evaluation.tasks import oriented
from workbench.engine.evaluation.tasks.outcome import Outcome, Pair, invalid, invalid_label
from workbench.errors import Place, failure
from workbench.results.task_quality import ShownObject, ShownSample, TaskFigure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.errors import WorkbenchError
    from workbench.project.model import ObjectSelection

Array = np.ndarray[Any, Any]
# Objects of two programs are the same if their boxes overlap by so much, and their class is equal.
SAME_IOU = 0.5
# More rows than any head returns would take minutes of suppression.
_MOST_CANDIDATES = 30_000


@dataclass(frozen=True)
class Objects:
    """Boxes [N, 4] (left, top, right, bottom in pixels of the input), scores [N], classes [N].

    ``count`` is the number of classes that the decoder knows; None if it does not say it.
    ``corners`` [N, 4, 2] are those of oriented boxes, which ``boxes`` are around; None for others.
    """

    boxes: Array
    scores: Array
    classes: Array
    count: int | None = None
    corners: Array | None = None

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, rows: Any) -> Objects:
        corners = None if self.corners is None else self.corners[rows]
        return Objects(self.boxes[rows], self.scores[rows], self.classes[rows], self.count, corners)


@dataclass(frozen=True)
class Truth:
    """The labelled boxes [N, 4], classes [N] and crowds [N] of a sample.

    ``corners`` [N, 4, 2] are those of oriented boxes; of upright ones where labels have no other.
    ``places`` say where each is in the labels, "" where that is unknown.
    """

    boxes: Array
    classes: Array
    crowds: Array
    corners: Array
    places: tuple[str, ...]


def objects_of(value: Any, where: str) -> Objects:
    """Return what a decoder returned for a sample.

    Args:
        value: A mapping, or a sequence in this order, of ``boxes`` [N, 4] in pixels of the model's
            input, ``scores`` and ``classes`` [N]. With ``scores`` [N, C] there are no classes: each
            score above zero is an object of its own. ``boxes`` [N, 5] are oriented: centre x and
            y, width, height, and angle in radians from the x to the y axis.
        where: The place of the decoder, for messages.

    Raises:
        WorkbenchError: It is something else, or holds NaN.
    """
    if hasattr(value, "keys"):
        parts = [value.get(name) for name in ("boxes", "scores", "classes")]
    elif isinstance(value, list | tuple) and len(value) in {2, 3}:
        parts = [*value, None][:3]
    else:
        raise invalid(where, f"returned {type(value).__name__}")
    if parts[0] is None or parts[1] is None:
        raise invalid(where, "returned no boxes or no scores")
    try:
        boxes, scores = (np.asarray(part, np.float64) for part in parts[:2])
        classes = None if parts[2] is None else np.asarray(parts[2], np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise invalid(where, "returned something that is no array of numbers") from error
    boxes = boxes.reshape(-1, 4) if boxes.size == 0 else boxes
    if boxes.ndim != 2 or boxes.shape[1] not in {4, 5} or scores.shape[:1] != boxes.shape[:1]:
        raise invalid(where, f"returned boxes {list(boxes.shape)}, scores {list(scores.shape)}")
    count = scores.shape[1] if classes is None and scores.ndim == 2 else None
    if count is not None:
        rows, columns = np.nonzero(scores > 0)
        boxes, scores, classes = boxes[rows], scores[rows, columns], columns.astype(np.float64)
    if classes is None or scores.shape != (len(boxes),) or classes.shape != scores.shape:
        raise invalid(where, "returned no class for each box")
    if not all(np.isfinite(part).all() for part in (boxes, scores, classes)):
        raise invalid(where, "returned NaN or infinity")
    corners = oriented.corners_of(boxes) if boxes.shape[1] == 5 else None
    upright = boxes if corners is None else oriented.upright_of(corners)
    return Objects(upright, scores, classes.astype(np.int64), count, corners)


def truth_of(label: Any, sample: int) -> Truth:
    """Return what a label says.

    Args:
        label: A mapping of ``boxes`` [N, 4] in pixels of the model's input, or [N, 5] as a decoder
            gives oriented ones, and ``classes`` [N], of which negative ones are padding;
            ``crowds`` [N], ``corners`` [N, 4, 2] of oriented boxes, and ``places``, where each is
            in a file, may be there.
        sample: The sample, for messages.

    Raises:
        WorkbenchError: It is something else.
    """
    if not hasattr(label, "keys") or not {"boxes", "classes"} <= set(label.keys()):
        raise invalid_label(sample, "has no boxes and classes")
    try:
        boxes = np.asarray(label["boxes"], np.float64)
        boxes = boxes if boxes.ndim == 2 and boxes.shape[1] == 5 else boxes.reshape(-1, 4)
        corners = np.asarray(label.get("corners", oriented.corners_of(boxes)), np.float64)
        corners = corners.reshape(-1, 4, 2)
        classes = np.asarray(label["classes"], np.int64).reshape(-1)
        crowds = np.asarray(label.get("crowds", np.zeros(len(classes))), bool).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid_label(sample, "has boxes that are no rows of four numbers, or five") from error
    counts = {len(boxes), len(corners), len(classes), len(crowds)}
    if len(counts) > 1 or not np.isfinite(boxes).all() or not np.isfinite(corners).all():
        raise invalid_label(sample, "has not a class for each box")
    upright = boxes if boxes.shape[1] == 4 else oriented.upright_of(corners)
    real = classes >= 0
    known = label.get("places")
    is_named = isinstance(known, list | tuple) and len(known) == len(classes)
    places = tuple(str(known[row]) if is_named else "" for row in np.nonzero(real)[0])
    return Truth(upright[real], classes[real], crowds[real], corners[real], places)


def shared(first: Objects, second: Objects) -> Array:
    """Return the intersection over union of the boxes of two sides as [N, M]."""
    if first.corners is None or second.corners is None:
        return overlaps(first.boxes, second.boxes)
    return _over_union(
        oriented.intersections(first.corners, second.corners),
        oriented.areas(first.corners),
        oriented.areas(second.corners),
    )


def overlaps(first: Array, second: Array) -> Array:
    """Return the intersection over union of boxes [N, 4] and [M, 4] as [N, M]."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    inner = (high - low).clip(0).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).clip(0).prod(1) for boxes in (first, second)]
    return _over_union(inner, *areas)


def _over_union(inner: Array, first: Array, second: Array) -> Array:
    """Return common areas [N, M] over the union of the areas [N] and [M]."""
    union = first[:, None] + second[None, :] - inner
    return np.divide(inner, union, out=np.zeros_like(inner), where=union > 0)


def selected(objects: Objects, choice: ObjectSelection) -> Objects:
    """Return the objects that count, the best first.

    Greedy non-maximum suppression for each class: of the remaining objects the one with the highest
    score stays, and those that overlap it by more than ``choice.iou`` go.
    """
    objects = objects[objects.scores >= choice.confidence]
    objects = objects[np.argsort(-objects.scores, kind="stable")[:_MOST_CANDIDATES]]
    alive, best = np.ones(len(objects), bool), []
    for row in range(len(objects)):
        if not alive[row]:
            continue
        best.append(row)
        if len(best) == choice.most:
            break
        same = alive & (objects.classes == objects.classes[row])
        same[: row + 1] = False
        others = np.nonzero(same)[0]
        covered = shared(objects[row : row + 1], objects[others])[0] > choice.iou
        alive[others[covered]] = False
    return objects[np.array(best, np.int64)]


def matched(first: Objects, second: Objects) -> tuple[Array, Array]:
    """Return which objects of each side the other one has too; each is matched once."""
    same = np.zeros(len(first), bool), np.zeros(len(second), bool)
    if len(first) and len(second):
        common = shared(first, second)
        common[first.classes[:, None] != second.classes[None, :]] = 0
        for row in range(len(first)):
            column = int(np.where(same[1], -1, common[row]).argmax())
            if not same[1][column] and common[row, column] >= SAME_IOU:
                same[0][row] = same[1][column] = True
    return same


def detection(pairs: Sequence[Pair], choice: ObjectSelection, where: str) -> Outcome:
    """Return the figures of a detector.

    mAP50 is the mean average precision over classes at an intersection over union of 0.5, mAP50-95
    its mean over 0.5, 0.55, ... 0.95, both as COCO computes them (101 recalls, 100 objects), by
    pycocotools. The recall of a class is at 0.5. Oriented boxes of a decoder are compared with those
    of the labels, or with upright ones where labels have no other.

    Raises:
        WorkbenchError: Labels or decoded objects are not what they should be.
    """
    truths = [truth_of(pair.label, pair.sample) for pair in pairs]
    sides = [[selected(objects_of(pair.outputs[side], where), choice) for pair in pairs] for side in (0, 1)]
    _require_classes(pairs, truths, sides[0])
    measured = [_coco(truths, side) for side in sides]
    figures = [
        TaskFigure(name=name, count=sum(len(t.classes) for t in truths), floating=a, quantized=b)
        for name, a, b in zip(("mAP50-95", "mAP50"), measured[0][0], measured[1][0], strict=True)
    ]
    per_class = [
        TaskFigure(name=f"recall of class {number}", count=count, floating=recalls, quantized=other)
        for (number, count, recalls), (_, _, other) in zip(measured[0][1], measured[1][1], strict=True)
    ]
    shown = [
        _shown(pair, truth, (sides[0][i], sides[1][i]), choice)
        for i, (pair, truth) in enumerate(zip(pairs, truths, strict=True))
    ]
    return Outcome(figures, per_class, shown)


def _require_classes(pairs: Sequence[Pair], truths: Sequence[Truth], detected: Sequence[Objects]) -> None:
    """Check the labelled classes against those that the decoder knows.

    Raises:
        WorkbenchError: One is outside.
    """
    for pair, truth, objects in zip(pairs, truths, detected, strict=True):
        outside = np.nonzero(truth.classes >= (objects.count or np.inf))[0]
        if objects.count is not None and len(outside):
            row = int(outside[0])
            raise _class_outside(pair, truth.places[row], int(truth.classes[row]), objects.count)


def _class_outside(pair: Pair, label_name: str, category: int, count: int) -> WorkbenchError:
    of = pair.file or f"sample {pair.sample}"
    return failure(
        f"{label_name or 'The label'} of {of} has the class {category}, "
        f"but the model's are 0 to {count - 1}.",
        "Correct the class, or leave the object out of the labels.",
        Place(kind="option", id="evaluation.data.labels"),
        code="label-invalid",
    )


def _coco(
    truths: Sequence[Truth], detected: Sequence[Objects]
) -> tuple[tuple[float | None, float | None], list[tuple[int, int, float | None]]]:
    """Return mAP50-95 and mAP50, and (class, labelled objects, recall at 0.5) of each class."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    classes = sorted({int(c) for truth in truths for c in truth.classes})
    rows = [
        _annotation(image, box, number, iscrowd=int(crowd), corners=corners)
        for image, t in enumerate(truths)
        for box, number, crowd, corners in zip(t.boxes, t.classes, t.crowds, t.corners, strict=True)
    ]
    results = [
        _annotation(image, side.boxes[i], side.classes[i], score=float(side.scores[i]), corners=corners)
        for image, side in enumerate(detected)
        for i, corners in enumerate([None] * len(side) if side.corners is None else side.corners)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        sides = []
        for annotations in (rows, results):
            side = COCO()
            side.dataset = {
                "info": {}, "images": [{"id": i} for i in range(len(truths))],
                "categories": [{"id": c} for c in classes],
                # An id of 0 would count as no match.
                "annotations": [{**row, "id": i} for i, row in enumerate(annotations, 1)],
            }  # fmt: skip
            side.createIndex()
            sides.append(side)
        evaluation = COCOeval(*sides, "bbox")
        if any(side.corners is not None for side in detected):
            evaluation.computeIoU = partial(_oriented_overlaps, evaluation)
        evaluation.evaluate()
        evaluation.accumulate()
    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]
    counts = [sum(int(((t.classes == c) & ~t.crowds).sum()) for t in truths) for c in classes]
    per_class = [
        (number, count, _mean(recall[0, index, 0, -1:]))
        for index, (number, count) in enumerate(zip(classes, counts, strict=True))
    ]
    return (_mean(precision[:, :, :, 0, -1]), _mean(precision[0, :, :, 0, -1])), per_class


def _oriented_overlaps(evaluation: Any, image: int, category: int) -> Any:
    """Return the overlaps of an image's detections, the best first, and labels, as [N, M].

    In place of ``COCOeval.computeIoU`` (pycocotools 2.0.11); that of a crowd is the part of the
    detection that it covers.
    """
    labels, detections = (side[image, category] for side in (evaluation._gts, evaluation._dts))  # noqa: SLF001
    if not labels or not detections:
        return []
    detections = sorted(detections, key=lambda row: -row["score"])[: evaluation.params.maxDets[-1]]
    second, first = (np.stack([row["corners"] for row in rows]) for rows in (labels, detections))
    common, own = oriented.intersections(first, second), oriented.areas(first)
    crowds = np.array([bool(row["iscrowd"]) for row in labels])
    covered = np.divide(common, own[:, None], out=np.zeros_like(common), where=own[:, None] > 0)
    return np.where(crowds[None], covered, _over_union(common, own, oriented.areas(second)))


def _annotation(image: int, box: Array, number: int, **more: Any) -> dict[str, Any]:
    left, top, right, bottom = (float(side) for side in box)
    width, height = max(right - left, 0.0), max(bottom - top, 0.0)
    return {
        "image_id": image,
        "category_id": int(number),
        "bbox": [left, top, width, height],
        "area": width * height,
        "iscrowd": 0,
        **more,
    }


def _mean(values: Array) -> float | None:
    """Return the mean of figures; COCO marks those without labels by -1."""
    known = values[values > -1]
    return float(known.mean()) if known.size else None


def _shown(
    pair: Pair, truth: Truth, objects: tuple[Objects, Objects], choice: ObjectSelection
) -> ShownSample:
    sides = [side[side.scores >= choice.shown] for side in objects]
    same = matched(sides[0], sides[1])
    lost, added = (int((~side).sum()) for side in same)
    is_oriented = sides[0].corners is not None
    labels = tuple(
        ShownObject(
            box=tuple(map(float, box)),
            category=int(number),
            corners=tuple(map(float, corners.reshape(-1))) if is_oriented else (),
        )
        for box, number, corners in zip(truth.boxes, truth.classes, truth.corners, strict=True)
    )
    return ShownSample(
        sample=pair.sample,
        file=pair.file,
        loss=lost + added,
        lost=lost,
        added=added,
        label_objects=labels,
        float_objects=_listed(sides[0], same[0]),
        quantized_objects=_listed(sides[1], same[1]),
    )


def _listed(objects: Objects, same: Array) -> tuple[ShownObject, ...]:
    corners = np.zeros((len(objects), 0)) if objects.corners is None else objects.corners.reshape(-1, 8)
    rows = zip(objects.boxes, objects.scores, objects.classes, same, corners, strict=True)
    return tuple(
        ShownObject(
            box=tuple(map(float, box)),
            category=int(number),
            score=float(score),
            changed=not equal,
            corners=tuple(map(float, points)),
        )
        for box, score, number, equal, points in rows
    )
