"""Networks on images: segmentation, detection, classification, and what norms they use."""

import torch
from torch import nn
from torch.nn import functional


def _made(build, *shapes):
    torch.manual_seed(0)
    model = build().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return model, tuple(torch.randn(shape) for shape in shapes)


def _block(before, after, size=3, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(
        nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
        act(),
    )


def _double(before, after):
    return nn.Sequential(_block(before, after), _block(after, after))


class _UNet(nn.Module):
    """Three levels with skips; ``grow`` makes what doubles the size of a level."""

    def __init__(self, grow, gates=None):
        super().__init__()
        self.down = nn.ModuleList([_double(3, 8), _double(8, 16)])
        self.bottom = _double(16, 24)
        self.grow = nn.ModuleList([grow(24, 16), grow(16, 8)])
        self.up = nn.ModuleList([_double(32, 16), _double(16, 8)])
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
    return _made(lambda: _UNet(_transposed), (1, 3, 32, 32))


def unet_aligned():
    return _made(lambda: _UNet(_bilinear), (1, 3, 32, 32))


def unet_attention():
    return _made(lambda: _UNet(_transposed, [_Gate(16), _Gate(8)]), (1, 3, 32, 32))


class _Nested(nn.Module):
    """U-Net++ of two levels, with deep supervision."""

    def __init__(self):
        super().__init__()
        self.a0, self.a1, self.a2 = _double(3, 8), _double(8, 12), _double(12, 16)
        self.b0, self.b1, self.c0 = _double(20, 8), _double(28, 12), _double(28, 8)
        self.first, self.second = nn.Conv2d(8, 2, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a0 = self.a0(x)
        a1 = self.a1(functional.max_pool2d(a0, 2))
        a2 = self.a2(functional.max_pool2d(a1, 2))
        b0 = self.b0(torch.cat([a0, _twice(a1)], 1))
        b1 = self.b1(torch.cat([a1, _twice(a2)], 1))
        c0 = self.c0(torch.cat([a0, b0, _twice(b1)], 1))
        return (self.first(b0) + self.second(c0)) * 0.5


def _twice(x):
    return functional.interpolate(x, scale_factor=2, mode="nearest")


def unet_nested():
    return _made(_Nested, (1, 3, 16, 16))


class _ResidualUNet(nn.Module):
    """A U-Net whose skips are added, as LinkNet's are."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (
            _block(3, 8),
            _block(8, 16, 3, 2),
            _block(16, 24, 3, 2),
        )
        self.up2, self.up1 = _transposed(24, 16), _transposed(16, 8)
        self.last = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(a)
        x = functional.relu(self.up2(self.third(b))) + b
        return self.last(functional.relu(self.up1(x)) + a)


def linknet():
    return _made(_ResidualUNet, (1, 3, 32, 32))


class _Atrous(nn.Module):
    """DeepLabV3's head: convolutions of several dilations and an image pool, joined."""

    def __init__(self):
        super().__init__()
        self.stem = _block(3, 16, 3, 2)
        self.parts = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(16, 8, 3, padding=d, dilation=d), nn.ReLU())
                for d in (1, 2, 4)
            ]
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
    return _made(_Atrous, (1, 3, 32, 32))


class _Pools(nn.Module):
    """PSPNet's pyramid: pools of several sizes, each grown back and joined."""

    def __init__(self):
        super().__init__()
        self.stem = _block(3, 8)
        self.sides = nn.ModuleList([_block(8, 4, 1) for _ in range(3)])
        self.last = nn.Conv2d(20, 3, 1)

    def forward(self, x):
        x = self.stem(x)
        found = [x]
        for size, side in zip((1, 2, 4), self.sides, strict=True):
            y = side(functional.adaptive_avg_pool2d(x, size))
            found.append(functional.interpolate(y, size=x.shape[-2:], mode="nearest"))
        return self.last(torch.cat(found, 1))


def pspnet():
    return _made(_Pools, (1, 3, 16, 16))


