"""Samples from a folder of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.data.sample import Sample, Samples, fit, wrong
from workbench.errors import Place, failure
from workbench.project import sources
from workbench.project.pictures import channels_last, picture, pixels_of
from workbench.project.preprocessing import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import torch

    from workbench.project.model import DataSource, Preprocess
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec


# The longer side of a kept picture [pixels]: more is not seen.
_LONGEST = 320
_HELD_BYTES = 64 << 20


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


def _remedy(settings: Preprocess, shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Return what to change so that pictures get the wanted shape."""
    if len(expected) != 3:
        return "Read the pictures in a callable that yields inputs of this shape."
    last = channels_last(settings, expected)
    size = expected[:2] if last else expected[1:]
    channels = expected[2] if last else expected[0]
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


class ShownInputs:
    """The first inputs of samples, of which some are shown as pictures in the end.

    They are held as they are while they take less than 64 MB together, then as pixels.
    """

    def __init__(self) -> None:
        self._inputs: dict[int, torch.Tensor] = {}
        self._pixels: dict[int, np.ndarray[Any, Any]] = {}
        self._bytes = 0

    def add(self, sample: Sample) -> None:
        """Hold the first input of a sample, if it has the rank of a picture."""
        values = sample.inputs[0]
        if values.ndim != 4 or len(values) != 1:
            return
        if self._bytes + values.nbytes <= _HELD_BYTES:
            self._inputs[sample.index] = values
            self._bytes += values.nbytes
        elif (pixels := _reduced(values)) is not None:
            self._pixels[sample.index] = pixels

    def pictures(self, samples: Iterable[int]) -> dict[int, np.ndarray[Any, Any]]:
        """Return the pictures [H, W, 3] (uint8) of some samples, without those that have none."""
        known = {
            sample: _reduced(self._inputs[sample]) if sample in self._inputs else self._pixels.get(sample)
            for sample in samples
        }
        return {sample: pixels for sample, pixels in known.items() if pixels is not None}


def _reduced(values: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """Return an input [1, C, H, W] or [1, H, W, C] as pixels with at most 320 on a side."""
    from PIL import Image as pictures

    pixels = pixels_of(values[0].float().numpy())
    if pixels is None or max(pixels.shape) <= _LONGEST:
        return pixels
    sides = pixels.shape[1::-1]
    width, height = (max(1, side * _LONGEST // max(sides)) for side in sides)
    return np.asarray(pictures.fromarray(pixels).resize((width, height), pictures.Resampling.BOX))


def size_of(values: torch.Tensor) -> tuple[int, int]:
    """Return the width and height of an input that is a picture [pixels]; (0, 0) of others."""
    if values.ndim != 4:
        return 0, 0
    rows, columns = values.shape[2:] if values.shape[1] in {1, 3} else values.shape[1:3]
    return int(columns), int(rows)
