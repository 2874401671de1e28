"""What is known of each sample: its class, or any other value that a metric compares with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.data.objects import Mask, Objects, count_objects, read_coco, read_folder
from workbench.engine.data.sample import Sample
from workbench.errors import Place, failure
from workbench.files import MAX_TEXT_BYTES, read_limited
from workbench.npz import open_npz
from workbench.project import sources

if TYPE_CHECKING:
    from workbench.project.model import DataSource

# Names of arrays of a .npz that are no inputs.
LABEL_NAMES = ("labels", "label", "y", "targets", "target")
_TEXT_HINT = (
    "Correct them: a file of COCO, a .json with a list or an object by file name, or a folder of YOLO "
    "texts or of masks."
)
_ARRAY_HINT = (
    "Save them with numpy.save or numpy.savez, without Python objects, one row for each sample, as a "
    "list in a .json file, as a file of COCO, or as a folder of YOLO texts."
)
# The most labels: they become whole numbers of 8 bytes, and some copies of them.
_MAX_LABELS = 8_000_000


@dataclass(frozen=True)
class Labels:
    """The labels of the samples of a source.

    ``values`` has one for each sample in order, or one for each file by its name. ``are_classes``
    is whether each is the number of a class, ``has_places`` whether they are objects or masks of
    pictures: samples without files have those in the order of their files.
    """

    name: str
    values: Sequence[Any] | Mapping[str, Any]
    are_classes: bool
    has_places: bool = False

    @cached_property
    def _ordered(self) -> Sequence[Any]:
        values = self.values
        return list(values.values()) if isinstance(values, Mapping) else values

    @property
    def count(self) -> int | None:
        """The number of samples; None where files are named, of which some may be left out."""
        return None if isinstance(self.values, Mapping) else len(self.values)

    def of(self, sample: Sample, option: str) -> tuple[int | None, Any]:
        """Return the class of a sample, None without one, and its label as it was given.

        Raises:
            WorkbenchError: It has none.
        """
        if isinstance(self.values, Mapping) and not (self.has_places and not sample.file):
            value = self._of_file(sample, self.values, option)
        elif sample.index < len(self.values):
            value = self._ordered[sample.index]
        else:
            raise _without_label(f"Sample {sample.index}", self.name, option)
        return (int(value), int(value)) if self.are_classes else (None, value)

    def _of_file(self, sample: Sample, values: Mapping[str, Any], option: str) -> Any:
        file = Path(sample.file)
        for name in (sample.file, file.name, file.with_suffix("").as_posix(), file.stem):
            if name and name in values:
                return values[name]
        raise _without_label(sample.file or f"Sample {sample.index}", self.name, option)


def _without_label(what: str, file: str, option: str) -> Exception:
    return failure(
        f"{what} has no label in {file}.",
        "Give a label for every sample: in their order, or by the names of picture files.",
        Place(kind="option", id=f"{option}.labels"),
        code="label-missing",
    )


def read_labels(source: DataSource, folder: Path, option: str) -> Labels | None:
    """Return the labels of a source; None if it has none.

    They come from the labels file, from the samples' .npz, or from the folders of pictures. Arrays
    have samples along their first axis. Several arrays of a labels file give a dictionary for each
    sample. A .json file has a list with a value for each sample, or an object with one for each
    file name, or is one of COCO. A folder has texts of YOLO or masks.

    Raises:
        WorkbenchError: They cannot be read.
    """
    if source.labels == sources.LABELS_OF_FOLDERS:
        return Labels(source.spec, _folder_labels(source, folder, option).tolist(), are_classes=True)
    spec = source.labels or (source.spec if source.spec.endswith(".npz") else None)
    if spec is None:
        return None
    path = sources.absolute(folder, spec)
    try:
        if path.is_dir():
            return _of_pictures(path.name, read_folder(path))
        if path.suffix == ".json":
            content = _json(read_limited(path, MAX_TEXT_BYTES))
            if isinstance(content, dict) and {"images", "annotations"} <= content.keys():
                return _of_pictures(path.name, read_coco(path, content))
            return _of_values(path.name, content)
        return _labels_in(path, is_own=bool(source.labels))
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        is_text = path.is_dir() or path.suffix == ".json"
        raise failure(
            f"The labels in {path.name} cannot be read: {reason}"[:300],
            _TEXT_HINT if is_text else _ARRAY_HINT,
            Place(kind="option", id=f"{option}.labels"),
            code="labels-unreadable",
        ) from error


def _json(text: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is none.
    """
    if not text.strip():
        raise ValueError("the file is empty")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON at line {error.lineno}, column {error.colno}") from error


