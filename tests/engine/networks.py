"""Small networks and data of every kind, as user files that projects name."""

import math

import torch
from torch import nn


class Small(nn.Module):
    """Conv, batch norm, ReLU, pool, linear: [1, 3, 8, 8] to [1, 4]."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.relu(self.bn(self.conv(x))).mean((2, 3)))


class Functional6(nn.Module):
    """A ReLU6 the quantizer has no pattern for, between two convolutions."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)

    def forward(self, x):
        return self.second(torch.nn.functional.relu6(self.first(x)))


class Softmax(nn.Module):
    """Convolution, and a softmax over its channels."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)

    def forward(self, x):
        return torch.softmax(self.conv(x), 1)


class Branching(nn.Module):
    """One of two convolutions, by the sum of the input."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: self.a(v).relu(), self.b, (x,))


class Looping(nn.Module):
    """Halves the positive part of its input until the sum is small."""

    def forward(self, x):
        def large(value):
            return torch.gt(value.sum(), torch.full((1,), 30.0)).squeeze()

        def halved(value):
            return (torch.mul(value, torch.full((1,), 0.5)),)

        return torch.ops.higher_order.while_loop(large, halved, (x.relu(),), ())[0]


class Recurrent(nn.Module):
    """A recurrent layer and a linear."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, batch_first=True)
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


class TwoInputs(nn.Module):
    """Adds two pictures after a convolution, and gives two outputs."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, a, b):
        both = self.conv(a) + self.conv(b)
        return both, both.relu()


class Untraceable(nn.Module):
    """Depends on data in Python."""

    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def _made(model, *shapes):
    torch.manual_seed(0)
    return model().eval(), tuple(torch.randn(s) for s in shapes)


def small():
    return _made(Small, (1, 3, 8, 8))


def averaged():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AvgPool2d(2)).eval(), (torch.rand(1, 3, 8, 8),)


def strided():
    """A convolution whose stride Vela compiles as one operation for each column."""
    return nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.ReLU()).eval(), (torch.rand(1, 3, 32, 32),)


class OddOutputs(nn.Module):
    """Outputs that are no tensors, beside numbers and truth values."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        y = self.fc(x)
        return None, y, {"count": 3, "positive": y > 0}, "text"


def odd_outputs():
    return _made(OddOutputs, (1, 4))


def in_float64():
    model, (x,) = small()
    return model.double(), x.double()


def in_bfloat16():
    model, (x,) = small()
    return model.bfloat16(), x.bfloat16()


def small_module_only():
    return Small()


def functional6():
    return _made(Functional6, (1, 3, 12, 12))


def softmax():
    return _made(Softmax, (1, 3, 8, 8))


def branching():
    return _made(Branching, (1, 3, 8, 8))


def looping():
    return _made(Looping, (1, 3, 8, 8))


def recurrent():
    return _made(Recurrent, (1, 7, 6))


def two_inputs():
    return _made(TwoInputs, (1, 3, 8, 8), (1, 3, 8, 8))


def untraceable():
    return _made(Untraceable, (1, 4))


def raising():
    raise ValueError("no weights today")


def not_a_model():
    return 42


NOT_CALLABLE = 3


def samples():
    generator = torch.Generator().manual_seed(3)
    for index in range(8):
        yield torch.randn((1, 3, 8, 8), generator=generator) + (index % 2 - 0.5), index % 4


def many_samples():
    """Samples of which evaluation keeps a part."""
    for _ in range(4):
        yield from samples()


def unseeded_samples():
    for _ in range(4):
        yield torch.randn(1, 3, 8, 8)


def bad_shape():
    yield torch.zeros(1, 3, 9, 9)


def bad_later():
    yield torch.zeros(1, 3, 8, 8)
    raise RuntimeError("the disk with the samples is gone")


def accuracy(outputs, labels):
    hits = [int(o.argmax()) == label for o, label in zip(outputs, labels, strict=True)]
    return sum(hits) / len(hits)


def failing_metric(outputs, labels):
    raise ValueError("no accuracy today")


class Mapped(nn.Conv2d):
    """Scores of four classes for each pixel."""

    def __init__(self):
        super().__init__(3, 4, 3, padding=1)


def mapped():
    return _made(Mapped, (1, 3, 8, 8))


def masks():
    """Samples with what the model itself finds as the class of each pixel."""
    model, _ = mapped()
    for x, _ in samples():
        yield x, model(x)[0].argmax(0)


def points():
    """Samples with two points, of which the model finds the first and misses the second."""
    model, _ = small()
    for x, _ in samples():
        yield x, model(x).detach().reshape(2, 2) + torch.tensor([[0.0, 0.0], [1e3, 1e3]])


def text_metric(outputs, labels):
    return "good"


class Uneven(nn.Module):
    """Convolutions, one of them depthwise, whose channels differ a hundredfold."""

    def __init__(self):
        super().__init__()
        self.first, self.bn = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.each = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = nn.Conv2d(8, 4, 1)
        with torch.no_grad():
            self.first.weight.mul_(torch.logspace(-1, 1, 8).reshape(-1, 1, 1, 1))
            self.each.weight.mul_(torch.logspace(1, -1, 8).reshape(-1, 1, 1, 1))

    def forward(self, x):
        return self.last(self.each(self.bn(self.first(x)).relu()).relu()).mean((2, 3))


class Normed(nn.Module):
    """A layer norm with an outlying channel before two linears: [1, 3, 8, 8] to [1, 24, 8]."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        with torch.no_grad():
            self.norm.weight[2] = 40.0

    def forward(self, x):
        y = self.norm(x.reshape(1, 24, 8))
        return self.a(y) + self.b(y)


