"""Inputs that want much memory or time are read or refused within 500 MB and 20 s."""

import pytest

from tests import bombs

pytestmark = pytest.mark.filterwarnings("ignore")
# One or two of each kind that needs no toolchain; the slow test reads all.
QUICK = {
    "project": ["endless", "long text"],
    "history": ["pipe", "sparse"],
    "outcome": ["endless", "deep"],
    "trust": ["endless", "maps"],
    "machine settings": ["pipe", "sparse"],
    "jobs": ["endless", "deep"],
    "program": ["sparse", "bundle"],
    "viewer": ["tflite", "pipe"],
    "weights beside": ["data"],
    "inputs of a simulation": ["sparse", "claims"],
    "inputs of an FVP": ["sparse", "long header"],
    "etdump": ["sparse"],
    "trace": ["zeros"],
    "log": ["one line"],
    "board": ["dots", "sparse"],
    "ini": ["inherits", "interpolates"],
    "pass_args": ["dots", "deep"],
    "plug-in": ["list", "parentheses"],
    "source": ["list"],
    "new project": ["list"],
    "numbers": ["sparse"],
    "numbers csv": ["zeros"],
    "runner": ["sparse"],
}


@pytest.mark.parametrize("kind", QUICK)
def test_that_a_small_or_endless_input_stays_within_the_bounds(kind):
    found = bombs.run(kind, QUICK[kind])
    assert found.keys() == set(QUICK[kind])
    assert not {name: each for name, each in found.items() if not each.is_within}


@pytest.mark.slow
@pytest.mark.parametrize("kind", bombs.ALL)
def test_that_every_input_stays_within_the_bounds(kind):
    found = bombs.run(kind)
    assert not {name: each for name, each in found.items() if not each.is_within}
