"""Channels are removed with everything that belongs to them, and weights are made alike."""

import copy
import importlib
import operator

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from tests.for_each import for_each
from tests.zoo.cases import IMAGE_FILES, networks
from workbench.engine.quantization.compression import (
    NotPrunableError,
    channels_of,
    cluster,
    clustered,
    prune,
    scores,
)

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def exported(model, *shape):
    """Return the module of an exported model with batch norms that are not the identity."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.uniform_(-0.5, 0.5)
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 1.5)
    model.eval().requires_grad_(False)
    inputs = torch.randn(shape)
    return torch.export.export(model, (inputs,)).module(check_guards=False), inputs


def silence(module, name, channels, *others):
    """Make channels of a layer and their norms zero, so that removing them changes nothing."""
    for tensor in (f"{name}.weight", f"{name}.bias", *others):
        value = operator.attrgetter(tensor)(module)
        value.data[channels] = 0


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.wise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.last = nn.Conv2d(16, 8, 1)
        self.head = nn.Linear(8 * 16, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.max_pool2d(torch.relu(self.wise(x)), 2)
        return self.head(self.last(x).flatten(1))


class Joined(nn.Module):
    """Residuals, a concatenation, a gate over channels (squeeze and excite), and a parameter."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.inner = nn.Conv2d(16, 16, 3, padding=1)
        self.side = nn.Conv2d(16, 8, 1)
        self.squeeze = nn.Conv2d(24, 6, 1)
        self.excite = nn.Conv2d(6, 24, 1)
        self.scale = nn.Parameter(torch.rand(24, 1, 1))
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = x + self.inner(x)
        x = torch.cat([x, torch.relu(self.side(x))], 1)
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        x = x * gate * self.scale
        return self.head(x.mean((2, 3)))


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(3, 12, 3, padding=1)
        self.steps = nn.GRU(12, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.steps(self.frames(x).transpose(1, 2))[0].mean(1))


class Forward(nn.Module):
    """A part of a transformer: its inner channels can go, those of its stream cannot."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def test_that_channels_that_are_zero_go_without_a_trace():
    module, inputs = exported(Plain(), 1, 3, 8, 8)
    silence(module, "first", slice(3, 7), "norm.weight", "norm.bias", "norm.running_mean")
    silence(module, "wise", slice(3, 7))
    before = module(inputs)
    assert prune(module, {"first": 12}) == {"first": (16, 12)}
    assert operator.attrgetter("wise.weight")(module).shape == (12, 1, 3, 3)
    torch.testing.assert_close(module(inputs), before)


def test_that_flattened_channels_go_with_all_their_columns():
    module, inputs = exported(Plain(), 1, 3, 8, 8)
    silence(module, "last", slice(2, 5))
    before = module(inputs)
    assert prune(module, {"last": 5}) == {"last": (8, 5)}
    assert operator.attrgetter("head.weight")(module).shape == (5, 5 * 16)
    torch.testing.assert_close(module(inputs), before)


class Alone(nn.Module):
    """Convolutions of one sequence without a batch, one of them depthwise."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(3, 4, 3, padding=1)
        self.wise = nn.Conv1d(4, 4, 3, padding=1, groups=4)
        self.last = nn.Conv1d(4, 2, 1)

    def forward(self, x):
        return torch.stack([self.last(self.wise(self.first(x))), x[:2]], 1)


def test_that_channels_of_a_sequence_without_a_batch_go():
    module, inputs = exported(Alone(), 3, 12)
    silence(module, "first", [1, 3], "wise.bias")
    wanted = module(inputs)
    assert prune(module, {"first": 2}) == {"first": (4, 2)}
    assert module.last.weight.shape == (2, 2, 1)
    torch.testing.assert_close(module(inputs), wanted)


