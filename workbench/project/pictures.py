"""Pictures as the arrays that a model takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import Place, failure
from workbench.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL.Image import Image

    from workbench.project.model import Preprocess

# Formats that are decoded by the library itself: others start programs, such as Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_MAX_PIXELS = 50_000_000
# A progressive JPEG has about ten scans, each of which costs a pass over all pixels.
_MAX_SCANS, _SCAN = 64, b"\xff\xda"
_MAX_JPEG_BYTES, _BLOCK_BYTES = 512 << 20, 1 << 20


def picture(file: Path, settings: Preprocess, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return a picture as a model with this input shape takes it.

    Args:
        file: The picture.
        settings: Size, crop, layout, dtype, normalization and order.
        shape: The shape of the model's input; it decides what is ``auto``.

    Returns:
        An array [C, H, W], or [H, W, C] with the channels last, in ``settings.dtype``.

    Raises:
        WorkbenchError: The file is not a readable picture, or mean and std do not fit its channels.
    """
    from PIL import Image as pictures

    last = channels_last(settings, shape)
    channels = shape[-1] if last else shape[-3] if len(shape) > 2 else 1
    gray = settings.layout == "gray" or (settings.layout == "auto" and channels == 1)
    try:
        with open_regular(file) as content, pictures.open(content, formats=_FORMATS) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise ValueError("it has too many pixels")
            if image.format == "JPEG":
                _refuse_many_scans(file)
            pixels = np.array(_sized(image.convert("L" if gray else "RGB"), settings), np.uint8)
    except Exception as error:  # Decoders raise of every kind: TypeError, IndexError, struct.error.
        raise failure(
            f"{file.name} is not a readable picture.",
            "Remove it from the folder or replace it.",
            Place(kind="file", id=file.name),
            code="picture-unreadable",
        ) from error
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if settings.layout == "bgr":
        pixels = pixels[:, :, ::-1]
    values = normalized(pixels, settings)
    return values if last else values.transpose(2, 0, 1)


def _refuse_many_scans(file: Path) -> None:
    """Refuse a JPEG that is decoded in more passes than pictures have.

    Raises:
        ValueError: it has too many scans.
        OSError: it cannot be read.
    """
    scans = total = 0
    last = b""
    with open_regular(file) as content:
        while block := content.read(_BLOCK_BYTES):
            scans += (last + block).count(_SCAN)
            total += len(block)
            last = block[-1:]
            if scans > _MAX_SCANS or total > _MAX_JPEG_BYTES:
                raise ValueError("it has too many scans")


def channels_last(settings: Preprocess, shape: Sequence[int]) -> bool:
    """Return whether a model with this input shape takes the channels last."""
    if settings.order != "auto" or len(shape) < 3:
        return settings.order == "last"
    return shape[-3] not in {1, 3} and shape[-1] in {1, 3}


def _sized(image: Image, settings: Preprocess) -> Image:
    """Return a picture in the size of the settings: stretched, or covering and cropped."""
    from PIL.Image import Resampling

    way = Resampling[settings.filter.upper()]
    height, width = settings.size
    if settings.crop is None:
        return image.resize((width, height), way)
    # As torchvision: the longer side is truncated, and the offset of the crop rounded.
    if image.width * height <= image.height * width:
        covering = (width, max(height, image.height * width // image.width))
    else:
        covering = (max(width, image.width * height // image.height), height)
    rows, columns = settings.crop
    top = round((covering[1] - rows) / 2)
    left = round((covering[0] - columns) / 2)
    return image.resize(covering, way).crop((left, top, left + columns, top + rows))


def normalized(pixels: np.ndarray[Any, Any], settings: Preprocess) -> np.ndarray[Any, Any]:
    """Return pixels [..., C] (uint8) as values in the settings' dtype.

    Raises:
        WorkbenchError: mean or std have neither one number nor one per channel.
    """
    if settings.dtype == "uint8":
        return pixels
    if settings.dtype == "int8":
        return (pixels.astype(np.int16) - 128).astype(np.int8)
    channels = pixels.shape[-1]
    for name, numbers in (("mean", settings.mean), ("std", settings.std)):
        if len(numbers) not in {1, channels}:
            raise failure(
                f"{name} has {len(numbers)} numbers, but the pictures have {channels} channels.",
                f"Give one number, or {channels} separated by slashes.",
                Place(kind="option", id="preprocess"),
                code="preprocess-channels-mismatch",
            )
    values = pixels.astype(np.float32) / np.float32(settings.scale)
    mean, std = (np.asarray(numbers, np.float32) for numbers in (settings.mean, settings.std))
    return ((values - mean) / std).astype(np.float32)
