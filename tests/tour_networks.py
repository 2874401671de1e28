"""Networks of the tour: a U-Net and a transformer of 24 layers. Projects have this file as model."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class UNet(nn.Module):
    """A U-Net of two levels, whose skips are joined with cat."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.bottom = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ModuleList([nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(16, 2, 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return two classes for each pixel of [N, 3, H, W]; H and W are multiples of 4."""
        skips = []
        for down in self.down:
            x = functional.relu(down(x))
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = functional.relu(self.bottom(x))
        for up in self.up:
            x = up(torch.cat((functional.interpolate(x, scale_factor=2.0), skips.pop()), 1))
        return x


class Attention(nn.Module):
    """Self-attention, written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [N, tokens, width] of the same."""
        count, tokens, width = x.shape
        q, k, v = (
            part(x).view(count, tokens, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        weights = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(count, tokens, width))


class Layer(nn.Module):
    """A layer of a transformer, with norms in front."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [N, tokens, width] of the same."""
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    """A classifier of sequences with 24 layers: 6,500 operations on the NPU."""

    def __init__(self, width: int = 32, heads: int = 2, layers: int = 24) -> None:
        super().__init__()
        self.embed = nn.Linear(16, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ten classes for [N, tokens, 16]."""
        return self.head(self.layers(self.embed(x)).mean(1))


def unet() -> nn.Module:
    """Return the U-Net with fixed weights."""
    torch.manual_seed(0)
    return UNet().eval()


def transformer() -> nn.Module:
    """Return the transformer with fixed weights."""
    torch.manual_seed(0)
    return Transformer().eval()
