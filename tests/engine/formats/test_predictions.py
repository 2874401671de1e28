"""What the window predicts of formats without torch, against the formats' own functions."""

import json

import numpy as np
import pytest
import torch

from tests.engine.formats.test_target import PARAMETERS
from tests.engine.formats.vectors import FOLDER
from workbench.analysis.histogram import Histogram
from workbench.engine.formats.schemes import quantize
from workbench.project.configs import FormatConfig
from workbench.targets.formats.parameters import read
from workbench.targets.formats.schemes import spec_of
from workbench.targets.formats.values import placed, predict

pytestmark = pytest.mark.engine
ALL = sorted(PARAMETERS)


def blocks(scheme):
    """Return the elements of a block of a format's parameters here."""
    return {"mxint": 32, "mxfp": 32, "nvfp4": 16}.get(scheme, 4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("scheme", ALL)
def test_that_predicted_values_are_those_of_the_format(scheme, scale):
    given = read(scheme, spec_of(scheme).parameters, PARAMETERS[scheme], "data")
    rows = torch.randn(64, blocks(scheme), generator=torch.Generator().manual_seed(3)) * scale
    rows[0] = 0.0
    expected = quantize(rows, scheme, PARAMETERS[scheme])
    found = placed(rows.double().numpy(), scheme, given)
    np.testing.assert_allclose(found, expected.double().numpy(), rtol=2e-7, atol=0)


def test_that_the_stored_numbers_are_those_of_the_formats():
    cases = json.loads((FOLDER / "textbook.json").read_text())["cases"]
    with np.load(FOLDER / "textbook.npz") as stored:
        for case in cases:
            made = quantize(torch.from_numpy(stored[f"{case['id']}/x"]), case["scheme"], case["params"])
            assert np.array_equal(made.numpy(), stored[f"{case['id']}/y"]), case["id"]


@pytest.mark.parametrize("scheme", ALL)
def test_that_the_predicted_sqnr_is_near_that_of_independent_values(scheme):
    x = torch.randn(512, 512, generator=torch.Generator().manual_seed(1))
    counts, edges = np.histogram(x.numpy(), 2048)
    histogram = Histogram(counts.astype(float), float(edges[0]), float(edges[-1]))
    config = FormatConfig(scheme=scheme, parameters=PARAMETERS[scheme])
    made = quantize(x, scheme, PARAMETERS[scheme])
    measured = 10 * torch.log10(x.square().sum() / (x - made).square().sum())
    predicted = predict(histogram, config, "data")
    assert predicted.sqnr_db == pytest.approx(float(measured), abs=0.3)
    assert predicted.levels.min() >= -abs(float(edges[0])) * 2


def test_that_levels_are_the_representable_values():
    histogram = Histogram(np.ones(64), -1.0, 1.0)
    config = FormatConfig(scheme="integer", parameters={"width": 4, "frac_width": 2})
    levels = predict(histogram, config, "data").levels
    assert levels.tolist() == [n / 4 for n in range(-4, 5)]
    config = FormatConfig(scheme="mxfp", parameters={"exponent_width": 2, "frac_width": 1})
    assert predict(histogram, config, "data").levels.size == 13


def test_that_exact_zeros_are_drawn_as_zeros():
    drawn = Histogram(np.ones(8), -1.0, 1.0, zeros=0.25).draws(1000)
    assert (drawn == 0).sum() == 250
    assert np.array_equal(drawn, Histogram(np.ones(8), -1.0, 1.0, zeros=0.25).draws(1000))
