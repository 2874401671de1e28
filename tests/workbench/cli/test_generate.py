"""``workbench generate``: logits of a program of somebody else."""

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.cli.generate import _chooser

ODD = ([np.nan, 1.0], [np.inf, 0.0], [-np.inf, -np.inf])


@for_each(("logits", "temperature"), [(odd, warmth) for odd in ODD for warmth in (0.0, 0.7)])
def test_that_logits_that_are_no_numbers_are_refused(logits, temperature):
    with refused("logits-not-finite"):
        _chooser(temperature, 1)(np.array(logits))


@pytest.mark.filterwarnings("error")
def test_that_the_smallest_temperature_gives_the_likeliest_token():
    assert _chooser(1e-320, 1)(np.array([-1e308, 3.0, 2.0, -np.inf])) == 1
