"""Networks that find objects: a pyramid, and heads with and without anchors."""

import torch
from torch import nn
from torch.nn import functional

from tests.zoo.layers import block, made, twice


class _BiFPN(nn.Module):
    """EfficientDet's pyramid: weighted sums of neighbours, down and up."""

    def __init__(self):
        super().__init__()
        self.stem = nn.ModuleList([block(3, 8, 3, 2), block(8, 8, 3, 2), block(8, 8, 3, 2)])
        self.down = nn.ModuleList([block(8, 8, act=nn.SiLU) for _ in range(2)])
        self.up = nn.ModuleList([block(8, 8, act=nn.SiLU) for _ in range(2)])
        self.weights = nn.Parameter(torch.rand(4, 2) + 0.5)

    def forward(self, x):
        maps = []
        for stem in self.stem:
            x = stem(x)
            maps.append(x)
        weights = functional.relu(self.weights)
        weights = weights / (weights.sum(1, keepdim=True) + 1e-4)
        for row, level in enumerate((1, 0)):
            both = weights[row, 0] * maps[level] + weights[row, 1] * twice(maps[level + 1])
            maps[level] = self.down[row](both)
        for row, level in enumerate((1, 2)):
            lower = functional.max_pool2d(maps[level - 1], 2)
            both = weights[row + 2, 0] * maps[level] + weights[row + 2, 1] * lower
            maps[level] = self.up[row](both)
        return tuple(maps)


def bifpn():
    return made(_BiFPN, (1, 3, 32, 32))


class _SSD(nn.Module):
    """Boxes and classes from two levels, joined into one list of anchors."""

    def __init__(self):
        super().__init__()
        self.first, self.second = block(3, 16, 3, 4), block(16, 16, 3, 2)
        self.boxes = nn.ModuleList([nn.Conv2d(16, 8, 3, padding=1) for _ in range(2)])
        self.classes = nn.ModuleList([nn.Conv2d(16, 6, 3, padding=1) for _ in range(2)])

    def forward(self, x):
        maps = [self.first(x)]
        maps.append(self.second(maps[0]))
        boxes = [
            head(m).permute(0, 2, 3, 1).reshape(1, -1, 4) for head, m in zip(self.boxes, maps, strict=True)
        ]
        scores = [
            head(m).permute(0, 2, 3, 1).reshape(1, -1, 3) for head, m in zip(self.classes, maps, strict=True)
        ]
        return torch.cat(boxes, 1), torch.softmax(torch.cat(scores, 1), -1)


def ssd():
    return made(_SSD, (1, 3, 32, 32))


class _Yolo(nn.Module):
    """YOLOv8's neck and head: C2f, SPPF, distances by DFL, boxes decoded."""

    def __init__(self):
        super().__init__()
        act = nn.SiLU
        self.stem, self.down = block(3, 8, 3, 2, act=act), block(8, 16, 3, 2, act=act)
        self.a, self.b = block(8, 8, act=act), block(8, 8, act=act)
        self.join, self.pool = block(24, 16, 1, act=act), block(64, 16, 1, act=act)
        self.box, self.score = nn.Conv2d(16, 32, 1), nn.Conv2d(16, 3, 1)
        ys, xs = torch.meshgrid(torch.arange(8) + 0.5, torch.arange(8) + 0.5, indexing="ij")
        self.register_buffer("anchors", torch.stack([xs.flatten(), ys.flatten()])[None])
        self.register_buffer("bins", torch.arange(8.0).reshape(1, 8, 1, 1))

    def forward(self, x):
        x = self.down(self.stem(x))
        left, right = x.chunk(2, 1)
        x = self.join(torch.cat([left, right, right + self.b(self.a(right))], 1))
        pools = [x]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        x = self.pool(torch.cat(pools, 1))
        distances = self.box(x).reshape(1, 4, 8, 64).transpose(1, 2).softmax(1)
        distances = functional.conv2d(distances, self.bins).reshape(1, 4, 64)
        near, far = distances.chunk(2, 1)
        low, high = self.anchors - near, self.anchors + far
        boxes = torch.cat([(low + high) / 2, high - low], 1) * 4.0
        return torch.cat([boxes, self.score(x).flatten(2).sigmoid()], 1)


def yolov8():
    return made(_Yolo, (1, 3, 32, 32))


class _CenterNet(nn.Module):
    """Heat map with its local maxima, sizes and offsets."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(block(3, 16, 3, 2), block(16, 16))
        self.heat, self.size = nn.Conv2d(16, 2, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        x = self.body(x)
        heat = self.heat(x).sigmoid()
        peak = functional.max_pool2d(heat, 3, 1, 1)
        return heat, peak, functional.relu(self.size(x))


def centernet():
    return made(_CenterNet, (1, 3, 32, 32))


class _Scale(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(value))

    def forward(self, x):
        return x * self.scale


class _FCOS(nn.Module):
    """Heads that levels share, with group norms, a scale a level, and exp."""

    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList([block(3, 16, 3, 2), block(16, 16, 3, 2)])
        self.tower = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU())
        self.box, self.scores = nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
        self.scales = nn.ModuleList([_Scale(0.8), _Scale(0.4)])

    def forward(self, x):
        found = []
        for level, scale in zip(self.levels, self.scales, strict=True):
            x = level(x)
            y = self.tower(x)
            found += [torch.exp(scale(self.box(y))), self.scores(y)]
        return tuple(found)


def fcos():
    return made(_FCOS, (1, 3, 32, 32))
