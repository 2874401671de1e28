"""Parts of channels that are taken before the layout is changed."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.engine.ethos_u.rewrites.test_rewrites_are_exact import operators, rewritten
from workbench.engine.ethos_u.rewrites.parts import take_parts_first

pytestmark = pytest.mark.engine
ATEN = torch.ops.aten


class Projected(nn.Module):
    """What is computed from a product, and from further layers."""

    def __init__(self, compute, outputs=96):
        super().__init__()
        self.layer, self.compute = nn.Linear(32, outputs), compute

    def forward(self, x):
        return self.compute(self.layer(x))


def attention(q, k, v):
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


def windows(y):
    n, length, _ = y.shape
    moved = y.view(n, length // 4, 4, 3, 2, 16).permute(3, 0, 1, 4, 2, 5)
    return attention(*(moved[i] for i in range(3)))


def heads_first(y):
    n, length, _ = y.shape
    return attention(*y.view(n, length, 2, 48).transpose(1, 2).split([16, 16, 16], -1))


def also_whole(y):
    moved = y.reshape(1, 12, 3, 4, 8).permute(2, 0, 3, 1, 4)
    return moved[0] + moved[1] + moved.mean(0)


TAKEN = {
    "unbound": lambda y: attention(*y.reshape(1, 12, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)),
    "batch": lambda y: attention(*y.reshape(2, 6, 3, 4, 8).permute(2, 0, 3, 1, 4)),
    "chunks": lambda y: attention(*(part.squeeze(2) for part in y.unflatten(-1, (3, 1, 32)).chunk(3, 2))),
    "sequence first": lambda y: attention(
        *y.unflatten(-1, (3, 32)).unsqueeze(0).transpose(0, -2).squeeze(-2)
    ),
    "windows": windows,
    "keys and values": lambda y: torch.mul(*y.view(1, 12, 2, 6, 8).permute(2, 0, 3, 1, 4)),
    "two of three": lambda y: torch.mul(*y.view(1, 12, 3, 4, 8).permute(2, 0, 3, 4, 1).unbind()[::2]),
}
LEFT = {
    "channels of every head": heads_first,
    "channels in turns": lambda y: attention(*y.reshape(1, 12, 4, 8, 3).permute(4, 0, 2, 1, 3)),
    "also read whole": also_whole,
    "rows": lambda y: torch.mul(*y.transpose(1, 2).chunk(2, 2)),
    "halves": functional.glu,
}
SHAPES = {"batch": (2, 6, 32), "keys and values": (1, 12, 32)}


def rewritten_projection(name, compute):
    torch.manual_seed(0)
    module = Projected(compute)
    return rewritten(module, torch.randn(SHAPES.get(name, (1, 12, 32))), (take_parts_first,))


@pytest.mark.parametrize("name", TAKEN)
def test_that_parts_of_channels_are_taken_first(name):
    module, (count,) = rewritten_projection(name, TAKEN[name])
    assert count in {2, 3}
    slices = [n for n in module.graph.nodes if n.target is ATEN.slice.Tensor]
    assert {n.args[0].target for n in slices} == {ATEN.linear.default}
    assert not {*operators(module)} & {ATEN.unbind.int, ATEN.select.int, ATEN.chunk.default}


@pytest.mark.parametrize("name", LEFT)
def test_that_other_parts_stay_behind_the_layout(name):
    assert rewritten_projection(name, LEFT[name])[1] == [0]


def test_that_the_attention_of_torch_takes_its_parts_first():
    net = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    module, (count,) = rewritten(net, torch.randn(1, 12, 32), (take_parts_first,))
    assert count == 3
    assert ATEN.select.int not in operators(module)
