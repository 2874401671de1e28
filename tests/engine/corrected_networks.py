"""Networks whose programs stock ExecuTorch gets wrong."""

import functools

import torch
from torch import nn
from torch.nn import functional


def conv(before, after, size=3, **rest):
    return nn.Conv2d(before, after, size, padding=size // 2, **rest)


class Joined(nn.Module):
    """The smallest network with a ReLU into a shared range."""

    def __init__(self):
        super().__init__()
        self.a, self.b = conv(3, 4), conv(3, 4)

    def forward(self, x):
        return torch.cat([functional.relu(self.a(x)), self.b(x)], 1)


class JoinedAndScaled(Joined):
    """The same with a factor that is below the step of an activation."""

    def forward(self, x):
        return super().forward(x) * 1e-3


class JoinedLinears(nn.Module):
    """The same with linears, and with a hardtanh beside the ReLU."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 6), nn.Linear(8, 6), nn.Linear(8, 6)

    def forward(self, x):
        clamped = functional.hardtanh(self.b(x), 0.0, 6.0)
        return torch.cat([functional.relu(self.a(x)), clamped, self.c(x)], 1)


class Stacked(Joined):
    def forward(self, x):
        return torch.stack([functional.relu(self.a(x)), self.b(x)], 1)


class NormedAndGrown(nn.Module):
    """A folded batch norm before the ReLU, and a transposed convolution behind the cat."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = conv(3, 4), conv(3, 4), nn.BatchNorm2d(4)
        self.grow = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        both = torch.cat([functional.relu(self.norm(self.a(x))), self.b(x)], 1)
        return functional.relu(self.grow(both))


class GroupNormed(nn.Module):
    """A group norm over many elements: its factor 1/N is below the step of an activation."""

    def __init__(self, groups=1):
        super().__init__()
        self.conv, self.norm, self.out = conv(3, 4), nn.GroupNorm(groups, 4), conv(4, 2, 1)

    def forward(self, x):
        return self.out(functional.relu(self.norm(self.conv(x))))


def made(build, *shape):
    torch.manual_seed(0)
    return build().eval(), (torch.randn(shape),)


class Multiplied(nn.Module):
    """A convolution and a factor, which ExecuTorch folds into its weights."""

    def __init__(self):
        super().__init__()
        self.conv = conv(3, 4)

    def forward(self, x):
        return self.conv(x) * 3.0


def multiplied():
    return made(Multiplied, 1, 3, 8, 8)


class Padded(nn.Module):
    """A constant padding, which the NPU takes and the CPU has no out variant of."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(3, 4, 3), nn.Conv1d(4, 4, 3)
        self.pad = nn.ConstantPad1d((2, 0), 0.5)

    def forward(self, x):
        return self.b(self.pad(self.a(x)))


def padded():
    return made(Padded, 1, 3, 16)


def joined():
    return made(Joined, 1, 3, 8, 8)


def joined_and_scaled():
    return made(JoinedAndScaled, 1, 3, 8, 8)


def joined_linears():
    return made(JoinedLinears, 1, 8)


def stacked():
    return made(Stacked, 1, 3, 8, 8)


def normed_and_grown():
    return made(NormedAndGrown, 1, 3, 8, 8)


def group_norm():
    return made(GroupNormed, 1, 3, 192, 192)


def group_norm_wide():
    model, _ = made(GroupNormed, 1, 3, 64, 64)
    return model, (torch.linspace(-3, 5, 3 * 64 * 64).reshape(1, 3, 64, 64),)


def contrasts():
    """Yield samples whose mean and deviation differ, so that a norm has work to do."""
    generator = torch.Generator().manual_seed(1)
    for shift, contrast in ((0.0, 1.0), (1.0, 0.5), (-1.0, 2.0), (0.5, 1.5)):
        yield torch.randn(1, 3, 192, 192, generator=generator) * contrast + shift


def group_norm_small():
    return made(lambda: GroupNormed(2), 1, 3, 24, 24)


class _Layer(nn.Module):
    """A layer, and a function of it and its result."""

    def __init__(self, layer, function, **more):
        super().__init__()
        self.layer, self.function = layer, function
        for name, part in more.items():
            setattr(self, name, part)

    def forward(self, *x):
        return self.function(self, *x)


def seeded(function):
    """Let a network be the same each time, also the parts that are made first."""

    @functools.wraps(function)
    def network():
        torch.manual_seed(0)
        return function()

    return network


@seeded
def residual():
    """A residual addition right behind a convolution."""

    def add(self, x):
        x = self.layer(x)
        return x + self.other(x)

    return made(lambda: _Layer(conv(3, 8), add, other=conv(8, 8)), 1, 3, 8, 8)


def attention_mask():
    """A softmax behind a mask of minus infinity."""

    def attend(self, x):
        return torch.softmax(self.layer(x).unsqueeze(1) + self.mask, -1)

    def build():
        layer = _Layer(nn.Linear(8, 8), attend)
        layer.register_buffer("mask", torch.triu(torch.full((8, 8), float("-inf")), 1))
        return layer

    return made(build, 1, 8)


def softmax_of_convolution():
    return made(lambda: _Layer(conv(3, 8, 1), lambda self, x: self.layer(x).softmax(1)), 1, 3, 4, 4)


@seeded
def transposed():
    """A transposed convolution with padding that is cut off, behind a ReLU."""

    def grow(self, x):
        return self.other(functional.relu(self.layer(x)))

    other = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1)
    return made(lambda: _Layer(conv(3, 8), grow, other=other), 1, 3, 4, 4)


@seeded
def transposed_in_one_dimension():
    def grow(self, x):
        return self.other(self.layer(x))

    other = nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1)
    return made(lambda: _Layer(nn.Conv1d(3, 8, 3), grow, other=other), 1, 3, 12)


def cumulated():
    return made(lambda: _Layer(nn.Linear(8, 8), lambda self, x: self.layer(x).cumsum(1)), 1, 4, 8)


def passed_through():
    return made(lambda: _Layer(None, lambda self, x: x @ x.transpose(1, 2)), 1, 4, 8)


def root_mean_square():
    """RMSNorm, over rows whose sizes differ by ten."""

    def norm(self, x):
        x = self.layer(x)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    model, _ = made(lambda: _Layer(nn.Linear(16, 16), norm), 1, 8, 16)
    return model, (torch.randn(1, 8, 16) * torch.logspace(-0.5, 0.5, 8)[None, :, None],)


def small_values():
    """A learned scale that starts tiny behind a GELU."""

    def scale(self, x):
        return functional.gelu(self.layer(x)) * self.scale

    scaled = nn.Parameter(torch.full((16,), 1e-3))
    return made(lambda: _Layer(nn.Linear(8, 16), scale, scale=scaled), 1, 4, 8)


@seeded
def cells():
    """The cells of GRU, RNN and LSTM, one step each."""

    def step(self, x, state):
        state = self.other(self.layer(x, state), state)
        hidden, memory = self.last(x, (state, state))
        return hidden, memory

    parts = {"other": nn.RNNCell(6, 6), "last": nn.LSTMCell(6, 6)}
    model, (x,) = made(lambda: _Layer(nn.GRUCell(6, 6), step, **parts), 1, 6)
    return model, (x, torch.randn(1, 6))


@seeded
def projected_lstm():
    """Two layers of an LSTM in both directions, whose states are projected."""

    def states(self, x):
        outputs, (hidden, memory) = self.layer(x)
        return outputs, hidden, memory

    options = {"proj_size": 3, "bidirectional": True, "batch_first": True}
    return made(lambda: _Layer(nn.LSTM(4, 5, 2, **options), states), 1, 3, 4)


@seeded
def product_and_bias():
    """GPT-2's linear, with the weights the other way round."""

    def multiply(self, x):
        return torch.addmm(self.bias, self.layer(x), self.weight)

    parts = {"weight": nn.Parameter(torch.randn(8, 6)), "bias": nn.Parameter(torch.randn(6))}
    return made(lambda: _Layer(nn.Linear(6, 8), multiply, **parts), 3, 6)


@seeded
def scaled_bias():
    """addmm with a factor for its bias, which is no linear."""

    def multiply(self, x):
        y = self.layer(x)
        return torch.addmm(self.bias, y, y.t(), beta=0.5)

    parts = {"bias": nn.Parameter(torch.randn(3))}
    return made(lambda: _Layer(nn.Linear(6, 8), multiply, **parts), 3, 6)


@seeded
def positions():
    """Positions that are counted from nothing, as OPT's are."""

    def look_up(self, x):
        count = torch.cumsum(torch.ones(1, 12), 1).long() - 1
        return self.layer(x) + self.other(count) * torch.ones_like(x)

    other = nn.Embedding(12, 8)
    return made(lambda: _Layer(nn.Linear(8, 8), look_up, other=other), 1, 12, 8)


@seeded
def every_correction():
    """What the corrections of 16-bit programs are for, in one network."""

    def run(self, x):
        x = self.layer(x)
        x = functional.relu(self.other(x + self.second(x)))
        x = x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        x = self.cell(x.flatten(2).mean(1)[:, :6], self.state.softmax(0).expand(1, 6)).cumsum(1)
        return functional.mish(torch.addmm(self.bias, x * 1e-3, self.weight))

    parts = {
        "second": conv(8, 8),
        "other": nn.ConvTranspose2d(8, 4, 2, stride=2),
        "cell": nn.GRUCell(6, 6),
        "state": nn.Parameter(torch.randn(6)),
        "bias": nn.Parameter(torch.randn(4)),
        "weight": nn.Parameter(torch.randn(6, 4)),
    }
    return made(lambda: _Layer(conv(3, 8), run, **parts), 1, 3, 4, 4)


@seeded
def called_twice():
    """A convolution with a batch norm that two inputs share, and one that two norms share."""

    def compare(self, x, y):
        a, b = (self.other(self.layer(each)) for each in (x, y))
        return a - b, self.second(self.layer(x)) + a

    norms = {"other": nn.BatchNorm2d(4), "second": nn.BatchNorm2d(4)}
    for norm in norms.values():
        norm.running_var.uniform_(0.2, 4.0)
        norm.running_mean.normal_()
    layer = conv(3, 4, bias=False)
    model, (x,) = made(lambda: _Layer(layer, compare, **norms), 1, 3, 8, 8)
    return model, (x, torch.randn(1, 3, 8, 8))


def _norm(kind, channels, affine=True):
    """Return a batch norm that is not the identity."""
    norm = kind(channels, affine=affine)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.2, 4.0)
    return norm


