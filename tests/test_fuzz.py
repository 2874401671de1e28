"""A few mutated inputs of every kind; ``python -m tests.fuzz`` runs as many as one likes."""

import pytest

from tests import fuzz

LIGHT = ("pte", "traces", "runners", "projects", "histories", "boards", "pass_args")


@pytest.mark.parametrize("kind", LIGHT)
def test_that_a_mutated_input_is_read_or_refused_in_a_sentence(kind):
    report = fuzz.run(kind, 60, seed=5)
    assert report.faults == [], report


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_that_thousands_of_mutated_inputs_are_read_or_refused_in_a_sentence(kind):
    report = fuzz.run(kind, 3000, seed=6)
    assert report.faults == [], report
