"""Networks that a single pass of ExecuTorch fails on, or writes another number for."""

import torch
from torch import nn
from torch.nn import functional


class _Net(nn.Module):
    """A layer, further parts, and a function of both."""

    def __init__(self, layer, run, **parts):
        super().__init__()
        self.layer, self.run = layer, run
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                self.add_module(name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, x):
        return self.run(self, x)


def _made(build, *shape):
    torch.manual_seed(0)
    return build().eval(), (torch.randn(shape),)


def halves():
    """Means of four values on both sides of zero: a quarter of them lies halfway."""

    def run(self, x):
        return functional.avg_pool2d(self.layer(x), 2)

    return _made(lambda: _Net(nn.Conv2d(3, 6, 3, padding=1), run), 1, 3, 8, 8)


def attending_constants():
    """Attention between learned vectors, which an embedding is added to."""

    def run(self, x):
        parts = [(self.learned * factor).transpose(1, 2) for factor in (1.0, 2.0, 3.0)]
        attended = functional.scaled_dot_product_attention(*parts)
        return self.layer(x) + attended.transpose(1, 2).flatten(2)

    model, _ = _made(lambda: _Net(nn.Embedding(9, 32), run, learned=torch.randn(1, 3, 4, 8)), 1, 3)
    return model, (torch.tensor([[1, 5, 8]]),)


def viewed():
    """A norm over channels, whose result torch gives another order in memory than its parts."""

    def run(self, x):
        return self.last(self.norm(self.layer(x).permute(0, 2, 3, 1)).view(1, -1))

    def build():
        return _Net(nn.Conv2d(3, 8, 1), run, norm=nn.LayerNorm(8), last=nn.Linear(128, 4))

    return _made(build, 1, 3, 4, 4)


def inverted_order():
    """Rows sorted by a score and brought back, as a mixture of experts does."""

    def run(self, x):
        x = self.layer(x)
        order = x.sum(-1).argsort()
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(6)
        return self.last(x[order])[inverse]

    return _made(lambda: _Net(nn.Linear(8, 8), run, last=nn.Linear(8, 4)), 6, 8)