@seeded
def normed_beside():
    """A convolution whose result is read beside its norm, as in residual networks of version 2."""

    def run(self, x):
        x = self.layer(x)
        return functional.relu(self.norm(x)) + x

    return made(lambda: _Layer(conv(3, 4), run, norm=_norm(nn.BatchNorm2d, 4)), 1, 3, 8, 8)


@seeded
def not_to_be_folded():
    """Norms behind layers without a bias, with a buffer or computed weights, or in groups."""

    def run(self, x):
        x = functional.relu(self.of_computed(self.layer(x)))
        x = self.of_groups(self.grow(x))
        x = self.of_filtered(functional.conv2d(x, self.filters)).mean((2, 3))
        return self.of_linear(self.last(functional.relu(self.of_first(self.first(x)))))

    parts = {
        "of_computed": _norm(nn.BatchNorm2d, 4),
        "of_groups": _norm(nn.BatchNorm2d, 4),
        "of_filtered": _norm(nn.BatchNorm2d, 6),
        "of_first": _norm(nn.BatchNorm1d, 8),
        "of_linear": _norm(nn.BatchNorm1d, 5, affine=False),
        "grow": nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2, bias=False),
        "first": nn.Linear(6, 8, bias=False),
        "last": nn.Linear(8, 5),
        "filters": nn.Buffer(torch.randn(6, 4, 3, 3)),
    }
    layer = nn.utils.parametrizations.weight_norm(conv(3, 4))
    return made(lambda: _Layer(layer, run, **parts), 1, 3, 6, 6)


