"""Values on the grids of number formats, against numbers that the engine's formats gave.

``tests/engine/formats/test_predictions.py`` keeps the stored numbers equal to the engine's.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.for_each import for_each
from workbench.analysis.histogram import Histogram
from workbench.errors import WorkbenchError
from workbench.project.configs import FormatConfig
from workbench.targets.formats.parameters import read
from workbench.targets.formats.schemes import SPECS, spec_of
from workbench.targets.formats.values import placed, predict

FOLDER = Path(__file__).parents[2] / "data" / "vectors"
CASES = json.loads((FOLDER / "textbook.json").read_text())["cases"]


def test_that_every_format_gives_the_stored_numbers():
    with np.load(FOLDER / "textbook.npz") as stored:
        for case in CASES:
            given = read(case["scheme"], spec_of(case["scheme"]).parameters, case["params"], "data")
            found = placed(stored[f"{case['id']}/x"].astype(float), case["scheme"], given)
            np.testing.assert_allclose(
                found, stored[f"{case['id']}/y"].astype(float), rtol=2e-7, err_msg=case["id"]
            )


def test_that_every_format_of_an_operand_has_stored_numbers():
    assert {case["scheme"] for case in CASES} == {spec.name for spec in SPECS if spec.operand}


def predicted(scheme, histogram, **parameters):
    return predict(histogram, FormatConfig(scheme=scheme, parameters=parameters), "data")


def test_that_levels_are_the_representable_values():
    histogram = Histogram(np.ones(64), -1.0, 1.0)
    found = predicted("integer", histogram, width=4, frac_width=2)
    assert found.levels.tolist() == [n / 4 for n in range(-4, 5)]
    assert found.block == 1
    assert predicted("mxfp", histogram, exponent_width=2, frac_width=1).levels.size == 13
    assert predicted("ternary", histogram).levels.size == 3


def test_that_the_predicted_sqnr_is_that_of_rounding_and_clipping():
    histogram = Histogram(np.ones(64), -1.0, 1.0)
    rounded = predicted("integer", histogram, width=12, frac_width=8).sqnr_db
    assert rounded == pytest.approx(10 * math.log10(1 / 3 / (2.0**-16 / 12)), abs=0.1)
    # Half of the values are clipped to 1/2: the mean of (x - 1/2)^2 from 1/2 to 1, twice a half.
    clipped = predicted("integer", histogram, width=12, frac_width=12).sqnr_db
    assert clipped == pytest.approx(10 * math.log10(1 / 3 / (1 / 24)), abs=0.1)


def test_that_a_format_with_a_scale_per_slice_is_predicted_for_a_slice():
    # The mean size is 1/2, the threshold 0.35, and the mean of those beyond it 0.675.
    noise = 0.35**3 / 3 + 0.65**3 / 12
    found = predicted("ternary", Histogram(np.ones(64), -1.0, 1.0)).sqnr_db
    assert found == pytest.approx(10 * math.log10(1 / 3 / noise), abs=0.05)


def test_that_nothing_is_predicted_of_nothing_and_of_no_noise():
    zeros = Histogram(np.ones(2), -1.0, 1.0, zeros=1.0)
    assert predicted("integer", zeros, width=8, frac_width=4).sqnr_db is None
    # Zero becomes one.
    assert predicted("binary", zeros).sqnr_db is None
    some = Histogram(np.ones(8), -1.0, 1.0)
    assert predicted("binary_residual", some, residual_sign=False).sqnr_db is None


@for_each(("sizes", "block"), [([1, 4], 4), ([-1], 256), ([2, -1], 512), ([-1, -1, -1], 1 << 16)])
def test_that_a_block_has_the_product_of_its_sizes(sizes, block):
    fields = {"width": 7, "exponent_width": 8, "exponent_bias": 127, "block_size": sizes}
    assert predicted("block_fp", Histogram(np.ones(8), -1.0, 1.0), **fields).block == block


def test_that_a_larger_block_keeps_less_of_a_tensor_with_tails():
    counts = 1e6 * np.exp(-np.abs(np.linspace(-12, 12, 512)))
    found = [
        predicted("mxint", Histogram(counts, -12.0, 12.0), width=6, block_size=n).sqnr_db for n in (4, 64)
    ]
    assert found[0] > found[1] + 3


def test_that_impossible_parameters_are_refused():
    with pytest.raises(WorkbenchError):
        predicted("log", Histogram(np.ones(8), -1.0, 1.0), width=1)


def test_that_the_levels_of_a_block_format_share_one_exponent():
    # The largest value is 1; a block of the smaller half would have finer levels.
    found = predicted("mxint", Histogram(np.ones(64), -0.25, 1.0), width=4)
    steps = np.diff(found.levels)
    assert steps.min() == steps.max()
