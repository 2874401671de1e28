"""The drawing as a file: what the window shows, as an image or as vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgGenerator

from workbench.errors import Place, failure

if TYPE_CHECKING:
    from pathlib import Path

    from ui.graph.painting import GraphPainter
    from ui.graph.picture import Picture

SHARPNESS = 2


def _still(picture: Picture) -> Picture:
    """Return the picture without what is only there for the mouse."""
    return replace(picture, hovered=None, current=None, origins={}, progress=1.0)


def write_png(graph: GraphPainter, picture: Picture, path: Path) -> None:
    """Write a picture as PNG.

    Raises:
        WorkbenchError: the file cannot be written.
    """
    size = picture.size.toSize()
    image = QImage(size * SHARPNESS, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SHARPNESS)
    painter = QPainter(image)
    graph.paint(painter, _still(picture), with_map=False)
    painter.end()
    if not QImageWriter(str(path), b"png").write(image):
        raise _unwritable(path)


def write_svg(graph: GraphPainter, picture: Picture, path: Path) -> None:
    """Write a picture as SVG.

    Raises:
        WorkbenchError: the file cannot be written.
    """
    try:
        path.touch()
    except OSError as error:
        raise _unwritable(path) from error
    size: QSize = picture.size.toSize()
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle(f"Graph, level {picture.scene.hierarchy.snapshot.level}")
    painter = QPainter(generator)
    graph.paint(painter, _still(picture), with_map=False)
    painter.end()


def _unwritable(path: Path) -> Exception:
    place = Place(kind="file", id=path.name)
    return failure(f"'{path.name}' cannot be written.", "Choose a folder you may write to.", place)