class _BiFPN(nn.Module):
    """EfficientDet's pyramid: weighted sums of neighbours, down and up."""

    def __init__(self):
        super().__init__()
        self.stem = nn.ModuleList([_block(3, 8, 3, 2), _block(8, 8, 3, 2), _block(8, 8, 3, 2)])
        self.down = nn.ModuleList([_block(8, 8, act=nn.SiLU) for _ in range(2)])
        self.up = nn.ModuleList([_block(8, 8, act=nn.SiLU) for _ in range(2)])
        self.weights = nn.Parameter(torch.rand(4, 2) + 0.5)

    def forward(self, x):
        maps = []
        for stem in self.stem:
            x = stem(x)
            maps.append(x)
        weights = functional.relu(self.weights)
        weights = weights / (weights.sum(1, keepdim=True) + 1e-4)
        for row, level in enumerate((1, 0)):
            both = weights[row, 0] * maps[level] + weights[row, 1] * _twice(maps[level + 1])
            maps[level] = self.down[row](both)
        for row, level in enumerate((1, 2)):
            lower = functional.max_pool2d(maps[level - 1], 2)
            both = weights[row + 2, 0] * maps[level] + weights[row + 2, 1] * lower
            maps[level] = self.up[row](both)
        return tuple(maps)


def bifpn():
    return _made(_BiFPN, (1, 3, 32, 32))


class _SSD(nn.Module):
    """Boxes and classes from two levels, joined into one list of anchors."""

    def __init__(self):
        super().__init__()
        self.first, self.second = _block(3, 16, 3, 4), _block(16, 16, 3, 2)
        self.boxes = nn.ModuleList([nn.Conv2d(16, 8, 3, padding=1) for _ in range(2)])
        self.classes = nn.ModuleList([nn.Conv2d(16, 6, 3, padding=1) for _ in range(2)])

    def forward(self, x):
        maps = [self.first(x)]
        maps.append(self.second(maps[0]))
        boxes = [
            head(m).permute(0, 2, 3, 1).reshape(1, -1, 4)
            for head, m in zip(self.boxes, maps, strict=True)
        ]
        scores = [
            head(m).permute(0, 2, 3, 1).reshape(1, -1, 3)
            for head, m in zip(self.classes, maps, strict=True)
        ]
        return torch.cat(boxes, 1), torch.softmax(torch.cat(scores, 1), -1)


def ssd():
    return _made(_SSD, (1, 3, 32, 32))


class _Yolo(nn.Module):
    """YOLOv8's neck and head: C2f, SPPF, distances by DFL, boxes decoded."""

    def __init__(self):
        super().__init__()
        act = nn.SiLU
        self.stem, self.down = _block(3, 8, 3, 2, act=act), _block(8, 16, 3, 2, act=act)
        self.a, self.b = _block(8, 8, act=act), _block(8, 8, act=act)
        self.join, self.pool = _block(24, 16, 1, act=act), _block(64, 16, 1, act=act)
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
    return _made(_Yolo, (1, 3, 32, 32))


