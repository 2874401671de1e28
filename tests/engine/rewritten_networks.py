"""Networks that Vela compiles to many times the cycles that they need, as people write them."""

import torch
from torch import nn
from torch.nn import functional


def _made(build, *shape):
    torch.manual_seed(0)
    net = build()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.4, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.2)
    return net.eval(), (torch.randn(shape),)


class _Audio(nn.Module):
    """A keyword network over the samples of a second."""

    def __init__(self, padding=0):
        super().__init__()
        self.first, self.norm = nn.Conv1d(1, 32, 80, 4, padding), nn.BatchNorm1d(32)
        self.second, self.third = nn.Conv1d(32, 32, 3), nn.Conv1d(32, 64, 3)
        self.head = nn.Linear(64, 12)

    def forward(self, x):
        x = functional.max_pool1d(functional.relu(self.norm(self.first(x))), 4)
        x = functional.max_pool1d(functional.relu(self.second(x)), 4)
        return self.head(functional.relu(self.third(x)).mean(-1))


def audio():
    return _made(_Audio, 1, 1, 16000)


def padded_audio():
    return _made(lambda: _Audio(38), 1, 1, 16000)


class _Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Conv1d(1, 32, 10, 5), nn.Conv1d(32, 32, 8, 4), nn.Conv1d(32, 64, 4, 2)]
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for layer in self.layers:
            x = functional.gelu(layer(x))
        return self.head(x.mean(-1))


def encoder():
    return _made(_Encoder, 1, 1, 16000)


def long_kernel():
    layers = nn.Conv1d(1, 32, 251), nn.ReLU(), nn.MaxPool1d(3), nn.Conv1d(32, 32, 5, 2), nn.ReLU()
    head = nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 10)
    return _made(lambda: nn.Sequential(*layers, *head), 1, 1, 4000)


class _Filters(nn.Module):
    """Filters that are computed from the limits of their bands, as SincNet has them."""

    def __init__(self):
        super().__init__()
        self.low = nn.Parameter(torch.linspace(0.002, 0.4, 32)[:, None])
        self.band = nn.Parameter(torch.full((32, 1), 0.03))
        self.register_buffer("places", torch.arange(-125.0, 126.0)[None])
        self.register_buffer("window", torch.hamming_window(251, periodic=False)[None])

    def forward(self, x):
        low, high = self.low.abs(), self.low.abs() + self.band.abs()
        bands = (2 * edge * torch.sinc(2 * edge * self.places) for edge in (high, low))
        taps = (next(bands) - next(bands)) * self.window
        taps = taps / taps.abs().max(1, keepdim=True).values
        return functional.conv1d(x, taps[:, None])


def computed_kernel():
    layers = _Filters(), nn.ReLU(), nn.MaxPool1d(3), nn.Conv1d(32, 32, 5, 2), nn.ReLU()
    head = nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 10)
    return _made(lambda: nn.Sequential(*layers, *head), 1, 1, 4000)


def _leads(padded):
    def block(inputs, outputs, kernel):
        padding = kernel // 2 if padded else 0
        return (nn.Conv1d(inputs, outputs, kernel, 2, padding), nn.ReLU(), nn.BatchNorm1d(outputs))

    layers = *block(12, 32, 7), *block(32, 64, 5), *block(64, 64, 5), *block(64, 128, 3)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 5))


def leads():
    return _made(lambda: _leads(padded=False), 1, 12, 1000)


def padded_leads():
    return _made(lambda: _leads(padded=True), 1, 12, 1000)


class _Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.head = nn.Conv2d(3, 96, 16, 16), nn.Linear(96, 10)

    def forward(self, x):
        return self.head(self.proj(x).flatten(2).transpose(1, 2).mean(1))


def patches():
    return _made(_Patches, 1, 3, 224, 224)


def stem():
    layers = nn.Conv2d(3, 32, 4, 4, bias=False), nn.BatchNorm2d(32), nn.ReLU()
    head = nn.Conv2d(32, 32, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    return _made(lambda: nn.Sequential(*layers, *head), 1, 3, 224, 224)


def grouped():
    """A depthwise convolution with a stride of 4 within a network."""
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 8, 4, 2, groups=16)
    return _made(
        lambda: nn.Sequential(*layers, nn.Conv2d(16, 8, 1), nn.Flatten(), nn.Linear(512, 5)), 1, 3, 32, 32
    )


def transposed():
    """A decoder with a stride of 4, as networks for segmentation have it."""
    layers = nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 8, 8, 4, 2)
    return _made(lambda: nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1)), 1, 8, 24, 24)


def small_shuffle():
    """A pixel shuffle that U65 computes faster as it is written."""
    return _made(lambda: nn.Sequential(nn.PixelShuffle(2), nn.ReLU()), 1, 4, 16, 16)


class _FewPatches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 16)

    def forward(self, x):
        x = x.reshape(1, 3, 7, 2, 7, 2).permute(0, 2, 4, 3, 5, 1)
        return self.layer(x.reshape(1, 49, 12))


