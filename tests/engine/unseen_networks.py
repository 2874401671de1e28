"""Networks whose grids and tables must leave room for values that calibration did not see."""

import torch
from torch import nn
from torch.nn import functional


class _Net(nn.Module):
    """Parts, and a function of them and the input."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
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


def normed_layers():
    """Linears with a layer norm before the last."""

    def run(self, x):
        x = functional.gelu(self.second(functional.relu(self.first(x))))
        return self.last(self.norm(x))

    def build():
        first, second, last = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 8)
        return _Net(run, first=first, second=second, last=last, norm=nn.LayerNorm(32))

    return _made(build, 1, 16)


def normed_residual():
    """A feed-forward block with its layer norm behind the sum, over few channels."""

    def run(self, x):
        return self.norm(x + self.out(functional.gelu(self.expand(x))))

    def build():
        return _Net(run, expand=nn.Linear(8, 32), out=nn.Linear(32, 8), norm=nn.LayerNorm(8))

    return _made(build, 5, 8)


def rotary_gates():
    """Attention with rotary positions, and a gated feed-forward block."""

    def turned(self, x):
        left, right = x.chunk(2, -1)
        return x * self.cosines + torch.cat([-right, left], -1) * self.sines

    def run(self, x):
        query, key = turned(self, self.query(x)), turned(self, self.key(x))
        x = x + torch.softmax(query @ key.transpose(1, 2) * 0.25, -1) @ self.value(x)
        return x + self.down(functional.silu(self.gate(x)) * self.up(x))

    def build():
        angles = torch.arange(8)[:, None] * 10000 ** (-torch.arange(0, 16, 2) / 16)[None]
        angles = angles.repeat(1, 2)
        linears = {name: nn.Linear(16, 16) for name in ("query", "key", "value")}
        linears |= {"gate": nn.Linear(16, 32), "up": nn.Linear(16, 32), "down": nn.Linear(32, 16)}
        return _Net(run, **linears, cosines=angles.cos(), sines=angles.sin())

    return _made(build, 1, 8, 16)


def soft_argmax():
    """Key points as the mean place of a softmax over an image."""

    def run(self, x):
        heat = self.second(functional.relu(self.first(x)))
        share = torch.softmax(heat.flatten(2) * 4, -1).view(heat.shape)
        rows, columns = share.sum(2) * self.places, share.sum(3) * self.places
        return torch.stack([rows.sum(-1), columns.sum(-1)], -1)

    def build():
        first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        return _Net(run, first=first, second=second, places=torch.linspace(-1, 1, 8))

    return _made(build, 1, 3, 8, 8)


def capsules():
    """Vectors that are squashed to a length below one."""

    def squashed(x):
        length = (x * x).sum(-1, keepdim=True)
        return length / (1 + length) * x * torch.rsqrt(length + 1e-7)

    def run(self, x):
        vectors = self.conv(x).flatten(2).transpose(1, 2).reshape(1, -1, 8)
        return squashed(self.linear(squashed(vectors)).view(1, -1, 4, 8).mean(1))

    def build():
        return _Net(run, conv=nn.Conv2d(3, 16, 5, stride=2), linear=nn.Linear(8, 32))

    return _made(build, 1, 3, 16, 16)


def pairwise_products():
    """A factorization machine: its sums of squares have a range above that of stock's least step."""

    def run(self, x):
        rows = self.rows(x)
        return 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(-1, keepdim=True)

    return _made(lambda: _Net(run, rows=nn.Linear(6, 6)), 2, 5, 6)


def masked_attention():
    """Causal attention, with a mask of minus infinity."""

    def run(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) * 0.25 + self.mask
        return self.out(torch.softmax(scores, -1) @ self.value(x))

    def build():
        linears = {name: nn.Linear(16, 16) for name in ("query", "key", "value", "out")}
        mask = torch.triu(torch.full((8, 8), float("-inf")), 1)
        return _Net(run, **linears, mask=mask)

    return _made(build, 1, 8, 16)


def padded_attention():
    """Attention with the mask that BERT computes from what is padding."""

    def run(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) * 0.25
        scores = scores + (1.0 - self.present) * torch.finfo(torch.float32).min
        return self.out(torch.softmax(scores, -1) @ self.value(x))

    def build():
        linears = {name: nn.Linear(16, 16) for name in ("query", "key", "value", "out")}
        present = torch.ones(1, 1, 8)
        present[..., 6:] = 0
        return _Net(run, **linears, present=present)

    return _made(build, 1, 8, 16)


def padded_keys():
    """The weights of attention to memory, a part of which is masked, and to a key behind it."""

    def run(self, x):
        masked = self.absent > x.abs().amax((1, 2)).unsqueeze(-1)
        return self.attend(x[:, :3] * 3, x, x, key_padding_mask=masked)[1]

    def build():
        attend = nn.MultiheadAttention(16, 2, add_bias_kv=True, batch_first=True)
        return _Net(run, attend=attend, absent=torch.tensor([[0.0] * 5 + [9.0] * 3]))

    return _made(build, 1, 8, 16)


