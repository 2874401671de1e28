"""Number formats against their grids, written out value by value from their definitions.

The definitions: fixed point, IEEE-like and MASE's minifloats, OCP's E4M3, E5M2 and MX scale rule
(``OCP Microscaling Formats v1.0``), E2M1 of NVFP4.
"""

import math

import numpy as np
import pytest

from tests.for_each import for_each
from workbench.targets.formats.parameters import read
from workbench.targets.formats.schemes import spec_of
from workbench.targets.formats.values import placed

RNG = np.random.default_rng(5)
# Values of every magnitude that the formats below have, and beyond.
VALUES = np.concatenate(
    [RNG.choice((-1.0, 1.0), 600) * 2.0 ** RNG.uniform(-18, 12, 600), RNG.normal(0, 2, 200), [0.0]]
)


def on(scheme, rows, **parameters):
    """Return rows on the grid of a format, one block per row."""
    given = read(scheme, spec_of(scheme).parameters, parameters, "data")
    return placed(np.asarray(rows, np.float64), scheme, given)


def nearest(values, grid):
    """Return the nearest of the values of a sorted grid that is symmetric or starts at zero.

    In the middle of two it is the one with the even code, counted from zero.
    """
    grid = np.asarray(sorted(set(grid)))
    odd = (np.arange(grid.size) - int(np.searchsorted(grid, 0.0))) % 2
    distances = np.abs(grid - np.asarray(values, np.float64).reshape(-1, 1))
    nearest_ones = distances == distances.min(1, keepdims=True)
    chosen = np.where(nearest_ones, odd, 2).argmin(1)
    return grid[chosen].reshape(np.shape(values))


def with_middles(grid):
    """Return values around a grid: the grid, the middle of every two, and beyond its ends."""
    grid = np.asarray(sorted(set(grid)))
    return np.concatenate([grid, (grid[1:] + grid[:-1]) / 2, [grid[0] * 2 - 1, grid[-1] * 2 + 1]])


def assert_on_grid(scheme, grid, **parameters):
    for values in (VALUES, with_middles(grid)):
        found = on(scheme, values.reshape(-1, 1), **parameters).reshape(-1)
        np.testing.assert_array_equal(found, nearest(values, grid), f"{scheme} {parameters}")


