"""Sequences as images: dilated convolutions, and strided ones of each channel."""

import random

import pytest
import torch
from torch import nn

from tests.engine.ethos_u.rewrites.test_rewrites_are_exact import operators, rewritten
from workbench.engine.ethos_u.corrections.unsupported_operators import plain_operators
from workbench.engine.ethos_u.rewrites.dilations import write_dilations
from workbench.engine.ethos_u.rewrites.strides import write_strides

pytestmark = pytest.mark.engine
ATEN = torch.ops.aten


@pytest.mark.slow
def test_that_a_dilated_convolution_is_one_over_rows():
    chosen = random.Random(1)
    torch.manual_seed(1)
    for index in range(24):
        kernel, dilation, padding = chosen.randint(2, 4), chosen.randint(3, 6), chosen.randint(0, 12)
        before = chosen.choice(((0, 0), ((kernel - 1) * dilation, 0), (3, 1)))
        conv = nn.Conv1d(
            4, 8, kernel, 1, padding, dilation, groups=chosen.choice((1, 2, 4)), bias=index % 2 > 0
        )
        net = nn.Sequential(nn.ConstantPad1d(before, 0.0), conv, chosen.choice((nn.ReLU(), nn.SiLU())))
        x = torch.randn(1 + index % 2, 4, chosen.randint(30, 60))
        module, counts = rewritten(net, x, (plain_operators, write_dilations))
        assert counts[-1] == 1
        assert ATEN.conv1d.default not in operators(module)


def test_that_zeros_before_a_causal_convolution_are_rows():
    net = nn.Sequential(nn.ConstantPad1d((8, 0), 0.0), nn.Conv1d(4, 4, 3, dilation=4))
    module, _ = rewritten(net, torch.randn(1, 4, 64), (plain_operators, write_dilations))
    (zeros,) = (n for n in module.graph.nodes if n.target is ATEN.constant_pad_nd.default)
    assert zeros.args[1] == [0, 0, 2, 0]


@pytest.mark.parametrize(
    "conv",
    [nn.Conv1d(4, 4, 3, dilation=2), nn.Conv1d(4, 4, 1, dilation=4), nn.Conv1d(4, 4, 3, 2, dilation=4)],
)
def test_that_small_dilations_single_taps_and_strides_stay(conv):
    assert rewritten(conv, torch.randn(1, 4, 40), (write_dilations,))[1] == [0]


def test_that_a_strided_convolution_of_each_channel_stays_one_of_each_channel():
    chosen = random.Random(2)
    torch.manual_seed(2)
    for index in range(24):
        times, stride = chosen.randint(1, 2), chosen.randint(4, 7)
        settings = {"padding": chosen.randint(0, 8), "dilation": chosen.randint(1, 2)}
        conv = nn.Conv1d(
            6, 6 * times, chosen.randint(2, 12), stride, groups=6, bias=index % 2 > 0, **settings
        )
        net = nn.Sequential(conv, chosen.choice((nn.ReLU(), nn.SiLU())))
        module, counts = rewritten(
            net, torch.randn(1 + index % 2, 6, chosen.randint(40, 90)), (write_strides,)
        )
        assert counts == [1]
        (image,) = (n for n in module.graph.nodes if n.target is ATEN.conv2d.default)
        # One channel for each group: Vela compiles others one by one.
        assert image.args[1].meta["val"].shape[1] == 1
        assert image.args[6] == 6
