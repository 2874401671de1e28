"""Signs: binary, ternary, and sums of residual signs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats.blocks import by_chunks, by_rows, finite_largest
from workbench.engine.formats.straight_through import Residual
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.targets.formats.parameters import Role


_NAN = float("nan")
_TERNARY_THRESHOLD = 0.7
_MASE_TERNARY_THRESHOLD = 0.75
# Sums of 2^27 magnitudes below this fit float32, and thresholds of those above 1/this are exact.
_SUMMABLE = 2.0**100


def binary(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return +1 for values of at least 0 and -1 below; not bipolar: 1 above 0, else 0.

    Stochastic: the upper value with probability clip((x+1)/2, 0, 1), drawn from torch's global
    generator. NaN stays NaN; infinities are numbers with a sign.

    Source: Courbariaux et al. 2015, BinaryConnect, arXiv 1511.00363, 2.2 and 2.3.
    """
    del role
    bipolar = parameters["bipolar"]
    if parameters["stochastic"]:
        upper = hard_sigmoid(x) > torch.rand_like(x)
        return _levels(x, upper, bipolar)
    return by_chunks(x, lambda p: _levels(p, p >= 0 if bipolar else p > 0, bipolar))


def hard_sigmoid(x: Tensor) -> Tensor:
    """Return clip((x+1)/2, 0, 1)."""
    return ((x + 1) / 2).clamp_(0, 1)


def _levels(x: Tensor, upper: Tensor, bipolar: bool) -> Tensor:
    levels = upper.to(x.dtype)
    if bipolar:
        levels.mul_(2).sub_(1)
    return levels.masked_fill_(x.isnan(), _NAN)