class _CenterNet(nn.Module):
    """Heat map with its local maxima, sizes and offsets."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(_block(3, 16, 3, 2), _block(16, 16))
        self.heat, self.size = nn.Conv2d(16, 2, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        x = self.body(x)
        heat = self.heat(x).sigmoid()
        peak = functional.max_pool2d(heat, 3, 1, 1)
        return heat, peak, functional.relu(self.size(x))


def centernet():
    return _made(_CenterNet, (1, 3, 32, 32))


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
        self.levels = nn.ModuleList([_block(3, 16, 3, 2), _block(16, 16, 3, 2)])
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
    return _made(_FCOS, (1, 3, 32, 32))


class _DenseNet(nn.Module):
    def __init__(self, growth=6):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.blocks = nn.ModuleList()
        self.changes = nn.ModuleList()
        channels = 8
        for _ in range(2):
            block = nn.ModuleList()
            for _ in range(3):
                block.append(
                    nn.Sequential(
                        nn.BatchNorm2d(channels),
                        nn.ReLU(),
                        nn.Conv2d(channels, 12, 1, bias=False),
                        nn.BatchNorm2d(12),
                        nn.ReLU(),
                        nn.Conv2d(12, growth, 3, padding=1, bias=False),
                    )
                )
                channels += growth
            self.blocks.append(block)
            self.changes.append(
                nn.Sequential(
                    nn.BatchNorm2d(channels),
                    nn.ReLU(),
                    nn.Conv2d(channels, channels // 2, 1),
                    nn.AvgPool2d(2),
                )
            )
            channels //= 2
        self.norm, self.last = nn.BatchNorm2d(channels), nn.Linear(channels, 10)

    def forward(self, x):
        x = self.stem(x)
        for block, change in zip(self.blocks, self.changes, strict=True):
            for layer in block:
                x = torch.cat([x, layer(x)], 1)
            x = change(x)
        x = functional.relu(self.norm(x))
        return self.last(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def densenet():
    return _made(_DenseNet, (1, 3, 16, 16))


class _Excite(nn.Module):
    def __init__(self, channels, gate=nn.Sigmoid):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)
        self.gate = gate()

    def forward(self, x):
        y = functional.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.up(functional.relu(self.down(y))))


class _Inverted(nn.Module):
    """The block of MobileNetV2, MCUNet, EfficientNet and MobileNetV3."""

    def __init__(self, before, after, stride=1, kernel=3, act=nn.ReLU6, excite=None):
        super().__init__()
        wide = before * 3
        self.body = nn.Sequential(
            _block(before, wide, 1, act=act),
            _block(wide, wide, kernel, stride, wide, act=act),
            excite(wide) if excite else nn.Identity(),
            nn.Conv2d(wide, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.joins = before == after and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.joins else self.body(x)


def _mobile(act, excite, kernels=(3, 5, 7, 3)):
    return nn.Sequential(
        _block(3, 8, 3, 2, act=act),
        _Inverted(8, 8, 1, kernels[0], act, excite),
        _Inverted(8, 12, 2, kernels[1], act, excite),
        _Inverted(12, 12, 1, kernels[2], act, excite),
        _Inverted(12, 16, 1, kernels[3], act, excite),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def mcunet():
    return _made(lambda: _mobile(nn.ReLU6, None), (1, 3, 32, 32))


def efficientnet():
    return _made(lambda: _mobile(nn.SiLU, _Excite), (1, 3, 32, 32))


def mobilenet_v3():
    gated = lambda wide: _Excite(wide, nn.Hardsigmoid)  # noqa: E731
    return _made(lambda: _mobile(nn.Hardswish, gated), (1, 3, 32, 32))


class _Bottleneck(nn.Module):
    def __init__(self, before, inner, after, stride, groups=1):
        super().__init__()
        self.body = nn.Sequential(
            _block(before, inner, 1),
            _block(inner, inner, 3, stride, groups),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.skip = nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        )

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


def resnext():
    return _made(
        lambda: nn.Sequential(
            _block(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), _Bottleneck(16, 16, 32, 1, 4),
            _Bottleneck(32, 16, 48, 2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10),
        ),
        (1, 3, 32, 32),
    )  # fmt: skip


class _Shuffle(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(
            _block(half, half, 1),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            _block(half, half, 1),
        )

    def forward(self, x):
        left, right = x.chunk(2, 1)
        x = torch.cat([left, self.body(right)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet():
    return _made(
        lambda: nn.Sequential(
            _block(3, 16, 3, 2), _Shuffle(16), _Shuffle(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(16, 10),
        ),
        (1, 3, 32, 32),
    )  # fmt: skip


class _Next(nn.Module):
    """ConvNeXt's block; ``response`` adds the norm of ConvNeXtV2."""

    def __init__(self, channels, scale=1e-2, response=False):
        super().__init__()
        self.each = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.narrow = (
            nn.Linear(channels, 2 * channels),
            nn.Linear(2 * channels, channels),
        )
        self.scale = nn.Parameter(torch.full((channels,), scale))
        self.response = nn.Parameter(torch.rand(2 * channels)) if response else None

    def forward(self, x):
        y = self.norm(self.each(x).permute(0, 2, 3, 1))
        y = functional.gelu(self.wide(y))
        if self.response is not None:
            norm = torch.sqrt((y * y).sum((1, 2), keepdim=True) + 1e-6)
            y = y + self.response * y * (norm / (norm.mean(-1, keepdim=True) + 1e-6))
        return x + (self.scale * self.narrow(y)).permute(0, 3, 1, 2)


def convnext():
    return _made(
        lambda: nn.Sequential(nn.Conv2d(3, 16, 4, 4), _Next(16), _Next(16)), (1, 3, 32, 32)
    )


def convnext_v2():
    return _made(
        lambda: nn.Sequential(nn.Conv2d(3, 16, 4, 4), _Next(16, 1.0, True), _Next(16, 1.0, True)),
        (1, 3, 32, 32),
    )


class _Normed(nn.Module):
    """A small network around one norm."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 8, 3, padding=1), norm, nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.last(functional.relu(self.norm(self.first(x))))


class _ChannelNorm(nn.Module):
    """A layer norm over the channels of an image."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _Lengths(nn.Module):
    """L2 normalization over the channels."""

    def forward(self, x):
        return functional.normalize(x, dim=1) * 4.0


