"""Pictures, and masks of them, as the arrays that a model takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import Place, WorkbenchError, failure
from workbench.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL.Image import Image

    from workbench.project.model import Preprocess

# Formats that are decoded by the library itself: others start programs, such as Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
# A decoder takes up to 8 bytes for each pixel and the conversion 3, within 500 MB.
_MAX_PIXELS = 50_000_000
# That of WebP holds two frames of 4 bytes and a copy, that of a progressive JPEG in CMYK all coefficients.
_MAX_WEBP_PIXELS, _MAX_CMYK_PIXELS = 30_000_000, 40_000_000
# A progressive JPEG has about ten scans, each of which costs a pass over all pixels.
_MAX_SCANS, _SCAN = 64, b"\xff\xda"
_MAX_JPEG_BYTES, _BLOCK_BYTES = 512 << 20, 1 << 20
# Narrower arrays are rather series or vectors.
_LEAST_SIDE = 4


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
            if image.width * image.height > _most_pixels(image):
                raise ValueError("it has too many pixels")
            if image.format == "JPEG":
                _refuse_many_scans(file)
            pixels = np.array(_sized(image.convert("L" if gray else "RGB"), settings), np.uint8)
    except Exception as error:  # Decoders raise of every kind: TypeError, IndexError, struct.error.
        raise _unreadable(file) from error
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if settings.layout == "bgr":
        pixels = pixels[:, :, ::-1]
    values = normalized(pixels, settings)
    return values if last else values.transpose(2, 0, 1)


def _most_pixels(image: Image) -> int:
    """Return how many pixels of a picture of this form are decoded within 500 MB."""
    if image.format == "WEBP":
        return _MAX_WEBP_PIXELS
    return _MAX_CMYK_PIXELS if image.mode == "CMYK" else _MAX_PIXELS


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


@dataclass(frozen=True)
class Placement:
    """Where a resized picture is in the model's input [pixels].

    ``width`` and ``height`` are those of the resized picture, ``left`` and ``top`` the place of its
    corner: negative where it is cropped.
    """

    width: int
    height: int
    left: int = 0
    top: int = 0


def placement(size: tuple[int, int], settings: Preprocess) -> Placement:
    """Return where a picture of this width and height [pixels] is in the model's input.

    It is stretched; or covers the size and is cropped, as torchvision does it: the longer side is
    truncated, and the offset of the crop rounded; or fits into the size, in the middle of a border.
    """
    height, width = settings.size
    is_narrow = size[0] * height <= size[1] * width
    if settings.letterbox is not None:
        scale = height / size[1] if is_narrow else width / size[0]
        inner = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
        return Placement(*inner, (width - inner[0]) // 2, (height - inner[1]) // 2)
    if settings.crop is None:
        return Placement(width, height)
    if is_narrow:
        covering = (width, max(height, size[1] * width // size[0]))
    else:
        covering = (max(width, size[0] * height // size[1]), height)
    rows, columns = settings.crop
    left, top = round((covering[0] - columns) / 2), round((covering[1] - rows) / 2)
    return Placement(*covering, -left, -top)


def picture_size(file: Path) -> tuple[int, int]:
    """Return the width and height of a picture [pixels], from its header.

    Raises:
        WorkbenchError: The file is not a readable picture.
    """
    from PIL import Image as pictures

    try:
        with open_regular(file) as content, pictures.open(content, formats=_FORMATS) as image:
            return image.size
    except Exception as error:  # Decoders raise of every kind.
        raise _unreadable(file) from error


def read_mask(file: Path, settings: Preprocess | None, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Return the classes that a picture's pixels are, as the model sees the picture [H, W] (uint8).

    Args:
        file: A picture with gray levels, or with a palette whose numbers are the classes.
        settings: How the picture itself is read; None for samples from arrays.
        size: Width and height of the model's input [pixels].

    Returns:
        Classes, nearest neighbours where the size differs; 255 in the border of a letterbox.

    Raises:
        WorkbenchError: The file is not such a picture.
    """
    from PIL import Image as pictures

    try:
        with open_regular(file) as content, pictures.open(content, formats=("PNG",)) as image:
            if image.mode not in {"L", "P", "1"} or image.width * image.height > _MAX_PIXELS:
                raise ValueError("its pixels are not classes")
            if settings is None:
                return np.array(image.resize(size, pictures.Resampling.NEAREST), np.uint8)
            border = None if settings.letterbox is None else 255
            near = settings.model_copy(update={"filter": "nearest", "letterbox": border})
            return np.array(_sized(image, near), np.uint8)
    except Exception as error:  # Decoders raise of every kind.
        raise failure(
            f"{file.name} is not a mask.",
            "A mask is a .png with gray levels or a palette: the number of a pixel is its class.",
            Place(kind="file", id=file.name),
            code="mask-unreadable",
        ) from error


def _unreadable(file: Path) -> WorkbenchError:
    return failure(
        f"{file.name} is not a readable picture.",
        "Remove it from the folder or replace it.",
        Place(kind="file", id=file.name),
        code="picture-unreadable",
    )


def channels_last(settings: Preprocess | None, shape: Sequence[int]) -> bool:
    """Return whether the channels of a model's input with this shape come last."""
    if len(shape) < 3 or (settings is not None and settings.order != "auto"):
        return settings is not None and settings.order == "last"
    return shape[-3] not in {1, 3} and shape[-1] in {1, 3}


def _sized(image: Image, settings: Preprocess) -> Image:
    """Return a picture in the size of the settings."""
    from PIL import Image as pictures

    place = placement((image.width, image.height), settings)
    resized = image.resize((place.width, place.height), pictures.Resampling[settings.filter.upper()])
    height, width = settings.shown
    if settings.letterbox is not None:
        border = pictures.new(image.mode, (width, height), (settings.letterbox,) * len(image.mode))
        border.paste(resized, (place.left, place.top))
        return border
    if settings.crop is None:
        return resized
    return resized.crop((-place.left, -place.top, width - place.left, height - place.top))


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


def pixels_of(sample: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return an array as a picture to look at [H, W, 3] (uint8).

    Args:
        sample: [H, W], [C, H, W] or [H, W, C], with one or three channels.

    Returns:
        Pixels, of which the smallest value is black and the largest white, whatever the
        normalization was; None if the array has not the shape of a picture.
    """
    if sample.ndim == 3 and sample.shape[0] in {1, 3}:
        sample = np.moveaxis(sample, 0, -1)
    if sample.ndim == 2:
        sample = sample[..., None]
    if sample.ndim != 3 or sample.shape[-1] not in {1, 3} or min(sample.shape[:2]) < _LEAST_SIDE:
        return None
    values = np.asarray(sample, np.float32)
    with np.errstate(all="ignore"):  # Values that are infinite or no numbers have no shade.
        low, high = float(values.min()), float(values.max())
        scaled = (255 * (values - low) / ((high - low) or 1.0)).round().astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(scaled, (*scaled.shape[:2], 3)))
