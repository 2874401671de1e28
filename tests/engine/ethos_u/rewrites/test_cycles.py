"""The estimates of rewritten operations, before and after."""

import pytest

from tests.engine.in_process import project
from workbench.engine.ethos_u import rewrite_cycles
from workbench.targets.ethos_u.rewrites import NORMS_FORWARD, STRIDES

pytestmark = pytest.mark.engine


@pytest.mark.slow
def test_that_a_rewrite_states_the_cycles_of_what_it_replaced(engine):
    rows = {row.id: row for row in engine.lowered(project("strided", target="ethos-u85-256")).rewrites}
    assert rows[STRIDES].cycles_before > rows[STRIDES].cycles_after > 0


BLOCKS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.Sequential(*[
            nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16), nn.ReLU())
            for _ in range(count)
        ])
        for norm in (part for part in self.modules() if isinstance(part, nn.LayerNorm)):
            nn.init.uniform_(norm.weight, 0.5, 2)
    def forward(self, x):
        return self.layers(x)
def one():
    torch.manual_seed(0)
    return Net(1).eval(), (torch.randn(1, 8, 16),)
def three():
    torch.manual_seed(0)
    return Net(3).eval(), (torch.randn(1, 8, 16),)
"""


@pytest.mark.slow
def test_that_equal_layers_are_estimated_once_and_counted_each(engine, monkeypatch):
    """A transformer of many layers would be lowered twice to tell what its norms cost."""
    (engine.folder / "blocks.py").write_text(BLOCKS)
    seen = []
    stock = rewrite_cycles._SideBySide
    monkeypatch.setattr(
        rewrite_cycles, "_SideBySide", lambda written: seen.append(len(written)) or stock(written)
    )
    cycles = []
    for name in ("one", "three"):
        lowered = engine.lowered(project(f"blocks.py:{name}", target="ethos-u85-256"))
        (row,) = (row for row in lowered.rewrites if row.id == NORMS_FORWARD)
        cycles.append(row.cycles_before)
    assert seen == [1, 1]
    assert cycles[1] == 3 * cycles[0]
