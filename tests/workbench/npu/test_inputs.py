"""Inputs that are drawn where none are given."""

import numpy as np

from workbench.npu.inputs import drawn_inputs
from workbench.npu.program import Tensor


def test_that_drawn_inputs_span_their_type_and_are_always_the_same():
    tensors = [Tensor(kind, (50, 40)) for kind in ("int8", "uint8", "int32", "bool", "float32")]
    first, again = drawn_inputs(tensors), drawn_inputs(tensors)
    for tensor, values, other in zip(tensors, first, again, strict=True):
        assert (values.dtype, values.shape) == (np.dtype(tensor.dtype), (50, 40))
        assert np.array_equal(values, other)
    assert (first[0].min(), first[0].max()) == (-128, 127)
    assert (first[1].min(), first[1].max()) == (0, 255)
    assert first[2].min() < -(1 << 29)
    assert 0.4 < first[3].mean() < 0.6
    assert abs(float(first[4].mean())) < 0.2
    assert 0.8 < float(first[4].std()) < 1.2
