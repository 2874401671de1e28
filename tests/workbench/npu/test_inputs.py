"""Inputs of a file, and inputs that are drawn where none are given."""

import os

import numpy as np
from PIL import Image

from tests.problems import refused
from workbench.npu.inputs import drawn_inputs, read_samples
from workbench.npu.program import Tensor


def test_that_drawn_inputs_span_their_type_and_are_always_the_same():
    tensors = [Tensor(kind, (50, 40)) for kind in ("int8", "uint8", "int32", "bool", "float32")]
    first, again = drawn_inputs(tensors), drawn_inputs(tensors)
    for tensor, values, other in zip(tensors, first, again, strict=True):
        assert (values.dtype, values.shape) == (np.dtype(tensor.dtype), (50, 40))
        assert np.array_equal(values, other)
    assert (first[0].min(), first[0].max()) == (-128, 127)
    assert (first[1].min(), first[1].max()) == (0, 255)
    assert first[2].min() < -(1 << 29)
    assert 0.4 < first[3].mean() < 0.6
    assert abs(float(first[4].mean())) < 0.2
    assert 0.8 < float(first[4].std()) < 1.2


def test_that_last_inputs_of_a_sequence_may_be_of_its_first_step_alone(tmp_path):
    tokens, cache = np.arange(3, dtype=np.float32)[:, None], np.ones((1, 2), np.float32)
    np.savez(tmp_path / "in.npz", in0=tokens, in1=cache)
    tensors = of((1,), (1, 2))
    steps = read_samples(tmp_path / "in.npz", tensors, sequence=True)
    assert [[one.tolist() for one in step] for step in steps] == [[[0], [[1, 1]]], [[1]], [[2]]]
    with refused("inputs-do-not-fit"):
        read_samples(tmp_path / "in.npz", tensors)
    np.savez(tmp_path / "in.npz", in0=tokens, in1=np.stack([cache] * 3))
    steps = read_samples(tmp_path / "in.npz", tensors, sequence=True)
    assert [len(step) for step in steps] == [2, 2, 2]


def of(*shapes, dtype="float32"):
    return [Tensor(dtype, shape) for shape in shapes]


def test_that_inputs_of_a_file_are_taken_by_name_or_in_order(tmp_path):
    given = [np.arange(6, dtype=np.int8).reshape(2, 3), np.ones(4, np.float32)]
    np.savez(tmp_path / "in.npz", in1=given[1], in0=given[0], other=given[0])
    (taken,) = read_samples(tmp_path / "in.npz", of((2, 3), (4,)))
    assert [values.dtype for values in taken] == [np.int8, np.float32]
    assert all(map(np.array_equal, taken, given))
    assert len(read_samples(tmp_path / "in.npz", of((2, 3)))[0]) == 1
    for named in ({"b": given[0], "a": given[1]}, None):
        np.savez(tmp_path / "in.npz", *(given if named is None else ()), **(named or {}))
        (taken,) = read_samples(tmp_path / "in.npz", of((2, 3), (4,)))
        assert all(map(np.array_equal, taken, given))


def test_that_an_axis_of_samples_makes_several(tmp_path):
    values = np.arange(24, dtype=np.float32)
    for shape, count in (((4, 1, 2, 3), 4), ((4, 2, 3), 4), ((1, 2, 3), 1), ((2, 3), 1), ((4, 6), 1)):
        array = values[: np.prod(shape)].reshape(shape)
        np.save(tmp_path / "in.npy", array)
        samples = read_samples(tmp_path / "in.npy", of((1, 2, 3)))
        assert len(samples) == count, shape
        if shape != (4, 6):
            assert samples[-1][0].shape == (1, 2, 3)
            assert np.array_equal(samples[-1][0].ravel(), array.ravel()[-6:])
    np.savez(tmp_path / "in.npz", values.reshape(4, 6), np.ones((4, 2)), labels=np.arange(4))
    samples = read_samples(tmp_path / "in.npz", of((1, 6), (2,)))
    assert [[one.shape for one in inputs] for inputs in samples] == [[(1, 6), (2,)]] * 4
    np.savez(tmp_path / "in.npz", values.reshape(4, 6), np.ones((3, 2)))
    with refused("inputs-do-not-fit"):
        read_samples(tmp_path / "in.npz", of((1, 6), (2,)))


def test_that_pictures_become_inputs(tmp_path):
    for number in range(2):
        Image.new("RGB", (9, 7), (number, 0, 255)).save(tmp_path / f"{number}.png")
    samples = read_samples(tmp_path, of((1, 3, 4, 4)), "size=4,mean=0,std=1")
    assert [inputs[0].shape for inputs in samples] == [(1, 3, 4, 4)] * 2
    assert samples[0][0][0, 2].max() == 1.0
    for text, code in (("", "pictures-preprocess-missing"), ("size=5", "preprocess-shape-mismatch")):
        with refused(code):
            read_samples(tmp_path, of((1, 3, 4, 4)), text)
    (tmp_path / "none").mkdir()
    with refused("pictures-missing"):
        read_samples(tmp_path / "none", of((1, 3, 4, 4)), "size=4")


def test_that_files_without_the_inputs_are_refused(tmp_path):
    np.savez(tmp_path / "in.npz", in0=np.ones(1))
    with refused("inputs-missing"):
        read_samples(tmp_path / "in.npz", of((1,), (1,), (1,)))
    np.save(tmp_path / "one.npy", np.ones(1))
    with refused("inputs-missing"):
        read_samples(tmp_path / "one.npy", of((1,), (1,)))
    (tmp_path / "bad.npz").write_bytes(b"PK\3\4nothing")
    with refused("inputs-not-readable"):
        read_samples(tmp_path / "bad.npz", of((1,)))
    os.mkfifo(tmp_path / "pipe.npz")
    with refused("inputs-not-readable") as caught:
        read_samples(tmp_path / "pipe.npz", of((1,)))
    assert "Errno" not in caught.value.infos[0].message
