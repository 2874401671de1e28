"""Ranges by methods: what each takes, who wins, and what is searched once."""

import numpy as np
import pytest

from tests.fakes.projects import make_project
from tests.for_each import for_each
from workbench.analysis import ranges
from workbench.analysis.histogram import Grid, Histogram, Scheme
from workbench.analysis.ranges import METHODS_BY_ID, MethodRanges, call_ranges
from workbench.project import edits
from workbench.project.model import DataSource, Preprocess
from workbench.results import CalibrateResult, TensorRange, save_result

BYTE = Scheme(-128, 127)


def bell(low=-8.0, high=8.0, bins=2048):
    """A normal distribution, seen far into its tails."""
    middle = np.linspace(low, high, bins + 1)
    middle = (middle[1:] + middle[:-1]) / 2
    return Histogram(np.rint(1e6 * np.exp(-(middle**2) / 2)), low, high)


def row(node, **fields):
    given = {
        "id": f"obs_{node}",
        "node": node,
        "op": "aten.conv2d.default",
        "module": "body.conv",
        "kind": "activation",
        "index": 0,
        "minimum": -1.0,
        "maximum": 1.0,
        "p_low": -1.0,
        "p_high": 1.0,
        "dtype": "int8",
        "qmin": -128,
        "qmax": 127,
        "scale": 0.01,
        "zero_point": 3,
        "observer": "minmax",
        "searched": (0.02, 5),
        **fields,
    }
    return TensorRange(**given)


def arrays(*histograms):
    return {
        "histogram": np.stack([h.counts for h in histograms]),
        "edges": np.array([[h.low, h.high] for h in histograms]),
    }


def test_that_the_extremes_are_widened_to_zero():
    take = METHODS_BY_ID["minmax"].range
    assert take(Histogram(np.ones(4), -2.0, 3.0), BYTE) == (-2.0, 3.0)
    assert take(Histogram(np.ones(4), 1.0, 3.0), BYTE) == (0.0, 3.0)
    assert take(Histogram(np.ones(4), -3.0, -1.0), BYTE) == (-3.0, 0.0)


def test_that_the_percentile_leaves_half_of_the_rest_on_each_side():
    low, high = METHODS_BY_ID["percentile"].range(Histogram(np.ones(100), -10.0, 10.0), BYTE)
    assert (low, high) == pytest.approx((-9.999, 9.999), rel=1e-9)
    assert METHODS_BY_ID["percentile"].range(Histogram(np.ones(9), 1.0, 2.0), BYTE)[0] == 0.0


@pytest.mark.parametrize(
    "scheme", [Scheme(-8, 7), BYTE, Scheme(-8, 7, symmetric=True)], ids=["4", "8", "symmetric"]
)
@pytest.mark.parametrize("count", [12, pytest.param(36, marks=pytest.mark.slow)])
def test_that_the_least_error_is_found_to_a_hundredth(count, scheme):
    histogram = bell()
    low, high = METHODS_BY_ID["mse"].range(histogram, scheme)
    found = histogram.noise(scheme.grid(low, high))
    best = min(
        histogram.noise(scheme.grid(-a, b if not scheme.symmetric else a))
        for a in np.linspace(1.0, 8.0, count)
        for b in (np.linspace(1.0, 8.0, count) if not scheme.symmetric else [a])
    )
    assert found <= best * 1.01
    assert -8.0 <= low < 0.0 < high <= 8.0
    assert found < histogram.noise(scheme.grid(-8.0, 8.0))


def test_that_of_equal_errors_the_widest_range_is_taken():
    scheme = Scheme(-32767, 32767, symmetric=True, eps=2.0**-6)
    assert METHODS_BY_ID["mse"].range(bell(), scheme)[1] == pytest.approx(8.0)


def test_that_a_range_without_any_error_is_the_widest():
    zeros = Histogram(np.ones(2), -1.0, 1.0, zeros=1.0)
    assert METHODS_BY_ID["mse"].range(zeros, BYTE) == (-1.0, 1.0)


def spikes(*counts):
    """A histogram from 0 to 8 with counts in the first two, the 256th and the last of its bins."""
    bins = np.zeros(2048)
    bins[[0, 1, 255, 2047]] = counts
    return Histogram(bins, 0.0, 8.0)


