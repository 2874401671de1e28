"""The rough cycles of operators on the CPU follow from their shapes."""

import pytest
import torch
from torch import nn

from workbench.engine.ethos_u.cpu_fallback import cpu_cycles

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        y = torch.exp(self.conv(x)).flatten(2)
        square = y @ y.transpose(1, 2)
        values, places = square.topk(2)
        return values + 1, places, torch.mm(square[0], square[0])


def test_that_elements_and_products_are_counted():
    program = torch.export.export(Mixed().eval(), (torch.randn(1, 3, 4, 4),))
    program = program.run_decompositions()
    known = {}
    for node in program.graph.nodes:
        if "aten." in str(node.target):
            known.setdefault(str(node.target).split(".")[1], cpu_cycles(node) / 9.1)
    # 128 outputs with 27 products each; as many elements; 8 x 8 sums of 16 products.
    assert known["convolution"] == pytest.approx(128 * 27, rel=0.01)
    assert known["exp"] == pytest.approx(128, rel=0.01)
    assert known["bmm"] == pytest.approx(64 * 16, rel=0.01)
    assert known["topk"] == pytest.approx(64, rel=0.02)
    # Both factors are one tensor.
    assert known["mm"] == pytest.approx(64 * 8, rel=0.01)


def test_that_sizes_that_are_not_known_give_no_figure():
    size = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(
        Mixed().eval(), (torch.randn(2, 3, 4, 4),), dynamic_shapes={"x": {0: size}}
    ).run_decompositions()
    exp = next(n for n in program.graph.nodes if "exp" in str(n.target))
    assert cpu_cycles(exp) == 0
