"""Labels of detectors and of segmentation: boxes of COCO and YOLO files, and masks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import Place, failure
from workbench.files import MAX_TEXT_BYTES, read_limited
from workbench.project import sources
from workbench.project.pictures import Placement, picture_size, placement, read_mask

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.errors import WorkbenchError
    from workbench.project.model import Preprocess

# How far a box may reach beyond its picture, as a share of the picture: rounding of tools.
_BEYOND = 0.02
# The most objects: each costs some hundred bytes.
_MAX_OBJECTS = 2_000_000
_MAX_SIDE = 1 << 20
_CLASS_NAMES = "classes.txt"
# The numbers of an outline with four corners.
_OUTLINE = 8


@dataclass(frozen=True)
class View:
    """How the model sees a picture.

    ``width`` and ``height`` [pixels] are those of the model's input. ``settings`` are those of a
    picture that was read from ``file``; None for samples from arrays.
    """

    width: int
    height: int
    settings: Preprocess | None = None
    file: Path | None = None

    def placed(self, size: tuple[int, int] | None, labels: str) -> Placement:
        """Return where the picture is in the model's input.

        Args:
            size: Width and height of the picture [pixels] by its labels; None if unknown.
            labels: What messages call the labels.

        Raises:
            WorkbenchError: The labels are those of a picture of another size.
        """
        if self.file is None or self.settings is None:
            if size is not None and not math.isclose(
                size[0] * self.height, size[1] * self.width, rel_tol=0.02
            ):
                raise _unlike(labels, size, f"the samples have {self.width} x {self.height}")
            return Placement(self.width, self.height)
        actual = picture_size(self.file)
        if size is not None and size != actual:
            raise _unlike(labels, size, f"{self.file.name} has {actual[0]} x {actual[1]}")
        return placement(actual, self.settings)


@dataclass(frozen=True)
class Objects:
    """The objects of a picture.

    ``boxes`` [N, 4] are left, top, right and bottom as fractions of the picture, ``classes`` [N]
    whole numbers from 0, ``crowds`` [N] whether a box holds many objects. ``size`` is the width and
    height of the picture [pixels]; None if the labels do not say it. ``corners`` [N, 4, 2] are those
    of oriented boxes, as fractions too; of the upright boxes where labels have no other. ``places``
    say where each object is in the labels.
    """

    labels: str
    boxes: np.ndarray[Any, Any]
    classes: np.ndarray[Any, Any]
    crowds: np.ndarray[Any, Any]
    corners: np.ndarray[Any, Any]
    places: tuple[str, ...]
    size: tuple[int, int] | None = None

    def truth(self, view: View) -> dict[str, Any]:
        """Return the objects as the metric takes them: boxes [N, 4] in pixels of the model's input.

        Objects outside it, such as those that were cropped, are left out.
        """
        place = view.placed(self.size, self.labels)
        boxes = self.boxes * np.tile([place.width, place.height], 2)
        boxes = boxes + np.tile([place.left, place.top], 2)
        boxes = boxes.clip(0, np.tile([view.width, view.height], 2)).astype(np.float32)
        kept = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        corners = self.corners * [place.width, place.height] + [place.left, place.top]
        return {
            "boxes": boxes[kept],
            "classes": self.classes[kept],
            "crowds": self.crowds[kept],
            "corners": corners[kept].astype(np.float32),
            "places": [place for place, is_kept in zip(self.places, kept, strict=True) if is_kept],
        }


@dataclass(frozen=True)
class Mask:
    """A picture whose pixels are classes."""

    file: Path

    def truth(self, view: View) -> np.ndarray[Any, Any]:
        """Return the class of each pixel of the model's input [H, W] (uint8); 255 for none."""
        return read_mask(self.file, view.settings, (view.width, view.height))


def read_coco(path: Path, content: Mapping[str, Any]) -> dict[str, Objects]:
    """Return the objects of each picture of a COCO file, by the name of its file.

    Classes are numbered from 0 in the order of the categories' ids.

    Raises:
        ValueError: It is not a COCO file, or a box is outside its picture.
    """
    pictures = {p["id"]: p for p in _rows(content, "images", ("id", "file_name"))}
    order = sorted(c["id"] for c in _rows(content, "categories", ("id",)))
    numbers = {name: number for number, name in enumerate(order)}
    rows: dict[Any, list[_Row]] = {name: [] for name in pictures}
    for number, row in enumerate(_rows(content, "annotations", ("image_id", "category_id", "bbox"))):
        if row["image_id"] not in rows:
            raise ValueError(f"annotation {number} names the image {row['image_id']!r}: none has it")
        if row["category_id"] not in numbers:
            raise ValueError(f"annotation {number} names the category {row['category_id']!r}")
        size = _size_of(pictures[row["image_id"]])
        box = _fractions(row["bbox"], size, f"annotation {number}")
        crowd, where = bool(row.get("iscrowd")), f"{path.name}, annotation {number}"
        rows[row["image_id"]].append((box, numbers[row["category_id"]], crowd, _corners(box), where))
    return {
        str(picture["file_name"]): _objects(
            f"{path.name}, {picture['file_name']}", rows[name], _size_of(picture)
        )
        for name, picture in pictures.items()
    }


