"""Arrays of pixels as images of Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtGui import QImage

if TYPE_CHECKING:
    import numpy as np


def image_of(pixels: np.ndarray[Any, Any]) -> QImage:
    """Return pixels [H, W, 3] (uint8) as an image."""
    height, width = pixels.shape[:2]
    data = pixels.tobytes()
    return QImage(data, width, height, 3 * width, QImage.Format.Format_RGB888).copy()
