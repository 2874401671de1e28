"""Networks with values that several operators read, and with operators that U55 and U65 lack."""

import torch
from torch import nn


def _made(model, *shapes):
    torch.manual_seed(0)
    return model().eval(), tuple(torch.randn(s) for s in shapes)


class Tabular(nn.Module):
    """A linear with a batch norm of uneven channels behind it: [1, 3, 8, 8] to [1, 4]."""

    def __init__(self):
        super().__init__()
        self.first, self.bn, self.last = nn.Linear(192, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
        with torch.no_grad():
            self.bn.weight.copy_(torch.logspace(-1, 1, 16))
            self.bn.bias.normal_()
            self.bn.running_mean.normal_()
            self.bn.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        return self.last(self.bn(self.first(x.flatten(1))).relu())


def tabular():
    return _made(Tabular, (1, 3, 8, 8))


class Residual(nn.Module):
    """A sum whose one side is the other's input, once behind a ReLU and once not."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(n, 8, 3, padding=1) for n in (3, 8, 8))
        self.bn = nn.BatchNorm2d(8)

    def forward(self, x):
        x = self.a(x).relu()
        x = self.bn(self.b(x + self.a(x[:, :3])))
        return self.c(x) + x


def residual():
    return _made(Residual, (1, 3, 8, 8))


class Strided(nn.Module):
    """Convolution and pool with strides that U55 and U65 lack, channels last."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 4, padding=1)
        self.pool, self.fc = nn.MaxPool2d(4, 4), nn.Linear(8, 4)

    def forward(self, x):
        x = self.second(self.first(x).relu()).relu()
        return self.fc(self.pool(x).flatten(1))


def strided():
    model, (x,) = _made(Strided, (1, 3, 16, 16))
    return model.to(memory_format=torch.channels_last), (x.to(memory_format=torch.channels_last),)


class Mixed(Strided):
    """The same with a resize and a choice by sign between, which CMSIS-NN lacks too."""

    def forward(self, x):
        x = self.second(self.first(x).relu())
        x = torch.where(x > 0.1, x, 0.3 * x)
        x = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        return self.fc(self.pool(x).mean((2, 3)))


def mixed():
    model, (x,) = _made(Mixed, (1, 3, 16, 16))
    return model.to(memory_format=torch.channels_last), (x.to(memory_format=torch.channels_last),)


def samples():
    generator = torch.Generator().manual_seed(5)
    for index in range(4):
        sample = torch.randn((1, 3, 16, 16), generator=generator) + 0.2 * index
        yield sample.to(memory_format=torch.channels_last)


def strided_contiguous():
    return _made(Strided, (1, 3, 16, 16))


class OneChannel(nn.Module):
    """A convolution of one channel, and one behind it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.second(self.first(x.mean(1, keepdim=True)).relu())


def one_channel():
    return _made(OneChannel, (1, 3, 16, 16))


class Relating(nn.Module):
    """Attention written out, attention as one operator, and norms: all is taken apart."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.norm, self.group = nn.LayerNorm(16), nn.GroupNorm(2, 8)

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        x = torch.softmax(query @ key.transpose(1, 2) * 0.25, -1) @ value + x
        heads = (x.reshape(1, 8, 2, 8).transpose(1, 2),) * 3
        x = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return torch.einsum("bic,bjc->bij", self.norm(x), self.group(x))


def relating():
    return _made(Relating, (1, 8, 16))


class Related(nn.Module):
    """The products of all pairs of rows: one side is turned, the other is taken as it comes."""

    def forward(self, x):
        return x @ x.transpose(1, 2)


def related():
    return _made(Related, (1, 8, 16))


class Growing(nn.Module):
    """Twice as large by a transposed convolution, or the sums up to each channel."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.grow = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        return self.grow(self.conv(x).relu())


def growing():
    return _made(Growing, (1, 3, 8, 8))


class Summing(Growing):
    def forward(self, x):
        return self.conv(x).cumsum(1)


def summing():
    return _made(Summing, (1, 3, 8, 8))


class Indexed(nn.Module):
    """Rows by number and a side input; the columns, and the best of them."""

    def __init__(self):
        super().__init__()
        self.rows, self.last = nn.Embedding(12, 16), nn.Linear(16, 4)

    def forward(self, numbers, side):
        found = self.last(self.rows(numbers) + side)
        return found, torch.argmax(found, -1)


def indexed():
    torch.manual_seed(0)
    return Indexed().eval(), (torch.randint(0, 12, (1, 5)), torch.randn(1, 5, 16))


def seventeen_channels(channels=17):
    torch.manual_seed(0)
    layers = nn.Conv2d(16, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 8, 1)
    return nn.Sequential(*layers).eval(), (torch.randn(1, 16, 16, 16),)


def sixteen_channels():
    return seventeen_channels(16)


class Celled(nn.Module):
    """A step of a GRU, as a streaming model calls it, and a linear."""

    def __init__(self):
        super().__init__()
        self.cell, self.last = nn.GRUCell(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.cell(x))


def gru_cell():
    return _made(Celled, (1, 6))


class Normalized(nn.Module):
    """Vectors of length one, whose lengths are a decomposed operator that ends in a root."""

    def __init__(self, times=1):
        super().__init__()
        self.layer, self.times = nn.Linear(8, 8), times

    def forward(self, x):
        x = self.layer(x)
        for dim in range(self.times):
            x = nn.functional.normalize(x, dim=-1 - dim)
        return x


def lengths():
    return _made(Normalized, (1, 4, 8))


def lengths_twice():
    return _made(lambda: Normalized(2), (1, 4, 8))


class LaidOut(nn.Module):
    """Parts of one tensor, and a function whose result is laid out anew, as in detection heads."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 12, 3, padding=1)

    def forward(self, x):
        first, second, third = self.layer(x).reshape(1, 3, 4, 64).unbind(1)
        sizes = torch.exp(first).reshape(1, 4, 8, 8).permute(0, 2, 3, 1).flatten(1, 2)
        return torch.cat([sizes, (second * third).transpose(1, 2)], 1)


def laid_out():
    return _made(LaidOut, (1, 3, 8, 8))


class OneHot(nn.Module):
    """Classes as vectors of one 1; torch checks the classes, and ExecuTorch removes the checks."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        return nn.functional.one_hot(self.layer(x).argmax(1), 8).float()


def one_hot():
    return _made(OneHot, (1, 3, 8, 8))
