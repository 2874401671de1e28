"""Samples from a folder of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.data.sample import Sample, Samples, fit, wrong
from workbench.errors import Place, failure
from workbench.project import sources
from workbench.project.pictures import channels_last, picture
from workbench.project.preprocessing import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from workbench.project.model import DataSource, Preprocess
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec


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
