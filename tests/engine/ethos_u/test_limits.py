"""Limits of inputs and of SRAM, and what their remedies give."""

import pytest

from tests.engine.in_process import Engine, project
from tests.engine.remedies import follow
from workbench.project import edits

pytestmark = [pytest.mark.engine, pytest.mark.slow]

NETWORKS = """
import torch
from torch import nn
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(50000, 4), nn.Linear(15537, 4)
    def forward(self, x):
        return self.a(x[..., :50000]) + self.b(x[..., 50000:])
def most():
    return nn.Sequential(nn.Linear(65536, 4)), (torch.randn(1, 65536),)
def more():
    return nn.Sequential(nn.Linear(65537, 4)), (torch.randn(1, 65537),)
def parts():
    return Parts(), (torch.randn(1, 65537),)
"""


MAP = """
import torch
from torch import nn
def net():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.ReLU()), (torch.randn(1, 3, SIDE, SIDE),)
"""


def limited(engine, side, limit=60_000):
    """Return the warnings and the SRAM of a map of so many rows with a limit [bytes]."""
    (engine.folder / f"map{side}.py").write_text(MAP.replace("SIDE", str(side)))
    made = project(f"map{side}.py:net")
    options = {**made.target.options, "arena_cache_bytes": limit}
    made = edits.set_target(made, made.target.model_copy(update={"options": options}))
    assert engine.run(made, "lower") == "done", engine.failure
    lowered = engine.result(made, "lower")
    return lowered.warnings, max(report.sram_bytes for report in lowered.vela)


def test_that_more_sram_than_the_limit_is_told_and_its_remedies_keep_it(engine):
    (warning,), needed = limited(engine, 128)
    assert needed > 60_000
    assert f"{needed / 1024:,.1f} KiB" in warning
    warnings, raised = limited(engine, 128, needed)
    assert (warnings, raised <= needed) == ((), True)
    warnings, needed = limited(engine, 32)
    assert needed <= 60_000
    assert warnings == ()


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    started = Engine(tmp_path_factory.mktemp("wide"))
    (started.folder / "wide.py").write_text(NETWORKS)
    yield started
    started.close()


@pytest.mark.parametrize("device", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_that_a_layer_with_too_many_inputs_is_named_and_its_remedies_lead_to_a_program(device, engine):
    wide = project("wide.py:more", target=device)
    off = edits.assign(wide, "module_name", "0", "cpu")
    parts = project("wide.py:parts", target=device)
    failure = follow(engine, "too-many-inputs", wide, off, parts, skip=("evaluate",))
    assert "65,537" in failure.message
    assert engine.run(project("wide.py:most", target=device), "verify", "evaluate") == "done"
