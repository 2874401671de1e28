"""What 16 bits lose on the lines of a table: told before compiling, computed by the reference."""

import re

import pytest
import torch
from executorch.backends.arm._passes.insert_table_ops import InsertTableOpsPass
from executorch.backends.arm._passes.quant_args import QuantArgs

from tests.engine.in_process import CALIBRATED, project
from tests.for_each import for_each
from workbench.engine.ethos_u.corrections import int16_tables
from workbench.engine.ethos_u.corrections.int16_tables import NOISE_OF_VALUES, first_table, windows_of
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
    nearer = TargetChoice(id=made.target.id, options={**UNCORRECTED, "negative_infinity": -32.0})
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


def grid(scale):
    return QuantArgs(scale=scale, zp=0, qmin=-32767, qmax=32767, dtype=torch.int16)


STEP = 2.0**-12
# A function with the steps of its input and output.
STEEP = [
    ("exp behind a mask", torch.exp, 256 / 32767, STEP),
    ("rsqrt of a norm", lambda x: torch.rsqrt(x + 1e-5), STEP, STEP),
]
SMOOTH = [
    ("exp of a softmax without a mask", torch.exp, 10 / 32767, STEP),
    ("sigmoid", torch.sigmoid, STEP, STEP),
    # Its values reach a fourth of such grids: there, one table is near enough.
    ("rsqrt with head-room", lambda x: torch.rsqrt(x + 1e-5), 0.3 / 32767, 13.3 / 32767),
]


@for_each("name, function, into, out", STEEP)
def test_that_a_function_gets_further_tables_where_they_gain(name, function, into, out):
    windows, given = windows_of(function, grid(into), grid(out))
    assert len(windows) == 1, name
    assert noise(function, into, out, given) < noise(function, into, out) / 100


@for_each("name, function, into, out", SMOOTH)
def test_that_a_function_gets_no_table_that_gains_nothing(name, function, into, out):
    assert windows_of(function, grid(into), grid(out))[0] == [], name


def test_that_less_noise_of_the_program_asks_for_more_tables():
    exponential = torch.exp, grid(30 / 32767), grid(STEP)
    assert windows_of(*exponential)[0] == []
    assert windows_of(*exponential, NOISE_OF_VALUES)[0]


# Functions whose values do not end where the grid of the output does.
ENDING = [
    ("reciprocal of a sum", lambda x: 1 / x, 10 / 32767, 2.0**-15),
    ("exp of a softmax", lambda x: torch.exp(x - 8), 8 / 32767, 1 / 32767),
]


def stock_of_1_4(function, into, out):
    """Return the table as ExecuTorch 1.4.1 makes it: its last two values are the same."""

    def flat(values):
        values[-1] = values[-2]
        return function(values)

    return InsertTableOpsPass.generate_16_bit_table_values(flat, into, out)


@for_each("name, function, into, out", ENDING)
def test_that_the_last_value_of_a_table_is_beyond_the_grid(monkeypatch, name, function, into, out):
    full = [QuantArgs(scale=step, zp=0, qmin=-32768, qmax=32767, dtype=torch.int16) for step in (into, out)]
    stock = InsertTableOpsPass.generate_16_bit_table_values(function, *full)[0]
    assert torch.equal(first_table(function, *full)[0], stock), name
    monkeypatch.setattr(int16_tables, "_STOCK", stock_of_1_4)
    table, shift = first_table(function, *full)
    beyond = float(function(torch.tensor(32768 * into, dtype=torch.float64))) / out
    assert shift == -7, name
    assert abs(int(table[-1]) - min(beyond, 32767)) <= 0.5, name
    assert torch.equal(table[:-1], stock[:-1]), name


def noise(function, into, out, given=None):
    """Return the energy of errors over that of the values that the output's grid holds."""
    values = function(torch.arange(-32768, 32768).clamp(min=-32767) * into).double() / out
    held = values.abs() < 32767
    if given is None:
        table, shift = InsertTableOpsPass.generate_16_bit_table_values(function, grid(into), grid(out))
        codes = torch.arange(-32768, 32768)
        index, along = (codes + 32768) >> 7, codes & 127
        wide = table.to(torch.int64)
        lines = (wide[index] << 7) + (wide[index + 1] - wide[index]) * along
        given = (lines.double() * 2.0**shift).round()
    errors = (values - given)[held]
    return float(errors.square().sum() / values[held].square().sum())
