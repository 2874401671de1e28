"""Comparison of several arithmetics of one model on the same samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine.quality.measures import Accumulator, merged, top_k_hit
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
    _hits: int = 0

    def add(self, sample: Sample, floats: list[torch.Tensor], main: list[torch.Tensor]) -> None:
        """Add a sample: the float outputs, and those of the main arithmetic."""
        outputs = main if self.compute is None else self.compute(sample)
        if not self._sums:
            self._sums = [Accumulator() for _ in floats]
        for sums, a, b in zip(self._sums, floats, outputs, strict=True):
            sums.add(a, b)
        self._count += 1
        if sample.label is not None:
            self._labelled += 1
            self._hits += bool(top_k_hit(outputs[0], sample.label, 1))

    @property
    def result(self) -> Reading:
        """The figures."""
        overall = merged(self._sums)
        known = self._count > 0 and self._labelled == self._count
        return Reading(
            id=self.id, title=self.title, marks=self.marks, sqnr_db=overall.sqnr_db,
            cosine=overall.cosine, max_abs_error=overall.worst,
            top1=self._hits / self._count if known else None, main=self.compute is None,
        )  # fmt: skip
