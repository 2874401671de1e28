"""A program that is saved quickly has the bytes of one that torch saves by itself."""

import pytest
import torch

from workbench.engine.fx import programs
from workbench.engine.runtime.accelerated import acceleration

pytestmark = pytest.mark.engine


class Branch(torch.nn.Module):
    """A convolution, and a branch with graphs of its own."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(2, 2, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (self.layer(x),))


def test_that_a_program_that_is_saved_quickly_has_the_same_bytes(tmp_path):
    program = torch.export.export(Branch(), (torch.randn(1, 2, 8, 8),))
    saved = []
    for name in ("quickly", "by torch"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "quickly":
            with acceleration("plain-saving"):
                programs.save(program, folder)
        else:
            programs.save(program, folder)
        saved.append((folder / programs.PROGRAM_FILE).read_bytes())
    assert saved[0] == saved[1]
