"""A small CNN for 8 x 8 handwritten digits, as a user of the workbench would write it."""

import torch
from torch import nn


class Block(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features for [N, inputs, H, W]."""
        return self.relu(self.bn(self.conv(x)))


class Residual(nn.Module):
    """Two blocks with a shortcut around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = Block(channels, channels)
        self.second = Block(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features shaped like x, [N, channels, H, W]."""
        return x + self.second(self.first(x))


class DigitsNet(nn.Module):
    """Ten logits for a picture [N, 1, 8, 8] with values from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Block(1, 16)
        self.body = nn.Sequential(Residual(16), Block(16, 32, stride=2), Residual(32))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 10]."""
        features = self.pool(self.body(self.stem(x)))
        return self.classifier(features.flatten(1))


def digits() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return DigitsNet(), torch.zeros(1, 1, 8, 8)
