"""Look-up tables on residual signs, as LUTNet's linear layer has them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


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
        found = torch.sign(entries) * tables.mask * tables.gamma.abs() * mean
        total = total + (chosen * found).sum(-1)
    summed = total.unflatten(-1, (-1, x.shape[-1])).sum(-1)
    return summed if bias is None else summed + bias
