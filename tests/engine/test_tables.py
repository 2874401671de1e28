"""What 16 bits lose on the lines of a table: told before compiling, computed by the reference."""

import re

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.project import edits
from workbench.project.model import DataSource, TargetChoice

pytestmark = pytest.mark.engine
# These corrections refine such tables and small ranges.
UNCORRECTED = {"fine_tables": False, "fine_steps": False}

CURVES = """
import torch


class Exponential(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x)


def wide():
    return Exponential().eval(), (torch.zeros(1, 32768),)


class Dividing(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x) / 3.0


def divided():
    return Dividing().eval(), (torch.zeros(1, 8, 16),)


def every_step():
    yield torch.linspace(-150.0, 0.0, 32768).reshape(1, 32768)


def rows():
    torch.manual_seed(0)
    for _ in range(8):
        yield torch.randn(1, 8, 16)
"""


@pytest.fixture
def curves(engine):
    (engine.folder / "curves.py").write_text(CURVES)

    def made(model, data, config="a16w8"):
        calibration = DataSource(spec=f"curves.py:{data}")
        made = project(model, config, "ethos-u85-256", calibration=calibration)
        return edits.set_target(made, TargetChoice(id=made.target.id, options=UNCORRECTED))

    return made


def warnings(engine, made):
    assert engine.run(made, "convert") == "done", engine.events
    return engine.result(made, "convert").warnings


def test_that_the_foreseen_departure_is_what_the_reference_model_computes(engine, curves):
    made = curves("curves.py:wide", "every_step")
    (said,) = warnings(engine, made)
    told = re.search(r"exp: .* one per (\S+) of x; it will differ by up to (\d+) steps", said)
    assert float(told[1]) == pytest.approx(150 / 32767 * 128, rel=0.01)
    assert said.endswith("Narrow the range of x in Ranges, or leave the module in float.")
    assert engine.run(made, "verify", "evaluate") == "done", engine.events
    assert engine.result(made, "verify").max_lsb == pytest.approx(int(told[2]), abs=1)


@pytest.mark.slow
def test_that_a_mask_is_named_that_makes_a_softmax_of_16_bits_coarse(engine, curves):
    made = curves("masked", "rows")
    (said,) = warnings(engine, made)
    assert said.startswith("exp: ")
    assert "“Replacement for minus infinity” nearer to zero than -256, e.g. -32" in said
    nearer = TargetChoice(
        id=made.target.id, options={**UNCORRECTED, "negative_infinity": -32.0}
    )  # fmt: skip
    better = edits.set_target(made, nearer)
    assert warnings(engine, better) == ()
    off = []
    for each in (made, better):
        assert engine.run(each, "verify", "evaluate") == "done", engine.events
        off.append(engine.result(each, "verify").max_lsb)
    assert off[1] < off[0] / 4


def test_that_tables_of_8_bits_and_curves_that_are_fine_are_passed_over(engine, curves):
    assert warnings(engine, curves("masked", "rows", "a8w8")) == ()
    assert warnings(engine, project("softmax", "a16w8", "ethos-u85-256", **CALIBRATED)) == ()


def test_that_a_function_of_a_number_written_in_the_model_is_no_table(curves, engine):
    assert warnings(engine, curves("curves.py:divided", "rows")) == ()
