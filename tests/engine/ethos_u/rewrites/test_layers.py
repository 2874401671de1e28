"""Pads, pairs of layers and pixel shuffles are written as other layers, and stay the same function."""

import random

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.engine.ethos_u.rewrites.test_rewrites_are_exact import (
    CONVOLUTIONS,
    Checked,
    exported,
    operators,
    rewritten,
)
from workbench.engine.ethos_u.corrections.transposed_convolutions import TRANSPOSED, write_phases
from workbench.engine.ethos_u.rewrites.layers import merge_linear_maps, take_pads, write_shuffles

pytestmark = pytest.mark.engine
ATEN = torch.ops.aten


class Padded(nn.Module):
    """Pads, and one or two convolutions that read what is padded."""

    def __init__(self, ends, *convolutions, value=0.0, mode="constant"):
        super().__init__()
        self.ends, self.value, self.mode = ends, value, mode
        self.convolutions = nn.ModuleList(convolutions)

    def forward(self, x):
        x = functional.pad(x, self.ends, self.mode, self.value)
        return torch.cat([conv(x).flatten(1) for conv in self.convolutions], 1)


def test_that_zeros_become_the_padding_of_all_convolutions_that_read_them():
    chosen = random.Random(3)
    for index in range(12):
        dims = 1 + index % 2
        sizes = [chosen.randint(0, 2) for _ in range(dims)]
        ends = [size for size in reversed(sizes) for _ in range(2)]
        both = [
            CONVOLUTIONS[dims](4, 3, chosen.randint(3, 5), chosen.choice((1, 2)), padding, 2)
            for padding in chosen.choices((0, 1, "valid"), k=chosen.choice((1, 2)))
        ]
        net = Padded(ends, *both)
        module, counts = rewritten(net, torch.randn(2, 4, *[20] * dims), (take_pads,))
        assert counts == [1]
        assert ATEN.pad.default not in operators(module)


@pytest.mark.parametrize(
    "net",
    [
        Padded((0, 1, 0, 1), nn.Conv2d(4, 3, 3, 2)),
        Padded((1, 1, 1, 1), nn.Conv2d(4, 3, 3), value=0.5),
        Padded((1, 1, 1, 1), nn.Conv2d(4, 3, 3), mode="reflect", value=None),
        Padded((3, 3, 3, 3), nn.Conv2d(4, 3, 3)),
        Padded((-1, -1, 1, 1), nn.Conv2d(4, 3, 3)),
        Padded((1, 1, 1, 1), nn.Conv2d(4, 3, 3), nn.MaxPool2d(2)),
        Padded((0, 0, 0, 0, 1, 1), nn.Conv2d(6, 3, 3)),
    ],
    ids=("uneven", "other value", "mirrored", "beyond the kernel", "cut", "another reader", "channels"),
)
def test_that_other_pads_stay(net):
    assert rewritten(net, torch.randn(1, 4, 12, 12), (take_pads,))[1] == [0]


def pair(first, second):
    return nn.Sequential(first, second)


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (pair(nn.Linear(8, 16), nn.Linear(16, 4)), (2, 5, 8)),
        (pair(nn.Linear(8, 8, bias=False), nn.Linear(8, 8)), (2, 8)),
        (nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8, bias=False)), (2, 8)),
        (pair(nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 4, 1)), (1, 8, 9, 9)),
        (pair(nn.Conv1d(4, 8, 1), nn.Conv1d(8, 8, 5, 2, dilation=2)), (2, 4, 20)),
        (pair(nn.Conv2d(4, 8, 1, bias=False), nn.Conv2d(8, 8, 3, padding=1)), (1, 4, 9, 9)),
        (pair(nn.Conv2d(8, 8, 1, bias=False), nn.Conv2d(8, 8, 1, bias=False)), (1, 8, 5, 5)),
    ],
)
def test_that_two_layers_without_a_function_between_them_become_one(net, shape):
    module, (count,) = rewritten(net, torch.randn(shape), (merge_linear_maps,))
    assert count == len(net)
    layers = (ATEN.linear.default, ATEN.conv1d.default, ATEN.conv2d.default)
    assert sum(target in layers for target in operators(module)) == 1