def gated_steps():
    """A GRU over four steps."""

    def run(self, x):
        return self.last(self.cells(x)[0][:, -1])

    def build():
        return _Net(run, cells=nn.GRU(8, 12, batch_first=True), last=nn.Linear(12, 4))

    return _made(build, 1, 4, 8)


def padded_directions():
    """Directions of rows, one of which is padding."""

    def run(self, x):
        return functional.normalize(functional.pad(self.layer(x), (0, 0, 1, 0)), dim=-1)

    return _made(lambda: _Net(run, layer=nn.Linear(8, 4)), 1, 6, 8)


def empty_capsules():
    """Capsules of different lengths, some of which are zero, squashed to at most one."""

    def run(self, x):
        parts = functional.relu(self.layer(x) - self.limits).view(1, 8, 4)
        squares = parts.pow(2).sum(-1, keepdim=True)
        return squares / (1 + squares) * parts / (squares.sqrt() + 1e-8)

    def build():
        return _Net(run, layer=nn.Linear(8, 32), limits=torch.linspace(-1, 1, 8).repeat_interleave(4))

    return _made(build, 1, 8)


def stairs():
    """Values that are rounded down, to the nearest and up, and what is left of them."""

    def run(self, x):
        x = self.layer(x) * 4
        parts = torch.floor(x), torch.round(x), torch.ceil(x), torch.remainder(x, 0.7), x // 0.9
        return torch.cat(parts, -1)

    return _made(lambda: _Net(run, layer=nn.Linear(8, 16)), 4, 8)


def single_values():
    """Figures of all elements, and numbers."""

    def run(self, x):
        y = self.layer(x)
        return y.square().mean() * 0.5, 1 - y.abs().amax() / 8, (y - x).pow(2).sum() + 2, y * (y.mean() - 1)

    return _made(lambda: _Net(run, layer=nn.Linear(8, 8)), 4, 8)


def standardized_weights():
    """A convolution whose weights have the mean 0 and the variance 1, and one with gated ones."""

    def run(self, x):
        var, mean = torch.var_mean(self.first.weight, (1, 2, 3), keepdim=True)
        y = functional.conv2d(x, (self.first.weight - mean) / (var + 1e-6).sqrt(), padding=1)
        weight, gate = self.second.weight.chunk(2)
        return functional.conv2d(functional.relu(y), weight * gate.sigmoid())

    layers = {"first": nn.Conv2d(4, 8, 3), "second": nn.Conv2d(8, 16, 1)}
    return _made(lambda: _Net(run, **layers), 1, 4, 8, 8)


def sequence_both_ways():
    """A sequence, and the same with its steps first."""

    def run(self, x):
        y = self.layer(x)
        return y, y.mT

    return _made(lambda: _Net(run, layer=nn.Conv1d(3, 4, 3)), 1, 3, 9)


def rotations():
    """Rotations by a vector (Rodrigues), whose matrices have zeros and ones beside computed values."""

    def run(self, x):
        a, b, c = self.layer(x).unbind(-1)
        zero, rows = torch.zeros_like(a), torch.ones(4, 1)
        turned = torch.stack([zero, -c, b, c, zero, -a, -b, a, zero], -1).view(-1, 3, 3)
        return torch.eye(3) + turned + turned @ turned, torch.cat([self.layer(x), rows], -1)

    return _made(lambda: _Net(run, layer=nn.Linear(8, 3)), 4, 8)


def single_comparisons():
    """Comparisons of a figure of all elements with numbers."""

    def run(self, x):
        y = self.layer(x)
        most, count = y.amax(), (y > 0).sum()
        both = torch.stack([most > 1, count <= 20])
        return y, most > 1, torch.where(most < 1.5, most, -most), both, torch.where(most > 1, y, -y)

    return _made(lambda: _Net(run, layer=nn.Linear(8, 8)), 4, 8)


def computed_weights():
    """A linear whose weights another one computes."""

    def run(self, x):
        weights = self.layer(x.mean(0)).view(8, 8) * 0.3
        return functional.linear(x, weights, self.layer.bias[:8]), functional.linear(x, weights).relu()

    return _made(lambda: _Net(run, layer=nn.Linear(8, 64)), 4, 8)


def soft_histogram():
    """How many values are near each of five steps."""

    def run(self, x):
        values = torch.sigmoid(self.layer(x)).unsqueeze(-1)
        return torch.exp(-((values - self.steps) ** 2) / 0.02).sum(1)

    return _made(lambda: _Net(run, layer=nn.Linear(8, 8), steps=torch.linspace(0, 1, 5)), 4, 8)


def padded_norm():
    """A layer norm of rows, one of which is padding."""

    def run(self, x):
        return functional.layer_norm(functional.pad(self.layer(x), (0, 0, 1, 0)), (4,))

    return _made(lambda: _Net(run, layer=nn.Linear(8, 4)), 1, 6, 8)


