"""Inputs that want much memory or time are read or refused within 500 MB and 20 s."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import bombs

ROOT = Path(__file__).parents[1]
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


def read(*options):
    """Read inputs in a process without threads; return how each ended, by kind and name."""
    command = [sys.executable, "-m", "tests.bombs", "--json", *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    return {kind: {n: bombs.Outcome(**o) for n, o in by.items()} for kind, by in found.items()}


@pytest.fixture(scope="module")
def quick():
    return read("--cases", json.dumps(QUICK))


@pytest.mark.parametrize("kind", QUICK)
def test_that_a_small_or_endless_input_stays_within_the_bounds(quick, kind):
    assert quick[kind].keys() == set(QUICK[kind])
    assert not {name: each for name, each in quick[kind].items() if not each.is_within}


@pytest.mark.slow
@pytest.mark.parametrize("kind", bombs.ALL)
def test_that_every_input_stays_within_the_bounds(kind):
    found = read("--kind", kind)[kind]
    assert not {name: each for name, each in found.items() if not each.is_within}