def test_that_a_thousandth_of_the_values_may_be_clipped_and_no_more():
    """The 256 levels of a byte tell the first two bins apart if 256 bins are taken, to 1.0."""
    take = METHODS_BY_ID["kl"].range
    assert take(spikes(900, 98, 1, 1), BYTE) == (0.0, 1.0)
    assert take(spikes(900, 97, 1, 2), BYTE) == (0.0, 8.0)


def test_that_of_equal_divergences_the_narrowest_range_is_taken():
    assert METHODS_BY_ID["kl"].range(spikes(1000, 0, 0, 0), BYTE) == (0.0, 1.0)


def test_that_a_side_without_values_stays_at_zero():
    low, high = METHODS_BY_ID["mse"].range(Histogram(np.ones(512), 0.0, 4.0), BYTE)
    assert low == 0.0
    assert high == pytest.approx(4.0, rel=0.01)


def test_that_divergence_is_for_8_bits_and_clips_at_most_a_thousandth():
    take = METHODS_BY_ID["kl"].range
    assert take(bell(), Scheme(-128, 128)) is None
    low, high = take(bell(), BYTE)
    assert 3.29 <= high < 8.0
    assert low == -high
    half = Histogram(bell().counts[1024:], 0.0, 8.0)
    assert take(half, BYTE)[0] == 0.0
    assert 3.29 <= take(half, BYTE)[1] < 8.0


def test_that_divergence_takes_the_least_of_all_thresholds():
    histogram = bell()
    sizes = ranges._sizes(histogram, 8.0)
    assert sizes.sum() == pytest.approx(histogram.counts.sum())
    assert sizes[:256].sum() == pytest.approx(histogram.counts[896:1152].sum(), rel=0.01)
    taken = METHODS_BY_ID["kl"].range(histogram, BYTE)[1]
    allowed = [last for last in range(128, 2049, 16) if sizes[last:].sum() <= 0.001 * sizes.sum()]
    least = min(allowed, key=lambda last: ranges._divergence(sizes, last, 128))
    assert taken == pytest.approx(8.0 * least / 2048)


def test_that_values_of_one_sign_have_all_levels_of_an_asymmetric_grid():
    ends = np.linspace(-12.0, 12.0, 2049)
    laplace = Histogram(np.rint(1e6 * np.exp(-abs(ends[1:] + ends[:-1]) / 2)), -12.0, 12.0)
    half = Histogram(laplace.counts[1024:], 0.0, 12.0)

    def least(histogram, levels):
        sizes = ranges._sizes(histogram, 12.0)
        limit = 0.001 * sizes.sum()
        allowed = [last for last in range(levels, 2049, 16) if sizes[last:].sum() <= limit]
        best = min(allowed, key=lambda last: ranges._divergence(sizes, last, levels))
        return pytest.approx(12.0 * best / 2048)

    take = METHODS_BY_ID["kl"].range
    assert least(half, 128) != least(half, 256)
    assert take(laplace, BYTE)[1] == least(laplace, 128)
    assert take(half, BYTE)[1] == least(half, 256)
    assert take(half, Scheme(-127, 127, symmetric=True))[1] == least(half, 128)


def test_that_divergence_is_that_of_kullback_and_leibler():
    sizes = np.array([4.0, 0.0, 1.0, 3.0, 2.0, 2.0])
    # Clipped to four bins of two levels: [4, 0, 1, 7] becomes [4, 0] and [2, 2].
    p, q = np.array([4, 1, 7]) / 12, np.array([4, 2, 2]) / 8
    assert ranges._divergence(sizes, 4, 2) == pytest.approx(float((p * np.log(p / q)).sum()))


def test_that_a_stored_histogram_is_that_of_the_tensors_row():
    stored = arrays(bell(), Histogram(np.ones(2048), 1.0, 2.0))
    found = ranges.histogram_of(row("a", index=1, zeros=0.25, mean_square=3.0), stored)
    assert (found.low, found.high, found.zeros, found.mean_square) == (1.0, 2.0, 0.25, 3.0)
    assert ranges.histogram_of(row("a"), stored).zeros == 0.0
    assert ranges.histogram_of(row("a", index=2), stored) is None
    assert ranges.histogram_of(row("a"), {}) is None
    assert ranges.histogram_of(row("a"), {"histogram": stored["histogram"]}) is None
    assert ranges.histogram_of(row("a"), arrays(Histogram(np.zeros(4), 0.0, 1.0))) is None


