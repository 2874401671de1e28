"""Comparison of several arithmetics of one model on the same samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine.evaluation.measures import Accumulator, merged, top_k_hit
from workbench.results import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from workbench.engine.data import Sample

    Compute = Callable[[Sample], list[torch.Tensor]]


@dataclass
class ReadingTally:
    """One arithmetic, and its difference from float over the samples so far.

    Attributes:
        id: Its id.
        title: Its display name.
        marks: The origin of the numbers.
        compute: Returns the outputs for the next sample; None for the main arithmetic, which
            the stage runs.
    """

    id: str
    title: str
    marks: str
    compute: Compute | None
    _sums: list[Accumulator] = field(default_factory=list)
    _count: int = 0
    _labelled: int = 0
    _hits: list[int] = field(default_factory=list)

    def add(self, sample: Sample, floats: list[torch.Tensor], main: list[torch.Tensor]) -> None:
        """Add a sample: the float outputs, and those of the main arithmetic."""
        outputs = main if self.compute is None else self.compute(sample)
        if not self._sums:
            self._sums = [Accumulator() for _ in floats]
            self._hits = [0 for _ in floats]
        for sums, a, b in zip(self._sums, floats, outputs, strict=True):
            sums.add(a, b)
        self._count += 1
        if sample.label is not None:
            self._labelled += 1
            for index, output in enumerate(outputs):
                self._hits[index] += bool(top_k_hit(output, sample.label, 1))

    def result(self, class_output: int) -> Reading:
        """Return the figures; ``class_output`` is the output that top-1 is counted on."""
        overall = merged(self._sums)
        hits = self._hits[min(class_output, len(self._hits) - 1)] if self._hits else 0
        known = self._count > 0 and self._labelled == self._count
        return Reading(
            id=self.id,
            title=self.title,
            marks=self.marks,
            sqnr_db=overall.sqnr_db,
            cosine=overall.cosine,
            max_abs_error=overall.worst,
            top1=hits / self._count if known else None,
            main=self.compute is None,
        )
