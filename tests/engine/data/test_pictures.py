"""Pictures become inputs by the project's settings, and in the exported script the same way."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.problems import refused
from workbench.engine.data import open_samples
from workbench.project.model import DataSource, Evaluation, Preprocess
from workbench.project.opened import OpenProject
from workbench.project.preprocessing import preprocess_of
from workbench.results import TensorSpec
from workbench.script.model_and_data import data_part

pytestmark = pytest.mark.engine

RGB, GRAY = (1, 3, 8, 8), (1, 1, 8, 8)


@pytest.fixture
def folder(tmp_path):
    """Two classes with pictures of noise, wide, high and square."""
    generator = np.random.default_rng(0)
    for name, size in (("cat/a", (20, 11)), ("cat/b", (9, 30)), ("dog/a", (12, 12))):
        path = tmp_path / "pics" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path


def read(folder, text, shape=RGB, dtype="float32", **fields):
    source = DataSource(spec="pics", preprocess=preprocess_of(text), **fields)
    spec = TensorSpec(name="x", shape=shape, dtype=dtype)
    return source, [s.inputs[0] for s in open_samples(source, folder, [spec], "calibration")]


def torchvision(path, size, crop):
    """Return pixels [H, W, C] by the formulas of torchvision's Resize(int) and CenterCrop."""
    image = Image.open(path)
    width, height = image.size
    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = size, int(size * long / short)
    sized = (new_short, new_long) if width <= height else (new_long, new_short)
    image = image.resize(sized, Image.Resampling.BILINEAR)
    top, left = (round((side - crop) / 2.0) for side in (image.height, image.width))
    return np.asarray(image.crop((left, top, left + crop, top + crop)))


def test_that_size_and_crop_are_torchvisions_resize_and_center_crop(folder):
    _, samples = read(folder, "size=10,crop=8,mean=0.5/0.4/0.3,std=0.2/0.25/0.5")
    for sample, path in zip(samples, sorted((folder / "pics").rglob("*.png")), strict=True):
        pixels = torchvision(path, 10, 8).astype(np.float32) / 255
        wanted = (pixels - np.float32([0.5, 0.4, 0.3])) / np.float32([0.2, 0.25, 0.5])
        np.testing.assert_allclose(sample[0].numpy(), wanted.transpose(2, 0, 1), atol=1e-6)


def test_that_layout_order_scale_and_dtype_decide_the_values(folder):
    _, (first, *_) = read(folder, "size=8,scale=1")
    assert first.max() > 1
    _, (swapped, *_) = read(folder, "size=8,scale=1,layout=bgr")
    assert torch.equal(swapped, first.flip(1))
    _, (last, *_) = read(folder, "size=8,scale=1", (1, 8, 8, 3))
    assert torch.equal(last, first.permute(0, 2, 3, 1))
    _, (pixels, *_) = read(folder, "size=8,dtype=uint8", dtype="uint8")
    assert torch.equal(pixels.float(), first)
    _, (signed, *_) = read(folder, "size=8,dtype=int8", dtype="int8")
    assert torch.equal(signed.float() + 128, first)
    _, (gray, *_) = read(folder, "size=8", GRAY)
    assert gray.shape == GRAY


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "code"),
    [
        ("size=9", RGB, "float32", "preprocess-shape-mismatch"),
        ("size=16,crop=9", RGB, "float32", "preprocess-shape-mismatch"),
        ("size=8,layout=rgb", GRAY, "float32", "preprocess-shape-mismatch"),
        ("size=8", (1, 4, 8, 8), "float32", "preprocess-shape-mismatch"),
        ("size=8", (1, 64), "float32", "preprocess-shape-mismatch"),
        ("size=8", RGB, "uint8", "preprocess-dtype-mismatch"),
        ("size=8,dtype=uint8", RGB, "float32", "preprocess-dtype-mismatch"),
        ("size=8,mean=1/2", RGB, "float32", "preprocess-channels-mismatch"),
    ],
)
def test_that_settings_that_do_not_fit_the_model_are_refused(folder, text, shape, dtype, code):
    with refused(code):
        read(folder, text, shape, dtype)


def test_that_the_hint_for_a_wrong_shape_is_what_fits(folder):
    with refused("preprocess-shape-mismatch") as caught:
        read(folder, "size=16,crop=9,layout=rgb", (1, 1, 8, 12))
    assert "crop=8x12" in caught.value.infos[0].hint
    assert "layout=gray" in caught.value.infos[0].hint


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("size=8,mean=0.485/0.456/0.406,std=0.229/0.224/0.225", RGB, "float32"),
        ("size=12x10,crop=8,filter=bicubic,layout=bgr,scale=1", RGB, "float32"),
        ("size=8,layout=gray,mean=0.5", GRAY, "float32"),
        ("size=8,filter=nearest", (1, 8, 8, 3), "float32"),
        ("size=8,order=last,dtype=int8", (1, 8, 8, 3), "int8"),
        ("size=8,dtype=uint8", RGB, "uint8"),
    ],
)
def test_that_the_script_reads_the_same_samples(folder, text, shape, dtype):
    source, samples = read(folder, text, shape, dtype)
    project = type("P", (), {"calibration": source, "evaluation": Evaluation()})
    names = {"HERE": Path(folder), "np": np, "torch": torch}
    exec(data_part(OpenProject(project, folder)), names)
    inputs = (torch.zeros(shape, dtype=getattr(torch, dtype)),)
    for sample, (value,) in zip(samples, names["samples"](inputs), strict=True):
        assert torch.equal(sample, value)


def test_that_labels_are_the_numbers_of_the_folders(folder):
    source = DataSource(spec="pics", preprocess=Preprocess(size=(8, 8)), labels="folders")
    spec = TensorSpec(name="x", shape=RGB, dtype="float32")
    assert [s.label for s in open_samples(source, folder, [spec], "evaluation.data")] == [0, 0, 1]
    Image.new("RGB", (8, 8)).save(folder / "pics" / "astray.png")
    with refused("labels-folders-missing"):
        list(open_samples(source, folder, [spec], "evaluation.data"))