def test_that_a_tensor_that_was_never_reached_has_no_grid():
    assert ranges.observed_grid(row("a")) == Grid(0.01, 3, -128, 127)
    assert ranges.observed_grid(row("a", scale=0.0)) is None
    assert ranges.observed_grid(row("a", scale=float("inf"))) is None


def test_that_the_scheme_is_that_of_the_tensors_observer():
    found = ranges.scheme_of(row("a", symmetric=True, eps=2.0**-12, dtype="uint8", qmin=0))
    assert found == Scheme(0, 127, True, 2.0**-12, True)
    assert not ranges.scheme_of(row("a")).is_unsigned


def test_that_every_method_says_what_it_would_do():
    tensor, histogram = row("a"), bell()
    found = {choice.method: choice for choice in ranges.choices(tensor, histogram)}
    assert list(found) == ["histogram", "minmax", "percentile", "mse", "kl"]
    assert found["histogram"].grid == Grid(0.02, 5, -128, 127)
    assert found["histogram"].minimum == pytest.approx(-133 * 0.02)
    assert found["minmax"].sqnr_db == histogram.sqnr_db(BYTE.grid(-8.0, 8.0))
    assert (found["minmax"].minimum, found["minmax"].maximum) == (-8.0, 8.0)
    assert found["mse"].clipped == histogram.clipped(found["mse"].grid) > 0
    wide = row("a", qmin=-32767, qmax=32767, searched=(0.0, 0))
    assert "kl" not in {c.method for c in ranges.choices(wide, histogram)}
    assert ranges.choice_of(wide, histogram, "histogram") is None
    assert ranges.choice_of(row("a", searched=None), histogram, "histogram").grid.scale == 0.01


def test_that_the_second_grid_of_a_tensor_is_no_row_of_its_own():
    first, weight = row("x"), row("w", kind="weight", module="fc")
    second = row("obs_x", id="obs_2", dtype="uint8")
    called = row("y", op="call_module", origin="conv")
    rows = [first, weight, second, called]
    assert ranges.activations(rows) == [first]
    by_id = {each.id: each for each in rows}
    titles = [ranges.title_of(each, by_id) for each in rows]
    assert titles == ["x", "fc weight", "x \u2192 uint8", "conv \u2192 int8"]
    assert ranges.title_of(row("w", kind="weight", module=""), {}) == "aten.conv2d.default weight"


def test_that_a_search_is_done_once_for_the_same_histogram_and_scheme(monkeypatch):
    method_ranges, stored = MethodRanges(), arrays(bell(), bell(-4.0, 4.0))
    assert not method_ranges.knows(row("a"), stored, "mse")
    taken = method_ranges.range_of(row("a"), stored, "mse")
    assert method_ranges.knows(row("b"), stored, "mse")
    assert not method_ranges.knows(row("a"), stored, "kl")
    assert not method_ranges.knows(row("a", index=1), stored, "mse")
    assert not method_ranges.knows(row("a", symmetric=True), stored, "mse")
    monkeypatch.setattr(ranges, "choice_of", None)
    assert method_ranges.range_of(row("b"), stored, "mse") == taken
    monkeypatch.undo()
    method_ranges.range_of(row("a"), stored, "percentile")
    assert method_ranges.knows(row("a"), stored, "mse")
    assert -8.0 < taken[0] < 0.0 < taken[1] < 8.0


def test_that_only_so_many_searches_are_remembered(monkeypatch):
    monkeypatch.setattr(ranges, "_MOST", 2)
    method_ranges, stored = MethodRanges(), arrays(bell())
    for method in ("minmax", "percentile"):
        method_ranges.range_of(row("a"), stored, method)
    assert method_ranges.knows(row("a"), stored, "minmax")
    method_ranges.range_of(row("a"), stored, "kl")
    assert not method_ranges.knows(row("a"), stored, "minmax")
    assert method_ranges.knows(row("a"), stored, "kl")