class Twice(nn.Module):
    """A layer whose result is read twice, or whose weights are."""

    def __init__(self, shares):
        super().__init__()
        self.first, self.second, self.shares = nn.Linear(8, 8), nn.Linear(8, 8), shares

    def forward(self, x):
        y = self.first(x)
        return self.second(self.second(torch.relu(y))) if self.shares else self.second(y) + y


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (pair(nn.Linear(32, 2), nn.Linear(2, 32)), (1, 32)),
        (pair(nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 2, 3)), (1, 4, 9, 9)),
        (pair(nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 3, padding=1)), (1, 4, 9, 9)),
        (pair(nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 1, stride=2)), (1, 8, 9, 9)),
        (pair(nn.Conv2d(8, 8, 3, groups=2), nn.Conv2d(8, 8, 1)), (1, 8, 9, 9)),
        (nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), (1, 8)),
        (Twice(shares=True), (1, 8)),
        (Twice(shares=False), (1, 8)),
    ],
)
def test_that_layers_that_one_cannot_compute_with_as_few_products_stay(net, shape):
    assert rewritten(net, torch.randn(shape), (merge_linear_maps,))[1] == [0]


def test_that_a_pixel_shuffle_is_a_convolution_that_moves_values():
    for factor in (2, 3):
        net, x = nn.PixelShuffle(factor), torch.randn(2, 3 * factor**2, 4, 5)
        module, (count,) = rewritten(net, x, (write_shuffles,))
        assert count == 1
        assert not {ATEN.pixel_shuffle.default, *TRANSPOSED} & set(operators(module))


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("functions", [(), (nn.ReLU(),), (None, nn.Tanh()), (nn.GELU(), nn.ReLU())])
def test_that_a_convolution_before_a_pixel_shuffle_is_one_for_each_row(factor, functions):
    before, behind = (*functions, None, None)[:2]
    layers = (
        nn.Conv2d(4, 2 * factor**2, 3, 2, bias=len(functions) != 1),
        before,
        nn.PixelShuffle(factor),
        behind,
    )
    net = nn.Sequential(*(layer for layer in layers if layer is not None))
    module, (count,) = rewritten(net, torch.randn(2, 4, 9, 7), (write_shuffles,))
    assert count == 1
    assert operators(module).count(ATEN.conv2d.default) == factor
    assert ATEN.pixel_shuffle.default not in operators(module)


@pytest.mark.slow
def test_that_transposed_convolutions_of_any_shape_stay_the_same_function_as_convolutions():
    chosen, count = random.Random(4), 0
    torch.manual_seed(4)
    for index in range(40):
        dims, groups = 1 + index % 2, chosen.choice((1, 1, 2))
        draw = lambda low, high, n=dims: [chosen.randint(low, high) for _ in range(n)]  # noqa: E731
        kernel, stride, dilation, padding, size = draw(1, 6), draw(1, 5), draw(1, 2), draw(0, 4), draw(1, 8)
        extra = [chosen.randint(0, max(pair) - 1) for pair in zip(stride, dilation, strict=True)]
        settings = (kernel, stride, padding, extra, groups, index % 3 > 0, dilation)
        net = nn.Sequential(
            (nn.ConvTranspose1d, nn.ConvTranspose2d)[dims - 1](2 * groups, 3 * groups, *settings),
            chosen.choice((nn.ReLU(), nn.GELU("tanh"), nn.Identity())),
        )
        spans = zip(size, kernel, stride, padding, extra, dilation, strict=True)
        if any((n - 1) * s - 2 * p + d * (k - 1) + e < k * d for n, k, s, p, e, d in spans):
            continue  # Too little is left by the padding.
        x = torch.randn(*([] if index % 5 == 0 else [1 + index % 2]), 2 * groups, *size)
        expected, module = net(x), exported(net, x)
        written = [
            write_phases(module, node) for node in list(module.graph.nodes) if node.target in TRANSPOSED
        ]
        assert written == [True]
        module.graph.eliminate_dead_code()
        assert not TRANSPOSED.keys() & set(operators(module))
        torch.testing.assert_close(Checked(module).run(x), expected, atol=1e-5, rtol=1e-5)
        count += 1
    assert count > 12
