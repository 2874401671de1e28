"""Layer norms without means, norms over groups by channels, and cuts that come later."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.engine.ethos_u.rewrites.test_rewrites_are_exact import U85, operators, quantizer, rewritten
from workbench.engine.ethos_u.corrections.unsupported_operators import plain_operators
from workbench.engine.ethos_u.rewrites.norm_groups import write_group_norms
from workbench.engine.ethos_u.rewrites.norm_means import take_means
from workbench.engine.ethos_u.rewrites.norms import fold_norms_forward, write_norms_as_one
from workbench.engine.ethos_u.rewrites.strides import write_large_kernels
from workbench.engine.ethos_u.rewrites.tails import cut_unread_tails

pytestmark = pytest.mark.engine
ATEN = torch.ops.aten


@pytest.fixture(autouse=True)
def _numbers():
    torch.manual_seed(0)


def with_weights(net):
    for part in net.modules():
        if isinstance(part, nn.LayerNorm | nn.GroupNorm) and part.weight is not None:
            nn.init.uniform_(part.weight, 0.5, 1.5)
            if part.bias is not None:
                nn.init.normal_(part.bias, 0, 0.3)
    return net.eval()


class Turned(nn.Module):
    """A norm over the channels of a sequence, as convolutions have them."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class Block(nn.Module):
    """Norms before layers, as most transformers have them, with a position and a token of its own."""

    def __init__(self, depth=2, size=8):
        super().__init__()
        self.patches = nn.Conv2d(3, size, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, size))
        self.position = nn.Parameter(torch.randn(1, 5, size))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(depth + 1))
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 16), nn.GELU(), nn.Linear(16, size)) for _ in range(depth)
        )
        self.head = nn.Linear(size, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        for norm, layer in zip(self.norms, self.layers, strict=False):
            x = x + layer(norm(x))
        return self.head(self.norms[-1](x)[:, 0])


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8)), (2, 5, 6)),
        (nn.Sequential(nn.Conv1d(2, 8, 3, bias=False), Turned(8), nn.Conv1d(8, 4, 3)), (1, 2, 30)),
        (nn.Sequential(nn.Linear(6, 8, bias=False), nn.LayerNorm(8, elementwise_affine=False)), (5, 6)),
        (nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.LayerNorm(8, eps=0.1, bias=False)), (5, 6)),
    ],
)
def test_that_a_layer_takes_the_mean_off(net, shape):
    module, counts = rewritten(with_weights(net), torch.randn(shape) + 1, (take_means,))
    assert counts == [1]
    assert ATEN.layer_norm.default not in operators(module)
    assert ATEN.sub.Tensor not in operators(module)


def test_that_all_layers_between_the_norms_of_a_transformer_take_means_off():
    module, counts = rewritten(with_weights(Block()), torch.randn(1, 3, 8, 8), (plain_operators, take_means))
    assert counts[-1] == 3
    assert ATEN.layer_norm.default not in operators(module)


class Read(nn.Module):
    """A norm, and something else that reads what it reads."""

    def __init__(self, other, norm=None):
        super().__init__()
        self.layer, self.norm, self.other = nn.Linear(6, 8), norm or nn.LayerNorm(8), other

    def forward(self, x):
        x = self.layer(x)
        return self.norm(x), self.other(x)


@pytest.mark.parametrize("other", [nn.Linear(8, 2), nn.ReLU(), nn.Identity(), nn.LayerNorm((5, 8))])
def test_that_means_stay_where_something_else_depends_on_them(other):
    module, counts = rewritten(Read(other), torch.randn(1, 5, 6), (take_means,))
    assert counts == [0]
    assert ATEN.layer_norm.default in operators(module)


@pytest.mark.parametrize(
    "net",
    [
        nn.LayerNorm(6),
        nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.LayerNorm(6)),
        nn.Sequential(nn.Linear(6, 6), nn.LayerNorm((5, 6))),
        nn.Sequential(nn.Linear(6, 12), nn.Unflatten(-1, (3, 4)), nn.LayerNorm(4)),
    ],
)
def test_that_means_stay_behind_what_is_no_linear_map_of_the_channels(net):
    assert rewritten(net, torch.randn(1, 5, 6), (take_means,))[1] == [0]


@pytest.mark.parametrize(("groups", "channels"), [(2, 8), (1, 6), (3, 6)])
@pytest.mark.parametrize("shape", [(50,), (7, 6)])
@pytest.mark.parametrize("device", ["TOSA-1.0+INT+int16+int4+u55", U85])
def test_that_a_norm_over_groups_is_of_means_of_channels(groups, channels, shape, device):
    conv = (nn.Conv1d, nn.Conv2d)[len(shape) - 1]
    net = nn.Sequential(conv(2, channels, 1), nn.GroupNorm(groups, channels), nn.ReLU(), conv(channels, 3, 1))
    functions = (write_group_norms, fold_norms_forward, write_norms_as_one)
    module, counts = rewritten(
        with_weights(net), torch.randn(1, 2, *shape) + 0.5, functions, quantizer(device)
    )
    assert counts == [1, 0, 1]
    assert ATEN.group_norm.default not in operators(module)


