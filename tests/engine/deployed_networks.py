"""Small relatives of networks that people deploy, whose programs stock ExecuTorch gets wrong."""

import torch
from torch import nn
from torch.nn import functional


def conv(before, after, size=3, **rest):
    return nn.Conv2d(before, after, size, padding=size // 2, **rest)


class UNet(nn.Module):
    """Two levels of skips, joined with cat; ``up`` is how a level grows."""

    def __init__(self, up):
        super().__init__()
        self.down = nn.ModuleList([conv(3, 8), conv(8, 16)])
        self.bottom, self.out = conv(16, 16), conv(8, 2, 1)
        self.joins = nn.ModuleList([conv(32, 8), conv(16, 8)])
        self.up = up
        if up == "transposed":
            self.grow = nn.ModuleList(
                [nn.ConvTranspose2d(16, 16, 2, stride=2), nn.ConvTranspose2d(8, 8, 2, stride=2)]
            )

    def forward(self, x):
        skips = []
        for down in self.down:
            x = functional.relu(down(x))
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = functional.relu(self.bottom(x))
        for level, join in enumerate(self.joins):
            if self.up == "transposed":
                x = self.grow[level](x)
            else:
                x = functional.interpolate(x, scale_factor=2, mode=self.up)
            x = functional.relu(join(torch.cat([x, skips.pop()], 1)))
        return self.out(x)


class DenseBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(8 + 8 * i) for i in range(3)])
        self.convs = nn.ModuleList([conv(8 + 8 * i, 8) for i in range(3)])
        self.stem = conv(3, 8)

    def forward(self, x):
        x = self.stem(x)
        for norm, layer in zip(self.norms, self.convs, strict=True):
            x = torch.cat([x, layer(functional.relu(norm(x)))], 1)
        return x.mean((2, 3))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.three = conv(3, 4, 1), nn.Sequential(conv(3, 4, 1), nn.ReLU(), conv(4, 6))
        self.five = nn.Sequential(conv(3, 2, 1), nn.ReLU(), conv(2, 4, 5))
        self.pool = conv(3, 4, 1)

    def forward(self, x):
        parts = (self.one(x), self.three(x), self.five(x))
        pooled = self.pool(functional.max_pool2d(x, 3, 1, 1))
        return torch.cat([*map(functional.relu, parts), pooled], 1)


class Fire(nn.Module):
    def __init__(self):
        super().__init__()
        self.squeeze, self.one, self.three = conv(3, 4, 1), conv(4, 6, 1), conv(4, 6)
        self.last = conv(12, 4, 1)

    def forward(self, x):
        x = functional.relu(self.squeeze(x))
        x = torch.cat([functional.relu(self.one(x)), functional.relu(self.three(x))], 1)
        return functional.relu(self.last(x)).mean((2, 3))


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.first = conv(3, 8), nn.Sequential(conv(4, 4, 1), nn.ReLU())
        self.each, self.last = conv(4, 4, groups=4), nn.Sequential(conv(4, 4, 1), nn.ReLU())

    def forward(self, x):
        left, right = self.stem(x).chunk(2, 1)
        x = torch.cat([left, self.last(self.each(self.first(right)))], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Pyramid(nn.Module):
    """An FPN; with ``paths`` a PANet, whose second way goes back up with cat."""

    def __init__(self, paths):
        super().__init__()
        self.stages = nn.ModuleList([conv(3, 8, stride=2), conv(8, 16, stride=2), conv(16, 16, stride=2)])
        self.sides = nn.ModuleList([conv(8, 8, 1), conv(16, 8, 1), conv(16, 8, 1)])
        self.down = nn.ModuleList([conv(8, 8, stride=2), conv(8, 8, stride=2)] if paths else [])
        self.joins = nn.ModuleList([conv(16, 8), conv(16, 8)] if paths else [])

    def forward(self, x):
        maps = []
        for stage, side in zip(self.stages, self.sides, strict=True):
            x = functional.relu(stage(x))
            maps.append(side(x))
        for level in (1, 0):
            maps[level] = maps[level] + functional.interpolate(maps[level + 1], scale_factor=2.0)
        for level, (down, join) in enumerate(zip(self.down, self.joins, strict=True)):
            both = torch.cat([functional.relu(down(maps[level])), maps[level + 1]], 1)
            maps[level + 1] = functional.relu(join(both))
        return tuple(maps)


class CrossStage(nn.Module):
    """A block of YOLO: halves of a tensor, two convolutions, and all of them joined."""

    def __init__(self):
        super().__init__()
        self.stem, self.first, self.second = conv(3, 8), conv(4, 4), conv(4, 4)
        self.out = conv(16, 8, 1)

    def forward(self, x):
        left, right = functional.silu(self.stem(x)).chunk(2, 1)
        first = functional.relu(self.first(right))
        second = functional.relu(self.second(first))
        return self.out(torch.cat([left, right, first, second], 1))


class InstanceNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = conv(3, 4), nn.InstanceNorm2d(4)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x)))


class LayerScaled(nn.Module):
    """A ConvNeXt block: layer norm over channels, and a learned scale that starts tiny."""

    def __init__(self):
        super().__init__()
        self.each, self.norm = conv(8, 8, 7, groups=8), nn.LayerNorm(8)
        self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.full((8,), 1e-3))

    def forward(self, x):
        y = self.norm(self.each(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(functional.gelu(self.wide(y)))
        return y.permute(0, 3, 1, 2)


def made(build, *shape):
    torch.manual_seed(0)
    return build().eval(), (torch.randn(shape),)


def unet():
    return made(lambda: UNet("nearest"), 1, 3, 16, 16)


def unet_bilinear():
    return made(lambda: UNet("bilinear"), 1, 3, 16, 16)


def unet_transposed():
    return made(lambda: UNet("transposed"), 1, 3, 16, 16)


def dense():
    return made(DenseBlock, 1, 3, 12, 12)


def inception():
    return made(Inception, 1, 3, 12, 12)


def fire():
    return made(Fire, 1, 3, 12, 12)


def shuffle():
    return made(Shuffle, 1, 3, 12, 12)


def cross_stage():
    return made(CrossStage, 1, 3, 12, 12)


def fpn():
    return made(lambda: Pyramid(paths=False), 1, 3, 32, 32)


def panet():
    return made(lambda: Pyramid(paths=True), 1, 3, 32, 32)


def instance_norm():
    return made(InstanceNormed, 1, 3, 48, 48)


def layer_scale():
    return made(LayerScaled, 1, 8, 8, 8)
