"""Small networks with warmed statistics, built from torch alone, to time the toolchain on."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; with a shortcut where the shape allows it."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inputs * expand
        layers: list[nn.Module] = []
        if expand != 1:
            layers += [_conv(inputs, hidden, 1, 1, 1)]
        layers += [_conv(hidden, hidden, 3, stride, hidden)]
        layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.shortcut else y


def _conv(inputs: int, outputs: int, kernel: int, stride: int, groups: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1, from the table of its paper (arXiv 1801.04381, table 2)."""

    ROWS = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, 32, 3, 2, 1)]
        channels = 32
        for expand, outputs, repeats, stride in self.ROWS:
            for index in range(repeats):
                layers += [InvertedResidual(channels, outputs, stride if index == 0 else 1, expand)]
                channels = outputs
        layers += [_conv(channels, 1280, 1, 1, 1)]
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.pool(self.features(x)).flatten(1))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu2 = nn.ReLU()
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(y + self.shortcut(x))


class ResNet8(nn.Module):
    """Three residual blocks after a stem, for 32x32 images."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(
            ResidualBlock(16, 16, 1), ResidualBlock(16, 32, 2), ResidualBlock(32, 64, 2)
        )
        self.pool = nn.AvgPool2d(8)
        self.classifier = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.pool(self.blocks(self.stem(x))).flatten(1))


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each normalised first and added back."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = self._split(self.query(y)), self._split(self.key(y)), self._split(self.value(y))
        scores = torch.matmul(q, k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
        mixed = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """A transformer encoder over embedded tokens, and a classifier on their mean."""

    def __init__(self, layers: int = 4, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(x)).mean(1))


class Recurrent(nn.Module):
    """An LSTM over a sequence, which export unrolls, and a classifier on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0][:, -1])


def warmed(network: nn.Module, *shape: int) -> nn.Module:
    """Return ``network`` in evaluation mode, its batch statistics those of two random batches."""
    network.train()
    with torch.no_grad():
        for _ in range(2):
            network(torch.randn(8, *shape[1:]))
    return network.eval()


def build(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """Return the network called ``name`` and the shape of its input, the same at every call."""
    torch.manual_seed(0)
    if name == "mobilenet_v2":
        return warmed(MobileNetV2(), 1, 3, 96, 96), (1, 3, 96, 96)
    if name == "mobilenet_v2_224":
        return warmed(MobileNetV2(), 1, 3, 224, 224), (1, 3, 224, 224)
    if name == "lstm":
        return Recurrent().eval(), (1, 24, 16)
    if name == "resnet8":
        return warmed(ResNet8(), 1, 3, 32, 32), (1, 3, 32, 32)
    if name == "encoder":
        return Encoder().eval(), (1, 32, 64)
    raise KeyError(name)
