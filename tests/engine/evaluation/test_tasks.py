"""The program's own metrics: detection, segmentation and key points."""

import numpy as np
import pytest

from workbench.engine.evaluation.tasks.detection import Objects, detection, objects_of, selected
from workbench.engine.evaluation.tasks.key_points import key_points
from workbench.engine.evaluation.tasks.outcome import Pair
from workbench.engine.evaluation.tasks.segmentation import segmentation
from workbench.errors import WorkbenchError
from workbench.project.model import ObjectSelection

ALL = ObjectSelection(iou=1)
BOX, FAR = [10.0, 10, 30, 30], [60.0, 60, 90, 80]


def found(boxes, scores, classes):
    return {"boxes": boxes, "scores": scores, "classes": classes}


def labelled(boxes, classes):
    return {"boxes": boxes, "classes": classes}


def pair(label, floating, quantized, sample=0):
    return Pair(sample, "", label, (floating, quantized))


def test_that_what_only_one_model_finds_is_lost_or_new():
    label = labelled([BOX, FAR], [1, 2])
    both = found([BOX, FAR], [0.9, 0.8], [1, 2])
    other = found([BOX, [0, 60, 20, 80]], [0.9, 0.8], [1, 2])
    outcome = detection([pair(label, both, other)], ALL, "")
    shown = outcome.samples[0]
    assert (shown.lost, shown.added) == (1, 1)
    assert [one.changed for one in shown.float_objects] == [False, True]
    assert outcome.figures[0].floating == pytest.approx(1)
    recalls = {row.name: (row.floating, row.quantized) for row in outcome.per_class}
    assert recalls == {"recall of class 1": (1, 1), "recall of class 2": (1, 0)}
    assert outcome.figures[1].quantized == pytest.approx(0.5)


def test_that_a_box_with_half_of_the_overlap_counts_for_map50_only():
    # Shifted by a quarter of its width: 15 * 20 of 25 * 20 pixels are shared, 0.6.
    shifted = found([[15.0, 10, 35, 30]], [0.9], [0])
    outcome = detection([pair(labelled([BOX], [0]), shifted, shifted)], ALL, "")
    mean, at_half = (row.floating for row in outcome.figures)
    assert at_half == pytest.approx(1)
    # 0.5, 0.55 and 0.6 of ten thresholds.
    assert mean == pytest.approx(0.3)


def test_that_nothing_found_and_nothing_labelled_are_figures_too():
    empty = found(np.zeros((0, 4)), [], [])
    outcome = detection([pair(labelled([BOX], [0]), empty, empty)], ALL, "")
    assert outcome.figures[0].floating == 0
    nothing = labelled(np.zeros((0, 4)), [])
    outcome = detection([pair(nothing, empty, empty)], ALL, "")
    assert outcome.figures[0].floating is None


def test_that_suppression_keeps_what_no_better_box_of_its_class_covers():
    draw = np.random.default_rng(3)
    corners = draw.uniform(0, 60, (200, 2))
    boxes = np.concatenate([corners, corners + draw.uniform(5, 30, (200, 2))], 1)
    objects = Objects(boxes, draw.uniform(0, 1, 200), draw.integers(0, 3, 200))
    kept = selected(objects, ObjectSelection(confidence=0.2, iou=0.4, most=1000))

    def share(a, b):
        width = min(a[2], b[2]) - max(a[0], b[0])
        height = min(a[3], b[3]) - max(a[1], b[1])
        inner = max(width, 0) * max(height, 0)
        area = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)]
        return inner / (sum(area) - inner)

    expected = []
    for row in sorted(range(200), key=lambda i: -objects.scores[i]):
        rivals = [r for r in expected if objects.classes[r] == objects.classes[row]]
        if objects.scores[row] >= 0.2 and all(share(boxes[r], boxes[row]) <= 0.4 for r in rivals):
            expected.append(row)
    assert kept.scores.tolist() == objects.scores[expected].tolist()


def test_that_scores_of_every_class_are_objects_of_their_own():
    objects = objects_of({"boxes": [BOX, FAR], "scores": [[0.5, 0.0], [0.25, 0.75]]}, "")
    assert objects.classes.tolist() == [0, 0, 1]
    assert objects.boxes[1:].tolist() == [FAR, FAR]


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        {},
        {"boxes": [BOX]},
        found([BOX], [0.5, 0.5], [0]),
        found([BOX], [np.nan], [0]),
        found([[1, 2, 3]], [0.5], [0]),
        found([BOX], ["a"], [0]),
    ],
)
def test_that_a_decoder_that_returns_something_else_is_refused(value):
    with pytest.raises(WorkbenchError) as caught:
        objects_of(value, "heads.py, line 3")
    assert caught.value.infos[0].code == "decoded-invalid"


def test_that_a_labelled_class_that_the_model_has_not_is_refused():
    scores = {"boxes": [BOX], "scores": [[0.5, 0.1]]}
    with pytest.raises(WorkbenchError) as caught:
        detection([pair(labelled([BOX], [2]), scores, scores)], ALL, "")
    assert caught.value.infos[0].code == "label-invalid"
    placed = labelled([BOX, FAR], [0, 2]) | {"places": ["a.txt, line 1", "a.txt, line 2"]}
    with pytest.raises(WorkbenchError) as caught:
        detection([pair(placed, scores, scores)], ALL, "")
    assert caught.value.infos[0].message.startswith("a.txt, line 2 ")


def test_that_segmentation_counts_intersection_over_union():
    truth = np.array([[0, 0, 1, 1], [0, 0, 1, 255]])
    logits = np.zeros((1, 2, 2, 4))
    logits[0, 1, :, 1:] = 1
    outcome = segmentation([pair(truth, logits, logits)], "")
    ious = {row.name: row.floating for row in outcome.per_class}
    # Class 0: 2 of 4 pixels; class 1: 3 of 5, and one pixel does not count.
    assert ious == {"IoU of class 0": 0.5, "IoU of class 1": 0.6}
    assert outcome.figures[0].floating == pytest.approx(0.55)


def test_that_points_are_right_within_a_tenth_of_the_extent():
    truth = np.array([[0.0, 0, 2], [100, 0, 2], [50, 50, 0]])
    near, far = truth[:, :2] + [6, 8], truth[:, :2] + [9, 8]
    outcome = key_points([pair(truth, near, far)], "")
    assert (outcome.figures[0].floating, outcome.figures[0].quantized) == (1, 0)
    # The third point is not visible.
    assert [row.count for row in outcome.per_class] == [1, 1, 0]
