"""The samples on which the quantized model is furthest from the float one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine.quality import Accumulator
from workbench.results import SampleQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from workbench.engine.data import Sample

KEPT = 50


@dataclass
class WorstSamples:
    """Compares sample by sample, over all outputs together."""

    found: list[SampleQuality] = field(default_factory=list)

    def add(
        self, sample: Sample, floats: Sequence[torch.Tensor], quantized: Sequence[torch.Tensor]
    ) -> None:
        """Take in what both sides gave for one sample."""
        sums = Accumulator()
        for a, b in zip(floats, quantized, strict=True):
            sums.add(a, b)
        is_labelled = sample.label is not None
        self.found.append(SampleQuality(
            sample=sample.index, sqnr_db=sums.sqnr_db, max_abs_error=sums.worst,
            label=sample.label,
            float_class=int(floats[0].argmax()) if is_labelled else None,
            quantized_class=int(quantized[0].argmax()) if is_labelled else None,
        ))  # fmt: skip

    def result(self) -> tuple[SampleQuality, ...]:
        """Return the worst samples, those with another class first, then by SQNR."""

        def badness(found: SampleQuality) -> tuple[bool, float]:
            same = found.float_class == found.quantized_class
            return same, math.inf if found.sqnr_db is None else found.sqnr_db

        return tuple(sorted(self.found, key=badness)[:KEPT])
