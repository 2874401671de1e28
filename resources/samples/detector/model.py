"""A small anchor-free detector of handwritten digits on a canvas, and what decodes its outputs."""

import torch
from torch import nn

SIZE, STRIDE, CLASSES = 96, 8, 10


def layer(inputs: int, outputs: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return convolution, batch norm, ReLU."""
    kernel = 1 if inputs != outputs and stride == 1 else 3
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


class Separable(nn.Module):
    """A depthwise convolution and a pointwise one, with a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = layer(channels, channels, groups=channels)
        self.pointwise = nn.Sequential(nn.Conv2d(channels, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features shaped like x."""
        return torch.relu(x + self.pointwise(self.depthwise(x)))


class Detector(nn.Module):
    """Classes and boxes for each of 12 x 12 cells of a picture [N, 1, 96, 96] from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(layer(1, 16, 2), Separable(16), layer(16, 32, 2), Separable(32))
        self.body = nn.Sequential(layer(32, 64, 2), *(Separable(64) for _ in range(4)))
        self.classes = nn.Sequential(Separable(64), nn.Conv2d(64, CLASSES, 1))
        self.sides = nn.Sequential(Separable(64), nn.Conv2d(64, 4, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits [N, 10, 12, 12] and distances [N, 4, 12, 12] to left, top, right, bottom.

        Distances are from the centre of the cell, in units of the stride.
        """
        features = self.body(self.stem(x))
        return self.classes(features), self.sides(features)


def detector() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return Detector(), torch.zeros(1, 1, SIZE, SIZE)


def centres() -> torch.Tensor:
    """Return the centre (x, y) of each cell [12, 12, 2] in pixels."""
    places = (torch.arange(SIZE // STRIDE) + 0.5) * STRIDE
    y, x = torch.meshgrid(places, places, indexing="ij")
    return torch.stack([x, y], -1)


def decode(outputs: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return boxes [144, 4] (left, top, right, bottom in pixels) and scores [144, 10]."""
    logits, sides = outputs[0][0].flatten(1), outputs[1][0].flatten(1) * STRIDE
    x, y = centres().reshape(-1, 2).unbind(1)
    boxes = torch.stack([x - sides[0], y - sides[1], x + sides[2], y + sides[3]], 1)
    return {"boxes": boxes, "scores": logits.transpose(0, 1).sigmoid()}