def mean_of_chosen():
    """The mean of the values that are chosen, which may be none."""

    def run(self, x):
        chosen = (x[..., :1] > 0.5).float()
        return (self.layer(x) * chosen).sum(1) / chosen.sum(1).clamp(min=1e-6)

    return _made(lambda: _Net(run, layer=nn.Linear(8, 4)), 1, 3, 8)


def similarities():
    """Logarithms of probabilities over rows and over columns of scaled similarities, as CLIP has them."""

    def run(self, x):
        scores = 14 * functional.normalize(self.first(x), dim=-1) @ functional.normalize(self.others).t()
        return functional.log_softmax(scores, 0), functional.log_softmax(scores, 1)

    return _made(lambda: _Net(run, first=nn.Linear(8, 16), others=torch.randn(4, 16)), 4, 8)


def sure_classes():
    """Logarithms of the probabilities of classes, most of which are small."""
    return _made(
        lambda: _Net(lambda s, x: functional.log_softmax(4 * s.layer(x), -1), layer=nn.Linear(8, 10)), 3, 8
    )


def even_classes():
    """Logarithms of the probabilities of classes that are nearly alike."""
    return _made(
        lambda: _Net(lambda s, x: functional.log_softmax(s.layer(x), -1), layer=nn.Linear(8, 10)), 3, 8
    )


def grown_smoothly():
    """Linear interpolations, whose weights are elevenths, nineteenths and sixths."""

    def run(self, x):
        x = functional.interpolate(self.layer(x), size=(12, 20), mode="bilinear", align_corners=True)
        return functional.interpolate(x, scale_factor=3, mode="bilinear")

    return _made(lambda: _Net(run, layer=nn.Conv2d(3, 4, 3, padding=1)), 1, 3, 7, 9)


def chosen_leaves():
    """Products of shares by codes of zeros and ones, as the leaves of differentiable trees have them."""

    def run(self, x):
        shares = torch.sigmoid(x)
        shares = torch.stack([shares, 1 - shares], -1)
        return torch.einsum("bds,dls->bdl", shares, self.codes).prod(1)

    def build():
        leaves = torch.arange(8)
        bits = torch.stack([leaves // 2**place % 2 for place in range(3)]).float()
        return _Net(run, codes=torch.stack([bits, 1 - bits], -1))

    return _made(build, 2, 3)


def sampled():
    """An image that is sampled at places between its own, with values beyond 1."""

    def run(self, x):
        places = functional.affine_grid(self.turns, [1, 4, 8, 8], align_corners=False)
        return functional.relu(functional.grid_sample(self.layer(2 * x), places, align_corners=False))

    def build():
        turns = torch.tensor([[[0.8, 0.1, 0.05], [-0.1, 0.9, 0.0]]])
        return _Net(run, layer=nn.Conv2d(3, 4, 3, padding=1), turns=turns)

    return _made(build, 1, 3, 8, 8)


def pairs_below():
    """Products of pairs of values, of which a triangle is read."""

    def run(self, x):
        x = functional.relu(self.layer(x))
        return torch.outer(x[0], x[1]).tril(-3)

    return _made(lambda: _Net(run, layer=nn.Linear(6, 6)), 2, 6)


def odds():
    """The logits of parts: numbers whose quotients cover several powers of ten."""
    return _made(
        lambda: _Net(
            lambda s, x: torch.logit(torch.sigmoid(3 * s.layer(x)), eps=1e-3), layer=nn.Linear(8, 8)
        ),
        2,
        8,
    )


def masked_probabilities():
    """Attention whose probabilities are masked and divided by their sums, as in AllenNLP."""

    def run(self, x):
        seen = (x[..., 0] > 0).float()
        mask = seen.unsqueeze(2) * seen.unsqueeze(1)
        p = torch.softmax(self.query(x) @ x.transpose(1, 2) * mask, -1) * mask
        return p / (p.sum(-1, keepdim=True) + 1e-13) @ x

    return _made(lambda: _Net(run, query=nn.Linear(8, 8)), 1, 6, 8)


def signed_roots():
    """A root with the sign of its operand: two roots, of which one is no number."""

    def run(self, x):
        x = self.layer(x)
        return torch.where(x >= 0, torch.sqrt(x), -torch.sqrt(-x))

    return _made(lambda: _Net(run, layer=nn.Linear(8, 8)), 2, 8)


def logarithms_of_masks():
    """Attention whose mask of ones and zeros is added as its logarithm."""

    def run(self, x):
        mask = (x[..., 0] > -0.5).float()
        scores = self.query(x) @ x.transpose(1, 2) + mask.log().unsqueeze(1)
        return torch.softmax(scores, -1) @ x

    return _made(lambda: _Net(run, query=nn.Linear(8, 8)), 1, 6, 8)
