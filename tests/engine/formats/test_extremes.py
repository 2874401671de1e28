"""Values at the ends of a type and of a format, and what a format makes of no values at all."""

import json
from fractions import Fraction

import pytest
import torch

from tests.engine.formats.test_textbook import PARAMETERS
from tests.problems import refused
from workbench.engine.formats.schemes import SCHEMES, quantize
from workbench.engine.jobs.array_jobs import answer_jobs, load, save
from workbench.errors import WorkbenchError

pytestmark = pytest.mark.engine
INF, NAN = float("inf"), float("nan")
LEAST, MOST = 2.0**-149, torch.finfo(torch.float32).max
HALVES = [torch.float16, torch.bfloat16]
SCALED = [name for name, spec in SCHEMES.items() if name.startswith(("block", "mx", "nv"))]


@pytest.mark.parametrize("scheme", ["integer", "integer_floor"])
def test_that_rounding_down_never_loses_a_negative_value(scheme):
    x = torch.tensor([-LEAST, LEAST, -0.0, -1e-30])
    given = {"width": 8, "frac_width": -4} | ({"floor": True} if scheme == "integer" else {})
    assert quantize(x, scheme, given).tolist() == [-16.0, 0.0, 0.0, -16.0]
    assert quantize(x, scheme, {**given, "is_signed": False}).tolist() == [0.0] * 4
    assert quantize(x, scheme, given, mase_compatible=True).tolist() == [0.0, 0.0, 0.0, -16.0]


def test_that_a_block_of_powers_keeps_what_is_far_below_its_largest():
    x = torch.tensor([[1.0, 1e-30, -LEAST, 0.0]])
    given = {"width": 7, "exponent_bias_width": 3, "block_size": [4]}
    assert quantize(x, "block_log", given).tolist() == [[1.0, 2.0**-7, -(2.0**-7), 0.0]]


@pytest.mark.parametrize(("exponent", "bias"), [(7, 8), (8, 4), (8, 8), (9, 9), (11, 1), (11, 11)])
def test_that_block_minifloats_with_wide_exponents_are_exact(exponent, bias):
    x = torch.tensor([[2.0**50, -1.375 * 2.0**-100, 3.1, 2.0**-60 * 1.3, LEAST, 1.0, -7.0, 0.3]])
    given = {"width": exponent + 3, "exponent_width": exponent, "exponent_bias_width": bias}
    made = quantize(x, "block_minifloat", {**given, "block_size": [8]}).flatten().tolist()
    top = 2**exponent - 1
    shared = min(max(top - 50, 0), 2**bias - 1)
    for value, found in zip(x.flatten().tolist(), made, strict=True):
        size = abs(Fraction(value))
        power = size.numerator.bit_length() - size.denominator.bit_length()
        power -= Fraction(2) ** power > size
        step = Fraction(2) ** (max(power, 1 - shared) - 2)
        assert abs(Fraction(found)) == round(size / step) * step, value


def test_that_rows_of_any_size_keep_their_largest_value():
    rows = torch.tensor([[1e-44, -3e-45], [MOST, 1.0], [0.1, 0.7], [0.0, 0.0], [1.3, -9.9]])
    made = quantize(rows, "scale_integer", {"width": 8})
    kept = rows.abs().argmax(1, keepdim=True)
    assert torch.equal(made.gather(1, kept), rows.gather(1, kept))
    odd = torch.tensor([[INF, 2.0, NAN, -1.0]])
    expected = torch.tensor([[2.0, 2.0, NAN, -64 * 2 / 127]])
    assert torch.equal(quantize(odd, "scale_integer", {"width": 8}).nan_to_num(9.0), expected.nan_to_num(9.0))


@pytest.mark.parametrize("scale", [1e-44, 1.0, 2e38])
def test_that_ternary_is_the_same_at_every_size(scale):
    x = torch.tensor([[1.0, -1.5, 0.1, 1.4]]) * scale
    signs = quantize(x, "ternary", {"scaling_factor": False})
    assert signs.tolist() == [[1.0, -1.0, 0.0, 1.0]]
    made = quantize(x, "ternary", {})
    assert made.isfinite().all()
    assert made[0, 0] == pytest.approx(1.3 * scale, rel=1e-6, abs=2e-45)