@for_each("scheme", ["integer", "fixed", "logicnets"])
@for_each(("width", "frac"), [(8, 4), (6, 0), (5, 7), (7, None), (2, 1)])
def test_that_fixed_point_has_steps_of_its_fraction(scheme, width, frac):
    if frac is None and scheme != "integer":
        return
    step = 2.0 ** -(width // 2 if frac is None else frac)
    grid = [n * step for n in range(-(2 ** (width - 1)), 2 ** (width - 1))]
    assert_on_grid(scheme, grid, width=width, frac_width=frac)
    unsigned = [n * step for n in range(2**width)]
    if scheme == "integer":
        assert_on_grid(scheme, unsigned, width=width, frac_width=frac, is_signed=False)


def test_that_floors_go_down():
    found = on("integer_floor", VALUES.reshape(-1, 1), width=6, frac_width=2).reshape(-1)
    np.testing.assert_array_equal(found, np.clip(np.floor(VALUES * 4) / 4, -8, 7.75))
    same = on("integer", VALUES.reshape(-1, 1), width=6, frac_width=2, floor=True).reshape(-1)
    np.testing.assert_array_equal(same, found)


def both_signs(grid):
    return [*grid, *(-value for value in grid)]


def floats(exponents, fraction, bias):
    """Return the values of floats: subnormal ones with exponent field 0, no infinity, no NaN."""
    parts = range(2**fraction)
    small = [m * 2.0 ** (1 - bias - fraction) for m in parts]
    return both_signs(
        [*small, *((1 + m / 2**fraction) * 2.0 ** (e - bias) for e in range(1, 2**exponents) for m in parts)]
    )


@for_each(("width", "exponent", "bias"), [(8, 4, 7), (8, 4, None), (6, 3, 5), (5, 2, 0), (7, 2, None)])
def test_that_minifloats_have_the_values_of_their_fields(width, exponent, bias):
    known = 2 ** (exponent - 1) - 1 if bias is None else bias
    fields = {"width": width, "exponent_width": exponent, "exponent_bias": bias}
    fraction = width - exponent - 1
    assert_on_grid("minifloat_ieee", floats(exponent, fraction, known), **fields)
    grid = both_signs(
        [m / 2**fraction * 2.0 ** (e - known) for e in range(2**exponent) for m in range(2**fraction)]
    )
    assert_on_grid("minifloat_denorm", grid, **fields)


@for_each(("width", "bias"), [(6, None), (5, 9), (4, 0)])
def test_that_logarithms_are_rounded_where_powers_of_two_are_kept(width, bias):
    most = 2 ** (width - 1) - 1
    known = 2 ** (width - 2) - 1 if bias is None else bias
    found = on("log", VALUES.reshape(-1, 1), width=width, exponent_bias=bias).reshape(-1)
    for value, got in zip(VALUES, found, strict=True):
        if value == 0:
            assert got == 0
            continue
        power = min(max(round(math.log2(abs(value))), -known), most - known)
        assert got == math.copysign(2.0**power, value)


def test_that_one_bit_keeps_the_sign():
    values = np.array([[-2.0], [-0.1], [0.0], [0.1], [3.0]])
    assert on("binary", values, bipolar=True).reshape(-1).tolist() == [-1, -1, 1, 1, 1]
    assert on("binary", values, bipolar=False).reshape(-1).tolist() == [0, 0, 0, 1, 1]


@for_each(("means", "levels"), [(None, 1), (None, 3), ([2.0, -0.5], 2)])
def test_that_residual_levels_add_up(means, levels):
    parts = means or [2 * m / (levels * (levels + 1)) for m in range(levels, 0, -1)]
    found = on("binary_residual", VALUES.reshape(-1, 1), levels=levels, means=means).reshape(-1)
    for value, got in zip(VALUES, found, strict=True):
        total = 0.0
        for part in parts:
            total += abs(part) if value - total >= 0 else -abs(part)
        assert got == pytest.approx(total)
    kept = on("binary_residual", VALUES.reshape(-1, 1), levels=levels, residual_sign=False)
    np.testing.assert_array_equal(kept.reshape(-1), VALUES)


@for_each("scaled", [True, False])
def test_that_three_values_are_left_beyond_seven_tenths_of_the_mean(scaled):
    for row in RNG.normal(0, 3, (20, 9)):
        mean = sum(map(abs, row)) / 9
        kept = [abs(v) for v in row if abs(v) > 0.7 * mean]
        size = sum(kept) / len(kept) if scaled else 1.0
        wanted = [math.copysign(size, v) if abs(v) > 0.7 * mean else 0.0 for v in row]
        found = on("ternary", [row], scaling_factor=scaled)
        np.testing.assert_allclose(found[0], wanted, rtol=1e-12)
    # Seven tenths of the mean of 7 and 13 is 7, which is not beyond it.
    assert on("ternary", [[-7.0, 13.0]], scaling_factor=scaled)[0, 0] == 0.0
    assert on("ternary", np.zeros((1, 4)), scaling_factor=scaled).tolist() == [[0.0] * 4]


ROWS = [
    *(RNG.normal(0, 2.0**k, 4) for k in range(-20, 16)),
    np.zeros(4),
    np.array([4.0, 1, 0, -3]),
    np.array([4.0, 2.0**-5, 0.01, -3]),
]


def exponent_of(row):
    """Return floor(log2) of the largest magnitude, from Python's own floats."""
    largest = max(map(abs, row))
    return math.frexp(largest)[1] - 1 if largest else None


def in_steps(row, step, low, high):
    return [min(max(round(value / step), low), high) * step for value in row]


@for_each(("width", "exponent", "bias"), [(7, 8, 127), (4, 3, 3), (5, 4, None)])
def test_that_a_block_shares_the_exponent_of_its_largest_value(width, exponent, bias):
    known = 2 ** (exponent - 1) - 1 if bias is None else bias
    most = 2 ** (width - 1) - 1
    fields = {"width": width, "exponent_width": exponent, "exponent_bias": bias}
    for row in ROWS:
        top = exponent_of(row)
        power = min(max(-9999 if top is None else top + 1, -known), 2**exponent - 1 - known)
        wanted = in_steps(row, 2.0 ** (power - width + 1), -most, most)
        assert on("block_fp", [row], block_size=[1, 4], **fields).tolist() == [wanted]


@for_each(("width", "bits"), [(8, 8), (4, 3), (6, 4)])
def test_that_mx_integers_are_scaled_by_a_power_of_two(width, bits):
    limit, most = 2 ** (bits - 1) - 1, 2 ** (width - 1)
    for row in ROWS:
        top = exponent_of(row)
        power = min(max(-9999 if top is None else top, -limit), limit)
        wanted = in_steps(row, 2.0 ** (power + 2 - width), -most, most - 1)
        assert on("mxint", [row], width=width, scale_bits=bits).tolist() == [wanted]


@for_each(("width", "exponent"), [(8, 3), (4, 5)])
def test_that_mx_integers_of_the_hardware_have_an_exponent_in_twos_complement(width, exponent):
    half, most = 2 ** (exponent - 1), 2 ** (width - 1)
    for row in ROWS:
        top = exponent_of(row)
        power = min(max(-9999 if top is None else top, -half), half - 1)
        wanted = in_steps(row, 2.0 ** (power + 2 - width), -most, most - 1)
        found = on("mxint_hardware", [row], width=width, exponent_width=exponent, parallelism=[1, 4])
        assert found.tolist() == [wanted]


LARGEST = {(4, 3): 448.0, (5, 2): 57344.0}


@for_each(("exponent", "fraction", "bits"), [(4, 3, 8), (5, 2, 8), (2, 3, 8), (3, 2, 8), (2, 1, 4)])
def test_that_mx_floats_have_the_values_of_their_elements_times_a_scale(exponent, fraction, bits):
    bias = 2 ** (exponent - 1) - 1
    grid = floats(exponent, fraction, bias)
    largest = LARGEST.get((exponent, fraction), max(grid))
    grid = [value for value in grid if abs(value) <= largest]
    top = math.frexp(largest)[1] - 1
    limit = 2 ** (bits - 1) - 1
    for row in ROWS:
        shared = exponent_of(row)
        power = min(max(-9999 if shared is None else shared - top, -limit), limit)
        wanted = nearest(row / 2.0**power, grid) * 2.0**power
        fields = {"exponent_width": exponent, "frac_width": fraction, "scale_bits": bits}
        np.testing.assert_array_equal(on("mxfp", [row], **fields)[0], wanted)


@for_each(("width", "exponent", "bits"), [(8, 4, 8), (6, 2, 3), (6, 2, 11)])
def test_that_minifloats_of_a_block_share_a_bias(width, exponent, bits):
    fraction, top = width - exponent - 1, 2**exponent - 1
    for row in ROWS:
        shared = exponent_of(row)
        if shared is None:
            assert not on(
                "block_minifloat",
                [row],
                width=width,
                exponent_width=exponent,
                exponent_bias_width=bits,
                block_size=[1, 4],
            ).any()
            continue
        bias = min(max(top - shared, 0), 2**bits - 1)
        found = on(
            "block_minifloat",
            [row],
            width=width,
            exponent_width=exponent,
            exponent_bias_width=bits,
            block_size=[1, 4],
        )
        np.testing.assert_array_equal(found[0], nearest(row, floats(exponent, fraction, bias)))


@for_each(("width", "bits"), [(6, 8), (4, 3)])
def test_that_logarithms_of_a_block_share_a_bias(width, bits):
    top = 2 ** (width - 1) - 1
    for row in ROWS:
        largest = max(map(abs, row))
        found = on("block_log", [row], width=width, exponent_bias_width=bits, block_size=[1, 4])[0]
        ceiling = math.ceil(math.log2(largest)) if largest else -9999
        bias = min(max(top - ceiling, 0), 2**bits - 1)
        for value, got in zip(row, found, strict=True):
            power = min(max(round(math.log2(abs(value))), -bias), top - bias) if value else 0
            assert got == (math.copysign(2.0**power, value) if value else 0.0)


def test_that_nvfp4_scales_blocks_by_e4m3_and_the_tensor_by_its_largest():
    grid = both_signs([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    scales = [value for value in floats(4, 3, 7) if abs(value) <= 448]
    # Scales of normal blocks, and subnormal ones of small blocks beside large ones.
    for spread in (0.0, 1.0):
        rows = RNG.normal(0, 1, (28, 16)) * 2.0 ** (-spread * np.arange(28).reshape(-1, 1))
        rows[3] = 0
        whole = np.abs(rows).max() / (6 * 448)
        found = on("nvfp4", rows)
        for row, got in zip(rows, found, strict=True):
            scale = float(nearest(np.abs(row).max() / 6 / whole, scales)) * whole
            wanted = nearest(row / scale, grid) * scale if scale else np.zeros(16)
            np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert not on("nvfp4", np.zeros((2, 16))).any()
