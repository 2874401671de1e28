"""The mase-compatible forms against stored numbers, to the bit."""

import numpy as np
import pytest

from tests.engine.formats.vectors import QUANTIZERS, tensor
from workbench.engine.formats.schemes import quantize
from workbench.errors import WorkbenchError

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("case", QUANTIZERS, ids=lambda c: f"{c['id']}-{c['scheme']}")
def test_that_a_mase_quantizer_gives_the_stored_numbers(case):
    x = tensor(case["input"])
    if "raises" in case or "returns" in case:
        with pytest.raises(WorkbenchError):
            quantize(x, case["scheme"], case["params"], mase_compatible=True)
        return
    made = quantize(x, case["scheme"], case["params"], mase_compatible=True)
    expected = tensor(case["output"])
    assert made.dtype == expected.dtype
    assert np.array_equal(made.numpy(), expected.numpy(), equal_nan=True)
