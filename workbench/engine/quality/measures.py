"""Difference of two tensors, accumulated over samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.results import OutputQuality

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Accumulator:
    """Running sums of a reference and its approximation, in float64."""

    signal: float = 0.0
    noise: float = 0.0
    dot: float = 0.0
    other: float = 0.0
    worst: float = 0.0

    def add(self, reference: torch.Tensor, value: torch.Tensor) -> None:
        """Add one pair of tensors with equal shapes."""
        a, b = reference.detach().double().reshape(-1), value.detach().double().reshape(-1)
        error = a - b
        self.signal += float(a.dot(a))
        self.noise += float(error.dot(error))
        self.dot += float(a.dot(b))
        self.other += float(b.dot(b))
        if error.numel():
            self.worst = max(self.worst, float(error.abs().max()))

    @property
    def sqnr_db(self) -> float | None:
        """10 log10(signal / noise) [dB]; None without noise or signal."""
        if self.noise <= 0.0 or self.signal <= 0.0 or not math.isfinite(self.noise):
            return None
        return 10.0 * math.log10(self.signal / self.noise)

    @property
    def cosine(self) -> float | None:
        """Cosine similarity of all reference and all other values; None for zeros."""
        length = math.sqrt(self.signal * self.other)
        return min(self.dot / length, 1.0) if length > 0.0 and math.isfinite(length) else None

    def output(self, name: str) -> OutputQuality:
        """Return the figures under a name."""
        return OutputQuality(
            name=name, sqnr_db=self.sqnr_db, cosine=self.cosine, max_abs_error=self.worst
        )


def merged(parts: Sequence[Accumulator]) -> Accumulator:
    """Return the sums over several accumulators."""
    return Accumulator(
        sum(p.signal for p in parts),
        sum(p.noise for p in parts),
        sum(p.dot for p in parts),
        sum(p.other for p in parts),
        max((p.worst for p in parts), default=0.0),
    )


def top_k_hit(logits: torch.Tensor, label: int, k: int) -> bool | None:
    """Return whether the class is among the k largest; None for fewer than k outputs."""
    flat = logits.reshape(-1)
    if flat.numel() < k:
        return None
    return label in flat.topk(k).indices.tolist()


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a model's return value, in order."""
    leaves = torch.utils._pytree.tree_leaves(value)  # noqa: SLF001 - no public name
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
