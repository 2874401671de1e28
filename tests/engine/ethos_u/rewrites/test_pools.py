"""Pools that pad, and pools of single windows, stay the same function."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.engine.ethos_u.rewrites.test_rewrites_are_exact import U55, U85, operators, quantizer, rewritten
from workbench.engine.ethos_u.corrections.unsupported_operators import plain_operators
from workbench.engine.ethos_u.rewrites.pools import take_pool_pads, write_pools_of_rows

pytestmark = pytest.mark.engine
ATEN = torch.ops.aten
LEAST = torch.finfo(torch.float32).min


class Pooled(nn.Module):
    """A convolution, a function, a pad and a pool."""

    def __init__(self, pool, ends=None, value=0.0, function=torch.relu):
        super().__init__()
        self.pool, self.ends, self.value, self.function = pool, ends, value, function

    def forward(self, x):
        x = self.function(x)
        return self.pool(x if self.ends is None else functional.pad(x, self.ends, value=self.value))


def as_images(module, _quantizer):
    return plain_operators(module, None) or []


@pytest.mark.parametrize(
    ("pool", "ends", "value", "function"),
    [
        (nn.MaxPool2d(3, 2), (0, 1, 0, 1), -math.inf, torch.tanh),
        (nn.MaxPool2d(3, 2), (0, 1, 0, 1), LEAST, torch.tanh),
        (nn.MaxPool2d(3, 2), (1, 1, 1, 1), 0.0, torch.relu),
        (nn.MaxPool2d(5, 2, 1), (1, 1, 1, 1), 0.0, torch.sigmoid),
        (nn.MaxPool2d((1, 3), (1, 3)), (1, 0), -math.inf, torch.tanh),
        (nn.MaxPool1d(3, 2), (0, 1), 0.0, torch.relu),
        (nn.AvgPool2d(3, 2), (1, 1, 1, 1), 0.0, torch.tanh),
        (nn.AvgPool2d(3, 1, 1), (1, 1, 1, 1), 0.0, torch.tanh),
    ],
)
def test_that_a_pool_pads_by_itself(pool, ends, value, function):
    shape = (2, 4, 18) if isinstance(pool, nn.MaxPool1d) else (2, 4, 18, 18)
    net = Pooled(pool, ends, value, function)
    module, (*_, count) = rewritten(net, torch.randn(shape), (as_images, take_pool_pads))
    assert count == 1
    assert not {ATEN.pad.default, ATEN.constant_pad_nd.default} & set(operators(module))


@pytest.mark.parametrize(
    ("pool", "ends", "value", "function"),
    [
        (nn.MaxPool2d(3, 2), (1, 1, 1, 1), 0.0, torch.tanh),
        (nn.MaxPool2d(3, 2), (2, 2, 2, 2), 0.0, torch.relu),
        (nn.MaxPool2d(3, 2), (1, 1, 1, 1), 0.5, torch.relu),
        (nn.MaxPool2d(3, 2), (0, 3, 0, 3), 0.0, torch.relu),
        (nn.AvgPool2d(3, 2), (0, 1, 0, 1), 0.0, torch.relu),
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 1, 1, 1), 0.0, torch.relu),
        (nn.AvgPool2d(5, 2), (1, 1, 1, 1), 0.0, torch.relu),
    ],
)
def test_that_other_pads_before_pools_stay(pool, ends, value, function):
    net = Pooled(pool, ends, value, function)
    assert rewritten(net, torch.randn(1, 4, 18, 18), (take_pool_pads,))[1] == [0]


@pytest.mark.parametrize(
    ("pool", "shape"),
    [
        (nn.AvgPool2d((1, 8)), (1, 4, 3, 50)),
        (nn.MaxPool2d((5, 4)), (2, 3, 23, 17)),
        (nn.MaxPool1d(8), (2, 3, 50)),
        (nn.AvgPool1d(4), (1, 3, 48)),
    ],
)
def test_that_windows_beside_each_other_are_rows(pool, shape):
    module, (*_, count) = rewritten(Pooled(pool), torch.randn(shape), (as_images, write_pools_of_rows))
    assert count == 1
    calls = [node for node in module.graph.nodes if "pool" in str(node.target)]
    assert calls
    assert {tuple(call.args[2]) for call in calls} == {(1, 1)}


def test_that_overlapping_windows_short_strides_and_what_no_sram_holds_stay():
    for pool, shape, device in (
        (nn.MaxPool2d(5, 4), (1, 4, 30, 30), U55),
        (nn.MaxPool2d(4, padding=1), (1, 4, 30, 30), U55),
        (nn.AvgPool2d(3), (1, 4, 30, 30), U55),
        (nn.AvgPool2d(30), (1, 4, 30, 30), U55),
        (nn.MaxPool2d(4), (1, 4, 512, 256), U85),
    ):
        net, made = Pooled(pool, function=lambda x: x), quantizer(device)
        assert rewritten(net, torch.randn(shape), (write_pools_of_rows,), made)[1] == [0]


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv1d(4, 6, 3, padding="same", dilation=2),
        nn.Conv1d(4, 6, 4, padding="same"),
        nn.Conv1d(4, 6, 3, padding="valid"),
        nn.Conv2d(4, 6, (3, 4), padding="same"),
    ],
)
@pytest.mark.parametrize("is_alone", [False, True])
def test_that_a_padding_by_name_is_written_with_its_numbers(conv, is_alone):
    sizes = [9] * (conv.weight.dim() - 2)
    x = torch.randn(4, *sizes) if is_alone else torch.randn(2, 4, *sizes)
    module, _ = rewritten(conv, x, (as_images,))
    assert not {ATEN.conv1d.padding, ATEN.conv2d.padding} & set(operators(module))
