"""What plots draw, as plain arrays; nothing here needs a window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _none() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True)
class RangeSeries:
    """Tensors in order. Arrays are [T]; what is not known is NaN.

    ``labels`` are precisions, which have a colour in the theme. ``channels`` holds the least and
    greatest value of each channel [C] by the tensor's place.
    """

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    is_weight: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    low: NDArray[np.float64] = field(default_factory=_none)
    high: NDArray[np.float64] = field(default_factory=_none)
    p_low: NDArray[np.float64] = field(default_factory=_none)
    p_high: NDArray[np.float64] = field(default_factory=_none)
    grid_low: NDArray[np.float64] = field(default_factory=_none)
    grid_high: NDArray[np.float64] = field(default_factory=_none)
    step: NDArray[np.float64] = field(default_factory=_none)
    channels: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class TensorView:
    """One tensor: counts [B] between the ``edges``, its grid, and its channels' ranges [C]."""

    counts: NDArray[np.float64]
    edges: tuple[float, float]
    grid: tuple[float, float] | None
    step: float
    label: str
    channel_min: NDArray[np.float64] | None = None
    channel_max: NDArray[np.float64] | None = None