@pytest.mark.parametrize("scheme", SCALED)
def test_that_infinity_alone_in_a_block_saturates_far_from_zero(scheme):
    given = {**PARAMETERS[scheme]}
    given |= {"block_size": [1, 4]} if scheme.startswith("block") else {}
    given |= {"block_size": 4} if scheme in {"mxint", "mxfp", "nvfp4"} else {}
    x = torch.tensor([[1.0, -2.0, 0.5, 3.0], [INF, -INF, 0.0, 0.0]])
    made = quantize(x, scheme, given)
    assert made.isfinite().all()
    assert made[1, 0] >= made[0].max()
    assert made[1, 1] <= -1.0
    assert torch.equal(made[:1], quantize(x[:1], scheme, given))


def test_that_the_most_negative_code_is_never_infinite():
    x = torch.tensor([[-MOST, MOST], [-1.999, 1.0]])
    made = quantize(x, "mxint", {"width": 8, "block_size": 2})
    assert made.tolist() == [[-127 * 2.0**121, 127 * 2.0**121], [-2.0, 1.0]]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("scheme", [n for n in SCHEMES if n not in {"nvfp4", "mxfp", "ternary"}])
def test_that_mase_takes_halves_or_says_why_not(scheme, dtype):
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(1)).to(dtype)
    if scheme == "minifloat_mx":
        with refused("mase-dtype-not-supported"):
            quantize(x, scheme, PARAMETERS[scheme], mase_compatible=True)
        return
    assert quantize(x, scheme, PARAMETERS[scheme], "weight", mase_compatible=True).numel() > 0


def test_that_a_half_is_never_rounded_to_infinity():
    x = torch.tensor([65504.0, 1.0], dtype=torch.float16)
    with refused("format-overflow"):
        quantize(x, "log", {"width": 6, "exponent_bias": 10})
    with refused("mase-dtype-too-narrow"):
        quantize(x, "integer", {"width": 32, "frac_width": 0}, mase_compatible=True)
    assert quantize(x[1:], "log", {"width": 6, "exponent_bias": 10}).tolist() == [1.0]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_that_no_values_give_no_values_or_a_sentence(scheme, shape):
    x = torch.zeros(shape)
    if scheme in SCALED:
        with pytest.raises(WorkbenchError) as caught:
            quantize(x, scheme, PARAMETERS[scheme])
        assert caught.value.codes[0] in {"array-empty", "block-dim-invalid"}
    else:
        assert quantize(x, scheme, PARAMETERS[scheme]).shape == shape


@pytest.mark.parametrize(
    ("scheme", "given", "said"),
    [
        ("block_fp", {"width": 1, "exponent_width": 8, "block_size": [4]}, "represents only zero"),
        ("mxint_hardware", {"width": 8, "exponent_width": 11, "parallelism": [1, 4]}, "reach"),
        ("minifloat_mx", {"exponent_width": 8, "frac_width": 3}, "reach 2^128"),
        ("minifloat_mx", {"exponent_width": 4, "frac_width": 15}, "fewer than 15 fraction bits"),
        ("binary_residual", {"levels": 2, "means": [1e300, 1.0]}, "exceeds the range of float32"),
    ],
)
def test_that_mase_refuses_what_float32_cannot_hold(scheme, given, said):
    with pytest.raises(WorkbenchError) as refused:
        quantize(torch.randn(4, 4), scheme, given, mase_compatible=True)
    assert said in str(refused.value)


def test_that_a_job_that_breaks_leaves_the_others_alone(tmp_path):
    save(str(tmp_path / "x.npy"), torch.ones(2))

    def work(job):
        if job["break"]:
            raise KeyError(job["break"])
        return {"mean": float(load(str(tmp_path / "x.npy")).mean())}

    answer_jobs({"jobs": [{"break": "a"}, {"break": ""}]}, tmp_path / "r.json", work)
    broken, other = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [info["code"] for info in broken["infos"]] == ["job-failed"]
    assert other["mean"] == 1.0
