"""The search for the best range of a histogram compares numbers instead of tensors.

``HistogramObserver`` moves one of two quantiles in up to 100,000 steps and compares elements of a
tensor in each, which takes most of the time of a search. Nearly all steps lead to the same bins;
here they are left out.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SEARCH = "torchao.quantization.pt2e.observer:HistogramObserver._non_linear_param_search"
PINS = ((SEARCH, "5b32ba21a0bc0657"),)
# By how much a quantile moves in one step (torchao, the same function).
_STEP = 1e-5


@contextmanager
def quick_search() -> Iterator[None]:
    """Let ``HistogramObserver`` search with numbers while the block runs.

    The result has the same bits: the comparisons are made in float32 as torch makes them, and the
    error of a range is computed by the stock function, as often as there.
    """
    from torchao.quantization.pt2e.observer import HistogramObserver

    if not sources_match("The quick search of ranges", PINS):
        yield
        return
    name = SEARCH.rpartition(".")[2]
    stock = getattr(HistogramObserver, name)

    def search(self: Any) -> Any:
        bins = _best_bins(self) if type(self) is HistogramObserver else None
        if bins is None:
            return stock(self)
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * bins[0], self.min_val + width * (bins[1] + 1)

    with replaced(HistogramObserver, name, search):
        yield


def _best_bins(observer: Any) -> tuple[int, int] | None:
    """Return the first and the last bin of the best range; None if stock must search."""
    import torch

    histogram = observer.histogram
    if histogram.dtype != torch.float32 or histogram.shape != (observer.bins,):
        return None
    total = torch.sum(histogram).item()
    sums = torch.cumsum(histogram, dim=0).cpu().numpy()
    if not math.isfinite(total) or not bool(np.all(sums[1:] >= sums[:-1])):
        return None
    alphas, betas = _quantiles()
    # Torch compares float32 with a number in float32.
    low_counts, high_counts = ((q * total).astype(np.float32) for q in (alphas, betas))
    raised = lowered = 0
    start, end, least = 0, observer.bins - 1, math.inf
    while True:
        left = min(max(start, int(np.searchsorted(sums, low_counts[raised + 1], "left"))), end)
        if left == start:
            # Nothing changes before the upper quantile leaves the last bin.
            within = high_counts.size - int(np.searchsorted(high_counts[::-1], sums[end], "left"))
            lowered = max(lowered, within - 1)
        if alphas[raised] >= betas[lowered] or start == end:
            break
        last = int(np.searchsorted(sums, high_counts[lowered + 1], "right")) - 1
        right = max(min(end, last), start)
        next_start, next_end = start, end
        if left - start > end - right:
            next_start, raised = left, raised + 1
        else:
            next_end, lowered = right, lowered + 1
        error = observer._compute_quantization_error(next_start, next_end)  # noqa: SLF001 - stock
        if error > least:
            break
        least, start, end = error, next_start, next_end
    return start, end


@cache
def _quantiles() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both quantiles after each number of steps, as repeated additions round them."""
    steps = np.full(math.ceil(1 / _STEP) + 2, _STEP)
    steps[0] = 0.0
    rising = np.add.accumulate(steps)
    steps[0] = 1.0
    return rising, np.subtract.accumulate(steps)