def test_that_calibrations_own_range_stands_where_nothing_else_can_be_taken():
    method_ranges, stored = MethodRanges(), arrays(bell())
    assert method_ranges.range_of(row("a", searched=None), stored, "histogram") is None
    assert method_ranges.knows(row("a", searched=None), stored, "histogram")
    assert method_ranges.range_of(row("a", index=9), stored, "mse") is None
    assert method_ranges.knows(row("a", index=9), stored, "mse")
    assert method_ranges.range_of(row("a", qmin=-32767, qmax=32767), stored, "kl") is None
    assert method_ranges.range_of(row("a"), stored, "histogram") == pytest.approx((-2.66, 2.44))


def test_that_the_narrowest_choice_wins_and_numbers_beat_all():
    project = edits.choose_method(make_project(), "all", "", "minmax")
    project = edits.choose_method(project, "module", "body", "mse")
    project = edits.choose_method(project, "tensor", "b", "kl")
    project = edits.fix_range(project, "c", -1.0, 1.0)
    rows = [row("a"), row("b"), row("c"), row("d", module="head"), row("e", kind="weight")]
    won = {each.node: chosen.method for each, chosen in ranges.methods_of(rows, project)}
    assert won == {"a": "mse", "b": "kl", "d": "minmax"}
    assert list(ranges.methods_of(rows, make_project())) == []


def test_that_chosen_ranges_are_numbers_and_declined_ones_are_told():
    project = edits.choose_method(make_project(), "all", "", "kl")
    project = edits.fix_range(project, "c", -1.0, 2.0)
    wide = {"qmin": -32767, "qmax": 32767}
    rows = [row("a"), row("b", **wide), row("c"), row("d", index=5)]
    found, declined = ranges.chosen_ranges(rows, arrays(bell()), project, MethodRanges())
    assert set(found) == {"a", "c"}
    assert found["c"] == (-1.0, 2.0)
    assert [each.node for each, _ in declined] == ["b"]


def test_that_numbers_alone_need_no_result_of_calibration(tmp_path):
    only = edits.fix_range(make_project(), "c", -1.0, 2.0)
    assert ranges.read_chosen(only, tmp_path / "none", MethodRanges()) == ({"c": (-1.0, 2.0)}, [])


PIXELS = Preprocess(size=(8, 8), mean=(0.2,), std=(0.2,), scale=255.0)


def folded(*, fold=True, **fields):
    preprocess = PIXELS.model_copy(update={"fold": fold})
    return make_project(calibration=DataSource(spec="pics", preprocess=preprocess), **fields)


def test_that_pixels_that_are_folded_in_have_the_range_of_all_pixels(tmp_path):
    rows = (row("a"), row("x", op="placeholder"), row("y", op="placeholder"))
    save_result(CalibrateResult(samples=1, calibrated_on="", ranges=rows), tmp_path)
    np.savez(tmp_path / "arrays.npz", **arrays(bell()))
    # (0 / 255 - 0.2) / 0.2 and (255 / 255 - 0.2) / 0.2.
    found = ranges.read_chosen(folded(), tmp_path, MethodRanges())
    assert found == ({"x": pytest.approx((-1.0, 4.0))}, [])
    pinned = edits.fix_range(folded(), "x", -1.0, 1.0)
    assert ranges.read_chosen(pinned, tmp_path, MethodRanges()) == ({"x": (-1.0, 1.0)}, [])
    chosen = edits.choose_method(folded(fold=False), "all", "", "minmax")
    assert set(ranges.read_chosen(chosen, tmp_path, MethodRanges())[0]) == {"a", "x", "y"}
    plain = edits.choose_method(make_project(), "all", "", "minmax")
    assert ranges.read_chosen(plain, tmp_path, MethodRanges())[0]["a"] == (-8.0, 8.0)


def test_that_only_methods_and_folded_pixels_need_a_calibration():
    assert ranges.needs_calibration(folded()) is True
    assert ranges.needs_calibration(edits.choose_method(make_project(), "all", "", "kl")) is True
    data = make_project(calibration=DataSource(spec="data.npz"))
    for project in (folded(fold=False), make_project(), data):
        assert ranges.needs_calibration(project) is False


