"""Labels of pictures: boxes of COCO and YOLO, masks, and where preprocessing puts them."""

import json

import numpy as np
import pytest
from PIL import Image

from workbench.engine.data import open_samples
from workbench.errors import WorkbenchError
from workbench.project.model import DataSource
from workbench.project.preprocessing import preprocess_of
from workbench.results import TensorSpec

SETTINGS = (
    "size=64x48",
    "size=80,crop=64x48",
    "size=64x48,letterbox=0",
    "size=48x64,letterbox=0",
    "size=100x100,crop=40x90",
)


def write_pictures(folder):
    """Write two pictures with a white rectangle each, and its box for COCO and for YOLO."""
    for name in ("pictures", "texts"):
        (folder / name).mkdir()
    images, rows = [], []
    for number, (width, height, box) in enumerate(
        [(200, 100, (40, 20, 80, 40)), (90, 120, (30, 60, 30, 30))]
    ):
        pixels = np.zeros((height, width, 3), np.uint8)
        left, top, wide, high = box
        pixels[top : top + high, left : left + wide] = 255
        Image.fromarray(pixels).save(folder / "pictures" / f"{number}.png")
        images.append({"id": 7 + number, "file_name": f"{number}.png", "width": width, "height": height})
        rows.append({"id": 1 + number, "image_id": 7 + number, "category_id": 5, "bbox": [*box]})
        yolo = [(left + wide / 2) / width, (top + high / 2) / height, wide / width, high / height]
        text = " ".join(map(str, [0, *yolo]))
        (folder / "texts" / f"{number}.txt").write_text(text + "\n")
    content = {"images": images, "annotations": rows, "categories": [{"id": 5}]}
    (folder / "boxes.json").write_text(json.dumps(content))
    return content


def truths(folder, labels, settings):
    """Return the labels, and the pictures as the model sees them."""
    preprocess = preprocess_of(settings)
    spec = TensorSpec(name="x", shape=(1, 3, *preprocess.shown), dtype="float32")
    source = DataSource(spec="pictures", preprocess=preprocess, labels=labels)
    samples = list(open_samples(source, folder, [spec], "evaluation.data"))
    return [sample.truth for sample in samples], [sample.inputs[0][0, 0] for sample in samples]


@pytest.mark.parametrize("settings", SETTINGS)
def test_that_boxes_are_where_preprocessing_puts_their_objects(tmp_path, settings):
    write_pictures(tmp_path)
    coco, pictures = truths(tmp_path, "boxes.json", settings)
    yolo, _ = truths(tmp_path, "texts", settings)
    for ours, other, pixels in zip(coco, yolo, pictures, strict=True):
        rows, columns = np.nonzero(pixels.numpy() > 0.5)
        seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert ours["boxes"][0] == pytest.approx(seen, abs=1)
        assert other["boxes"][0] == pytest.approx(ours["boxes"][0], abs=1e-3)
        assert ours["classes"].tolist() == other["classes"].tolist() == [0]


@pytest.mark.parametrize("settings", SETTINGS)
def test_that_masks_are_where_preprocessing_puts_their_pictures(tmp_path, settings):
    write_pictures(tmp_path)
    (tmp_path / "masks").mkdir()
    for path in (tmp_path / "pictures").iterdir():
        mask = (np.array(Image.open(path).convert("L")) > 0).astype(np.uint8) * 3
        Image.fromarray(mask).save(tmp_path / "masks" / path.name)
    masks, pictures = truths(tmp_path, "masks", settings)
    for mask, pixels in zip(masks, pictures, strict=True):
        assert ((mask == 3) == (pixels.numpy() > 0.5)).mean() > 0.95
        assert 255 not in mask or "letterbox" in settings


def test_that_samples_from_arrays_take_boxes_in_the_order_of_the_file(tmp_path):
    content = {
        "images": [
            {"id": 3, "file_name": "b", "width": 40, "height": 20},
            {"id": 1, "file_name": "a", "width": 40, "height": 20},
        ],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 0, "bbox": [4, 4, 4, 4]}],
        "categories": [{"id": 0}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(content))
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 10, 20), np.float32))
    spec = TensorSpec(name="x", shape=(1, 1, 10, 20), dtype="float32")
    source = DataSource(spec="x.npy", labels="boxes.json")
    first, second = open_samples(source, tmp_path, [spec], "evaluation.data")
    assert first.truth["boxes"].tolist() == []
    assert second.truth["boxes"].tolist() == [[2, 2, 4, 4]]