class _RMS(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8, 1, 1) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * self.weight


class _Filtered(nn.Module):
    """Filter response normalization with its threshold."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.rand(1, 8, 1, 1) + 0.5),
            nn.Parameter(torch.zeros(1, 8, 1, 1)),
        )
        self.threshold = nn.Parameter(torch.full((1, 8, 1, 1), -0.2))

    def forward(self, x):
        norm = x * torch.rsqrt(x.pow(2).mean((2, 3), keepdim=True) + 1e-6)
        return torch.maximum(self.weight * norm + self.bias, self.threshold)


class _Standardized(nn.Conv2d):
    """A convolution whose weights are standardized as it runs."""

    def forward(self, x):
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        spread = self.weight.std((1, 2, 3), keepdim=True)
        return self._conv_forward(x, (self.weight - mean) / (spread + 1e-5), self.bias)


def _norm(build):
    return _made(lambda: _Normed(build()), (1, 3, 16, 16))


def norm_batch_alone():
    return _made(
        lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3)),
        (1, 3, 16, 16),
    )


def norm_group():
    return _norm(lambda: nn.GroupNorm(2, 8))


def norm_instance():
    return _norm(lambda: nn.InstanceNorm2d(8, affine=True))


def norm_layer_channels():
    return _norm(_ChannelNorm)


def norm_layer_image():
    return _norm(lambda: nn.LayerNorm((8, 16, 16)))


def norm_local_response():
    return _norm(lambda: nn.LocalResponseNorm(3))


def norm_lengths():
    return _norm(_Lengths)


def norm_rms():
    return _norm(_RMS)


def norm_filter_response():
    return _norm(_Filtered)


def norm_weights():
    return _norm(lambda: _Standardized(8, 8, 3, padding=1))


def norm_spectral():
    return _norm(lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(8, 8, 3, padding=1)))


def norm_weight_norm():
    return _norm(lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(8, 8, 3, padding=1)))


class _SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 5, padding=2), nn.Conv2d(16, 8, 3, padding=1)
        self.last, self.shuffle = nn.Conv2d(8, 9, 3, padding=1), nn.PixelShuffle(3)

    def forward(self, x):
        x = torch.tanh(self.second(torch.tanh(self.first(x))))
        return self.shuffle(self.last(x))


def espcn():
    return _made(_SuperResolution, (1, 1, 16, 16))


class _Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            _block(3, 8, 3, 2),
            _block(8, 16, 3, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 8),
        )

    def forward(self, a, b):
        a, b = functional.normalize(self.body(a)), functional.normalize(self.body(b))
        return torch.abs(a - b), functional.cosine_similarity(a, b)


def siamese():
    return _made(_Siamese, (1, 3, 16, 16), (1, 3, 16, 16))


class _Transformed(nn.Module):
    """A spatial transformer: a grid from a small network, and the image sampled there."""

    def __init__(self):
        super().__init__()
        self.body, self.last = nn.Sequential(_block(1, 4, 3, 4), nn.Flatten()), nn.Linear(64, 6)
        nn.init.normal_(self.last.weight, 0, 0.01)
        with torch.no_grad():
            self.last.bias.copy_(torch.tensor([1.0, 0, 0, 0, 1, 0]))
        self.after = nn.Conv2d(1, 4, 3)

    def forward(self, x):
        turn = self.last(self.body(x)).view(1, 2, 3)
        grid = functional.affine_grid(turn, (1, 1, 16, 16), align_corners=False)
        return self.after(functional.grid_sample(x, grid, align_corners=False))


def spatial_transformer():
    return _made(_Transformed, (1, 1, 16, 16))


class _Variational(nn.Module):
    """A variational autoencoder without its noise."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ELU())
        self.mean, self.spread = nn.Linear(24, 6), nn.Linear(24, 6)
        self.back = nn.Sequential(
            nn.Linear(6, 24), nn.LeakyReLU(0.1), nn.Linear(24, 64), nn.Sigmoid()
        )

    def forward(self, x):
        code = self.encoder(x)
        mean, spread = self.mean(code), self.spread(code)
        return self.back(mean + torch.exp(0.5 * spread)).view(1, 1, 8, 8), mean, spread


def autoencoder():
    return _made(_Variational, (1, 1, 8, 8))