def _of_pictures(name: str, values: Mapping[str, Objects | Mask]) -> Labels:
    """Return labels of pictures.

    Raises:
        ValueError: They hold no object.
    """
    if not count_objects(iter(values.values())):
        raise ValueError("it holds no object")
    return Labels(name, values, are_classes=False, has_places=True)


def _of_values(name: str, values: Any) -> Labels:
    """Return the labels of a .json file.

    Raises:
        ValueError: They are no list and no object.
    """
    if not isinstance(values, list | dict) or not values:
        raise ValueError("it has neither a list of labels nor an object with labels by file name")
    listed = list(values.values()) if isinstance(values, dict) else values
    are_classes = all(isinstance(value, int) for value in listed)
    return Labels(name, values, are_classes)


def _labels_in(path: Path, *, is_own: bool) -> Labels | None:
    with open_npz(path) as loaded:
        if isinstance(loaded, np.ndarray):
            return _of_array(path.name, loaded)
        names = [n for n in loaded.files if n.lower() in LABEL_NAMES]
        if not names and is_own and len(loaded.files) > 1:
            arrays = {name: _checked(loaded[name]) for name in loaded.files}
            return Labels(path.name, _rows(arrays), are_classes=False)
        if not names and is_own:
            names = loaded.files
        return _of_array(path.name, loaded[names[0]]) if names else None


def _rows(arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
    """Return the rows of several arrays as a dictionary for each sample.

    Raises:
        ValueError: They differ in length.
    """
    counts = {len(array) for array in arrays.values()}
    if len(counts) > 1:
        raise ValueError(f"its arrays differ in length: {sorted(counts)}")
    return [{name: array[i] for name, array in arrays.items()} for i in range(counts.pop())]


def _of_array(name: str, array: np.ndarray[Any, Any]) -> Labels:
    """Return whole numbers as classes, other arrays as a row for each sample."""
    array = _checked(array)
    if array.size not in {len(array), max(array.shape)}:
        return Labels(name, array, are_classes=False)  # type: ignore[arg-type]
    flat = array.reshape(-1)
    if flat.dtype.kind in "iub" or np.array_equal(flat, np.round(flat)):
        return Labels(name, flat.astype(np.int64), are_classes=True)  # type: ignore[arg-type]
    return Labels(name, array, are_classes=False)  # type: ignore[arg-type]


def _checked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array of finite numbers.

    Raises:
        ValueError: It holds something else, or too much.
    """
    if np.size(array) > _MAX_LABELS:
        raise ValueError("there are too many labels")
    if array.dtype.kind not in "iubf":
        raise ValueError("the labels are not numbers")
    if not np.isfinite(array).all():
        raise ValueError("a label is NaN or infinite")
    return array.reshape(1) if array.ndim == 0 else array


def _folder_labels(source: DataSource, folder: Path, option: str) -> np.ndarray[Any, Any]:
    """Return the class of each picture: the number of its folder among the sorted names."""
    root = sources.absolute(folder, source.spec)
    names = [path.relative_to(root).parts[:-1] for path in sources.pictures(root)]
    classes = sorted({name[0] for name in names if name})
    if not all(names) or len(classes) < 2:
        raise failure(
            f"{root.name} does not have one folder for each class.",
            "Put every picture into the folder of its class, or give a file of labels.",
            Place(kind="option", id=f"{option}.labels"),
            code="labels-folders-missing",
        )
    return np.asarray([classes.index(name[0]) for name in names])
