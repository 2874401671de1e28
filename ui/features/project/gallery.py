"""The gallery of samples. Opening one copies it to a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import wrap

from PySide6.QtCore import QSize, QStandardPaths, Qt, Signal
from PySide6.QtGui import QKeyEvent
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
from workbench.samples import SAMPLES, Sample

_COLUMNS = 3
_PICTURE = QSize(48, 48)
_TILE_PX = (176, 118)
# What a tile needs beside the lines of a sample's purpose [px].
_INSET_PX = 16


def documents() -> Path:
    """Return the user's folder of documents."""
    folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
    return Path(folder) if folder and os.path.isdir(folder) else Path.home()


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
        for index, sample in enumerate(SAMPLES):
            tile = QToolButton(self)
            tile.setObjectName("SampleTile")
            purpose = "\n".join(_lines(sample.purpose, tile))
            tile.setText(f"{sample.title}\n{purpose}")
            tile.setToolTip(f"{sample.purpose}. Copies the sample to a folder that you choose.")
            tile.setAccessibleName(f"Sample {sample.title}")
            tile.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
            tile.setIconSize(_PICTURE)
            tile.setMinimumSize(*_TILE_PX)
            tile.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            tile.clicked.connect(partial(self._on_clicked, sample))
            grid.addWidget(tile, index // _COLUMNS, index % _COLUMNS)
            self.tiles.append(tile)
        for column in range(_COLUMNS):
            grid.setColumnStretch(column, 1)
            grid.setColumnMinimumWidth(column, _TILE_PX[0])
        self.set_theme(theme())

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for tile, sample in zip(self.tiles, SAMPLES, strict=True):
            tile.setIcon(picture(sample.picture, theme.accent, _PICTURE.width()))

    def _on_clicked(self, sample: Sample) -> None:
        self.chosen.emit(sample)


def _lines(text: str, tile: QToolButton) -> list[str]:
    """Return the lines of a text that fit the narrowest tile."""
    tile.ensurePolished()
    advance, room = tile.fontMetrics().horizontalAdvance, _TILE_PX[0] - _INSET_PX
    letters = len(text)
    while letters > 1 and any(advance(line) > room for line in wrap(text, letters)):
        letters -= 1
    return wrap(text, letters)


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
        # Enter opens the sample that has the focus.
        buttons.button(QDialogButtonBox.StandardButton.Cancel).setAutoDefault(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(12)
        layout.addWidget(self.gallery)
        layout.addWidget(buttons)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        focused = self.focusWidget()
        is_enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        if is_enter and isinstance(focused, QToolButton):
            focused.click()
        else:
            super().keyPressEvent(event)

    def _on_chosen(self, sample: Sample) -> None:
        self.accept()
        self.chosen.emit(sample)
