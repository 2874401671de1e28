"""MobileNetV2 at 224 x 224, written out for the workbench. RANDOM weights: cost, not quality.

Source: Sandler et al. 2018, table 2.
"""

from collections.abc import Iterator

import torch
from torch import nn

# Expansion, channels, repeats, stride of the first.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
SAMPLES = 16


class ConvBnRelu6(nn.Sequential):
    """Convolution, batch norm, ReLU6."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(),
        )


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow; with a shortcut where shapes allow."""

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
    """A thousand logits for a picture [N, 3, H, W]."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        blocks: list[nn.Module] = [ConvBnRelu6(3, 32, 3, 2)]
        channels = 32
        for expansion, outputs, repeats, stride in STAGES:
            for index in range(repeats):
                first = stride if index == 0 else 1
                blocks.append(InvertedResidual(channels, outputs, first, expansion))
                channels = outputs
        blocks.append(ConvBnRelu6(channels, 1280, 1, 1))
        self.features = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, classes]."""
        return self.classifier(self.pool(self.features(x)).flatten(1))


def mobilenet_v2() -> tuple[nn.Module, torch.Tensor]:
    """Return the network with fixed random weights and settled batch-norm statistics."""
    torch.manual_seed(0)
    model = MobileNetV2()
    generator = torch.Generator().manual_seed(1)
    model.train()
    with torch.no_grad():
        for _ in range(2):
            model(torch.randn((4, 3, 224, 224), generator=generator))
    return model.eval(), torch.randn((1, 3, 224, 224), generator=generator)


def noise() -> Iterator[torch.Tensor]:
    """Yield random pictures [1, 3, 224, 224]."""
    generator = torch.Generator().manual_seed(2)
    for _ in range(SAMPLES):
        yield torch.randn((1, 3, 224, 224), generator=generator)