class Overwriting(nn.Module):
    """Convolutions whose activations write into what the convolutions gave."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        x = self.first(x).relu_()
        y = self.second(x).relu_()
        return self.last(y.mul_(0.5) + y)


class WritingNowhere(Overwriting):
    """The same without a write."""

    def forward(self, x):
        x = self.first(x).relu()
        y = self.second(x).relu().mul(0.5)
        return self.last(y + y)


def writing_nowhere():
    return _made(WritingNowhere, (1, 3, 8, 8))


def overwriting():
    return _made(Overwriting, (1, 3, 8, 8))


class Clamped(nn.Module):
    """Two convolutions with a ReLU6 between them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU6(), nn.Conv2d(8, 4, 1))

    def forward(self, x):
        return self.layers(x)


def clamped():
    return _made(Clamped, (1, 3, 8, 8))


def uneven():
    return _made(Uneven, (1, 3, 8, 8))


def normed():
    return _made(Normed, (1, 3, 8, 8))


class Masked(nn.Module):
    """A leaky ReLU, and scores of which some are minus infinity before a softmax."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.act = nn.LeakyReLU(0.1)
        self.register_buffer("mask", torch.eye(8, dtype=torch.bool))

    def forward(self, x):
        x = self.act(self.first(x))
        scores = torch.softmax((x @ x.transpose(1, 2)).masked_fill(self.mask, -math.inf), -1)
        return scores @ x


def masked():
    return _made(Masked, (1, 8, 16))


def teach(student, batches, optimizer):
    """Train for one epoch, as a user would write it."""
    losses = []
    for batch in batches:
        loss = (student(*batch.inputs) - batch.targets[0]).abs().mean()
        assert batch.labels.shape == batch.targets[0].shape[:1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return sum(losses) / len(losses)


def teach_twice(student, batches, optimizer):
    """Train for two epochs; then lose the number."""
    found = teach(student, batches, optimizer)
    teach_twice.epochs = getattr(teach_twice, "epochs", 0) + 1
    return found if teach_twice.epochs <= 2 else math.nan


def teach_wrongly(student, batches, optimizer):
    raise ValueError("no lessons today")


def teach_nothing(student, batches, optimizer):
    return "good"


class Careful(nn.Module):
    """A convolution without bias, and a batch norm with an epsilon and a momentum of its own."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = (nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8, eps=0.1, momentum=0.5))
        self.last = nn.Conv2d(8, 4, 1)
        self.bn.running_mean.normal_()

    def forward(self, x):
        return self.last(self.bn(self.conv(x)).relu()).mean((2, 3))


class Sideways(nn.Module):
    """Channels as samples of a linear: it takes no two samples at once."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 8)

    def forward(self, x):
        return self.fc(x.reshape(3, 64))


def sideways():
    return _made(Sideways, (1, 3, 8, 8))


def careful():
    return _made(Careful, (1, 3, 8, 8))


class Attending(nn.Module):
    """A product of two activations in a module of its own."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return torch.matmul(self.query(x), self.key(x).transpose(1, 2))


def attending():
    parts = nn.Linear(16, 16), Attending(), nn.Linear(4, 4)
    return _made(lambda: nn.Sequential(*parts), (1, 4, 16))


def module6():
    """``functional6`` with a module for its function."""
    made = Functional6()
    return _made(lambda: nn.Sequential(made.first, nn.ReLU6(), made.second), (1, 3, 12, 12))


def channels_last():
    model, (x,) = module6()
    return model, (x.to(memory_format=torch.channels_last),)


class Offset(nn.Module):
    """Adds and subtracts a number far above the values: their grid of 8 bits loses the values."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("offset", torch.full((1, 4, 1, 1), 400.0))

    def forward(self, x):
        return torch.relu(self.conv(x) + self.offset) - self.offset


def offset():
    return _made(Offset, (1, 3, 8, 8))


def half():
    """A network in half precision, whose values no CPU operator converts."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    return net.half().eval(), (torch.randn(1, 6).half(),)


class Least(nn.Module):
    """The least value of each row."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)

    def forward(self, x):
        return self.conv(x).amin(-1)


def least():
    return _made(Least, (1, 3, 11, 11))


class Spectral(nn.Module):
    """The magnitude of a spectrum before a linear."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(17, 4)

    def forward(self, x):
        return self.layer(torch.fft.rfft(x).abs())


class Filtering(nn.Module):
    """A filter in the frequencies of a signal."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(2, 4, 1)
        self.gains = nn.Parameter(torch.randn(4, 17, 2))

    def forward(self, x):
        spectrum = torch.fft.rfft(self.layer(x), norm="ortho")
        return torch.fft.irfft(spectrum * torch.view_as_complex(self.gains), n=32, norm="ortho")


def filtering():
    return Filtering().eval(), (torch.randn(1, 2, 32),)


def spectral():
    return Spectral().eval(), (torch.randn(1, 32),)
