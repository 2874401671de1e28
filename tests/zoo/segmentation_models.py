"""Networks that give every pixel a class: U-Nets, and pyramids of dilations and pools."""

import torch
from torch import nn
from torch.nn import functional

from tests.zoo.layers import block, double, made, twice


class _UNet(nn.Module):
    """Three levels with skips; ``grow`` makes what doubles the size of a level."""

    def __init__(self, grow, gates=None):
        super().__init__()
        self.down = nn.ModuleList([double(3, 8), double(8, 16)])
        self.bottom = double(16, 24)
        self.grow = nn.ModuleList([grow(24, 16), grow(16, 8)])
        self.up = nn.ModuleList([double(32, 16), double(16, 8)])
        self.gates = nn.ModuleList(gates or [])
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for level, (grow, up) in enumerate(zip(self.grow, self.up, strict=True)):
            x, skip = grow(x), skips.pop()
            if self.gates:
                skip = self.gates[level](x, skip)
            x = up(torch.cat([skip, x], 1))
        return self.last(x)


def _bilinear(before, after):
    grow = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    return nn.Sequential(grow, nn.Conv2d(before, after, 1))


def _transposed(before, after):
    return nn.ConvTranspose2d(before, after, 2, stride=2)


class _Gate(nn.Module):
    """The attention gate of Attention U-Net."""

    def __init__(self, channels):
        super().__init__()
        self.x, self.skip = nn.Conv2d(channels, 4, 1), nn.Conv2d(channels, 4, 1)
        self.last = nn.Conv2d(4, 1, 1)

    def forward(self, x, skip):
        return skip * torch.sigmoid(self.last(functional.relu(self.x(x) + self.skip(skip))))


def unet_transposed():
    return made(lambda: _UNet(_transposed), (1, 3, 32, 32))


def unet_aligned():
    return made(lambda: _UNet(_bilinear), (1, 3, 32, 32))


def unet_attention():
    return made(lambda: _UNet(_transposed, [_Gate(16), _Gate(8)]), (1, 3, 32, 32))


class _Nested(nn.Module):
    """U-Net++ of two levels, with deep supervision."""

    def __init__(self):
        super().__init__()
        self.a0, self.a1, self.a2 = double(3, 8), double(8, 12), double(12, 16)
        self.b0, self.b1, self.c0 = double(20, 8), double(28, 12), double(28, 8)
        self.first, self.second = nn.Conv2d(8, 2, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a0 = self.a0(x)
        a1 = self.a1(functional.max_pool2d(a0, 2))
        a2 = self.a2(functional.max_pool2d(a1, 2))
        b0 = self.b0(torch.cat([a0, twice(a1)], 1))
        b1 = self.b1(torch.cat([a1, twice(a2)], 1))
        c0 = self.c0(torch.cat([a0, b0, twice(b1)], 1))
        return (self.first(b0) + self.second(c0)) * 0.5


def unet_nested():
    return made(_Nested, (1, 3, 16, 16))


class _ResidualUNet(nn.Module):
    """A U-Net whose skips are added, as LinkNet's are."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (block(3, 8), block(8, 16, 3, 2), block(16, 24, 3, 2))
        self.up2, self.up1 = _transposed(24, 16), _transposed(16, 8)
        self.last = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(a)
        x = functional.relu(self.up2(self.third(b))) + b
        return self.last(functional.relu(self.up1(x)) + a)


def linknet():
    return made(_ResidualUNet, (1, 3, 32, 32))


class _Atrous(nn.Module):
    """DeepLabV3's head: convolutions of several dilations and an image pool, joined."""

    def __init__(self):
        super().__init__()
        self.stem = block(3, 16, 3, 2)
        self.parts = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(16, 8, 3, padding=d, dilation=d), nn.ReLU()) for d in (1, 2, 4)]
        )
        self.pool, self.last = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x):
        size = x.shape[-2:]
        x = self.stem(x)
        pooled = functional.relu(self.pool(functional.adaptive_avg_pool2d(x, 1)))
        pooled = functional.interpolate(pooled, size=x.shape[-2:], mode="bilinear")
        x = self.last(torch.cat([*(part(x) for part in self.parts), pooled], 1))
        return functional.interpolate(x, size=size, mode="bilinear", align_corners=False)


def deeplab():
    return made(_Atrous, (1, 3, 32, 32))


class _Pools(nn.Module):
    """PSPNet's pyramid: pools of several sizes, each grown back and joined."""

    def __init__(self):
        super().__init__()
        self.stem = block(3, 8)
        self.sides = nn.ModuleList([block(8, 4, 1) for _ in range(3)])
        self.last = nn.Conv2d(20, 3, 1)

    def forward(self, x):
        x = self.stem(x)
        found = [x]
        for size, side in zip((1, 2, 4), self.sides, strict=True):
            y = side(functional.adaptive_avg_pool2d(x, size))
            found.append(functional.interpolate(y, size=x.shape[-2:], mode="nearest"))
        return self.last(torch.cat(found, 1))


def pspnet():
    return made(_Pools, (1, 3, 16, 16))
