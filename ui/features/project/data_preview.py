"""A preview of a data source: its size, and a few samples as pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.shared.labels import Label
from ui.shared.pixels import image_of
from workbench.npz import ZIP_ERRORS
from workbench.text import plural

if TYPE_CHECKING:
    import numpy as np

_LABELS = frozenset({"labels", "label", "y", "targets", "target"})
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
_SHOWN = 4
_SIDE_PX = 40
_MOST_FILES = 100_000


@dataclass(frozen=True)
class DataSummary:
    """What a data source holds.

    ``shapes`` are those of one sample with a batch axis of 1, one for each input; empty where they
    follow from the preprocessing or from code. ``has_labels`` is whether it has one class for each
    sample; ``images`` are some samples.
    """

    text: str
    shapes: tuple[tuple[int, ...], ...] = ()
    has_labels: bool = False
    images: tuple[QImage, ...] = ()


def summary_of(path: Path) -> DataSummary:
    """Return what a file or folder of data holds; the text says why if it cannot be read."""
    if os.path.isdir(path):
        return _of_folder(path)
    if path.suffix not in {".npz", ".npy"}:
        return DataSummary("")
    import numpy as np

    try:
        if path.suffix == ".npy":
            return _of_arrays({path.stem: np.load(path, mmap_mode="r", allow_pickle=False)})
        with np.load(path, allow_pickle=False) as file:
            return _of_arrays({name: file[name] for name in file.files})
    except ZIP_ERRORS as error:
        return DataSummary(f"{path.name} cannot be read: {error}.")


def _of_folder(path: Path) -> DataSummary:
    files = []
    for number, file in enumerate(sorted(path.rglob("*"))):
        if number > _MOST_FILES:
            break
        if file.suffix.lower() in _PICTURES:
            files.append(file)
    folders = {file.parent for file in files} - {path}
    text = plural(len(files), "picture")
    text += f" in {plural(len(folders), 'folder')}" if folders else ""
    step = max(1, len(files) // _SHOWN)
    images = [QImage(str(file)) for file in files[::step][:_SHOWN]]
    return DataSummary(text, has_labels=len(folders) > 1, images=tuple(images))


def _of_arrays(arrays: dict[str, np.ndarray[Any, Any]]) -> DataSummary:
    inputs = {n: a for n, a in arrays.items() if n.lower() not in _LABELS and a.ndim > 0}
    parts = [f"{name} {'x'.join(map(str, a.shape[1:]))} {a.dtype}" for name, a in inputs.items()]
    number = min((len(array) for array in inputs.values()), default=0)
    has_labels = len(inputs) < len(arrays)
    text = f"{plural(number, 'sample')}: {', '.join(parts)}" + (", labels" if has_labels else "")
    shapes = tuple((1, *(int(size) for size in a.shape[1:])) for a in inputs.values())
    # Imported late: the start of the window needs no numpy.
    from workbench.project.pictures import pixels_of

    images: list[QImage] = []
    for array in list(inputs.values())[:1]:
        step = max(1, len(array) // _SHOWN)
        pixels = map(pixels_of, array[::step][:_SHOWN])
        images = [image_of(one) for one in pixels if one is not None]
    return DataSummary(text, shapes, has_labels, tuple(images))


class DataPreview(QWidget):
    """Shows a summary as text and pictures; hidden without one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = Label(self)
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
                    _SIDE_PX, _SIDE_PX, Qt.AspectRatioMode.KeepAspectRatio
                )
                label.setPixmap(pixmap)
