"""Scaling against Python's integers, and against the formula of TFLite."""

import numpy as np
import pytest

from workbench.npu.arithmetic import Rounding, interpolate, rescale


def exact(value, scale, shift, rounding, double_shift=0):
    """The table of roundings, in Python's integers."""
    half = 1 << shift - 1 if shift else 0
    first = 1 << 30 - double_shift if shift > 31 - double_shift else 0
    added = {
        Rounding.NATURAL: half,
        Rounding.TRUNCATE: 0 if value >= 0 else (1 << shift) - 1,
        Rounding.LOWER: 0,
        Rounding.SYMMETRIC: half - (value < 0),
        Rounding.DOUBLE: half + (first if value >= 0 else -first),
        Rounding.DOUBLE_ASYMMETRIC: half + first,
    }[rounding]
    return value * scale + added >> shift


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(("bits", "scale_bits"), [(20, 31), (31, 31), (40, 32), (47, 32), (12, 8)])
def test_that_scaling_is_exact_for_every_rounding(rounding, bits, scale_bits):
    generator = np.random.default_rng(bits)
    values = generator.integers(-(1 << bits), 1 << bits, 200)
    values[:4] = [0, -1, 1, -(1 << bits)]
    scales = generator.integers(1, 1 << scale_bits, 200)
    shifts = generator.integers(0 if bits < 40 else 30, 63 if bits < 40 else 61, 200)
    got = rescale(values, scales, shifts, rounding)
    want = [
        exact(int(v), int(s), int(n), rounding)
        for v, s, n in zip(values, scales, shifts, strict=True)
    ]
    assert got.tolist() == [max(-(1 << 63), min((1 << 63) - 1, value)) for value in want]


@pytest.mark.parametrize("double_shift", [0, 15, 20])
def test_that_double_rounding_takes_the_shift_of_operands(double_shift):
    values = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, 500)
    for shift in (8, 12, 16, 17, 31, 32, 40):
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
