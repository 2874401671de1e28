"""Programs that compute nothing twice and copy nothing for zeros: right, and with fewer cycles."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import project, without

pytestmark = pytest.mark.engine
FILE = Path(__file__).with_name("repeated_networks.py")
U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"
PADS, SUMS = "zeros_into_convolutions", "sums_of_single_elements"
TWICE, SQUARES = "equal_operations_joined", "squares_of_two_conversions"
# What the cycles are, at most, as a part of those without the correction.
CASES = [
    ("normed_sequence", "a8w8", U55, SUMS, 0.8),
    ("squared", "a8w8", U55, SQUARES, 0.8),
    ("padded_as_tensorflow", "a8w8", U55, PADS, 0.9),
]
SLOW = [
    ("normed_sequence", "a8w8", U85, SUMS, 0.8),
    ("normed_sequence", "a16w8", U65, SUMS, 1.0),
    ("normed_sequence", "a8w8", U55, TWICE, 0.9),
    ("normed_rows", "a8w8", U55, TWICE, 0.9),
    ("normed_rows", "a8w8", U55, SQUARES, 0.9),
    ("squared", "a16w8", U55, SQUARES, 1.0),
    ("squared", "a8w8", U85, SQUARES, 1.0),
    ("causal", "a8w8", U55, PADS, 0.95),
    ("causal", "a16w8", U85, PADS, 1.0),
    ("padded_as_tensorflow", "a8w8", U85, PADS, 0.9),
    ("padded_depthwise", "a8w8", U65, PADS, 0.95),
    ("padded_depthwise", "a16w8", U85, PADS, 0.95),
    ("padded_picture", "a8w8", U55, PADS, 0.9),
    ("padded_picture", "a8w8", U85, PADS, 0.9),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "config", "device", "correction", "part"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_that_a_program_is_right_with_fewer_cycles(engine, name, config, device, correction, part):
    shutil.copy(FILE, engine.folder)
    made = project(f"{FILE.name}:{name}", config, device)
    verified = engine.verified(made)
    assert verified.compiled.equal == verified.compiled.elements > 0
    lowered = engine.result(made, "lower")
    (row,) = [row for row in lowered.corrections if row.id == correction]
    assert row.places
    assert lowered.cycles <= part * engine.lowered(without(made, correction)).cycles
