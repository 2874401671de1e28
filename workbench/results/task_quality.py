"""What a detector, a segmentation or key points lose by quantization, in the task's own figures."""

from __future__ import annotations

from typing import Literal

from workbench.project.frozen import Frozen


class TaskFigure(Frozen):
    """A figure of both programs, from 0 to 1; None where nothing is labelled.

    ``count`` is the number of labelled objects, pixels or points behind it.
    """

    name: str
    count: int
    floating: float | None
    quantized: float | None


class ShownObject(Frozen):
    """A box (left, top, right, bottom) in pixels of the model's input; labels have no score.

    ``changed`` is whether the other program has no such object. ``corners`` are x and y of the four
    corners of an oriented box, which ``box`` is around; empty for upright ones.
    """

    box: tuple[float, float, float, float]
    category: int
    score: float | None = None
    changed: bool = False
    corners: tuple[float, ...] = ()


class ShownPoint(Frozen):
    """A key point in pixels of the model's input."""

    x: float
    y: float


class ShownSample(Frozen):
    """A sample with what is labelled and what both programs return.

    ``lost`` counts objects of the float model that the quantized one has not, ``added`` those that
    only it has. ``loss`` is by how much the sample is worse than in float, to order samples.
    """

    sample: int
    file: str = ""
    loss: float = 0.0
    lost: int = 0
    added: int = 0
    label_objects: tuple[ShownObject, ...] = ()
    float_objects: tuple[ShownObject, ...] = ()
    quantized_objects: tuple[ShownObject, ...] = ()
    label_points: tuple[ShownPoint, ...] = ()
    float_points: tuple[ShownPoint, ...] = ()
    quantized_points: tuple[ShownPoint, ...] = ()


class TaskQuality(Frozen):
    """The figures of one of the program's own metrics, and the samples with the largest loss.

    ``per_class`` holds the recall of each class (detection), its intersection over union
    (segmentation), or the share of correct points of each key point. ``lost`` and ``added`` count
    objects over all samples. ``width`` and ``height`` [pixels] are those of the model's input.
    """

    metric: Literal["detection", "segmentation", "key_points"]
    figures: tuple[TaskFigure, ...]
    per_class: tuple[TaskFigure, ...] = ()
    lost: int = 0
    added: int = 0
    width: int = 0
    height: int = 0
    samples: tuple[ShownSample, ...] = ()
