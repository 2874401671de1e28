"""Bits that are flipped in compiled weights are noticed."""

import pytest

from tests.npu_flips import executed, flips, main, programs


@pytest.mark.parametrize(("seed", "count"), [(15, 10), pytest.param(3, 20, marks=pytest.mark.slow)])
def test_that_flipped_bits_that_change_weights_change_outputs_or_raise(seed, count):
    outcomes = flips(seed=seed, count=count, inputs=2)
    assert outcomes.total() == count
    changing = outcomes["noticed"] + outcomes["unnoticed"]
    assert changing > 6
    assert outcomes["noticed"] >= 0.9 * changing


@pytest.mark.slow
def test_that_a_share_below_the_bar_ends_with_code_1(capsys):
    assert main(["--count", "12", "--inputs", "1", "--least", "1.1"]) == 1
    assert "12 flips" in capsys.readouterr().out


def test_that_every_family_has_programs_with_weights():
    names = " ".join(programs())
    assert all(family in names for family in ("u55_a8", "u55_a16", "u85_a8", "u65"))
    case = next(iter(programs().values()))
    weights, outputs = executed(case.blob, [list(case.inputs)])
    assert weights
    assert outputs == b"".join(output.tobytes() for output in case.outputs)
