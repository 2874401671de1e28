"""Networks whose programs compute something twice, or copy a tensor to put zeros beside it."""

import torch
from torch import nn
from torch.nn import functional


def _made(net, *shape):
    torch.manual_seed(0)
    for part in net.modules():
        if isinstance(part, nn.GroupNorm | nn.LayerNorm):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.2)
    return net.eval(), (torch.randn(shape),)


def normed_sequence():
    return _made(nn.Sequential(nn.Conv1d(8, 32, 3), nn.GroupNorm(32, 32), nn.GELU()), 1, 8, 402)


def normed_rows():
    return _made(nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 32)), 1, 100, 32)


class _Square(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3)

    def forward(self, x):
        x = self.conv(x)
        return x * x


def squared():
    return _made(_Square(), 1, 8, 18, 18)


class _Padded(nn.Module):
    """A convolution over a value with zeros at some ends."""

    def __init__(self, ends, conv, before=None):
        super().__init__()
        self.ends, self.conv, self.before = ends, conv, before or nn.Identity()

    def forward(self, x):
        return torch.relu(self.conv(functional.pad(torch.relu(self.before(x)), self.ends)))


def causal():
    before, conv = nn.Conv1d(8, 16, 1), nn.Conv1d(16, 16, 3, dilation=4)
    return _made(_Padded((8, 0), conv, before), 1, 8, 200)


def padded_as_tensorflow():
    before, conv = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 16, 3, 2)
    return _made(_Padded((0, 1, 0, 1), conv, before), 1, 8, 32, 32)


def padded_depthwise():
    before, conv = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 16, 5, 2, groups=16)
    return _made(_Padded((1, 2, 2, 1), conv, before), 1, 8, 33, 33)


class _PaddedPicture(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4)

    def forward(self, x):
        return torch.relu(self.conv(functional.pad(x, (2, 0, 1, 2))))


def padded_picture():
    return _made(_PaddedPicture(), 1, 3, 30, 30)