@seeded
def plain_operators():
    """Operators for which the quantizer has no pattern as they are written."""

    def run(self, x):
        x = torch.roll(self.norm(functional.relu(self.layer(x))), (1, -1), (2, 3))
        x = functional.mish(x) + functional.logsigmoid(x)
        best = functional.adaptive_max_pool2d(x, 1).flatten(1)
        steps = functional.max_pool1d(functional.avg_pool1d(x.flatten(2), 3, 2), 2)
        parts = functional.adaptive_avg_pool1d(steps, 4)
        uneven = functional.adaptive_avg_pool1d(steps, 3)
        mean = functional.adaptive_avg_pool1d(torch.cat([parts, uneven], -1), 1).flatten(1)
        whole = functional.avg_pool2d(functional.softplus(x), 6).flatten(1)
        spread = functional.normalize(steps, dim=1).std(-1) + functional.rms_norm(mean, (8,))
        grown = functional.interpolate(steps, scale_factor=2).square().mean(-1)
        both = torch.lerp(torch.max(mean, whole), grown, 0.3)
        return best + mean + whole + spread, torch.logsumexp(steps, -1), both

    return made(lambda: _Layer(conv(3, 8), run, norm=nn.InstanceNorm2d(8, affine=True)), 1, 3, 6, 6)


