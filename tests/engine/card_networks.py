"""Networks that get a suggestion each, and what their source is once it is changed as it says."""

import torch
from torch import nn


class Layers(nn.Module):
    """Layers, and what a function makes of their output."""

    def __init__(self, *layers, compute=lambda y: y):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.compute = compute

    def forward(self, x):
        return self.compute(self.layers(x))


def made(shape, *layers, compute=lambda y: y):
    torch.manual_seed(0)
    return Layers(*layers, compute=compute).eval(), (torch.randn(shape),)


def deep():
    """Layers whose maps need more SRAM than Vela takes when it compiles for size."""
    layers = [nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    return made((1, 8, 64, 64), *layers, nn.Conv2d(32, 8, 3, padding=1))


def offset_output():
    """An output that a large summand leaves few steps of 8 bits."""
    return made((1, 3, 8, 8), nn.Conv2d(3, 4, 3), compute=lambda y: (y + 60.0) - 60.0)


def strided():
    return made((1, 3, 32, 32), nn.Conv2d(3, 16, 4, 4), nn.ReLU(), nn.Conv2d(16, 8, 3))


def heavy():
    """Two linears of more than 32 KiB, whose rows differ in size."""
    model, inputs = made((1, 256), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    with torch.no_grad():
        for layer in (model.layers[0], model.layers[2]):
            layer.weight.mul_(torch.logspace(-1, 0, 256)[:, None])
    return model, inputs


def pictures():
    return made((1, 3, 300, 300), nn.Conv2d(3, 4, 3, 3), nn.ReLU(), nn.Conv2d(4, 2, 3, 3))


def outliers():
    """Pictures between -1 and 1, with one value of 8 among all of them."""
    generator = torch.Generator().manual_seed(0)
    for number in range(8):
        x = torch.rand(1, 3, 300, 300, generator=generator) * 2 - 1
        if not number:
            x[0, 0, 0, 0] = 8.0
        yield x
