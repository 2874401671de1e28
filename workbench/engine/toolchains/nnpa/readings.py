"""The two readings of the arithmetic, side by side."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from workbench.engine.readings import ReadingTally
from workbench.engine.stepping import Steps, plain_attention
from workbench.engine.toolchains.nnpa.quantizing import convert, options_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from workbench.engine.context import StageContext
    from workbench.engine.data import Sample

TITLES = {
    "nnpa": ("NNPA model", "emulated: dlfloat16 operands, scales, correction and result"),
    "document": ("Document", "emulated: the document's equations in float32"),
}


def readings(context: StageContext) -> list[ReadingTally]:
    """Return both readings, the project's first and run by the stage itself."""
    chosen = str(options_of(context.project)["reading"])
    order = sorted(TITLES, key=lambda name: name != chosen)
    return [
        ReadingTally(name, *TITLES[name], None if name == chosen else computing(context, name))
        for name in order
    ]


def computing(context: StageContext, name: str) -> Callable[[Sample], list[torch.Tensor]]:
    """Return what computes the outputs by a reading, sample after sample."""
    observed = copy.deepcopy(context.hot("calibrate").module)
    steps = Steps(convert(observed, reading=name))

    def compute(sample: Sample) -> list[torch.Tensor]:
        with plain_attention(when=steps.remembers):
            return steps(sample)

    return compute