@seeded
def places_and_counts():
    """The largest and smallest values with their places, and a mean over a number of elements."""

    def run(self, x):
        rows = self.layer(x).flatten(2)
        best, place = rows.max(-1)
        least, last = rows.min(1, keepdim=True)
        count = (x > 0).sum((1, 2, 3)).clamp(min=1)
        return best + least.mean(), place, last, rows.sum(-1) / count

    return made(lambda: _Layer(conv(3, 8), run), 1, 3, 6, 6)


@seeded
def interpolations():
    """A bicubic interpolation by a factor that is not whole, and one of rows."""

    def run(self, x):
        x = functional.interpolate(self.layer(x), scale_factor=1.7, mode="bicubic")
        return functional.interpolate(x.flatten(2), size=60, mode="linear")

    return made(lambda: _Layer(conv(3, 4), run), 1, 3, 6, 6)


@seeded
def time_shift():
    """Paddings by less than nothing: the shift of RWKV, and the end that causal layers cut off."""

    def run(self, x):
        rows = functional.relu(self.layer(x)).flatten(2).transpose(1, 2)
        mixed = self.mix(rows * 0.7 + functional.pad(rows, (0, 0, 1, -1)) * 0.3)
        causal = functional.pad(self.causal(mixed.transpose(1, 2)), (0, -4))
        return functional.pad(causal, (-2, 3), value=0.5), functional.pad(mixed, (0, 0, -1, -1))

    parts = {"mix": nn.Linear(8, 8), "causal": nn.Conv1d(8, 8, 3, padding=4, dilation=2)}
    return made(lambda: _Layer(conv(3, 8), run, **parts), 1, 3, 4, 4)


@seeded
def shifted():
    """An image that is shifted: padded on one side and cut on the other."""
    return made(
        lambda: _Layer(conv(3, 4), lambda self, x: functional.pad(self.layer(x), (1, -1, -2, 0))), 1, 3, 6, 6
    )


@seeded
def even_kernel():
    return made(lambda: _Layer(nn.Conv2d(3, 8, 4, padding="same"), lambda self, x: self.layer(x)), 1, 3, 8, 8)


@seeded
def scaled_second_call():
    """A convolution that is called twice, with a factor behind the second call."""

    def run(self, x):
        first = self.layer(x + torch.zeros_like(x))
        return first - 0.5 * self.other(self.other(first))

    return made(lambda: _Layer(conv(3, 6), run, other=conv(6, 6)), 1, 3, 8, 8)


@seeded
def least():
    """The least value of each row."""
    return made(lambda: _Layer(conv(3, 6), lambda self, x: self.layer(x).amin(-1)), 1, 3, 9, 9)


@seeded
def most_of_one():
    """The largest of one channel, in front of a pad."""

    def run(self, x):
        return functional.pad(self.layer(x).amax(1, keepdim=True), (0, 0, 1, 1))

    return made(lambda: _Layer(conv(3, 1), run), 1, 3, 8, 6)


@seeded
def most_of_rows_of_one():
    """The largest of an image that is one pixel wide, in front of a pad."""

    def run(self, x):
        return functional.pad(self.layer(x).amax((2, 3), keepdim=True), (1, 1, 0, 0))

    return made(lambda: _Layer(conv(4, 4), run), 1, 4, 8, 1)


@seeded
def two_tables():
    """Gates as those of a recurrent layer: a sigmoid and a tangent in one chain."""

    def run(self, x):
        gate, value = self.layer(x).chunk(2, -1)
        state = torch.sigmoid(value) * torch.tanh(gate)
        return torch.sigmoid(gate) * torch.tanh(state)

    return made(lambda: _Layer(nn.Linear(8, 24), run), 12, 8)


