"""What convolutions before batch norms need is found without following every path of a program."""

import torch
from torch import nn

from workbench.engine.ethos_u.corrections.batch_norm_folding import foldable_norms

NORM = torch.ops.aten.batch_norm.default


class WithComputedWeights(nn.Module):
    """A convolution whose weights come from an input, along 2 to the power of 40 paths."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(2)

    def forward(self, image, weights):
        for _ in range(40):
            weights = weights + weights.relu()
        return self.norm(torch.nn.functional.conv2d(image, weights))


def test_that_weights_that_come_from_an_input_are_left_alone_at_once():
    inputs = torch.rand(1, 3, 4, 4), torch.rand(2, 3, 1, 1)
    module = torch.export.export(WithComputedWeights().eval(), inputs).module()
    before = next(n.args for n in module.graph.nodes if n.name == "conv2d")
    assert foldable_norms(module) == []
    assert next(n.args for n in module.graph.nodes if n.name == "conv2d") == before


class Alone(nn.Module):
    """A convolution without a batch: the norm takes its columns for channels."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Conv1d(3, 5, 3, padding=1), nn.BatchNorm1d(8)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.norm(self.layer(x))


def test_that_the_norm_of_a_convolution_without_a_batch_is_written_out():
    x = torch.randn(3, 8)
    model = Alone().eval()
    module = torch.export.export(model, (x,)).module(check_guards=False)
    assert foldable_norms(module) == ["batch_norm"]
    assert not list(module.graph.find_nodes(op="call_function", target=NORM))
    torch.testing.assert_close(module(x), model(x))
