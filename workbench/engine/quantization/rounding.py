"""Choice of integer weights by the error of a layer's output: the numerical part.

A layer of g groups has weights [g, o, d]: o output channels, each with d weights per group. Every
function minimises, row by row, J(v) = v H v - 2 v c over weights v on a grid of step s, the
expected squared error of the layer's output, but for a constant: H [g, d, d] is the second moment
of the layer's inputs in the quantized program, c [g, o, d] that of wanted outputs with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

# AdaRound's stretched sigmoid (Nagel et al. 2020, eq. 23).
_ZETA, _GAMMA = 1.1, -0.1
# Shares of the mean of H's diagonal that are added to it: 0.01 in Frantar et al. 2022, GPTQ,
# section 3.3; more where a layer has many weights for the samples.
DAMPINGS = (0.01, 0.1, 1.0)
_ITERATIONS = 500
# The regulariser's exponent falls linearly from the first to the second after the warm-up.
_BETA, _WARM_UP = (20.0, 2.0), 0.2
_REGULARISATION, _LEARNING_RATE = 0.1, 0.03
# Adam's constants.
_MEAN, _SQUARE, _TINY = 0.9, 0.999, 1e-8
_SWEEPS = 10
# Multiplications that gradient steps of one layer may take; larger layers get fewer steps.
_MULTIPLICATIONS, _FEWEST_STEPS = 4e11, 100
CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)


@dataclass(frozen=True)
class Problem:
    """The weights of one layer, what they are to compute, and their grid.

    Attributes:
        weight: Float weights [g, o, d].
        gram: H [g, d, d].
        cross: c [g, o, d].
        scale: Step of the grid [g, o, 1].
        limit: Largest integer; the smallest is its negative.
        pinned: Weights [g, o, d] that stay at the end of the grid, from which observers get it.
        damping: One of ``DAMPINGS``.
    """

    weight: torch.Tensor
    gram: torch.Tensor
    cross: torch.Tensor
    scale: torch.Tensor
    limit: int
    pinned: torch.Tensor
    damping: float = DAMPINGS[0]

    def damped(self) -> Problem:
        """Return the problem that also keeps weights near their float values where H is small."""
        size = self.gram.shape[-1]
        damping = self.damping * self.gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
        eye = torch.eye(size, dtype=self.gram.dtype)
        return replace(self, gram=self.gram + damping * eye, cross=self.cross + damping * self.weight)

    def nearest(self) -> torch.Tensor:
        """Return the nearest integers [g, o, d], as observers and quantizers choose them."""
        return torch.round(self.weight / self.scale).clamp(-self.limit, self.limit)

    def error(self, integers: torch.Tensor) -> torch.Tensor:
        """Return the expected squared error of each output [g, o], relative to float weights."""
        value = integers * self.scale
        own = (value @ self.gram - 2 * self.cross) * value
        of_float = (self.weight @ self.gram - 2 * self.cross) * self.weight
        return (own - of_float).sum(-1)

    def at_ends(self, integers: torch.Tensor) -> torch.Tensor:
        """Return integers with the pinned ones at the end of the grid."""
        return torch.where(self.pinned, self.limit * torch.sign(self.weight), integers)


def second_order(problem: Problem) -> torch.Tensor:
    """Return integers [g, o, d] by GPTQ: the error of each weight is spread over later ones.

    Columns are quantized in falling order of H's diagonal. The float weights are first replaced by
    those that give the wanted outputs from the quantized program's inputs, c H^-1.
    Source: Frantar et al. 2022, GPTQ, eq. 3 and algorithm 1. torchao 0.18's
    ``torchao.prototype.gptq`` has the same algorithm for grids of groups of weights of linears
    only.

    Raises:
        torch.linalg.LinAlgError: H is not positive definite.
    """
    known = problem.damped()
    order = torch.argsort(known.gram.diagonal(dim1=1, dim2=2), dim=1, descending=True)
    back = torch.argsort(order, dim=1)

    def in_order(value: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return value.gather(2, by[:, None].expand_as(value))

    unrounded = torch.cholesky_solve(
        known.cross.transpose(1, 2), torch.linalg.cholesky(known.gram)
    ).transpose(1, 2)
    gram = in_order(in_order(known.gram, order).transpose(1, 2), order)
    upper = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(gram)), upper=True)
    left, pinned = in_order(unrounded, order), in_order(known.pinned, order)
    ends = known.limit * torch.sign(in_order(known.weight, order))
    integers = torch.zeros_like(left)
    for column in range(left.shape[2]):
        here = slice(column, column + 1)
        chosen = torch.round(left[..., here] / known.scale).clamp(-known.limit, known.limit)
        chosen = torch.where(pinned[..., here], ends[..., here], chosen)
        integers[..., here] = chosen
        error = (left[..., here] - chosen * known.scale) / upper[:, here, here]
        left[..., column + 1 :] -= error * upper[:, here, column + 1 :]
    return in_order(integers, back)


def learned(problem: Problem, check: Callable[[], None]) -> list[torch.Tensor]:
    """Return integers [g, o, d] in several ways: the best for unseen samples is to be chosen.

    By GPTQ, and by learning whether to round up or down by gradients; each as it is, and after
    setting each weight to its best integer given the others until nothing changes. Layers too
    large for gradient steps have those of GPTQ alone.
    Source: Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization,
    eq. 21 to 25, with the expectation computed from second moments instead of samples.

    Args:
        problem: The layer.
        check: Called between steps; may raise.

    Raises:
        torch.linalg.LinAlgError: H is not positive definite.
    """
    known = problem.damped()
    groups, rows, size = known.weight.shape
    steps = min(_ITERATIONS, int(_MULTIPLICATIONS / max(groups * rows * size * size, 1)))
    starts = [second_order(problem)]
    if steps >= _FEWEST_STEPS:
        starts.append(_rounded_by_gradient(known, steps, check))
    return [*starts, *(descended(known, start, check) for start in starts)]


def _rounded_by_gradient(problem: Problem, steps: int, check: Callable[[], None]) -> torch.Tensor:
    """Return integers [g, o, d] by Adam on AdaRound's variables V, all rows at once."""
    small = replace(
        problem, **{name: getattr(problem, name).float() for name in ("weight", "gram", "cross", "scale")}
    )
    exact = small.weight / small.scale
    low = torch.floor(exact)
    span = _ZETA - _GAMMA
    variable = -torch.log(span / (exact - low - _GAMMA) - 1.0)
    base = problem.error(problem.nearest()).abs().float()[..., None]
    base = base.clamp_min(float(base.mean()) * 1e-3 + 1e-30)
    mean, square = torch.zeros_like(variable), torch.zeros_like(variable)
    for step in range(1, steps + 1):
        check()
        sigmoid = torch.sigmoid(variable)
        stretched = sigmoid * span + _GAMMA
        up = stretched.clamp(0.0, 1.0)
        raw = low + up
        integers = raw.clamp(-small.limit, small.limit)
        value = small.at_ends(integers) * small.scale
        moves = (raw == integers) & ~small.pinned
        gradient = 2 * (value @ small.gram - small.cross) * small.scale / base * moves
        gradient = gradient - _regularisation(up, step / steps)
        gradient = gradient * ((stretched > 0) & (stretched < 1)) * sigmoid * (1 - sigmoid) * span
        mean = _MEAN * mean + (1 - _MEAN) * gradient
        square = _SQUARE * square + (1 - _SQUARE) * gradient * gradient
        root = (square / (1 - _SQUARE**step)).sqrt() + _TINY
        variable = variable - _LEARNING_RATE * mean / (1 - _MEAN**step) / root
    up = (torch.sigmoid(variable) * span + _GAMMA) >= 0.5
    integers = (low + up).clamp(-small.limit, small.limit)
    return problem.at_ends(integers.to(problem.weight.dtype))


