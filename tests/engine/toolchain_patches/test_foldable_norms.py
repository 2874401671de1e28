"""What convolutions before batch norms need is found without following every path of a program."""

import torch
from torch import nn

from workbench.engine.toolchain_patches.foldable_norms import fit_norms


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
    assert fit_norms(module) == []
    assert next(n.args for n in module.graph.nodes if n.name == "conv2d") == before
