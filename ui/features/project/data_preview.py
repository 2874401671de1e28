"""A preview of a data source: its size, and a few samples as pictures."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QImage, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.shared.labels import Label
from ui.shared.pixels import image_of
from workbench.errors import WorkbenchError, reason_of
from workbench.npz import ZIP_ERRORS, array_header, open_npz
from workbench.text import plural

if TYPE_CHECKING:
    from zipfile import ZipFile

    import numpy as np

_LABELS = frozenset({"labels", "label", "y", "targets", "target"})
_SHOWN = 4
PICTURE_PX = 40
# Arrays that are named, letters of all, and bytes of the one whose samples are shown.
_MOST_ARRAYS, _MOST_LETTERS, _MOST_BYTES = 100, 600, 64 << 20
# Files of a folder that are counted while a path is typed, on the window's thread.
MOST_FILES = 20_000


Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class DataSummary:
    """What a data source holds.

    ``shapes`` are those of one sample with a batch axis of 1, one for each input; empty where they
    follow from the preprocessing or from code; ``samples`` is their number, 0 if unknown.
    ``has_labels`` is whether it has one class for each sample; ``images`` are some samples.
    """

    text: str
    shapes: Shapes = ()
    has_labels: bool = False
    images: tuple[QImage, ...] = ()
    samples: int = 0


def differences(data: DataSummary, evaluation: DataSummary) -> str:
    """Return how the inputs of two sources differ; "" if they do not, or are not known."""
    if not data.shapes or not evaluation.shapes or data.shapes == evaluation.shapes:
        return ""
    if len(data.shapes) != len(evaluation.shapes):
        numbers = len(data.shapes), len(evaluation.shapes)
        names = " or ".join(sorted(_LABELS))
        return (
            f"The calibration data has {plural(numbers[0], 'input')}, the evaluation data {numbers[1]}. "
            f"An array of labels is named {names}."
        )
    texts = ["; ".join("x".join(map(str, shape[1:])) for shape in one.shapes) for one in (data, evaluation)]
    return f"Samples of the calibration data are {texts[0]}, those of the evaluation data {texts[1]}."


def other_shapes(data: DataSummary, inputs: str) -> str:
    """Return that samples have other shapes than the inputs, e.g. "1x3x8x8,1x4"; "" if not, or not known.

    The batch axis may differ.
    """
    samples = ["x".join(map(str, shape[1:])) for shape in data.shapes]
    needed = [text.partition("x")[2].strip() for text in inputs.replace(";", ",").split(",")]
    if not samples or samples == needed:
        return ""
    return f"Samples of the calibration data are {'; '.join(samples)}, the input shapes {inputs}."


def lacking_labels(path: Path, summary: DataSummary) -> str:
    """Return that a file of labels has another number than there are samples; "" if not, or not known."""
    counted = _label_count(path)
    if counted is None or summary.samples in {0, counted}:
        return ""
    return f"{path.name} has {plural(counted, 'label')} for {plural(summary.samples, 'sample')}."


def _label_count(path: Path) -> int | None:
    """Return how many labels a file of arrays has; None if it is none, or cannot be read."""
    if path.suffix not in {".npz", ".npy"} or not os.path.isfile(path):
        return None
    try:
        with open_npz(path) as loaded:
            is_one = not hasattr(loaded, "zip")
            shapes = {"": loaded.shape} if is_one else {n: s for n, (s, _) in _headers(loaded.zip).items()}
    except (*ZIP_ERRORS, TypeError):
        return None
    named = [shape for name, shape in shapes.items() if name.lower() in _LABELS]
    shape = next(iter(named or shapes.values()), ())
    return shape[0] if shape else 0


def summary_of(path: Path) -> DataSummary:
    """Return what a file or folder of data holds; the text says why if it cannot be read."""
    if os.path.isdir(path):
        return _of_folder(path)
    if path.suffix not in {".npz", ".npy"}:
        return DataSummary("")
    try:
        return _of_arrays(path)
    except (*ZIP_ERRORS, TypeError) as error:
        return DataSummary(f"{path.name} cannot be read: {reason_of(error)}."[:_MOST_LETTERS])


def _of_folder(path: Path) -> DataSummary:
    # Imported late: the start of the window needs no numpy.
    from workbench.project.sources import pictures

    try:
        files = pictures(path, MOST_FILES)
    except WorkbenchError:
        return DataSummary(f"More than {MOST_FILES:,} files, counted when the project runs.")
    folders = {file.parent for file in files} - {path}
    text = plural(len(files), "picture")
    text += f" in {plural(len(folders), 'folder')}" if folders else ""
    step = max(1, len(files) // _SHOWN)
    images = [image for file in files[::step][:_SHOWN] if (image := _image(file)) is not None]
    return DataSummary(text, has_labels=len(folders) > 1, images=tuple(images))


def _image(file: Path) -> QImage | None:
    """Return a picture of at most twice the size that is shown; None if it cannot be read."""
    from workbench.project.model import Preprocess
    from workbench.project.pictures import picture, picture_size

    try:
        width, height = picture_size(file)
        scale = 2 * PICTURE_PX / max(width, height)
        size = max(1, round(height * scale)), max(1, round(width * scale))
        settings = Preprocess(size=size, dtype="uint8", layout="rgb", order="last")
        return image_of(picture(file, settings, (1, *size, 3)))
    except WorkbenchError:
        return None


def _of_arrays(path: Path) -> DataSummary:
    """Return what a file of arrays holds, from their headers and a few samples of the first input.

    Raises:
        OSError, ValueError, TypeError, zipfile.BadZipFile: it cannot be read, or is damaged.
    """
    with open_npz(path) as loaded:
        is_one = not hasattr(loaded, "zip")
        arrays = {path.stem: (loaded.shape, loaded.dtype)} if is_one else _headers(loaded.zip)
        inputs = {n: (s, t) for n, (s, t) in arrays.items() if n.lower() not in _LABELS and s}
        first = next(iter(inputs), None)
        images: list[QImage] = []
        if first is not None and (is_one or _size(*inputs[first]) <= _MOST_BYTES):
            images = _samples(loaded if is_one else loaded[first])
    parts = [f"{name} {'x'.join(map(str, shape[1:]))} {dtype}" for name, (shape, dtype) in inputs.items()]
    number = min((shape[0] for shape, _ in inputs.values()), default=0)
    has_labels = len(inputs) < len(arrays)
    text = f"{plural(number, 'sample')}: {', '.join(parts)}" + (", labels" if has_labels else "")
    shapes = tuple((1, *shape[1:]) for shape, _ in inputs.values())
    return DataSummary(text[:_MOST_LETTERS], shapes, has_labels, tuple(images), number)


def _headers(archive: ZipFile) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of the arrays in an .npz file by name; without what is no array."""
    headers = {}
    for name in archive.namelist()[:_MOST_ARRAYS]:
        if name.endswith(".npy"):
            with archive.open(name) as file:
                shape, _, dtype = array_header(file)
            headers[name.removesuffix(".npy")] = (shape, dtype)
    return headers


