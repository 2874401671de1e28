"""Inputs that want much memory or time are read or refused within 500 MB and 20 s."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.for_each import for_each

ROOT = Path(__file__).parents[1]
# One of each kind that needs no toolchain; the slow test reads all.
QUICK = {
    "project": "endless",
    "history": "pipe",
    "outcome": "deep",
    "trust": "endless",
    "machine settings": "sparse",
    "jobs": "endless",
    "program": "bundle",
    "viewer": "tflite",
    "weights beside": "data",
    "inputs of a simulation": "claims",
    "inputs of an FVP": "long header",
    "etdump": "sparse",
    "trace": "zeros",
    "log": "one line",
    "board": "dots",
    "ini": "interpolates",
    "pass_args": "deep",
    "plug-in": "list",
    "source": "list",
    "new project": "list",
    "numbers": "sparse",
    "numbers csv": "zeros",
    "runner": "sparse",
}


def read(*options):
    """Read inputs in a process without threads; return how each ended, by kind and name."""
    command = [sys.executable, "-m", "tests.bombs", "--json", *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def outside(outcomes):
    return {name: outcome for name, outcome in outcomes.items() if not outcome["is_within"]}


@pytest.fixture(scope="module")
def quick():
    return read("--cases", json.dumps({kind: [name] for kind, name in QUICK.items()}))


@for_each("kind", QUICK)
def test_that_a_small_or_endless_input_stays_within_the_bounds(quick, kind):
    assert quick[kind].keys() == {QUICK[kind]}
    assert not outside(quick[kind])


@pytest.mark.slow
def test_that_every_input_stays_within_the_bounds():
    found = {kind: outside(outcomes) for kind, outcomes in read().items()}
    assert len(found) > len(QUICK)
    assert not {kind: outcomes for kind, outcomes in found.items() if outcomes}
