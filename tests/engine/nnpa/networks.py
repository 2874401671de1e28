"""Networks of matrix products, as users write them."""

import torch
from torch import nn
from torch.nn import functional

WIDTH, TOKENS, HEADS = 16, 6, 2


class Mlp(nn.Module):
    """Linear layers on two dimensions."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 24), nn.Linear(24, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


class Attention(nn.Module):
    """Self-attention with a residual, on three dimensions."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (t.reshape(1, TOKENS, HEADS, -1).transpose(1, 2) for t in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return x + self.out(mixed.reshape(1, TOKENS, WIDTH))


class Transformer(nn.Module):
    """Attention, layer norm, a feed-forward part and a head on the first token."""

    def __init__(self):
        super().__init__()
        self.attention, self.norm = Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.norm(self.attention(x))
        x = x + self.down(functional.gelu(self.up(x)))
        return self.head(x[:, 0])


class Convolutional(nn.Module):
    """A convolution, which is never quantized, with a linear layer behind it."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))


def _made(model, *shape):
    torch.manual_seed(5)
    return model().eval(), torch.randn(*shape)


def mlp():
    return _made(Mlp, 1, WIDTH)


def silent():
    model, x = mlp()
    model.first.weight.data.zero_()
    return model, x


def transformer():
    return _made(Transformer, 1, TOKENS, WIDTH)


def convolutional():
    return _made(Convolutional, 1, 1, 8, 8)


def vectors():
    generator = torch.Generator().manual_seed(7)
    for index in range(12):
        yield torch.randn((1, WIDTH), generator=generator) * (1 + index), index % 4


def sentences():
    generator = torch.Generator().manual_seed(7)
    for index in range(8):
        yield torch.randn((1, TOKENS, WIDTH), generator=generator), index % 4


def pictures():
    generator = torch.Generator().manual_seed(7)
    for index in range(8):
        yield torch.randn((1, 1, 8, 8), generator=generator), index % 4


def with_silence():
    """Samples of which two are all zeros."""
    for index, (x, label) in enumerate(vectors()):
        yield (x * 0 if index in {3, 5} else x), label
