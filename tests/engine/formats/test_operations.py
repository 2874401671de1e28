"""Operations on quantized operands: MASE's against stored numbers, the textbook's by hand."""

import pytest
import torch
from torch.nn import functional

from tests.engine.formats.vectors import OPERATIONS as CASES
from tests.engine.formats.vectors import arrays, tensor
from tests.problems import refused
from workbench.engine.formats.operations import OPERATIONS, Operation, flexround_linear, residual_linear
from workbench.engine.formats.schemes import quantize, quantizer
from workbench.engine.formats.signs import Tables, lutnet_linear

pytestmark = pytest.mark.engine
SPECIAL = {"flexround", "lutnet"}
FLOAT = {
    "data_in_width": 8,
    "data_in_exponent_width": 4,
    "data_in_exponent_bias": 7,
    "weight_width": 8,
    "weight_exponent_width": 4,
    "weight_exponent_bias": 7,
    "bias_width": 8,
    "bias_exponent_width": 4,
    "bias_exponent_bias": 7,
}


def scheme_of(case):
    return case["scheme"].split("#")[0].split("(")[0]


def tensors(case):
    return {k: tensor(v) for k, v in case["tensors"].items() if v in arrays()}


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if scheme_of(c) not in SPECIAL],
    ids=lambda c: f"{c['id']}-{c['op']}-{c['scheme']}",
)
def test_that_a_mase_operation_gives_the_stored_numbers(case):
    config, stored = dict(case["config"]), tensors(case)
    options = {key: config.pop(key) for key in ("stride", "padding") if key in config}
    if "raises" in case:
        with refused("mase-operation-not-supported"):
            Operation(case["op"], scheme_of(case), config, mase_compatible=True)
        return
    operation = Operation(case["op"], scheme_of(case), config, True, options)
    operands = operation.operands(stored["x"], stored.get("w", stored.get("y_in")), stored.get("b"))
    if "gamma" in stored:
        y = residual_linear(operation, operands, stored["gamma"], stored["mask"])
    else:
        y = operation.on(operands)
    for name in {"x_q", "w_q", "b_q"} & set(stored):
        assert torch.equal(getattr(operands, name[0]), stored[name])
    torch.testing.assert_close(y, stored["y"], rtol=1e-5, atol=1e-5)


def test_that_lut_tables_look_up_the_stored_numbers():
    stored = tensors(next(c for c in CASES if c["scheme"] == "lutnet"))
    tables = Tables(
        stored["lut_w"].view(2, 8, 4),
        stored["mask"][:8],
        stored["input_mask"].view(8, 2),
        stored["means"],
        stored["gamma"],
    )
    y = lutnet_linear(stored["x"], tables, stored["b"])
    torch.testing.assert_close(y, stored["y"], rtol=1e-5, atol=1e-5)


def test_that_flexround_gives_the_stored_numbers():
    case = next(c for c in CASES if c["scheme"] == "flexround")
    stored = tensors(case)
    params = {"width": case["config"]["data_in_width"], "frac_width": case["config"]["data_in_frac_width"]}
    out = quantizer("flexround", params, mase_compatible=True)
    y = flexround_linear(stored["x"], stored["w"], stored["b"], out)
    torch.testing.assert_close(y, stored["y"], rtol=1e-5, atol=1e-5)


INPUTS = {
    "linear": ((3, 8), (4, 8), (4,)),
    "conv1d": ((2, 3, 9), (4, 3, 3), (4,)),
    "conv2d": ((2, 3, 6, 6), (4, 3, 3, 3), (4,)),
    "matmul": ((3, 8), (8, 4), None),
    "bmm": ((2, 3, 8), (2, 8, 4), None),
    "add": ((3, 8), (3, 8), None),
    "sub": ((3, 8), (3, 8), None),
    "mul": ((3, 8), (3, 8), None),
    "batch_norm2d": ((2, 3, 4, 4), (3,), (3,)),
    "layer_norm": ((3, 8), (8,), (8,)),
    "group_norm": ((2, 4, 3, 3), (4,), (4,)),
    "instance_norm2d": ((2, 3, 4, 4), None, None),
    "rms_norm": ((3, 8), (8,), None),
}
BLOCK = {"width": 8, "exponent_width": 8, "exponent_bias": 127, "block_size": [1, 4]}
BLOCKS = {f"{p}_{k}": v for p in ("data_in", "weight", "bias") for k, v in BLOCK.items()}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("scheme", "config"), [("minifloat_ieee", FLOAT), ("block_fp", BLOCKS), ("nvfp4", {}), ("ternary", {})]
)
def test_that_every_textbook_operation_runs_and_carries_gradients(name, scheme, config):
    torch.manual_seed(0)
    shapes = INPUTS.get(name, ((3, 8), None, None))
    values = [None if s is None else torch.randn(s, requires_grad=True) for s in shapes]
    options = {"num_groups": 2} if name == "group_norm" else {}
    y = Operation(name, scheme, config, options=options)(*values)
    assert bool(y.isfinite().all())
    y.square().sum().backward()
    assert all(v.grad is not None for v in (values[0], values[1]) if v is not None)


def test_that_a_textbook_linear_is_the_float_one_on_quantized_operands():
    torch.manual_seed(1)
    x, w, b = torch.randn(3, 8), torch.randn(4, 8), torch.randn(4)
    one = {"width": 8, "exponent_width": 4, "exponent_bias": 7}
    expected = functional.linear(*(quantize(v, "minifloat_ieee", one) for v in (x, w, b)))
    assert torch.equal(Operation("linear", "minifloat_ieee", FLOAT)(x, w, b), expected)


def test_that_a_textbook_activation_keeps_negative_values_and_mase_does_not():
    x = torch.tensor([[-1.0, 1.0]])
    config = {"data_in_width": 8, "data_in_frac_width": 4}
    assert Operation("selu", "integer", config)(x)[0, 0] < -1
    assert Operation("selu", "integer", config, mase_compatible=True)(x)[0, 0] == 0


@pytest.mark.parametrize(("name", "scheme"), [("gelu", "integer"), ("sub", "block_log"), ("conv2d", "fixed")])
def test_that_what_mase_cannot_run_is_refused(name, scheme):
    with refused("mase-operation-not-supported"):
        Operation(name, scheme, {}, mase_compatible=True)


def test_that_an_unknown_operation_is_refused():
    with refused("operation-unknown"):
        Operation("lstm", "integer", {})