@pytest.mark.parametrize("settings", ["size=32", "size=32,letterbox=0"])
def test_that_outlines_of_four_corners_keep_them(tmp_path, settings):
    write_pictures(tmp_path)
    outline = [0.25, 0.5, 0.5, 0.25, 0.75, 0.5, 0.5, 0.75]
    (tmp_path / "texts" / "1.txt").write_text(f"0 {' '.join(map(str, outline))}\n0 0.5 0.5 0.2 0.2\n")
    label = truths(tmp_path, "texts", settings)[0][1]
    (turned, upright), box = label["corners"], label["boxes"]
    left, top, right, bottom = box[0].tolist()
    middle = (left + right) / 2, (top + bottom) / 2
    expected = [[left, middle[1]], [middle[0], top], [right, middle[1]], [middle[0], bottom]]
    assert turned == pytest.approx(np.array(expected))
    left, top, right, bottom = box[1].tolist()
    expected = [[left, top], [right, top], [right, bottom], [left, bottom]]
    assert upright == pytest.approx(np.array(expected))


BAD_LINES = [
    "0 0.5 0.5 0.2",
    "a 0.5 0.5 0.2 0.2",
    "-1 0.5 0.5 0.2 0.2",
    "0 0.5 0.5 nan 0.2",
    "0 1.5 0.5 0.2 0.2",
    "0 0.5 0.5 -0.2 0.2",
    "0 0.5 0.5 0.2 0.2 0.9",
    "1e400 0 0 0 0",
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_that_a_bad_line_is_named_with_its_file(tmp_path, line):
    write_pictures(tmp_path)
    (tmp_path / "texts" / "1.txt").write_text(f"0 0.5 0.5 0.2 0.2\n{line}\n")
    with pytest.raises(WorkbenchError) as caught:
        truths(tmp_path, "texts", "size=32")
    assert caught.value.infos[0].code == "labels-unreadable"
    assert "1.txt, line 2" in caught.value.infos[0].message


@pytest.mark.parametrize(("text", "reason"), [("", "empty"), ("[1, 2,\n 3", "line 2, column 3")])
def test_that_a_file_that_is_no_json_says_where(tmp_path, text, reason):
    write_pictures(tmp_path)
    (tmp_path / "boxes.json").write_text(text)
    with pytest.raises(WorkbenchError) as caught:
        truths(tmp_path, "boxes.json", "size=32")
    assert caught.value.infos[0].code == "labels-unreadable"
    assert reason in caught.value.infos[0].message


def test_that_every_object_knows_its_place_in_the_labels(tmp_path):
    write_pictures(tmp_path)
    coco, yolo = (truths(tmp_path, labels, "size=32")[0] for labels in ("boxes.json", "texts"))
    assert [label["places"] for label in coco] == [[f"boxes.json, annotation {n}"] for n in range(2)]
    assert [label["places"] for label in yolo] == [[f"{n}.txt, line 1"] for n in range(2)]


def spoilt(content, **changes):
    return {**content, **changes}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda c: spoilt(c, annotations=[]), "labels-unreadable"),
        (lambda c: spoilt(c, images=[{"id": 7}]), "labels-unreadable"),
        (lambda c: spoilt(c, categories=[{"id": 4}]), "labels-unreadable"),
        (lambda c: spoilt(c, categories=[{"id": [4]}]), "labels-unreadable"),
        (lambda c: c["annotations"][0].update(bbox=[190, 20, 80, 40]) or c, "labels-unreadable"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3]) or c, "labels-unreadable"),
        (lambda c: c["annotations"][0].update(image_id=99) or c, "labels-unreadable"),
        (lambda c: c["images"][0].update(width=0) or c, "labels-unreadable"),
        (lambda c: c["images"][0].update(width=400) or c, "labels-size-mismatch"),
        (lambda c: c["images"][0].update(file_name="other.png") or c, "label-missing"),
    ],
)
def test_that_a_file_of_coco_that_does_not_fit_is_refused(tmp_path, change, code):
    content = write_pictures(tmp_path)
    (tmp_path / "boxes.json").write_text(json.dumps(change(content)))
    with pytest.raises(WorkbenchError) as caught:
        truths(tmp_path, "boxes.json", "size=32")
    assert caught.value.infos[0].code == code


def test_that_a_folder_without_labels_and_a_mask_in_colour_are_refused(tmp_path):
    write_pictures(tmp_path)
    (tmp_path / "none").mkdir()
    with pytest.raises(WorkbenchError) as caught:
        truths(tmp_path, "none", "size=32")
    assert caught.value.infos[0].code == "labels-unreadable"
    with pytest.raises(WorkbenchError) as caught:
        truths(tmp_path, "pictures", "size=32")
    assert caught.value.infos[0].code == "mask-unreadable"
