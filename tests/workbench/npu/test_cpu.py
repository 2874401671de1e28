"""Operators on the CPU around delegates: quantizing and dequantizing as ExecuTorch's kernels."""

import numpy as np

from tests.for_each import for_each
from tests.problems import refused
from workbench.npu.cpu import Output, run_kernel
from workbench.pte.program import DTYPES

CODES = {name: code for code, name in DTYPES.items()}
PREFIX = "quantized_decomposed::"


def kernel(name, *arguments):
    (made,) = run_kernel(f"{PREFIX}{name}.out", arguments)
    return made


def test_that_values_are_rounded_to_even_and_limited():
    values = np.array([0.25, 0.75, 1.25, -0.25, 100.0, -100.0], np.float32)
    made = kernel("quantize_per_tensor", values, 0.5, 3, -20, 20, CODES["int8"])
    assert made.tolist() == [3, 5, 5, 3, 20, -20]
    assert made.dtype == np.int8


def test_that_each_channel_has_its_own_scale_and_zero_point():
    values = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], np.float32)
    scales, zeros = np.array([1.0, 0.5, 0.25]), np.array([0, 10, -10])
    limits = (-128, 127, CODES["int8"])
    made = kernel("quantize_per_channel", values, scales, zeros, 0, *limits)
    assert made.tolist() == [[1, 2], [12, 14], [-6, -2]]
    turned = kernel("quantize_per_channel", values.T, scales, zeros, 1, *limits)
    assert turned.tolist() == made.T.tolist()


def test_that_dequantized_values_are_steps_from_the_zero_point():
    codes = np.array([-128, 3, 127], np.int8)
    for more in (
        (),
        (-128, 127, CODES["int8"]),
        (-128, 127, CODES["int8"], None),
        (-128, 127, CODES["int8"], CODES["float32"]),
    ):
        made = kernel("dequantize_per_tensor", codes, 0.5, 3, *more)
        assert made.tolist() == [-65.5, 0.0, 62.0]
        assert made.dtype == np.float32


@for_each("dtype", ["uint8", "int8", "int16", "uint16", "int32"])
def test_that_every_integer_type_of_the_kernels_is_given(dtype):
    made = kernel("quantize_per_tensor", np.zeros(2, np.float32), 1.0, 1, 0, 9, CODES[dtype])
    assert (made.dtype.name, made.tolist()) == (dtype, [1, 1])


def test_that_what_no_kernel_does_is_refused():
    values = np.zeros(2, np.float32)
    for dtype in (CODES["int64"], CODES["float32"], 99):
        with refused("quantize-type"):
            kernel("quantize_per_tensor", values, 1.0, 0, -8, 7, dtype)
    codes = values.astype(np.int8)
    with refused("dequantize-type"):
        kernel("dequantize_per_tensor", codes, 1.0, 0, -8, 7, CODES["int8"], CODES["float16"])
    with refused("quantize-nan"):
        kernel("quantize_per_tensor", values * np.nan, 1.0, 0, -8, 7, CODES["int8"])


def test_that_other_operators_are_computed_by_others_or_refused():
    def others(name, arguments, outputs):
        return [np.full(outputs[0].shape, len(arguments), outputs[0].dtype)]

    outputs = [Output("float32", (2,))]
    (made,) = run_kernel("aten::add.out", (1, 2, 3), outputs, others)
    assert made.tolist() == [3.0, 3.0]
    with refused("npu-cpu-operator"):
        run_kernel("aten::add.out", (1, 2, 3), outputs)
