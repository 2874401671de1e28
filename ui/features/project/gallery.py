"""The gallery of samples. Opening one copies it to a folder of the user."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSize, QStandardPaths, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.theme import Theme, picture
from workbench.errors import Place, failure
from workbench.installation import resources

_COLUMNS = 3
_PICTURE = QSize(48, 48)
_TILE_PX = (176, 118)


@dataclass(frozen=True)
class Sample:
    """A sample: its folder and project below ``resources/samples``, title, purpose and picture."""

    folder: str
    project: str
    title: str
    purpose: str
    picture: str


SAMPLES: tuple[Sample, ...] = (
    Sample("digits", "digits.qwb", "Digits", "A trained residual network with data and labels",
           "sample-digits"),
    Sample("mobilenet_v2", "mobilenet_v2.qwb", "MobileNetV2", "Image classification, 53 layers",
           "sample-picture"),
    Sample("mlperf_tiny", "keyword_spotting.qwb", "Keyword spotting", "MLPerf Tiny, DS-CNN",
           "sample-sound"),
    Sample("mlperf_tiny", "image_classification.qwb", "Image classification",
           "MLPerf Tiny, ResNet-8", "sample-picture"),
    Sample("mlperf_tiny", "visual_wake_words.qwb", "Visual wake words",
           "MLPerf Tiny, MobileNetV1", "sample-eye"),
    Sample("mlperf_tiny", "anomaly_detection.qwb", "Anomaly detection",
           "MLPerf Tiny, autoencoder", "sample-machine"),
)  # fmt: skip


def documents() -> Path:
    """Return the user's folder of documents."""
    place = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
    return Path(place) if place and Path(place).is_dir() else Path.home()


def copy_sample(sample: Sample, folder: Path) -> Path:
    """Copy a sample into a new folder below ``folder`` and return its project.

    Raises:
        WorkbenchError: the files cannot be written.
    """
    target, number = folder / sample.folder, 1
    while target.exists():
        number += 1
        target = folder / f"{sample.folder}-{number}"
    try:
        shutil.copytree(
            resources() / "samples" / sample.folder, target,
            ignore=shutil.ignore_patterns(".*", "__pycache__"),
        )  # fmt: skip
    except OSError as error:
        raise failure(
            f"The sample cannot be copied to {target}: {error.strerror or error}.",
            "Choose a folder that you may write to.",
            Place(kind="file", id=str(target)),
            code="sample-not-copied",
        ) from error
    return target / sample.project


class SampleGallery(QWidget):
    """A grid with a tile for every sample.

    Signals:
        chosen: the ``Sample`` to copy and open.
    """

    chosen = Signal(object)

    def __init__(self, theme: Callable[[], Theme], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.tiles: list[QToolButton] = []
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(8)
        for place, sample in enumerate(SAMPLES):
            tile = QToolButton(self)
            tile.setObjectName("SampleTile")
            tile.setText(f"{sample.title}\n{sample.purpose}")
            tile.setToolTip(f"{sample.purpose}. Copies the sample to a folder that you choose.")
            tile.setAccessibleName(f"Sample {sample.title}")
            tile.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
            tile.setIconSize(_PICTURE)
            tile.setMinimumSize(*_TILE_PX)
            tile.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            tile.clicked.connect(partial(self._on_clicked, sample))
            grid.addWidget(tile, place // _COLUMNS, place % _COLUMNS)
            self.tiles.append(tile)
        self.set_theme(theme())

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for tile, sample in zip(self.tiles, SAMPLES, strict=True):
            tile.setIcon(picture(sample.picture, theme.accent, _PICTURE.width()))

    def _on_clicked(self, sample: Sample) -> None:
        self.chosen.emit(sample)


class GalleryDialog(QDialog):
    """The gallery in a dialog.

    Signals:
        chosen: the ``Sample`` to copy and open.
    """

    chosen = Signal(object)

    def __init__(self, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Open a sample")
        self.gallery = SampleGallery(theme, self)
        self.gallery.chosen.connect(self._on_chosen)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(12)
        layout.addWidget(self.gallery)
        layout.addWidget(buttons)

    def _on_chosen(self, sample: Sample) -> None:
        self.accept()
        self.chosen.emit(sample)
