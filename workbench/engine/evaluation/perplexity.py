"""Perplexity of a decoder, and its divergence from the float model.

Perplexity: F. Jelinek and others, "Perplexity - a measure of the difficulty of speech recognition
tasks" (1977). Divergence: S. Kullback and R. Leibler, "On information and sufficiency" (1951).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.results.quality import TextQuality, TokenStep

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from workbench.engine.data import Sample

# Number of listed steps; all steps count.
LISTED_STEPS = 1024


@dataclass
class _Side:
    """Sums over one program's steps [nats]."""

    surprise: float = 0.0
    divergence: float = 0.0
    worst: float = 0.0


@dataclass
class TextTally:
    """Accumulates steps; ``spell`` returns the text of a token id."""

    spell: Callable[[int], str]
    tokens: int = 0
    sequences: int = 0
    steps: list[TokenStep] = field(default_factory=list)
    _floating: _Side = field(default_factory=_Side)
    _quantized: _Side = field(default_factory=_Side)
    _integer: _Side | None = None

    def add(
        self, sample: Sample, floating: torch.Tensor, quantized: torch.Tensor,
        integer: torch.Tensor | None = None, max_lsb: int | None = None,
    ) -> None:  # fmt: skip
        """Add the outputs of each program for a step: one logit per token, in any shape.

        Their softmax is the program's probability distribution.
        """
        follows = sample.label
        assert follows is not None
        reference = _logs(floating)
        chances, divergences = [self._chance(self._floating, reference, follows)], []
        sides = [(self._quantized, quantized)]
        if integer is not None:
            self._integer = self._integer or _Side()
            sides.append((self._integer, integer))
        for side, values in sides:
            logs = _logs(values)
            divergence = max(0.0, float((reference.exp() * (reference - logs)).sum()))
            side.divergence += divergence
            side.worst = max(side.worst, divergence)
            chances.append(self._chance(side, logs, follows))
            divergences.append(divergence)
        self.tokens += 1
        self.sequences += sample.begins
        if len(self.steps) < LISTED_STEPS:
            self.steps.append(TokenStep(
                sample=sample.index, token=self.spell(int(sample.inputs[0].reshape(-1)[-1])),
                follows=self.spell(follows), chance_float=chances[0],
                chance_quantized=chances[1], kl_quantized=divergences[0],
                chance_integer=chances[2] if integer is not None else None,
                kl_integer=divergences[1] if integer is not None else None, max_lsb=max_lsb,
            ))  # fmt: skip

    def result(self) -> TextQuality | None:
        """Return the figures; None without steps."""
        if not self.tokens:
            return None
        integer = self._integer
        return TextQuality(
            tokens=self.tokens,
            sequences=max(self.sequences, 1),
            perplexity_float=self._perplexity(self._floating),
            perplexity_quantized=self._perplexity(self._quantized),
            kl_quantized=self._quantized.divergence / self.tokens,
            worst_quantized=self._quantized.worst,
            perplexity_integer=self._perplexity(integer) if integer else None,
            kl_integer=integer.divergence / self.tokens if integer else None,
            worst_integer=integer.worst if integer else None,
            steps=tuple(self.steps),
        )

    def _chance(self, side: _Side, logs: torch.Tensor, follows: int) -> float:
        side.surprise -= float(logs[follows])
        return math.exp(float(logs[follows]))

    def _perplexity(self, side: _Side) -> float:
        # Limit of a float.
        return math.exp(min(side.surprise / self.tokens, 700.0))


def _logs(values: torch.Tensor) -> torch.Tensor:
    return values.detach().double().reshape(-1).log_softmax(0)
