"""Observers that torchao lacks: a range by percentile, and a range that somebody fixed.

This file stands on torch and torchao alone, because a generated script carries it along.
"""

from typing import Any

import torch
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver


class PercentileObserver(HistogramObserver):
    """Keeps the central share of all values: ``percentile`` percent, split over both ends.

    Source: the quantile of the running histogram [bins], linear inside a bin.
    """

    def __init__(self, *, percentile: float = 99.99, **options: Any) -> None:
        super().__init__(**options)
        self.percentile = percentile

    def _quantile(self, share: float) -> float:
        counts = self.histogram.to(torch.float64)
        reached = torch.cumsum(counts, 0)
        wanted = share * reached[-1]
        index = int(torch.searchsorted(reached, wanted).clamp(max=counts.numel() - 1))
        before = float(reached[index] - counts[index])
        inside = (float(wanted) - before) / max(float(counts[index]), 1.0)
        width = (float(self.max_val) - float(self.min_val)) / counts.numel()
        return float(self.min_val) + (index + inside) * width

    def _non_linear_param_search(self) -> tuple[torch.Tensor, torch.Tensor]:
        tail = (100.0 - self.percentile) / 200.0
        low, high = self._quantile(tail), self._quantile(1.0 - tail)
        return self.min_val.new_tensor(low), self.max_val.new_tensor(high)


class FixedRangeObserver(MinMaxObserver):
    """Reports the range it was given, whatever passes by."""

    def __init__(self, *, minimum: float, maximum: float, **options: Any) -> None:
        super().__init__(**options)
        self.min_val.copy_(torch.tensor(minimum))
        self.max_val.copy_(torch.tensor(maximum))

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Return the input untouched and unobserved."""
        return x_orig
