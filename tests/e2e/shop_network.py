"""A small MobileNet for pictures of 32 x 32."""

from torch import nn


class Inverted(nn.Module):
    """Expand, filter every channel, and narrow; with a shortcut where shapes allow it."""

    def __init__(self, inputs, outputs, stride, expansion=4):
        super().__init__()
        inner = inputs * expansion
        self.joined = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.body(x) if self.joined else self.body(x)


class Shop(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
            Inverted(16, 16, 1),
            Inverted(16, 24, 2),
            Inverted(24, 24, 1),
        )
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def build():
    return Shop()
