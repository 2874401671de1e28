"""Inputs that are shown as pictures."""

import numpy as np
import torch

from workbench.engine.data import pictures
from workbench.engine.data.sample import Sample


def shown(*inputs):
    held = pictures.ShownInputs()
    for index, values in enumerate(inputs):
        held.add(Sample(index, (values,), None))
    return held.pictures(range(len(inputs)))


def test_that_pictures_are_the_same_whether_inputs_are_held_or_not(monkeypatch):
    inputs = [torch.randn(1, 3, 12, 16), torch.randn(1, 400, 500, 1), torch.randn(1, 1, 5, 7)]
    held = shown(*inputs)
    monkeypatch.setattr(pictures, "_HELD_BYTES", 0)
    reduced = shown(*inputs)
    assert [held[i].shape for i in range(3)] == [(12, 16, 3), (256, 320, 3), (5, 7, 3)]
    assert all(np.array_equal(held[i], reduced[i]) for i in range(3))


def test_that_the_smallest_value_is_black_and_the_largest_white():
    values = torch.full((1, 1, 4, 4), -3.0)
    values[0, 0, 1, 2] = 5.0
    (pixels,) = shown(values).values()
    assert pixels[1, 2].tolist() == [255, 255, 255]
    assert int(pixels.sum()) == 3 * 255


def test_that_what_is_no_picture_is_left_out():
    assert shown(torch.zeros(1, 8), torch.zeros(1, 7, 8, 9), torch.zeros(2, 3, 8, 8)) == {}
