"""Inputs of a file, and inputs that are drawn where none are given."""

import numpy as np

from tests.problems import refused
from workbench.npu.inputs import drawn_inputs, read_inputs
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


def test_that_inputs_of_a_file_are_taken_in_order(tmp_path):
    given = [np.arange(6, dtype=np.int8).reshape(2, 3), np.ones(4, np.float32)]
    np.savez(tmp_path / "in.npz", in1=given[1], in0=given[0], other=given[0])
    taken = read_inputs(tmp_path / "in.npz", 2)
    assert [values.dtype for values in taken] == [np.int8, np.float32]
    assert all(map(np.array_equal, taken, given))
    assert len(read_inputs(tmp_path / "in.npz", 1)) == 1


def test_that_files_without_the_inputs_are_refused(tmp_path):
    np.savez(tmp_path / "in.npz", in0=np.ones(1))
    with refused("inputs-missing") as caught:
        read_inputs(tmp_path / "in.npz", 3)
    assert "in1, in2" in caught.value.infos[0].message
    np.save(tmp_path / "one.npy", np.ones(1))
    with refused("inputs-not-npz"):
        read_inputs(tmp_path / "one.npy", 1)
