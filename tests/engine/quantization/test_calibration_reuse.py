"""Calibration through the stages: what is reused, and that nothing of other data leaks in."""

import numpy as np
import pytest

from tests.engine.in_process import ALL_SAMPLES, Engine, project
from workbench.project import edits
from workbench.project.model import DataSource
from workbench.protocol import LogLine
from workbench.results import load_arrays

pytestmark = pytest.mark.engine
NO_DATA = "No samples needed"


def said(engine):
    return any(isinstance(e, LogLine) and NO_DATA in e.text for e in engine.events)


def arrays(engine, made):
    return load_arrays(engine.path(made, "calibrate"))


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


@pytest.fixture
def fresh(tmp_path):
    (tmp_path / "fresh").mkdir()
    made = Engine(tmp_path / "fresh")
    yield made
    made.close()


def per_tensor(made, module):
    """Return the project with one module's weights changed only."""
    return edits.assign(made, "module_name", module, "a8w8-per-tensor")


@pytest.mark.slow
def test_that_a_change_of_weights_only_reads_no_sample_and_equals_a_fresh_run(engine, fresh):
    base = project("small", **ALL_SAMPLES)
    edited = edits.assign(base, "global", "", "a8w8-per-tensor")
    assert engine.run(base, "calibrate") == "done"
    assert not said(engine)
    assert engine.run(edited, "calibrate") == "done"
    assert said(engine)
    assert fresh.run(edited, "calibrate", accelerate=False) == "done"
    assert_same(arrays(engine, edited), arrays(fresh, edited))
    assert engine.result(edited, "calibrate").samples == 8
    # The statistics outlive the engine, and without acceleration every sample is read again.
    other = Engine(engine.folder)
    assert other.run(edits.assign(base, "global", "", "a8w4"), "calibrate") == "done"
    assert said(other)
    assert other.run(per_tensor(base, "fc"), "calibrate", accelerate=False) == "done"
    assert not said(other)
    other.close()


@pytest.mark.slow
@pytest.mark.parametrize("accelerate", [True, False])
def test_that_other_samples_leave_nothing_of_the_former_ones(engine, fresh, accelerate):
    base = project("small", **ALL_SAMPLES)
    fewer = edits.set_calibration(base, DataSource(spec="networks.py:samples", limit=2))
    assert engine.run(base, "calibrate", accelerate=accelerate) == "done"
    assert engine.run(fewer, "calibrate", accelerate=accelerate) == "done"
    assert fresh.run(fewer, "calibrate", accelerate=False) == "done"
    assert_same(arrays(engine, fewer), arrays(fresh, fewer))


@pytest.mark.slow
def test_that_another_engine_compiles_what_this_one_converted_to_the_same_bytes(engine, fresh):
    made = project("small", **ALL_SAMPLES)
    assert engine.run(made, "evaluate") == "done"
    other = Engine(engine.folder)
    assert other.run(made, "lower", "evaluate") == "done"
    assert "convert" not in other.computed
    assert fresh.run(made, "lower", "evaluate", accelerate=False) == "done"
    one = (other.path(made, "lower") / "program.pte").read_bytes()
    assert one == (fresh.path(made, "lower") / "program.pte").read_bytes()
    other.close()


def assert_same_numbers(made, engine, fresh):
    assert engine.run(made, "evaluate") == "done"
    assert fresh.run(made, "evaluate", accelerate=False) == "done"
    assert engine.result(made, "evaluate") == fresh.result(made, "evaluate")


@pytest.mark.slow
def test_that_numbers_of_edits_and_other_samples_equal_those_of_a_fresh_run_without_acceleration(
    engine, fresh
):
    base = project("small", **ALL_SAMPLES)
    assert engine.run(base, "evaluate") == "done"
    edited = edits.assign(base, "module_name", "conv", "float")
    assert engine.run(edited, "evaluate") == "done"
    fewer = edits.set_calibration(edited, DataSource(spec="networks.py:samples", limit=3))
    assert_same_numbers(fewer, engine, fresh)
    assert engine.result(fewer, "evaluate").samples == 3


@pytest.mark.slow
def test_that_the_numbers_of_other_edits_equal_those_of_a_fresh_run_too(engine, fresh):
    base = project("small", **ALL_SAMPLES)
    assert engine.run(base, "evaluate") == "done"
    assert_same_numbers(per_tensor(base, "conv"), engine, fresh)
    assert_same_numbers(edits.assign(base, "module_name", "fc", "a16w8"), engine, fresh)
    assert_same_numbers(edits.assign(base, "module_name", "conv", "float"), engine, fresh)
    fewer = edits.set_calibration(base, DataSource(spec="networks.py:samples", limit=3))
    assert_same_numbers(fewer, engine, fresh)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "config"), [("conv", "a8w8-per-tensor"), ("fc", "a16w8"), ("conv", "float")]
)
def test_that_the_program_of_an_edit_has_the_bytes_of_a_fresh_run_without_acceleration(
    engine, fresh, module, config
):
    base = project("small", **ALL_SAMPLES)
    assert engine.run(base, "evaluate") == "done"
    edited = edits.assign(base, "module_name", module, config)
    assert engine.run(edited, "lower") == "done"
    assert fresh.run(edited, "lower", accelerate=False) == "done"
    one = (engine.path(edited, "lower") / "program.pte").read_bytes()
    assert one == (fresh.path(edited, "lower") / "program.pte").read_bytes()
