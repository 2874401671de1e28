"""Pictures of more than 65,536 pixels, whose layout ExecuTorch tries with Vela for U55 and U65."""

import pytest

from tests.engine.in_process import project

pytestmark = pytest.mark.engine

SOURCE = """
import torch
from torch import nn


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU()).eval(), (torch.randn(1, 3, 264, 264),)
"""


@pytest.mark.parametrize("target", ["ethos-u55-128", pytest.param("ethos-u65-256", marks=pytest.mark.slow)])
def test_that_a_network_for_large_pictures_is_compiled(engine, target):
    (engine.folder / "large.py").write_text(SOURCE)
    made = project("large.py:net", target=target)
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    lowered = engine.result(made, "lower")
    assert len(lowered.vela) == lowered.delegates == 1
    assert lowered.vela[0].macs > 0
