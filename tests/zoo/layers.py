"""Parts of several networks on images."""

import torch
from torch import nn
from torch.nn import functional


def made(build, *shapes):
    """Return a network with batch norms that are not the identity, and inputs for it."""
    torch.manual_seed(0)
    model = build().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return model, tuple(torch.randn(shape) for shape in shapes)


def block(before, after, size=3, stride=1, groups=1, act=nn.ReLU):
    """Return a convolution with a batch norm and an activation."""
    return nn.Sequential(
        nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
        act(),
    )


def double(before, after):
    """Return two blocks in a row."""
    return nn.Sequential(block(before, after), block(after, after))


def twice(x):
    """Return an image of twice the height and width."""
    return functional.interpolate(x, scale_factor=2, mode="nearest")
