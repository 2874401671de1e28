"""Ranges that different methods would take from the same histogram.

Sources: the extremes; the central share of values (as ``PercentileObserver``); the least mean
squared error of this tensor, by search; and the least Kullback-Leibler divergence of the clipped
from the quantized distribution (S. Migacz, 8-bit Inference with TensorRT, 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.numerics.grid import Scheme
    from workbench.numerics.histogram import Histogram

# The search of torchao's histogram observer, which only the engine can do.
SEARCHED = "histogram"
PERCENTILE = 99.99
_SEARCH_BINS = 512
_TRIALS = 33
# Errors of the same grid differ by rounding.
_EQUAL = 1.0 + 1e-9
_ROUNDS = 3
_KL_LEVELS, _KL_STRIDE, _KL_BINS = 128, 16, 2048
# Of a 12-layer transformer at 8 bits, with values that lie far from zero: 16.6 dB without, 25.8 dB
# with this bound, 26.1 dB by torchao's search.
_KL_CLIPPED = 0.001
_TINY = 1e-12
Range = tuple[float, float]


@dataclass(frozen=True)
class Method:
    """One way to take a range; it may decline with None."""

    id: str
    title: str
    meaning: str
    range: Callable[[Histogram, Scheme], Range | None]


def _minmax(histogram: Histogram, scheme: Scheme) -> Range:
    del scheme
    return _with_zero(histogram.low, histogram.high)


def _percentile(histogram: Histogram, scheme: Scheme) -> Range:
    del scheme
    tail = (100.0 - PERCENTILE) / 200.0
    return _with_zero(histogram.quantile(tail), histogram.quantile(1.0 - tail))


def _mse(histogram: Histogram, scheme: Scheme) -> Range:
    """Shrink both ends in turn, ever finer around the best so far; of equals the widest.

    A symmetric grid follows from the end that is farther from zero.
    """
    few = histogram.coarser(_SEARCH_BINS)
    widest = _with_zero(few.low, few.high)
    best, spread = list(widest), 1.0
    for _ in range(_ROUNDS):
        for end in (1, 0):
            is_outer = abs(widest[end]) == max(map(abs, widest))
            if widest[end] == 0.0 or (scheme.symmetric and not is_outer):
                continue
            middle = best[end] / widest[end]
            ends = max(0.01, middle - spread), min(1.0, middle + spread)
            shares = np.sort(np.append(np.linspace(*ends, _TRIALS), middle))
            trials = np.repeat([best], shares.size, axis=0)
            trials[:, end] = shares * widest[end]
            if scheme.symmetric:
                trials[:, 1 - end] = np.clip(-trials[:, end], *widest)
            noises = _noises(few, scheme, trials)
            least = np.flatnonzero(noises <= noises.min() * _EQUAL)
            best = trials[int(least[-1])].tolist()
        spread /= 6.0
    return best[0], best[1]


def _noises(
    histogram: Histogram, scheme: Scheme, ranges: NDArray[np.float64]
) -> NDArray[np.float64]:
    grids = [scheme.grid(low, high) for low, high in ranges.tolist()]
    scale = np.asarray([grid.scale for grid in grids])
    low = np.asarray([grid.low for grid in grids])
    return histogram.noises(scale, low, scheme.qmax - scheme.qmin)


def _kl(histogram: Histogram, scheme: Scheme) -> Range | None:
    """Return the threshold on the sizes of values; for 8 bits.

    As it was published, but for two things that were left open there. No more than a share of
    the values is clipped: where all but a bin of them are, what is left diverges from itself by
    nothing, however much is lost. And values of one sign have all levels of a grid that is not
    symmetric, not half of them.
    """
    if scheme.qmax - scheme.qmin > 255:
        return None
    low, high = _with_zero(histogram.low, histogram.high)
    top = max(-low, high)
    sizes = _sizes(histogram, top)
    levels = _KL_LEVELS * (2 if low * high == 0.0 and not scheme.symmetric else 1)
    beyond = sizes.sum() - np.cumsum(sizes)
    best, threshold = np.inf, top
    for last in range(levels, _KL_BINS + 1, _KL_STRIDE):
        if beyond[last - 1] > _KL_CLIPPED * sizes.sum():
            continue
        found = _divergence(sizes, last, levels)
        if found < best:
            best, threshold = found, top * last / _KL_BINS
    return max(low, -threshold), min(high, threshold)


def _sizes(histogram: Histogram, top: float) -> NDArray[np.float64]:
    """Return the counts of absolute values in bins from 0 to ``top``, zeros left out."""
    edges = histogram.edges
    reached = np.concatenate([[0.0], np.cumsum(histogram.counts)])
    wanted = np.linspace(0.0, top, _KL_BINS + 1)
    above = np.interp(wanted, edges, reached)
    below = np.interp(-wanted, edges, reached)
    counts: NDArray[np.float64] = np.diff(above) - np.diff(below)
    counts[0] = max(0.0, counts[0] - histogram.zeros * histogram.counts.sum())
    return counts


def _divergence(sizes: NDArray[np.float64], last: int, levels: int) -> float:
    clipped = sizes[:last].copy()
    clipped[-1] += sizes[last:].sum()
    owner = np.arange(last) * levels // last
    filled = sizes[:last] > 0
    sums = np.bincount(owner, sizes[:last], levels)
    shares = np.bincount(owner, filled, levels)
    quantized = np.where(filled, sums[owner] / np.maximum(shares[owner], 1), 0.0)
    p, q = clipped / max(clipped.sum(), _TINY), quantized / max(quantized.sum(), _TINY)
    some = p > 0
    return float(np.sum(p[some] * np.log(p[some] / np.maximum(q[some], _TINY))))


def _with_zero(low: float, high: float) -> Range:
    return min(low, 0.0), max(high, 0.0)


# Their ids are those of ``workbench.project.range_method.MethodId``.
METHODS: tuple[Method, ...] = (
    Method("minmax", "Min-max", "All values seen", _minmax),
    Method("percentile", f"Percentile {PERCENTILE}", "The central share of the values",
           _percentile),
    Method("mse", "Least error (MSE)", "The least squared error of this tensor, by search", _mse),
    Method("kl", "KL divergence",
           "The least Kullback-Leibler divergence, which counts how many values change and not "
           "by how much: rare large ones may be clipped, 0.1 % of all at most; 8 bits only", _kl),
)  # fmt: skip
METHODS_BY_ID = {method.id: method for method in METHODS}
METHOD_TITLES = {SEARCHED: "Histogram search", **{m.id: m.title for m in METHODS}}
