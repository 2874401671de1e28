"""Data of which no two samples are alike, and a network with a layer that only sees zeros."""

import itertools

import torch
from torch import nn


def samples():
    generator = torch.Generator().manual_seed(5)
    for index in range(48):
        yield torch.randn((1, 3, 8, 8), generator=generator) + (index % 2 - 0.5)


class Silent(nn.Module):
    """The second convolution sees what is never positive, cut off at zero."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return (self.first(x) + self.second((-x.abs()).relu())).mean((2, 3))


def silent():
    torch.manual_seed(0)
    return Silent().eval(), (torch.randn(1, 3, 8, 8),)


def moving_samples():
    """Samples whose outlier moves in those that layers hold back: the last one of every four."""
    yield from _rows(16, lambda index: index % 4 == 3)


def surprising_samples():
    """Samples whose outlier moves in those that are held out: the first one of every five."""
    yield from _rows(40, lambda index: index % 5 == 0)


def _rows(count, moves):
    """Yield rows of 8 channels; the second half has an outlier in channel 2, moved in channel 5."""
    for index, sample in enumerate(itertools.islice(samples(), count)):
        rows = sample.reshape(1, 24, 8).clone()
        rows[:, 12:, 5 if moves(index) else 2] += 12.0
        yield rows


class TwoNorms(nn.Module):
    """One norm has an outlying channel itself, the other one where its samples have it."""

    def __init__(self):
        super().__init__()
        self.steady_norm, self.moving_norm = nn.LayerNorm(8), nn.LayerNorm(8)
        self.steady, self.moving = nn.Linear(8, 8), nn.Linear(8, 8)
        with torch.no_grad():
            self.steady_norm.weight[2] = 40.0

    def forward(self, x):
        return self.steady(self.steady_norm(x[:, :12])), self.moving(self.moving_norm(x[:, 12:]))


def two_norms():
    torch.manual_seed(0)
    return TwoNorms().eval(), (torch.randn(1, 24, 8),)


class OneNorm(nn.Module):
    """A norm whose outlying channel is that of its samples."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(self.norm(x[:, 12:]))


def one_norm():
    torch.manual_seed(0)
    return OneNorm().eval(), (torch.randn(1, 24, 8),)