def test_that_the_weights_of_a_norm_over_groups_still_go_into_the_next_layer():
    net = nn.Sequential(nn.Conv1d(2, 8, 1), nn.GroupNorm(2, 8), nn.Conv1d(8, 3, 3))
    functions = (write_group_norms, fold_norms_forward, write_norms_as_one)
    assert rewritten(with_weights(net), torch.randn(1, 2, 40), functions)[1] == [1, 1, 0]


@pytest.mark.parametrize(
    ("pool", "shape"), [(nn.MaxPool1d(4), (50,)), (nn.MaxPool1d(3, 2, 1), (50,)), (nn.MaxPool2d(2), (7, 6))]
)
def test_that_the_largest_values_are_found_before_they_are_divided(pool, shape):
    conv = (nn.Conv1d, nn.Conv2d)[len(shape) - 1]
    net = nn.Sequential(conv(2, 8, 1), nn.GroupNorm(8, 8), nn.ReLU(), pool, conv(8, 3, 1))
    functions = (plain_operators, write_group_norms)
    module, counts = rewritten(with_weights(net), torch.randn(1, 2, *shape), functions)
    assert counts[-1] == 1
    order = operators(module)
    assert order.index(ATEN.max_pool2d.default) < order.index(ATEN.relu.default)
    net[1].weight.data[3] = -1
    module, counts = rewritten(net, torch.randn(1, 2, *shape), functions)
    # A factor below zero makes the smallest value the largest; groups of one channel gain nothing else.
    assert counts[-1] == 0


@pytest.mark.parametrize("count", [2, 3])
def test_that_a_norm_over_several_samples_stays(count):
    net = nn.Sequential(nn.Conv1d(2, 8, 1), nn.GroupNorm(2, 8))
    assert rewritten(net, torch.randn(count, 2, 30), (write_group_norms,))[1] == [0]


def test_that_a_cut_comes_after_what_computes_each_place_by_itself():
    first, norm, second = nn.Conv1d(1, 32, 64), Turned(32), nn.Conv1d(32, 8, 4, 2)
    net = with_weights(nn.Sequential(first, norm, nn.SiLU(), second))
    module, counts = rewritten(net, torch.randn(1, 1, 400), (take_means, write_large_kernels))
    assert counts == [1, 1]
    (cut,) = (n for n in module.graph.nodes if n.target is ATEN.slice.Tensor)
    assert "conv" in str(next(iter(cut.users)).target)
    last = operators(module)[-2:]
    assert last == [ATEN.slice.Tensor, ATEN.conv1d.default]


class Joined(nn.Module):
    """Values that are joined with themselves, in channels or places."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cat([x, x], self.dim)


@pytest.mark.parametrize("part", [nn.Softmax(-1), Joined(-1), nn.AvgPool1d(3, 1), nn.Flatten()])
def test_that_a_cut_stays_before_what_depends_on_all_places(part):
    net = nn.Sequential(nn.Conv1d(1, 8, 64), nn.SiLU(), part)
    module, counts = rewritten(net, torch.randn(1, 1, 400), (write_large_kernels,))
    assert counts == [1]
    order = operators(module)
    assert order.index(ATEN.slice.Tensor) < order.index(ATEN.silu.default)


def test_that_places_are_cut_across_a_layer_norm():
    net = nn.Sequential(nn.Conv1d(1, 32, 10, 5), Turned(32), nn.GELU(), nn.Conv1d(32, 8, 8, 4))
    module, counts = rewritten(with_weights(net), torch.randn(1, 1, 1600), (cut_unread_tails,))
    assert counts == [1]
    cut = next(n for n in module.graph.nodes if n.target is ATEN.slice.Tensor)
    assert cut.args[0].op == "placeholder"


class Causal(nn.Module):
    """A convolution whose results that read zeros at the end are cut off, as temporal networks have it."""

    def __init__(self, padding, cut, **settings):
        super().__init__()
        self.conv, self.cut = nn.Conv1d(4, 4, 3, padding=padding, **settings), cut

    def forward(self, x):
        return functional.relu(self.conv(x)[:, :, : -self.cut].contiguous())


@pytest.mark.parametrize(
    ("net", "count"),
    [
        (Causal(2, 2), 1),
        (Causal(4, 4, dilation=2), 1),
        (Causal(2, 1), 1),
        (Causal(2, 2, bias=False, groups=2), 1),
        (Causal(1, 2), 0),
        (Causal(2, 1, stride=2), 1),
    ],
)
def test_that_a_convolution_pads_less_where_its_last_results_are_cut_off(net, count):
    module, counts = rewritten(net, torch.randn(1, 4, 20), (cut_unread_tails,))
    assert counts == [count]
    assert (ATEN.slice.Tensor in operators(module)) == (count == 0)
