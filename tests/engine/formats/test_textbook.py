"""The textbook forms against definitions written out the slow way."""

import itertools

import numpy as np
import pytest
import torch

from tests.problems import refused
from workbench.engine.formats.schemes import SCHEMES, quantize, quantizer

pytestmark = pytest.mark.engine
NAN, INF = float("nan"), float("inf")
SAMPLE = torch.cat(
    [torch.randn(4000, generator=torch.Generator().manual_seed(5)) * s for s in (1e-3, 0.1, 1.0, 30.0, 1e4)]
)
PARAMETERS = {
    "integer": {"width": 8, "frac_width": 4},
    "fixed": {"width": 8, "frac_width": 4},
    "integer_floor": {"width": 8, "frac_width": 4},
    "scale_integer": {"width": 8},
    "flexround": {"width": 8, "frac_width": 4},
    "logicnets": {"width": 8, "frac_width": 4},
    "minifloat_ieee": {"width": 8, "exponent_width": 4, "exponent_bias": 7},
    "minifloat_denorm": {"width": 8, "exponent_width": 4, "exponent_bias": 7},
    "log": {"width": 6, "exponent_bias": None},
    "binary": {},
    "binary_residual": {"levels": 3},
    "lutnet": {},
    "ternary": {},
    "block_fp": {"width": 7, "exponent_width": 8, "exponent_bias": 127, "block_size": [1, 16]},
    "block_minifloat": {"width": 8, "exponent_width": 4, "exponent_bias_width": 8, "block_size": [1, 16]},
    "block_log": {"width": 6, "exponent_bias_width": 8, "block_size": [1, 16]},
    "mxint_hardware": {"width": 8, "exponent_width": 8, "parallelism": [2, 4]},
    "mxint": {"width": 8},
    "mxfp": {"exponent_width": 4, "frac_width": 3},
    "minifloat_mx": {"exponent_width": 4, "frac_width": 3},
    "nvfp4": {},
}


def nearest(x, grid):
    """Return the nearest of a sorted grid; ties go to the even index (grid[0] is zero)."""
    magnitude = x.abs().double().numpy()
    grid = np.asarray(grid, np.float64)
    upper = np.clip(np.searchsorted(grid, magnitude), 1, len(grid) - 1)
    low, high = grid[upper - 1], grid[upper]
    up = (magnitude - low > high - magnitude) | ((magnitude - low == high - magnitude) & (upper % 2 == 0))
    return torch.from_numpy(np.where(up, high, low) * np.sign(x.numpy())).float()


def float_grid(exponent_bits, fraction_bits, bias, largest=INF):
    codes = itertools.product(range(2**exponent_bits), range(2**fraction_bits))
    return [
        value
        for e, m in codes
        if (value := ((e > 0) + m / 2**fraction_bits) * 2.0 ** (max(e, 1) - bias)) <= largest
    ]


@pytest.mark.parametrize(("width", "exponent", "bias"), [(8, 4, 7), (8, 5, 15), (6, 2, 1), (6, 3, 0)])
def test_that_a_minifloat_is_the_nearest_of_its_grid(width, exponent, bias):
    grid = float_grid(exponent, width - exponent - 1, bias)
    ties = torch.tensor([(a + b) / 2 for a, b in itertools.pairwise(grid)])
    x = torch.cat([SAMPLE, ties, -ties])
    made = quantize(x, "minifloat_ieee", {"width": width, "exponent_width": exponent, "exponent_bias": bias})
    assert torch.equal(made, nearest(x, grid))


@pytest.mark.parametrize(
    ("exponent", "fraction", "dtype"), [(4, 3, torch.float8_e4m3fn), (5, 2, torch.float8_e5m2)]
)
def test_that_an_mx_element_is_the_nearest_float8(exponent, fraction, dtype):
    rows = SAMPLE.view(-1, 32)
    largest = {3: 448.0, 2: 57344.0}[fraction]
    top = {3: 8, 2: 15}[fraction]
    scale = torch.exp2(rows.abs().amax(1, keepdim=True).log2().floor() - top)
    expected = (rows / scale).clamp(-largest, largest).to(dtype).float() * scale
    made = quantize(rows, "mxfp", {"exponent_width": exponent, "frac_width": fraction})
    assert torch.equal(made, expected)


