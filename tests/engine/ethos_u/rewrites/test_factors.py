"""Constant factors that go into layers."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.engine.ethos_u.rewrites.test_rewrites_are_exact import operators, rewritten
from workbench.engine.ethos_u.rewrites.factors import take_factors

pytestmark = pytest.mark.engine
ATEN = torch.ops.aten


class Net(nn.Module):
    def __init__(self, compute, **layers):
        super().__init__()
        self.layers, self.compute = nn.ModuleDict(layers), compute

    def forward(self, x):
        return self.compute(x, **self.layers)


def attended(x, q, k, v, **settings):
    parts = (layer(x).view(1, 12, 4, 8).transpose(1, 2) for layer in (q, k, v))
    return functional.scaled_dot_product_attention(*parts, **settings)


def projections():
    return {name: nn.Linear(32, 32) for name in "qkv"}


@pytest.mark.parametrize("settings", [{}, {"scale": 0.5}])
def test_that_the_factor_of_an_attention_goes_into_the_layer_of_the_queries(settings):
    torch.manual_seed(0)
    net = Net(lambda x, **layers: attended(x, **layers, **settings), **projections())
    module, (count,) = rewritten(net, torch.randn(1, 12, 32), (take_factors,))
    assert count == 1
    assert not {*operators(module)} & {ATEN.scaled_dot_product_attention.default, ATEN.mul.Tensor}


def test_that_an_attention_with_a_mask_stays_as_it_is_written():
    net = Net(lambda x, **layers: attended(x, **layers, is_causal=True), **projections())
    assert rewritten(net, torch.randn(1, 12, 32), (take_factors,))[1] == [0]


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, a: functional.relu(a(x) * 0.25),
        lambda x, a: a(x).transpose(1, 2) / 3,
        lambda x, a: functional.dropout(a(x), training=False) * -2,
    ],
)
def test_that_a_factor_behind_a_layer_goes_into_it(compute):
    torch.manual_seed(0)
    module, (count,) = rewritten(Net(compute, a=nn.Linear(32, 8)), torch.randn(1, 12, 32), (take_factors,))
    assert count == 1
    assert not {*operators(module)} & {ATEN.mul.Tensor, ATEN.div.Tensor}


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, a: (y := a(x)) * 0.25 + y,
        lambda x, a: functional.relu(a(x)) * 0.25,
        lambda x, a: a(x) * a(x).mean(),
        lambda x, a: a(x) * 0.0,
    ],
)
def test_that_other_factors_stay(compute):
    assert rewritten(Net(compute, a=nn.Linear(32, 8)), torch.randn(1, 12, 32), (take_factors,))[1] == [0]
