"""Data that is damaged, huge or of another kind: a message each, little memory, nothing started."""

import io
import os
import resource
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from tests.for_each import for_each
from tests.problems import refused
from workbench.engine.data.arrays import read_arrays
from workbench.engine.data.labels import read_labels
from workbench.engine.data.pictures import read_pictures
from workbench.engine.data.text import read_text
from workbench.errors import WorkbenchError
from workbench.project import sources
from workbench.project.model import DataSource, Preprocess, Tokenization
from workbench.project.sources import data_reference
from workbench.results import TensorSpec

SPEC = TensorSpec(name="x", shape=(1, 3), dtype="float32")
PICTURE = TensorSpec(name="x", shape=(1, 3, 8, 8), dtype="float32")
PREPROCESS = Preprocess(size=(8, 8), mean=(0.0,), std=(1.0,))


def samples(folder, name):
    source = DataSource(spec=name)
    reference = data_reference(name, folder, "calibration")
    return list(read_arrays(reference, source, [SPEC], "calibration"))


def pictures(folder):
    source = DataSource(spec="pictures", preprocess=PREPROCESS)
    reference = data_reference("pictures", folder, "calibration")
    return list(read_pictures(reference, source, [PICTURE], "calibration"))


def test_that_a_picture_of_another_format_starts_no_program(tmp_path):
    (tmp_path / "pictures").mkdir()
    path = tmp_path / "pictures" / "a.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(x) print\n")
    with refused("picture-unreadable"):
        pictures(tmp_path)


def test_that_a_picture_of_too_many_pixels_is_refused(tmp_path):
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    Image.new("1", (30_000, 3_000)).save(tmp_path / "pictures" / "a.png")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with refused("picture-unreadable"):
        pictures(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


@pytest.mark.slow
@for_each(("form", "mode", "side"), (("WEBP", "L", 5600), ("JPEG", "CMYK", 6400)))
def test_that_a_picture_whose_decoder_takes_more_memory_has_fewer_pixels(form, mode, side, tmp_path):
    (tmp_path / "pictures").mkdir()
    Image.new(mode, (side, side)).save(tmp_path / "pictures" / "a.png", form)
    with refused("picture-unreadable"):
        pictures(tmp_path)
    Image.new(mode, (side, 10)).save(tmp_path / "pictures" / "a.png", form)
    assert pictures(tmp_path)


def test_that_a_pipe_in_the_place_of_a_picture_does_not_hang(tmp_path):
    (tmp_path / "pictures").mkdir()
    os.mkfifo(tmp_path / "pictures" / "a.png")
    with refused("picture-unreadable"):
        pictures(tmp_path)


def test_that_a_folder_with_too_many_files_is_refused(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.png").touch()
    with refused("data-folder-too-large"):
        sources.pictures(tmp_path, 5)


def test_that_a_cut_array_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
        archive.writestr("x.npy", (tmp_path / "x.npy").read_bytes()[:-10])
    with refused("data-unreadable"):
        samples(tmp_path, "a.npz")


def test_that_an_array_that_claims_to_be_huge_takes_no_memory(tmp_path):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 100000000000), }"
    body = header.ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body.encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with refused("data-unreadable"):
        samples(tmp_path, "a.npz")


def test_that_bfloat16_is_read_and_a_sparse_tensor_is_refused(tmp_path):
    torch.save(torch.ones(2, 3, dtype=torch.bfloat16), tmp_path / "a.pt")
    assert len(samples(tmp_path, "a.pt")) == 2
    torch.save(torch.eye(3).to_sparse(), tmp_path / "b.pt")
    with refused("data-unreadable"):
        samples(tmp_path, "b.pt")


def test_that_a_pickle_in_an_array_file_is_not_run(tmp_path):
    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save({"x": Harmful()}, tmp_path / "a.pt")
    np.save(tmp_path / "b.npy", np.array([Harmful()], object), allow_pickle=True)
    np.savez(tmp_path / "c.npz", x=np.array([Harmful()], object))
    for name in ("a.pt", "b.npy", "c.npz"):
        with refused("data-unreadable"):
            samples(tmp_path, name)
    assert not (tmp_path / "ran").exists()


