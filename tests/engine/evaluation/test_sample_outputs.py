"""Outputs that one stage keeps for another are those of the same inputs, or none."""

import pytest
import torch

from workbench.engine.data import Sample
from workbench.engine.evaluation import sample_outputs
from workbench.engine.evaluation.sample_outputs import SampleOutputs

pytestmark = pytest.mark.engine
OUTPUTS = [torch.tensor([1.0, 2.0])], [torch.tensor([1.5, 2.0])]


def sample(*values, **fields):
    return Sample(0, tuple(torch.tensor(value) for value in values), None, **fields)


def test_that_outputs_belong_to_inputs_and_not_to_positions():
    outputs = SampleOutputs()
    outputs.add(sample([1.0, 0.0]), *OUTPUTS)
    known = outputs.get(sample([1.0, 0.0]))
    assert (known.floats, known.quantized) == OUTPUTS
    others = sample([0.0, 1.0]), sample([[1.0, 0.0]]), sample([1.0], [0.0]), sample([1, 0])
    assert [outputs.get(other) for other in others] == [None] * len(others)


def test_that_a_number_of_a_longer_row_is_known_again():
    outputs, number = SampleOutputs(), torch.tensor([[1.0, 2.0]]).unbind(-1)[0]
    outputs.add(Sample(0, (number,), None), *OUTPUTS)
    assert outputs.get(sample([1.0])).floats == OUTPUTS[0]


def test_that_nothing_is_kept_of_a_sample_that_continues_or_beyond_the_limit(monkeypatch):
    outputs = SampleOutputs()
    outputs.add(sample([1.0], carried=1), *OUTPUTS)
    outputs.add(sample([2.0]), [torch.ones(2, dtype=torch.bfloat16)], OUTPUTS[1])
    monkeypatch.setattr(sample_outputs, "_LIMIT_BYTES", 24)
    outputs.add(sample([3.0]), *OUTPUTS)
    outputs.add(sample([4.0]), *OUTPUTS)
    assert [outputs.get(sample([v])) is None for v in (1.0, 2.0, 3.0, 4.0)] == [True, True, False, True]