def test_that_a_histogram_that_changes_is_another_search():
    method_ranges, plain = MethodRanges(), arrays(bell())
    method_ranges.range_of(row("a"), plain, "mse")
    for changed in ({"zeros": 0.5}, {"mean_square": 2.0}, {"scale": 0.5}, {"zero_point": 1}):
        assert not method_ranges.knows(row("a", **changed), plain, "mse")


def test_that_each_call_has_the_range_of_its_own_sample():
    found = call_ranges("asym", [-1.0, 1.0, np.nan, 0.0], [3.0, 2.0, 5.0, 0.0])
    assert found.low.tolist() == [-1.0, 1.0, 0.0]
    assert found.scale[:2] == pytest.approx([4 / 255, 2 / 255])
    assert found.zero_point[:2].tolist() == [-64, -128]
    assert np.isnan(found.scale[2])
    assert np.isnan(found.zero_point[2])
    assert (found.zeros, found.tiny) == (1, 0)
    assert "1 of 3 samples" in found.warning


def test_that_symmetric_calls_have_no_zero_point():
    found = call_ranges("sym", [-1.0, -4.0], [3.0, 2.0])
    assert found.scale == pytest.approx([3 / 127, 4 / 127])
    assert found.zero_point.tolist() == [0, 0]
    assert found.warning == ""


def test_that_ranges_the_accelerator_does_not_take_are_counted():
    found = call_ranges("sym", [0.0, 0.0, -1e-9], [1e-12, 1.0, 1e30])
    assert found.tiny == 1 + 0 + 1
    assert np.isnan(found.scale).tolist() == [True, False, True]
    assert "2 of 3 samples" in found.warning


def test_that_scales_have_reciprocals_above_two_to_the_minus_31():
    found = call_ranges("sym", [0.0, 0.0], [127.0 * 2**30, 127.0 * 2**31])
    assert found.tiny == 1
    assert np.isnan(found.scale).tolist() == [False, True]
    found = call_ranges("asym", [0.0, 0.0], [255.0 * 2**30, 255.0 * 2**31])
    assert found.tiny == 1
    assert np.isnan(found.scale).tolist() == [False, True]


@for_each(("mode", "steps"), [("sym", 127), ("asym", 255)])
def test_that_the_largest_reciprocal_of_a_scale_is_511_times_two_to_the_24(mode, steps):
    least = np.float32(1) / np.float32(511 * 2**24)
    most = least * np.float32(steps)
    below = np.nextafter(np.nextafter(most, np.float32(0)), np.float32(0))
    found = call_ranges(mode, [0.0, 0.0], [most, below])
    assert np.isnan(found.scale).tolist() == [False, True]
    assert np.float32(1) / found.scale[0] == 511 * 2**24


def test_that_sizes_are_the_counts_of_absolute_values():
    from workbench.analysis.ranges import _sizes

    counts = np.random.default_rng(3).integers(0, 50, 64).astype(float)
    for low, high in ((-2.0, 2.0), (0.0, 2.0), (-2.0, 0.0)):
        histogram = Histogram(counts, low, high)
        sizes = _sizes(histogram, 2.0)
        assert sizes.sum() == pytest.approx(counts.sum())
        edges = np.linspace(0.0, 2.0, 33)
        coarse = sizes.reshape(32, -1).sum(1)
        middles = (histogram.edges[1:] + histogram.edges[:-1]) / 2
        wanted, _ = np.histogram(np.abs(middles), edges, weights=counts)
        assert coarse == pytest.approx(wanted)
    single = np.full(2048, 10.0)
    single[0] = 100.0
    few = _sizes(Histogram(single, 0.0, 2.0, zeros=50.0 / single.sum()), 2.0)
    assert few[:2] == pytest.approx([50.0, 10.0])
    zeros = _sizes(Histogram(counts, 0.0, 2.0, zeros=0.5), 2.0)
    assert zeros[0] == 0.0
    assert zeros[1:] == pytest.approx(_sizes(Histogram(counts, 0.0, 2.0), 2.0)[1:])
