"""What a metric of the program gets for each sample, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.errors import Place, failure

if TYPE_CHECKING:
    import numpy as np

    from workbench.errors import WorkbenchError
    from workbench.results.task_quality import ShownSample, TaskFigure


@dataclass(frozen=True)
class Pair:
    """A sample's label, and the decoded outputs of the float and the quantized model."""

    sample: int
    file: str
    label: Any
    outputs: tuple[Any, Any]


@dataclass(frozen=True)
class Outcome:
    """The figures, the first of which is the metric, those of each class, and every sample.

    ``arrays`` are masks of samples [H, W], by ``label``, ``float`` or ``quantized`` and the sample.
    """

    figures: list[TaskFigure]
    per_class: list[TaskFigure]
    samples: list[ShownSample]
    arrays: Mapping[tuple[str, int], np.ndarray[Any, Any]] = field(default_factory=dict)


def invalid(where: str, what: str) -> WorkbenchError:
    """Return the error for a decoder's result."""
    return failure(
        f"The decoder{f' at {where}' if where else ''} {what}.",
        "For detection it returns boxes [N, 4] (left, top, right, bottom in pixels of the input) or "
        "[N, 5] (centre, size, angle), scores [N] and classes [N]; for segmentation classes or scores "
        "of each pixel; for key points [K, 2].",
        Place(kind="option", id="evaluation.decode"),
        code="decoded-invalid",
    )


def invalid_label(sample: int, what: str) -> WorkbenchError:
    """Return the error for a label that does not fit the metric."""
    return failure(
        f"The label of sample {sample} {what}.",
        "For detection give a file of COCO, a folder of YOLO texts, or boxes and classes for each "
        "sample; for segmentation a folder of masks, or an array [N, H, W]; for key points an "
        "array [N, K, 2], or [N, K, 3] with the visibility.",
        Place(kind="option", id="evaluation.data.labels"),
        code="label-invalid",
    )