def _regularisation(up: torch.Tensor, done: float) -> torch.Tensor | float:
    """Return the negative gradient of AdaRound's regulariser (eq. 24); 0 in the warm-up."""
    if done <= _WARM_UP:
        return 0.0
    first, last = _BETA
    beta = last + (first - last) * (1.0 - (done - _WARM_UP) / (1.0 - _WARM_UP))
    distance = 2 * up - 1
    return _REGULARISATION * beta * 2 * distance.abs() ** (beta - 1) * torch.sign(distance)


def descended(problem: Problem, integers: torch.Tensor, check: Callable[[], None]) -> torch.Tensor:
    """Return integers [g, o, d] at which no change of a single weight lowers the error."""
    integers = problem.at_ends(integers.clone())
    slope = (integers * problem.scale) @ problem.gram - problem.cross
    scale, limit = problem.scale[..., 0], problem.limit
    diagonal = problem.gram.diagonal(dim1=1, dim2=2)
    for _ in range(_SWEEPS):
        changed = False
        check()
        for column in range(integers.shape[-1]):
            curvature = diagonal[:, column : column + 1].clamp_min(torch.finfo(slope.dtype).tiny)
            now = integers[..., column]
            best = torch.round(now - slope[..., column] / (curvature * scale)).clamp(-limit, limit)
            step = torch.where(problem.pinned[..., column], 0.0, best - now)
            if bool(step.any()):
                changed = True
                integers[..., column] += step
                slope += (step * scale)[..., None] * problem.gram[:, None, column]
        if not changed:
            break
    return integers
