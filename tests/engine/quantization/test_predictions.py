"""Predictions from stored histograms, against torchao's observers and real quantization."""

import functools
import math

import numpy as np
import pytest
import torch
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver

from tests.engine import networks
from tests.engine.in_process import ALL_SAMPLES, project
from tests.for_each import for_each
from workbench.analysis.histogram import Histogram, Scheme
from workbench.analysis.ranges import METHODS, METHODS_BY_ID
from workbench.project.configs import Activation, Observer, QuantConfig
from workbench.project.model import DataSource
from workbench.results import load_arrays

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]

BYTE = Scheme(-128, 127)


@for_each("symmetric", [False, True])
@for_each(
    ("dtype", "qmin", "qmax", "eps"),
    [(torch.int8, -128, 127, 2**-16), (torch.int16, -32767, 32767, 2**-12), (torch.uint8, 0, 255, 2**-16)],
)
def test_that_grids_equal_those_of_torchaos_observers(dtype, qmin, qmax, eps, symmetric):
    generator = np.random.default_rng(4)
    scheme = Scheme(qmin, qmax, symmetric, eps, dtype is torch.uint8)
    kind = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    for size in 10.0 ** generator.uniform(-7, 6, 300):
        low, high = np.sort(generator.normal(size=2) * size).tolist()
        observer = MinMaxObserver(dtype=dtype, qscheme=kind, quant_min=qmin, quant_max=qmax, eps=eps)
        observer(torch.tensor([low, high]))
        scale, zero_point = observer.calculate_qparams()
        grid = scheme.grid(low, high)
        assert (grid.scale, grid.zero_point) == (float(scale), int(zero_point))


def histogram_of(x):
    counts = torch.histc(x, 2048, float(x.min()), float(x.max())).double().numpy()
    zeros = float((x == 0).float().mean())
    return Histogram(counts, float(x.min()), float(x.max()), zeros, float(x.square().mean()))


def measured(x, grid):
    y = torch.fake_quantize_per_tensor_affine(x, grid.scale, grid.zero_point, grid.qmin, grid.qmax).double()
    return 10 * math.log10(float(x.double().square().sum() / (x.double() - y).square().sum()))


@functools.cache
def drawn(kind):
    """Return values of a kind, which no test changes."""
    torch.manual_seed(5)
    x = torch.randn(200_000)
    return {
        "normal": x,
        "relu": x.relu(),
        "tails": x**3,
        "shifted": x + 3.0,
        "spike": torch.cat([x * 0.05, torch.tensor([40.0])]),
        "far": 0.07 + 0.93 * torch.rand(200_000),
        "squares": x.square(),
    }[kind]


@for_each("kind", ["normal", "relu", "tails", "shifted", "spike", "far", "squares"])
def test_that_kl_never_clips_more_than_a_thousandth_of_the_values(kind):
    x = drawn(kind)
    histogram = histogram_of(x)
    for scheme in (BYTE, Scheme(-127, 127, True)):
        low, high = METHODS_BY_ID["kl"].range(histogram, scheme)
        assert float(((x < low) | (x > high)).double().mean()) <= 0.0012
        best = scheme.grid(*METHODS_BY_ID["mse"].range(histogram, scheme))
        found = histogram.sqnr_db(scheme.grid(low, high))
        if kind in {"normal", "relu", "shifted", "far", "squares"}:
            assert found > histogram.sqnr_db(best) - (8 if kind == "squares" else 2)


@for_each("kind", ["normal", "relu", "tails", "shifted", "spike"])
@for_each("scheme", [BYTE, Scheme(-32767, 32767, True, 2**-12)])
def test_that_predicted_sqnr_is_within_1_db_for_every_method(kind, scheme):
    x = drawn(kind)
    histogram = histogram_of(x)
    for method in METHODS:
        found = method.range(histogram, scheme)
        if found is None:
            assert method.id == "kl"
            continue
        grid = scheme.grid(*found)
        assert histogram.sqnr_db(grid) == pytest.approx(measured(x, grid), abs=1.0), method.id


