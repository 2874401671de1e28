"""A calibrated tensor as predictions need it: histogram, scheme, the grids it could have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.numerics.grid import Grid, Scheme
from workbench.numerics.histogram import Histogram
from workbench.numerics.methods import METHOD_TITLES, METHODS_BY_ID, SEARCHED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from workbench.results import TensorRange


# Why nobody chooses the range of a weight, in words.
WEIGHT_REFUSAL = (
    "A weight has no range to choose: its grid spans all its values, so nothing is clipped. "
    "Its rule sets bits and channels; Improvers narrow it."
)


@dataclass(frozen=True)
class Choice:
    """What one method would do to a tensor; ``sqnr_db`` predicted, None where nothing is known."""

    method: str
    title: str
    grid: Grid
    minimum: float
    maximum: float
    clipped: float
    sqnr_db: float | None


def scheme_of(tensor: TensorRange) -> Scheme:
    """Return how the tensor's observer makes a grid of a range."""
    unsigned = tensor.dtype.startswith("uint")
    return Scheme(tensor.qmin, tensor.qmax, tensor.symmetric, tensor.eps, unsigned)


def histogram_of(tensor: TensorRange, arrays: Mapping[str, NDArray[Any]]) -> Histogram | None:
    """Return the stored histogram of an activation; None where calibration kept none."""
    counts, edges = arrays.get("histogram"), arrays.get("edges")
    if counts is None or edges is None or tensor.index >= len(counts):
        return None
    low, high = (float(edge) for edge in edges[tensor.index])
    found = Histogram(
        np.asarray(counts[tensor.index], np.float64), low, high,
        tensor.zeros or 0.0, tensor.mean_square,
    )  # fmt: skip
    return found if found.is_known else None


def observed_grid(tensor: TensorRange) -> Grid | None:
    """Return the grid that calibration gave; None for a tensor it never reached."""
    if not 0 < tensor.scale < math.inf:
        return None
    return Grid(tensor.scale, tensor.zero_point, tensor.qmin, tensor.qmax)


def predicted(
    histogram: Histogram, grid: Grid, method: str = "", title: str = "",
    ends: tuple[float, float] | None = None,
) -> Choice:  # fmt: skip
    """Return what a grid, made of the range ``ends`` if there is one, would do to a tensor."""
    low, high = ends or (grid.low, grid.high)
    return Choice(method, title, grid, low, high, histogram.clipped(grid), histogram.sqnr_db(grid))


def choices(tensor: TensorRange, histogram: Histogram) -> list[Choice]:
    """Return what every method would do to a tensor, the histogram observer's search first."""
    found = [choice_of(tensor, histogram, m) for m in (SEARCHED, *METHODS_BY_ID)]
    return [choice for choice in found if choice is not None]


def choice_of(tensor: TensorRange, histogram: Histogram, method: str) -> Choice | None:
    """Return what one method would do to a tensor; None where it declines."""
    title = METHOD_TITLES[method]
    if method == SEARCHED:
        scale, zero_point = tensor.searched or (tensor.scale, tensor.zero_point)
        grid = Grid(scale, zero_point, tensor.qmin, tensor.qmax)
        return predicted(histogram, grid, SEARCHED, title) if scale > 0 else None
    scheme = scheme_of(tensor)
    ends = METHODS_BY_ID[method].range(histogram, scheme)
    if ends is None or not ends[0] < ends[1]:
        return None
    return predicted(histogram, scheme.grid(*ends), method, title, ends)


def activations(ranges: Sequence[TensorRange]) -> list[TensorRange]:
    """Return the activations whose range can be fixed: those that no other observer stands before.

    A tensor with a second grid behind its first has one row here.
    """
    observers = {row.id for row in ranges}
    return [
        row
        for row in ranges
        if row.kind == "activation" and row.node not in observers and row.op != "call_module"
    ]


def title_of(row: TensorRange, by_id: Mapping[str, TensorRange]) -> str:
    """Return what a tensor is called: a weight after its module, a second grid after its tensor.

    Args:
        row: One of the ranges.
        by_id: All of them by id: a second grid stands behind the observer of the first.
    """
    before = by_id.get(row.node)
    if before is not None or row.op == "call_module":
        source = before.node if before is not None else row.origin or row.node
        return f"{source} \u2192 {row.dtype}"
    return f"{row.module or row.op} weight" if row.kind == "weight" else row.node
