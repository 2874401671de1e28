"""Networks large enough to try the graph on, exported without weights of any worth."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn
from torch.nn import functional

from tests.benchmarks.networks import Encoder, MobileNetV2
from tests.zoo.segmentation_models import unet_transposed
from tests.zoo.vision_models import resnext
from workbench.engine.fx.snapshot import snapshot
from workbench.graph.snapshot import GraphSnapshot


class RotaryDecoderLayer(nn.Module):
    """Root-mean-square norms, rotary positions, grouped keys and values, a gated feed-forward.

    Source: the layer of Llama 3 (arXiv 2407.21783), written with plain operators, so that its
    export has the many small operations that decoders have.
    """

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        batch, length, _ = x.shape
        y = _normed(x, self.norm1)
        q = self.query(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.key(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        v = self.value(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        q, k = _turned(q, cos, sin), _turned(k, cos, sin)
        times = self.heads // self.groups
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scores = torch.matmul(q, k.transpose(2, 3)) * self.size**-0.5 + mask
        mixed = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        y = _normed(x, self.norm2)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def _normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Decoder(nn.Module):
    """Embedded tokens through layers that share positions and mask, then the next token's odds."""

    def __init__(self, layers: int = 96, width: int = 64, heads: int = 8, groups: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.layers = nn.ModuleList(RotaryDecoderLayer(width, heads, groups) for _ in range(layers))
        self.norm = nn.Parameter(torch.ones(width))
        self.head = nn.Linear(width, 256, bias=False)
        self.size = width // heads

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        place = torch.arange(length).float()[:, None]
        speed = 10_000 ** (-torch.arange(0, self.size, 2).float() / self.size)
        angle = torch.cat((place * speed, place * speed), -1)
        cos, sin = angle.cos(), angle.sin()
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.head(_normed(x, self.norm))


class InceptionBlock(nn.Module):
    """Four branches side by side. Source: GoogLeNet (arXiv 1409.4842), figure 2b."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.one = _activated(before, after, 1)
        self.three = nn.Sequential(_activated(before, after, 1), _activated(after, after, 3))
        self.five = nn.Sequential(
            _activated(before, after, 1), _activated(after, after, 3), _activated(after, after, 3)
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), _activated(before, after, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


def _activated(before: int, after: int, size: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, size, padding=size // 2), nn.ReLU())


class Inception(nn.Module):
    """A stem and six blocks of four branches."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _activated(3, 16, 3)
        self.blocks = nn.Sequential(InceptionBlock(16, 8), *(InceptionBlock(32, 8) for _ in range(5)))
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


@cache
def real_graph(name: str) -> GraphSnapshot:
    """Return the exported graph of one of ``NETWORKS`` of the benchmark."""
    torch.manual_seed(0)
    network: nn.Module
    if name == "mobilenet_v2":
        network, example = MobileNetV2(), torch.zeros(1, 3, 96, 96)
    elif name == "transformer":
        network, example = Encoder(layers=12), torch.zeros(1, 32, 64)
    elif name == "resnet":
        network, example = resnext()[0], torch.zeros(1, 3, 32, 32)
    elif name == "u_net":
        network, example = unet_transposed()[0], torch.zeros(1, 3, 32, 32)
    elif name == "inception":
        network, example = Inception(), torch.zeros(1, 3, 32, 32)
    else:
        layers = 4 if name == "decoder_4" else 96
        network, example = Decoder(layers), torch.zeros(1, 16, dtype=torch.long)
    with torch.no_grad():
        program = torch.export.export(network.eval(), (example,))
    return snapshot(program, "float", network)
