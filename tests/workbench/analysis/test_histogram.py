"""What a histogram predicts, against values drawn as it says and against sums by hand."""

import math

import numpy as np
import pytest

from tests.for_each import for_each
from workbench.analysis.histogram import Grid, Histogram, Scheme


def uniform(low, high, bins=8, **fields):
    return Histogram(np.ones(bins), low, high, **fields)


def values_of(histogram, each=2000):
    """Return values spread evenly in each bin, as many in each as it counts, and weights."""
    edges = np.linspace(histogram.low, histogram.high, histogram.counts.size + 1)
    inside = (np.arange(each) + 0.5) / each
    values = edges[:-1, None] + inside * np.diff(edges)[:, None]
    return values.ravel(), np.repeat(histogram.counts, each)


def noise_by_hand(histogram, grid):
    values, weights = values_of(histogram)
    codes = np.clip(np.rint(values / grid.scale) + grid.zero_point, grid.qmin, grid.qmax)
    errors = (grid.scale * (codes - grid.zero_point) - values) ** 2
    return float((errors * weights).sum() / weights.sum())


def test_that_only_a_histogram_with_width_and_counts_is_known():
    assert uniform(0, 1).is_known
    assert not uniform(1, 1).is_known
    assert not Histogram(np.zeros(4), 0, 1).is_known
    assert Histogram(np.array([0.5]), 0, 1).is_known


def test_that_quantiles_are_linear_inside_a_bin():
    histogram = Histogram(np.array([1.0, 0.0, 3.0, 4.0]), -1.0, 3.0)
    found = [histogram.quantile(share) for share in (0.0, 0.0625, 0.125, 0.25, 0.75, 1.0)]
    assert found == pytest.approx([-1.0, -0.5, 0.0, 1 + 1 / 3, 2.5, 3.0])


def test_that_a_coarser_histogram_counts_the_same_values():
    histogram = Histogram(np.arange(8.0), 0.0, 4.0, 0.5, 2.0)
    coarse = histogram.coarser(4)
    assert coarse.counts.tolist() == [1.0, 5.0, 9.0, 13.0]
    assert (coarse.low, coarse.high, coarse.zeros, coarse.mean_square) == (0.0, 4.0, 0.5, 2.0)
    for most in (8, 9, 3, 5):
        assert histogram.coarser(most) is histogram


def test_that_draws_are_as_many_as_asked_and_as_the_histogram_has_them():
    histogram = Histogram(np.array([1.0, 3.0]), 1.0, 3.0)
    drawn = histogram.draws(1000)
    assert drawn.shape == (1000,)
    assert ((drawn < 2).sum(), (drawn >= 2).sum()) == (250, 750)
    assert np.sort(drawn)[0] == pytest.approx(1.002)
    assert np.array_equal(drawn, histogram.draws(1000))
    assert not np.array_equal(drawn, np.sort(drawn))


def test_that_draws_have_the_share_of_exact_zeros():
    histogram = Histogram(np.array([4.0, 4.0, 8.0, 4.0]), -2.0, 2.0, zeros=0.25)
    drawn = histogram.draws(400)
    assert (drawn == 0).sum() == 100
    assert (drawn < -1).sum() == 80
    assert (np.abs(drawn[drawn != 0] - 0.5) < 0.5).sum() == 60
    assert uniform(-1, 1, zeros=2.0).draws(10).tolist() == [0.0] * 10
    assert Histogram(np.zeros(2), -1.0, 1.0).draws(3).tolist() == [0.0] * 3
    # One value of four stands in the middle, also where a unit has less than one value.
    assert uniform(0.0, 4.0).draws(1).tolist() == pytest.approx([2.0])
    assert Histogram(np.array([1.0]), 0.0, 4.0).draws(1).tolist() == [2.0]


def test_that_zeros_are_taken_from_the_bins_around_zero():
    histogram = Histogram(np.array([4.0, 2.0, 2.0, 2.0, 10.0]), -2.5, 2.5, zeros=0.25)
    drawn = histogram.draws(2000)
    drawn = drawn[drawn != 0]
    counts = np.histogram(drawn, 5, (-2.5, 2.5))[0] / drawn.size * 15
    assert counts == pytest.approx([4, 0, 0, 1, 10], abs=0.02)


def test_that_values_more_than_half_a_step_out_of_reach_are_clipped():
    grid = Grid(1.0, 0, -2, 4)
    assert uniform(-2.5, 4.5).clipped(grid) == 0.0
    assert uniform(0.0, 9.0).clipped(grid) == pytest.approx(0.5)
    assert uniform(-7.5, 2.5).clipped(grid) == pytest.approx(0.5)
    assert uniform(-7.5, 9.5).clipped(grid) == pytest.approx(10 / 17)
    assert uniform(6.0, 9.0).clipped(grid) == 1.0
    assert uniform(3.0, 3.0).clipped(grid) == 0.0


def test_that_the_signal_is_the_mean_square():
    assert uniform(0.0, 3.0).signal() == pytest.approx(3.0)
    assert uniform(-1.0, 2.0).signal() == pytest.approx(1.0)
    assert uniform(0.0, 3.0, mean_square=7.0).signal() == 7.0
    assert Histogram(np.zeros(4), 0.0, 1.0).signal() == 0.0
    halves = Histogram(np.array([2.0, 2.0]), -1.0, 1.0, zeros=0.5)
    assert halves.signal() == pytest.approx(0.5 / 3)


@for_each("grid", [Grid(0.25, 0, -8, 7), Grid(0.1, -3, -8, 7), Grid(1.0, 2, 0, 5), Grid(0.01, 0, -128, 127)])
def test_that_noise_is_the_mean_squared_error_of_rounding_and_clipping(grid):
    for histogram in (uniform(-2.0, 3.0), Histogram(np.array([5.0, 1.0, 0.0, 2.0]), -1.5, 2.0)):
        assert histogram.noise(grid) == pytest.approx(noise_by_hand(histogram, grid), rel=1e-3)


