"""Programs whose tensors need more memory than there is are refused before it is taken."""

import re

import pytest

from tests.engine.in_process import project
from tests.engine.remedies import follow
from workbench.engine.runtime import memory_check

pytestmark = pytest.mark.engine

NETWORK = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, padding=1)
        self.head = nn.Conv2d(64, 4, 1)
    def forward(self, x):
        return self.head(self.stem(x).relu())
def net():
    return Net(), (torch.randn(1, 3, {side}, {side}),)
"""


@pytest.fixture
def room(monkeypatch):
    """Return a function that sets the free memory of the machine [bytes]."""
    return lambda free: monkeypatch.setattr(memory_check, "free_memory", lambda: free)


def of_side(engine, side):
    (engine.folder / f"side{side}.py").write_text(NETWORK.format(side=side))
    return project(f"side{side}.py:net")


@pytest.mark.slow
def test_that_tensors_beyond_the_memory_are_refused_with_the_largest_and_a_way_out(engine, room):
    room(2_000_000)

    def smaller(failure):
        share = int(re.search(r"at most (\d+)% of the elements", failure.hint)[1])
        return of_side(engine, int(64 * (share / 100) ** 0.5))

    failure = follow(engine, "memory-too-small", of_side(engine, 64), smaller)
    assert "1x64x64x64 of" in failure.message


@pytest.mark.slow
def test_that_a_stage_that_is_too_large_can_be_left_out(engine, room):
    made = of_side(engine, 64)
    assert engine.run(made, "convert") == "done"
    room(13_000_000)
    assert engine.run(made, "package") == "failed"
    assert (engine.failure.code, engine.failure.where.id) == ("memory-too-small", "evaluate")
    assert engine.run(made, "package", "evaluate", "verify") == "done", engine.failure


def test_that_later_stages_are_refused_too_where_memory_is_gone_by_then(engine, room):
    made = of_side(engine, 64)
    assert engine.run(made, "export") == "done"
    room(2_000_000)
    assert engine.run(made, "prepare") == "failed"
    assert engine.failure.code == "memory-too-small", engine.failure
    assert engine.failure.where.id == "prepare"
    room(None)
    assert engine.run(made, "prepare") == "done", engine.failure
