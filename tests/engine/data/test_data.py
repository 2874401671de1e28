"""Samples in every form, streamed and checked."""

import numpy as np
import pytest
import torch

from tests.engine.in_process import NETWORKS
from tests.for_each import for_each
from tests.problems import refused
from workbench.engine.data import open_samples
from workbench.errors import WorkbenchError
from workbench.project.model import DataSource, Preprocess
from workbench.results import TensorSpec

pytestmark = pytest.mark.engine

PICTURE = (TensorSpec(name="x", shape=(1, 3, 8, 8), dtype="float32"),)
DATA = np.arange(5 * 3 * 8 * 8, dtype=np.float32).reshape(5, 3, 8, 8)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORKS.read_text())
    return tmp_path


def read(folder, inputs=PICTURE, **fields):
    return list(open_samples(DataSource(**fields), folder, inputs, "calibration"))


@for_each("suffix", ["npy", "npz", "pt"])
@for_each("batch", [False, True])
def test_that_arrays_are_read_with_or_without_the_batch_of_one(folder, suffix, batch):
    data = DATA[:, None] if batch else DATA
    path = folder / f"data.{suffix}"
    if suffix == "npy":
        np.save(path, data)
    elif suffix == "npz":
        np.savez(path, x=data)
    else:
        torch.save(torch.from_numpy(data), path)
    samples = read(folder, spec=path.name)
    assert len(samples) == 5
    assert torch.equal(samples[3].inputs[0][0], torch.from_numpy(DATA[3]))


def test_that_labels_come_from_the_archive_or_from_a_file_of_their_own(folder):
    np.savez(folder / "a.npz", x=DATA, labels=np.arange(5))
    np.savez(folder / "b.npz", x=DATA)
    np.save(folder / "l.npy", np.arange(5)[::-1])
    assert [s.label for s in read(folder, spec="a.npz")] == [0, 1, 2, 3, 4]
    assert [s.label for s in read(folder, spec="b.npz", labels="l.npy")] == [4, 3, 2, 1, 0]


def test_that_an_array_too_many_is_told_with_the_names_of_labels(folder):
    np.savez(folder / "a.npz", image=DATA, mask=np.arange(5))
    with pytest.raises(WorkbenchError) as caught:
        read(folder, spec="a.npz")
    (info,) = caught.value.infos
    assert info.code == "data-inputs-mismatch"
    assert "1 input." in info.message
    # Both remedies work.
    for names in ({"x": DATA, "mask": np.arange(5)}, {"image": DATA, "labels": np.arange(5)}):
        np.savez(folder / "a.npz", **names)
        assert len(read(folder, spec="a.npz")) == 5


def test_that_a_limit_and_dropped_samples_are_kept_to(folder):
    np.save(folder / "a.npy", DATA)
    assert [s.index for s in read(folder, spec="a.npy", limit=2, dropped=(0, 2))] == [1, 3]


def test_that_pictures_are_sized_scaled_and_normalised_in_order(folder):
    from PIL import Image

    (folder / "pictures").mkdir()
    for name, value in (("b.png", 255), ("a.png", 0)):
        Image.new("RGB", (20, 10), (value,) * 3).save(folder / "pictures" / name)
    (folder / "pictures" / "notes.txt").write_text("no picture")
    settings = Preprocess(size=(8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)
    samples = read(folder, spec="pictures", preprocess=settings)
    assert [float(s.inputs[0].mean()) for s in samples] == [-2.0, 2.0]


def test_that_a_callable_yields_inputs_and_labels(folder):
    samples = read(folder, spec="networks.py:samples")
    assert [s.label for s in samples] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_that_several_inputs_are_matched_by_name(folder):
    two = (
        TensorSpec(name="a", shape=(1, 2), dtype="float32"),
        TensorSpec(name="b", shape=(1, 2), dtype="int64"),
    )
    np.savez(folder / "a.npz", b=np.full((3, 2), 7), a=np.zeros((3, 2), np.float32))
    first = read(folder, two, spec="a.npz")[0]
    assert first.inputs[1].tolist() == [[7, 7]]


def test_that_nan_and_inf_are_named_by_index(folder):
    data = DATA.copy()
    data[1, 0, 0, 0], data[4, 2, 1, 1] = np.nan, np.inf
    np.save(folder / "a.npy", data)
    with refused("samples-not-finite"):
        read(folder, spec="a.npy")
    assert len(read(folder, spec="a.npy", dropped=(1, 4))) == 3


REFUSED = [
    ("shape.npy", np.zeros((2, 3, 9, 9), np.float32), "data-shape-mismatch"),
    ("dtype.npy", np.zeros((2, 3, 8, 8), np.uint8), "data-dtype-mismatch"),
    ("none.npy", np.zeros((0, 3, 8, 8), np.float32), "data-empty"),
    ("scalar.npy", np.float32(3), "data-shape-mismatch"),
]


@for_each(("name", "data", "code"), REFUSED)
def test_that_data_that_does_not_fit_is_refused_before_work_starts(folder, name, data, code):
    np.save(folder / name, data)
    with refused(code):
        open_samples(DataSource(spec=name), folder, PICTURE, "calibration")


def test_that_objects_cut_files_and_wrong_counts_are_refused(folder):
    np.save(folder / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez(folder / "objects.npz", x=np.array([{}, {}]))
    torch.save({"x": object}, folder / "objects.pt")
    np.savez(folder / "two.npz", a=DATA, b=DATA)
    np.savez(folder / "labels.npz", x=DATA, labels=np.arange(4))
    np.save(folder / "whole.npy", DATA)
    (folder / "cut.npy").write_bytes((folder / "whole.npy").read_bytes()[:500])
    (folder / "empty.npz").write_bytes(b"")
    for name in (
        "objects.npy",
        "objects.npz",
        "objects.pt",
        "two.npz",
        "labels.npz",
        "cut.npy",
        "empty.npz",
        "gone.npz",
        "networks.py:nothing",
    ):
        with pytest.raises(WorkbenchError):
            read(folder, spec=name)


def test_that_a_callables_bad_sample_and_its_errors_are_placed(folder):
    with refused("data-shape-mismatch"):
        read(folder, spec="networks.py:bad_shape")
    with pytest.raises(WorkbenchError, match=r"networks\.py.*the disk with the samples is gone"):
        read(folder, spec="networks.py:bad_later")


def test_that_a_damaged_picture_is_named(folder):
    (folder / "p").mkdir()
    (folder / "p" / "x.png").write_bytes(b"\x89PNG\r\n")
    with refused("picture-unreadable"):
        read(folder, spec="p", preprocess=Preprocess(size=(8, 8)))


@pytest.mark.slow
def test_that_an_archive_is_streamed_and_not_loaded_whole(folder):
    import resource

    inputs = (TensorSpec(name="x", shape=(1, 1024, 1024), dtype="float32"),)
    np.savez(folder / "big.npz", x=np.zeros((64, 1024, 1024), np.float32))
    samples = open_samples(DataSource(spec="big.npz"), folder, inputs, "calibration")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in samples) == 64
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
