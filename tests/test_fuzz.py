"""A few mutated inputs of every kind; ``python -m tests.fuzz`` runs as many as one likes."""

import json
import random

import pytest

from tests import fuzz
from workbench.errors import WorkbenchError

LIGHT = (
    "pte",
    "traces",
    "runners",
    "projects",
    "histories",
    "boards",
    "pass_args",
    "inis",
    "tflites",
    "vela_outputs",
    "trusts",
    "uarts",
    "serials",
    "events",
    "commands",
    "numbers",
    "graphs",
    "machines",
    "outcomes",
    "plugins",
    "digests",
    "patterns",
    "firmwares",
)


@pytest.mark.parametrize("kind", LIGHT)
def test_that_a_mutated_input_is_read_or_refused_in_a_sentence(kind):
    report = fuzz.run(kind, 60, seed=5)
    assert report.faults == [], report


def test_that_a_run_of_inputs_ends_with_its_time():
    report = fuzz.run("digests", 1 << 40, seed=7, seconds=0.2)
    assert report.accepted + report.refused > 0


def test_that_an_input_does_not_depend_on_the_inputs_before_it():
    """Odd values that were put into one input and changed there once came back in all later ones."""
    text = json.dumps({"a": [{"b": [1, 2]}, {"c": {}}], "d": {"e": [3]}}).encode()
    first = [repr(fuzz.mutated_json(random.Random(seed), text, 0.9)) for seed in range(200)]
    again = [repr(fuzz.mutated_json(random.Random(seed), text, 0.9)) for seed in range(200)]
    assert first == again
    assert max(map(len, first)) < 1 << 20


@pytest.mark.parametrize("kind", sorted(fuzz.FURTHER_KINDS.keys() - {"windows", "jobs"}))
def test_that_the_seeds_of_a_kind_are_inputs_that_the_program_takes(kind, tmp_path):
    bases, read = fuzz.KINDS[kind]()
    taken = 0
    for number, base in enumerate(bases):
        (tmp_path / str(number)).mkdir()
        try:
            read(base, tmp_path / str(number))
        except WorkbenchError:
            continue
        taken += 1
    assert taken


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_that_thousands_of_mutated_inputs_are_read_or_refused_in_a_sentence(kind):
    report = fuzz.run(kind, 3000, seed=6)
    assert report.faults == [], report
