"""Networks whose outputs join quantities of different size, as people write them."""

import torch
from torch import nn

CLASSES = 3


class Joining(nn.Module):
    """A body for small pictures [1, 2, 8, 8], with heads for boxes and scores."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 8, 3, 2, 1), nn.ReLU())
        self.box, self.score = nn.Conv2d(8, 4, 1), nn.Conv2d(8, CLASSES, 1)

    def parts(self, x):
        features = self.body(x)
        return self.box(features).sigmoid() * 200, self.score(features).sigmoid()


class AlongChannels(Joining):
    def forward(self, x):
        return torch.cat(self.parts(x), 1)


class LastDimension(Joining):
    def forward(self, x):
        box, score = (part.flatten(2).permute(0, 2, 1) for part in self.parts(x))
        return torch.cat([box, score], dim=-1)


class Stacked(Joining):
    def forward(self, x):
        box, score = (part.mean((1, 2, 3)) for part in self.parts(x))
        return torch.stack((box + 1000, score, box / score), dim=1)


class Written(Joining):
    def forward(self, x):
        box, score = self.parts(x)
        out = torch.zeros(1, 8, 4, 4)
        out[:, 0:4] = box
        out[:, 4:7] = score
        return out


class Scales(Joining):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 2, 3, 2, 1)

    def forward(self, x):
        rows = [torch.cat(self.parts(y), 1).flatten(2) for y in (x, self.down(x))]
        return torch.cat(rows, 2).transpose(1, 2)


class Behind(Joining):
    """A factor, a clamp and an offset of each channel behind the join."""

    def __init__(self):
        super().__init__()
        self.register_buffer("offset", torch.arange(7.0).view(1, 7, 1, 1))

    def forward(self, x):
        joined = torch.cat(self.parts(x), 1)
        return (joined * 1.5).clamp(0, 250) + self.offset


class Factors(Joining):
    """Units that a vector of factors makes."""

    def forward(self, x):
        values = self.parts(x)[1].mean((2, 3))
        return values * torch.tensor([300.0, 300.0, 0.5])


class InDictionary(Joining):
    def forward(self, x):
        box, score = self.parts(x)
        return {"rows": torch.cat([box, score], 1), "class": score.mean((2, 3))}


class Plain(Joining):
    def forward(self, x):
        return self.parts(x)


class Heads(Joining):
    """Numbers of a box, then the class."""

    def forward(self, x):
        box, score = self.parts(x)
        return box.mean((2, 3)), score.mean((2, 3))


class Decoded(Joining):
    """One head, taken apart and decoded in place."""

    def forward(self, x):
        rows = self.box(self.body(x)).view(1, 2, 2, 4, 4).permute(0, 1, 3, 4, 2).sigmoid()
        rows = rows.contiguous()
        rows[..., 0:1] = rows[..., 0:1] * 64
        return rows.reshape(1, -1, 2)


class Repeated(nn.Module):
    """A layer that is applied step by step makes one quantity."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        state, steps = x[:, 0, 0], []
        for _ in range(3):
            state = torch.tanh(self.layer(state))
            steps.append(self.last(state))
        return torch.stack(steps, 1)


class Flagged(Repeated):
    """Steps of one layer, and a flag of the last state."""

    def forward(self, x):
        state, steps = x[:, 0, 0], []
        for _ in range(3):
            state = torch.tanh(self.layer(state))
            steps.append(self.last(state)[:, 0] * 100)
        return torch.cat([torch.stack(steps, 1), state[:, :1]], 1)


IDIOMS = (
    AlongChannels,
    LastDimension,
    Stacked,
    Written,
    Scales,
    Behind,
    Factors,
    InDictionary,
    Decoded,
    Flagged,
)


def made(kind):
    torch.manual_seed(0)
    return kind().eval(), (torch.rand(1, 2, 8, 8),)


def boxes_and_scores():
    """One 8-bit range loses the scores."""
    model, example = made(LastDimension)
    with torch.no_grad():
        model.box.weight.mul_(4)
        model.score.weight.mul_(4)
        model.score.bias.fill_(-4)
    return model, example


def with_metric():
    return made(Plain)


def samples():
    generator = torch.Generator().manual_seed(1)
    for _ in range(40):
        yield torch.rand(1, 2, 8, 8, generator=generator)


