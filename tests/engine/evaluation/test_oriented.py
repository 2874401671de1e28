"""Oriented boxes: overlaps against areas that are counted on a grid of points."""

import math

import numpy as np
import pytest

from workbench.engine.evaluation.tasks import oriented
from workbench.engine.evaluation.tasks.detection import detection, objects_of, selected, shared
from workbench.engine.evaluation.tasks.outcome import Pair
from workbench.errors import WorkbenchError
from workbench.project.model import ObjectSelection

ALL = ObjectSelection(iou=1)
GRID = 1200
EIGHT = 2 * (math.sqrt(2) - 1)


def covered(box, x, y):
    """Return which points are inside of a box: turned back, they are within half of its sides."""
    across, down, width, height, angle = box
    dx, dy = x - across, y - down
    along, beside = dx * math.cos(angle) + dy * math.sin(angle), dy * math.cos(angle) - dx * math.sin(angle)
    return (abs(along) <= width / 2) & (abs(beside) <= height / 2)


def counted(first, second):
    """Return the intersection over union of two boxes, by counting points."""
    reach = np.hypot(*np.maximum(first[2:4], second[2:4]))
    centre = (first[:2] + second[:2]) / 2
    side = np.linspace(-reach, reach, GRID)
    x, y = np.meshgrid(centre[0] + side, centre[1] + side)
    a, b = covered(first, x, y), covered(second, x, y)
    return (a & b).sum() / max((a | b).sum(), 1)


def overlap(first, second):
    one, other = (
        objects_of({"boxes": np.atleast_2d(box), "scores": [1.0], "classes": [0]}, "")
        for box in (first, second)
    )
    return float(shared(one, other)[0, 0])


@pytest.mark.slow
def test_that_overlaps_of_drawn_boxes_are_those_that_are_counted():
    draw = np.random.default_rng(5)
    for _ in range(40):
        first, second = (
            np.concatenate([draw.uniform(0, 30, 2), draw.uniform(2, 40, 2), draw.uniform(-7, 7, 1)])
            for _ in range(2)
        )
        assert overlap(first, second) == pytest.approx(counted(first, second), abs=0.01)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([50, 50, 20, 10, 0.3], [50, 50, 20, 10, 0.3], 1.0),
        ([50, 50, 20, 10, 0.3], [50, 50, 10, 20, 0.3 + math.pi / 2], 1.0),
        # An octagon: of two squares with side 1, 2 (sqrt 2 - 1) is shared.
        ([50, 50, 20, 20, 0.0], [50, 50, 20, 20, math.pi / 4], EIGHT / (2 - EIGHT)),
        ([50, 50, 20, 10, 1.0], [50, 50, 10, 5, 1.0], 0.25),
        ([50, 50, 20, 10, 0.0], [70, 50, 20, 10, 0.0], 0.0),
        ([50, 50, 20, 10, 0.0], [60, 50, 20, 10, 0.0], 1 / 3),
        ([50, 50, 0, 10, 0.2], [50, 50, 20, 10, 0.2], 0.0),
        ([5e5, 5e5, 20, 10, 0.7], [5e5, 5e5, 20, 10, 0.7], 1.0),
    ],
)
def test_that_overlaps_that_are_known_are_exact(first, second, expected):
    assert overlap(np.array(first, float), np.array(second, float)) == pytest.approx(expected, abs=1e-6)


def test_that_corners_may_be_in_any_order():
    corners = oriented.corners_of(np.array([[50, 50, 30, 10, 0.4]]))
    other = oriented.corners_of(np.array([[55, 52, 20, 20, 1.1]]))
    expected = oriented.intersections(corners, other)
    for order in ([3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2]):
        assert oriented.intersections(corners[:, order], other) == pytest.approx(expected)


def scored(boxes, scores, classes):
    return {"boxes": np.array(boxes, float), "scores": scores, "classes": classes}


# Both turned by 45 degrees, beside each other: the upright boxes around them overlap by half.
LEFT, RIGHT = [40.0, 40, 40, 6, math.pi / 4], [48.0, 34, 40, 6, math.pi / 4]


def test_that_boxes_that_only_overlap_around_them_are_neither_suppressed_nor_hits():
    both = objects_of(scored([LEFT, RIGHT], [0.9, 0.8], [0, 0]), "")
    assert len(selected(both, ObjectSelection(iou=0.3))) == 2
    label = {"boxes": [LEFT], "classes": [0]}
    right, wrong = (scored([box], [0.9], [0]) for box in (LEFT, RIGHT))
    outcome = detection([Pair(0, "", label, (right, wrong))], ALL, "")
    assert [row.floating for row in outcome.figures] == pytest.approx([1, 1])
    assert [row.quantized for row in outcome.figures] == [0, 0]
    shown = outcome.samples[0]
    assert (shown.lost, shown.added) == (1, 1)
    expected = oriented.corners_of(np.array([LEFT])).reshape(-1)
    assert shown.label_objects[0].corners == pytest.approx(expected)
    assert shown.float_objects[0].corners == pytest.approx(expected)


def test_that_thresholds_are_those_of_the_overlap_of_the_boxes_themselves():
    # Moved along its length by a quarter: 30 of 50 are shared, 0.6, which is on a threshold.
    step = 10 / math.sqrt(2)
    moved = [40 + step, 40 + step, 40, 6, math.pi / 4]
    label = {"boxes": [LEFT], "classes": [0]}
    side = scored([moved], [0.9], [0])
    mean, at_half = (r.floating for r in detection([Pair(0, "", label, (side, side))], ALL, "").figures)
    assert at_half == pytest.approx(1)
    assert mean == pytest.approx(0.2, abs=0.1001)


def test_that_upright_labels_are_compared_as_boxes_without_an_angle():
    label = {"boxes": [[30.0, 20, 50, 40]], "classes": [0]}
    side = scored([[40, 30, 20, 20, math.pi / 2]], [0.9], [0])
    outcome = detection([Pair(0, "", label, (side, side))], ALL, "")
    assert outcome.figures[0].floating == pytest.approx(1)


def test_that_a_crowd_takes_what_it_covers():
    label = {"boxes": [LEFT, [45.0, 37, 90, 60, 0.1]], "classes": [0, 0], "crowds": [0, 1]}
    side = scored([LEFT, RIGHT], [0.8, 0.9], [0, 0])
    outcome = detection([Pair(0, "", label, (side, side))], ALL, "")
    assert outcome.figures[0].floating == pytest.approx(1)


@pytest.mark.parametrize(
    "label",
    [
        {"boxes": [LEFT], "classes": [0, 1]},
        {"boxes": [[1, 2, 3, 4, math.nan]], "classes": [0]},
        {"boxes": [[1, 2, 3]], "classes": [0]},
        {"boxes": [LEFT], "classes": [0], "corners": [[1, 2, 3]]},
    ],
)
def test_that_labels_that_are_no_boxes_are_refused(label):
    side = scored([LEFT], [0.9], [0])
    with pytest.raises(WorkbenchError) as caught:
        detection([Pair(4, "", label, (side, side))], ALL, "")
    assert caught.value.infos[0].code == "label-invalid"
