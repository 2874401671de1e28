"""Calibration samples for the networks of the tests whose inputs are not [1, 3, 8, 8]."""

import torch


def _samples(*shapes, count=16):
    generator = torch.Generator().manual_seed(7)
    for index in range(count):
        yield tuple(torch.randn(s, generator=generator) + (index % 2 - 0.5) / 2 for s in shapes)


def pictures_12():
    yield from _samples((1, 3, 12, 12))


def pairs():
    yield from _samples((1, 3, 8, 8), (1, 3, 8, 8))


def sequences_4():
    yield from _samples((1, 4, 16))


def sequences_8():
    yield from _samples((1, 8, 16))


def signals_32():
    yield from _samples((1, 32))


def rows_8():
    yield from _samples((1, 4, 8))


def row_6():
    yield from _samples((1, 6))


def numbers_and_rows():
    for index, (rows,) in enumerate(_samples((1, 5, 16))):
        yield (torch.arange(index, index + 5)[None] % 12, rows)
