"""Samples from a folder of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.data.sample import Sample, Samples, fit, wrong
from workbench.errors import Place, failure
from workbench.files import open_regular
from workbench.project import sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from workbench.project.model import DataSource, Preprocess
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec


# Formats that are decoded by the library itself: others start programs, such as Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_MAX_PIXELS = 50_000_000


def read_pictures(
    reference: Reference, source: DataSource, inputs: Sequence[TensorSpec], option: str
) -> Samples:
    """Return the pictures of a folder as samples; the first one is read immediately."""
    folder = reference.path
    assert folder is not None
    if source.preprocess is None:
        raise wrong(
            option,
            "A folder of pictures needs preprocess: size, mean and std.",
            "Set preprocess.",
            code="pictures-preprocess-missing",
        )
    if len(inputs) != 1:
        raise wrong(
            option,
            f"A folder of pictures provides one input, but the model has {len(inputs)}.",
            code="pictures-inputs-mismatch",
        )
    files, settings, spec = sources.pictures(folder), source.preprocess, inputs[0]

    def read() -> Iterator[Sample]:
        for index, file in enumerate(files):
            values = _picture(file, settings, spec.shape[-3] if len(spec.shape) > 2 else 1)
            yield Sample(index, (fit(values, spec, file.name, option),), None)

    if files:
        next(read())
    return Samples(folder.name, len(files), read)


def _picture(file: Path, settings: Preprocess, channels: int) -> np.ndarray[Any, Any]:
    """Return a picture as float32 [C, H, W]."""
    from PIL import Image

    try:
        with open_regular(file) as content, Image.open(content, formats=_FORMATS) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise ValueError("it has too many pixels")
            mode = "L" if channels == 1 else "RGB"
            height, width = settings.size
            sized = image.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
            values = np.asarray(sized, np.float32) / 255.0
    except (
        OSError,
        ValueError,
        SyntaxError,
        Image.DecompressionBombError,
    ) as error:
        raise failure(
            f"{file.name} is not a readable picture.",
            "Remove it from the folder or replace it.",
            Place(kind="file", id=file.name),
            code="picture-unreadable",
        ) from error
    values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    mean = np.asarray(settings.mean, np.float32).reshape(-1, 1, 1)
    std = np.asarray(settings.std, np.float32).reshape(-1, 1, 1)
    return ((values - mean) / std).astype(np.float32)
