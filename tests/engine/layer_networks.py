"""Networks of one layer that stays on the CPU of U55 and U65, behind a convolution that does not."""

import torch
from torch import nn


def _behind(layer, *shape):
    torch.manual_seed(0)
    first = nn.Conv2d(3, 4, 1)
    return nn.Sequential(first, layer).eval(), (torch.randn(*(shape or (1, 3, 32, 32))),)


def wide_pool():
    return _behind(nn.MaxPool2d((1, 300), 1), 1, 3, 2, 400)


def strided_means():
    return _behind(nn.AvgPool2d(3, 4))


def padded_means():
    return _behind(nn.AvgPool2d(9, 2, 4, count_include_pad=False))


def means_of_a_batch():
    return _behind(nn.AvgPool2d(3, 2), 2, 3, 32, 32)


def turned_with_stride():
    return _behind(nn.ConvTranspose2d(4, 4, 3, 3))