@seeded
def distances():
    """Squared distances to five places: a difference that is broadcast over two images."""

    def run(self, x):
        return (self.layer(x).unsqueeze(-2) - self.places).square().sum(-1)

    return made(lambda: _Layer(nn.Linear(16, 8), run, places=nn.Parameter(torch.randn(5, 8))), 2, 6, 16)


@seeded
def pooled_beside():
    """The head of DeepLab and PSPNet: a pooled value grows on the CPU and meets what was pooled."""

    def run(self, x):
        x = self.layer(x)
        pooled = self.other(functional.adaptive_avg_pool2d(x, 2))
        grown = functional.interpolate(pooled, size=x.shape[-2:], mode="bilinear")
        return self.second(torch.cat([x, grown], 1))

    parts = {"other": conv(4, 4, 1), "second": conv(8, 2, 1)}
    return made(lambda: _Layer(conv(3, 4), run, **parts), 1, 3, 6, 6)


@seeded
def normed_image():
    """A layer norm over a whole image between convolutions, as in some generators."""

    def run(self, x):
        return self.second(self.norm(self.layer(x)))

    parts = {"norm": nn.LayerNorm((4, 6, 6)), "second": conv(4, 2, 1)}
    nn.init.normal_(parts["norm"].weight)
    nn.init.normal_(parts["norm"].bias)
    return made(lambda: _Layer(conv(3, 4), run, **parts), 1, 3, 6, 6)


@seeded
def grown_part():
    """A part of an image behind a convolution, which a transposed convolution grows."""

    def run(self, x):
        return self.second(self.layer(x)[:, :, 2:])

    return made(lambda: _Layer(conv(3, 4), run, second=nn.ConvTranspose2d(4, 4, 2, 2)), 1, 3, 8, 8)


@seeded
def widened_part():
    """Some channels, with two outputs each."""

    def run(self, x):
        return self.second(self.layer(x)[:, 2:])

    return made(lambda: _Layer(conv(3, 6), run, second=conv(4, 8, groups=4)), 1, 3, 8, 8)


@seeded
def summed_part():
    """The sums of the lower rows."""
    return made(lambda: _Layer(conv(3, 4), lambda self, x: self.layer(x)[:, :, 2:].sum(3)), 1, 3, 8, 8)


@seeded
def single_head():
    """Attention with one head, whose parts are one linear."""

    def run(self, x):
        q, k, v = self.layer(x).chunk(3, -1)
        return torch.softmax(q @ k.transpose(-1, -2), -1) @ v

    return made(lambda: _Layer(nn.Linear(8, 24), run), 1, 6, 8)


@seeded
def correlated_halves():
    """A product of two halves of a linear."""

    def run(self, x):
        q, k = self.layer(x).chunk(2, -1)
        return q @ k.transpose(-1, -2)

    return made(lambda: _Layer(nn.Linear(8, 16), run), 1, 6, 8)


@seeded
def clamped_and_joined():
    """An image, and its clamped convolution beside it."""

    def run(self, x):
        return torch.cat([x, functional.hardtanh(self.layer(x), 0.0, 6.0)], 3)

    return made(lambda: _Layer(conv(2, 2, 1, bias=False), run), 1, 2, 4, 4)


@seeded
def padded_by_nothing():
    """A padding whose sizes come from the input's, which needs none, and a stride of four."""

    def run(self, x):
        return self.layer(functional.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4)))

    return made(lambda: _Layer(conv(3, 8, 4, stride=4), run), 1, 3, 8, 8)


@seeded
def pools_of_one_image():
    """Pools of an image that has no batch, between convolutions."""

    def run(self, x):
        pooled = functional.avg_pool2d(self.layer(x), 3, 2, 1, count_include_pad=False)
        return functional.adaptive_avg_pool2d(pooled, 2) + 1

    return made(lambda: _Layer(conv(3, 8), run), 3, 8, 8)


@seeded
def products_with_vectors():
    """Products of an image's rows with a constant vector and with their mean, and a mean's own."""

    def run(self, x):
        rows = self.layer(x).permute(0, 2, 3, 1)
        mean = rows.mean((0, 1, 2))
        boxes = rows.softmax(-1) @ self.steps
        return (boxes, rows @ mean, mean @ rows.flatten(1, 2).transpose(1, 2), rows[0, 0] @ self.steps)

    steps = nn.Parameter(torch.arange(8.0))
    return made(lambda: _Layer(conv(3, 8, 3), run, steps=steps), 1, 3, 6, 6)
