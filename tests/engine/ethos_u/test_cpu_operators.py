"""Operators that a program runs on the CPU, by the names that the program has for them."""

import numpy as np
import pytest

from workbench.engine.ethos_u.cpu_operators import compute
from workbench.npu.cpu import Output

pytestmark = pytest.mark.engine

CODES = np.array([[2, -4], [6, 8]], np.int8)
SCALAR = Output("float32", ())
SCALES, ZEROS = np.array([0.5, 2.0], np.float32), np.array([0, 2], np.int64)


@pytest.mark.parametrize("overload", [".out", ".default", ""])
def test_that_an_operator_without_a_variant_for_outputs_is_computed(overload):
    name = f"quantized_decomposed::dequantize_per_channel{overload}"
    arguments = [CODES, SCALES, ZEROS, 0, -127, 127, 1]
    (result,) = compute(name, arguments, [Output("float32", (2, 2))])
    assert np.array_equal(result, [[1.0, -2.0], [8.0, 12.0]])


def test_that_an_overload_keeps_its_name_without_outputs():
    (result,) = compute("aten::add.Scalar_out", [np.ones(2, np.float32), 2.0, 1], [Output("float32", (2,))])
    assert np.array_equal(result, [3.0, 3.0])


@pytest.mark.parametrize("name", ["dim_order_ops::_empty_dim_order.out", "aten::empty.out"])
def test_that_a_tensor_without_values_has_its_shape(name):
    (result,) = compute(name, [[2, 3], [0, 1] if "dim" in name else None], [Output("float32", (2, 3))])
    assert result.shape == (2, 3)
    assert result.dtype == np.float32


def test_that_a_single_number_has_no_dimension():
    (result,) = compute("aten::sum.IntList_out", [CODES.astype(np.float32), None, False, None], [SCALAR])
    assert (result.shape, float(result)) == ((), 12.0)
