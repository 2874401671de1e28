"""Networks for the figures of the weight transforms, trained here on scikit-learn's data.

``python -m tests.engine.trained_networks FOLDER [NAME ...]`` trains all of them, or some, and
writes ``NAME.safetensors``, ``NAME_calibration.npz`` and ``NAME_unseen.npz`` into a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

CALIBRATED = 128
_BATCH = 64


class ConvBnRelu6(nn.Sequential):
    """Convolution, batch norm, ReLU6."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(),
        )


class Inverted(nn.Module):
    """MobileNetV2's block: widen, filter each channel, narrow (Sandler et al. 2018, table 1)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers: list[nn.Module] = [ConvBnRelu6(inputs, wide, 1, 1)] if expansion > 1 else []
        layers += [
            ConvBnRelu6(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.layers = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features [N, outputs, H / stride, W / stride]."""
        return x + self.layers(x) if self.shortcut else self.layers(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 of half width for pictures [N, 1, 32, 32]: all 17 blocks, fewer strides."""

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [ConvBnRelu6(1, 16, 3, 1)]
        channels = 16
        for expansion, outputs, repeats, stride in (
            (1, 8, 1, 1),
            (6, 12, 2, 2),
            (6, 16, 3, 2),
            (6, 32, 4, 2),
            (6, 48, 3, 1),
            (6, 80, 3, 1),
            (6, 160, 1, 1),
        ):
            for index in range(repeats):
                blocks.append(Inverted(channels, outputs, stride if not index else 1, expansion))
                channels = outputs
        blocks.append(ConvBnRelu6(channels, 320, 1, 1))
        self.features = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(320, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 10]."""
        return self.classifier(self.pool(self.features(x)).flatten(1))


class Separable(nn.Module):
    """DS-CNN as in MLPerf Tiny's keyword spotting, for pictures [N, 1, 16, 16]."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)]
        layers.append(nn.ReLU())
        for _ in range(4):
            for size, groups in ((3, 32), (1, 1)):
                layers += [
                    nn.Conv2d(32, 32, size, 1, size // 2, groups=groups, bias=False),
                    nn.BatchNorm2d(32),
                    nn.ReLU(),
                ]
        self.body = nn.Sequential(*layers)
        self.classifier = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 10]."""
        return self.classifier(self.body(x).mean((2, 3)))


class Attention(nn.Module):
    """Self-attention of four heads over [N, T, C]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [N, T, C]."""
        size, steps, channels = x.shape
        q, k, v = (
            part(x).view(size, steps, 4, channels // 4).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = torch.softmax(q @ k.transpose(2, 3) * (channels // 4) ** -0.5, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(size, steps, channels))


class Encoder(nn.Module):
    """One layer of a transformer, norms first."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention = Attention(channels)
        self.wide, self.narrow = nn.Linear(channels, 96), nn.Linear(96, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [N, T, C]."""
        x = x + self.attention(self.first(x))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class Transformer(nn.Module):
    """A vision transformer over the 16 patches of pictures [N, 1, 8, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 48, 2, 2)
        self.positions = nn.Parameter(torch.zeros(1, 16, 48))
        self.body = nn.Sequential(*(Encoder(48) for _ in range(3)), nn.LayerNorm(48))
        self.classifier = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 10]."""
        steps = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.classifier(self.body(steps).mean(1))


class Tabular(nn.Module):
    """A perceptron over the 30 measurements of a cell nucleus, [N, 30]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(30, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 2]."""
        return self.body(x)


def mobilenet() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return MobileNetV2(), torch.zeros(1, 1, 32, 32)


def separable() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return Separable(), torch.zeros(1, 1, 16, 16)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return Transformer(), torch.zeros(1, 1, 8, 8)


def tabular() -> tuple[nn.Module, torch.Tensor]:
    """Return the network and an example input; the project names the weights."""
    return Tabular(), torch.zeros(1, 30)


NETWORKS: dict[str, tuple[Callable[[], tuple[nn.Module, torch.Tensor]], int]] = {
    "mobilenet": (mobilenet, 24),
    "separable": (separable, 50),
    "transformer": (transformer, 60),
    "tabular": (tabular, 60),
}


def data(name: str, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, digits [N, 1, side, side] or measurements [N, 30], and classes [N]."""
    from sklearn.datasets import load_breast_cancer, load_digits

    if name == "tabular":
        table = load_breast_cancer()
        rows = (table.data - table.data.mean(0)) / table.data.std(0)
        return rows.astype(np.float32), table.target
    digits = load_digits()
    pictures = torch.from_numpy((digits.images / 16.0).astype(np.float32))[:, None]
    larger = functional.interpolate(pictures, (side, side), mode="bilinear", align_corners=False)
    return larger.numpy(), digits.target


def train(name: str, folder: Path) -> float:
    """Train one network, write its weights and data, and return its accuracy on unseen data."""
    from safetensors.torch import save_file
    from sklearn.model_selection import train_test_split

    torch.manual_seed(0)
    torch.set_num_threads(1)
    make, epochs = NETWORKS[name]
    model, example = make()
    inputs, classes = data(name, example.shape[-1])
    split = train_test_split(inputs, classes, test_size=0.25, random_state=0, stratify=classes)
    x, unseen, y, truth = (torch.from_numpy(np.asarray(part)) for part in split)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    steps = epochs * (len(x) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - _BATCH + 1, _BATCH):
            chosen = order[start : start + _BATCH]
            loss = functional.cross_entropy(model(x[chosen]), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        accuracy = float((model(unseen).argmax(1) == truth).float().mean())
    save_file(model.state_dict(), folder / f"{name}.safetensors")
    np.savez(folder / f"{name}_calibration.npz", x=x[:CALIBRATED].numpy())
    np.savez(folder / f"{name}_unseen.npz", x=unseen.numpy(), labels=truth.numpy())
    return accuracy


if __name__ == "__main__":
    for network in sys.argv[2:] or NETWORKS:
        print(network, train(network, Path(sys.argv[1])), flush=True)