def mase_binary(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form: always float32, NaN to -1; not bipolar only in four dimensions."""
    del role
    if not parameters["bipolar"]:
        return _mase_unipolar(x, parameters["stochastic"])
    upper = hard_sigmoid(x) >= torch.rand_like(x) if parameters["stochastic"] else x >= 0
    return upper.to(torch.float32).mul_(2).sub_(1)


def _mase_unipolar(x: Tensor, stochastic: bool) -> Tensor:
    four_dimensions("binary with bipolar off", x)
    if stochastic:
        x = hard_sigmoid(x)
    scale = x.abs().mean((1, 2, 3), keepdim=True)
    return torch.where(x > 0, scale, torch.zeros_like(x)).to(torch.float32)


def four_dimensions(what: str, x: Tensor) -> None:
    """Refuse anything but four dimensions, as MASE does."""
    if x.dim() != 4:
        raise failure(
            f"MASE supports {what} in four dimensions only; this array has shape {tuple(x.shape)}.",
            "The textbook form supports any shape.",
            code="mase-rank-not-supported",
        )


def ternary(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return -1, 0 or +1 around 0.7 of the mean of |x|, times the mean of what remains.

    Each index of the first dimension has its own threshold and scale where there are two
    dimensions or more. A slice of zeros stays zero. Infinities count as their neighbours' largest
    finite value, NaN stays NaN and does not count.

    Source: Li and Liu 2016, Ternary Weight Networks, arXiv 1605.04711, 2.3.
    """
    del role
    if x.numel() == 0:
        return x.clone()
    whole = x.contiguous()
    rows = whole.reshape(x.shape[0], -1) if x.dim() > 1 else whole.reshape(1, -1)
    scaled = parameters["scaling_factor"]
    return by_rows(rows, (), lambda part: _ternary_rows(part, scaled)).reshape(x.shape)


def _ternary_rows(rows: Tensor, scaled: bool) -> Tensor:
    """Return ternary values of rows [N, B], each with its own threshold and scale."""
    magnitude = rows.abs()
    largest = magnitude.amax(1)
    fits = (largest == 0) | ((largest > 1 / _SUMMABLE) & (largest < _SUMMABLE))
    if not bool(fits.all()):
        return _ternary_wide(rows.double(), scaled).to(rows.dtype)
    mean = magnitude.sum(1, keepdim=True) / rows.shape[1]
    kept = (magnitude > _TERNARY_THRESHOLD * mean).to(rows.dtype)
    signs = torch.sign(rows).mul_(kept)
    if scaled:
        signs.mul_(magnitude.mul_(kept).sum(1, keepdim=True) / kept.sum(1, keepdim=True).clamp(1))
    return signs


def _ternary_wide(rows: Tensor, scaled: bool) -> Tensor:
    """Return the same of float64 rows of values of any size, infinities and NaN among them."""
    known = ~rows.isnan()
    magnitude = torch.where(known, rows.abs(), 0).minimum(finite_largest(rows))
    mean = (magnitude / known.sum(1, keepdim=True).clamp(min=1)).sum(1, keepdim=True)
    kept = (magnitude > _TERNARY_THRESHOLD * mean).to(rows.dtype)
    signs = torch.sign(rows).mul_(kept)
    if scaled:
        parts = magnitude.mul_(kept) / kept.sum(1, keepdim=True).clamp(1)
        signs.mul_(parts.sum(1, keepdim=True))
    return signs.masked_fill_(~known, _NAN)


def mase_ternary(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form: 0.75, four dimensions, and NaN for a slice of zeros that is scaled."""
    del role
    four_dimensions("ternary", x)
    magnitude = x.abs()
    threshold = _MASE_TERNARY_THRESHOLD * magnitude.mean((1, 2, 3), keepdim=True)
    signs = (x > threshold).to(x.dtype) - (x < -threshold).to(x.dtype)
    if not parameters["scaling_factor"]:
        return signs
    kept = (magnitude > threshold).to(x.dtype)
    sums = (magnitude * kept).sum((1, 2, 3), keepdim=True)
    return signs * (sums / kept.sum((1, 2, 3), keepdim=True))


def residual_means(parameters: Mapping[str, Any], dtype: torch.dtype) -> tuple[float, ...]:
    """Return the size of each residual: those given, or R..1 over their sum.

    Raises:
        WorkbenchError: there is not one for each level, or together they exceed the type.
    """
    levels, means = parameters["levels"], parameters["means"]
    if means is None:
        return tuple(2 * (levels - k) / (levels * (levels + 1)) for k in range(levels))
    if len(means) != levels:
        raise failure(
            f"{len(means)} means for {levels} levels.",
            "Give one per level, or none.",
            Place(kind="option", id="means"),
            code="means-count-mismatch",
        )
    if sum(abs(mean) for mean in means) > torch.finfo(dtype).max:
        name = str(dtype).removeprefix("torch.")
        raise failure(
            f"The sum of the means exceeds the range of {name}.",
            where=Place(kind="option", id="means"),
            code="means-overflow",
        )
    return tuple(abs(mean) for mean in means)


def binary_residual(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return data as a sum of signs, each of what the ones before left; weights as signs.

    r_0 = x, o_l = sign(r_l) m_l, r_(l+1) = r_l - o_l; the result is the sum of o_l, shaped like
    ``x``. The sign of 0 is +1, NaN stays NaN. Weights are signs (``binary_training``) or clipped to
    [-1, 1]; a bias stays as it is.

    Source: Ghasemzadeh et al. 2018, ReBNet, arXiv 1711.01243, 3.1.
    """
    if role != "data" or not parameters.get("residual_sign", True):
        return _residual_weight(x, parameters, role)
    means = [x.new_tensor(mean) for mean in residual_means(parameters, x.dtype)]

    def work(piece: Tensor) -> Tensor:
        total = torch.zeros_like(piece)
        for mean in means:
            # A negative zero plus zero is a positive one, whose sign is +1.
            total += torch.copysign(mean, (piece - total).add_(0.0))
        return total.masked_fill_(piece.isnan(), _NAN)

    return by_chunks(x, work)


def _residual_weight(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    if role != "weight":
        return x.clone()
    if not parameters.get("binary_training", True):
        return x.clamp(-1, 1)
    return binary(x, {"stochastic": False, "bipolar": True, **_flags(parameters)}, role)


def _flags(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parameters[name] for name in ("stochastic", "bipolar") if name in parameters}


def mase_binary_residual(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form: the levels stacked on a new first dimension, one level as it is.

    Differentiable with MASE's own gradients.
    """
    if role != "data" or not parameters.get("residual_sign", True):
        return _residual_weight(x, parameters, role)
    if parameters["levels"] > 3:
        raise failure(
            f"MASE does not support residuals of {parameters['levels']} levels.",
            "Use one to three, or the textbook form.",
            Place(kind="option", id="levels"),
            code="mase-levels-not-supported",
        )
    parts = []
    for mean in residual_means(parameters, x.dtype):
        parts.append(Residual.apply(x, mean))
        x = x - parts[-1]
    return torch.stack(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class Tables:
    """The tables of a linear layer: for each output, one for each input.

    Attributes:
        entries: [levels, T, 2^k]; only signs count. T is outputs times inputs, inputs fastest.
        mask: 1 where an entry was kept, 0 where it was pruned, [T, 2^k].
        wiring: Inputs of each table, [T, k].
        means: Size of each level of signs, [levels].
        gamma: Scale of all entries.
    """

    entries: Tensor
    mask: Tensor
    wiring: Tensor
    means: Tensor
    gamma: Tensor


def lutnet_linear(x: Tensor, tables: Tables, bias: Tensor | None) -> Tensor:
    """Return what the tables look up for data [..., inputs] as [..., outputs].

    The data becomes residual signs; each level addresses every table, and the sign found there
    counts with the level's mean. A residual of 0 has no sign and addresses nothing whole.

    Source: Wang et al. 2019, LUTNet, arXiv 1904.00938, equation 4.
    """
    inputs = tables.wiring.shape[1]
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=inputs)), dtype=x.dtype)
    total = x.new_zeros(*x.shape[:-1], tables.wiring.shape[0])
    left = x
    for entries, mean in zip(tables.entries, tables.means.abs(), strict=True):
        signs = torch.sign(left)
        left = left - signs * mean
        wired = signs[..., tables.wiring].unsqueeze(-2)
        chosen = ((1 + wired * corners) / 2).prod(-1)
        table_signs = torch.sign(entries) * tables.mask * tables.gamma.abs() * mean
        total = total + (chosen * table_signs).sum(-1)
    summed = total.unflatten(-1, (-1, x.shape[-1])).sum(-1)
    return summed if bias is None else summed + bias