def test_that_the_least_squared_error_beats_every_other_method():
    x = drawn("tails")
    histogram = histogram_of(x)
    real = {m.id: measured(x, BYTE.grid(*m.range(histogram, BYTE))) for m in METHODS}
    assert max(real, key=real.get) == "mse"
    assert real["mse"] > real["minmax"] + 0.5


@for_each("lopsided", [(-1.0, 1.0), (-1.0, 1.7), (-1.7, 1.0), (0.0, 1.0)])
@for_each(
    "scheme", [BYTE, Scheme(-128, 127, symmetric=True), Scheme(-32767, 32767, symmetric=True, eps=2**-12)]
)
def test_that_the_least_squared_error_is_never_worse_than_the_extremes(scheme, lopsided):
    x = drawn("tails")
    x = torch.where(x < 0, -x * lopsided[0], x * lopsided[1])
    histogram = histogram_of(x)
    by_id = {m.id: m.range(histogram, scheme) for m in METHODS}
    assert measured(x, scheme.grid(*by_id["mse"])) >= (measured(x, scheme.grid(*by_id["minmax"])) - 0.1)


def test_that_of_equal_errors_the_widest_range_is_taken():
    """A smallest step that is larger than the range needs makes all grids the same."""
    scheme = Scheme(-32767, 32767, symmetric=True, eps=2**-6)
    by_id = {m.id: m.range(histogram_of(drawn("tails")), scheme) for m in METHODS}
    assert by_id["mse"][1] == pytest.approx(by_id["minmax"][1])


@for_each("observer", ["histogram", "minmax", "percentile", "moving_average"])
def test_that_stored_histograms_predict_the_samples_within_1_db(engine, observer):
    config = QuantConfig(activation=Activation(observer=Observer(kind=observer)))
    made = project("small", config, **ALL_SAMPLES)
    assert engine.run(made, "calibrate") == "done"
    result = engine.result(made, "calibrate")
    arrays = load_arrays(engine.path(made, "calibrate"))
    model, _ = networks.small()
    inputs = torch.cat([x for x, _ in networks.samples()])
    with torch.inference_mode():
        hidden = model.relu(model.bn(model.conv(inputs)))
    for name, values in (("x", inputs), ("relu", hidden)):
        row = next(r for r in result.ranges if r.node == name)
        histogram = Histogram(
            arrays["histogram"][row.index], *arrays["edges"][row.index].tolist(), row.zeros, row.mean_square
        )
        for part in (1.0, 0.5, 0.2):
            grid = BYTE.grid(row.minimum * part, row.maximum * part)
            assert histogram.sqnr_db(grid) == pytest.approx(measured(values, grid), abs=1.0)


def test_that_extremes_are_kept_for_each_sample_and_dropped_samples_have_none(engine):
    made = project("small", calibration=DataSource(spec="networks.py:samples", dropped=(2,)))
    assert engine.run(made, "calibrate") == "done"
    arrays = load_arrays(engine.path(made, "calibrate"))
    rows = engine.result(made, "calibrate").ranges
    kept = [x for i, (x, _) in enumerate(networks.samples()) if i != 2]
    assert arrays["samples"].tolist() == [0, 1, 3, 4, 5, 6, 7]
    assert arrays["sample_max"][0].tolist() == [float(x.max()) for x in kept]
    assert arrays["sample_min"][0].tolist() == [float(x.min()) for x in kept]
    weight = next(r for r in rows if r.kind == "weight")
    assert np.isnan(arrays["sample_max"][weight.index]).all()


def test_that_the_search_of_the_histogram_observer_is_told_beside_other_observers(engine):
    config = QuantConfig(activation=Activation(observer=Observer(kind="minmax")))
    made = project("small", config, **ALL_SAMPLES)
    assert engine.run(made, "calibrate") == "done"
    observer = HistogramObserver(
        dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine, eps=2**-16
    )
    for sample, _ in networks.samples():
        observer(sample)
    scale, zero_point = observer.calculate_qparams()
    assert engine.result(made, "calibrate").ranges[0].searched == (float(scale), int(zero_point))