class Shifted(nn.Module):
    """A write into the middle of two columns, which is empty."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 3, 1)

    def forward(self, x):
        y = self.first(x)
        return y + y[..., 1:-1].sum()


def test_that_channels_of_an_empty_part_are_not_looked_for():
    assert "first" in channels_of(exported(Shifted(), 1, 2, 4, 2)[0]).outputs


def test_that_joined_layers_lose_the_same_channels():
    module, inputs = exported(Joined(), 1, 3, 8, 8)
    channels = channels_of(module)
    assert set(channels.partners("stem")) == {"inner", "excite"}
    for name in ("stem", "inner"):
        silence(module, name, slice(4, 12))
    silence(module, "excite", slice(16, 20))
    silence(module, "side", slice(0, 4))
    before = module(inputs)
    done = prune(module, {"stem": 8, "side": 4})
    assert done == {"stem": (16, 8), "inner": (16, 8), "side": (8, 4), "excite": (24, 12)}
    torch.testing.assert_close(module(inputs), before)


def test_that_a_recurrent_layer_reads_fewer_channels():
    module, inputs = exported(Steps(), 1, 3, 4)
    silence(module, "frames", slice(0, 4))
    before = module(inputs)
    assert prune(module, {"frames": 8}) == {"frames": (12, 8)}
    torch.testing.assert_close(module(inputs), before)


def test_that_inner_channels_of_a_transformer_go():
    module, inputs = exported(Forward(), 1, 5, 8)
    silence(module, "up", slice(10, 20))
    before = module(inputs)
    assert prune(module, {"up": 22}) == {"up": (32, 22)}
    torch.testing.assert_close(module(inputs), before)


@pytest.mark.parametrize(
    ("model", "shape", "wanted"),
    [
        (Plain, (1, 3, 8, 8), {"head": 2}),
        (Plain, (1, 3, 8, 8), {"nowhere": 2}),
        (Plain, (1, 3, 8, 8), {"first": 17}),
        (Joined, (1, 3, 8, 8), {"stem": 8, "inner": 12}),
        (Forward, (1, 5, 8), {"down": 4}),
    ],
    ids=["output", "unknown", "too many", "two numbers", "layer norm"],
)
def test_that_channels_that_cannot_go_are_refused_by_name(model, shape, wanted):
    module, inputs = exported(model(), *shape)
    before = module(inputs)
    with pytest.raises(NotPrunableError) as caught:
        prune(module, wanted)
    assert caught.value.args[0] in wanted
    torch.testing.assert_close(module(inputs), before)


def test_that_the_least_important_channels_go():
    module, _ = exported(Plain(), 1, 3, 8, 8)
    weight = operator.attrgetter("first.weight")(module)
    weight.data[5] *= 1e-3
    operator.attrgetter("wise.weight")(module).data[5] *= 1e-3
    kept = torch.cat([weight[:5], weight[6:]]).clone()
    prune(module, {"first": 15})
    torch.testing.assert_close(operator.attrgetter("first.weight")(module), kept)


@for_each("count", [3, 15, 31, 255])
def test_that_weights_are_few_codes_in_every_channel(count):
    torch.manual_seed(0)
    weight = torch.randn(6, 4, 3, 3) * torch.tensor([1, 1e-3, 10, 1, 0, 2]).reshape(6, 1, 1, 1)
    made = clustered(weight, count)
    largest = weight.abs().amax((1, 2, 3), keepdim=True)
    assert torch.equal(made.abs().amax((1, 2, 3), keepdim=True), largest)
    codes = torch.round(127 * made / largest.clamp_min(1e-12))
    assert len(torch.unique(codes)) <= count
    assert bool((made * weight >= 0).all())
    error = (made - weight).norm() / weight.norm()
    assert error < {3: 0.7, 15: 0.12, 31: 0.06, 255: 0.02}[count]


def test_that_clusters_of_a_module_go_before_those_of_every_layer():
    module, _ = exported(Steps(), 1, 3, 4)
    done = cluster(module, {"": 15, "frames": 7})
    assert done["frames"][1] <= 7 < done["head"][1] <= 15
    assert done["steps"][1] <= 15 < done["steps"][0]
    with pytest.raises(NotPrunableError):
        cluster(module, {"nowhere": 15})


def zoo():
    """Return the networks on images of the zoo, each with the name of its file."""
    return [(file, name) for file in IMAGE_FILES for name in networks(file)]


def halved(module):
    """Return half of the channels of every layer that can lose some, and the labels that go."""
    channels = channels_of(module)
    importance = scores(module, channels)
    wanted, gone, seen = {}, set(), set()
    for name in channels.outputs:
        try:
            roots = channels.roots_of(name)
        except NotPrunableError:
            continue
        if len(roots) > 1 and not seen & set(roots):
            seen |= set(roots)
            wanted[name] = (len(roots) + 1) // 2
            ordered = sorted(roots, key=lambda root: (-importance.get(root, 0.0), root))
            gone |= set(ordered[wanted[name] :])
    return channels, wanted, gone


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), zoo())
def test_that_a_pruned_network_is_the_one_that_reads_no_removed_channel(file, name):
    model, inputs = getattr(importlib.import_module(f"tests.zoo.{file}"), name)()
    model.eval().requires_grad_(False)
    module = torch.export.export(model, inputs).module(check_guards=False)
    channels, wanted, gone = halved(module)
    deaf = copy.deepcopy(module)
    for (constant, dimension), labels in channels.slices.items():
        tensor = operator.attrgetter(constant)(deaf)
        makes = channels.outputs.get(constant.removesuffix(".weight")) is labels
        if tensor.dim() > 1 and not makes:
            out = [at for at, x in enumerate(labels.tolist()) if channels.root(x) in gone]
            tensor.data.index_fill_(dimension, torch.tensor(out, dtype=torch.int64), 0)
    before = tree_leaves(deaf(*inputs))
    prune(module, wanted)
    for mine, theirs in zip(tree_leaves(module(*inputs)), before, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
