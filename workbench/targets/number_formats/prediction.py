"""What a number format would do to a tensor, told from its histogram: its grid and its SQNR.

A histogram does not say which values are neighbours, so blocks are filled with values drawn
independently of each other; blocks of a real tensor differ by as much as its neighbours are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import failure
from workbench.numerics.format_values import placed
from workbench.targets.number_formats import Role, read, spec_of
from workbench.targets.number_formats.limits import impossible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from workbench.numerics.histogram import Histogram
    from workbench.project.format_config import FormatConfig

DRAWS = 1 << 16
_POINTS = 1 << 14
# Blocks of a whole dimension, of which the histogram does not know the size.
_WHOLE = 256
_SLICES = frozenset({"ternary"})


@dataclass(frozen=True)
class Prediction:
    """A format against a tensor.

    ``levels`` are the values [L] of its grid among those seen, of a block that holds the largest
    of them where blocks share a scale. ``block`` is how many elements share, 1 for none.
    """

    levels: NDArray[np.float64]
    sqnr_db: float | None
    block: int


def predict(histogram: Histogram, config: FormatConfig, role: Role) -> Prediction:
    """Return what the textbook form of a format would do to the values of a histogram.

    Raises:
        WorkbenchError: no such format, or parameters missing or out of range.
    """
    spec = spec_of(config.scheme)
    given = read(spec.name, spec.parameters, config.parameters, role)
    if said := impossible(spec.name, given):
        raise failure(said)
    block = _block(given) if spec.block else 1
    values = histogram.draws(DRAWS)
    rows = values.reshape(1, -1) if spec.name in _SLICES else values.reshape(-1, 1)
    if spec.block:
        rows = values[: values.size // block * block].reshape(-1, block)
    made = placed(rows, spec.name, given)
    noise, signal = float(np.square(rows - made).mean()), float(np.square(rows).mean())
    sqnr = 10 * math.log10(signal / noise) if noise > 0 and signal > 0 else None
    points = np.linspace(histogram.low, histogram.high, _POINTS)
    shape = (1, -1) if spec.block or spec.name in _SLICES else (-1, 1)
    levels = np.unique(placed(points.reshape(shape), spec.name, given))
    return Prediction(levels, sqnr, block)


def _block(given: Mapping[str, Any]) -> int:
    """Return how many elements share."""
    said = given.get("block_size", given.get("parallelism"))
    sizes = [said] if isinstance(said, int) else list(said)
    return min(math.prod(_WHOLE if size < 0 else size for size in sizes), DRAWS)
