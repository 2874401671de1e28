"""Samples from a folder of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.data.sample import Sample, Samples, fit, wrong
from workbench.errors import Place, failure
from workbench.project import sources
from workbench.project.pictures import channels_last, picture
from workbench.project.preprocessing import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import torch

    from workbench.project.model import DataSource, Preprocess
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec


# The longer side of a kept picture [pixels]: more is not seen.
_LONGEST = 320


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
            f"Run: workbench preprocess PROJECT {EXAMPLE}",
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
            values = picture(file, settings, spec.shape)
            inputs = (fit(values, spec, file.name, option),)
            yield Sample(index, inputs, None, file=file.relative_to(folder).as_posix())

    if files:
        _require_fit(files[0], settings, spec, option)
    return Samples(folder.name, len(files), read)


def _require_fit(file: Path, settings: Preprocess, spec: TensorSpec, option: str) -> None:
    """Check the first picture's shape and dtype against the model's input.

    Raises:
        WorkbenchError: They differ; the hint is the preprocess that would fit.
    """
    values = picture(file, settings, spec.shape)
    wanted, shape = spec.dtype, tuple(spec.shape[-3:])
    where = Place(kind="option", id=f"{option}.preprocess")
    if values.dtype != wanted:
        usual = wanted if wanted in {"float32", "uint8", "int8"} else "none: convert in a callable"
        raise failure(
            f"The pictures become {values.dtype}, but the model's input {spec.name} is {wanted}.",
            f"Use dtype={usual}.",
            where,
            code="preprocess-dtype-mismatch",
        )
    if values.shape not in {shape, tuple(spec.shape)}:
        raise failure(
            f"The pictures become {_sizes(values.shape)}, but the model's input {spec.name} "
            f"is {_sizes(spec.shape)}.",
            _remedy(settings, values.shape, shape),
            where,
            code="preprocess-shape-mismatch",
        )


def _remedy(settings: Preprocess, shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return what to change so that pictures get the wanted shape."""
    if len(wanted) != 3:
        return "Read the pictures in a callable that yields inputs of this shape."
    last = channels_last(settings, wanted)
    size = wanted[:2] if last else wanted[1:]
    channels = wanted[2] if last else wanted[0]
    hints = []
    if settings.shown != size:
        name = "crop" if settings.crop else "size"
        hints.append(f"{name}={size[0]}x{size[1]}")
    if channels != (shape[2] if last else shape[0]):
        layouts = {1: "layout=gray", 3: "layout=rgb"}
        hints.append(layouts.get(channels, f"a callable: no layout has {channels} channels"))
    return f"Use {', '.join(hints)}." if hints else "Set order to first or last."


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def picture_of(values: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """Return an input [1, C, H, W] or [1, H, W, C] as pixels [h, w, 3] (uint8).

    The smallest value is black and the largest white, whatever the normalization was. Larger ones
    are reduced to 320 pixels. None if the input is no picture with one or three channels.
    """
    from PIL import Image as pictures

    image = values[0].float().numpy() if values.ndim == 4 and len(values) == 1 else None
    if image is None or not image.size or min(image.shape[-2:]) < 2:
        return None
    if image.shape[0] in {1, 3}:
        image = image.transpose(1, 2, 0)
    if image.shape[2] not in {1, 3}:
        return None
    low, high = float(image.min()), float(image.max())
    scaled = (image - low) * (255.0 / (high - low) if high > low else 0.0)
    pixels = np.broadcast_to(scaled.round(), (*image.shape[:2], 3)).astype(np.uint8)
    longest = max(pixels.shape[:2])
    if longest <= _LONGEST:
        return pixels
    height, width = (max(1, side * _LONGEST // longest) for side in pixels.shape[:2])
    return np.asarray(pictures.fromarray(pixels).resize((width, height), pictures.Resampling.BOX))


def size_of(values: torch.Tensor) -> tuple[int, int]:
    """Return the width and height of an input that is a picture [pixels]; (0, 0) of others."""
    if values.ndim != 4:
        return 0, 0
    rows, columns = values.shape[2:] if values.shape[1] in {1, 3} else values.shape[1:3]
    return int(columns), int(rows)
