"""Scaling against Python's integers, and against the formula of TFLite."""

from itertools import product

import numpy as np
import pytest

from tests.for_each import for_each
from workbench.npu.arithmetic import Rounding, interpolate, magnitude, rescale
from workbench.npu.convolution import _exact_type
from workbench.npu.faults import Fault


def exact(value, scale, shift, rounding, double_shift=0):
    """The table of roundings, in Python's integers."""
    half = 1 << shift - 1 if shift else 0
    first = 1 << 30 - double_shift if 31 - double_shift < shift and double_shift <= 30 else 0
    added = {
        Rounding.NATURAL: half,
        Rounding.TRUNCATE: 0 if value >= 0 else (1 << shift) - 1,
        Rounding.LOWER: 0,
        Rounding.SYMMETRIC: half - (value < 0 < shift),
        Rounding.DOUBLE: half + (first if value >= 0 else -first),
        Rounding.DOUBLE_ASYMMETRIC: half + first,
    }[rounding]
    return value * scale + added >> shift


@for_each("rounding", Rounding)
@for_each(("bits", "scale_bits"), [(20, 31), (31, 31), (40, 32), (47, 32), (12, 8)])
def test_that_scaling_is_exact_for_every_rounding(rounding, bits, scale_bits):
    generator = np.random.default_rng(bits)
    values = generator.integers(-(1 << bits), 1 << bits, 200)
    values[:4] = [0, -1, 1, -(1 << bits)]
    scales = generator.integers(1, 1 << scale_bits, 200)
    shifts = generator.integers(0 if bits < 40 else 30, 63 if bits < 40 else 61, 200)
    got = rescale(values, scales, shifts, rounding)
    want = [exact(int(v), int(s), int(n), rounding) for v, s, n in zip(values, scales, shifts, strict=True)]
    assert got.tolist() == [max(-(1 << 63), min((1 << 63) - 1, value)) for value in want]


@for_each("double_shift", [0, 15, 20, 29, 30, 31, 40])
def test_that_double_rounding_takes_the_shift_of_operands(double_shift):
    values = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, 200)
    for shift in (1, 2, 8, 12, 16, 17, 31, 32, 40):
        got = rescale(values, 0x5A000001, shift, Rounding.DOUBLE, double_shift)
        want = [exact(int(v), 0x5A000001, shift, Rounding.DOUBLE, double_shift) for v in values]
        assert got.tolist() == want


def tflite(value, scale, shift):
    """SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT; shift counts from 31."""
    product = value * scale
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    high = abs(product + nudge) >> 31
    high = high if product + nudge >= 0 else -high
    mask = (1 << shift) - 1
    return (high >> shift) + ((high & mask) > (mask >> 1) + (high < 0))


def test_that_double_rounding_is_the_one_of_tflite():
    generator = np.random.default_rng(2)
    values = generator.integers(-(1 << 26), 1 << 26, 3000)
    for shift in (31, 32, 35, 40, 45):
        scale = int(generator.integers(1 << 30, 1 << 31))
        got = rescale(values, scale, shift, Rounding.DOUBLE)
        assert got.tolist() == [tflite(int(v), scale, shift - 31) for v in values]


def test_that_ties_go_up_with_natural_rounding():
    values = np.array([-5, -3, -1, 1, 3, 5])
    assert rescale(values, 1, 1, Rounding.NATURAL).tolist() == [-2, -1, 0, 1, 2, 3]
    assert rescale(values, 1, 1, Rounding.TRUNCATE).tolist() == [-2, -1, 0, 0, 1, 2]
    assert rescale(values, 1, 1, Rounding.LOWER).tolist() == [-3, -2, -1, 0, 1, 2]
    assert rescale(values, 1, 1, Rounding.SYMMETRIC).tolist() == [-3, -2, -1, 1, 2, 3]


def test_that_tables_of_pairs_are_interpolated():
    table = np.zeros((512, 2), np.int16)
    table[:, 0] = np.arange(-256, 256) * 128
    table[:, 1] = 128
    values = np.array([-32768, -1, 0, 1, 77, 32767])
    assert interpolate(values, table, wide=False).tolist() == [-32768, -1, 0, 1, 77, 32767]
    table[256] = 100, -3
    assert interpolate(np.array([127]), table, wide=False).tolist() == [100 + ((-381 + 64) >> 7)]
    assert interpolate(np.array([127]), table, wide=True).tolist() == [100 * 128 - 381]