def test_that_mxfp4_and_nvfp4_use_the_grid_up_to_six():
    grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    rows = SAMPLE.view(-1, 32)
    scale = torch.exp2(rows.abs().amax(1, keepdim=True).log2().floor() - 2)
    made = quantize(rows, "mxfp", {"exponent_width": 2, "frac_width": 1})
    assert torch.equal(made, nearest(rows / scale, grid) * scale)
    rows = SAMPLE.view(-1, 16)
    whole = rows.abs().max() / (6 * 448)
    blocks = (rows.abs().amax(1, keepdim=True) / 6 / whole).to(torch.float8_e4m3fn).float() * whole
    divisor = torch.where(blocks > 0, blocks, 1)
    assert torch.equal(quantize(rows, "nvfp4", {}), nearest(rows / divisor, grid) * blocks)


def test_that_mxint8_keeps_a_power_of_two_as_largest_value():
    row = torch.zeros(32)
    row[0], row[1], row[2] = 1.0, -0.3, 0.0078125
    made = quantize(row, "mxint", {"width": 8})
    assert made[:3].tolist() == [1.0, -0.296875, 0.0]
    assert quantize(row, "mxint", {"width": 8}, mase_compatible=True)[0] == 127 / 128


def test_that_block_fp_keeps_a_power_of_two_and_large_blocks_finite():
    params = {"width": 7, "exponent_width": 8, "exponent_bias": 127, "block_size": [1, 16]}
    x = torch.full((2, 16), 3e38)
    x[1] = 4.0
    made = quantize(x, "block_fp", params)
    assert bool(made.isfinite().all())
    assert torch.equal(made[1], x[1])
    assert (made[0] / x[0] - 1).abs().max() < 2**-5


@pytest.mark.parametrize("scale", [1.0, 0.02, 300.0, 1e-30, 1e36])
def test_that_a_block_minifloat_is_as_good_at_every_size(scale):
    x = (SAMPLE[8000:12000] * scale).view(-1, 16)
    params = {"width": 8, "exponent_width": 4, "exponent_bias_width": 8, "block_size": [1, 16]}
    made = quantize(x, "block_minifloat", params)
    if scale <= 300:
        assert (made - x).double().norm() / x.double().norm() < 0.03
    assert bool(made.isfinite().all())


def test_that_a_log_is_nearest_in_the_logarithm_and_keeps_zero():
    x = torch.tensor([0.0, 1.4142, 1.4143, -0.7, 3.0, 1e9, -1e-9])
    made = quantize(x, "log", {"width": 4, "exponent_bias": 3})
    assert made.tolist() == [0, 1, 2, -0.5, 4, 16, -0.125]


def test_that_ternary_takes_any_shape_and_zeros_stay_zero():
    x = torch.tensor([[1.0, -1.0, 0.1, 0.0], [0, 0, 0, 0]])
    assert quantize(x, "ternary", {}).tolist() == [[1, -1, 0, 0], [0, 0, 0, 0]]


def test_that_residual_signs_add_up_in_the_same_shape():
    x = torch.tensor([0.9, 0.1, -0.6])
    made = quantize(x, "binary_residual", {"levels": 2, "means": [0.5, 0.25]})
    assert made.tolist() == [0.75, 0.25, -0.75]


# A row with an infinity has no scale in scale_integer.
@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name != "scale_integer"])
def test_that_nan_stays_alone_and_infinity_is_finite(scheme):
    x = torch.linspace(-2, 2, 64).view(4, 16)
    x[0, 3], x[1, 2], x[2, 1] = NAN, INF, -INF
    made = quantize(x, scheme, PARAMETERS[scheme])
    assert made.shape == x.shape
    assert made.isnan().nonzero().tolist() == [[0, 3]]
    assert made[1, 2] > 0 > made[2, 1]
    assert bool(made[1:].isfinite().all())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_that_the_type_of_the_input_is_kept(scheme, dtype):
    x = torch.linspace(-2, 2, 64).view(4, 16)
    made = quantize(x.to(dtype), scheme, PARAMETERS[scheme])
    assert made.dtype == dtype
    exact = {torch.float16: x.half(), torch.bfloat16: x.bfloat16(), torch.float64: x}[dtype].float()
    assert torch.allclose(made.float(), quantize(exact, scheme, PARAMETERS[scheme]), atol=1e-2)


