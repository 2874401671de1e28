"""A program that is prepared and converted quickly is the one that stock makes."""

from __future__ import annotations

import pytest
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from tests.engine.acceleration import programs
from workbench.engine.runtime.accelerated import applied

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

CONVERTING = {"quick-folding", "quick-names"}


@pytest.mark.parametrize("case", programs.marked(programs.CASES))
def test_that_a_program_is_prepared_and_converted_as_by_stock(case):
    graphs = []
    for only in (set(), CONVERTING):
        programs._prepared.cache_clear()
        with applied(only) as ids:
            assert ids == only
            module, data = programs.prepared(case)
            with torch.no_grad():
                module(*data[:1])
            before = programs.nodes(module)
            converted = convert_pt2e(module)
        graphs.append((before, programs.nodes(converted), converted.state_dict()))
    (*stock, values), (*quick, others) = graphs
    assert quick == stock
    assert others.keys() == values.keys()
    assert all(torch.equal(others[name], value) for name, value in values.items())