def labelled():
    """Samples with the mean class of the second output, as a value of the user's own."""
    model, _ = with_metric()
    for x in samples():
        with torch.no_grad():
            yield x, {"class": int(model(x)[1].mean((2, 3)).argmax()), "name": "a"}


def behind():
    return made(Behind)


def factors():
    return made(Factors)


def in_dictionary():
    return made(InDictionary)


def unlabelled_dictionary(outputs, labels):
    """The number of samples whose output is what the model returns."""
    assert labels == [None] * len(outputs)
    shapes = {"rows": (1, 7, 4, 4), "class": (1, 3)}
    return sum({k: tuple(v.shape) for k, v in o.items()} == shapes for o in outputs)


def two_heads():
    """Each class is given by some samples: the logits of the classes have the same mean."""
    model, example = made(Heads)
    with torch.no_grad():
        model.score.weight.mul_(8)
        logits = torch.cat([model.score(model.body(x)) for x in samples()])
        model.score.bias.sub_(logits.mean((0, 2, 3)))
    return model, example


def faces():
    model, _ = two_heads()
    for x in samples():
        with torch.no_grad():
            yield x, int(model(x)[1].argmax())


def faces_of_nine():
    for number, (x, label) in enumerate(faces()):
        yield x, 9 if number == 4 else label


def second_output(outputs, labels):
    """The share of samples whose second output gives the class."""
    assert all(isinstance(pair, tuple) and len(pair) == 2 for pair in outputs)
    assert {label["name"] for label in labels} == {"a"}
    hits = [
        int(o[1].mean((2, 3)).argmax()) == label["class"] for o, label in zip(outputs, labels, strict=True)
    ]
    return sum(hits) / len(hits)


class UnlikeBranches(nn.Module):
    """A cat of two branches, one 200 times the other, which later weights need alike."""

    def __init__(self):
        super().__init__()
        self.large, self.small = nn.Conv2d(2, 8, 3, 1, 1), nn.Conv2d(2, 8, 3, 1, 1)
        self.last = nn.Conv2d(16, 4, 1)
        with torch.no_grad():
            self.large.weight.mul_(200)
            self.large.bias.mul_(200)
            self.last.weight[:, :8].div_(200)

    def forward(self, x):
        joined = torch.cat([self.large(x).relu(), self.small(x).relu()], 1)
        return self.last(joined)


class UnlikeChannels(nn.Module):
    """The same cat, read by a convolution of single channels, which later ones need alike."""

    def __init__(self):
        super().__init__()
        self.large, self.small = nn.Conv2d(2, 8, 3, 1, 1), nn.Conv2d(2, 8, 3, 1, 1)
        self.each, self.last = nn.Conv2d(16, 16, 1, groups=16), nn.Conv2d(16, 4, 1)
        with torch.no_grad():
            self.large.weight.mul_(200)
            self.large.bias.mul_(200)
            self.each.weight[:8].div_(200)

    def forward(self, x):
        joined = torch.cat([self.large(x).relu(), self.small(x).relu()], 1)
        return self.last(self.each(joined).tanh())


class UnlikeSum(nn.Module):
    """A sum of a large and a small value, from which the large one is taken away again."""

    def __init__(self):
        super().__init__()
        self.large, self.small = nn.Conv2d(2, 8, 3, 1, 1), nn.Conv2d(2, 8, 3, 1, 1)
        self.last = nn.Conv2d(8, 4, 1)
        with torch.no_grad():
            self.large.weight.mul_(200)

    def forward(self, x):
        large = self.large(x)
        return self.last((large + self.small(x)) - large)


class ReadTwice(UnlikeBranches):
    """The cat is also an output, so that its values must stay."""

    def forward(self, x):
        joined = torch.cat([self.large(x).relu(), self.small(x).relu()], 1)
        return self.last(joined), joined


def read_twice():
    return made(ReadTwice)


def like_branches():
    model, example = made(UnlikeBranches)
    with torch.no_grad():
        model.large.weight.div_(200)
        model.large.bias.div_(200)
    return model, example


def unlike_branches():
    return made(UnlikeBranches)


def unlike_channels():
    return made(UnlikeChannels)


def unlike_sum():
    return made(UnlikeSum)
