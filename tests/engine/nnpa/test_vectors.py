"""The NNPA arithmetic against stored numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from workbench.engine.nnpa import arithmetic
from workbench.engine.nnpa.arithmetic import codes, codes_onnx_order, matmul, quantized, range_of

pytestmark = pytest.mark.engine
VECTORS = Path(__file__).parents[2] / "data" / "vectors"
CASES = json.loads((VECTORS / "nnpa.json").read_text())["cases"]
PARAMETERS = [c for c in CASES if c["kind"] == "params"]
PRODUCTS = [c for c in CASES if c["kind"] == "matmul"]


@pytest.fixture(scope="module")
def arrays():
    with np.load(VECTORS / "nnpa.npz") as file:
        return {name: torch.from_numpy(file[name].copy()) for name in file.files}


def same(made, expected):
    return np.array_equal(made.numpy(), expected.numpy(), equal_nan=True)


@pytest.mark.parametrize("case", PARAMETERS, ids=lambda c: c["name"])
def test_that_ranges_and_codes_are_the_stored_ones(arrays, case):
    of = lambda name: arrays[f"{case['name']}/{name}"]  # noqa: E731
    q, by = quantized(of("x"), case["mode"], "activation")
    assert bool(by.warnings) == (case["degenerate"] or not case["nnpa_scale_ok"])
    if case["degenerate"]:
        assert (float(by.scale), float(by.zero_point), int(q.abs().max())) == (1.0, 0.0, 0)
        return
    assert same(by.scale, of("scale"))
    assert same(by.zero_point, of("zp"))
    assert same(by.reciprocal, of("rec_scale"))
    assert same(q, of("q"))
    assert same((codes(of("x"), by) - by.zero_point) * by.scale, of("dq"))
    assert same(codes_onnx_order(of("x"), by).to(torch.int8), of("q_onnx_order"))
    assert int((of("q") != of("q_onnx_order")).sum()) == case["order_differs"]
    bits = arithmetic.encode(by.reciprocal, saturate=False)
    assert int(bits) == int(of("rec_scale_dlf16_bits"))


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: c["name"])
def test_that_products_are_the_stored_ones_in_both_readings(arrays, case):
    of = lambda name: arrays.get(f"{case['name']}/{name}")  # noqa: E731
    a, b, bias = of("A"), of("B"), of("C")
    document = matmul(a, b, bias, case["mode"], "document")
    accelerator = matmul(a, b, bias, case["mode"], "nnpa")
    assert same(document.y, of("doc_y"))
    assert same(document.activation.to(torch.int8), of("doc_a_q"))
    assert same(accelerator.y, of("nnpa_y"))
    assert same(accelerator.activation.to(torch.int8), of("nnpa_a_q"))
    assert same(accelerator.weight.codes.to(torch.int8), of("b_q"))
    assert same(accelerator.weight.sums, of("b_colsum"))
    assert same(accelerator.weight.by.reciprocal, of("b_rec"))
    assert same(accelerator.offset, of("qc_tilde"))
    assert same(range_of(a, case["mode"]).scale, of("a_scale"))


def test_that_dlfloat16_codes_are_the_stored_ones(arrays):
    x = arrays["dlf16/x"]
    saturated = arithmetic.encode(x, saturate=True)
    assert same(saturated, arrays["dlf16/bits_sat"].to(torch.int32))
    assert same(arithmetic.encode(x, saturate=False), arrays["dlf16/bits_nosat"].to(torch.int32))
    assert same(arithmetic.decode(saturated), arrays["dlf16/value_sat"])
    first = torch.arange(arrays["dlf16/decode_all"].numel())
    assert same(arithmetic.decode(first), arrays["dlf16/decode_all"])


def test_that_every_dlfloat16_code_survives_its_own_value():
    every = torch.arange(65536, dtype=torch.int32)
    numbers = every[((every & 0x7FFF) != 0x7FFF)]
    assert same(arithmetic.encode(arithmetic.decode(numbers), saturate=False), numbers)
