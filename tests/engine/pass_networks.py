"""Networks that a single pass of ExecuTorch fails on, or writes another number for."""

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
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


def clipped():
    """A convolution clipped to the range of a probability."""
    return _made(
        lambda: _Net(nn.Conv2d(3, 6, 3), lambda self, x: self.clip(self.layer(x)), clip=nn.Hardtanh(0, 1)),
        1,
        3,
        8,
        8,
    )


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


def selected_deviation():
    """The deviation over rows that a constant selects."""

    def run(self, x):
        return self.layer(x)[:, self.order].std(1)

    order = torch.tensor([0, 2, 4])
    model, _ = _made(lambda: _Net(nn.Linear(6, 8), run, order=order), 1, 5, 6)
    return model, (torch.randn(1, 5, 6),)


def viewed():
    """A softmax over channels, whose result torch gives another order in memory than its parts."""

    def run(self, x):
        return self.last(torch.softmax(self.layer(x).permute(0, 2, 3, 1), -1).view(1, -1))

    return _made(lambda: _Net(nn.Conv2d(3, 8, 1), run, last=nn.Linear(32, 4)), 1, 3, 2, 2)


def inverted_order():
    """Rows sorted by a score and brought back, as a mixture of experts does."""

    def run(self, x):
        x = self.layer(x)
        order = x.sum(-1).argsort()
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(6)
        return self.last(x[order])[inverse]

    return _made(lambda: _Net(nn.Linear(8, 8), run, last=nn.Linear(8, 4)), 6, 8)


def halved_until_small():
    """A loop that asks whether a sum is above a number, which gets a dimension."""

    def run(self, x):
        value = self.layer(x).relu()
        body = lambda value: (value * 0.5,)  # noqa: E731
        return while_loop(_is_large, body, (value,))[0]

    return _made(lambda: _Net(nn.Conv2d(3, 4, 1), run), 1, 3, 4, 4)


def _is_large(value):
    return value.sum() > 4.0


def counted():
    """A loop that counts its turns, which the NPU does not."""

    def run(self, x):
        start = torch.tensor(0), self.layer(x).relu()
        body = lambda turn, value: (turn + 1, self.layer(value).relu())  # noqa: E731
        return while_loop(_is_early, body, start)[1]

    return _made(lambda: _Net(nn.Conv2d(3, 3, 1), run), 1, 3, 4, 4)


def _is_early(turn, value):
    del value
    return turn < 3


def counted_as_floats():
    """The same with a number of one dimension."""

    def run(self, x):
        start = torch.zeros(1), self.layer(x).relu()
        body = lambda turn, value: (turn + 1, torch.tanh(self.layer(value)))  # noqa: E731
        return while_loop(_is_early_by_sum, body, start)[1]

    return _made(lambda: _Net(nn.Conv2d(3, 3, 1), run), 1, 3, 4, 4)


def _is_early_by_sum(turn, value):
    del value
    return (turn < 3).all()


def counted_in_python():
    """The same with its turns written out."""

    def run(self, x):
        for _ in range(4):
            x = self.layer(x).relu()
        return x

    return _made(lambda: _Net(nn.Conv2d(3, 3, 1), run), 1, 3, 4, 4)


class _SummedInBranch(nn.Module):
    """A cumulative sum in one of two branches."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        value = functional.relu(self.conv(x))
        return torch.cond(x.sum() > 0, lambda v: v.cumsum(2), lambda v: v * 0.5, (value,))


def summed_in_branch():
    return _made(_SummedInBranch, 1, 3, 8, 8)


def both_branches():
    """Yield samples of which some take one branch and some the other."""
    generator = torch.Generator().manual_seed(1)
    for shift in (-2.0, -1.0, 1.0, 2.0):
        yield torch.randn(1, 3, 8, 8, generator=generator) + shift
