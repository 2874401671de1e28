"""Inputs are read from the usual files, and what does not fit is named before a run."""

from __future__ import annotations

import os

import numpy as np

from tests.for_each import for_each
from tests.problems import refused
from workbench.deploy.simulators.run import ones, read_samples

A = {"type": "tensor", "dtype": "float32", "shape": [1, 2, 3]}
B = {"type": "tensor", "dtype": "int8", "shape": [1, 4]}
X, Y = np.arange(6, dtype=np.float32).reshape(1, 2, 3), np.arange(4, dtype=np.int8).reshape(1, 4)


def written(folder, name, array):
    path = folder / name
    if path.suffix == ".bin":
        path.write_bytes(array.tobytes())
    else:
        np.save(path, array)
    return path


def test_that_one_file_an_input_is_one_sample(tmp_path):
    files = [written(tmp_path, "x.npy", X), written(tmp_path, "y.bin", Y)]
    ((a, b),) = read_samples(files, [A, B])
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, Y)


def test_that_several_samples_stand_along_the_first_axis(tmp_path):
    path = tmp_path / "both.npz"
    np.savez(path, x=np.concatenate([X, X + 1]), y=np.stack([Y, Y + 1]))
    (_, second) = read_samples([path], [A, B])
    np.testing.assert_array_equal(second[0], X + 1)
    np.testing.assert_array_equal(second[1], Y + 1)


@for_each("count", [1, 2, 3])
@for_each(
    ("shape", "given"),
    [([1, 4], (1, 4)), ([1, 4], (1, 1, 4)), ([2, 4], (2, 4)), ([4], (4,)), ([4], (1, 4)), ([], (1,))],
)
def test_that_any_number_of_samples_may_be_stacked(tmp_path, count, shape, given):
    spec = {"type": "tensor", "dtype": "int8", "shape": shape}
    array = np.zeros((given[0] * count, *given[1:]), np.int8)
    found = read_samples([written(tmp_path, "x.npy", array)], [spec])
    assert [sample.shape for (sample,) in found] == [tuple(shape)] * count


def test_that_a_part_of_a_sample_is_no_sample(tmp_path):
    spec = {"type": "tensor", "dtype": "int8", "shape": [2, 4]}
    with refused("simulator-input-unfit"):
        read_samples([written(tmp_path, "x.npy", np.zeros((3, 4), np.int8))], [spec])


@for_each(
    ("name", "array"),
    [
        ("x.npy", X.astype(np.float64)),
        ("x.npy", X.reshape(1, 3, 2)),
        ("x.npy", X[0]),
        ("x.bin", X[:, :1]),
        ("x.bin", X[:0]),
        ("x.npy", X[:0]),
        ("x.npy", X[:0, None]),
    ],
)
def test_that_a_wrong_type_or_shape_is_named(tmp_path, name, array):
    with refused("simulator-input-unfit") as caught:
        read_samples([written(tmp_path, name, array)], [A])
    assert name in caught.value.infos[0].message


def test_that_nothing_fits_an_input_without_elements(tmp_path):
    empty = {**A, "shape": [0, 2]}
    for name, array in (("x.npy", X), ("x.bin", X), ("x.npy", X[:0])):
        with refused("simulator-input-unfit"):
            read_samples([written(tmp_path, name, array)], [empty])


def test_that_too_few_unequal_and_unreadable_inputs_are_told(tmp_path):
    x, y = written(tmp_path, "x.npy", X), written(tmp_path, "y.npy", np.concatenate([Y, Y]))
    with refused("simulator-inputs-count"):
        read_samples([x], [A, B])
    with refused("simulator-inputs-batch"):
        read_samples([x, y], [A, B])
    with refused("simulator-input-unreadable") as caught:
        read_samples([tmp_path / "none.npy"], [A])
    assert caught.value.infos[0].message == f"none.npy cannot be read: {os.strerror(2)}."
    (tmp_path / "text.npy").write_text("no array")
    with refused("simulator-input-unreadable"):
        read_samples([tmp_path / "text.npy"], [A])
    (tmp_path / "pickle.npy").write_bytes(b"\x80\x04N.")
    with refused("simulator-input-unreadable"):
        read_samples([tmp_path / "pickle.npy"], [A])


def test_that_without_inputs_all_are_ones():
    assert [array.tolist() for array in ones([B])] == [[[1, 1, 1, 1]]]
