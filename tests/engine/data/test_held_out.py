"""A part of the calibration data is kept for evaluation, where there is enough of it."""

import numpy as np
import pytest
import torch

from tests.engine.in_process import CALIBRATED, project
from workbench.project.model import DataSource, Evaluation

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def saved(engine, count):
    values = torch.randn((count, 3, 8, 8), generator=torch.Generator().manual_seed(5)).numpy()
    np.save(engine.folder / "data.npy", values)
    return {"calibration": DataSource(spec="data.npy")}


def split(engine, made):
    """Return the samples of calibration and evaluation, and whether they are held out."""
    assert engine.run(made, "evaluate") == "done"
    found = engine.result(made, "evaluate")
    return engine.result(made, "calibrate").samples, found.samples, found.held_out


def test_that_every_fourth_sample_of_32_is_held_out(engine):
    made = project("small", **saved(engine, 32))
    assert split(engine, made) == (24, 8, True)
    indices = {s.sample for s in engine.result(made, "evaluate").worst}
    assert indices <= set(range(3, 32, 4))


def test_that_fewer_than_32_are_all_used_for_both(engine):
    assert split(engine, project("small", **saved(engine, 31))) == (31, 31, False)


def test_that_a_field_of_the_project_switches_it_off(engine):
    off = project("small", evaluation=Evaluation(hold_out=False), **saved(engine, 32))
    assert split(engine, off) == (32, 32, False)


def test_that_own_evaluation_data_leaves_all_samples_to_the_calibration(engine):
    given = saved(engine, 9)
    own = Evaluation(data=DataSource(spec="networks.py:samples"))
    assert split(engine, project("small", evaluation=own, **given)) == (9, 8, True)


def test_that_evaluation_data_that_is_the_calibration_data_is_not_held_out(engine):
    own = Evaluation(data=DataSource(spec="networks.py:samples"))
    assert split(engine, project("small", evaluation=own, **CALIBRATED)) == (8, 8, False)