def _size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


def _samples(array: np.ndarray[Any, Any]) -> list[QImage]:
    """Return some samples as pictures; none if they are no pictures, or very large."""
    from workbench.project.pictures import pixels_of

    if array.dtype.kind not in "biuf" or _size(array.shape[1:], array.dtype) > _MOST_BYTES // _SHOWN:
        return []
    step = max(1, len(array) // _SHOWN)
    pixels = map(pixels_of, array[::step][:_SHOWN])
    return [image_of(one) for one in pixels if one is not None]


class _FlatLabel(Label):
    """A wrapped text that asks for one line: Qt's asks for the lines of a narrow column."""

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(self.text()) + 1, metrics.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.fontMetrics().height())


class DataPreview(QWidget):
    """Shows a summary as text and pictures; hidden without one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = _FlatLabel(self)
        self.text.setObjectName("Hint")
        self.text.setWordWrap(True)
        self.pictures = [Label(self) for _ in range(_SHOWN)]
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for label in self.pictures:
            layout.addWidget(label)
        layout.addWidget(self.text, 1)
        self.render_summary(None)

    def render_summary(self, summary: DataSummary | None) -> None:
        """Show a summary; None shows nothing."""
        self.setVisible(summary is not None and bool(summary.text))
        images = summary.images if summary is not None else ()
        self.text.setText(summary.text if summary is not None else "")
        for index, label in enumerate(self.pictures):
            label.setVisible(index < len(images))
            if index < len(images):
                pixmap = QPixmap.fromImage(images[index]).scaled(
                    PICTURE_PX, PICTURE_PX, Qt.AspectRatioMode.KeepAspectRatio
                )
                label.setPixmap(pixmap)
