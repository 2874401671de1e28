"""Straight-through gradients of functions without gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class StraightThrough(torch.autograd.Function):
    """Applies a function forward and passes the gradient, times a factor, backward.

    Source: Bengio, Leonard and Courville 2013, arXiv 1308.3432, section 4.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, work: Callable[[Tensor], Tensor], factor: float) -> Tensor:
        """Return ``work(x)``."""
        ctx.factor = factor
        return work(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient as it came, times the factor."""
        return (gradient if ctx.factor == 1.0 else gradient * ctx.factor), None, None


class Residual(torch.autograd.Function):
    """A sign times a mean, whose gradient is the mean inside [-1, 1] and 0 outside."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: float) -> Tensor:
        """Return ``sign(x) |mean|``, with no sign for zero."""
        ctx.save_for_backward(x)
        ctx.mean = abs(mean)
        return torch.sign(x).mul_(ctx.mean)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient where the residual was within [-1, 1]."""
        (x,) = ctx.saved_tensors
        return gradient * ctx.mean * (x.abs() <= 1), None
