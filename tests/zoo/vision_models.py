"""Networks on images: classification, what norms they use, and what makes images."""

import torch
from torch import nn
from torch.nn import functional

from tests.zoo.layers import block, made


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
        for layers, change in zip(self.blocks, self.changes, strict=True):
            for layer in layers:
                x = torch.cat([x, layer(x)], 1)
            x = change(x)
        x = functional.relu(self.norm(x))
        return self.last(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def densenet():
    return made(_DenseNet, (1, 3, 16, 16))


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
            block(before, wide, 1, act=act),
            block(wide, wide, kernel, stride, wide, act=act),
            excite(wide) if excite else nn.Identity(),
            nn.Conv2d(wide, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.joins = before == after and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.joins else self.body(x)


def _mobile(act, excite, kernels=(3, 5, 7, 3)):
    return nn.Sequential(
        block(3, 8, 3, 2, act=act),
        _Inverted(8, 8, 1, kernels[0], act, excite),
        _Inverted(8, 12, 2, kernels[1], act, excite),
        _Inverted(12, 12, 1, kernels[2], act, excite),
        _Inverted(12, 16, 1, kernels[3], act, excite),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def mcunet():
    return made(lambda: _mobile(nn.ReLU6, None), (1, 3, 32, 32))


def efficientnet():
    return made(lambda: _mobile(nn.SiLU, _Excite), (1, 3, 32, 32))


def mobilenet_v3():
    gated = lambda wide: _Excite(wide, nn.Hardsigmoid)  # noqa: E731
    return made(lambda: _mobile(nn.Hardswish, gated), (1, 3, 32, 32))


class _Bottleneck(nn.Module):
    def __init__(self, before, inner, after, stride, groups=1):
        super().__init__()
        self.body = nn.Sequential(
            block(before, inner, 1),
            block(inner, inner, 3, stride, groups),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


def resnext():
    return made(
        lambda: nn.Sequential(
            block(3, 16, 7, 2),
            nn.MaxPool2d(3, 2, 1),
            _Bottleneck(16, 16, 32, 1, 4),
            _Bottleneck(32, 16, 48, 2, 4),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(48, 10),
        ),
        (1, 3, 32, 32),
    )


class _Shuffle(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(
            block(half, half, 1),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            block(half, half, 1),
        )

    def forward(self, x):
        left, right = x.chunk(2, 1)
        x = torch.cat([left, self.body(right)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet():
    return made(
        lambda: nn.Sequential(
            block(3, 16, 3, 2),
            _Shuffle(16),
            _Shuffle(16),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 10),
        ),
        (1, 3, 32, 32),
    )


class _Next(nn.Module):
    """ConvNeXt's block; ``response`` adds the norm of ConvNeXtV2."""

    def __init__(self, channels, scale=1e-2, response=False):
        super().__init__()
        self.each = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.narrow = (nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels))
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
    return made(lambda: nn.Sequential(nn.Conv2d(3, 16, 4, 4), _Next(16), _Next(16)), (1, 3, 32, 32))


def convnext_v2():
    return made(
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
    return made(lambda: _Normed(build()), (1, 3, 16, 16))


def norm_batch_alone():
    return made(
        lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3)), (1, 3, 16, 16)
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
    return made(_SuperResolution, (1, 1, 16, 16))


class _Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            block(3, 8, 3, 2), block(8, 16, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8)
        )

    def forward(self, a, b):
        a, b = functional.normalize(self.body(a)), functional.normalize(self.body(b))
        return torch.abs(a - b), functional.cosine_similarity(a, b)


def siamese():
    return made(_Siamese, (1, 3, 16, 16), (1, 3, 16, 16))


class _Transformed(nn.Module):
    """A spatial transformer: a grid from a small network, and the image sampled there."""

    def __init__(self):
        super().__init__()
        self.body, self.last = nn.Sequential(block(1, 4, 3, 4), nn.Flatten()), nn.Linear(64, 6)
        nn.init.normal_(self.last.weight, 0, 0.01)
        with torch.no_grad():
            self.last.bias.copy_(torch.tensor([1.0, 0, 0, 0, 1, 0]))
        self.after = nn.Conv2d(1, 4, 3)

    def forward(self, x):
        turn = self.last(self.body(x)).view(1, 2, 3)
        grid = functional.affine_grid(turn, (1, 1, 16, 16), align_corners=False)
        return self.after(functional.grid_sample(x, grid, align_corners=False))


def spatial_transformer():
    return made(_Transformed, (1, 1, 16, 16))


class _Variational(nn.Module):
    """A variational autoencoder without its noise."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ELU())
        self.mean, self.spread = nn.Linear(24, 6), nn.Linear(24, 6)
        self.back = nn.Sequential(nn.Linear(6, 24), nn.LeakyReLU(0.1), nn.Linear(24, 64), nn.Sigmoid())

    def forward(self, x):
        code = self.encoder(x)
        mean, spread = self.mean(code), self.spread(code)
        return self.back(mean + torch.exp(0.5 * spread)).view(1, 1, 8, 8), mean, spread


def autoencoder():
    return made(_Variational, (1, 1, 8, 8))
