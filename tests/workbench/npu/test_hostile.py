"""Damaged programs: refused with a clear error, or computed, in bounded time and memory."""

import tracemalloc

import numpy as np
import pytest

from tests.workbench.npu.streams import compiled
from workbench.errors import WorkbenchError
from workbench.npu.program import load
from workbench.npu.state import Limits, Options

LIMITS = Limits(steps=100_000, memory_bytes=64 << 20, work=10**8)
NAMES = [
    "u55_a8_conv_group_0",
    "u55_a16_softmax_0",
    "u55_a8_add_bc_0",
    "u55_a16_tanh_0",
    "u85_a8_conv3_0",
    "u85_a8_bmm_0",
    "u85_a16_bilinear_ac_0",
    "u85_a8_gather_0",
    "net_branching85_0_0",
    "net_masked_1",
    "digits_u55_u65_512",
]


@pytest.fixture(scope="module")
def cases():
    return compiled()


def outcome(blob, case, *, check):
    """Return what became of a program: "refused", "differs" or "same"."""
    try:
        result = load(blob).run(case.inputs, Options(check=check, limits=LIMITS))
    except WorkbenchError:
        return "refused"
    return "differs" if case.differs(result.outputs) else "same"


@pytest.mark.parametrize(
    ("names", "count"), [(NAMES[::2], 4), pytest.param(NAMES, 24, marks=pytest.mark.slow)]
)
def test_that_damaged_programs_are_refused_or_computed(cases, names, count):
    never_refused = []
    for name in names:
        case, generator = cases[name], np.random.default_rng(len(name))
        outcomes = []
        for number in range(count):
            broken = bytearray(case.blob)
            for _ in range((1, 1, 4, 40)[number % 4]):
                broken[generator.integers(len(broken))] = generator.integers(256)
            outcomes.append(outcome(bytes(broken), case, check=bool(number % 2)))
        never_refused += [name] * ("refused" not in outcomes)
    assert never_refused == []


def test_that_programs_cut_short_are_refused(cases):
    case = cases["net_masked_1"]
    for size in range(0, len(case.blob) - 32, 157):
        assert outcome(case.blob[:size], case, check=False) == "refused"


@pytest.mark.parametrize("every", [300, pytest.param(60, marks=pytest.mark.slow)])
def test_that_every_word_of_a_stream_may_be_noise(cases, every):
    case, generator = cases["u85_a8_softmax_0"], np.random.default_rng(3)
    start = case.blob.index(b"cmd_data") + 32
    size = int.from_bytes(case.blob[start - 16 : start - 12], "little")
    tracemalloc.start()
    for at in range(start + 20, start + size, every):
        broken = bytearray(case.blob)
        broken[at : at + 4] = generator.bytes(4)
        outcome(bytes(broken), case, check=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * LIMITS.memory_bytes