@for_each("rounding", Rounding)
def test_that_scaling_is_exact_where_a_product_first_needs_more_than_64_bits(rounding):
    # Values and factors on both sides of every limit at which another way is taken.
    edges = [0, 1, (1 << 20) - 1, 1 << 20, (1 << 47) - 1, 1 << 47, (1 << 48) - 1, 1 << 48, 1 << 60]
    values = np.array([sign * edge for edge in edges for sign in (1, -1)])
    for scale in (1, 2, 1 << 13, (1 << 31) - 1, 1 << 31, (1 << 33) - 1, 1 << 33):
        for shift in (1, 19, 20, 21, 31, 32, 61, 62):
            got = rescale(values, scale, shift, rounding)
            want = [exact(int(v), scale, shift, rounding) for v in values]
            assert got.tolist() == [max(-(1 << 63), min((1 << 63) - 1, v)) for v in want]


def test_that_each_channel_has_its_own_scale_also_beyond_64_bits():
    values = np.array([[1 << 40, -(1 << 40)], [3, -3]])
    scales, shifts = np.array([1 << 30, 5]), np.array([25, 3])
    got = rescale(values, scales, shifts, Rounding.NATURAL)
    assert got.tolist() == [
        [exact(int(v), int(s), int(n), Rounding.NATURAL) for v, s, n in zip(row, scales, shifts, strict=True)]
        for row in values
    ]


def test_that_nothing_is_scaled_by_one_and_an_empty_array_stays_empty():
    values = np.array([1, -2, 3])
    assert rescale(values, 1, 0, Rounding.TRUNCATE) is values
    assert rescale(values, np.array([1, 1, 2]), 0, Rounding.NATURAL).tolist() == [1, -2, 6]
    assert rescale(values, 1, np.array([0, 1, 0]), Rounding.NATURAL).tolist() == [1, -1, 3]
    assert rescale(np.zeros(0, np.int64), 5, 3, Rounding.NATURAL).size == 0
    assert magnitude(np.array([-5, 3])) == 5
    assert magnitude(np.array([-5, 7])) == 7
    assert magnitude(np.zeros(0)) == 0


def test_that_interpolation_is_limited_to_16_bits_and_keeps_its_fraction_in_32():
    table = np.zeros((512, 2), np.int16)
    table[:, 0] = np.arange(512) - 256
    table[:, 1] = 7
    values = np.arange(-32768, 32768)
    entry, fraction = (values + 32768) // 128, values % 128
    narrow = interpolate(values, table, wide=False)
    assert np.array_equal(narrow, entry - 256 + (7 * fraction + 64) // 128)
    wide = interpolate(values, table, wide=True)
    assert np.array_equal(wide, (entry - 256) * 128 + 7 * fraction)
    table[0], table[511] = (-32768, -3000), (32767, 3000)
    ends = interpolate(np.array([-32768 + 127, 32767]), table, wide=False)
    assert ends.tolist() == [-32768, 32767]


def test_that_sums_are_added_up_in_a_type_that_holds_them_exactly():
    # Floats have 24 and 53 bits of precision.
    types = [
        _exact_type(float(1 << bits) - less) for bits, less in ((24, 1), (24, 0), (53, 1), (53, 0), (61, 0))
    ]
    assert types == [np.float32, np.float64, np.float64, np.int64, np.int64]
    with pytest.raises(Fault):
        _exact_type(float(1 << 62))


@for_each("rounding", Rounding)
def test_that_scaling_is_exact_up_to_the_largest_shift(rounding):
    values = np.array([0, 1, -1, 3 << 60, (1 << 62) + 5, -(1 << 62) - 5, (1 << 63) - 1])
    for scale, shift in product((1, 3), (61, 62, 63)):
        for chosen in (values, values[:3]):
            got = rescale(chosen, scale, shift, rounding)
            assert got.tolist() == [exact(int(v), scale, shift, rounding) for v in chosen]