def few_patches():
    """Patches of a small picture, whose changes of layout cost little."""
    return _made(_FewPatches, 1, 3, 14, 14)


def refused_depthwise():
    """A depthwise convolution with a stride that Vela refuses for U55 and U65."""
    layers = nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, (5, 4), (5, 4), groups=8)
    return _made(lambda: nn.Sequential(*layers), 1, 8, 32, 32)


class _Turned(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


def _weighted(build, *shape):
    net, inputs = _made(build, *shape)
    for part in net.modules():
        if isinstance(part, nn.GroupNorm | nn.LayerNorm):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.2)
    return net, inputs


def grouped_norms():
    """Three equal norms over groups of channels."""
    layers = [(nn.Conv1d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU()) for _ in range(3)]
    return _weighted(lambda: nn.Sequential(*[part for layer in layers for part in layer]), 1, 16, 200)


def normed_encoder():
    """A feature encoder with a layer norm behind every convolution, as large ones have it."""
    settings = (1, 32, 10, 5), (32, 32, 8, 4), (32, 64, 4, 2)
    layers = [(nn.Conv1d(*each), _Turned(each[1]), nn.GELU()) for each in settings]
    head = nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10)
    return _weighted(lambda: nn.Sequential(*[p for layer in layers for p in layer], *head), 1, 1, 16000)


def normed_audio():
    """A keyword network with norms over groups before its pools."""
    layers = nn.Conv1d(1, 32, 80, 4), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool1d(4)
    more = nn.Conv1d(32, 32, 3), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool1d(4)
    last = nn.Conv1d(32, 64, 3), nn.GroupNorm(4, 64), nn.ReLU()
    head = nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 12)
    return _weighted(lambda: nn.Sequential(*layers, *more, *last, *head), 1, 1, 16000)


def normed_leads():
    """Twelve leads with norms over groups behind activations."""
    settings = (12, 32, 7), (32, 64, 5), (64, 64, 5), (64, 128, 3)
    layers = [(nn.Conv1d(i, o, k, 2), nn.ReLU(), nn.GroupNorm(4, o)) for i, o, k in settings]
    head = nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 5)
    return _weighted(lambda: nn.Sequential(*[p for layer in layers for p in layer], *head), 1, 12, 1000)


class _Causal(nn.Module):
    def __init__(self, inputs, outputs, dilation):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, 3, padding=2 * dilation, dilation=dilation)
        self.cut = 2 * dilation

    def forward(self, x):
        return functional.relu(self.conv(x)[:, :, : -self.cut].contiguous())


def causal():
    """Convolutions whose results at the end are cut off, as temporal networks have them."""
    return _made(
        lambda: nn.Sequential(*[_Causal(8 if n == 0 else 32, 32, 2**n) for n in range(4)]), 1, 8, 256
    )


def grouped_input():
    """A convolution in few groups over an input, which U55 computes faster as it is written."""
    return _made(lambda: nn.Conv2d(24, 24, 4, 4, groups=3), 1, 24, 64, 64)


def depthwise_audio():
    """Separable convolutions with strides of 4 over a sequence."""
    layers = nn.Conv1d(1, 32, 64, 8, 28), nn.ReLU(), nn.Conv1d(32, 32, 9, 4, 4, groups=32), nn.ReLU()
    more = nn.Conv1d(32, 64, 1), nn.ReLU(), nn.Conv1d(64, 64, 9, 4, 4, groups=64), nn.ReLU()
    head = nn.Conv1d(64, 64, 1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10)
    return _made(lambda: nn.Sequential(*layers, *more, *head), 1, 1, 8000)


def _samples(make):
    generator = torch.Generator().manual_seed(1)
    ((example,),) = make()[1:]
    for number in range(20):
        yield (torch.randn(example.shape, generator=generator) * (0.4 + 0.05 * number),)


class _Attention(nn.Module):
    """A block whose queries, keys and values are one product, as vision transformers are written."""

    def __init__(self):
        super().__init__()
        self.norm, self.packed, self.out = nn.LayerNorm(96), nn.Linear(96, 288), nn.Linear(96, 96)
        self.head = nn.Linear(96, 10)

    def forward(self, x):
        q, k, v = self.packed(self.norm(x)).reshape(1, 64, 3, 4, 24).permute(2, 0, 3, 1, 4).unbind(0)
        taken = (q * 24**-0.5 @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.head((x + self.out(taken.transpose(1, 2).reshape(1, 64, 96))).mean(1))


def attention():
    return _made(_Attention, 1, 64, 96)


def audio_data():
    yield from _samples(audio)


def lead_data():
    yield from _samples(leads)


def picture_data():
    yield from _samples(patches)


def small_picture_data():
    yield from _samples(grouped)


def long_data():
    yield from _samples(long_kernel)


def decoder_data():
    yield from _samples(transposed)


def token_data():
    yield from _samples(attention)


def causal_data():
    yield from _samples(causal)


def depthwise_data():
    yield from _samples(depthwise_audio)