def _rows(content: Mapping[str, Any], name: str, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = content.get(name)
    if not isinstance(rows, list) or len(rows) > _MAX_OBJECTS:
        raise ValueError(f"it has no list of {name}")
    for number, row in enumerate(rows):
        lacking = [f for f in fields if not isinstance(row, dict) or f not in row]
        if lacking:
            raise ValueError(f"row {number} of {name} has no {lacking[0]}")
        if any(isinstance(row[f], list | dict) for f in fields if f != "bbox"):
            raise ValueError(f"row {number} of {name} has a list where a name is due")
    return rows


def _size_of(picture: Mapping[str, Any]) -> tuple[int, int]:
    size = picture.get("width"), picture.get("height")
    if not all(isinstance(side, int) and 0 < side <= _MAX_SIDE for side in size):
        raise ValueError(f"the image {picture['file_name']} has no width and height")
    return size  # type: ignore[return-value]


def _fractions(box: Any, size: tuple[int, int], what: str) -> list[float]:
    """Return a box of COCO (left, top, width, height in pixels) as fractions of the picture."""
    if not isinstance(box, list) or len(box) != 4:
        raise ValueError(f"{what} has no box of four numbers")
    if not all(isinstance(side, int | float) and math.isfinite(side) for side in box):
        raise ValueError(f"{what} has a box with something that is no number")
    left, top, width, height = box
    return _inside([left / size[0], top / size[1], (left + width) / size[0], (top + height) / size[1]], what)


def _inside(box: list[float], what: str) -> list[float]:
    """Return a box that is cut at the borders of the picture.

    Raises:
        ValueError: It reaches far beyond them, or has no area.
    """
    if min(box) < -_BEYOND or max(box) > 1 + _BEYOND:
        raise ValueError(f"{what} has a box outside its picture")
    if box[2] < box[0] or box[3] < box[1]:
        raise ValueError(f"{what} has a box with a negative size")
    return [min(max(side, 0.0), 1.0) for side in box]


# Box, class, crowd, corners and place of an object.
_Row = tuple[list[float], int, bool, list[float], str]


def _corners(box: list[float]) -> list[float]:
    left, top, right, bottom = box
    return [left, top, right, top, right, bottom, left, bottom]


def _objects(labels: str, rows: list[_Row], size: tuple[int, int] | None) -> Objects:
    return Objects(
        labels,
        np.array([row[0] for row in rows], np.float64).reshape(-1, 4),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], bool),
        np.array([row[3] for row in rows], np.float64).reshape(-1, 4, 2),
        tuple(row[4] for row in rows),
        size,
    )


def read_folder(folder: Path) -> dict[str, Objects | Mask]:
    """Return the labels of a folder by the path of their files without the ending.

    Texts of YOLO have a line for each object: its class, and centre, width and height of its box,
    or the corners of its outline, as fractions of the picture. Pictures are masks.

    Raises:
        ValueError: A line is something else, or the folder holds no labels or both kinds.
    """
    files = sources.files_below(folder, sources.LABEL_SUFFIXES)
    files = [file for file in files if file.name != _CLASS_NAMES]
    texts = [file for file in files if file.suffix.lower() == ".txt"]
    if not files:
        raise ValueError("the folder holds neither texts of YOLO nor masks (.png)")
    if texts and len(texts) != len(files):
        raise ValueError("the folder holds both texts and pictures")
    names = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    if not texts:
        return {name: Mask(file) for name, file in zip(names, files, strict=True)}
    return {name: _yolo(file) for name, file in zip(names, files, strict=True)}


def _yolo(file: Path) -> Objects:
    text = read_limited(file, MAX_TEXT_BYTES).decode("utf-8", errors="replace")
    lines = enumerate(text.splitlines(), 1)
    rows = [_row(line.split(), f"{file.name}, line {n}") for n, line in lines if line.strip()]
    return _objects(file.name, rows, None)


def _row(words: list[str], what: str) -> _Row:
    """Return the object of a line of YOLO: class, centre and size, or class and outline."""
    try:
        number, *values = (float(word) for word in words)
    except ValueError:
        raise ValueError(f"{what}: {' '.join(words)[:60]!r} is not a row of numbers") from None
    if not all(map(math.isfinite, (number, *values))) or number != int(number) or number < 0:
        raise ValueError(f"{what}: {words[0][:20]!r} is no class, or a number is not finite")
    if len(values) == 4:
        x, y, width, height = values
        box = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    elif len(values) >= 6 and len(values) % 2 == 0:
        box = [min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2])]
    else:
        raise ValueError(f"{what} has {len(words)} numbers: a box needs five, class first")
    box = _inside(box, what)
    return box, int(number), False, values if len(values) == _OUTLINE else _corners(box), what


def _unlike(labels: str, size: tuple[int, int], actual: str) -> WorkbenchError:
    return failure(
        f"The labels in {labels} are for a picture of {size[0]} x {size[1]}, but {actual} pixels.",
        "Give the pictures that were labelled, with preprocess, or labels of what the model sees.",
        Place(kind="option", id="evaluation.data.labels"),
        code="labels-size-mismatch",
    )


def count_objects(values: Iterator[Objects | Mask]) -> int:
    """Return the number of boxes and masks."""
    return sum(len(v.classes) if isinstance(v, Objects) else 1 for v in values)