SCALED_BY_VALUES = {"ternary", "nvfp4", "lutnet", "binary_residual"}


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name not in SCALED_BY_VALUES])
def test_that_what_is_on_the_grid_stays_there(scheme):
    x = torch.linspace(-2, 2, 64).view(4, 16)
    once = quantize(x, scheme, PARAMETERS[scheme])
    assert torch.equal(quantize(once, scheme, PARAMETERS[scheme]), once)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_that_gradients_go_straight_through(scheme):
    x = torch.linspace(-2, 2, 64).view(4, 16).requires_grad_()
    weight = torch.arange(64.0).view(4, 16)
    (quantize(x, scheme, PARAMETERS[scheme]) * weight).sum().backward()
    assert torch.equal(x.grad, weight)


def test_that_mase_gradients_have_their_exceptions():
    x = torch.tensor([[0.2, -1.5, 0.7, 0.1]], requires_grad=True)
    quantize(x, "binary", {"stochastic": True}, mase_compatible=True).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 0.5))
    x.grad = None
    params = {"levels": 2, "means": [0.5, 0.25]}
    quantize(x, "binary_residual", params, mase_compatible=True)[0].sum().backward()
    assert x.grad.tolist() == [[0.5, 0.0, 0.5, 0.5]]
    x.grad = None
    quantize(x, "binary_residual", params, "weight", mase_compatible=True).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
    made = quantize(x, "block_minifloat", PARAMETERS["block_minifloat"], mase_compatible=True)
    with refused("mase-not-trainable"):
        made.sum().backward()
    hardware = {"width": 12, "exponent_width": 4, "parallelism": [1, 4]}
    assert not quantize(x, "mxint_hardware", hardware, mase_compatible=True).requires_grad


def test_that_a_large_array_is_the_same_in_pieces():
    x = torch.randn(40, 20_000, generator=torch.Generator().manual_seed(1))
    for scheme in ("integer", "minifloat_ieee", "log", "block_fp", "mxfp", "nvfp4"):
        made = quantize(x, scheme, PARAMETERS[scheme])
        if scheme == "nvfp4":
            assert bool(made.isfinite().all())
        else:
            assert torch.equal(made[7], quantize(x[7:8], scheme, PARAMETERS[scheme])[0])


def test_that_roles_choose_their_own_parameters():
    config = {"data_in_width": 8, "data_in_frac_width": 4, "weight_width": 4, "weight_frac_width": 2}
    assert quantizer("integer", config, "weight").parameters["width"] == 4
    with refused("format-parameter-missing", "format-parameter-missing"):
        quantizer("integer", config, "bias")


@pytest.mark.parametrize(
    ("scheme", "parameters"),
    [("mxint", {"width": 8}), ("mxfp", {"exponent_width": 2, "frac_width": 1}), ("nvfp4", {})],
)
@pytest.mark.parametrize("shape", [(2, 40, 5, 3), (1, 3, 7, 7), (32, 4), (64, 2, 1), (200, 700)])
def test_that_blocks_along_any_dimension_are_those_of_the_moved_array(scheme, parameters, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2)) * 3
    x.view(-1)[:2] = torch.tensor([float("nan"), float("inf")])
    for axis in range(len(shape)):
        moved = quantize(x.movedim(axis, -1), scheme, {**parameters, "block_dim": -1})
        found = quantize(x, scheme, {**parameters, "block_dim": axis})
        torch.testing.assert_close(found, moved.movedim(-1, axis), rtol=0, atol=0, equal_nan=True)
        assert found.is_contiguous()