def test_that_the_noise_of_several_grids_is_that_of_each():
    histogram, grids = uniform(-2.0, 3.0), [Grid(0.25, 0, -8, 7), Grid(0.5, 3, -8, 7)]
    together = histogram.noises(np.array([g.scale for g in grids]), np.array([g.low for g in grids]), 15)
    assert together == pytest.approx([histogram.noise(g) for g in grids])
    assert Histogram(np.zeros(4), 0.0, 1.0).noise(grids[0]) == 0.0


def test_that_zeros_make_no_noise():
    plain, half = uniform(-1.0, 1.0, 2), uniform(-1.0, 1.0, 2, zeros=0.5)
    grid = Grid(0.25, 0, -8, 7)
    assert half.noise(grid) == pytest.approx(plain.noise(grid) / 2)


def test_that_zeros_outside_of_the_bins_are_in_none_of_them():
    for low, high in ((0.1, 2.1), (-2.1, -0.1)):
        drawn = uniform(low, high, 2, zeros=0.5).draws(400)
        values = drawn[drawn != 0]
        assert values.size == 200
        assert (values < (low + high) / 2).sum() == 100
    plain, half = uniform(-0.5, 0.5, 2), uniform(-0.5, 0.5, 2, zeros=0.5)
    grid = Grid(0.125, 0, -8, 7)
    assert half.noise(grid) == pytest.approx(plain.noise(grid) / 2)


@for_each(
    ("low", "high", "kept"),
    [(-2.0, 4.0, [100, 0, 100]), (-6.0, 0.0, [100, 100, 0]), (0.0, 6.0, [0, 100, 100])],
)
def test_that_zeros_are_taken_from_the_bin_that_has_them(low, high, kept):
    drawn = Histogram(np.full(3, 5.0), low, high, zeros=1 / 3).draws(300)
    assert np.histogram(drawn[drawn != 0], 3, (low, high))[0].tolist() == kept


def test_that_zeros_at_the_high_end_are_taken_from_the_bins_beside():
    # Ten of twelve are zeros, of which the last two bins hold six.
    found = Histogram(np.array([6.0, 0.0, 5.0, 1.0]), -4.0, 0.0, zeros=10 / 12).draws(1200)
    values = found[found != 0.0]
    assert values.size == 200
    assert values.max() <= -3.0


def test_that_without_signal_or_without_noise_there_is_no_ratio():
    grid = Grid(0.125, 0, -128, 127)
    assert uniform(-1.0, 1.0, mean_square=0.0).sqnr_db(grid) is None
    assert uniform(-1.0, 1.0, 2, zeros=1.0, mean_square=1.0).sqnr_db(grid) is None


def test_that_sqnr_is_ten_times_the_logarithm_of_signal_over_noise():
    histogram, grid = uniform(-1.0, 1.0), Grid(0.125, 0, -128, 127)
    noise = 0.125**2 / 12
    assert histogram.noise(grid) == pytest.approx(noise)
    assert histogram.sqnr_db(grid) == pytest.approx(10 * math.log10(1 / 3 / noise))
    assert uniform(1.0, 1.0).sqnr_db(grid) is None
    assert uniform(-1.0, 1.0, 2, zeros=1.0).sqnr_db(grid) is None


def test_that_a_grid_reaches_from_its_least_to_its_greatest_integer():
    grid = Grid(0.5, 3, -8, 7)
    assert (grid.low, grid.high) == (-5.5, 2.0)


@for_each(
    ("scheme", "ends", "scale", "zero_point"),
    [
        (Scheme(-128, 127), (-1.0, 3.0), 4 / 255, -64),
        (Scheme(-128, 127), (1.0, 3.0), 3 / 255, -128),
        (Scheme(-128, 127), (-3.0, -1.0), 3 / 255, 127),
        (Scheme(-128, 127), (0.0, 0.0), 2.0**-16, -128),
        (Scheme(-128, 127, symmetric=True), (-1.0, 3.0), 3 / 127.5, 0),
        (Scheme(-128, 127, symmetric=True), (-3.0, 1.0), 3 / 127.5, 0),
        (Scheme(0, 255, symmetric=True, is_unsigned=True), (-1.0, 3.0), 3 / 127.5, 127),
        (Scheme(-32767, 32767, symmetric=True, eps=2.0**-12), (-1.0, 1.0), 2.0**-12, 0),
    ],
)
def test_that_a_scheme_makes_a_grid_of_a_range(scheme, ends, scale, zero_point):
    grid = scheme.grid(*ends)
    assert grid.scale == pytest.approx(scale)
    assert (grid.zero_point, grid.qmin, grid.qmax) == (zero_point, scheme.qmin, scheme.qmax)


def test_that_nothing_known_is_nothing_clipped():
    grid = Grid(1.0, 0, -1, 1)
    assert Histogram(np.zeros(4), -100.0, 100.0).clipped(grid) == 0.0
    assert Histogram(np.ones(4), 3.0, 3.0).clipped(grid) == 0.0
    assert Histogram(np.ones(4), -100.0, 100.0).clipped(grid) > 0.9


def test_that_zeros_at_an_end_are_taken_from_the_bins_beside():
    # Ten of twelve are zeros, of which the first two bins hold six.
    found = Histogram(np.array([1.0, 5.0, 0.0, 6.0]), 0.0, 4.0, zeros=10 / 12).draws(1200)
    values = found[found != 0.0]
    assert values.size == 200
    assert values.min() >= 3.0
