"""Networks of ordinary code that were once delivered as right and computed something else.

``NETWORKS`` has one by name: how it is made, and how a sample is drawn from a generator. A module
of a project names it by ``case_networks.py:NAME``, with ``case_networks.py:samples_of_NAME``;
``unseen_samples(NAME)`` are samples that calibration does not see.
"""

import functools
import math

import torch
from torch import nn
from torch.nn import functional

NETWORKS = {}
CALIBRATED, UNSEEN = 16, 6
LEAST = torch.finfo(torch.float32).min


class Net(nn.Module):
    """Parts, and a function of them and the inputs."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                self.add_module(name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, *inputs):
        return self.run(self, *inputs)


def drawn(*shape, scale=1.0):
    """Return a function that draws one input of this shape."""
    return lambda generator: torch.randn(shape, generator=generator) * scale


def case(*inputs):
    """Return a decorator of a function that builds a network, whose samples are these inputs.

    The function then returns the network with an example input.
    """

    def added(build):
        NETWORKS[build.__name__] = (build, inputs)
        return functools.partial(made, build.__name__)

    return added


def made(name):
    """Return a network, and an example input."""
    build, _ = NETWORKS[name]
    torch.manual_seed(0)
    return build().eval(), next(iter(_samples(name, 5, 1)))


def unseen_samples(name):
    """Return the samples on which a network is judged."""
    return list(_samples(name, 777, UNSEEN))


def _samples(name, seed, count):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield tuple(draw(generator) for draw in NETWORKS[name][1])


def __getattr__(name):
    network = name.removeprefix("samples_of_")
    if network == name or network not in NETWORKS:
        raise AttributeError(name)
    return lambda: _samples(network, 1, CALIBRATED)


def _random_norms(module):
    """Give batch norms statistics and weights that differ from zeros and ones."""
    for norm in module.modules():
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.2, 2)
            norm.weight.data.uniform_(0.5, 1.5)
            norm.bias.data.uniform_(-0.5, 0.5)
    return module


# Norms, pools, and convolutions.


@case(drawn(1, 3, 8, 8))
def bn_bn():
    """Two batch norms after a convolution."""
    layers = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.BatchNorm2d(6), nn.ReLU()
    return _random_norms(nn.Sequential(*layers))


@case(drawn(1, 3, 8, 8))
def train_bn_without_affine():
    """A batch norm without weights after a convolution without a bias."""
    norm = nn.BatchNorm2d(8, affine=False)
    layers = nn.Conv2d(3, 8, 3, bias=False), norm, nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)
    return nn.Sequential(*layers)


@case(drawn(1, 6, 6, 6))
def convt_groups():
    """A transposed convolution in groups."""
    return nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2)


@case(drawn(1, 3, 6, 6))
def transposed_groups_norm():
    """A transposed convolution in groups with a batch norm."""
    up = nn.ConvTranspose2d(8, 8, 3, 2, 1, 1, groups=2)
    return _random_norms(nn.Sequential(nn.Conv2d(3, 8, 1), up, nn.BatchNorm2d(8), nn.ReLU()))


@case(drawn(1, 3, 6, 6))
def transposed_depthwise_norm():
    """A depthwise transposed convolution without a bias, with a batch norm."""
    up = nn.ConvTranspose2d(8, 8, 2, 2, groups=8, bias=False)
    return _random_norms(nn.Sequential(nn.Conv2d(3, 8, 1), up, nn.BatchNorm2d(8)))


@case(drawn(4, 3, 16, 16))
def cpu_pool_batch():
    """A pool over a batch of four, and an arg-max of the softmax."""
    layers = [
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.Hardswish(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 1),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(),
        nn.Linear(32, 6),
        nn.Softmax(1),
    ]
    with torch.no_grad():
        layers[6].weight *= 40
    return nn.Sequential(*layers)


@case(drawn(2, 12))
def unbatched_pool():
    """A pool of a sequence without a batch."""

    def run(m, x):
        return m.pool(torch.relu(m.conv(x)))

    return Net(run, conv=nn.Conv1d(2, 4, 3, padding=1), pool=nn.AvgPool1d(2))


@case(drawn(1, 6, 12, 12))
def shared_depthwise():
    """A depthwise convolution that is called twice."""

    def run(m, x):
        return m.conv(torch.relu(m.conv(x)))

    return Net(run, conv=nn.Conv2d(6, 6, 2, groups=6))


@case(drawn(1, 6, 12, 12))
def shared_depthwise_branches():
    """One depthwise convolution in two branches of other magnitudes, one with a batch norm."""

    def run(m, x):
        a, b = m.conv(x), m.conv(x * 8)
        return torch.cat([m.norm(a), b], 1), m.conv(m.norm(b))

    conv = nn.Conv2d(6, 6, 3, padding=1, groups=6)
    return _random_norms(Net(run, conv=conv, norm=nn.BatchNorm2d(6)))


@case(drawn(1, 1, 49, 10))
def dscnn():
    """A keyword spotter of depthwise-separable blocks."""

    def block():
        depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        pointwise = nn.Conv2d(16, 16, 1, bias=False)
        return [depthwise, nn.BatchNorm2d(16), nn.ReLU(), pointwise, nn.BatchNorm2d(16), nn.ReLU()]

    stem = [nn.Conv2d(1, 16, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    head = [nn.AvgPool2d((25, 5)), nn.Flatten(), nn.Linear(16, 12)]
    return _random_norms(nn.Sequential(*stem, *block(), *block(), *head))


@case(drawn(1, 3, 8, 8))
def norm_eps():
    """Batch norms with their own epsilon, and a dropout."""
    first, second = nn.BatchNorm2d(8, eps=1e-3), nn.BatchNorm2d(8, eps=0.5)
    layers = [
        nn.Conv2d(3, 8, 3, bias=False),
        first,
        nn.SiLU(),
        nn.Dropout(0.2),
        nn.Conv2d(8, 8, 3, bias=False),
        second,
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 4),
    ]
    return _random_norms(nn.Sequential(*layers))


# Resizes, indices, and functions over one dimension.


@case(drawn(1, 2, 10))
def near1d():
    """A nearest resize of a sequence by a factor that is no integer."""

    def run(m, x):
        return functional.interpolate(m.conv(x), scale_factor=2.05, mode="nearest")

    return Net(run, conv=nn.Conv1d(2, 4, 3, padding=1))


@case(drawn(1, 2, 8, 8))
def index_list():
    """Channels in another order, by a list."""

    def run(m, x):
        return m.conv(x)[:, [2, 0, 1, 6, 3, 5, 4]]

    return Net(run, conv=nn.Conv2d(2, 7, 3, padding=1))


@case(drawn(1, 2, 16))
def even_conv1d():
    """Even and dilated kernels with equal sizes before and after."""

    def run(m, x):
        return functional.leaky_relu(m.b(functional.leaky_relu(m.a(x), 0.1)), 0.1)

    b = nn.Conv1d(4, 4, 5, padding="same", dilation=2, groups=2)
    return Net(run, a=nn.Conv1d(2, 4, 4, padding="same"), b=b)


@case(drawn(1, 3, 8, 8))
def bilinear_to_size():
    """A bilinear resize to odd sizes."""

    def run(m, x):
        return functional.interpolate(m.a(x), size=(13, 9), mode="bilinear", align_corners=False)

    return Net(run, a=nn.Conv2d(3, 4, 3, padding=1))


@case(drawn(1, 6, 16, 16))
def fold_overlap():
    """Windows of an image, and their sum."""

    def run(m, x):
        return functional.fold(functional.unfold(m.a(x), 3, padding=1), (16, 16), 3, padding=1)

    return Net(run, a=nn.Conv2d(6, 6, 1))


@case(drawn(1, 3, 8, 8))
def circular():
    """A padding with the opposite border."""

    def run(m, x):
        return m.a(functional.pad(x, (1, 1, 1, 1), mode="circular"))

    return Net(run, a=nn.Conv2d(3, 4, 3))


@case(drawn(1, 4, 8, 8))
def var_without_keepdim():
    """A variance over positions."""
    return Net(lambda m, x: x.var(dim=(2, 3), keepdim=False, correction=0))


@case(drawn(1, 4, 8))
def sigmoid_symmetric():
    """A sigmoid after a linear."""
    return nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())


@case(drawn(1, 4))
def ramp():
    """A row of numbers made in ``forward``, into which is written."""

    def run(m, x):
        row = torch.linspace(0, 1, 8)
        row[2:5] += m.linear(x)[0, 2:5]
        return torch.tanh(m.linear(x)) * row

    return Net(run, linear=nn.Linear(4, 8))


# Masks, limits, and attention.


@case(drawn(1, 2, 12, scale=2.0))
def limits():
    """Bounds of channels that are open at one end."""

    def run(m, x):
        return torch.minimum(torch.maximum(m.conv(x), m.low), m.high)

    low = torch.tensor([-0.5, LEAST, 0.1]).view(1, 3, 1)
    return Net(run, conv=nn.Conv1d(2, 3, 3), low=low, high=torch.tensor([0.5, 1.0, -LEAST]).view(1, 3, 1))


@case(drawn(1, 6, 8, scale=2.0))
def maskrows():
    """Attention with a row that is masked everywhere."""

    def run(m, x):
        scores = m.q(x) @ m.k(x).transpose(1, 2) / 2.8
        return torch.softmax(scores + m.mask, -1) @ m.v(x)

    mask = torch.zeros(6, 6)
    mask[:, 4:] = LEAST
    mask[5] = LEAST
    return Net(run, q=nn.Linear(8, 8), k=nn.Linear(8, 8), v=nn.Linear(8, 8), mask=mask)


def _token_ids(count, length):
    return lambda generator: torch.randint(0, count, (1, length), generator=generator)


def _kept(length, fewest):
    """Draw a mask of ones, then zeros."""

    def draw(generator):
        kept = int(torch.randint(fewest, length + 1, (1,), generator=generator))
        return (torch.arange(length)[None] < kept).float()

    return draw


@case(_token_ids(50, 9), _kept(9, 5))
def masked_bert():
    """Attention over tokens, of which the last are padded."""

    def run(m, ids, mask):
        x = m.embedding(ids)
        bias = (1.0 - mask)[:, None, :] * -3.4e38
        scores = torch.softmax(m.q(x) @ m.k(x).transpose(1, 2) / 5.6 + bias, -1)
        return m.out(scores @ m.v(x))

    parts = {name: nn.Linear(32, 32) for name in ("q", "k", "v", "out")}
    return Net(run, embedding=nn.Embedding(50, 32), **parts)


@case(drawn(5, 8))
def headroom16():
    """A feed-forward block and a layer norm, whose values exceed those of calibration a little."""

    def run(m, x):
        return m.norm(x + m.out(functional.gelu(m.expand(x))))

    return Net(run, expand=nn.Linear(8, 32), out=nn.Linear(32, 8), norm=nn.LayerNorm(8))


@case(drawn(1, 16, 32), drawn(1, 32))
def adaptive_norm():
    """A layer norm with a scale and a shift from another input."""

    def run(m, x, t):
        scale, shift = m.linear(functional.silu(t))[:, None].chunk(2, -1)
        return m.norm(x) * (1 + scale) + shift

    norm = nn.LayerNorm(32, elementwise_affine=False, eps=1e-6)
    return Net(run, linear=nn.Linear(32, 64), norm=norm)


@case(drawn(1, 6, 32), drawn(1, 32))
def dit_products():
    """Products with rows from another input, and a residual."""

    def run(m, c, t):
        rows = m.rows(t)[:, None].chunk(4, -1)
        scaled = c * rows[0]
        return scaled, m.out(scaled) * rows[1] + c * rows[2]

    return Net(run, rows=nn.Linear(32, 128), out=nn.Linear(32, 32))


@case(drawn(1, 6, 32), drawn(1, 32))
def dit_norms():
    """Two layer norms with scales from another input, and a residual between them."""

    def run(m, c, t):
        rows = m.rows(t)[:, None].chunk(4, -1)
        c = c + rows[2] * m.out(m.norm(c) * (1 + rows[1]))
        return m.norm(c) * (1 + rows[3])

    norm = nn.LayerNorm(32, elementwise_affine=False, eps=1e-6)
    return Net(run, rows=nn.Linear(32, 128), out=nn.Linear(32, 32), norm=norm)


@case(drawn(1, 4, 8, 8), lambda g: torch.rand(1, generator=g) * 10)
def timed_norm():
    """Patches with a layer norm that a time scales, as in diffusion transformers."""

    def run(m, x, t):
        rates = torch.exp(-math.log(10000) * torch.arange(16) / 16)
        angles = t[:, None] * rates[None]
        time = m.time(torch.cat([angles.cos(), angles.sin()], -1))
        patches = m.patches(x).flatten(2).transpose(1, 2) + m.positions
        return m.norm(patches) * (1 + m.scale(functional.silu(time))[:, None])

    return Net(
        run,
        patches=nn.Conv2d(4, 32, 2, 2),
        positions=torch.randn(1, 16, 32) * 0.1,
        time=nn.Sequential(nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 32)),
        scale=nn.Linear(32, 32),
        norm=nn.LayerNorm(32, elementwise_affine=False, eps=1e-6),
    )


# Several inputs and outputs.


@case(drawn(1, 8, 4), drawn(1, 4, 8, scale=3.0))
def anchor_later():
    """Joined values, one of which is a view of an input."""

    def run(m, x, y):
        u, v = x.transpose(1, 2).reshape(1, 4, 8), m.a(y)
        both = [u, torch.maximum(u, v), torch.minimum(u.flip(2), v)]
        return torch.cat(both, 1), u.unsqueeze(0)

    return Net(run, a=nn.Linear(8, 8))


@case(drawn(1, 4, 8), drawn(1, 4, 8))
def min_then_eq():
    """A comparison of a minimum with one of its operands."""

    def run(m, x, y):
        least = torch.minimum(m.a(x), y)
        return torch.where(least == y, y, least * 0.5)

    return Net(run, a=nn.Linear(8, 8))


@case(drawn(1, 3, 8, 8))
def relu_branch_not_fusable():
    """A rectified branch that an addition and a concatenation read."""

    def run(m, x):
        p, q = torch.relu(m.a(x)), m.b(x)
        s = functional.hardtanh(m.c(torch.cat([p, q], 1)), -0.5, 2.0)
        return torch.relu(m.d(s)) + p, s

    c, d = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    return Net(run, a=nn.Conv2d(3, 8, 3, padding=1), b=nn.Conv2d(3, 8, 1), c=c, d=d)


@case(drawn(1, 10, 3))
def relu_permute_residual():
    """A rectified convolution between transpositions, and a residual."""

    def run(m, x):
        y = torch.relu(m.conv(x.transpose(1, 2))).transpose(1, 2)
        return y + m.linear(y)

    return Net(run, conv=nn.Conv1d(3, 16, 3, padding=1), linear=nn.Linear(16, 16))


@case(lambda g: torch.rand(1, 12, 10, 3, generator=g).permute(0, 3, 1, 2))
def channels_last_input():
    """Samples whose channels are last in memory."""
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3))


@case(lambda g: torch.rand(1, 16, 16, 3, generator=g))
def nhwc_bytes_in():
    """A picture whose channels come last, and a mean."""

    def run(m, x):
        x = torch.relu(m.b(torch.relu(m.a(x.permute(0, 3, 1, 2)))))
        return m.last(x.mean((2, 3)))

    a, b = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
    return Net(run, a=a, b=b, last=nn.Linear(8, 4))


@case(drawn(1, 3, 8, 8))
def named_outputs():
    """Outputs in a dictionary with a list and a dictionary in it, and the input."""

    def run(m, x):
        y = m.c(x)
        return {"b": y, "a": [m.d(x), {"z": y.amax(1)}], "c": x, "d": (y.flatten(1), y[:, 1:])}

    return Net(run, c=nn.Conv2d(3, 3, 1), d=nn.Conv2d(3, 3, 3, padding=1))


@case(drawn(1, 3, 16, 16))
def anchors_made_in_forward():
    """A detection head that stores the centres of its cells when it is called first."""

    def run(m, x):
        y = m.head(functional.silu(m.conv(x)))
        rows, columns = torch.meshgrid(*(torch.arange(size) + 0.5 for size in y.shape[2:]), indexing="ij")
        m.centres = torch.stack([columns, rows]).reshape(1, 2, -1)
        z = y.flatten(2)
        low, high = m.centres - z[:, :2], m.centres + z[:, 2:4]
        return torch.cat([(low + high) / 2, high - low, z[:, 4:].sigmoid()], 1)

    return Net(run, conv=nn.Conv2d(3, 16, 3, 2, 1), head=nn.Conv2d(16, 6, 1), centres=torch.empty(0))


# Refused.


@case(lambda g: torch.randn(1, 6, generator=g).half())
def half():
    """Weights and inputs in half precision."""
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)).half()


@case(drawn(1, 3, 16, 16))
def number_from_data():
    """A number of Python that is made from the data."""

    def run(m, x):
        y = m.conv(x)
        return y / y.abs().max().item()

    return Net(run, conv=nn.Conv2d(3, 4, 3))


@case(drawn(1, 6, 16, 16))
def size_from_data():
    """A result whose size depends on the data."""
    return Net(lambda m, x: torch.nonzero(m.conv(x) > 0.2), conv=nn.Conv2d(6, 6, 1))


@case(drawn(1, 8))
def branch_on_data():
    """A branch of Python on the data."""

    def run(m, x):
        y = m.a(x)
        return y * 2 if y.sum() > 0 else y - 1

    return Net(run, a=nn.Linear(8, 8))