@for_each("labels", [np.array([[1.5, np.inf]]), np.array([np.nan]), np.array(["a"])])
def test_that_labels_that_are_no_finite_numbers_are_refused(tmp_path, labels):
    np.save(tmp_path / "labels.npy", labels)
    with refused("labels-unreadable"):
        read_labels(DataSource(spec="x.npz", labels="labels.npy"), tmp_path, "evaluation.data")


@pytest.mark.parametrize("kind", ["device", "fifo"])
def test_that_a_device_or_a_pipe_has_no_digest(tmp_path, kind):
    from workbench.pipeline.keys import Digests

    path = tmp_path / "weights.pt"
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    with pytest.raises(WorkbenchError) as caught:
        Digests().of(path)
    assert caught.value.codes == ("file-unreadable",)


@for_each(("dtype", "size"), [("<f2", 2), ("<f8", 8)])
def test_that_labels_are_bounded_by_what_they_become(tmp_path, monkeypatch, dtype, size):
    monkeypatch.setattr("workbench.engine.data.labels._MAX_LABELS", 100)
    np.savez(tmp_path / "labels.npz", labels=np.zeros(100, dtype))
    source = DataSource(spec="x.npz", labels="labels.npz")
    assert read_labels(source, tmp_path, "evaluation").count == 100
    np.savez(tmp_path / "labels.npz", labels=np.zeros(101, dtype))
    with refused("labels-unreadable"):
        read_labels(source, tmp_path, "evaluation")


@for_each("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_that_a_repeated_number_takes_no_memory(tmp_path, dtype):
    torch.save({"x": torch.zeros(1, dtype=dtype).expand(4, 400_000_000)}, tmp_path / "x.pt")
    with refused("data-unreadable"):
        samples(tmp_path, "x.pt")


def test_that_rows_of_bfloat16_are_read_as_float32(tmp_path):
    torch.save({"x": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)}, tmp_path / "x.pt")
    rows = [sample.inputs[0].reshape(-1).tolist() for sample in samples(tmp_path, "x.pt")]
    assert rows == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_that_a_jpeg_of_many_scans_is_refused(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    stream = io.BytesIO()
    Image.new("RGB", (64, 64)).save(stream, "JPEG", progressive=True)
    plain = stream.getvalue()
    (folder / "a.jpg").write_bytes(plain)
    assert len(pictures(tmp_path)) == 1
    scan = plain[plain.rfind(b"\xff\xda") : -2]
    (folder / "a.jpg").write_bytes(plain[:-2] + scan * 100 + b"\xff\xd9")
    with refused("picture-unreadable"):
        pictures(tmp_path)


def text(folder, content, at_once=1, **settings):
    (folder / "a.txt").write_bytes(content)
    source = DataSource(spec="a.txt", tokens=Tokenization(**settings))
    reference = data_reference("a.txt", folder, "calibration")
    spec = TensorSpec(name="token", shape=(1, at_once), dtype="int64")
    return read_text(reference, source, [spec], "calibration", folder)


def test_that_a_text_of_the_greatest_size_takes_little_memory(tmp_path):
    """Its tokens were Python integers, and its 16 million calls a list: 1.8 GB."""
    tracemalloc.start()
    samples_of_text = text(tmp_path, b"x" * (17 << 20))
    first = next(iter(samples_of_text))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (samples_of_text.count, first.label) == ((16 << 20) - 1, ord("x"))
    assert peak < 300 << 20


@pytest.mark.parametrize("size", [4, 9, 10, 11, 25])
@pytest.mark.parametrize("at_once", [1, 3])
def test_that_the_number_of_steps_of_a_text_is_that_of_its_samples(tmp_path, size, at_once):
    steps = text(tmp_path, bytes(range(size)), at_once, length=10)
    assert steps.count == len(list(steps))
