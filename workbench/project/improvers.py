"""What can be done to the float weights before they are quantized, one row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ImproverId = Literal["equalize", "smooth", "bias"]


@dataclass(frozen=True)
class Improver:
    """One improver; ``needs_data`` when it looks at calibration samples."""

    id: ImproverId
    title: str
    description: str
    needs_data: bool


# In the order in which they are applied.
IMPROVERS: tuple[Improver, ...] = (
    Improver(
        "equalize",
        "Equalise layers",
        "Scales channels between two layers so that both use their range; the float model stays "
        "the same. Helps per-tensor and 4-bit weights of convolutions with ReLU.",
        needs_data=False,
    ),
    Improver(
        "smooth",
        "Smooth linears",
        "Moves outliers of activations into the weights of linears behind a layer norm "
        "(SmoothQuant); the float model stays the same. Helps transformers.",
        needs_data=True,
    ),
    Improver(
        "bias",
        "Correct biases",
        "Takes the mean error that rounded weights cause, channel by channel, out of the biases. "
        "Changes the float model a little; helps 4-bit weights.",
        needs_data=True,
    ),
)
